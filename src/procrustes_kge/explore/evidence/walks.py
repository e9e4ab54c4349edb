"""Walks of up to three training triples from one entity to another, and what the same steps lead to elsewhere."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.known_answers import KnownAnswers
from procrustes_kge.models.paths import LONGEST, NO_STEP, Paths

MOST_BETWEEN = 5000  # triples between the neighbours of two entities that are looked at; hubs have far more
SAMPLED = 200  # entities that have the relation, from which the same steps are walked


Step = tuple[int, int, int]  # a training triple's row, the direction it is walked in, and the entity it leads to


class Walk(NamedTuple):
    """Training triples in the order in which they lead from one entity to the other."""

    rows: tuple[int, ...]
    steps: tuple[int, ...]  # directions: of each triple its relation, R more where it is walked from tail to head
    entities: tuple[int, ...]


class Weighted(NamedTuple):
    """The triples of an entity: the one at the other end of each, the direction that leads there, and its weight."""

    rows: Int[Tensor, " n"]
    directions: Int[Tensor, " n"]
    others: Int[Tensor, " n"]
    weights: Float[Tensor, " n"]

    def at(self, place: int) -> tuple[int, int, int, float]:
        """Return one of them."""
        return (
            int(self.rows[place]),
            int(self.directions[place]),
            int(self.others[place]),
            float(self.weights[place]),
        )

    @classmethod
    def of(cls, graph: Graph, entity: int, rows: Int[Tensor, " n"], weights: Float[Tensor, " n"]) -> Weighted:
        """Return the triples of an entity, those of the largest weight first."""
        order = weights.argsort(descending=True, stable=True)
        heads, relations, tails = graph.train[rows[order]].unbind(dim=1)
        outwards = heads == entity
        directions = relations + torch.where(outwards, 0, len(graph.relations))
        return cls(rows[order], directions, torch.where(outwards, tails, heads), weights[order])


def walks_between(graph: Graph, head: int, tail: int, of_head: Weighted, of_tail: Weighted, most: int) -> list[Walk]:
    """Return walks from head to tail that meet no entity twice, those whose ends weigh most first.

    Of walks by way of the same entities, the one whose triples weigh most. Weights are of the triples at the two ends;
    a triple between neighbours counts for nothing here.
    """
    if head == tail:
        return []
    relations, found = len(graph.relations), list[tuple[float, list[Step]]]()
    first = {other: place for place, other in reversed(list(enumerate(of_head.others.tolist())))}
    last = {other: place for place, other in reversed(list(enumerate(of_tail.others.tolist())))}

    def add(start: int, end: int, *middle: Step) -> None:
        """Add the walk along a triple of the head, others, and a triple of the tail."""
        row, direction, _, weight = of_tail.at(end)
        back = (row, (direction + relations) % (2 * relations), tail)
        found.append((of_head.at(start)[3] + weight, [of_head.at(start)[:3], *middle, back]))

    for place, other in enumerate(of_head.others.tolist()):
        if other == tail:
            found.append((of_head.at(place)[3], [of_head.at(place)[:3]]))
    outer = {head, tail}
    near_head, near_tail = first.keys() - outer, last.keys() - outer
    for other in sorted(near_head & near_tail):
        add(first[other], last[other])
    for row, (one, relation, other) in _between(graph, near_head, near_tail):
        if one != other and one in near_head and other in near_tail:
            add(first[one], last[other], (row, relation, other))
        if one != other and other in near_head and one in near_tail:
            add(first[other], last[one], (row, relation + relations, one))
    best = sorted(found, key=lambda each: (-each[0], each[1]))[:most]
    parts = (tuple(zip(*steps, strict=True)) for _, steps in best)
    return [Walk(rows, directions, (head, *entities)) for rows, directions, entities in parts]


def _between(graph: Graph, some: set[int], others: set[int]) -> list[tuple[int, list[int]]]:
    """Return the training triples with an end among each of two sets of entities; of many, those of rare entities."""
    ours, theirs = torch.zeros(2, len(graph.entities), dtype=torch.bool)
    ours[torch.tensor(sorted(some), dtype=torch.int64)] = True
    theirs[torch.tensor(sorted(others), dtype=torch.int64)] = True
    heads, _, tails = graph.train.unbind(dim=1)
    rows = torch.nonzero((ours[heads] & theirs[tails]) | (ours[tails] & theirs[heads])).flatten()
    if len(rows) > MOST_BETWEEN:
        degrees = torch.bincount(graph.train[:, [0, 2]].flatten(), minlength=len(graph.entities)).float()
        rows = rows[(degrees[heads[rows]] * degrees[tails[rows]]).argsort(stable=True)[:MOST_BETWEEN]]
    return list(zip(rows.tolist(), graph.train[rows].tolist(), strict=True))


def kept_promises(
    graph: Graph, edges: KnownAnswers, direction: int, steps: list[tuple[int, ...]]
) -> list[tuple[int, int]]:
    """Return of each path of steps how many of its ends answer the direction in training, and how many it has.

    Walked from a sample of entities that have such answers: a path of which most ends are right is a rule.
    """
    if not steps:
        return []
    table = torch.full((len(steps), LONGEST), NO_STEP)
    for row, each in enumerate(steps):
        table[row, : len(each)] = torch.tensor(each)
    asked = torch.full((len(steps),), direction)
    paths = Paths(asked, table, torch.ones(len(steps)))
    of_relation = graph.train[graph.train[:, 1] == direction % len(graph.relations)]
    starts = of_relation[:, 0 if direction < len(graph.relations) else 2].unique()
    drawn = starts[torch.randperm(len(starts), generator=torch.Generator().manual_seed(0))[:SAMPLED]]
    found = paths.found(edges, drawn, torch.full_like(drawn, direction))
    right = edges.hold(drawn[found.rows], torch.full_like(found.rows, direction), found.entities[:, None])[:, 0]
    ends = torch.bincount(found.paths, minlength=len(steps))
    hits = torch.bincount(found.paths, right.double(), len(steps)).long()
    return list(zip(hits.tolist(), ends.tolist(), strict=True))
