"""Laws of the overview: counts are those of the graph, and answers those of the model."""

import pytest
import torch
from hypothesis import given

from procrustes_kge.explore.overview import ASKED, graph_facts, overview, sample_queries
from procrustes_kge.models.ranking import rank
from reports import hostile, ordinary, tiny
from toys import random_graphs


@given(random_graphs())
def test_degrees_and_relations_count_everything_once(graph):
    facts = graph_facts(graph)
    assert sum(count for _, count in facts.degrees) == len(graph.entities)
    assert sum(each.triples[0] for each in facts.relations) == len(graph.train)
    degrees = torch.bincount(graph.train[:, [0, 2]].flatten(), minlength=len(graph.entities))
    ones = dict(facts.degrees).get("1", 0)
    assert ones == int((degrees == 1).sum())
    for each in facts.relations:
        relation = graph.relations.id(each.name)
        pairs = {(h, t) for h, r, t in graph.train.tolist() if r == relation}
        if pairs:
            assert each.tails_per_head == pytest.approx(len(pairs) / len({h for h, _ in pairs}))
            assert each.heads_per_tail == pytest.approx(len(pairs) / len({t for _, t in pairs}))


def test_sample_queries_are_of_different_relations_from_both_sides():
    run = ordinary()
    queries = sample_queries(run, "test")
    assert len(queries) == ASKED
    assert len({query.relation for query in queries}) == ASKED
    assert {query.head is None for query in queries} == {True, False}
    for query in queries:
        assert [query.head is None, query.tail is None].count(True) == 1
        scores = [answer.score for answer in query.answers]
        assert scores == sorted(scores, reverse=True)
        first = next((place for place, each in enumerate(query.answers, 1) if each.wanted), None)
        # Known answers before it do not count; the entity that is asked about counts, and is not offered.
        assert first is None or query.rank <= first + 1
    assert queries == sample_queries(run, "test")


def test_ranks_are_those_of_the_evaluation():
    run = ordinary()
    for query in sample_queries(run, "test"):
        triple = [query.head or query.wanted, query.relation, query.tail or query.wanted]
        names = (run.graph.entities, run.graph.relations, run.graph.entities)
        ids = torch.tensor([[known.id(name.partition(" (")[0]) for known, name in zip(names, triple, strict=True)]])
        tail, head = rank(run.model, run.graph, ids).realistic.tolist()
        assert query.rank == (head if query.head is None else tail)


def test_little_is_said_of_little():
    found = overview(tiny())
    assert found.split == "train"
    assert found.facts.leakage is None
    assert len(found.queries) == 2
    assert found.space is None or len(found.space.points) == 3
    assert overview(hostile()).queries
