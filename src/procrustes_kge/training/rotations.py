"""How rotations move in contrastive training, and how far a step goes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from procrustes_kge.linalg import completed, procrustes_step
from procrustes_kge.training.gradients import Gradients, Tables
from procrustes_kge.training.polars import polar_of
from procrustes_kge.training.state import Remembering

ROTATE_EVERY = 4  # steps whose gradients a rotation collects before it moves: moving at every step gains nothing


class StepSizes(NamedTuple):
    """How far a step goes: numbers, or tensors that a recorded step reads."""

    vectors: float | Tensor
    rotations: float | Tensor
    steps_an_epoch: int


class Rotations(Remembering):
    """How rotations move: by Procrustes steps up the likelihood, or by Eq. 3 from the answers alone.

    A relation has one, which heads use backwards; with `inverses` one for each of its two directions.
    """

    remembered = ("squares",)

    def __init__(
        self,
        rotations: Float[Tensor, "directions segments width width"],
        positives: bool,
        inverses: bool = False,
        fuses: bool = False,
    ) -> None:
        self.positives, self.polar = positives, polar_of(rotations.shape[-1], fuses)
        count = len(rotations) if inverses else len(rotations) // 2
        self.squares = rotations.new_zeros(count, rotations.shape[1])  # Σ ‖gradient‖² so far

    def moved(
        self, tables: Tables, gathered: Gradients, sizes: StepSizes
    ) -> Float[Tensor, "directions segments width width"]:
        """Return the next rotations, and use up what was gathered."""
        if self.positives:
            return self.solved(gathered, keep=max(0.0, 1 - ROTATE_EVERY / sizes.steps_an_epoch))
        moved = self.stepped(tables, gathered, sizes.rotations)
        gathered.rotations.zero_()
        gathered.rotations_weight.zero_()
        return of_directions(moved, len(tables.rotations))

    def stepped(
        self, tables: Tables, gathered: Gradients, learning_rate: float | Tensor
    ) -> Float[Tensor, "rotations segments width width"]:
        """Return rotations after a Procrustes step whose bound grows with the gradients seen, as Adagrad's does."""
        gradient = of_rotations(gathered.rotations, len(self.squares)) / gathered.rotations_weight
        self.squares += gradient.square().sum(dim=(-2, -1))
        bound = (self.squares / gradient.shape[-1]).sqrt() / learning_rate
        tiny = torch.finfo(bound.dtype).tiny ** 0.5  # a relation without any gradient stays as it is
        return procrustes_step(tables.rotations[: len(gradient)], gradient, bound.clamp(tiny, 1 / tiny), self.polar)

    def solved(self, gathered: Gradients, keep: float) -> Float[Tensor, "directions segments width width"]:
        """Return rotations by Eq. 3 from the covariances, of which a share is kept for the next time."""
        found = self.polar(completed(of_rotations(gathered.rotations, len(self.squares))))
        gathered.rotations.mul_(keep)
        return of_directions(found, len(gathered.rotations))


def of_rotations(
    gradients: Float[Tensor, "directions segments width width"], rotations: int
) -> Float[Tensor, "rotations segments width width"]:
    """Return the gradients of so many rotations: one for each direction, or for each relation.

    Heads rotate by a relation's Qᵀ, so theirs is transposed, and added.
    """
    if rotations == len(gradients):
        return gradients
    tails, heads = gradients.chunk(2)
    return tails + heads.mT


def of_directions(
    rotations: Float[Tensor, "rotations segments width width"], directions: int
) -> Float[Tensor, "directions segments width width"]:
    """Return a rotation for each direction; where relations have one each, heads take its transpose."""
    return rotations if len(rotations) == directions else torch.cat([rotations, rotations.mT])
