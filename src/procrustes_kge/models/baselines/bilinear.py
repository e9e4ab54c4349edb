"""Scores that are linear in the head and in the tail."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.baselines.embedded import Baseline, Encoded, ModelOptions, rows
from procrustes_kge.models.baselines.layers import Dropout, RandomSource
from procrustes_kge.models.predictor import Ids


class DistMult(Baseline):
    """q = h ∘ r, compared by q · t (Yang et al., 2015)."""

    @dataclass(frozen=True)
    class Options(ModelOptions):
        query_dropout: Annotated[float, "dropout of the query vector"] = 0.0  # as published
        init_std: Annotated[float, "standard deviation of the initial weights"] = 1e-3  # as with N3
        inverses: Annotated[bool, "learn separate parameters for inverse relations"] = True  # as ConvE and later

        parts: ClassVar[int] = 1  # of a number: a complex one has two, a quaternion four
        cut_into = "numbers of {} parts"

    def __init__(self, graph: Graph, options: Options, random: RandomSource) -> None:
        super().__init__(graph, options, random)
        self.parts, self.dropout = options.parts, Dropout(options.query_dropout, random)
        self.draw_tables(nn.init.normal_, std=options.init_std)

    def backwards(self, relations: Float[Tensor, "relations k"]) -> Float[Tensor, "relations k"]:
        """Return the conjugates: the first part as it is, the others with the other sign."""
        first, *others = relations.chunk(self.parts, dim=-1)
        return torch.cat([first, *(-other for other in others)], dim=-1)

    def query(self, encoded: Encoded, heads: Ids, relations: Ids) -> Float[Tensor, "b d"]:
        return self.dropout(self.product(rows(encoded.entities, heads), rows(encoded.relations, relations)))

    def product(self, heads: Float[Tensor, "b d"], relations: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        """Return h ∘ r."""
        return heads * relations

    def factors(self, encoded: Encoded, heads: Ids, relations: Ids, tails: Ids) -> list[Float[Tensor, "b _"]]:
        """Return the moduli of the numbers of a triple."""
        found = super().factors(encoded, heads, relations, tails)
        if self.parts == 1:
            return [row.abs() for row in found]
        squares = [torch.stack(row.chunk(self.parts, dim=-1)).square().sum(dim=0) for row in found]
        return [(square + 1e-20).sqrt() for square in squares]  # its gradient at zero is zero


class ComplEx(DistMult):
    """DistMult with complex numbers: q = h r, compared by Re(q · t̄) (Trouillon et al., 2016)."""

    @dataclass(frozen=True)
    class Options(DistMult.Options):
        parts = 2

    def product(self, heads: Float[Tensor, "b d"], relations: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        """Return (a + ib)(c + id), real parts first."""
        (a, b), (c, d) = heads.chunk(2, dim=-1), relations.chunk(2, dim=-1)
        return torch.cat([a * c - b * d, a * d + b * c], dim=-1)


class QuatE(DistMult):
    """DistMult with quaternions, those of relations of length one (Zhang et al., 2019)."""

    @dataclass(frozen=True)
    class Options(DistMult.Options):
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

    def factors(self, encoded: Encoded, heads: Ids, relations: Ids, tails: Ids) -> list[Float[Tensor, "b _"]]:
        """Return those of the entities: the length of a relation's number does nothing."""
        head, _, tail = super().factors(encoded, heads, relations, tails)
        return [head, tail]


class TuckER(Baseline):
    """A matrix per relation from one shared core: q = h (Σ_k r_k W_k), compared by q · t (Balažević et al., 2019)."""

    @dataclass(frozen=True)
    class Options(ModelOptions):
        relation_dim: Annotated[int, "dimension of the relation vectors"] = 200  # as many as in an entity's
        input_dropout: Annotated[float, "dropout of the model's input"] = 0.0  # differs by graph
        relation_dropout: Annotated[float, "dropout of a relation's matrix"] = 0.0  # likewise
        query_dropout: Annotated[float, "dropout of the query vector"] = 0.0  # differs by graph

    def __init__(self, graph: Graph, options: Options, random: RandomSource) -> None:
        super().__init__(graph, options, random, relation_dim=options.relation_dim)
        core = torch.empty(options.relation_dim, options.dim, options.dim)
        self.core = nn.Parameter(core.uniform_(-1, 1, generator=random.on("cpu")))
        self.norms = nn.ModuleList(nn.BatchNorm1d(options.dim) for _ in range(2))
        shares = (options.input_dropout, options.relation_dropout, options.query_dropout)
        self.drops = nn.ModuleList(Dropout(share, random) for share in shares)
        self.draw_tables()

    def query(self, encoded: Encoded, heads: Ids, relations: Ids) -> Float[Tensor, "b d"]:
        head = self.drops[0](self.norms[0](rows(encoded.entities, heads)))
        matrix = self.drops[1](torch.tensordot(rows(encoded.relations, relations), self.core, dims=1))
        return self.drops[2](self.norms[1]((head[:, None] @ matrix).squeeze(1)))
