"""Laws of a run folder with paths as evidence: saved is loaded, and what cannot be walked is refused."""

import math
import shutil
from dataclasses import replace

import pytest
import torch

from folders import CONTRAST, FIT, edit_tensors, learned, remove, reseal, with_id, write
from laws import refused
from procrustes_kge.errors import InputError
from procrustes_kge.models.ranking import rank
from procrustes_kge.models.with_paths import WithPaths
from procrustes_kge.runs.examining import examine
from procrustes_kge.runs.export import exported_tables
from procrustes_kge.runs.store import load, load_run, save
from procrustes_kge.training.paths import with_paths
from procrustes_kge.training.supervised import train
from toys import rotated_graph, same, small_settings

PATHS = "paths.safetensors"


@pytest.fixture(scope="module")
def weighed():
    """A model with paths, its graph and its settings."""
    model, graph, settings = learned(CONTRAST)
    found = with_paths(model, graph).model
    return replace(found, worth=torch.full_like(found.worth, 0.5)), graph, settings


@pytest.fixture(scope="module")
def saved(weighed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "run"
    save(*_arguments(folder, *weighed))
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "run")


def _arguments(folder, model, graph, settings):
    return model, folder, graph, settings


def same_evidence(one, other):
    tables = other.evidence_tables()
    return all(table.equal(tables[name]) for name, table in one.evidence_tables().items())


def test_saved_is_loaded(weighed, saved):
    model, graph, _ = weighed
    run = load_run(saved)
    assert isinstance(run.model, WithPaths)
    assert same(run.model.embedding, model.embedding)
    assert same_evidence(run.model, model)
    assert rank(run.model, run.graph, graph.test).realistic.equal(rank(model, graph, graph.test).realistic)
    assert examine(saved).sound
    assert "with paths" in repr(run)


def test_a_baseline_with_paths_is_loaded(tmp_path):
    graph, settings = rotated_graph(), small_settings("distmult", epochs=1)
    model = with_paths(train(graph, settings), graph).model
    save(model, tmp_path / "run", graph, settings)
    loaded = load(tmp_path / "run")
    assert same(loaded.embedding, model.embedding)
    assert same_evidence(loaded, model)


def test_relations_may_be_left_out(tmp_path):
    model, graph, settings = learned(FIT)
    save(with_paths(model, graph).model, tmp_path / "run", graph, settings, relations=False)
    restored = load(tmp_path / "run")
    torch.testing.assert_close(restored.embedding.rotations, model.rotations, atol=1e-4, rtol=0)


def test_vectors_are_exported_as_those_of_the_embedding(weighed):
    model, *_ = weighed
    for what in ("entities", "relations"):
        theirs = exported_tables(model.embedding, what)
        assert {name: table.tolist() for name, table in exported_tables(model, what).items()} == {
            name: table.tolist() for name, table in theirs.items()
        }


def test_without_the_graph_it_leads_through_nothing_is_saved(weighed, tmp_path):
    model, graph, settings = weighed
    for other in (None, replace(graph, train=graph.train[1:])):
        message = refused(
            lambda given=other: save(model, tmp_path / "run", given, settings if given else None),
            setting="paths",
            seen="graph",
            remedy="graph=…",
        )
        assert "saved with" in message
    assert not (tmp_path / "run").exists()


DAMAGE = {
    "noise": (write(PATHS, bytes(range(256))), "does not begin as a file of tensors does"),
    "no weights": (edit_tensors(PATHS, weights=None), "'weights' is missing"),
    "weights not finite": (
        edit_tensors(PATHS, weights=lambda table: table * math.nan),
        "weights has numbers that are not finite",
    ),
    "a weight too few": (edit_tensors(PATHS, weights=lambda table: table[1:]), "weights are float32 of shape"),
    "steps of four": (edit_tensors(PATHS, steps=lambda table: table[:, [0, 1, 2, 2]]), "steps are int64 of shape"),
    "steps of int32": (edit_tensors(PATHS, steps=torch.Tensor.int), "steps are int32"),
    "asked a number": (edit_tensors(PATHS, asked=lambda table: table[0]), "asked are int64 of shape"),
    "a step too high": (edit_tensors(PATHS, steps=with_id(0, 16)), "paths of directions that no relation has"),
    "asked below zero": (
        edit_tensors(PATHS, asked=lambda table: table - 16),
        "paths of directions that no relation has",
    ),
    "no first step": (edit_tensors(PATHS, steps=with_id(0, -1)), "paths of directions that no relation has"),
    "a gap": (
        edit_tensors(PATHS, steps=lambda table: table.index_fill(1, torch.tensor([1]), -1)),
        "directions that no",
    ),
    "a path twice": (
        edit_tensors(PATHS, asked=lambda table: table[[0] * len(table)], steps=lambda table: table[[0] * len(table)]),
        "a path twice",
    ),
    "worth less than nothing": (edit_tensors(PATHS, worth=torch.Tensor.neg), "worth less than nothing"),
    "worth of too few": (edit_tensors(PATHS, worth=lambda table: table[1:]), "worth are float32 of shape"),
    "paths without triples": (
        lambda folder: [remove("triples.safetensors")(folder)],
        r"triples\.safetensors is missing",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_cannot_be_walked_is_refused(kind, folder):
    damage, message = DAMAGE[kind]
    damage(folder)
    assert not examine(folder).sound
    reseal(folder)
    with pytest.raises(InputError, match=message):
        load(folder)


def test_more_paths_than_can_be_walked_are_refused(folder):
    steps = torch.cartesian_prod(*(torch.arange(16),) * 3)[:200]
    many = {"asked": torch.zeros(200, dtype=torch.int64), "steps": steps, "weights": torch.ones(200)}
    edit_tensors(PATHS, **{name: lambda _, table=table: table for name, table in many.items()})(folder)
    reseal(folder)
    with pytest.raises(InputError, match="200 paths of one direction, expected at most 128"):
        load(folder)
