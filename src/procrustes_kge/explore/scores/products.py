"""Models whose scores are inner products, q · t + b_t: these are compared in blocks, bounded and indexed."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.models.baselines.embedded import Baseline
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.predictor import LinkPredictor
from procrustes_kge.models.procrustes import Procrustes


class Products(NamedTuple):
    """The table of a model that scores entity t for a query q by q · t + b_t."""

    table: Float[Tensor, "entities d"]
    biases: Float[Tensor, " entities"] | None = None

    def only(self, some: Int[Tensor, " k"]) -> Products:
        """Return the table of these entities alone."""
        return Products(self.table[some], None if self.biases is None else self.biases[some])

    def scores(self, queries: Float[Tensor, "b d"]) -> Float[Tensor, "b n"]:
        """Return the scores of all entities."""
        products = queries @ self.table.T
        return products if self.biases is None else products.add_(self.biases)


def lengths(rows: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """Return ‖x‖, in float64: no length is rounded to less than a bound may rest on."""
    parts = [torch.linalg.vector_norm(part, dim=1, dtype=torch.float64) for part in rows.split(2**14)]
    return torch.cat(parts) if parts else rows.new_zeros(0, dtype=torch.float64)


def products_of(model: LinkPredictor, encoded: Any) -> Products | None:
    """Return what a model's scores are products with; None where they are anything else, such as distances."""
    if isinstance(model, Procrustes):
        return Products(encoded.table)
    if isinstance(model, TrainedBaseline) and type(model.module).scores is Baseline.scores:
        return Products(encoded.entities.detach(), None if encoded.biases is None else encoded.biases.detach())
    return None
