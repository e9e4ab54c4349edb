"""Relations that translate entities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.baselines.distances import grouped_distance
from procrustes_kge.models.baselines.embedded import Baseline, Encoded, rows
from procrustes_kge.models.baselines.layers import Dropout
from procrustes_kge.models.baselines.options import DistanceOptions
from procrustes_kge.models.baselines.random import RandomSource


class TransE(Baseline):
    """q = h + r, compared by γ − ‖q − t‖ (Bordes et al., 2013)."""

    @dataclass(frozen=True)
    class Options(DistanceOptions):
        """Options of TransE."""

        norm: Annotated[int, "1: sum of absolute differences; 2: Euclidean distance"] = 1  # as published
        inverses: Annotated[bool, "a relation has vectors of its own for each direction"] = True  # as ConvE and later
        input_dropout: Annotated[float, "share of the numbers of entities left out in training"] = 0.0  # as published

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.norm not in (1, 2):
                raise InputError(f"norm {self.norm}, expected 1 or 2")

    def __init__(self, graph: Graph, options: Options, random: RandomSource) -> None:
        super().__init__(graph, options, random, inverses=options.inverses)
        self.norm, self.margin, self.drop = options.norm, options.margin, Dropout(options.input_dropout, random)
        self.draw_tables()

    def backwards(self, relations: Float[Tensor, "relations k"]) -> Float[Tensor, "relations k"]:
        """Return the inverse translations."""
        return -relations

    def encode(self, graph: Graph | None = None) -> Encoded:
        """Return the tables; in training some numbers of entities are left out."""
        tables = super().encode(graph)
        return tables._replace(entities=self.drop(tables.entities))

    def query(self, encoded: Encoded, heads: Int[Tensor, " b"], relations: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
        """Return where the answer should lie."""
        return rows(encoded.entities, heads) + rows(encoded.relations, relations)

    def scores(
        self, encoded: Encoded, queries: Float[Tensor, "b d"], candidates: Int[Tensor, "b k"] | None = None
    ) -> Float[Tensor, "b n"]:
        """Return the margin minus the distance."""
        group = 1 if self.norm == 1 else queries.shape[1]
        return self.margin - grouped_distance(queries, encoded.entities, group, candidates)
