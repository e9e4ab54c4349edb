"""Laws of the run folder: saved is loaded, whole or not at all, and damage is told. Laws of exported vectors."""

import json
import os
import shutil
import stat
import sys
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import polars
import pytest
import safetensors.torch
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import SPLITS, Graph, Vocabulary
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.runs import store
from procrustes_kge.runs.export import EXPORTS, export
from procrustes_kge.runs.store import FORMAT, check_target, load, load_run, save
from procrustes_kge.training.contrastive import contrast
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch import fit
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import METHODS, OWN, learn, recipe
from procrustes_kge.training.supervised import train
from procrustes_kge.training.supervised_settings import TrainSettings
from toys import random_graph, rotated_graph

SETTINGS = FitSettings(dim=20, segment=5, epochs=3, patience=0, seed=4, device="cpu")
CONTRAST = ContrastSettings(dim=20, segment=5, epochs=30, batch=64, seed=4, device="cpu")
UNIT = {"lengths": "unit", "step": "adam", "learning_rate": 0.05, "decay": 0.0, "dropout": 0.0, "scale": False}
FITTED = {"translated": SETTINGS, "turned": replace(SETTINGS, translate=False)}
CONTRASTED = {
    "contrasted": CONTRAST,
    "contrasted, turned": replace(CONTRAST, scale=False, translate=False),
    "contrasted, scaled": replace(CONTRAST, translate=False),
    "contrasted, in groups": replace(CONTRAST, groups=2),
    "contrasted, some negatives": replace(CONTRAST, negatives=20, batch="full", learning_rate=0.5, epochs=60),
    "contrasted, unit": replace(CONTRAST, loss="sigmoid", negatives=20, relations="positives", **UNIT),
    "contrasted, no negatives": replace(CONTRAST, loss="squared", negatives="none", relations="positives", **UNIT),
}
REPORT = {"dataset": "rotated", "metrics": {"test": {"mrr": 1 / 3}}, "notes": ["naïve ☃"], "recipe": None}


@cache
def learned(settings):
    """Return a model, its graph and its settings."""
    graph = rotated_graph()
    return learn(graph, settings), graph, settings


@pytest.fixture(scope="module", params=FITTED | CONTRASTED)
def trained(request):
    """A model of either method, its graph and its settings."""
    return learned((FITTED | CONTRASTED)[request.param])


@pytest.fixture(scope="module", params=FITTED)
def fitted(request):
    """A model of `fit`, its graph and its settings."""
    return learned(FITTED[request.param])


@pytest.fixture(scope="module", params=CONTRASTED)
def contrasted(request):
    """A model of `contrast`, its graph and its settings."""
    return learned(CONTRASTED[request.param])


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    """A run folder to copy."""
    graph, folder = rotated_graph(), tmp_path_factory.mktemp("master") / "run"
    save(fit(graph, SETTINGS), folder, graph, SETTINGS, REPORT)
    return folder


@pytest.fixture
def folder(master, tmp_path):
    """A run folder, alone in its parent."""
    return Path(shutil.copytree(master, tmp_path / "runs" / "one"))


def model_of(entities, relations=("r",), labels=None, width=3):
    """Return an untrained model of these names."""
    generator = torch.Generator().manual_seed(0)
    return Procrustes(
        Vocabulary(entities, "entity", labels),
        Vocabulary(relations, "relation"),
        torch.randn(len(entities), 2, width, generator=generator),
        torch.randn(len(relations), 2, width, width, generator=generator),
    )


def graph_of(model, train, valid=(), test=()):
    """Return a graph of the model's names and of triples of ids."""
    splits = (torch.tensor(rows, dtype=torch.int64).view(-1, 3) for rows in (train, valid, test))
    return Graph("small", model.entities, model.relations, *splits)


def same_model(one, other):
    """Tell whether two models are equal bit for bit, names and labels included."""
    ours, theirs = one.tables(), other.tables()
    return (
        ours.keys() == theirs.keys()
        and all(table.equal(theirs[name]) for name, table in ours.items())
        and (one.entities.names, one.entities.labels) == (other.entities.names, other.entities.labels)
        and (one.relations.names, one.relations.labels) == (other.relations.names, other.relations.labels)
    )


def contents(folder):
    """Return everything under a folder: paths, and the bytes of files."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


# Saved is loaded.


def test_saved_equals_loaded_bit_for_bit(trained, tmp_path):
    model, graph, settings = trained
    save(model, tmp_path / "run", graph, settings, REPORT)
    run = load_run(tmp_path / "run")
    assert same_model(run.model, model)
    assert same_model(load(str(tmp_path / "run")), model)
    assert (run.settings, run.report) == (settings, REPORT)
    assert run.graph.name == graph.name
    assert run.graph.checksum == graph.checksum  # names and splits
    assert all(run.graph.split(split).equal(graph.split(split)) for split in SPLITS)
    assert run.graph.entities is run.model.entities


AWKWARD = st.one_of(
    st.sampled_from("\t\n\r\\nr \x00\x0b\x1c\x85\u2028\ufeff'\"☃\U0001f600\ud800\udc80"),
    st.characters(exclude_categories=()),  # surrogates too
)
NAMES = st.lists(st.text(AWKWARD, max_size=5), min_size=1, max_size=6, unique=True)


@given(NAMES, NAMES, st.lists(st.text(AWKWARD, max_size=5), max_size=6))
@example(["a\tb", "a\nb", "a\r\nb", "a\\nb", "\\", "\\\\n", "", " ", "Ünï\u2028"], ["\n", "\\r"], ["\n", "\ud800"])
def test_any_names_and_labels_come_back(entities, relations, readable):
    model = model_of(entities, relations, dict(zip(entities, readable, strict=False)))
    report = {"relations": dict.fromkeys(relations, 1)}
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder, "run"), graph_of(model, [[0, 0, 0]]), report=report)
        run = load_run(Path(folder, "run"))
        for file in Path(folder, "run").glob("*.json"):
            json.loads(file.read_bytes().decode())  # other programs read UTF-8 strictly
    assert same_model(run.model, model)
    assert run.graph.entities.labels == model.entities.labels
    assert run.report == report


@pytest.mark.parametrize("labels", [None, {}, {"nobody": "has this name"}])
def test_without_labels_there_is_no_file_of_them(labels, tmp_path):
    save(model_of(["a", "b"], labels=labels), tmp_path / "run")
    assert not (tmp_path / "run" / "labels.json").exists()
    assert load(tmp_path / "run").entities.labels == {}


def test_splits_may_be_empty_or_lie_anyhow_in_memory(tmp_path):
    model = model_of(["a", "b"])
    alone = graph_of(model, [[0, 0, 1]])
    shared = replace(alone, valid=alone.train, test=alone.train)
    views = random_graph(entities=5, relations=2, triples=20)
    views = replace(views, entities=Vocabulary("abcde", "entity"), relations=Vocabulary("rs", "relation"))
    turned = replace(views, train=views.train.T.contiguous().T)
    for number, graph in enumerate([alone, shared, views, turned]):
        save(model_of(graph.entities.names, graph.relations.names), tmp_path / str(number), graph)
        assert load_run(tmp_path / str(number)).graph.checksum == graph.checksum


def test_tables_may_be_views(trained, tmp_path):
    model, _, _ = trained
    rows = model.vectors.transpose(1, 2)  # five segments of four numbers, side by side with others
    views = Procrustes(model.entities, model.relations, rows[:, :4], model.rotations[:, :, :4, :4].mT)
    save(views, tmp_path / "run")
    assert same_model(load(tmp_path / "run"), views)


def test_entities_alone_take_less_room_by_the_rotations(trained, tmp_path):
    model, graph, settings = trained
    save(model, tmp_path / "whole", graph, settings)
    save(model, tmp_path / "entities", graph, settings, relations=False)
    sizes = [sum(file.stat().st_size for file in (tmp_path / name).iterdir()) for name in ("entities", "whole")]
    assert sizes[0] < sizes[1] - model.rotations.nbytes + 1000
    assert load_run(tmp_path / "entities").settings == settings


def test_relations_left_out_of_a_fitted_model_are_restored_bit_for_bit(fitted, tmp_path):
    model, graph, settings = fitted
    for known in (settings, None):  # who saves a model by hand may give none
        save(model, tmp_path / "entities", graph, known, relations=False)
        assert same_model(load(tmp_path / "entities"), model)


def test_relations_left_out_of_a_contrasted_model_are_solved_anew_and_rank_as_well(contrasted, tmp_path):
    model, graph, settings = contrasted
    save(model, tmp_path / "entities", graph, settings, relations=False)
    run = load_run(tmp_path / "entities")
    restored, kept = run.model.tables(), model.tables()
    assert restored.keys() == kept.keys()
    # Scales and translations are small, and do not follow from the entities: they were kept.
    assert all(restored[name].equal(kept[name]) for name in kept.keys() - {"rotations"})
    rotations = run.model.rotations.double()
    identity = torch.eye(settings.segment, dtype=torch.float64).expand_as(rotations)
    torch.testing.assert_close(rotations @ rotations.mT, identity, atol=1e-6, rtol=0)
    for split in SPLITS:
        assert evaluate(run.model, run.graph, split).mrr > 0.99 * evaluate(model, graph, split).mrr > 0.9
    assert same_model(load(tmp_path / "entities"), run.model)  # the same at every loading


def test_settings_come_back_as_they_were_whatever_the_recipe(tmp_path):
    graph = rotated_graph()
    methods = set()
    for name in OWN:
        for source in (None, graph):
            settings = recipe(name, source, "cpu")
            save(model_of("ab"), tmp_path / name, settings=settings)
            found = load_run(tmp_path / name).settings
            assert (type(found), found) == (type(settings), settings)
            method = json.loads((tmp_path / name / "settings.json").read_text())["method"]
            assert METHODS[method] is type(settings)
            methods.add(method)
    assert methods | {"train"} == METHODS.keys()  # the baselines have settings of their own


def test_without_its_graph_a_model_predicts(trained, tmp_path):
    model, graph, settings = trained
    save(model, tmp_path / "run", settings=settings)
    run = load_run(tmp_path / "run")
    assert run.graph is None
    assert run.report == {}
    question = (graph.entities[0], graph.relations[0])
    assert run.model.tails(*question) == model.tails(*question)


def test_relations_cannot_be_left_out_without_the_graph(trained, tmp_path):
    with pytest.raises(InputError, match="without its relations needs the graph they are computed from"):
        save(trained[0], tmp_path / "run", relations=False)
    assert contents(tmp_path) == {}


def test_a_model_is_not_saved_with_the_graph_of_another(trained, tmp_path):
    with pytest.raises(InputError, match="the graph random has other names than the model; save it with the one"):
        save(trained[0], tmp_path / "run", random_graph(entities=5, relations=2, triples=20))
    assert contents(tmp_path) == {}


# Written whole or not at all.


def break_names(monkeypatch, error):
    monkeypatch.setattr(store, "write_names", lambda *_: (_ for _ in ()).throw(error))


def break_triples(monkeypatch, error):
    write = safetensors.torch.save_file

    def broken(tensors, path):
        if "train" not in tensors:
            return write(tensors, path)
        Path(path).write_bytes(b"half")
        raise error

    monkeypatch.setattr(safetensors.torch, "save_file", broken)


def break_last_step(monkeypatch, error):
    rename = Path.rename

    def broken(self, target):
        if self.name == "fresh":
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", broken)


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt("stop")], ids=str)
@pytest.mark.parametrize("breaking", [break_names, break_triples, break_last_step])
def test_a_failure_leaves_nothing_behind_and_an_old_run_as_it_was(breaking, error, folder, tmp_path, monkeypatch):
    before, run = contents(tmp_path), load_run(folder)
    breaking(monkeypatch, error)
    for target in (folder, folder.parent / "two"):
        with pytest.raises(type(error), match=str(error)):
            save(run.model, target, run.graph, run.settings)
        assert contents(tmp_path) == before


def test_a_failure_makes_no_parents(trained, tmp_path, monkeypatch):
    break_names(monkeypatch, RuntimeError("broken"))
    with pytest.raises(RuntimeError, match="broken"):
        save(trained[0], tmp_path / "deep" / "deeper" / "run")
    assert contents(tmp_path) == {}


def test_what_safetensors_cannot_write_is_said_in_the_same_sentence(folder, tmp_path, monkeypatch):
    before, run = contents(tmp_path), load_run(folder)
    break_triples(monkeypatch, safetensors.SafetensorError("I/O error: No space left on device"))
    with pytest.raises(InputError, match=r"one: cannot be written \(.*No space left on device\); mend that or choose"):
        save(run.model, folder, run.graph)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("breaking", [break_names, break_triples, break_last_step])
def test_what_the_system_refuses_is_told_in_a_sentence(breaking, folder, tmp_path, monkeypatch):
    before, run = contents(tmp_path), load_run(folder)
    breaking(monkeypatch, OSError(28, "No space left on device"))
    with pytest.raises(InputError, match=r"one: cannot be written \(No space left on device\); mend that or choose"):
        save(run.model, folder, run.graph)
    assert contents(tmp_path) == before


def test_an_old_run_is_replaced_and_nothing_of_it_stays(folder):
    assert (folder / "labels.json").exists()
    model = model_of(["a", "b"])
    save(model, folder)
    assert same_model(load(folder), model)
    names = {file.name for file in folder.iterdir()}
    assert names == {"settings.json", "model.safetensors", "entities.txt", "relations.txt", "report.json"}
    assert [each.name for each in folder.parent.iterdir()] == ["one"]


def test_an_empty_folder_and_absent_parents_are_accepted(tmp_path):
    (tmp_path / "empty").mkdir()
    for target in (tmp_path / "empty", tmp_path / "deep" / "deeper" / "run", str(tmp_path / "text")):
        check_target(target)
        save(model_of("ab"), target)
        assert load(target).entities.names == ("a", "b")


def test_a_link_to_a_run_stays_a_link(folder, tmp_path):
    (tmp_path / "latest").symlink_to(folder)
    save(model_of("ab"), tmp_path / "latest")
    assert (tmp_path / "latest").is_symlink()
    assert load(folder).entities.names == ("a", "b")


def test_what_is_not_a_run_is_refused_and_untouched(tmp_path, monkeypatch):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "settings.json").write_text("{}")
    (tmp_path / "file").write_text("precious")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    before = contents(tmp_path)
    refusals = {
        tmp_path / "thesis": "exists and is not a run folder, so it is not overwritten; choose another --out",
        tmp_path / "file": "exists and is not a run folder, so it is not overwritten; choose another --out",
        tmp_path / "dangling": "exists and is not a run folder, so it is not overwritten; choose another --out",
        tmp_path / "file" / "run": "file is not a folder that can be written to; choose another --out",
        tmp_path / ("long" * 100): "cannot be written .File name too long.; mend that or choose another place",
        Path(): "you are inside this folder, so it is not replaced; choose another --out",
        tmp_path / "here": "you are inside this folder, so it is not replaced; choose another --out",
    }
    for target, message in refusals.items():
        for attempt in (check_target, lambda target: save(model_of("ab"), target)):
            with pytest.raises(InputError, match=message) as caught:
                attempt(target)
            assert str(caught.value).startswith(f"{target}: ")
            assert contents(tmp_path) == before


def test_a_run_that_holds_files_of_the_user_is_not_replaced(folder):
    (folder / "notes.txt").write_text("precious")
    before = contents(folder)
    with pytest.raises(InputError, match=r"holds notes\.txt too, which replacing it would delete"):
        save(model_of("ab"), folder)
    assert contents(folder) == before


def test_settings_that_were_not_given_are_not_made_up(tmp_path):
    save(model_of("ab"), tmp_path / "run")
    assert load_run(tmp_path / "run").settings is None
    about = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert about["method"] is about["settings"] is None


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to_is_told_before_any_work(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(InputError, match="is not a folder that can be written to; choose another --out"):
        check_target(tmp_path / "locked" / "run")


@pytest.mark.skipif(os.name != "posix", reason="others are kept out in other ways here")
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_others_may_read_what_the_umask_lets_them(mask, trained, tmp_path):
    model, graph, settings = trained
    before = os.umask(mask)
    try:
        save(model, tmp_path / "run", graph, settings)
        files = [file for kind in EXPORTS for file in export(model, tmp_path / f"{kind}.{kind}", kind)]
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(file.stat().st_mode) for file in [*(tmp_path / "run").iterdir(), *files]}
    assert modes == {0o666 & ~mask}
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o777 & ~mask


def test_nothing_in_a_run_folder_is_pickled(folder):
    magic = (b"PK", *(bytes([0x80, protocol]) for protocol in range(2, 6)))
    for file in folder.iterdir():
        assert file.suffix in (".safetensors", ".json", ".txt")
        assert not file.read_bytes().startswith(magic)


# Damage is told.


def edit_settings(**changes):
    def edit(folder):
        about = json.loads((folder / "settings.json").read_text())
        (folder / "settings.json").write_text(json.dumps({**about, **changes}))

    return edit


def drop_setting(name):
    def edit(folder):
        about = json.loads((folder / "settings.json").read_text())
        del about[name]
        (folder / "settings.json").write_text(json.dumps(about))

    return edit


def edit_tensors(file, **changes):
    """Change tensors by functions of them; None drops one."""

    def edit(folder):
        tensors = safetensors.torch.load_file(folder / file)
        tensors = {name: tensor.clone() for name, tensor in tensors.items()}
        for name, change in changes.items():
            tensor = tensors.pop(name)
            if change is not None:
                tensors[name] = change(tensor).contiguous()
        safetensors.torch.save_file(tensors, folder / file)

    return edit


def write(file, content):
    return lambda folder: (folder / file).write_bytes(content)


def remove(*files):
    return lambda folder: [(folder / file).unlink() for file in files]


def drop_last_line(file):
    def edit(folder):
        lines = (folder / file).read_text().splitlines(keepends=True)
        (folder / file).write_text("".join(lines[:-1]))

    return edit


def with_id(column, value):
    def change(triples):
        triples[-1, column] = value
        return triples

    return change


MODEL, TRIPLES = "model.safetensors", "triples.safetensors"
DAMAGE = {
    "settings not JSON": (write("settings.json", b"dim = 20"), r"settings\.json: Expecting value"),
    "settings not text": (write("settings.json", b"\xff\xfe\x00"), r"settings\.json: .*can't decode byte"),
    "settings a list": (write("settings.json", b"[1, 2]"), r"settings\.json holds a list, expected an object"),
    "settings empty": (write("settings.json", b""), r"settings\.json: Expecting value"),
    "unknown setting": (edit_settings(settings={"dim": 20, "magic": 1}), r"a setting 'magic', which this version does"),
    "absurd setting": (edit_settings(settings={"dim": -20}), "dim -20, expected a whole number of at least 1"),
    "setting of another type": (edit_settings(settings={"dim": "many"}), "damaged or truncated"),
    "no settings in settings": (drop_setting("settings"), "'settings' is missing"),
    "settings a number": (edit_settings(settings=3), "damaged or truncated"),
    "unknown method": (
        edit_settings(method="transe"),
        r"settings\.json has a method 'transe', which this version does not know",
    ),
    "method of other settings": (edit_settings(method="contrast"), "a setting '[a-z_]+', which this version does"),
    "method a list": (edit_settings(method=["fit"]), "damaged or truncated"),
    "no method": (drop_setting("method"), "'method' is missing"),
    "no name of the graph": (drop_setting("graph"), "'graph' is missing"),
    "report not JSON": (write("report.json", b"{"), r"report\.json: Expecting"),
    "report a list": (write("report.json", b"[]"), r"report\.json holds a list, expected an object"),
    "report missing": (remove("report.json"), r"No such file or directory: .*report\.json"),
    "labels a list": (write("labels.json", b'["a"]'), r"labels\.json holds a list, expected an object"),
    "entities missing": (remove("entities.txt"), r"No such file or directory: .*entities\.txt"),
    "entities not text": (write("entities.txt", b"\xff\n"), "can't decode byte"),
    "entities empty": (write("entities.txt", b""), r"vectors of shape \(60, 4, 5\), expected \(0, 4, 5\)"),
    "an entity too few": (
        drop_last_line("entities.txt"),
        r"vectors of shape \(60, 4, 5\), expected \(59, 4, 5\) for 59 names of entities and 8 of relations",
    ),
    "relations missing": (remove("relations.txt"), r"No such file or directory: .*relations\.txt"),
    "a relation too few": (
        drop_last_line("relations.txt"),
        r"rotations of shape \(8, 4, 5, 5\), expected \(7, 4, 5, 5\)",
    ),
    "model missing": (remove(MODEL), r"No such file or directory: .*model\.safetensors"),
    "model of noise": (write(MODEL, bytes(range(256)) * 20), "damaged or truncated"),
    "no vectors": (edit_tensors(MODEL, vectors=None), "'vectors' is missing"),
    "vectors flat": (edit_tensors(MODEL, vectors=lambda table: table.flatten(1)), r"vectors of shape \(60, 20\)"),
    "segments lost": (edit_tensors(MODEL, vectors=lambda table: table[:, :3]), r"expected \(8, 3, 5, 5\)"),
    "rotations not square": (edit_tensors(MODEL, rotations=lambda table: table[..., :4]), r"\(8, 4, 5, 4\), expected"),
    "translations of tails alone": (
        edit_tensors(MODEL, translations=lambda table: table[:8]),
        r"translations of shape \(8, 4, 5\), expected \(16, 4, 5\)",
    ),
    "no translations": (edit_tensors(MODEL, translations=None), "'translations' is missing"),
    "no relations, no triples": (
        lambda folder: [edit_tensors(MODEL, rotations=None)(folder), remove(TRIPLES)(folder)],
        "neither the relations are there nor the triples that they are computed from",
    ),
    "triples cut": (
        lambda folder: write(TRIPLES, (folder / TRIPLES).read_bytes()[:-8])(folder),
        "damaged or truncated",
    ),
    "no test split": (edit_tensors(TRIPLES, test=None), "'test' is missing"),
    "triples of two": (
        edit_tensors(TRIPLES, valid=lambda rows: rows[:, :2]),
        r"valid triples of shape \(48, 2\), expected three columns",
    ),
    "head too high": (edit_tensors(TRIPLES, train=with_id(0, 60)), "train triples with ids that have no name"),
    "relation too high": (edit_tensors(TRIPLES, valid=with_id(1, 8)), "valid triples with ids that have no name"),
    "tail below zero": (edit_tensors(TRIPLES, test=with_id(2, -1)), "test triples with ids that have no name"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_told_with_the_folder_and_what_to_do(kind, folder):
    damage, message = DAMAGE[kind]
    damage(folder)
    for attempt in (load, load_run):
        with pytest.raises(InputError, match=message) as caught:
            attempt(folder)
        text = str(caught.value)
        assert text.startswith(f"{folder}: damaged or truncated (")
        assert text.endswith("; train again or restore it from a copy")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (edit_tensors(MODEL, scales=lambda table: table[:8]), r"scales of shape \(8, 4, 5\), expected \(16, 4, 5\)"),
        (edit_tensors(MODEL, scales=lambda table: table[..., :1]), r"scales of shape \(16, 4, 1\), expected"),
        (edit_tensors(MODEL, translations=None), "'translations' is missing"),
        (edit_settings(method="fit"), "a setting 'batch', which this version does not know"),
        (edit_settings(settings={"crowd": 3.0}), r"\(crowd 3.0, expected a number from 0 up to 2\)"),
        (edit_settings(settings={"loss": "squared"}), "squared loss with all negatives; the squared loss is the one"),
    ],
    ids=["half the scales", "narrow scales", "no translations", "another method", "absurd crowd", "absurd loss"],
)
def test_damage_to_a_contrasted_model_is_told(damage, message, tmp_path):
    model, graph, settings = learned(replace(CONTRAST, epochs=1))
    save(model, tmp_path / "run", graph, settings)
    damage(tmp_path / "run")
    with pytest.raises(InputError, match=message) as caught:
        load(tmp_path / "run")
    assert str(caught.value).startswith(f"{tmp_path / 'run'}: damaged or truncated (")


def test_a_truncated_file_is_never_taken_for_a_whole_one(folder):
    for file in sorted(folder.iterdir()):
        whole = file.read_bytes()
        # A JSON file is whole without the line break at its end.
        for length in {0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 2} & set(range(len(whole) - 1)):
            file.write_bytes(whole[:length])
            with pytest.raises(InputError, match="train again or restore it from a copy") as caught:
                load(folder)
            assert str(caught.value).startswith(f"{folder}: damaged")
        file.write_bytes(whole)
    load(folder)


def test_missing_folders_and_other_folders_are_told_apart(folder, tmp_path):
    missing = tmp_path / "nowhere"
    for target in (missing, folder / "settings.json"):
        with pytest.raises(InputError) as caught:
            load(target)
        assert str(caught.value) == f"{target}: no such run folder; `procrustes train` makes one"
    with pytest.raises(
        InputError, match=r"not a run folder, it has no settings\.json; give one that `procrustes train`"
    ):
        load(folder.parent)


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"format": FORMAT + 1}, f"format {FORMAT + 1} of model 'procrustes'"),
        ({"format": FORMAT - 1}, f"format {FORMAT - 1} of model 'procrustes'"),
        ({"format": None}, "format None of model 'procrustes'"),
        ({"model": "nobody"}, f"format {FORMAT} of model 'nobody'"),
    ],
)
def test_other_formats_and_models_are_refused(changes, seen, folder):
    edit_settings(**changes)(folder)
    remove("report.json", MODEL)(folder)  # another version need not have our files
    with pytest.raises(InputError) as caught:
        load(folder)
    expected = f"written in {seen}, this version reads format {FORMAT} of 'procrustes' or a baseline; train again"
    assert str(caught.value) == f"{folder}: {expected}"


# Exported vectors.


def read_word2vec(path):
    """Return names and vectors as any reader of the format would."""
    lines = path.read_bytes().decode().split("\n")
    assert lines.pop() == ""
    count, dim = map(int, lines.pop(0).split(" "))
    rows = [line.split() for line in lines]
    assert len(rows) == count
    assert {len(row) for row in rows} == {dim + 1}
    return [row[0] for row in rows], np.array([row[1:] for row in rows], dtype=np.float32)


@pytest.fixture
def named():
    """A model with labels, whose numbers need all their digits."""
    return model_of(["Zürich", "1", "e-3", "☃"], labels={"1": "one"}, width=5)


def test_npy_is_a_matrix_with_its_names_beside_it(named, tmp_path):
    files = export(named, tmp_path / "my.vectors.npy", "npy")
    assert files == [tmp_path / "my.vectors.npy", tmp_path / "my.vectors.txt"]
    table = np.load(files[0], allow_pickle=False)
    assert table.dtype == np.float32
    assert np.array_equal(table, named.vectors.flatten(1).numpy())
    assert files[1].read_text(encoding="utf-8").splitlines() == list(named.entities)


def test_parquet_has_names_and_vectors(named, tmp_path):
    assert export(named, tmp_path / "vectors.parquet", "parquet") == [tmp_path / "vectors.parquet"]
    frame = polars.read_parquet(tmp_path / "vectors.parquet")
    assert frame.columns == ["name", "label", "vector"]
    assert frame["name"].to_list() == list(named.entities)
    assert frame["label"].to_list() == ["Zürich", "one", "e-3", "☃"]
    assert frame["vector"].dtype == polars.Array(polars.Float32, 10)
    assert np.array_equal(frame["vector"].to_numpy(), named.vectors.flatten(1).numpy())
    export(model_of("ab"), tmp_path / "vectors.parquet", "parquet")
    assert polars.read_parquet(tmp_path / "vectors.parquet").columns == ["name", "vector"]


def test_word2vec_is_read_back_to_the_last_digit(named, tmp_path):
    assert export(named, tmp_path / "vectors.vec", "word2vec") == [tmp_path / "vectors.vec"]
    names, table = read_word2vec(tmp_path / "vectors.vec")
    assert names == list(named.entities)
    assert np.array_equal(table, named.vectors.flatten(1).numpy())


@given(st.lists(st.text(st.sampled_from("ab_ \t\n\u2003\x85"), max_size=3), min_size=1, max_size=8, unique=True))
def test_blanks_in_word2vec_names_are_replaced_unless_two_names_would_meet(names):
    model = model_of(names)
    words = ["_" if name == "" else "".join("_" if letter.isspace() else letter for letter in name) for name in names]
    with tempfile.TemporaryDirectory() as folder:
        if len(set(words)) == len(words):
            export(model, Path(folder, "vectors"), "word2vec")
            assert read_word2vec(Path(folder, "vectors"))[0] == words
        else:
            with pytest.raises(InputError, match="which allows no blanks; use --format parquet or npy"):
                export(model, Path(folder, "vectors"), "word2vec")
            assert list(Path(folder).iterdir()) == []


def test_names_that_would_meet_are_named(tmp_path):
    with pytest.raises(InputError) as caught:
        export(model_of(["new york", "paris", "new_york"]), tmp_path / "vectors", "word2vec")
    assert str(caught.value).startswith("the names 'new york' and 'new_york' are both 'new_york' in word2vec")


def test_an_export_replaces_an_earlier_one(named, tmp_path):
    for kind in EXPORTS:
        export(model_of("ab"), tmp_path / f"{kind}.{kind}", kind)
        before = {file: file.read_bytes() for file in tmp_path.glob(f"{kind}.*")}
        export(named, tmp_path / f"{kind}.{kind}", kind)
        assert all(file.read_bytes() != content for file, content in before.items())


def test_exports_that_cannot_be_are_refused_and_nothing_is_touched(named, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "train.txt").write_text("a\tr\tb\n")
    before = contents(tmp_path)
    refusals = [
        (tmp_path / "x.bin", "pickle", "unknown format 'pickle', expected npy, parquet, word2vec"),
        (tmp_path / "nowhere" / "x.npy", "npy", "nowhere: no such folder to write x.npy into"),
        (tmp_path / "train.txt" / "x.npy", "npy", r"train\.txt: no such folder to write x\.npy into"),
        (tmp_path / "folder", "parquet", "folder: is a folder, expected the name of a file; try .*vectors"),
        (tmp_path / "x.txt", "npy", r"x\.txt: the names go into a \.txt file .*; end the vectors' file in \.npy"),
        (tmp_path / "train.npy", "npy", r"train\.txt: is there already, and the names would go there; choose another"),
        (tmp_path / ("x" * 300), "npy", r"cannot be written \(File name too long\)"),
    ]
    for path, kind, message in refusals:
        with pytest.raises(InputError, match=message):
            export(named, path, kind)
        assert contents(tmp_path) == before


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt("stop")], ids=str)
@pytest.mark.parametrize("kind", EXPORTS)
def test_a_failed_export_leaves_nothing_behind_and_an_earlier_one_as_it_was(kind, error, named, tmp_path, monkeypatch):
    export(model_of("ab"), tmp_path / "old", kind)
    before = contents(tmp_path)
    real = EXPORTS[kind]

    def broken(scratch, *rest):
        real(scratch, *rest)
        raise error

    monkeypatch.setitem(EXPORTS, kind, broken)
    for name in ("old", "new"):
        with pytest.raises(type(error), match=str(error)):
            export(named, tmp_path / name, kind)
        assert contents(tmp_path) == before


def test_parquet_without_polars_is_told(named, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(InputError, match="writing Parquet needs the package polars; pip install polars"):
        export(named, tmp_path / "x.parquet", "parquet")
    assert contents(tmp_path) == {}


def test_a_contrast_model_without_relations_and_settings_is_refused(tmp_path):
    graph = rotated_graph()
    model = contrast(graph, ContrastSettings(dim=20, segment=10, epochs=1, device="cpu", batch=64))
    with pytest.raises(InputError, match="needs the settings it was trained with"):
        save(model, tmp_path / "run", graph, relations=False)


@pytest.mark.parametrize("table", ["scales", "translations"])
@pytest.mark.parametrize("relations", [True, False])
def test_a_table_that_a_contrast_model_has_lost_is_missed(table, relations, tmp_path):
    graph = rotated_graph()
    settings = ContrastSettings(dim=20, segment=10, epochs=1, device="cpu", batch=64)
    save(contrast(graph, settings), tmp_path / "run", graph, settings, relations=relations)
    file = tmp_path / "run" / "model.safetensors"
    left = {name: kept for name, kept in safetensors.torch.load_file(file).items() if name != table}
    safetensors.torch.save_file(left, file)
    with pytest.raises(InputError, match=f"'{table}' is missing"):
        load(tmp_path / "run")


# Baselines.


@pytest.mark.parametrize("name", BASELINES)
def test_a_saved_baseline_scores_as_before(name, tmp_path):
    graph = rotated_graph()
    settings = TrainSettings(model=name, dim=16, relation_dim=8, epochs=1, height=4, blocks=4, device="cpu")
    model = train(graph, settings)
    save(model, tmp_path / "run", graph, settings, REPORT)
    opened = load_run(tmp_path / "run")
    assert opened.settings == settings
    assert opened.model.name == name
    assert evaluate(opened.model, graph).as_dict() == evaluate(model, graph).as_dict()
    save(model, tmp_path / "alone")
    asked = (graph.entities[3], graph.relations[1])
    assert load(tmp_path / "alone").tails(*asked) == model.tails(*asked)


@pytest.mark.parametrize("name", BASELINES)
def test_loading_a_baseline_leaves_dice_alone(name, tmp_path):
    graph = rotated_graph()
    settings = TrainSettings(model=name, dim=16, relation_dim=8, epochs=1, height=4, blocks=4, device="cpu")
    save(train(graph, settings), tmp_path / "run", graph)
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    load(tmp_path / "run")
    assert torch.equal(torch.rand(3), expected)


def test_a_baseline_is_saved_with_its_settings_and_its_relations(tmp_path):
    graph, settings = rotated_graph(), TrainSettings(model="complex", dim=16, epochs=1, device="cpu")
    model = train(graph, settings)
    with pytest.raises(InputError, match="these are not the settings that this complex model was trained with"):
        save(model, tmp_path / "run", graph, TrainSettings(model="transe"))
    with pytest.raises(InputError, match="do not follow from its entities"):
        save(model, tmp_path / "run", graph, settings, relations=False)
    save(model, tmp_path / "run", graph)
    assert load_run(tmp_path / "run").settings == load(tmp_path / "run").settings == settings
    about = json.loads((tmp_path / "run" / "settings.json").read_text())
    about["settings"]["dim"] = 8
    (tmp_path / "run" / "settings.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match=r"damaged or truncated .* size mismatch"):
        load(tmp_path / "run")
