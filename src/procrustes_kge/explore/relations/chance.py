"""What similarities of relations are worth: how alike maps are where nothing makes them so."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from procrustes_kge.explore.relations.maps import RelationMaps, of_procrustes
from procrustes_kge.graphs.graph import Vocabulary
from procrustes_kge.linalg import nearest_orthogonal
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.training.rotations import of_directions

DRAWN = 64  # relations with random rotations
ABOVE = 3.0  # deviations by which a score has to exceed the highest that chance gives
LEAST = 0.1  # of a cosine: what is less is no property, however unlikely by chance
TO_DEVIATION = 1.4826  # from the median distance to the median, of a normal distribution


class Chance(NamedTuple):
    """Where scores lie without a reason, and how far they scatter."""

    centre: float
    spread: float

    def deviations(self, score: float) -> float:
        """Return by how many deviations a score lies above chance."""
        return (score - self.centre) / self.spread

    def exceeded(self, score: float, tried: int) -> bool:
        """Say whether a score is above chance, being one of so many.

        The highest of n values of a normal distribution lies near √(2 ln n) deviations.
        """
        limit = ABOVE + math.sqrt(2 * math.log(max(tried, 1)))
        return self.deviations(score) > limit and score - self.centre >= LEAST

    def beside(self, other: Chance) -> Chance:
        """Return the chance that has both reasons to be high: the other one, and of what that leaves up to 1, ours."""
        left = 1 - max(other.centre, 0.0)
        return Chance(other.centre + left * self.centre, max(left * self.spread, other.spread))


NONE = Chance(0.0, 0.0)


def of_values(values: Float[Tensor, " n"], least: float) -> Chance:
    """Return median and robust deviation, at least so much: the few scores that have a reason do not count."""
    if not len(values):
        return Chance(0.0, least)
    centre = values.median()
    return Chance(float(centre), max(least, TO_DEVIATION * float((values - centre).abs().median())))


def of_numbers(maps: RelationMaps) -> float:
    """Return the deviation of the cosine of two random vectors with as many numbers as a map has: 1/√n."""
    return maps.matrices[0, ..., :-1, :].numel() ** -0.5


def of_other_pairs(maps: RelationMaps, alike: Float[Tensor, "directions directions"]) -> Chance:
    """Return how alike directions of different relations are: what the relations of a model have in common."""
    relations = torch.arange(len(alike)) % max(1, len(alike) // 2)
    return of_values(alike[(relations[:, None] < relations)], of_numbers(maps))


def of_random_rotations(model: object, seed: int = 0) -> dict[str, Chance] | None:
    """Return the chance of each property if rotations were random, with scales and translations as they are.

    A random Q is a little like its own transpose: E tr(Q Q) = 1, of d. Rotations of inverse relations start as
    transposes in training, so chance leaves them there.
    """
    if not isinstance(model, Procrustes):
        return None
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.arange(DRAWN) % len(model.relations)
    sides = torch.cat([chosen, chosen + len(model.relations)])
    drawn = nearest_orthogonal(torch.randn(DRAWN, *model.rotations.shape[1:], generator=generator))
    surrogate = replace(
        model,
        relations=Vocabulary(map(str, range(DRAWN)), "relation"),
        rotations=of_directions(drawn, 2 * DRAWN) if model.inverses else drawn,
        scales=None if model.scales is None else model.scales[sides],
        translations=None if model.translations is None else model.translations[sides],
    )
    maps = of_procrustes(surrogate)
    alike = maps.alike()
    return {
        "pairs": _moments(alike[:DRAWN, :DRAWN][torch.ones(DRAWN, DRAWN).triu(1).bool()]),
        "symmetric": _moments(alike[:DRAWN, DRAWN:].diagonal()),
        "identity": _moments(maps.identity()[:DRAWN]),
    }


def of_compositions(maps: RelationMaps, seed: int = 0) -> Chance:
    """Return how alike two relations, one after the other, and a third one are."""
    generator, directions = torch.Generator().manual_seed(seed), 2 * maps.relations
    first, then, target = torch.randint(directions, (3, 20 * DRAWN), generator=generator)
    different = (first % maps.relations != target % maps.relations) & (then % maps.relations != target % maps.relations)
    different &= first % maps.relations != then % maps.relations
    found = []
    for some in torch.nonzero(different).flatten().split(DRAWN):
        joined = maps.units(maps.composed(maps.matrices[first[some]], maps.matrices[then[some]]))
        found.append((joined * maps.units(maps.matrices[target[some]])).sum(dim=1))
    return of_values(torch.cat(found) if found else maps.matrices.new_zeros(0), of_numbers(maps))


def _moments(values: Float[Tensor, " n"]) -> Chance:
    return Chance(float(values.mean()), float(values.std()))
