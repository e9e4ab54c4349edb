"""What every model can do: the training loop, ranking and answers by name need nothing else."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.graphs.graph import Graph

Candidates = Int[Tensor, "b k"] | None  # entities to score for each query; None: all
Scores = Float[Tensor, "b n"]


@runtime_checkable
class LinkPredictor(Protocol):
    """A model that scores entities as answers to queries. Relation r + R asks for the heads of relation r."""

    def encode(self, graph: Graph | None = None) -> Any:
        """Return the entity and relation tables, made once per step or evaluation."""

    def query(self, encoded: Any, heads: Int[Tensor, " b"], relations: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
        """Return the point where the answer to each query should lie."""

    def scores(self, encoded: Any, queries: Float[Tensor, "b d"], candidates: Candidates = None) -> Scores:
        """Return how well each entity, or each given candidate, answers each query: higher is better."""
