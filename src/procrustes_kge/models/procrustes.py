"""Procrustes: the trained model, which answers queries by id in batches, or by name one at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from procrustes_kge.graphs.graph import Graph, Vocabulary
from procrustes_kge.linalg import tiled
from procrustes_kge.models.predictor import Answering, Candidates, Ids, Scores

ROWS_PER_PRODUCT = 16  # queries of one direction that are rotated together


@dataclass(frozen=True, eq=False, repr=False)
class Procrustes(Answering):
    """A trained model: segmented vectors of entities, and an orthogonal matrix for each relation and segment.

    Each relation is used in two directions: r for tails, with Q, and r + R for heads, with Qᵀ, or with a Q of their own
    where there are as many rotations as directions. Scales c and translations b, if the model has them, differ by
    direction. The answer to a query about x lies near c ∘ (x Q) + b.
    """

    entities: Vocabulary
    relations: Vocabulary
    vectors: Float[Tensor, "entities segments width"]
    rotations: Float[Tensor, "relations_or_directions segments width width"]
    translations: Float[Tensor, "directions segments width"] | None = None
    scales: Float[Tensor, "directions segments width"] | None = None

    @property
    def table(self) -> Float[Tensor, "entities d"]:
        """The entity vectors, all segments together."""
        return self.vectors.flatten(1)

    @property
    def inverses(self) -> bool:
        """Whether inverse relations have rotations of their own."""
        return len(self.rotations) > len(self.relations)

    @property
    def dim(self) -> int:
        """The length of an entity's vector."""
        return self.vectors.shape[1] * self.vectors.shape[2]

    def encode(self, graph: Graph | None = None) -> Procrustes:
        """Return the model itself: its tables need no computation."""
        return self

    def query(self, encoded: Procrustes, heads: Ids, relations: Ids) -> Float[Tensor, "b d"]:
        """Return c ∘ (h Q) + b for tails, and c ∘ (t Qᵀ) + b for heads (relation r + R) without a Q of their own."""
        (_, *shape), count = encoded.vectors.shape, len(encoded.rotations)
        heads, relations = heads.to(encoded.vectors.device), relations.to(encoded.vectors.device)
        order = relations.argsort(stable=True)
        rows, tiles = tiled(torch.bincount(relations, minlength=2 * len(self.relations)), height := ROWS_PER_PRODUCT)
        asked = encoded.vectors.new_zeros(len(tiles) * height, *shape)
        asked.index_copy_(0, rows, encoded.vectors[heads[order]])
        rotations = encoded.rotations[tiles % count]
        rotations = torch.where((tiles < count)[:, None, None, None], rotations, rotations.mT)
        wanted = asked.view(len(tiles), height, *shape).transpose(1, 2) @ rotations
        if encoded.scales is not None:
            wanted = wanted * encoded.scales[tiles, :, None]
        if encoded.translations is not None:
            wanted = wanted + encoded.translations[tiles, :, None]
        wanted = wanted.transpose(1, 2).flatten(0, 1)[rows]
        return torch.empty_like(wanted).index_copy_(0, order, wanted).flatten(1)

    def scores(self, encoded: Procrustes, queries: Float[Tensor, "b d"], candidates: Candidates = None) -> Scores:
        """Return dot products. For unit segments −‖q − t‖² = 2 q·t − const: distance and product rank alike."""
        table = encoded.table
        return queries @ table.T if candidates is None else (table[candidates] @ queries[..., None]).squeeze(-1)

    def to(self, device: torch.device | str) -> Procrustes:
        """Return the same model on another device."""
        moved: dict[str, Any] = {name: table.to(device) for name, table in self.tables().items()}
        return replace(self, **moved)

    def tables(self) -> dict[str, Tensor]:
        """Return the tables that this model has, by name."""
        names = ("vectors", "rotations", "translations", "scales")
        return {name: table for name in names if (table := getattr(self, name)) is not None}


def both_ways(
    rotations: Float[Tensor, "relations segments width width"], translations: Float[Tensor, "relations segments width"]
) -> Float[Tensor, "directions segments width"]:
    """Return b for tails and −b Qᵀ for heads: h Q + b read backwards is (t − b) Qᵀ."""
    return torch.cat([translations, -(translations[..., None, :] @ rotations.mT).squeeze(-2)])
