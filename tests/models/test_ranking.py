"""Ranks against their definition, and against what must come out of planted scorers."""

import gc
import weakref
from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given, strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import SPLITS
from procrustes_kge.graphs.known_answers import KnownAnswers
from procrustes_kge.models import ranking
from procrustes_kge.models.ranking import Metrics, count_places, evaluate, rank
from procrustes_kge.system import threads
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import learn
from scorers import Table, known_answers, queries, random_table, ranks_by_definition, rows_of, same, tables
from toys import random_graph, random_graphs

# The definition.


@given(tables())
def test_ranks_are_their_definition(case):
    graph, table = case
    ranks = evaluate(table, graph).ranks
    expected = ranks_by_definition(table, graph, graph.test)
    assert rows_of(ranks) == expected
    assert ranks.realistic.tolist() == [(optimistic + pessimistic) / 2 for optimistic, pessimistic, _ in expected]


@given(tables(), st.sets(st.sampled_from(SPLITS)))
def test_only_the_known_answers_of_the_given_splits_are_left_out(case, splits):
    graph, table = case
    ranks = rank(table, graph, graph.test, KnownAnswers.of(graph, sorted(splits) or ["train"]))
    assert rows_of(ranks) == ranks_by_definition(table, graph, graph.test, sorted(splits) or ["train"])


@given(tables())
def test_known_answers_of_all_splits_are_left_out_but_never_the_asked_one(case):
    graph, _ = case
    known = known_answers(graph)
    asked = list(queries(graph.test, len(graph.relations)))
    # Known answers score highest, as a model that has learned them all should: none of them may push another down.
    scores = torch.zeros(2 * len(graph.relations), len(graph.entities), len(graph.entities))
    for (entity, relation), answers in known.items():
        scores[relation, entity, list(answers)] = 1
    evaluation = evaluate(Table(scores), graph)
    assert evaluation.pessimistic.mrr == evaluation.mrr == 1
    expected = [len(graph.entities) - len(known[entity, relation]) + 1 for entity, relation, _ in asked]
    assert evaluation.ranks.candidates.tolist() == expected


@given(st.data(), st.integers(1, 6), st.integers(1, 8), st.sampled_from([torch.float32, torch.float64]))
def test_places_are_counted_one_by_one(data, count, entities, dtype):
    numbers = st.integers(-1, 1)
    table = data.draw(st.lists(st.lists(numbers, min_size=entities, max_size=entities), min_size=count, max_size=count))
    places = st.integers(0, entities - 1)
    answers = data.draw(st.lists(places, min_size=count, max_size=count))
    known = data.draw(st.sets(st.tuples(st.integers(0, count - 1), places)))
    rows, entries = torch.tensor(sorted(known), dtype=torch.int64).view(-1, 2).unbind(dim=1)
    counts = count_places(torch.tensor(table, dtype=dtype), torch.tensor(answers), rows, entries)
    for row, (scores, answer) in enumerate(zip(table, answers, strict=True)):
        left = [score for entity, score in enumerate(scores) if entity == answer or (row, entity) not in known]
        higher, equal = (sum(score > scores[answer] for score in left), left.count(scores[answer]))
        assert counts[row].tolist() == [higher, equal, len(left)]


# What must come out.


@given(random_graphs(fewest_triples=6), st.sampled_from([0.0, -7.5, 1e30]))
def test_a_constant_scorer_ranks_in_the_middle(graph, constant):
    table = random_table(graph)
    evaluation = evaluate(Table(torch.full_like(table.scores_of, constant)), graph)
    assert torch.equal(evaluation.ranks.realistic, (evaluation.ranks.candidates + 1) / 2)
    for metrics in (evaluation.both, evaluation.tail, evaluation.head):
        assert metrics.amri == pytest.approx(0, abs=1e-12)
    assert all(each.both.amri == pytest.approx(0, abs=1e-12) for each in evaluation.relations.values())
    assert (evaluation.ranks.optimistic == 1).all()
    assert torch.equal(evaluation.ranks.pessimistic, evaluation.ranks.candidates)


@given(random_graphs(fewest_triples=6))
def test_a_perfect_scorer_has_perfect_figures(graph):
    table = random_table(graph).scores_of
    for asked, relation, answer in queries(graph.test, len(graph.relations)):
        table[relation, asked, answer] = 10
    evaluation = evaluate(Table(table), graph)
    assume(evaluation.ranks.candidates.min() > 1)
    expected = Metrics(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2 * len(graph.test))
    assert evaluation.both == evaluation.optimistic == evaluation.pessimistic == expected


@given(random_graphs(fewest_triples=6))
def test_the_worst_scorer_ranks_last(graph):
    table = random_table(graph).scores_of
    for asked, relation, answer in queries(graph.test, len(graph.relations)):
        table[relation, asked, answer] = -1
    ranks = evaluate(Table(table), graph).ranks
    assert torch.equal(ranks.optimistic, ranks.candidates)


@pytest.mark.parametrize("score", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("spread", ["one", "all"])
def test_scores_that_are_not_finite_are_refused(score, spread):
    graph = random_graph(6, 2, 30)
    table = random_table(graph).scores_of
    head, relation, _ = graph.test[0].tolist()
    if spread == "one":
        table[relation, head, 3] = score
    else:
        table[:] = score
    with pytest.raises(InputError, match="not finite"):
        evaluate(Table(table), graph)


def test_near_misses_are_no_ties():
    graph = random_graph(6, 2, 30)
    table = torch.ones_like(random_table(graph).scores_of)
    for asked, relation, answer in queries(graph.test, len(graph.relations)):
        table[relation, asked, answer] = 1 + 2**-23  # the next number of float32
    assert evaluate(Table(table), graph).pessimistic.mrr == 1


# What does not matter.


@given(tables(), st.integers(1, 200), st.integers(1, 3))
def test_neither_chunks_nor_workers_matter(case, room, workers):
    graph, table = case
    expected = evaluate(table, graph)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "SCORES_RANKED_AT_ONCE", room)
        patch.setattr(threads, "cores", lambda: workers)
        found = evaluate(table, graph)
    assert rows_of(found.ranks) == rows_of(expected.ranks)
    assert found.as_dict() == expected.as_dict()


@given(tables(), st.integers(1, 60))
def test_progress_comes_chunk_by_chunk_to_the_end(case, room):
    graph, table = case
    figures = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "SCORES_RANKED_AT_ONCE", room)
        evaluate(table, graph, progress=lambda done, total: figures.append((done, total)))
    at_once = max(1, room // len(graph.entities))
    total = -(-2 * len(graph.test) // at_once)
    assert figures == [(done, total) for done in range(1, total + 1)]


@given(tables())
def test_a_rising_function_of_the_scores_ranks_alike(case):
    graph, table = case
    moved = Table(3 * table.scores_of.double() - 5)
    assert rows_of(evaluate(moved, graph).ranks) == rows_of(evaluate(table, graph).ranks)


@given(tables())
def test_the_inverse_query_is_the_query_of_the_transposed_graph(case):
    graph, table = case
    flipped = {split: graph.split(split)[:, [2, 1, 0]] for split in SPLITS}
    count = len(graph.relations)
    other = Table(torch.cat([table.scores_of[count:], table.scores_of[:count]]))
    straight, turned = evaluate(table, graph), evaluate(other, replace(graph, **flipped))
    assert (straight.tail, straight.head) == (turned.head, turned.tail)
    same(straight.both, turned.both)


# Memory.


def test_where_scores_do_not_fit_in_memory_fewer_are_held_at_once(monkeypatch):
    graph = random_graph(12, 3, 60)
    monkeypatch.setattr(ranking, "SCORES_RANKED_AT_ONCE", 12 * 4)  # several chunks
    table = random_table(graph)
    expected = evaluate(table, graph)
    count, sizes = ranking.count_places, []

    def crowded(scores, *others):
        sizes.append(len(scores))
        if len(scores) > 3:
            raise torch.OutOfMemoryError
        return count(scores, *others)

    monkeypatch.setattr(ranking, "count_places", crowded)
    assert evaluate(table, graph).as_dict() == expected.as_dict()
    assert max(sizes) > 3
    sizes.clear()
    rank(table, graph, graph.test, workers=1)
    first = next(place for place, size in enumerate(sizes) if size <= 3)
    assert max(sizes[first:]) <= 3  # what has fitted is remembered
    monkeypatch.setattr(ranking, "count_places", lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError))
    with pytest.raises(InputError, match="out of memory while ranking 10 triples of random; try a smaller --dim"):
        evaluate(table, graph)


def test_a_model_that_was_ranked_is_freed_with_its_last_name():
    graph = random_graph(entities=6, relations=2, triples=20, seed=0)
    model = learn(graph, FitSettings(dim=4, segment=2, epochs=1, patience=0, device="cpu"))
    evaluate(model, graph, "train")
    gone = weakref.ref(model)
    gc.disable()  # so that no ring of references is looked for
    try:
        del model
        assert gone() is None
    finally:
        gc.enable()
