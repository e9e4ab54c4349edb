"""One epoch of full batch for a block of segments: in plain PyTorch, and by fused kernels that must agree with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from procrustes_kge.layouts.relational import RelationalMatrices
from procrustes_kge.linalg import inverse_norms, spherise_
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.optimisers import Adam
from procrustes_kge.training.polars import polar
from procrustes_kge.training.state import Remembering, State, copy_into

if TYPE_CHECKING:
    from procrustes_kge.kernels.full_batch import FusedSegments

NEARLY_THERE = 0.03  # radians: entities this close to where their triples want them move less


class PlainBlock(Remembering):
    """Segments trained in plain PyTorch."""

    remembered = ("vectors", "adam")

    def __init__(
        self,
        vectors: Float[Tensor, "segments entities width"],
        settings: FitSettings,
        matrices: RelationalMatrices,
        spare: list[Tensor] | None = None,
    ) -> None:
        self.vectors, self.settings, self.matrices = vectors, settings, matrices
        # Memory of epochs that ended, one piece for each core: new memory is slow, since the system clears it first.
        self.spare = [] if spare is None else spare
        self.adam = Adam(vectors) if settings.optimiser == "adam" else None

    def epoch(self) -> Float[Tensor, " segments"]:
        """Train one epoch in place, and return the loss that it started from."""
        settings, matrices, vectors = self.settings, self.matrices, spherise_(self.vectors)
        # Q minimises this same loss, so its own gradient is zero: holding it fixed is exact.
        relations = matrices.solve(vectors, polar, settings.translate)
        if settings.loss == "squared":
            weights, mass = None, matrices.degrees.to(vectors.dtype)[:, None]
            loss = relations.residuals.sum(dim=1) / 2
        else:
            weights = inverse_norms(relations.residuals, matrices.triples)
            mass = matrices.mass(weights)
            loss = relations.residuals.sqrt().sum(dim=1)
        try:
            room = self.spare.pop()
        except IndexError:
            room = matrices.buffer(vectors)
        pull = matrices.pull(vectors, relations, weights, room)
        if not vectors.is_cuda:
            self.spare.append(room)
        if self.adam is not None:
            self.adam(vectors, mass * vectors - pull, settings.learning_rate)
        else:
            self.turn_(pull.div_(mass.clamp_min(torch.finfo(mass.dtype).tiny)))
        return loss

    def turn_(self, wanted: Float[Tensor, "segments entities width"]) -> None:
        """Turn every vector by the same angle towards where its triples want it, in place."""
        towards = wanted - (wanted * self.vectors).sum(dim=-1, keepdim=True) * self.vectors
        length = torch.linalg.vector_norm(towards, dim=-1, keepdim=True)
        self.vectors.addcdiv_(towards, length.add_(NEARLY_THERE), value=self.settings.learning_rate)


class FusedBlock:
    """Segments trained by the kernels."""

    def __init__(self, segments: FusedSegments, settings: FitSettings) -> None:
        self.segments, self.settings = segments, settings

    @property
    def vectors(self) -> Float[Tensor, "segments entities width"]:
        """The vectors, spherised at the start of every epoch."""
        return self.segments.vectors

    def epoch(self) -> Float[Tensor, " segments"]:
        """Train one epoch in place, and return the loss that it started from."""
        return self.segments.train_epoch(
            self.settings.learning_rate,
            translate=self.settings.translate,
            by_norm=self.settings.loss == "norm",
            adam=self.settings.optimiser == "adam",
            near=NEARLY_THERE,
        )

    def state(self) -> State:
        """Return all that the next epoch depends on."""
        segments = self.segments
        state = {"vectors": segments.vectors, "centres": segments.centres, "taken": torch.tensor(segments.taken)}
        if self.settings.optimiser == "adam":
            state["mean"], state["square"] = segments.moments
        return state

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        taken = self.state()
        self.segments.taken = int(state["taken"])
        del taken["taken"]
        copy_into(taken, state)


def start_vectors(
    numbers: Sequence[int], entities: int, width: int, seed: int, device: torch.device
) -> Float[Tensor, "segments entities width"]:
    """Draw each segment by its own number, so that it starts the same whatever it is trained beside."""
    vectors = torch.empty(len(numbers), entities, width, device=device)
    for row, number in enumerate(numbers):
        # Multiplied by large odd constants so that neighbouring seeds and numbers share no stream.
        mixed = (seed * 0x9E3779B97F4A7C15 + number * 0xBF58476D1CE4E5B9 + 1) % 2**63
        vectors[row].normal_(generator=torch.Generator(device).manual_seed(mixed))
    return vectors
