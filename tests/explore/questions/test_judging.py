"""Laws of judgements: scores and ranks are those that predictions and evaluation give."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given

from laws import refused
from procrustes_kge.explore.calibration import calibrate
from procrustes_kge.explore.questions.judging import score
from procrustes_kge.explore.questions.predicting import predict
from procrustes_kge.explore.scores.asked import ask
from procrustes_kge.models.ranking import rank
from procrustes_models import every_model, made
from scorers import tables
from toys import planted_model


@given(case=tables())
def test_ranks_are_those_of_evaluation(case):
    graph, model = case
    for split in ("train", "test"):
        triples = graph.split(split)
        if not len(triples):
            continue
        ranks = rank(model, graph, triples)
        found = score(model, questions=triples.tolist(), graph=graph)
        tails, heads = ranks.realistic.view(2, -1).tolist()
        assert [(row.tail_rank, row.head_rank) for row in found] == list(zip(tails, heads, strict=True))
        many = ranks.candidates.view(2, -1).tolist()
        assert [(row.tails, row.heads) for row in found] == list(zip(*many, strict=True))
        assert [row.known for row in found] == [split] * len(triples)


@pytest.mark.slow
@every_model
def test_a_score_is_that_of_the_prediction(name):
    model, graph = made(name)
    asked = ask(model, graph)
    for head, relation, tail in graph.test[:4].tolist():
        (judged,) = score(asked, head, relation, tail)
        offered = predict(asked, head, relation, k=99, known=True)
        (same,) = [row for row in offered if row.tail == graph.entities[tail]]
        assert judged.score == pytest.approx(same.score, abs=1e-5)
        better = [row for row in offered if row.score > same.score and not row.known]
        assert judged.tail_rank == pytest.approx(len(better) + 1, abs=1)


def test_a_probability_is_that_of_the_prediction_and_rises_with_the_score():
    model, graph = planted_model()
    asked = replace(ask(model, graph), calibration=calibrate(model, graph))
    offered = predict(asked, 4, 1, k=59, known=True)
    shares = [row.probability for row in offered]
    assert shares == sorted(shares, reverse=True)
    assert 0 <= shares[-1] <= shares[0] <= 1
    for row in offered[:5]:
        assert score(asked, row.head, row.relation, row.tail)[0].probability == pytest.approx(row.probability)
    (pair,) = predict(asked, offered[0].head, None, offered[0].tail, k=1, known=True)
    assert pair.probability == pytest.approx(offered[0].probability)
    assert predict(asked, 4, [1, 2], k=1)[0].probability is None  # several relations are no triple


def test_an_inverse_relation_is_judged_as_its_triple_read_backwards():
    model, graph = planted_model()
    (there,) = score(model, 4, 1, 6, graph=graph)
    (back,) = score(model, 6, f"^{graph.relations[1]}", 4, graph=graph)
    assert (there.tail_rank, there.head_rank, there.known) == (back.head_rank, back.tail_rank, back.known)


def test_several_relations_are_judged_as_one():
    model, graph = planted_model()
    (best,) = predict(model, 4, [1, 2], k=1, known=True, graph=graph)
    (judged,) = score(model, 4, [1, 2], best.tail, graph=graph)
    assert (judged.tail_rank, judged.head_rank) == (1, 1)
    assert judged.score == pytest.approx(best.score)


def test_a_part_that_is_missing_is_refused():
    model, _ = planted_model()
    refused(lambda: score(model, 4, 1), setting="tail", seen="without its tail", remedy="`predict`")
    refused(lambda: score(model, questions=[(4, None, 5)]), setting="relation", seen="without its", remedy="all three")


def test_scores_that_are_no_numbers_are_refused():
    model, _ = planted_model()
    model.vectors[3] = torch.nan
    refused(lambda: score(model, 4, 1, 6), setting="scores", seen="not numbers", remedy="lower")
