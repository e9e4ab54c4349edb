"""Relations that move entities."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from procrustes_kge.models.baselines.distances import grouped_distance
from procrustes_kge.models.baselines.embedded import Embedded, Encoded, rows


class TransE(Embedded):
    """q = h + r, compared by γ − ‖q − t‖ (Bordes et al., 2013)."""

    def __init__(
        self,
        entities: int,
        relations: int,
        dim: int = 512,
        norm: int = 1,
        margin: float = 0.0,
        inverses: bool = True,
        input_dropout: float = 0.0,
    ) -> None:
        super().__init__(entities, relations, dim, dim, inverses)
        self.norm, self.margin, self.drop = norm, margin, nn.Dropout(input_dropout)
        for table in (self.entities, self.relations):
            nn.init.xavier_normal_(table)

    def backwards(self, relations: Float[Tensor, "relations k"]) -> Float[Tensor, "relations k"]:
        """Return the way back."""
        return -relations

    def encode(self, graph: object = None) -> Encoded:
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
