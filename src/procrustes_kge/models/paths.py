"""Paths through the training triples: which of them lead from an entity to which others, and what that is worth.

A path of direction ρ is up to three steps, each a direction: `has_part` then `hypernym`. If a path leads from x to y,
it is evidence that y answers the query (x, ρ). Only walks that meet no entity twice count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.graphs.known_answers import KnownAnswers
from procrustes_kge.linalg import numbered, run_sum, starts
from procrustes_kge.models.predictor import Ids

LONGEST = 3  # steps
NO_STEP = -1
# A walk that meets entities with many neighbours is one of many, and says little: those that are one of more than this
# are not walked. So no path leads from an entity by more walks than this: each is one of so many, and the shares sum
# to one.
MOST_WALKS = 1000
AGAIN = 0.3  # what e times as many walks of the same path add


class Level(NamedTuple):
    """The nodes at one depth of the tree of paths, those with the same parent side by side."""

    offsets: Int[Tensor, " parents_and_one"]  # where the children of each node of the level above start
    steps: Int[Tensor, " nodes"]  # the direction that leads here
    paths: Int[Tensor, " nodes"]  # the path that ends here, or −1


class Walks(NamedTuple):
    """Walks that end as a path does: which query, which path, and all entities on the way, the last one the end."""

    rows: Int[Tensor, " walks"]
    paths: Int[Tensor, " walks"]
    visited: tuple[Int[Tensor, " walks"], ...]


class Found(NamedTuple):
    """Which path leads from which query to which entity, sorted in this order, and by how many walks."""

    rows: Int[Tensor, " n"]
    entities: Int[Tensor, " n"]
    paths: Int[Tensor, " n"]
    counts: Int[Tensor, " n"]

    def cells(self, entities: int) -> tuple[Int[Tensor, " cells"], Int[Tensor, " cells_and_one"]]:
        """Return each pair of query and entity once, as row · N + entity, and where the paths between them start."""
        cells, sizes = (self.rows * entities + self.entities).unique_consecutive(return_counts=True)
        return cells, starts(sizes)


def strength(walks: Int[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """Return 1 + 0.3 log(walks): more walks of a path are more evidence, but not as much more as they are more."""
    return 1 + AGAIN * walks.float().log()


@dataclass(frozen=True, eq=False)
class Paths:
    """Paths with their weights: w_p is how much the log-odds of an answer rise where path p leads to it."""

    asked: Int[Tensor, " paths"]  # the direction that a path is evidence for
    steps: Int[Tensor, "paths longest"]  # directions, −1 after the last
    weights: Float[Tensor, " paths"]

    def __len__(self) -> int:
        return len(self.asked)

    def to(self, device: torch.device | str) -> Paths:
        """Return the same paths on another device."""
        return Paths(self.asked.to(device), self.steps.to(device), self.weights.to(device))

    def only(self, some: Int[Tensor, " some"]) -> Paths:
        """Return some of the paths, in this order."""
        return Paths(self.asked[some], self.steps[some], self.weights[some])

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The paths as trees with a root for each direction: what paths have in common is walked once."""
        directions = int(torch.cat([self.asked, self.steps.flatten()]).max()) + 1 if len(self) else 0
        ends = (self.steps != NO_STEP).sum(dim=1)
        paths, nodes, above, levels = torch.arange(len(self), device=self.asked.device), self.asked, directions, []
        for depth in range(self.steps.shape[1]):
            going = ends[paths] > depth
            paths, nodes = paths[going], nodes[going]
            keys, nodes = (nodes * directions + self.steps[paths, depth]).unique(return_inverse=True)
            ending = ends[paths] == depth + 1
            terminal = keys.new_full((len(keys),), -1).index_copy_(0, nodes[ending], paths[ending])
            parents = torch.bincount(keys // max(directions, 1), minlength=above)
            levels.append(Level(starts(parents), keys % max(directions, 1), terminal))
            above = len(keys)
        return tuple(levels)

    def walks(self, edges: KnownAnswers, entities: Ids, directions: Ids, hidden: Ids | None = None) -> Iterator[Walks]:
        """Yield the walks of each length that the paths of each query's direction allow, along the edges.

        `hidden` is an answer to each query: the edge that says so is not walked. (Walks meet no entity twice, so it
        can only be their first step.)
        """
        levels = self.levels
        roots = len(levels[0].offsets) - 1
        rows = torch.nonzero((directions >= 0) & (directions < roots)).flatten()
        nodes = directions[rows]
        visited: tuple[Tensor, ...] = (entities[rows],)
        walks = torch.ones_like(rows)  # one of how many
        for depth, level in enumerate(levels):
            came, which = numbered(level.offsets.diff()[nodes])
            nodes, rows = level.offsets[nodes][came] + which, rows[came]
            counts = edges.count(visited[-1][came], level.steps[nodes])
            fitting = torch.nonzero((counts > 0) & (walks[came] * counts <= MOST_WALKS)).flatten()
            nodes, rows, walks = nodes[fitting], rows[fitting], (walks[came] * counts)[fitting]
            visited = tuple(each[came[fitting]] for each in visited)
            came, ends = edges.look_up(visited[-1], level.steps[nodes])
            fresh = torch.ones_like(ends, dtype=torch.bool)
            for each in visited:
                fresh &= each[came] != ends
            if hidden is not None and depth == 0:
                asked = level.steps[nodes][came] == directions[rows[came]]
                fresh &= ~(asked & (ends == hidden[rows[came]]))
            came, ends = came[fresh], ends[fresh]
            rows, nodes, walks = rows[came], nodes[came], walks[came]
            visited = (*(each[came] for each in visited), ends)
            done = level.paths[nodes] >= 0
            yield Walks(rows[done], level.paths[nodes][done], tuple(each[done] for each in visited))

    def found(self, edges: KnownAnswers, entities: Ids, directions: Ids, hidden: Ids | None = None) -> Found:
        """Return what the paths of each query's direction lead to."""
        walks = list(self.walks(edges, entities, directions, hidden))
        if not walks:
            return Found(*(entities.new_zeros(0) for _ in Found._fields))
        rows, paths, ends = (
            torch.cat(each) for each in zip(*((one.rows, one.paths, one.visited[-1]) for one in walks), strict=True)
        )
        keys, counts = ((rows * edges.entities + ends) * len(self) + paths).unique(return_counts=True)
        cells = keys // max(len(self), 1)
        return Found(cells // edges.entities, cells % edges.entities, keys % max(len(self), 1), counts)

    def evidence(self, found: Found, many: int, entities: int) -> Float[Tensor, "b n"]:
        """Return s(y) = Σ_p w_p (1 + 0.3 log walks_p(x, y)) for every query and entity; 0 where no path leads."""
        cells, offsets = found.cells(entities)
        sums = run_sum((self.weights[found.paths] * strength(found.counts))[:, None], offsets)[:, 0]
        return self.weights.new_zeros(many * entities).index_copy_(0, cells, sums).view(many, entities)
