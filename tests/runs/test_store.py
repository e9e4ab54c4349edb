"""Laws of the run folder: saved is loaded, whatever the model, its names and its graph."""

import json
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, strategies as st

from folders import CONTRAST, FIT, REPORT, edit_settings, files_in, graph_for, learned, model_of, reseal, same_model
from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import SPLITS, Vocabulary
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.runs.store import load, load_run, save
from procrustes_kge.training.recipes import METHODS, OWN, recipe
from procrustes_kge.training.supervised import train
from toys import random_graph, rotated_graph, small_settings

UNIT = {
    **{"lengths": "unit", "optimiser": "adam", "learning_rate": 0.2, "batch": 128},
    **{"regularisation": 0.0, "dropout": 0.0, "scale": False, "relations": "positives"},
}
FITTED = {"translated": FIT, "rotated": replace(FIT, translate=False)}
CONTRASTED = {
    "contrasted": CONTRAST,
    "contrasted, rotated": replace(CONTRAST, scale=False, translate=False),
    "contrasted, scaled": replace(CONTRAST, translate=False),
    "contrasted, in groups": replace(CONTRAST, groups=2),
    "contrasted, some negatives": replace(CONTRAST, negatives=20, batch="full", epochs=60),
    "contrasted, unit": replace(CONTRAST, loss="sigmoid", negatives=20, **UNIT),
    "contrasted, no negatives": replace(CONTRAST, loss="squared", negatives="none", **UNIT),
}


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
NAMES = st.lists(st.text(AWKWARD, min_size=1, max_size=5), min_size=1, max_size=6, unique=True)


@given(NAMES, NAMES, st.lists(st.text(AWKWARD, max_size=5), max_size=6))
@example(["a\tb", "a\nb", "a\r\nb", "a\\nb", "\\", "\\\\n", " ", "Ünï\u2028"], ["\n", "\\r"], ["\n", "\ud800"])
def test_any_names_and_labels_come_back(entities, relations, readable):
    labels, relation_labels = (dict(zip(names, readable, strict=False)) for names in (entities, relations[::-1]))
    model = model_of(entities, relations, labels, relation_labels=relation_labels)
    report = {"relations": dict.fromkeys(relations, 1)}
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder, "run"), graph_for(model, [[0, 0, 0]]), report=report)
        run = load_run(Path(folder, "run"))
        for file in Path(folder, "run").glob("*.json"):
            json.loads(file.read_bytes().decode())  # other programs read UTF-8 strictly
    assert same_model(run.model, model)
    assert run.graph.entities.labels == model.entities.labels
    assert run.report == report


@pytest.mark.parametrize("labels", [None, {}, {"nobody": "has this name"}])
def test_without_labels_there_is_no_file_of_them(labels, tmp_path):
    save(model_of(["a", "b"], labels=labels, relation_labels=labels), tmp_path / "run")
    assert list((tmp_path / "run").glob("*labels.json")) == []
    assert load(tmp_path / "run").entities.labels == {}


def test_splits_may_be_empty_or_lie_anyhow_in_memory(tmp_path):
    model = model_of(["a", "b"])
    alone = graph_for(model, [[0, 0, 1]])
    shared = replace(alone, valid=alone.train, test=alone.train)
    views = random_graph(entities=5, relations=2, triples=20)
    views = replace(views, entities=Vocabulary("abcde", "entity"), relations=Vocabulary("rs", "relation"))
    transposed = replace(views, train=views.train.T.contiguous().T)
    for number, graph in enumerate([alone, shared, views, transposed]):
        save(model_of(graph.entities.names, graph.relations.names), tmp_path / str(number), graph)
        assert load_run(tmp_path / str(number)).graph.checksum == graph.checksum


def test_tables_may_be_views(tmp_path):
    model, _, _ = learned(FIT)
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
            settings = recipe(name, source, "cpu", seed=3)
            model = model_of("ab", width=settings.segment, segments=settings.segments)
            save(model, tmp_path / name, settings=settings)
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
    asked = (graph.entities[0], graph.relations[0])
    assert run.model.tails(*asked) == model.tails(*asked)


def test_what_does_not_belong_together_is_not_saved(tmp_path):
    model, graph, _ = learned(CONTRAST)
    with pytest.raises(InputError, match="without its relations needs the graph they are computed from"):
        save(model, tmp_path / "run", relations=False)
    with pytest.raises(InputError, match="needs the settings it was trained with"):
        save(model, tmp_path / "run", graph, relations=False)
    with pytest.raises(InputError, match="the graph random has other names than the model; save it with the graph"):
        save(model, tmp_path / "run", random_graph(entities=5, relations=2, triples=20))
    assert files_in(tmp_path) == {}


# What a loaded run shows and answers.


@pytest.mark.parametrize(
    ("report", "results"),
    [
        ({}, ""),
        ({"recipe": None, "metrics": {}}, ""),
        ({"recipe": "fast"}, " · recipe fast"),
        ({"recipe": "fast", "metrics": {"valid": {"mrr": 0.5}}}, " · recipe fast · valid MRR .500"),
        ({"metrics": {"valid": {"mrr": 0.5}, "test": {"mrr": 1 / 3}}}, " · test MRR .333"),
    ],
)
def test_a_loaded_run_is_shown_in_one_line_and_in_a_table(report, results, tmp_path):
    save(model_of(["a", "b"]), tmp_path / "a < b", report=report)
    run = load_run(tmp_path / "a < b")
    assert repr(run) == f"{run.folder}   Procrustes   2 entities · 1 relation · 6 dimensions{results}"
    table = run._repr_html_()
    assert "a &lt; b" in table
    assert "a < b" not in table
    assert all(each.split()[-1] in table for each in results.split(" · ")[1:])


def test_a_loaded_run_answers_as_its_graph_has_it(folder):
    run = load_run(folder)
    entity, relation = run.graph.entities[3], run.graph.relations[1]  # nothing is related to itself
    for mine, bare in (
        (run.tails(entity, relation, 99), run.model.tails(entity, relation, 99)),
        (run.heads(relation, entity, 99), run.model.heads(relation, entity, 99)),
    ):
        assert mine == [answer for answer in bare if answer.name != entity]


# Baselines.


@pytest.mark.parametrize("name", BASELINES)
def test_a_saved_baseline_scores_as_before_and_no_global_draws_are_made(name, tmp_path):
    graph, settings = rotated_graph(), small_settings(name, epochs=1)
    model = train(graph, settings)
    save(model, tmp_path / "run", graph, settings, REPORT)
    save(model, tmp_path / "alone")
    before = torch.get_rng_state()
    opened, alone = load_run(tmp_path / "run"), load_run(tmp_path / "alone")
    assert torch.get_rng_state().equal(before)
    assert (opened.settings, opened.report) == (settings, REPORT)
    assert (alone.settings, alone.report) == (None, {})
    for found in (opened.model, alone.model):
        assert (found.name, found.options) == (name, settings.options)
        assert same_model(found, model)
    assert evaluate(opened.model, graph).as_dict() == evaluate(model, graph).as_dict()
    asked = (graph.entities[3], graph.relations[1])
    assert alone.model.tails(*asked) == model.tails(*asked)


def test_a_baseline_is_saved_with_its_own_settings_and_its_relations(tmp_path):
    graph, settings = rotated_graph(), small_settings("complex", epochs=1)
    model = train(graph, settings)
    for other in (small_settings("transe"), small_settings("complex", dim=16), FIT):
        with pytest.raises(InputError, match="settings are not of complex; give those that the model was trained"):
            save(model, tmp_path / "run", graph, other)
    with pytest.raises(InputError, match="do not follow from its entities"):
        save(model, tmp_path / "run", graph, settings, relations=False)
    assert files_in(tmp_path) == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 8}, r"dim 8 of the model, but 32 in its settings"),
        ({"wings": 2}, "option 'wings' is unknown"),
        ({"dim": "8"}, "dim '8', expected a whole number"),
    ],
)
def test_a_baseline_with_options_of_another_is_damaged(changes, message, tmp_path):
    graph, settings = rotated_graph(), small_settings("complex", epochs=1)
    save(train(graph, settings), tmp_path / "run", graph, settings)
    edit_settings(options={**asdict(settings.options), **changes})(tmp_path / "run")
    reseal(tmp_path / "run")
    with pytest.raises(InputError, match=rf"damaged or truncated .*{message}"):
        load(tmp_path / "run")
