"""Laws of soft answers: shares of one, as likely as they say, the same along one step or several."""

import numpy as np
import pytest
import torch

from procrustes_kge.explore.questions import soft
from procrustes_kge.explore.scores.asked import ask
from scorers import Table
from toys import planted_model, random_graph


def drawn(scale=1.0, entities=80, seed=0):
    """Return a table of scores whose answers are drawn from its softmax at a temperature, and a graph of them."""
    graph = random_graph(entities, 2, 900, seed)
    generator = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(4, entities, entities, generator=generator)
    for triples in (graph.train, graph.valid):
        head, relation, _ = triples.T
        triples[:, 2] = torch.multinomial(scores[relation, head].softmax(dim=1), 1, generator=generator)[:, 0]
    return Table(scores * scale), graph


@pytest.mark.parametrize("scale", [0.01, 1.0, 50.0])
def test_the_planted_temperature_is_found(scale):
    model, graph = drawn(scale)
    assert ask(model, graph).temperature == pytest.approx(scale, rel=0.25)


def test_a_model_that_scores_all_alike_has_a_temperature():
    graph = random_graph(10, 2, 40)
    assert ask(Table(torch.zeros(4, 10, 10)), graph).temperature == 1.0
    assert ask(planted_model()[0]).temperature == 1.0  # no graph tells


def test_shares_add_up_to_one_along_any_path():
    model, graph = drawn()
    asked = ask(model, graph)
    for path in ([0], [0, 1], [1, 2, 3]):
        assert soft.along(asked, 3, path).shares.sum() == pytest.approx(1)
    found = soft.analogous(asked, 1, 2, 3)
    assert found.shares.sum() == pytest.approx(1)
    assert found.weights.sum() == pytest.approx(1)


def test_a_path_is_the_sum_over_what_lies_between():
    model, graph = drawn(entities=40)
    asked = ask(model, graph)
    shares = [np.exp(soft.log_shares(asked, asked.scorer.scores(np.arange(40), np.full(40, each)))) for each in (0, 1)]
    first = shares[0][3] * (1 - soft.KNOWN)
    known = list(asked.facts.answers(3, 0))
    first[known] += soft.KNOWN / len(known)
    np.testing.assert_allclose(soft.along(asked, 3, [0, 1]).shares, first @ shares[1], rtol=1e-5, atol=1e-9)


def test_a_pair_leaves_other_known_answers_out():
    graph = random_graph(10, 2, 90)
    scores = torch.zeros(4, 10, 10)
    asked = ask(Table(scores), graph)
    head, relation, tail = graph.train[0].tolist()
    tails = 10 - len(asked.facts.answers(head, relation).keys() - {tail})
    heads = 10 - len(asked.facts.answers(tail, relation + 2).keys() - {head})
    logs = soft.pair_shares(asked, head, tail).logs
    assert logs[relation] == pytest.approx(-(np.log(tails) + np.log(heads)) / 2)
