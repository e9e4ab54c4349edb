"""A trained baseline: the counterpart of `Procrustes`."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from procrustes_kge.graphs.graph import Graph, Vocabulary
from procrustes_kge.models.baselines.embedded import Baseline, Encoded, ModelOptions
from procrustes_kge.models.predictor import Answering, Candidates, Ids, Scores


@dataclass(frozen=True, eq=False, repr=False)
class TrainedBaseline(Answering):
    """A trained baseline: its module with the weights, its options, and the names of entities and relations."""

    name: str
    options: ModelOptions
    entities: Vocabulary
    relations: Vocabulary
    module: Baseline

    @property
    def kind(self) -> str:
        return type(self.module).__name__

    @property
    def dim(self) -> int:
        return self.options.dim

    @property
    def table(self) -> Float[Tensor, "entities d"]:
        """The entity vectors, as queries use them."""
        return self.encode().entities.detach()

    def to(self, device: torch.device | str) -> TrainedBaseline:
        """Return the same model on another device."""
        return replace(self, module=copy.deepcopy(self.module).to(device))

    def encode(self, graph: Graph | None = None) -> Encoded:
        return self.module.encode(graph)

    def query(self, encoded: Encoded, heads: Ids, relations: Ids) -> Float[Tensor, "b d"]:
        return self.module.query(encoded, heads, relations)

    def scores(self, encoded: Encoded, queries: Float[Tensor, "b d"], candidates: Candidates = None) -> Scores:
        return self.module.scores(encoded, queries, candidates)
