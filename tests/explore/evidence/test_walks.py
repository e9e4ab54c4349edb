"""Laws of walks between two entities, against counting by hand."""

import torch
from hypothesis import given, strategies as st

from procrustes_kge.explore.evidence.walks import Weighted, kept_promises, walks_between
from procrustes_kge.graphs.known_answers import KnownAnswers
from toys import graph_of, random_graphs


def ends_of(graph, entity):
    train = graph.train
    rows = torch.nonzero((train[:, 0] == entity) | (train[:, 2] == entity)).flatten()
    return Weighted.of(graph, entity, rows, torch.arange(len(rows)).float())


def walks_by_hand(graph, head, tail):
    """Return the entities of every walk of up to three triples that meets none twice."""
    near = {}
    for one, _, other in graph.train.tolist():
        near.setdefault(one, set()).add(other)
        near.setdefault(other, set()).add(one)
    ways, found = [(head,)], set()
    for _ in range(3):
        ways = [(*way, end) for way in ways for end in near.get(way[-1], ()) if end not in way]
        found |= {way for way in ways if way[-1] == tail}
        ways = [way for way in ways if way[-1] != tail]
    return found


@given(graph=random_graphs(), head=st.integers(0, 2), tail=st.integers(0, 2))
def test_walks_are_those_that_are_there(graph, head, tail):
    found = walks_between(graph, head, tail, ends_of(graph, head), ends_of(graph, tail), 10**6)
    assert {walk.entities for walk in found} == (walks_by_hand(graph, head, tail) if head != tail else set())
    relations = len(graph.relations)
    for walk in found:
        assert len(walk.rows) == len(walk.steps) == len(walk.entities) - 1
        for row, step, *ends in zip(walk.rows, walk.steps, walk.entities, walk.entities[1:], strict=False):
            one, relation, other = graph.train[row].tolist()
            assert step % relations == relation
            assert ends == ([one, other] if step < relations else [other, one])


def test_of_many_walks_those_whose_ends_weigh_most():
    graph = graph_of(["a r b", "b r z", "a s c", "c r z", "a r d", "d s z"])
    head, tail = graph.entities.id("a"), graph.entities.id("z")
    weights = {0: 1.0, 1: 1.0, 2: 3.0, 3: 0.0, 4: 0.0, 5: 5.0}
    ends = []
    for entity in (head, tail):
        rows = ends_of(graph, entity).rows.sort().values
        ends.append(Weighted.of(graph, entity, rows, torch.tensor([weights[row] for row in rows.tolist()])))
    found = walks_between(graph, head, tail, *ends, 2)
    assert [[graph.entities[each] for each in walk.entities] for walk in found] == [["a", "d", "z"], ["a", "c", "z"]]


def test_a_rule_keeps_its_promises():
    graph = graph_of(["a p b", "b p c", "a g c", "d p e", "e p f", "h p i", "i p j", "h g j", "d g x"])
    p, g = graph.relations.id("p"), graph.relations.id("g")
    edges = KnownAnswers.of(graph, ("train",))
    # From a, d and h two steps lead to c, f and j; of these two are answers.
    assert kept_promises(graph, edges, g, [(p, p), (p,), (g,)]) == [(2, 3), (0, 3), (3, 3)]
    relations = len(graph.relations)
    assert kept_promises(graph, edges, g + relations, [(p + relations, p + relations)]) == [(2, 2)]
    assert kept_promises(graph, edges, g, []) == []
