"""Scores that are linear in the head and in the tail."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import normalize

from procrustes_kge.models.baselines.embedded import Embedded, Encoded, rows
from procrustes_kge.validation import check_divides


class DistMult(Embedded):
    """q = h ∘ r, compared by q · t (Yang et al., 2015)."""

    parts = 1  # of a vector: a number has one, a complex number two, a quaternion four

    def __init__(
        self,
        entities: int,
        relations: int,
        dim: int = 500,
        query_dropout: float = 0.0,
        spread: float = 1e-3,
        inverses: bool = True,
    ) -> None:
        check_divides(dim, self.parts, f"numbers of {self.parts} parts")
        super().__init__(entities, relations, dim, dim, inverses)
        self.dropout = nn.Dropout(query_dropout)
        for table in (self.entities, self.relations):
            nn.init.normal_(table, std=spread)

    def backwards(self, relations: Float[Tensor, "relations k"]) -> Float[Tensor, "relations k"]:
        """Return the conjugates: the first part as it is, the others with the other sign."""
        first, *others = relations.chunk(self.parts, dim=-1)
        return torch.cat([first, *(-other for other in others)], dim=-1)

    def query(self, encoded: Encoded, heads: Int[Tensor, " b"], relations: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
        """Return the product of head and relation."""
        return self.dropout(self.product(rows(encoded.entities, heads), rows(encoded.relations, relations)))

    def product(self, heads: Float[Tensor, "b d"], relations: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        """Return h ∘ r."""
        return heads * relations

    def factors(
        self, encoded: Encoded, heads: Int[Tensor, " b"], relations: Int[Tensor, " b"], tails: Int[Tensor, " b"]
    ) -> list[Float[Tensor, "b _"]]:
        """Return the moduli of the numbers of a triple."""
        rows = super().factors(encoded, heads, relations, tails)
        return [row.abs() if self.parts == 1 else self.moduli(row) for row in rows]

    def moduli(self, rows: Float[Tensor, "b d"]) -> Float[Tensor, "b _"]:
        """Return the length of each number that has several parts."""
        squares = torch.stack(rows.chunk(self.parts, dim=-1)).square().sum(dim=0)
        return (squares + 1e-20).sqrt()  # its gradient at zero is zero


class ComplEx(DistMult):
    """DistMult with complex numbers: q = h r, compared by Re(q · t̄) (Trouillon et al., 2016)."""

    parts = 2

    def product(self, heads: Float[Tensor, "b d"], relations: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        """Return (a + ib)(c + id), real parts first."""
        (a, b), (c, d) = heads.chunk(2, dim=-1), relations.chunk(2, dim=-1)
        return torch.cat([a * c - b * d, a * d + b * c], dim=-1)


class QuatE(DistMult):
    """DistMult with quaternions, those of relations of length one (Zhang et al., 2019)."""

    parts = 4

    def product(self, heads: Float[Tensor, "b d"], relations: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        """Return the Hamilton product with the normalised relation."""
        a, b, c, d = heads.chunk(4, dim=-1)
        p, u, v, w = normalize(torch.stack(relations.chunk(4, dim=-1)), dim=0)
        rows = (
            a * p - b * u - c * v - d * w,
            a * u + b * p + c * w - d * v,
            a * v - b * w + c * p + d * u,
            a * w + b * v - c * u + d * p,
        )
        return torch.cat(rows, dim=-1)

    def factors(
        self, encoded: Encoded, heads: Int[Tensor, " b"], relations: Int[Tensor, " b"], tails: Int[Tensor, " b"]
    ) -> list[Float[Tensor, "b _"]]:
        """Return those of the entities: the length of a relation's number does nothing."""
        head, _, tail = super().factors(encoded, heads, relations, tails)
        return [head, tail]


class TuckER(Embedded):
    """A matrix per relation from one shared core: q = h (Σ_k r_k W_k), compared by q · t (Balažević et al., 2019)."""

    def __init__(
        self,
        entities: int,
        relations: int,
        dim: int = 200,
        relation_dim: int = 200,
        input_dropout: float = 0.3,
        relation_dropout: float = 0.4,
        query_dropout: float = 0.5,
    ) -> None:
        super().__init__(entities, relations, dim, relation_dim, inverses=True)
        self.core = nn.Parameter(torch.empty(relation_dim, dim, dim).uniform_(-1, 1))
        self.norms = nn.ModuleList(nn.BatchNorm1d(dim) for _ in range(2))
        self.drops = nn.ModuleList(nn.Dropout(share) for share in (input_dropout, relation_dropout, query_dropout))
        for table in (self.entities, self.relations):
            nn.init.xavier_normal_(table)

    def query(self, encoded: Encoded, heads: Int[Tensor, " b"], relations: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
        """Return the head, turned by its relation's matrix."""
        head = self.drops[0](self.norms[0](rows(encoded.entities, heads)))
        matrix = self.drops[1](torch.tensordot(rows(encoded.relations, relations), self.core, dims=1))
        return self.drops[2](self.norms[1]((head[:, None] @ matrix).squeeze(1)))
