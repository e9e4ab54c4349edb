"""Laws of calibration: planted probabilities are found again, and the error of true ones is nothing."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from laws import refused
from procrustes_kge.explore.calibration import (
    FEWEST,
    binned,
    calibrate,
    expected_calibration_error,
    reliability,
    rising,
)
from procrustes_kge.graphs.graph import Graph
from scorers import Table, random_table
from toys import planted_model, random_graph

LIFT = 2.0  # how much higher right answers score, on average


def planted(seed=0, entities=150, relations=2, triples=3000, scales=None):
    """Return scores of which log Λ is known: Gaussian of variance one around 0, or 2 where the answer is right."""
    graph = random_graph(entities, relations, triples, seed)
    generator = torch.Generator().manual_seed(seed + 1)
    scores = torch.randn(2 * relations, entities, entities, generator=generator)
    head, relation, tail = torch.cat([graph.train, graph.valid, graph.test]).T
    scores[relation, head, tail] += LIFT
    scores[relation + relations, tail, head] += LIFT
    scales = torch.ones(2 * relations) if scales is None else scales
    return Table(scores * scales[:, None, None]), graph


def planted_ratio(scores):
    return LIFT * scores - LIFT**2 / 2


@given(seed=st.integers(0, 2**31), many=st.integers(1, 30), others=st.integers(0, 60), values=st.integers(1, 20))
def test_the_curve_rises_and_is_finite(seed, many, others, values):
    random = np.random.default_rng(seed)
    right, other = random.integers(values, size=many) + 0.5, random.integers(values, size=others) + 0.0
    knots, evidence = rising(right, other, random.random(others) + 0.1)
    assert (np.diff(knots) > 0).all()
    assert (np.diff(evidence) >= 0).all()
    assert np.isfinite(evidence).all()
    low, high = min([*right, *other]), max([*right, *other])
    assert low <= knots[0] <= knots[-1] <= high


def test_a_planted_curve_is_found_again_whatever_an_example_stands_for():
    random = np.random.default_rng(0)
    right, other = random.normal(LIFT, size=20_000), random.normal(size=20_000)
    for mass in (1.0, 100.0):
        knots, evidence = rising(right, other, np.full(len(other), mass))
        at = np.linspace(-1, 3, 9)
        np.testing.assert_allclose(np.interp(at, knots, evidence), planted_ratio(at), atol=0.5)


@pytest.mark.parametrize("scales", [[1, 1, 1, 1], [1, 5, 0.2, 3]])
def test_planted_probabilities_are_found_again_whatever_the_scale_of_each_relation(scales):
    model, graph = planted(scales=torch.tensor(scales))
    found, at = calibrate(model, graph), np.linspace(-1, 3, 9)
    for direction, scale in enumerate(scales):
        truth = 1 / (1 + np.exp(-planted_ratio(at)))
        said = found.probability(at * scale, np.full(9, direction), prior=0.5)
        np.testing.assert_allclose(said, truth, atol=0.12)
    measured = reliability(found, model, graph)
    assert measured["even"]["error"] < 0.05
    assert measured["answers"]["error"] < 0.05
    assert found.prior == pytest.approx(1 / graph_candidates(graph), rel=0.01)
    assert (found.examples > 0).all()


def graph_candidates(graph):
    """Return how many entities a validation answer is compared with, itself included, on average."""
    known = torch.cat([graph.train, graph.valid, graph.test])
    others = [
        ((known[:, 1] == r) & (known[:, side] == entity)).sum().item() - 1
        for row in graph.valid.tolist()
        for side, entity, r in ((0, row[0], row[1]), (2, row[2], row[1]))
    ]
    return len(graph.entities) - sum(others) / len(others)


def test_a_relation_without_validation_triples_takes_the_curve_of_all_at_its_own_scale():
    model, graph = planted(scales=torch.tensor([1.0, 10, 1, 10]))
    valid = graph.valid[graph.valid[:, 1] == 0]
    fewer = Graph("fewer", graph.entities, graph.relations, graph.train, valid, graph.test)
    found = calibrate(model, fewer)
    assert found.examples.tolist() == [len(valid), 0, len(valid), 0]
    at = np.linspace(0, 3, 7)
    said = [found.probability(at * scale, np.full(7, row), 0.5) for row, scale in ((0, 1), (1, 10))]
    np.testing.assert_allclose(*said, atol=0.15)


def test_equal_scores_are_as_good_as_none():
    model, graph = planted()
    flat = Table(torch.zeros_like(model.scores_of))
    found = calibrate(flat, graph)
    np.testing.assert_allclose(found.probability(np.zeros(4), np.arange(4)), found.prior, rtol=0.05)


@given(seed=st.integers(0, 2**31))
def test_any_table_of_small_numbers_can_be_calibrated(seed):
    graph = random_graph(12, 3, 300, seed)
    model = random_table(graph, seed=seed)
    found = calibrate(model, graph)
    said = found.probability(np.arange(3), np.zeros(3, dtype=int))
    assert (np.diff(said) >= 0).all()
    assert 0 <= reliability(found, model, graph)["answers"]["error"] <= 1


def test_a_perfect_model_is_sure_and_right():
    model, graph = planted_model()
    found = calibrate(model, graph)
    measured = reliability(found, model, graph)
    assert measured["answers"]["error"] < 0.05
    best = measured["answers"]["bins"][-1]
    assert min(best["probability"], best["right"]) > 0.9


def test_the_same_seed_repeats():
    model, graph = planted()
    assert calibrate(model, graph, seed=3).as_json() == calibrate(model, graph, seed=3).as_json()
    assert calibrate(model, graph, seconds=0).triples >= FEWEST


@given(seed=st.integers(0, 2**31), bins=st.integers(1, 12))
def test_true_probabilities_have_no_error_and_wrong_ones_that_by_which_they_are_wrong(seed, bins):
    random = np.random.default_rng(seed)
    shares = random.integers(0, 11, 5)
    said = np.repeat(shares / 10, 10)
    right = np.concatenate([np.arange(10) < share for share in shares])
    assert expected_calibration_error(said, right, bins=bins) == pytest.approx(0, abs=1e-12)
    assert expected_calibration_error(np.full(10, 0.75), np.arange(10) < 4, bins=bins) == pytest.approx(0.35)
    assert sum(each["weight"] for each in binned(said, right, bins=bins)) == 50


def test_an_example_may_weigh_more_than_another():
    twice = expected_calibration_error([0.2, 0.7, 0.7], [0, 1, 1])
    assert expected_calibration_error([0.2, 0.7], [0, 1], [1, 2]) == pytest.approx(twice)


def test_what_cannot_be_calibrated_is_refused():
    model, graph = planted()
    few = Graph("few", graph.entities, graph.relations, graph.train, graph.valid[:3], graph.test[:0])
    refused(lambda: calibrate(model, few), setting="few", seen="3 validation triples", remedy="set more aside")
    found = calibrate(model, graph)
    refused(lambda: reliability(found, model, few), setting="few", seen="no test triples", remedy="set some aside")
    broken = Table(torch.full_like(model.scores_of, torch.nan))
    refused(lambda: calibrate(broken, graph), setting="scores", seen="not finite", remedy="learning rate")
    refused(lambda: binned([1.5], [1]), setting="probability", seen="outside 0 to 1", remedy="between")
