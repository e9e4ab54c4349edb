"""Candidates for paths as evidence: which paths join the ends of a relation's triples, found by walks from both ends.

    x ─d1→ z1 ─d2→ z2 ←─d3⁻¹ y        for a sample of triples (x, r, y), their own edge hidden

Time and memory depend on the sample and on how many neighbours a walk may choose from, not on the size of the graph.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.known_answers import KnownAnswers
from procrustes_kge.graphs.queries import LARGEST, both_queries
from procrustes_kge.linalg import numbered, starts
from procrustes_kge.models.paths import LONGEST, MOST_WALKS, NO_STEP

TRIPLES_OF_RELATION, FEWEST_TRIPLES = 500, 20  # whose ends are joined
TRIPLES_IN_ALL = 20_000  # or the fewest of each relation
NEIGHBOURS = 64  # at random, that a walk goes on to from an entity with more
TRIPLES_AT_ONCE = 256
PATHS_OF_RELATION = 10_000
LEAST_FOUND = 2  # triples: what joins the ends of one alone may be chance
STEPS_TIMED = 64  # entities, at random, at which the ways on from one step to the next are counted
PAIRS_AT_ONCE = 2**15
Entities = Int[Tensor, " n"]
Gone = Int[Tensor, " m"]  # for each entity that is come to


class Candidates(NamedTuple):
    """Paths that joined the ends of some sampled triples, and what may be expected of them."""

    asked: Int[Tensor, " paths"]
    steps: Int[Tensor, "paths longest"]
    share: Float[Tensor, " paths"]  # of the sampled triples of their relation
    walks: Float[Tensor, " paths"]  # expected from an entity

    def only(self, some: Int[Tensor, " some"]) -> Candidates:
        """Return some of the paths, in this order."""
        return Candidates(*(each[some] for each in self))


class Neighbours:
    """Every entity's neighbours, with the direction that leads there, in random order."""

    def __init__(self, graph: Graph, generator: torch.Generator) -> None:
        sources, directions, ends = both_queries(graph.train.unique(dim=0), len(graph.relations))
        order = torch.randperm(len(sources), generator=generator)
        order = order[sources[order].argsort(stable=True)]
        self.directions, self.ends, self.generator = directions[order], ends[order], generator
        self.offsets = starts(torch.bincount(sources, minlength=len(graph.entities)))

    def of(self, entities: Entities, most: int = NEIGHBOURS) -> tuple[Gone, Gone, Gone]:
        """Return (row, direction, neighbour) for the neighbours of each entity, at random if there are more."""
        first = self.offsets[entities]
        counts = self.offsets[entities + 1] - first
        rows, places = numbered(counts.clamp_max(most))
        # The order is random, so neighbours that follow each other are a sample; it begins at a random place.
        begin = (torch.rand(len(entities), generator=self.generator, dtype=torch.float64) * counts).long()
        chosen = first[rows] + (begin[rows] + places) % counts[rows]
        return rows, self.directions[chosen], self.ends[chosen]


def mined(graph: Graph, edges: KnownAnswers, generator: torch.Generator, ends: float | None = None) -> Candidates:
    """Return the paths that join the ends of a sample of each relation's triples, for both directions.

    By `ends` on the clock the sample is as large as it can be: from all relations, some triples fewer.
    """
    relations = len(graph.relations)
    base = 2 * relations + 1
    longest = LONGEST if TRIPLES_AT_ONCE * base**LONGEST < LARGEST else 2  # what a number can say
    triples = sampled(graph, min(TRIPLES_OF_RELATION, max(FEWEST_TRIPLES, TRIPLES_IN_ALL // relations)), generator)
    triples = triples[torch.randperm(len(triples), generator=generator)]
    neighbours, done = Neighbours(graph, generator), 0
    keys, counts = triples.new_zeros(0), triples.new_zeros(0)
    for some in triples.split(TRIPLES_AT_ONCE):
        if done and ends is not None and time.perf_counter() > ends:
            break
        done += len(some)
        joined = _joined(neighbours, some, relations, longest)
        # A path counts once for a triple, however many walks there are.
        ours = joined.unique()
        ours = some[ours // base**LONGEST, 1] * base**LONGEST + ours % base**LONGEST
        keys, places = torch.cat([keys, ours]).unique(return_inverse=True)
        counts = torch.zeros_like(keys).index_add_(0, places, torch.cat([counts, torch.ones_like(ours)]))
    often = counts >= LEAST_FOUND
    keys, counts = _most_frequent(keys[often], counts[often], base)
    asked, steps = keys // base**LONGEST, torch.stack([keys // base**2 % base, keys // base % base, keys % base], 1) - 1
    share = counts / torch.bincount(triples[:done, 1], minlength=relations)[asked]
    asked, steps = torch.cat([asked, asked + relations]), torch.cat([steps, reverse(steps, relations)])
    return Candidates(asked, steps, share.repeat(2), expected_walks(edges, asked, steps, relations, generator))


def _most_frequent(
    keys: Int[Tensor, " paths"], counts: Int[Tensor, " paths"], base: int
) -> tuple[Int[Tensor, " some"], Int[Tensor, " some"]]:
    """Return those of each relation's paths that joined most triples: a dense graph has millions."""
    order = counts.argsort(descending=True, stable=True)
    order = order[(keys[order] // base**LONGEST).argsort(stable=True)]
    _, places = numbered(torch.bincount(keys // base**LONGEST))
    some = order[places < PATHS_OF_RELATION]
    return keys[some], counts[some]


def sampled(graph: Graph, most: int, generator: torch.Generator) -> Int[Tensor, "n 3"]:
    """Return at most so many training triples of each relation at random, none from an entity to itself."""
    triples = graph.train[graph.train[:, 0] != graph.train[:, 2]]
    triples = triples[torch.randperm(len(triples), generator=generator)]
    triples = triples[triples[:, 1].argsort(stable=True)]
    _, places = numbered(torch.bincount(triples[:, 1], minlength=len(graph.relations)))
    return triples[places < most]


def inverse(directions: Int[Tensor, "*n"], relations: int) -> Int[Tensor, "*n"]:
    """Return each direction the other way."""
    return (directions + relations) % (2 * relations)


def reverse(steps: Int[Tensor, "paths longest"], relations: int) -> Int[Tensor, "paths longest"]:
    """Return each path walked from its end, −1 after the last step as before."""
    length = (steps != NO_STEP).sum(dim=1, keepdim=True)
    places = length - 1 - torch.arange(steps.shape[1])
    turned = inverse(steps.gather(1, places.clamp_min(0)), relations)
    return torch.where(places >= 0, turned, NO_STEP)


def _joined(neighbours: Neighbours, triples: Int[Tensor, "n 3"], relations: int, longest: int) -> Int[Tensor, " found"]:
    """Return row and steps (from 1; 0: none) of every path found between the ends of the triples, as one number."""
    base, (heads, asked, tails) = 2 * relations + 1, triples.unbind(dim=1)

    def numbers(rows: Tensor, *steps: Tensor) -> Tensor:
        key = rows
        for place in range(LONGEST):
            key = key * base + (steps[place] + 1 if place < len(steps) else 0)
        return key

    rows, first, ends = neighbours.of(heads)
    others = (ends != heads[rows]) & ~((first == asked[rows]) & (ends == tails[rows]))  # the asked edge is hidden
    rows, first, ends = rows[others], first[others], ends[others]
    there = ends == tails[rows]
    found = [numbers(rows[there], first[there])]
    rows, first, ends = rows[~there], first[~there], ends[~there]
    back, last, befores = neighbours.of(tails)
    last, between = inverse(last, relations), (befores != tails[back]) & (befores != heads[back])
    meeting = _Meeting(back[between], befores[between], last[between], len(neighbours.offsets))
    left, right = meeting.join(rows, ends)
    found.append(numbers(rows[left], first[left], right))
    if longest < LONGEST:
        return torch.cat(found)
    came, second, places = neighbours.of(ends, NEIGHBOURS // 2)
    fresh = (places != heads[rows[came]]) & (places != tails[rows[came]]) & (places != ends[came])
    came, second, places = came[fresh], second[fresh], places[fresh]
    left, right = meeting.join(rows[came], places)
    found.append(numbers(rows[came[left]], first[came[left]], second[left], right))
    return torch.cat(found)


class _Meeting:
    """Entities from which a last step leads to the tail of a triple (by row)."""

    def __init__(self, rows: Entities, entities: Entities, steps: Entities, many: int) -> None:
        self.keys, order = (rows * many + entities).sort(stable=True)
        self.steps, self.many = steps[order], many

    def join(self, rows: Entities, entities: Entities) -> tuple[Gone, Gone]:
        """Return, for walks that have come to such an entity, which of them and by which step they arrive."""
        keys = rows * self.many + entities
        first = torch.searchsorted(self.keys, keys)
        which, places = numbered(torch.searchsorted(self.keys, keys, right=True) - first)
        return which, self.steps[first[which] + places]


def expected_walks(
    edges: KnownAnswers,
    asked: Int[Tensor, " paths"],
    steps: Int[Tensor, "paths longest"],
    relations: int,
    generator: torch.Generator,
) -> Float[Tensor, " paths"]:
    """Return how many walks each path has, on average over entities with the asked direction.

    The product over steps of how many edges of the next direction leave an entity where the last one arrives. (A
    step is taken to depend on the one before it alone.)
    """
    before = torch.cat([inverse(asked, relations)[:, None], steps[:, :-1]], dim=1)
    taken = steps != NO_STEP
    pairs, which = (before[taken] * 2 * relations + steps[taken]).unique(return_inverse=True)
    means = torch.cat([_ways_on(edges, some, relations, generator) for some in pairs.split(PAIRS_AT_ONCE)] or [pairs])
    ways = torch.ones(steps.shape, dtype=torch.float64)
    ways[taken] = means[which].double()
    return ways.prod(dim=1)


def _ways_on(
    edges: KnownAnswers, pairs: Int[Tensor, " pairs"], relations: int, generator: torch.Generator
) -> Float[Tensor, " pairs"]:
    """Return, for pairs of directions, how many edges of the second leave where the first arrives, on average."""
    first, second = pairs // (2 * relations), pairs % (2 * relations)
    offsets = edges.queries.offsets[torch.searchsorted(edges.queries.directions, torch.arange(2 * relations + 1))]
    sizes = offsets.diff()[first]
    drawn = torch.rand(len(pairs), STEPS_TIMED, generator=generator, dtype=torch.float64) * sizes[:, None]
    places = edges.queries.answers[(offsets[first][:, None] + drawn.long()).flatten()]
    counts = edges.count(places, second.repeat_interleave(STEPS_TIMED)).view(-1, STEPS_TIMED).double()
    # Back along the same edge is no way on; what has too many ways is not walked.
    counts -= (second == inverse(first, relations))[:, None].double()
    return torch.where(counts <= MOST_WALKS, counts, 0).mean(dim=1)
