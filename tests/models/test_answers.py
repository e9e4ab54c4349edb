"""Answers by name: the best first, and of equal ones the lowest id first."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest
import torch
from hypothesis import given, strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph, Vocabulary
from procrustes_kge.models.predictor import best, may_answer_itself
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.models.ranking import evaluate
from procrustes_models import drawn, every_model, made, models_that, scores_of

NUMBERS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf")]),  # so few that most are equal
    st.floats(width=32, allow_nan=False),
)


@given(st.lists(NUMBERS, min_size=1, max_size=60), st.integers(1, 70))
def test_the_best_are_those_of_the_highest_score_and_then_of_the_lowest_id(scores, k):
    expected = sorted(range(len(scores)), key=lambda index: (-scores[index], index))[:k]
    assert best(torch.tensor(scores), k).tolist() == expected


@given(st.integers(1, 3000), st.integers(1, 5), st.integers(1, 3000), st.integers(0, 99))
def test_of_thousands_of_equal_scores_the_lowest_ids_are_kept(count, kinds, k, seed):
    scores = torch.randint(kinds, (count,), generator=torch.Generator().manual_seed(seed))
    expected = sorted(range(count), key=lambda index: (-int(scores[index]), index))[:k]
    assert best(scores.float(), k).tolist() == expected


def test_scores_that_are_no_numbers_are_refused():
    scores = torch.tensor([1.0, float("nan"), 2.0])
    with pytest.raises(InputError, match=r"scores are not numbers.*learning rate"):
        best(scores, 1)
    model, graph = drawn()
    broken = replace(model, vectors=model.vectors * torch.nan)
    with pytest.raises(InputError, match="scores are not numbers"):
        broken.tails(graph.entities[0], graph.relations[0])


def test_a_model_that_scores_all_alike_answers_in_the_order_of_its_entities():
    model, graph = drawn()
    alike = replace(model, vectors=torch.zeros_like(model.vectors))
    for k in (1, 7, 10**9):
        answers = alike.tails(graph.entities[3], graph.relations[0], k)
        assert [answer.name for answer in answers] == list(graph.entities)[:k]


@pytest.mark.slow
@every_model
def test_threads_that_use_one_model_at_once_are_answered_as_one_after_another(name):
    model, graph = made(name)
    queries = [(head, relation) for head in graph.entities[:5] for relation in graph.relations[:4]]

    def ask():
        heads, tails = ([asks(*query) for query in queries] for asks in (model.tails, lambda e, r: model.heads(r, e)))
        return heads, tails, evaluate(model, graph).both

    expected, threads = ask(), 3
    together = Barrier(threads)

    def ask_at_once(_):
        together.wait()
        return ask()

    with ThreadPoolExecutor(threads) as pool:
        assert list(pool.map(ask_at_once, range(threads))) == [expected] * threads


@every_model
def test_answers_come_best_first_with_their_scores(name):
    model, graph = made(name)
    head, relation, tail = graph.test[0].tolist()
    for answers, asked, index in (
        (model.tails(graph.entities[head], graph.relations[relation], 7), head, relation),
        (model.heads(graph.relations[relation], graph.entities[tail], 7), tail, relation + len(graph.relations)),
    ):
        scores = scores_of(model, graph, torch.tensor([asked]), torch.tensor([index]))[0]
        best = scores.sort(descending=True).values[:7]
        assert [answer.score for answer in answers] == pytest.approx(best.tolist(), abs=1e-6)
        assert len({answer.name for answer in answers}) == 7
        for answer in answers:
            assert answer.score == pytest.approx(scores[graph.entities.id(answer.name)].item(), abs=1e-6)


@models_that(learned=True)
def test_the_planted_answer_comes_first_under_its_name_and_label(name):
    model, graph = made(name)
    for head, relation, tail in graph.test[:10].tolist():
        h, r, t = graph.entities[head], graph.relations[relation], graph.entities[tail]
        assert model.tails(h, r)[0].name == t
        assert model.heads(r, t)[0].name == h
        assert model.tails(h, r)[0].label == f"element {tail}"
        # A label that one entity carries is as good as its name.
        assert model.tails(graph.entities.label(head), r) == model.tails(h, r)
        assert model.heads(r, graph.entities.label(tail)) == model.heads(r, t)


def test_an_entity_without_a_label_is_called_by_its_name():
    model, graph = drawn()
    assert all(answer.label == answer.name for answer in model.tails(graph.entities[0], graph.relations[0]))


@every_model
def test_as_many_answers_as_asked_for_or_as_there_are(name):
    model, graph = made(name)
    query = graph.entities[0], graph.relations[0]
    assert len(model.tails(*query)) == 10
    for k in (1, 3, len(graph.entities), len(graph.entities) + 1, 10**9):
        answers = model.tails(*query, k=k)
        assert len(answers) == min(k, len(graph.entities))
        assert answers == model.tails(*query, k=10**9)[:k]


@pytest.mark.parametrize("k", [0, -1])
def test_fewer_than_one_answer_is_refused(k):
    model, graph = made("planted")
    with pytest.raises(InputError, match=f"k {k}, expected a whole number of at least 1"):
        model.tails(graph.entities[0], graph.relations[0], k)
    with pytest.raises(InputError, match="expected a whole number of at least 1"):
        model.heads(graph.relations[0], graph.entities[0], k)


def test_unknown_names_are_answered_with_the_nearest():
    model, graph = made("planted")
    with pytest.raises(InputError, match=r"unknown entity 'trun 12'\. Did you mean .*'turn 12'.*\(60 in all\)"):
        model.tails("trun 12", graph.relations[0])
    with pytest.raises(InputError, match=r"unknown relation 'turn 11 and'\. Did you mean 'turn 11 and mirror'"):
        model.tails(graph.entities[0], "turn 11 and")
    with pytest.raises(InputError, match="unknown entity 'xyzzy'") as refusal:
        model.heads(graph.relations[0], "xyzzy")
    assert "Did you mean" not in str(refusal.value)


def test_a_label_of_several_entities_is_refused_with_their_names():
    model, graph = made("planted")
    names = list(graph.entities)
    shared = replace(model, entities=Vocabulary(names, "entity", dict.fromkeys(names[:2], "twin")))
    with pytest.raises(
        InputError, match=f"'twin' is the label of 2 names; give one of them: '{names[0]}', '{names[1]}'"
    ):
        shared.tails("twin", graph.relations[0])


# An entity's answers about itself.


def loops_of(count, loops):
    """Return a graph of one relation with so many triples, the first of them from an entity to itself."""
    rows = [[head, 0, head if head < loops else (head + 1) % count] for head in range(count)]
    names = Vocabulary((f"e{index}" for index in range(count)), "entity"), Vocabulary(["r"], "relation")
    return Graph("loops", *names, torch.tensor(rows), *(torch.empty(0, 3, dtype=torch.int64),) * 2)


@pytest.mark.parametrize(("loops", "left_out"), [(0, True), (1, True), (2, False), (200, False)])
def test_an_entity_answers_itself_only_where_training_has_such_triples(loops, left_out):
    graph = loops_of(200, loops)
    model = Procrustes(graph.entities, graph.relations, torch.randn(200, 1, 4), torch.eye(4)[None, None])
    everything = model.tails("e7", "r", 200)
    known = model.tails("e7", "r", 200, graph)
    assert known == [answer for answer in everything if not (left_out and answer.name == "e7")]
    for k in (1, 5, 199):
        for asked in (model.tails("e7", "r", k, graph), model.heads("r", "e7", k, graph)):
            assert len(asked) == k
            assert ("e7" in {answer.name for answer in asked}) <= (not left_out)
    assert model.tails("e7", "r", 3, graph) == known[:3]
    assert ("e0" in {answer.name for answer in model.tails("e0", "r", 200, graph)}) == (loops > 0)  # the graph says so
    told = replace(graph, test=torch.tensor([[7, 0, 7]]))
    assert model.tails("e7", "r", 200, told) == everything


def test_an_entity_may_answer_itself_where_training_knows_nothing():
    graph = replace(loops_of(200, 0), train=torch.empty(0, 3, dtype=torch.int64))
    assert may_answer_itself(graph, 7, 0)
