"""Predicting the relation too: of which direction two entities are the query and the answer.

The score of direction σ for a pair (x, y) is that of y as the answer to the query (x, σ),

    z_σ = y · (c_σ ∘ (x Q_σ) + b_σ) = ⟨x ⊗ y, A_σ⟩ + y · b_σ,    A_σ = Q_σ with its columns scaled by c_σ,

so that the scores of all pairs and directions are one product: the outer products x_s ⊗ y_s of their segments, d · d_s
numbers a pair, with all A_σ. With G = ∂loss/∂z the gradients are two more: Gᵀ (x ⊗ y) for the A_σ, and G A for x ⊗ y,
of which x and y take the product with one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

# Numbers of outer products that are held at once, more of them segment by segment: they are made twice, not kept.
OUTER_NUMBERS, OUTER_NUMBERS_CUDA = 2**21, 2**26

Points = Float[Tensor, "pairs segments width"]
Maps = Float[Tensor, "directions segments width width"]
Shifts = Float[Tensor, "directions segments width"] | None


class Pairs(NamedTuple):
    """Queries' entities and their answers, the direction in which each answers, and what each pair weighs."""

    asked: Points
    answers: Points
    directions: Int[Tensor, " pairs"]
    weights: Float[Tensor, " pairs"]


class Pulls(NamedTuple):
    """The gradients of what the scores of directions are made of."""

    asked: Points
    answers: Points
    maps: Maps
    shifts: Shifts


def against_directions(pairs: Pairs, maps: Maps, shifts: Shifts, precision: torch.dtype) -> Pulls:
    """Return the gradients of the softmax over all directions: −Σ v log p(direction), v the weight of a pair.

    G = v (p − target). Products with all directions are made in `precision`, the softmax in that of the entities.
    """
    asked, answers, directions, weights = pairs
    scores = asked.new_zeros(len(asked), len(maps))
    if shifts is not None:
        scores += answers.flatten(1).to(precision) @ shifts.flatten(1).to(precision).T
    for part in _parts(asked):
        outer, coefficients = _outer(asked[:, part], answers[:, part], precision), _laid_out(maps[:, part], precision)
        scores += outer.flatten(1) @ coefficients.flatten(1).T
    chances, places = scores.softmax(dim=1), torch.arange(len(asked), device=asked.device)
    chances[places, directions] = chances[places, directions] - 1
    wrong = chances.mul_(weights[:, None]).to(precision)
    pulls = Pulls(torch.empty_like(asked), torch.zeros_like(answers), torch.empty_like(maps), None)
    if shifts is not None:
        pulls.answers.add_(_like(wrong @ shifts.flatten(1).to(precision), answers))
        pulls = pulls._replace(shifts=_like(wrong.T @ answers.flatten(1).to(precision), shifts))
    for part in _parts(asked):
        mine, theirs = asked[:, part].mT, answers[:, part].mT
        outer, coefficients = _outer(asked[:, part], answers[:, part], precision), _laid_out(maps[:, part], precision)
        of_maps = (wrong.T @ outer.flatten(1)).view_as(coefficients)
        pulls.maps[:, part] = of_maps.permute(0, 3, 1, 2)
        of_outer = (wrong @ coefficients.flatten(1)).view_as(outer)
        pulls.asked[:, part] = (of_outer * theirs[:, None]).sum(dim=2).mT
        pulls.answers[:, part] += (of_outer * mine[:, :, None]).sum(dim=1).mT
    return pulls


def _parts(points: Points) -> Iterator[slice]:
    """Yield segments, as many together as fit."""
    count, segments, width = points.shape
    most = OUTER_NUMBERS_CUDA if points.is_cuda else OUTER_NUMBERS
    together = max(1, most // max(1, count * width**2))
    return (slice(first, first + together) for first in range(0, segments, together))


def _outer(asked: Points, answers: Points, precision: torch.dtype) -> Float[Tensor, "pairs width width segments"]:
    """Return x_s ⊗ y_s with the segments last: they are many, and a processor multiplies rows of numbers at once."""
    mine, theirs = (points.mT.to(precision).contiguous() for points in (asked, answers))
    return mine[:, :, None] * theirs[:, None]


def _laid_out(maps: Maps, precision: torch.dtype) -> Float[Tensor, "directions width width segments"]:
    return maps.permute(0, 2, 3, 1).to(precision).contiguous()


def _like(product: Tensor, table: Tensor) -> Tensor:
    return product.to(table.dtype).view(table.shape)
