"""Laws of paths as evidence: what they lead to, what they add to a score, and what they leave alone."""

import itertools
import math

import pytest
import torch
from hypothesis import given, strategies as st

from folders import model_of
from laws import refused
from procrustes_kge.graphs.known_answers import KnownAnswers
from procrustes_kge.models import paths as walking
from procrustes_kge.models.paths import Paths
from procrustes_kge.models.ranking import evaluate, rank
from procrustes_kge.models.with_paths import HALF, WithPaths
from toys import all_scores, every_query, graph_of, random_graphs


def some_paths(relations, count=12, seed=0):
    """Return different paths of one to three steps, drawn evenly, with weights."""
    generator = torch.Generator().manual_seed(seed)
    length = torch.randint(1, 4, (count, 1), generator=generator)
    steps = torch.randint(2 * relations, (count, 3), generator=generator)
    steps = torch.where(torch.arange(3) < length, steps, -1)
    asked = torch.randint(2 * relations, (count, 1), generator=generator)
    table = torch.cat([asked, steps], dim=1).unique(dim=0)
    return Paths(table[:, 0], table[:, 1:].contiguous(), torch.randn(len(table), generator=generator))


def walks_by_hand(edges, steps, start):
    """Return every walk of these steps, as the entities it meets; none twice."""
    ways = [(start,)]
    for step in steps:
        ways = [(*way, end) for way in ways for end in sorted(edges.get((way[-1], step), ())) if end not in way]
    return ways


def edges_by_hand(graph, hidden=None):
    """Return the ends of the edges of each entity and direction."""
    count, edges = len(graph.relations), {}
    for head, relation, tail in set(map(tuple, graph.train.tolist())) - {hidden}:
        edges.setdefault((head, relation), set()).add(tail)
        edges.setdefault((tail, relation + count), set()).add(head)
    return edges


def steps_of(paths, path):
    return [step for step in paths.steps[path].tolist() if step >= 0]


def beside(graph, paths, worth=None, width=3):
    """Return a random embedding of a graph with paths beside it."""
    worth = torch.rand(2 * len(graph.relations)) if worth is None else worth
    embedding = model_of(graph.entities.names, graph.relations.names, width=width)
    return WithPaths(embedding, paths, worth, graph.train)


@given(graph=random_graphs(), seed=st.integers(0, 99))
def test_evidence_is_the_sum_over_walks_one_by_one(graph, seed):
    paths = some_paths(len(graph.relations), seed=seed)
    heads, directions = every_query(graph)
    found = paths.found(KnownAnswers.of(graph, ("train",)), heads, directions)
    evidence = paths.evidence(found, len(heads), len(graph.entities))
    edges, expected = edges_by_hand(graph), torch.zeros_like(evidence)
    for row, (head, direction) in enumerate(zip(heads.tolist(), directions.tolist(), strict=True)):
        for path in torch.nonzero(paths.asked == direction).flatten().tolist():
            ends = [way[-1] for way in walks_by_hand(edges, steps_of(paths, path), head)]
            for end in set(ends):
                expected[row, end] += paths.weights[path] * (1 + 0.3 * math.log(ends.count(end)))
    torch.testing.assert_close(evidence, expected)


@given(graph=random_graphs(), seed=st.integers(0, 99))
def test_the_hidden_edge_is_never_walked(graph, seed):
    paths = some_paths(len(graph.relations), seed=seed)
    count = len(graph.relations)
    for head, relation, tail in graph.train[:5].tolist():
        edges = edges_by_hand(graph, hidden=(head, relation, tail))
        for asked, direction, answer in ((head, relation, tail), (tail, relation + count, head)):
            query = (torch.tensor([each]) for each in (asked, direction, answer))
            found = paths.found(KnownAnswers.of(graph, ("train",)), *query)
            expected = {
                (way[-1], path)
                for path in torch.nonzero(paths.asked == direction).flatten().tolist()
                for way in walks_by_hand(edges, steps_of(paths, path), asked)
            }
            assert set(zip(found.entities.tolist(), found.paths.tolist(), strict=True)) == expected


@given(graph=random_graphs())
def test_a_score_is_the_embedding_s_and_the_evidence(graph):
    model = beside(graph, some_paths(len(graph.relations)))
    heads, directions = every_query(graph)
    evidence = model.evidence(heads, directions).view(2 * len(graph.relations), len(graph.entities), -1)
    torch.testing.assert_close(all_scores(model, graph), all_scores(model.embedding, graph) + evidence)


@given(graph=random_graphs())
def test_scoring_some_is_scoring_all(graph):
    model = beside(graph, some_paths(len(graph.relations)))
    heads, directions = every_query(graph)
    candidates = torch.arange(len(heads))[:, None] * 7 % len(graph.entities) + torch.zeros(1, 2, dtype=torch.int64)
    query = model.query(model.encode(), heads, directions)
    some, every = model.scores(model.encode(), query, candidates), model.scores(model.encode(), query)
    torch.testing.assert_close(some, every.gather(1, candidates))


@given(graph=random_graphs())
def test_paths_that_are_worth_nothing_change_nothing(graph):
    model = beside(graph, some_paths(len(graph.relations)), torch.zeros(2 * len(graph.relations)))
    assert all_scores(model, graph).equal(all_scores(model.embedding, graph))
    without = beside(graph, some_paths(len(graph.relations)).only(torch.empty(0, dtype=torch.int64)))
    assert all_scores(without, graph).equal(all_scores(model.embedding, graph))


def test_hubs_are_not_walked(monkeypatch):
    graph = graph_of([f"hub r e{i}" for i in range(30)] + ["a r hub", "a r b", "b r c"])
    paths = Paths(torch.tensor([0]), torch.tensor([[0, 0, -1]]), torch.ones(1))
    edges, asked = KnownAnswers.of(graph, ("train",)), torch.tensor([graph.entities.id("a")])
    assert len(paths.found(edges, asked, torch.tensor([0])).rows) == 31
    monkeypatch.setattr(walking, "MOST_WALKS", 10)
    assert [graph.entities[each] for each in paths.found(edges, asked, torch.tensor([0])).entities] == ["c"]


@pytest.mark.parametrize("entity", [0, HALF - 1, HALF, 2**24 + 1, 2**31 + 5])
def test_a_query_carries_ids_exactly(entity):
    asked = torch.tensor([entity])
    carried = torch.stack([asked // HALF, asked % HALF]).float().long()
    assert carried[0] * HALF + carried[1] == asked


def test_reasons_name_the_walks_that_support_an_answer():
    graph = graph_of(["anna parent bob", "bob parent cid", "anna parent ben", "ben parent cid", "anna old cid"])
    paths = Paths(
        torch.tensor([1, 1, 1]), torch.tensor([[0, 0, -1], [1, -1, -1], [0, 2, 0]]), torch.tensor([2.0, 9.0, 1.0])
    )
    model = beside(graph, paths, torch.full((4,), 0.5))
    anna, cid = map(graph.entities.id, ("anna", "cid"))
    [reason] = model.reasons(anna, 1, cid)  # the edge that is asked about supports nothing
    assert reason.steps == ("parent", "parent")
    assert (reason.entities, reason.walks) == (("anna", "bob", "cid"), 2)
    assert math.isclose(reason.gain, 0.5 * 2 * (1 + 0.3 * math.log(2)), rel_tol=1e-6)
    assert str(reason) == "anna parent → bob parent → cid"
    backwards = beside(graph, Paths(torch.tensor([3]), torch.tensor([[2, 2, -1]]), torch.ones(1)))
    assert backwards.reasons(cid, 3, anna)[0].steps == ("parent⁻¹", "parent⁻¹")
    assert model.reasons(cid, 1, anna) == []
    refused(lambda: model.reasons(anna, 1, cid, k=0), setting="k", seen="0", remedy="at least 1")


def test_reasons_add_up_to_the_evidence():
    graph = graph_of([f"{a} {r} {b}" for a, b in itertools.permutations("abcde", 2) for r in "rs" if hash_of(a, b, r)])
    model = beside(graph, some_paths(2, count=40))
    for entity, direction, answer in itertools.product(range(5), range(4), range(5)):
        query = torch.tensor([entity]), torch.tensor([direction])
        linked = (answer in edges_by_hand(graph).get((entity, direction), ())) or answer == entity
        if not linked:
            gains = [reason.gain for reason in model.reasons(entity, direction, answer, k=99)]
            assert math.isclose(sum(gains), float(model.evidence(*query)[0, answer]), abs_tol=1e-5)


def hash_of(a, b, r):
    """Return whether an edge is drawn, the same on every machine."""
    return (ord(a) * 31 + ord(b) * 17 + ord(r) * 7) % 3 == 0


def test_answers_and_ranking_work_as_for_any_model():
    graph = graph_of(["a r b", "b r c", "c r d", "a s c"], test=["b s d"])
    paths = Paths(torch.tensor([1, 3]), torch.tensor([[0, 0, -1], [2, 2, -1]]), torch.tensor([100.0, 100.0]))
    model = beside(graph, paths, torch.ones(4))
    assert model.tails("b", "s", 1)[0].name == "d"
    assert model.heads("s", "d", 1)[0].name == "b"
    assert evaluate(model, graph).mrr == 1
    assert rank(model, graph, graph.test).optimistic.tolist() == [1, 1]
    assert "2 paths" in repr(model)
