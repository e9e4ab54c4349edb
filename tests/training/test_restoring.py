"""Laws of the way back from entities to relations: what was trained is found again, and nothing less likely."""

import os
from dataclasses import replace
from functools import cache, partial

import pytest
import torch
from hypothesis import given, strategies as st

from contrasts import small
from laws import is_orthogonal, refused
from likelihoods import close, drawn_models, losses_of
from procrustes_kge.graphs.graph import Vocabulary
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.linalg import completed, nearest_orthogonal, spherise
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.training import restoring
from procrustes_kge.training.contrastive import contrast
from procrustes_kge.training.full_batch import fit
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import learn, recipe
from procrustes_kge.training.restoring import restore_contrasted_relations, restore_relations
from toys import planted_model, random_graph, rotated_graph, same

REAL_DATA = os.environ.get("PROCRUSTES_DATA")
WAYS = {
    "all": {},
    "rotated alone": {"translate": False, "scale": False},
    "unit": {"lengths": "unit", "relations": "positives"},
    "some": {"negatives": 20},
}


@cache
def contrasted(way):
    """Return a small graph and a model that was trained on it with negatives."""
    graph = rotated_graph()
    return contrast(graph, small(epochs=16, **WAYS[way])), graph


def restored(model, graph, **changes):
    """Return the model with its rotations restored."""
    sides = {"translations": model.translations, "scales": model.scales}
    return replace(model, rotations=restore_contrasted_relations(model.vectors, graph, **sides, **changes))


# Models of fit.


@pytest.mark.parametrize("translate", [False, True])
@pytest.mark.parametrize("loss", ["squared", "norm"])
def test_the_entities_of_a_fitted_model_determine_its_relations(loss, translate):
    graph = rotated_graph()
    settings = FitSettings(dim=40, segment=10, epochs=5, patience=0, loss=loss, translate=translate, device="cpu")
    model = fit(graph, settings)
    rotations, translations = restore_relations(model.vectors, graph, translate)
    assert torch.equal(rotations, model.rotations)
    assert (translations is None) == (model.translations is None) == (not translate)
    if translate:
        assert torch.equal(translations, model.translations)


def test_planted_rotations_are_restored():
    model, graph = planted_model()
    rotations, translations = restore_relations(model.vectors, graph, translate=False)
    close(rotations, model.rotations, 1e-5)
    assert translations is None


@given(seed=st.integers(0, 2**31))
def test_restored_rotations_are_orthogonal(seed):
    # Wide segments and few triples: many relations leave their rotation free in some directions.
    graph = random_graph(8, 6, 20, seed)
    vectors = torch.randn(8, 2, 12, generator=torch.Generator().manual_seed(seed))
    for translate in (False, True):
        points = spherise(vectors.transpose(0, 1)).transpose(0, 1)
        rotations, _ = restore_relations(points, graph, translate)
        assert rotations.dtype == vectors.dtype
        close(rotations.mT @ rotations, torch.eye(12).expand_as(rotations), 1e-5)


def test_a_relation_without_triples_is_restored_by_what_completes_it():
    model, graph = planted_model()
    graph = replace(graph, relations=Vocabulary([*graph.relations, "unused"], "relation"))
    rotations, translations = restore_relations(model.vectors, graph, translate=True)
    close(rotations[-1], nearest_orthogonal(completed(torch.zeros_like(rotations[-1]))), 1e-5)
    assert not translations[[len(graph.relations) - 1, -1]].any()  # neither for its tails nor for its heads


def test_swapping_heads_and_tails_transposes_what_is_restored():
    model, graph = planted_model()
    swapped = replace(graph, train=graph.train[:, [2, 1, 0]])
    close(restore_relations(model.vectors, swapped, translate=False)[0], model.rotations.mT, 1e-5)


# Models of contrast.


@pytest.mark.parametrize("way", WAYS)
def test_restored_relations_rank_as_the_trained_ones_do(way):
    model, graph = contrasted(way)
    again = restored(model, graph)
    assert is_orthogonal(again.rotations)
    assert again.rotations.dtype == torch.float32
    for split in ("train", "test"):
        trained = evaluate(model, graph, split).mrr
        assert trained > 0.9
        assert evaluate(again, graph, split).mrr == pytest.approx(trained, abs=0.05)


@pytest.mark.parametrize("way", WAYS)
def test_restored_relations_are_at_least_as_likely_as_those_of_eq_3(way):
    model, graph = contrasted(way)
    solved, _ = restore_relations(model.vectors, graph, translate=False)
    before, after = (losses_of(model, graph, each) for each in (solved, restored(model, graph).rotations))
    assert bool((after <= before * 1.0001 + 1e-4).all())
    assert float(after.sum()) < float(before.sum())


def test_restored_relations_are_nearly_as_likely_as_the_trained_ones():
    for way in ("all", "rotated alone", "some"):
        model, graph = contrasted(way)
        after, trained = losses_of(restored(model, graph), graph).sum(), losses_of(model, graph).sum()
        assert float(after) < 1.1 * float(trained)


@pytest.mark.parametrize("way", ["all", "rotated alone"])
def test_restoring_repeats_and_changes_nothing_that_it_is_given(way):
    model, graph = contrasted(way)
    before = {name: table.clone() for name, table in model.tables().items()}
    first, second = restored(model, graph), restored(model, graph)
    assert first.rotations.equal(second.rotations)
    assert all(table.equal(before[name]) for name, table in model.tables().items())
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("way", WAYS)
def test_where_entities_are_many_some_of_them_restore_as_well(way, monkeypatch):
    model, graph = contrasted(way)
    monkeypatch.setattr(restoring, "MANY", 30)
    monkeypatch.setattr(restoring, "DRAWN", 25)
    some = restored(model, graph)
    assert same(some, restored(model, graph))
    assert is_orthogonal(some.rotations)
    assert evaluate(some, graph).mrr > evaluate(model, graph).mrr - 0.05


def test_workers_change_nothing():
    model, graph = contrasted("all")
    assert restored(model, graph, workers=1).rotations.equal(restored(model, graph, workers=3).rotations)


@pytest.mark.parametrize("together", [2, 3, 99])
def test_solving_several_segments_at_once_changes_nothing(together, monkeypatch):
    model, graph = planted_model()  # of five segments
    alone = restore_relations(model.vectors, graph)
    monkeypatch.setattr(restoring, "_segments_at_once", lambda *_: together)
    for one, other in zip(alone, restore_relations(model.vectors, graph), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_groups_are_restored_one_by_one():
    graph = rotated_graph()
    model = contrast(graph, small(dim=48, groups=3, epochs=8))
    whole = restored(model, graph, groups=3).rotations
    for group in range(3):
        part = slice(2 * group, 2 * group + 2)
        tables = {name: table[:, part].contiguous() for name, table in model.tables().items()}
        alone = Procrustes(model.entities, model.relations, **tables)
        assert whole[:, part].equal(restored(alone, graph).rotations)


def test_planted_rotations_are_restored_with_negatives_too():
    model, graph = planted_model()
    again = restored(model, graph)
    assert evaluate(again, graph).mrr == 1
    close(again.rotations, model.rotations, 0.3)


@pytest.mark.slow
@given(drawn_models([0.1, 1.0, 10.0], dtype=st.just(torch.float32)))
def test_any_vectors_give_relations_that_are_orthogonal_and_no_less_likely_than_those_of_eq_3(drawn):
    model, graph = drawn
    again = restored(model, graph)
    assert is_orthogonal(again.rotations)
    solved, _ = restore_relations(model.vectors, graph, translate=False)
    exact = replace(model, **{name: table.double() for name, table in model.tables().items()})
    before, after = (losses_of(exact, graph, each.double()) for each in (solved, again.rotations))
    if float(before.max()) < 80:  # see test_the_likelihood_of_long_vectors_is_that_of_the_models_own_scores_too
        assert bool((after <= before + 1e-3 * before.clamp_min(1)).all())


def with_an_unused_relation():
    """Return a model's vectors, and its graph with one relation more."""
    model, graph = contrasted("rotated alone")
    return model.vectors, replace(graph, relations=Vocabulary([*graph.relations, "unused"], "relation"))


def test_a_relation_without_triples_is_orthogonal_all_the_same_and_changes_no_other():
    (vectors, more), (model, graph) = with_an_unused_relation(), contrasted("rotated alone")
    rotations = restore_contrasted_relations(vectors, more)
    assert is_orthogonal(rotations)
    close(rotations[:-1], restored(model, graph).rotations, 1e-4)


def test_a_relation_without_triples_stays_what_completes_it():
    vectors, graph = with_an_unused_relation()
    rotations = restore_contrasted_relations(vectors, graph)
    solved, _ = restore_relations(vectors, graph, translate=False)
    close(rotations[-1], solved[-1], 1e-6)


def test_vectors_of_another_graph_or_shape_are_refused():
    model, graph = planted_model()
    for restore in (restore_relations, restore_contrasted_relations):
        call = partial(restore, model.vectors[1:], graph)
        refused(
            call,
            setting="vectors of 59 entities",
            seen="the graph rotated has 60",
            remedy="give the graph they were trained on",
        )
    flat = partial(restoring._check_vectors, model.vectors.flatten(1), graph)  # past the tests' own checker of shapes
    refused(flat, setting="vectors of shape", seen=(60, 30), remedy="expected [entities, segments, width]")


@pytest.mark.skipif(not REAL_DATA, reason="PROCRUSTES_DATA names no folder of benchmark archives")
@pytest.mark.slow
def test_restored_relations_of_umls_rank_as_the_trained_ones_do():
    graph = read_graph("umls")
    model = learn(graph, replace(recipe("accurate", graph, "cpu"), dim=60, epochs=10))
    again = restored(model, graph)
    trained = evaluate(model, graph, "valid").mrr  # measured: .87, and .88 restored
    assert trained > 0.8
    assert evaluate(again, graph, "valid").mrr == pytest.approx(trained, abs=0.05)
    assert float(losses_of(again, graph).sum()) < 1.1 * float(losses_of(model, graph).sum())
