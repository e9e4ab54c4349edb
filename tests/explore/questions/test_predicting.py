"""Laws of predictions: they are the model's own, in one order, by whichever way a question is asked."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from laws import refused
from procrustes_kge.explore.questions.judging import score
from procrustes_kge.explore.questions.predicting import analogy, predict
from procrustes_kge.explore.scores.asked import ask
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.paths import Paths
from procrustes_kge.models.with_paths import WithPaths
from procrustes_models import drawn, every_model, made
from scorers import tables
from toys import planted_model, random_graph, small_baseline


def names(answers):
    return [row.answer for row in answers]


def scores(answers):
    return pytest.approx([row.score for row in answers], abs=1e-5)


def baseline(name, graph):
    module = small_baseline(name, graph).eval()
    return TrainedBaseline(name, BASELINES[name].Options(), graph.entities, graph.relations, module)


@every_model
def test_predictions_are_the_models_own_answers(name):
    model, graph = made(name)
    for head, relation, tail in graph.test[:5].tolist():
        h, r, t = graph.entities[head], graph.relations[relation], graph.entities[tail]
        found = predict(model, h, r, k=7, known=True, graph=graph)
        assert [(row.answer, row.score, row.label) for row in found] == [
            (each.name, pytest.approx(each.score, abs=1e-5), each.label) for each in model.tails(h, r, 7, graph)
        ]
        assert [(row.head, row.relation, row.tail, row.rank) for row in found] == [
            (h, r, row.answer, place) for place, row in enumerate(found, start=1)
        ]
        assert names(predict(model, None, r, t, k=7, known=True, graph=graph)) == [
            each.name for each in model.heads(r, t, 7, graph)
        ]


@given(case=tables(), k=st.integers(1, 12), known=st.booleans())
def test_answers_are_all_entities_but_those_left_out_in_the_order_of_score_and_row(case, k, known):
    graph, model = case
    head, relation, _ = graph.train[0].tolist()
    asked = ask(model, graph)
    held = asked.facts.answers(head, relation)
    left_out = {} if asked.facts.may_answer_itself(head, relation) else {head}
    left_out = set(left_out) - held.keys() if known else {*left_out, *held}
    order = model.scores_of[relation, head].tolist()
    expected = sorted(set(range(len(order))) - left_out, key=lambda each: (-order[each], each))[:k]
    found = predict(model, head, relation, k=k, known=known, graph=graph)
    assert names(found) == [graph.entities[each] for each in expected]
    assert [row.known for row in found] == [held.get(each) for each in expected]


@every_model
def test_an_inverse_relation_from_a_tail_asks_for_its_heads(name):
    model, graph = made(name)
    _, relation, tail = graph.test[0].tolist()
    for spelled in (f"^{graph.relations[relation]}", f"{graph.relations[relation]}⁻¹"):
        there = predict(model, tail, spelled, k=9, graph=graph)
        back = predict(model, None, relation, tail, k=9, graph=graph)
        assert names(there) == names(back)
        assert {row.relation for row in there} == {f"{graph.relations[relation]}⁻¹"}
        assert names(predict(model, None, spelled, tail, k=9, graph=graph)) == names(
            predict(model, tail, relation, k=9, graph=graph)
        )


@every_model
def test_a_path_of_one_relation_is_that_relation(name):
    model, graph = made(name)
    for head, relation, _ in graph.test[:3].tolist():
        assert predict(model, head, [relation], graph=graph) == predict(model, head, relation, graph=graph)


def test_a_planted_path_leads_to_its_end_through_what_lies_between():
    model, graph = planted_model()
    for head in range(0, 60, 7):
        first, second = 1, 5
        asked = ask(model, graph)
        middle = int(asked.scorer.scores(np.array([head]), np.array([first])).argmax())
        end = int(asked.scorer.scores(np.array([middle]), np.array([second])).argmax())
        (found,) = predict(asked, head, [first, second], k=1, known=True)
        assert (found.answer, found.via) == (graph.entities[end], graph.entities[middle])
        assert found.score == pytest.approx(0, abs=1e-3)  # the log of a share that is all
        assert names(predict(asked, None, [first, second], end, k=1, known=True)) == [graph.entities[head]]
        spelled = f"{graph.relations[first]}, {graph.relations[second]}"
        assert predict(asked, head, spelled, k=3) == predict(asked, head, [first, second], k=3)


def test_a_path_and_back_leads_home():
    model, graph = planted_model()
    path = [graph.relations[3], f"^{graph.relations[3]}"]
    assert names(predict(model, 17, path, k=1, known=True, graph=graph)) == [graph.entities[17]]


def test_along_a_path_what_the_graph_knows_is_marked_or_left_out():
    graph = random_graph(12, 2, 60)
    model = drawn()[0]
    model = replace(model, entities=graph.entities, relations=graph.relations, vectors=model.vectors[:12])
    found = predict(model, 0, [0, 1], k=12, known=True, graph=graph)
    reached = {
        graph.entities[end]
        for start, first, middle in torch.cat([graph.train, graph.valid, graph.test]).tolist()
        for again, second, end in torch.cat([graph.train, graph.valid, graph.test]).tolist()
        if (start, first, again, second) == (0, 0, middle, 1)
    }
    assert {row.answer for row in found if row.known} == reached
    assert {row.answer for row in predict(model, 0, [0, 1], k=12, graph=graph)} == {*graph.entities} - reached


def test_the_planted_relation_of_a_pair_comes_first():
    model, graph = planted_model()
    for head, relation, tail in graph.test.tolist():
        found = predict(model, head, None, tail, known=True, k=8, graph=graph)
        assert found[0].answer == graph.relations[relation]
        assert (found[0].known, len(found)) == ("test", 8)
        left = predict(model, head, None, tail, k=8, graph=graph)
        assert graph.relations[relation] not in names(left)


def test_planted_analogies_are_found_with_a_graph_and_without():
    model, graph = planted_model()
    for a, relation, b in graph.test[:8].tolist():
        for c, same, d in graph.train[:400:37].tolist():
            if relation == same and c != a:
                (found,) = analogy(model, a, b, c, k=1, graph=graph)
                assert (found.answer, found.relation) == (graph.entities[d], graph.relations[relation])
                (found,) = analogy(model, b, a, d, k=1, graph=graph)
                assert (found.answer, found.relation) == (graph.entities[c], f"{graph.relations[relation]}⁻¹")
                assert analogy(model, a, b, c, k=1)[0].answer == graph.entities[d]


def test_an_analogy_of_what_is_not_related_is_told():
    model, graph = drawn()
    (note,) = analogy(model, 1, 2, 3, graph=graph, k=1).notes or ("no relation",)
    assert "no relation" in note


@pytest.mark.parametrize("name", sorted(BASELINES))
def test_every_baseline_answers_every_question(name):
    graph = random_graph(12, 2, 60)
    model = baseline(name, graph)
    asked = ask(model, graph)
    for found in (
        predict(asked, 0, 1, k=99),
        predict(asked, None, 1, 0, k=99),
        predict(asked, 0, [0, 1], k=99),
        analogy(asked, 0, 1, 2, k=99),
    ):
        assert 0 < len(found) <= 12
        assert [row.score for row in found] == sorted((row.score for row in found), reverse=True)
    assert len(predict(asked, 0, None, 1, known=True)) == 2
    assert score(asked, 0, 1, 2)[0].score == pytest.approx(
        next(row.score for row in predict(model, 0, 1, k=99, known=True) if row.tail == graph.entities[2]), abs=1e-4
    )


def test_a_model_with_paths_answers_every_question():
    graph = random_graph(12, 2, 60)
    embedding = replace(drawn()[0], entities=graph.entities, relations=graph.relations)
    embedding = replace(embedding, vectors=embedding.vectors[:12])
    paths = Paths(torch.tensor([0, 1]), torch.tensor([[1, -1, -1], [0, 2, -1]]), torch.ones(2))
    asked = ask(WithPaths(embedding, paths, torch.ones(4), graph.train), graph)
    assert names(predict(asked, 0, 0, k=99, known=True)) == [
        each.name for each in asked.scorer.model.tails(graph.entities[0], graph.relations[0], 99, graph)
    ]
    assert len(predict(asked, 0, [0, 1], k=99)) > 0
    assert len(analogy(asked, 0, 1, 2, k=99)) > 0


@pytest.mark.slow
@every_model
def test_many_questions_are_answered_as_each_alone(name):
    model, graph = made(name)
    asked = ask(model, graph)
    rows = [[graph.entities[h], graph.relations[r], None] for h, r, _ in graph.test[:9].tolist()]
    rows += [[None, graph.relations[r], graph.entities[t]] for _, r, t in graph.test[:9].tolist()]
    rows += [[graph.entities[graph.test[0, 0]], None, graph.entities[graph.test[0, 2]]]]
    together = predict(asked, questions=rows, k=3)
    alone = [row for number, row in enumerate(rows, 1) for row in predict(ask(model, graph), *row, k=3)]
    assert [row.score for row in together] == scores(alone)
    assert [row.rank for row in together] == [row.rank for row in alone]
    assert sorted({row.question for row in together}) == list(range(1, len(rows) + 1))
    for one, other in zip(together, alone, strict=True):  # products of other sizes round otherwise: equals may change
        same = predict(asked, *rows[one.question - 1], k=99)
        tied = [row.answer for row in same if row.score == pytest.approx(other.score, abs=1e-5)]
        assert {one.answer, other.answer} <= set(tied)


def test_no_more_scores_are_held_at_once_than_a_block(monkeypatch):
    model, graph = planted_model()
    asked, seen = ask(model, graph), []
    monkeypatch.setattr("procrustes_kge.explore.scores.asked.SCORES_AT_ONCE", 240)
    plain = type(asked.scorer).scores
    monkeypatch.setattr(type(asked.scorer), "scores", lambda self, e, d: seen.append(len(e)) or plain(self, e, d))
    found = predict(asked, questions=[(row % 60, row % 8, None) for row in range(100)], k=2)
    assert len(found) == 200
    assert max(seen) == 4
    seen.clear()
    predict(asked, 0, [0, 1], k=2)
    predict(asked, 0, None, 1, k=2)
    assert max(seen) <= 4


def test_the_wrong_way_round_is_told_and_nothing_else_is():
    graph = random_graph(12, 2, 60)
    rows = [[0, 0, 1], [2, 0, 3], [1, 1, 0]]
    graph = replace(graph, train=torch.tensor(rows), valid=graph.valid[:0], test=graph.test[:0])
    model = replace(drawn()[0], entities=graph.entities, relations=graph.relations)
    model = replace(model, vectors=model.vectors[:12])
    (note,) = predict(model, 1, 0, graph=graph).notes
    assert "'entity 1' as head of 'relation 0'" in note
    assert "did you mean --tail 'entity 1'?" in note
    (note,) = predict(model, None, 0, 0, graph=graph).notes
    assert "did you mean --head 'entity 0'?" in note
    for fine in ((0, 0, None), (None, 0, 1), (5, 0, None)):
        assert predict(model, *fine, graph=graph).notes == ()


def test_what_cannot_be_asked_is_refused_with_what_can():
    model, graph = planted_model()
    first, relation = graph.entities[0], graph.relations[0]
    refused(lambda: predict(model, first), setting="head alone", seen="head", remedy="give two of head, relation")
    refused(lambda: predict(model), setting="about nothing", seen="nothing", remedy="give two of head, relation")
    refused(
        lambda: predict(model, first, relation, first), setting="head, relation", seen="all given", remedy="`score`"
    )
    for k in (0, -1, True):
        refused(lambda k=k: predict(model, first, relation, k=k), setting="k", seen=k, remedy="at least 1")
    refused(lambda: predict(model, 60, relation), setting="entity", seen="60", remedy="from 0 to 59")
    refused(lambda: predict(model, first, "#8"), setting="relation", seen="8", remedy="from 0 to 7")
    refused(lambda: predict(model, first, []), setting="path", seen="0 relations", remedy="1 or more")
    refused(lambda: predict(model, first, f"{relation}, no"), setting="relation", seen="'no'", remedy="Known")
    refused(lambda: predict(3, first, relation), setting="got 3", seen="3", remedy="run folder, a run or a model")
    refused(
        lambda: predict(model, first, relation, questions=[]), setting="question", seen="both", remedy="one of the two"
    )
    refused(lambda: analogy(model, first, first), setting="analogy", seen="a part missing", remedy="three entities")


def test_a_row_is_as_good_as_a_name():
    model, graph = planted_model()
    assert predict(model, 4, 1) == predict(model, "#4", "#1") == predict(model, np.int64(4), "TURN  2")
    assert predict(model, 4, 1)[0].head == graph.entities[4]


def test_more_answers_than_there_are_is_all_of_them():
    model, graph = planted_model()
    assert len(predict(model, 0, 1, k=10**12, known=True, graph=graph)) == 59  # but the entity itself
    assert len(predict(model, 0, 1, k=10**12)) == 60  # without a graph nothing says that it is none
