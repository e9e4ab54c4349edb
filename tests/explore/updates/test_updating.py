"""Laws of a model that is updated: what is new answers, what is known stays, and the report says what is stale."""

from dataclasses import replace
from functools import cache

import pytest
import torch

from contrasts import small
from folders import CONTRAST, FIT, learned
from procrustes_kge import add, evaluate, remove
from procrustes_kge.errors import InputError
from procrustes_kge.models.with_paths import WithPaths
from procrustes_kge.runs.experiment import Run
from procrustes_kge.runs.store import load_run, save
from procrustes_kge.training.contrastive import contrast
from procrustes_kge.training.paths import with_paths
from procrustes_kge.training.recipes import learned as trained, warm
from procrustes_kge.training.supervised import train
from toys import planted_model, rotated_graph, same, small_settings, tables


def named(graph, triples):
    return [(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in triples.tolist()]


def without(graph, entity):
    """Return a graph without an entity, and the triples that it was in, by name."""
    everything = torch.cat([graph.train, graph.valid, graph.test])
    theirs = (everything[:, [0, 2]] == entity).any(dim=1)
    names = [name for row, name in enumerate(graph.entities) if row != entity]
    place = torch.tensor([row - (row > entity) for row in range(len(graph.entities))])
    left = everything[~theirs]
    rows = torch.stack([place[left[:, 0]], left[:, 1], place[left[:, 2]]], dim=1)
    vocabulary = type(graph.entities)(names, "entity")
    return replace(graph, entities=vocabulary, train=rows, valid=rows[:0], test=rows[:0]), named(
        graph, everything[theirs]
    )


def test_an_entity_that_was_left_out_is_added_where_it_was_planted():
    model, graph = planted_model()
    rest, theirs = without(graph, 25)
    small_model = replace(model, entities=rest.entities, vectors=model.vectors[torch.arange(len(graph.entities)) != 25])
    found = add(small_model, theirs, graph=rest)
    assert found.new == (graph.entities[25],)
    assert torch.allclose(found.model.vectors[-1], model.vectors[25], atol=1e-6)
    assert found.model.vectors[:-1].equal(small_model.vectors)
    assert found.model.rotations.equal(model.rotations)
    assert found.model.tails(theirs[0][0], theirs[0][1], k=1)[0].name == theirs[0][2]


def test_added_and_removed_again_leaves_the_graph_as_it_was_and_the_others_alone():
    model, graph = planted_model()
    head, relation, _ = named(graph, graph.train[:1])[0]
    more = add(model, [(head, relation, "new")], graph=graph)
    less = remove(more, [(head, relation, "new")])
    assert less.graph.entities.names == graph.entities.names
    assert less.graph.train.equal(graph.train)
    rows = torch.arange(len(graph.entities)) != graph.entities.id(head)
    assert less.model.vectors[rows].equal(model.vectors[rows])
    # Its head is where the others want it: where it was planted.
    assert torch.allclose(less.model.vectors, model.vectors, atol=1e-6)


def test_what_is_removed_no_longer_pulls():
    model, graph = planted_model()
    wrong = (graph.entities[0], graph.relations[0], graph.entities[5])
    if wrong in named(graph, graph.train):
        wrong = (graph.entities[0], graph.relations[0], graph.entities[6])
    moved = add(model, [wrong], graph=graph)
    both = [0, graph.entities.id(wrong[2])]
    assert not torch.allclose(moved.model.vectors[both], model.vectors[both], atol=1e-3)
    back = remove(moved, [wrong])
    assert torch.allclose(back.model.vectors, model.vectors, atol=1e-4)


@cache
def every_kind(name):
    graph = rotated_graph()
    if name in ("fit", "contrast"):
        return learned({"fit": FIT, "contrast": CONTRAST}[name])
    if name == "inverses":
        settings = small("all, with inverses", epochs=20)
        return contrast(graph, settings), graph, settings
    if name == "in groups":
        settings = replace(CONTRAST, groups=2)
        return contrast(graph, settings), graph, settings
    settings = small_settings(name, epochs=5)
    return train(graph, settings), graph, settings


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["fit", "contrast", "in groups", "inverses", "complex", "rotate", "transe", "distmult", "conve"]
)
def test_every_kind_of_model_takes_in_an_entity_and_a_few_epochs(kind, tmp_path):
    model, graph, settings = every_kind(kind)
    triples = [("new", *rest) for _, *rest in named(graph, graph.train[:3])]
    before = {name: table.clone() for name, table in tables(model).items()}
    found = add(model, triples, graph=graph, settings=settings)
    assert all(table.equal(before[name]) for name, table in tables(model).items())  # the old one is as it was
    assert len(found.model.entities) == len(graph.entities) + 1
    old, new = model.table, found.model.table
    assert new[:-1].equal(old)
    assert new[-1].norm() > 0
    more = add(model, triples, graph=graph, settings=settings, epochs=2)
    assert not more.model.table[:-1].equal(old)
    assert more.model.table.isfinite().all()
    for run in (found, more):
        save(run.model, tmp_path / "run", run.graph, run.settings, run.report)
        assert same(load_run(tmp_path / "run").model, run.model)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fit", "contrast", "in groups", "inverses"])
def test_our_own_models_take_in_a_relation(kind):
    model, graph, settings = every_kind(kind)
    first = graph.relations[0]
    same_by_another_name = [(h, "again", t) for h, r, t in named(graph, graph.train) if r == first]
    found = add(model, same_by_another_name, graph=graph, settings=settings)
    assert found.counts["relations"] == 1
    assert len(found.model.rotations) == (2 if kind == "inverses" else 1) * (len(graph.relations) + 1)
    rows = torch.tensor([(h, len(graph.relations), t) for h, r, t in graph.train.tolist() if r == 0])
    again = evaluate(found.model, replace(found.graph, test=rows)).mrr
    own = evaluate(model, replace(graph, test=graph.train[graph.train[:, 1] == 0])).mrr
    assert again > 0.6 * own
    # The others are asked as they were, heads too.
    test = evaluate(found.model, replace(found.graph, test=graph.test)).mrr
    if kind != "fit":  # known entities follow the new facts a little
        assert test > 0.7 * evaluate(model, graph).mrr


def test_a_baseline_says_what_it_cannot():
    model, graph, settings = every_kind("complex")
    with pytest.raises(InputError, match="a new relation for complex: only our own models solve relations"):
        add(model, [(graph.entities[0], "new", graph.entities[1])], graph=graph, settings=settings)
    network = train(graph, small_settings("rgcn", epochs=1))
    with pytest.raises(InputError, match=r"rgcn makes vectors from those of neighbours, .* train again"):
        add(network, [("new", graph.relations[0], graph.entities[1])], graph=graph)


@pytest.mark.slow
def test_paths_lead_along_the_new_triples_too():
    model, graph, settings = every_kind("contrast")
    weighed = with_paths(model, graph).model
    triples = [("new", *rest) for _, *rest in named(graph, graph.train[:3])]
    head, _, tail = named(graph, graph.train[:1])[0]
    found = add(Run(weighed, graph, settings, {}), [*triples, (head, "again", tail)])
    assert isinstance(found.model, WithPaths)
    assert found.model.train.equal(found.graph.train)
    assert len(found.model.worth) == 2 * len(found.graph.relations)
    places = [
        each
        for each in range(2 * len(found.graph.relations))
        if each % len(found.graph.relations) < len(graph.relations)
    ]
    assert found.model.worth[places].equal(weighed.worth)
    assert evaluate(found.model, found.graph).mrr > 0.5 * evaluate(weighed, graph).mrr


def test_warm_epochs_go_on_from_the_model_and_change_it_little():
    model, graph, settings = every_kind("contrast")
    more = trained(graph, warm(settings, 1), start=model).model
    moved = (more.table - model.table).norm() / model.table.norm()
    assert 0 < moved < 0.3
    assert evaluate(more, graph).mrr > 0.7 * evaluate(model, graph).mrr
    assert trained(graph, warm(settings, 1), start=model).model.table.equal(more.table)
    assert warm(settings, 5).learning_rate == pytest.approx(settings.learning_rate * 5 / (settings.epochs + 5))


def test_a_model_in_groups_goes_on_in_groups():
    graph = rotated_graph()
    settings = replace(CONTRAST, groups=2, epochs=5)
    model = contrast(graph, settings)
    more = trained(graph, warm(settings, 1), start=model).model
    assert more.vectors.shape == model.vectors.shape
    assert (more.table - model.table).norm() / model.table.norm() < 0.5


def test_the_report_says_what_is_stale():
    model, graph, settings = every_kind("fit")
    report = {"metrics": {"test": {"mrr": 0.5}}, "checksum": graph.checksum, "curve": [], "dataset": "rotated"}
    found = add(Run(model, graph, settings, report), [("new", *rest) for _, *rest in named(graph, graph.train[:1])])
    assert found.report["stale"] == ["metrics", "curve"]
    assert found.report["metrics"] == {}
    assert found.report["before_updates"] == {"metrics": report["metrics"], "checksum": graph.checksum}
    assert found.report["checksum"] == found.graph.checksum != graph.checksum
    assert found.report["entities"] == len(graph.entities) + 1
    assert found.report["triples"]["train"] == len(graph.train) + 1
    again = add(found, [("newer", *rest) for _, *rest in named(graph, graph.train[:1])])
    assert again.report["before_updates"] == found.report["before_updates"]


def test_mistakes_in_python():
    model, graph, settings = every_kind("fit")
    triple = [("new", *rest) for _, *rest in named(graph, graph.train[:1])]
    with pytest.raises(InputError, match=r"needs the graph that the model was trained on, .* give it as graph=…"):
        add(model, triple)
    with pytest.raises(InputError, match="1 epoch, but the settings of the training are not known; leave epochs out"):
        add(model, triple, graph=graph, epochs=1)
    with pytest.raises(InputError, match="epochs -1, expected a whole number of at least 0"):
        add(model, triple, graph=graph, settings=settings, epochs=-1)
    with pytest.raises(InputError, match=r"none of the 2 entities of the update is in the graph \('x', 'y'\)"):
        add(model, [("x", graph.relations[0], "y")], graph=graph)
