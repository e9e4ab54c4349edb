"""Queries compared with some of all entities, which stand for the others: log Z of a softmax, by an estimate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from procrustes_kge.explore.updates.scorers import Points, Rows, Scorer
from procrustes_kge.graphs.queries import Queries
from procrustes_kge.linalg import numbered

CANDIDATES = 2**11  # entities that a query is compared with, where there are more
NUMBERS_AT_ONCE = 2**23  # scores


class Questions(NamedTuple):
    """Some queries, with their answers."""

    entities: Int[Tensor, " queries"]
    directions: Int[Tensor, " queries"]
    counts: Int[Tensor, " queries"]
    places: Int[Tensor, " answers"]  # the query of each answer
    answers: Int[Tensor, " answers"]

    @classmethod
    def of(cls, queries: Queries, numbers: Int[Tensor, " some"]) -> Questions:
        """Return these of all queries."""
        counts = queries.counts[numbers]
        places, within = numbered(counts)
        answers = queries.answers[queries.offsets[numbers][places] + within]
        return cls(queries.entities[numbers], queries.directions[numbers], counts, places, answers)

    def parts(self, size: int) -> Iterator[Questions]:
        """Yield as many queries at a time."""
        for first in range(0, len(self.entities), max(1, size)):
            here = slice(first, min(first + max(1, size), len(self.entities)))
            ends = torch.tensor([here.start, here.stop], device=self.places.device)
            mine = slice(*torch.searchsorted(self.places, ends).tolist())
            asked = self.entities[here], self.directions[here], self.counts[here]
            yield Questions(*asked, self.places[mine] - first, self.answers[mine])


class Compared:
    """Entities that queries are compared with: all of them, or some that are drawn."""

    def __init__(self, scorer: Scorer, generator: torch.Generator) -> None:
        self.scorer, device = scorer, scorer.table.device
        self.candidates = drawn(len(scorer.table), CANDIDATES, generator).to(device)
        self.column = torch.full((len(scorer.table),), -1, device=device)  # of an entity among them
        self.column[self.candidates] = torch.arange(len(self.candidates), device=device)
        self.at_once = max(1, NUMBERS_AT_ONCE // max(1, len(self.candidates)))

    def log_sums(
        self,
        points: Points,
        some: Questions,
        answers: Rows,
        candidates: Rows,
        counts: Bool[Tensor, " entities"] | None = None,
    ) -> tuple[Float[Tensor, " queries"], Float[Tensor, " answers"]]:
        """Return log Z of queries, and the scores of their answers, given the rows of these and of the candidates.

        Each answer stands for itself, candidates for all others; entities that do not count are left out.
        """
        reached = self.scorer.paired(points[some.places], answers)
        scores = self.scorer.scores(points, candidates)
        column = self.column[some.answers]
        left_out = torch.zeros_like(scores, dtype=torch.bool)
        left_out[some.places[column >= 0], column[column >= 0]] = True
        places, reaching, everyone = some.places, reached, len(self.scorer.table)
        if counts is not None:
            left_out |= ~counts[self.candidates]
            ours = counts[some.answers]
            places, reaching, everyone = places[ours], reaching[ours], int(counts.sum())
        free = everyone - torch.bincount(places, minlength=len(points))
        lifted = free.to(scores.dtype) / (~left_out).sum(dim=1).clamp_min(1)
        least = torch.finfo(scores.dtype).min / 2
        sums = scores.masked_fill(left_out, least).logsumexp(dim=1) + lifted.log().clamp_min(least / 2)
        # The largest is taken off before exponentials are: they cannot overflow.
        top = torch.scatter_reduce(sums.detach(), 0, places, reaching.detach(), "amax")
        total = (sums - top).exp().index_add(0, places, (reaching - top[places]).exp())
        return top + total.log(), reached


def drawn(count: int, most: int, generator: torch.Generator) -> Int[Tensor, " some"]:
    """Return some numbers below a count, in order: all, or as many as wanted."""
    return torch.randperm(count, generator=generator)[:most].sort().values if count > most else torch.arange(count)
