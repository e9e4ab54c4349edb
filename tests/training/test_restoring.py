"""Laws of the way back from entities to relations: the likelihood never falls, and what was trained is found again."""

import os
from dataclasses import replace
from functools import cache, partial

import pytest
import torch
from hypothesis import given, strategies as st

from laws import refused
from procrustes_kge.graphs.graph import Vocabulary
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.linalg import procrustes_step
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.training import restoring
from procrustes_kge.training.contrastive import contrast
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch import fit
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import learn, recipe
from procrustes_kge.training.restoring import Likelihood, restore_contrasted_relations, restore_relations
from toys import builds, planted_model, random_graph, random_graphs, random_orthogonal, rotated_graph, same

REAL_DATA = os.environ.get("PROCRUSTES_DATA")
WAYS = {
    "all": {},
    "scaled": {"translate": False},
    "translated": {"scale": False},
    "rotated alone": {"translate": False, "scale": False},
    "unit": {"lengths": "unit", "relations": "positives"},
    "some": {"negatives": 20},
}


def drawn_model(graph, segments, width, size, translate, scale, seed, dtype=torch.float64):
    """Return a model that was never trained, in float64 so that rounding does not hide a rise, and its graph."""
    generator = torch.Generator().manual_seed(seed)
    directions = 2 * len(graph.relations)

    def normal(rows):
        return torch.randn(rows, segments, width, generator=generator, dtype=torch.float64)

    tables = (
        size * normal(len(graph.entities)),
        random_orthogonal(width, generator, (len(graph.relations), segments)),
        normal(directions) if translate else None,
        normal(directions) if scale else None,
    )
    tables = (None if table is None else table.to(dtype) for table in tables)
    return Procrustes(graph.entities, graph.relations, *tables), graph


def drawn_models(sizes, **fixed):
    """Draw a model and a graph: any number of segments, with and without scales and translations."""
    return builds(
        drawn_model,
        graph=random_graphs(),
        segments=st.integers(1, 4),
        width=st.integers(1, 5),
        size=st.sampled_from(sizes),
        translate=st.booleans(),
        scale=st.booleans(),
        seed=st.integers(0, 2**31),
        **fixed,
    )


def likelihood_of(model, graph):
    return Likelihood(model.vectors, graph, model.translations, model.scales)


def losses_of(model, graph, rotations=None):
    """Return −log p of each relation's answers, both directions, by the model's own scores of all entities."""
    model = model if rotations is None else replace(model, rotations=rotations)
    head, relation, tail = graph.train.unbind(dim=1)
    losses = model.vectors.new_zeros(len(graph.relations))
    for asked, direction, answer in ((head, relation, tail), (tail, relation + len(graph.relations), head)):
        scores = model.scores(model, model.query(model, asked, direction))
        logs = scores.log_softmax(dim=1).gather(1, answer[:, None])[:, 0]
        losses = losses.index_add(0, relation, -logs)
    return losses


def close(left, right, tolerance=1e-9):
    torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)


def is_orthogonal(rotations):
    exact = rotations.double()
    return float((exact @ exact.mT - torch.eye(exact.shape[-1])).abs().max()) < 1e-6


@cache
def contrasted(way):
    """Return a small graph and a model that was trained on it with negatives."""
    graph = rotated_graph()
    settings = ContrastSettings(dim=40, segment=8, epochs=16, batch=128, device="cpu")
    return contrast(graph, replace(settings, **WAYS[way])), graph


def restored(model, graph, **changes):
    """Return the model with its rotations restored."""
    sides = {"translations": model.translations, "scales": model.scales}
    return replace(model, rotations=restore_contrasted_relations(model.vectors, graph, **sides, **changes))


# The likelihood.


@given(drawn_models([0.1, 1.0, 2.0]))
def test_the_likelihood_is_that_of_the_models_own_scores(drawn):
    model, graph = drawn
    losses, _ = likelihood_of(model, graph).at(model.rotations)
    close(losses, losses_of(model, graph))


@given(drawn_models([0.1, 1.0, 10.0]))
def test_the_gradient_is_that_of_autograd(drawn):
    model, graph = drawn
    rotations = model.rotations.clone().requires_grad_()
    losses_of(model, graph, rotations).sum().backward()
    _, gradient = likelihood_of(model, graph).at(model.rotations)
    close(gradient, rotations.grad, 1e-9 * max(1.0, rotations.grad.abs().max().item()))


@given(drawn_models([0.5, 1.0]))
def test_the_gradient_is_that_of_finite_differences(drawn):
    model, graph = drawn
    likelihood = likelihood_of(model, graph)
    _, gradient = likelihood.at(model.rotations)
    direction = torch.randn(model.rotations.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ahead, behind = (likelihood.at(model.rotations + step * direction)[0].sum() for step in (1e-5, -1e-5))
    close((ahead - behind) / 2e-5, (gradient * direction).sum(), 1e-5)


@given(drawn_models([1.0]))
def test_looking_at_other_rotations_leaves_nothing_behind(drawn):
    model, graph = drawn
    likelihood = likelihood_of(model, graph)
    before, bound = likelihood.at(model.rotations), likelihood.curvature()
    likelihood.at(model.rotations.mT)
    after = likelihood.at(model.rotations)
    assert all(one.equal(other) for one, other in zip(before, after, strict=True))
    assert likelihood.curvature().equal(bound)


def test_the_likelihood_of_long_vectors_is_that_of_the_models_own_scores_too():
    model, graph = drawn_model(random_graph(8, 1, 42), 3, 3, 10.0, translate=False, scale=False, seed=0)
    losses, _ = likelihood_of(model, graph).at(model.rotations)
    close(losses, losses_of(model, graph))


# The law.


@given(drawn_models([0.1, 1.0, 3.0, 10.0]))
def test_a_procrustes_step_under_the_curvature_never_lowers_the_likelihood(drawn):
    model, graph = drawn
    likelihood = likelihood_of(model, graph)
    losses, rotations = losses_of(model, graph), model.rotations
    for _ in range(3):
        _, gradient = likelihood.at(rotations)
        rotations = procrustes_step(rotations, gradient, likelihood.curvature())
        after = losses_of(model, graph, rotations)
        assert bool((after <= losses + 1e-10 * losses.clamp_min(1)).all())  # of every relation on its own
        assert is_orthogonal(rotations)
        losses = after


@given(drawn_models([0.1, 1.0, 2.0]))
def test_the_law_holds_for_the_losses_that_are_returned(drawn):
    model, graph = drawn
    likelihood = likelihood_of(model, graph)
    losses, gradient = likelihood.at(model.rotations)
    after, _ = likelihood.at(procrustes_step(model.rotations, gradient, likelihood.curvature()))
    assert bool((after <= losses + 1e-10 * losses.clamp_min(1)).all())


@given(drawn_models([0.1, 1.0, 10.0]), st.sampled_from([0.01, 0.3, 1.0, 3.0]), st.integers(0, 2**31))
def test_the_loss_lies_below_its_tangent_and_the_curvature_anywhere(drawn, far, seed):
    """Also between orthogonal matrices: loss(Q) ≤ loss(Q₀) + ⟨∂loss, Q − Q₀⟩ + ½ Σ_s L_s ‖Q_s − Q₀_s‖²."""
    model, graph = drawn
    likelihood = likelihood_of(model, graph)
    losses = losses_of(model, graph)
    _, gradient = likelihood.at(model.rotations)
    generator = torch.Generator().manual_seed(seed)
    moved = far * torch.randn(model.rotations.shape, generator=generator, dtype=torch.float64)
    tangent = losses + (gradient * moved).sum(dim=(1, 2, 3))
    bound = tangent + (likelihood.curvature() * moved.square().sum(dim=(2, 3))).sum(dim=1) / 2
    after = losses_of(model, graph, model.rotations + moved)
    assert bool((after <= bound + 1e-10 * bound.abs().clamp_min(1)).all())
    assert bool((after >= tangent - 1e-10 * bound.abs().clamp_min(1)).all())  # convex


def test_a_tenth_of_the_curvature_is_no_bound():
    """The law is not had for nothing: of a hundred models, some would break it."""

    def rises(seed):
        model, graph = drawn_model(random_graph(5, 1, 40, seed), 1, 2, 1.0, translate=False, scale=False, seed=seed)
        likelihood = likelihood_of(model, graph)
        losses, gradient = likelihood.at(model.rotations)
        after, _ = likelihood.at(procrustes_step(model.rotations, gradient, 0.1 * likelihood.curvature()))
        return bool((after > losses + 1e-9).any())

    assert any(map(rises, range(100)))


@given(drawn_models([1.0]), st.floats(0.1, 10))
def test_the_curvature_grows_with_the_fourth_power_of_length_and_the_square_of_scales(drawn, factor):
    model, graph = drawn
    bound = likelihood_of(model, graph).curvature()
    longer = replace(model, vectors=factor * model.vectors)
    close(likelihood_of(longer, graph).curvature(), factor**4 * bound, 1e-8)
    ones = torch.ones(2 * len(graph.relations), *model.vectors.shape[1:], dtype=torch.float64)
    plain, stretched = (likelihood_of(replace(model, scales=each), graph).curvature() for each in (None, factor * ones))
    close(stretched, factor**2 * plain, 1e-8)


@given(drawn_models([1.0]))
def test_moving_all_entities_alike_changes_no_reach(drawn):
    """Scores against all entities move alike with a shift of the answers: only how far these spread counts."""
    model, graph = drawn
    alike = replace(model, vectors=model.vectors[:1].expand_as(model.vectors).contiguous())
    close(likelihood_of(alike, graph).curvature(), torch.zeros(model.rotations.shape[:2], dtype=torch.float64), 1e-18)


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
    for way in ("all", "scaled", "translated", "rotated alone", "some"):
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


@given(drawn_models([0.1, 1.0, 10.0]))
def test_against_some_entities_too_a_step_under_the_curvature_never_raises_the_loss(drawn):
    model, graph = drawn
    many = max(1, len(graph.entities) // 2)
    likelihood = Likelihood(model.vectors, graph, model.translations, model.scales, many)
    losses, gradient = likelihood.at(model.rotations)
    again, _ = likelihood.at(model.rotations)
    assert losses.equal(again)  # the same entities each time
    tiny = torch.finfo(losses.dtype).tiny ** 0.5
    tried = procrustes_step(model.rotations, gradient, likelihood.curvature().clamp_min(tiny))
    new_losses, _ = likelihood.at(tried)
    assert (new_losses <= losses * (1 + 1e-9) + 1e-9).all()


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


def test_groups_are_restored_one_by_one():
    graph = rotated_graph()
    settings = ContrastSettings(dim=48, segment=8, groups=3, epochs=8, batch=128, device="cpu")
    model = contrast(graph, settings)
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


def test_vectors_of_another_graph_are_refused():
    model, graph = planted_model()
    for restore in (restore_relations, restore_contrasted_relations):
        call = partial(restore, model.vectors[1:], graph)
        refused(call, setting="vectors of 59 entities", seen="the graph rotated has 60", remedy="give the graph that")


@pytest.mark.skipif(not REAL_DATA, reason="PROCRUSTES_DATA names no folder of benchmark archives")
def test_restored_relations_of_umls_rank_as_the_trained_ones_do():
    graph = read_graph("umls")
    model = learn(graph, replace(recipe("accurate", graph, "cpu"), dim=60, epochs=10))
    again = restored(model, graph)
    trained = evaluate(model, graph, "valid").mrr  # measured: .87, and .88 restored
    assert trained > 0.8
    assert evaluate(again, graph, "valid").mrr == pytest.approx(trained, abs=0.05)
    assert float(losses_of(again, graph).sum()) < 1.1 * float(losses_of(model, graph).sum())
