"""Which two relations, one after the other, do what a third one does: all pairs tried, the best few kept.

Segments are replicas of each other, so a few of them find the candidates, and all of them score those. Pairs go through
batched products, a block of first steps at a time.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from procrustes_kge.explore.relations.maps import RelationMaps

SCREENED = 2**10  # numbers of a map by which candidates are found
ALMOST = 0.9  # a cosine, from which on one step undoes the other
CANDIDATES = 32  # of each relation, which are then compared by all numbers
NUMBERS_AT_ONCE = 2**23


class Compositions(NamedTuple):
    """Directions that lead, one after the other, where a relation leads, and the cosine of both maps."""

    target: Int[Tensor, " n"]
    first: Int[Tensor, " n"]
    then: Int[Tensor, " n"]
    score: Float[Tensor, " n"]
    alone: Float[Tensor, " n"]  # how far one of the two steps is the relation already


def best_compositions(maps: RelationMaps, alike: Float[Tensor, "directions directions"]) -> Compositions:
    """Return the best candidates for every relation, best first; none that a single step explains as well."""
    relations = maps.relations
    numbers = maps.matrices.shape[-1] * maps.matrices.shape[-2]
    some = _spread(maps.matrices.shape[1], max(1, SCREENED // numbers))
    screen = RelationMaps(maps.matrices[:, some].contiguous(), maps.lengths[some])
    undoing = alike.roll(relations, dims=1) > ALMOST  # the second step is like the first one backwards
    kept = _screened(screen, undoing, min(CANDIDATES, 4 * relations**2))
    target = torch.arange(relations).repeat_interleave(kept.shape[1])
    first, then = kept.flatten() // (2 * relations), kept.flatten() % (2 * relations)
    allowed = _allowed(first, then, undoing)[torch.arange(len(target)), target]
    target, first, then = target[allowed], first[allowed], then[allowed]
    score = _scores(maps, target, first, then)
    alone = torch.maximum(alike[first, target], alike[then, target])
    order = score.argsort(descending=True, stable=True)
    order = order[score[order] > alone[order]]
    return Compositions(*(each[order] for each in (target, first, then, score, alone)))


def _spread(count: int, wanted: int) -> Int[Tensor, " some"]:
    """Return numbers below count, evenly spread."""
    return torch.linspace(0, count - 1, min(count, wanted)).round().long()


def _allowed(
    first: Int[Tensor, " n"], then: Int[Tensor, " n"], undoing: Bool[Tensor, "directions directions"]
) -> Bool[Tensor, "n relations"]:
    """Say which pairs may compose which relation: another than both, and not there and back again."""
    relations = len(undoing) // 2
    targets = torch.arange(relations)
    others = (first[:, None] % relations != targets) & (then[:, None] % relations != targets)
    return others & ~undoing[first, then][:, None]


def _screened(
    maps: RelationMaps, undoing: Bool[Tensor, "directions directions"], keep: int
) -> Int[Tensor, "relations keep"]:
    """Return the numbers first · directions + then of the best pairs of every relation."""
    directions, relations = 2 * maps.relations, maps.relations
    targets = maps.units(maps.matrices[:relations])
    best = targets.new_full((relations, keep), -torch.inf)
    pairs = torch.zeros(relations, keep, dtype=torch.int64)
    at_once = max(1, NUMBERS_AT_ONCE // (directions * targets.shape[1]))
    for block in torch.arange(directions).split(at_once):
        joined = maps.units(maps.composed(maps.matrices[block][:, None], maps.matrices[None])).flatten(0, 1)
        first, then = block.repeat_interleave(directions), torch.arange(directions).repeat(len(block))
        scores = (joined @ targets.T).where(_allowed(first, then, undoing), -torch.inf).T
        scores = torch.cat([best, scores], dim=1)
        numbers = torch.cat([pairs, (first * directions + then).expand(relations, -1)], dim=1)
        best, places = scores.topk(keep, dim=1)
        pairs = numbers.gather(1, places)
    return pairs


def _scores(
    maps: RelationMaps, target: Int[Tensor, " n"], first: Int[Tensor, " n"], then: Int[Tensor, " n"]
) -> Float[Tensor, " n"]:
    """Return the cosine of each composition and its target, by all segments."""
    at_once = max(1, NUMBERS_AT_ONCE // max(1, maps.matrices[0].numel()))
    found = [maps.matrices.new_zeros(0)]
    for some in torch.arange(len(target)).split(at_once):
        joined = maps.units(maps.composed(maps.matrices[first[some]], maps.matrices[then[some]]))
        found.append((joined * maps.units(maps.matrices[target[some]])).sum(dim=1))
    return torch.cat(found)
