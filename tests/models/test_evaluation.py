"""Laws of an evaluation: views of the same ranks, and their means."""

from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given, strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.models.predictor import LinkPredictor
from procrustes_kge.models.ranking import Evaluation, Metrics, Sides, evaluate
from scorers import queries, random_table, tables
from toys import random_graph


@given(tables())
def test_every_view_is_the_metrics_of_its_queries(case):
    graph, table = case
    evaluation = evaluate(table, graph)
    ranks = evaluation.ranks
    asked = list(queries(graph.test, len(graph.relations)))
    training = set(graph.train[:, [0, 2]].flatten().tolist())
    seen = torch.tensor([asked in training and answer in training for asked, _, answer in asked])
    relation = torch.tensor([relation % len(graph.relations) for _, relation, _ in asked])
    tail = torch.tensor([relation < len(graph.relations) for _, relation, _ in asked])

    def metrics(mask):
        return Metrics.of(ranks.realistic[mask], ranks.candidates[mask])

    assert evaluation.both == metrics(torch.ones(len(asked), dtype=torch.bool))
    assert evaluation.mrr == evaluation.both.mrr
    assert evaluation.tail == metrics(tail)
    assert evaluation.head == metrics(~tail)
    assert evaluation.seen_only == metrics(seen)
    assert evaluation.optimistic == Metrics.of(ranks.optimistic, ranks.candidates)
    assert evaluation.pessimistic == Metrics.of(ranks.pessimistic, ranks.candidates)
    assert evaluation.relations == {
        graph.relations[index]: Sides(*(metrics((relation == index) & side) for side in (tail | ~tail, tail, ~tail)))
        for index in sorted(set(relation.tolist()))
    }


@given(tables())
def test_the_whole_is_the_mean_of_its_parts(case):
    graph, table = case
    evaluation = evaluate(table, graph)
    assert evaluation.tail.count == evaluation.head.count == len(graph.test)
    for parts in ([evaluation.tail, evaluation.head], [each.both for each in evaluation.relations.values()]):
        assert sum(part.count for part in parts) == evaluation.both.count
        for name in ("mrr", "hits_at_1", "hits_at_3", "hits_at_10", "mean_rank"):
            mean = sum(getattr(part, name) * part.count for part in parts) / evaluation.both.count
            assert getattr(evaluation.both, name) == pytest.approx(mean, abs=1e-12)


@given(tables())
def test_optimists_are_never_below_realists_nor_realists_below_pessimists(case):
    graph, table = case
    evaluation = evaluate(table, graph)
    views = [evaluation.optimistic, evaluation.both, evaluation.pessimistic]
    for name in ("hits_at_1", "hits_at_3", "hits_at_10", "mean_rank", "amri"):
        figures = [getattr(view, name) for view in views]
        assert figures == sorted(figures, reverse=name != "mean_rank")
    assert evaluation.optimistic.mrr >= evaluation.pessimistic.mrr


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 20)), min_size=1, max_size=20))
def test_metrics_are_plain_means(pairs):
    ranks, candidates = [place for place, _ in pairs], [place + more for place, more in pairs]
    metrics = Metrics.of(torch.tensor(ranks), torch.tensor(candidates))
    count = len(pairs)
    assert metrics.mrr == pytest.approx(sum(1 / place for place in ranks) / count)
    for k, share in ((1, metrics.hits_at_1), (3, metrics.hits_at_3), (10, metrics.hits_at_10)):
        assert share == pytest.approx(sum(place <= k for place in ranks) / count)
    assert metrics.mean_rank == pytest.approx(sum(ranks) / count)
    room = sum((size - 1) / 2 for size in candidates)
    assert metrics.amri == (pytest.approx(1 - sum(place - 1 for place in ranks) / room) if room else 0)
    assert metrics.count == count


def test_no_queries_have_no_figures():
    nothing = Metrics.of(torch.empty(0), torch.empty(0, dtype=torch.int64))
    assert [getattr(nothing, field.name) for field in fields(Metrics)] == [0] * len(fields(Metrics))


def test_a_graph_in_which_nothing_was_seen_has_no_figures_for_seen_entities():
    graph = replace(random_graph(6, 2, 30), train=torch.empty(0, 3, dtype=torch.int64))
    evaluation = evaluate(random_table(graph), graph)
    assert evaluation.seen_only.count == 0
    assert evaluation.both.count == 2 * len(graph.test)


def test_a_split_without_triples_is_refused():
    graph = replace(random_graph(6, 2, 30), test=torch.empty(0, 3, dtype=torch.int64))
    with pytest.raises(InputError, match="random has no test triples"):
        evaluate(random_table(graph), graph)
    assert evaluate(random_table(graph), graph, "valid").both.count == 2 * len(graph.valid)


def test_an_evaluation_gives_all_its_views():
    graph = random_graph(6, 2, 30)
    evaluation = evaluate(random_table(graph), graph)
    assert isinstance(evaluation, Evaluation)
    figures = evaluation.as_dict()
    assert {name: figures[name] for name in evaluation.both.as_dict()} == evaluation.both.as_dict()
    for view in ("tail", "head", "seen_only", "optimistic", "pessimistic"):
        assert figures[view] == getattr(evaluation, view).as_dict()
    assert figures["relations"] == {name: sides.as_dict() for name, sides in evaluation.relations.items()}
    assert f"{evaluation.mrr:.3f}".lstrip("0") in repr(evaluation)


def test_any_class_with_the_three_answers_is_a_predictor():
    assert isinstance(random_table(random_graph(3, 1, 5)), LinkPredictor)
    assert not isinstance(object(), LinkPredictor)
