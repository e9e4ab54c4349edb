"""Full batch as plainly as it can be written, so that parts of it can be left out: variants that no setting offers.

    X ─centre, scale to length one→ H, T of each relation ─SVD of Hᵀ T, or a gradient→ Q ─ HQ − T → gradient ─Adam→ X

With nothing left out it takes the steps of `fit` with Adam and the squared loss, more slowly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.linalg import completed, cross_covariance, nearest_orthogonal, spherise
from procrustes_kge.models.predictor import Candidates, Scores
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.training.blocks import start_vectors
from procrustes_kge.training.optimisers import Adam

Vectors = Float[Tensor, "segments entities width"]
Matrices = Float[Tensor, "relations segments width width"]


@dataclass(frozen=True)
class Variant:
    """Full batch with parts of it left out."""

    centre: bool = True
    normalise: bool = True
    rotation_learning_rate: float = 0.0  # 0: rotations are solved in closed form
    learning_rate: float = 0.01
    dim: int = 200
    segment: int = 20
    seed: int = 0


class Nearest(Procrustes):
    """A model whose answers are the nearest entities: where lengths differ, products rank in another order."""

    def scores(self, encoded: Procrustes, queries: Float[Tensor, "b d"], candidates: Candidates = None) -> Scores:
        """Return 2 q·t − ‖t‖², which is −‖q − t‖² but for what all candidates share."""
        lengths = encoded.table.square().sum(dim=1)
        products = super().scores(encoded, queries, candidates)
        return 2 * products - (lengths if candidates is None else lengths[candidates])


class PlainTraining:
    """A variant in training; an epoch at a time."""

    def __init__(self, graph: Graph, variant: Variant, device: torch.device) -> None:
        self.graph, self.variant = graph, variant
        triples = graph.train.to(device)
        relations = [triples[triples[:, 1] == relation] for relation in range(len(graph.relations))]
        self.ends: list[tuple[Int[Tensor, " n"], Int[Tensor, " n"]]] = [(each[:, 0], each[:, 2]) for each in relations]
        segments = range(variant.dim // variant.segment)
        # All start from the same unit vectors around the origin, whatever is left out later.
        drawn = start_vectors(segments, len(graph.entities), variant.segment, variant.seed, device)
        self.vectors: Vectors = spherise(drawn)
        self.adam = Adam(self.vectors)
        self.free: Matrices | None = None  # what the gradient moves, before it is made orthogonal
        if variant.rotation_learning_rate:
            shape = (len(self.ends), len(segments), variant.segment, variant.segment)
            generator = torch.Generator(device).manual_seed(variant.seed)
            self.free = nearest_orthogonal(torch.randn(shape, generator=generator, device=device))
            self.rotation_adam = Adam(self.free)
        self.constrain()

    def constrain(self) -> None:
        """Centre and scale to length one, if the variant does."""
        if self.variant.centre:
            self.vectors -= self.vectors.mean(dim=1, keepdim=True)
        if self.variant.normalise:
            length = torch.linalg.vector_norm(self.vectors, dim=-1, keepdim=True)
            self.vectors /= length.clamp_min(torch.finfo(length.dtype).tiny)

    def rotations(self) -> Matrices:
        """Return Q of every relation: by Eq. 3, or the nearest orthogonal matrix to what the gradient has moved."""
        if self.free is not None:
            return nearest_orthogonal(self.free)
        covariances = [cross_covariance(self.vectors[:, heads], self.vectors[:, tails]) for heads, tails in self.ends]
        return nearest_orthogonal(completed(torch.stack(covariances)))

    def epoch(self) -> None:
        """Take a step against the gradient of ‖H Q − T‖² / 2, Q held fixed: ∂h = (hQ − t) Qᵀ, ∂t = t − hQ."""
        gradient, rotations = torch.zeros_like(self.vectors), self.rotations()
        turned = torch.zeros_like(rotations)
        for relation, (heads, tails) in enumerate(self.ends):
            rotation = rotations[relation]
            apart = self.vectors[:, heads] @ rotation - self.vectors[:, tails]
            gradient.index_add_(1, heads, apart @ rotation.mT)
            gradient.index_add_(1, tails, apart, alpha=-1)
            if self.free is not None:
                turned[relation] = cross_covariance(self.vectors[:, heads], apart)
        if self.free is not None:
            self.rotation_adam(self.free, turned, self.variant.rotation_learning_rate)
        self.adam(self.vectors, gradient, self.variant.learning_rate)
        self.constrain()

    def spread(self) -> float:
        """Return the root of the mean squared distance of a segment from the centre of all: 1 at the start."""
        centred = self.vectors - self.vectors.mean(dim=1, keepdim=True)
        return float(centred.square().sum(dim=-1).mean().sqrt())

    def model(self) -> Procrustes:
        """Return the model so far."""
        vectors: Any = self.vectors.transpose(0, 1)
        return Nearest(self.graph.entities, self.graph.relations, vectors, self.rotations())


def curve(training: PlainTraining, epochs: int, every: int) -> Iterator[tuple[int, PlainTraining]]:
    """Train, and yield the epoch and the training before the first, after every so many, and after the last."""
    yield 0, training
    for epoch in range(1, epochs + 1):
        training.epoch()
        if epoch % every == 0 or epoch == epochs:
            yield epoch, training
