"""Relations that move entities, by translations and rotations; what is compared are distances."""

import math
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize, softplus

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.baselines.distances import grouped_distance
from procrustes_kge.models.baselines.embedded import Baseline, Encoded, ModelOptions, rows
from procrustes_kge.models.baselines.layers import Dropout, RandomSource
from procrustes_kge.models.predictor import Candidates, Ids, Scores
from procrustes_kge.system.precision import exact_products


class DistanceModel(Baseline):
    """A model whose score is γ − Σ ‖q_g − t_g‖, a margin minus the distances of all groups of numbers."""

    @dataclass(frozen=True)
    class Options(ModelOptions):
        margin: Annotated[float, "distance at which answers end"] = 6.0  # RotatE's on WN18RR

    group: int
    margin: float

    def backwards(self, relations: Float[Tensor, "relations k"]) -> Float[Tensor, "relations k"]:
        """Return the inverse translations, or the angles of the inverse rotations."""
        return -relations

    def scores(self, encoded: Encoded, queries: Float[Tensor, "b d"], candidates: Candidates = None) -> Scores:
        return self.margin - grouped_distance(queries, encoded.entities, self.group, candidates)


class TransE(DistanceModel):
    """q = h + r, compared by γ − ‖q − t‖ (Bordes et al., 2013)."""

    @dataclass(frozen=True)
    class Options(DistanceModel.Options):
        norm: Annotated[int, "1: Manhattan distance; 2: Euclidean distance"] = 1  # as published
        inverses: Annotated[bool, "learn separate parameters for inverse relations"] = True  # as ConvE and later
        input_dropout: Annotated[float, "dropout of the model's input"] = 0.0  # as published

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.norm not in (1, 2):
                raise InputError(f"norm {self.norm}, expected 1 or 2")

    def __init__(self, graph: Graph, options: Options, random: RandomSource) -> None:
        super().__init__(graph, options, random)
        self.margin, self.drop = options.margin, Dropout(options.input_dropout, random)
        self.group = 1 if options.norm == 1 else options.dim
        self.draw_tables()

    def encode(self, graph: Graph | None = None) -> Encoded:
        """Return the tables; in training some numbers of entities are left out."""
        tables = super().encode(graph)
        return tables._replace(entities=self.drop(tables.entities))

    def query(self, encoded: Encoded, heads: Ids, relations: Ids) -> Float[Tensor, "b d"]:
        return rows(encoded.entities, heads) + rows(encoded.relations, relations)


class RotatE(DistanceModel):
    """q = h e^{iθ} on complex numbers, compared by γ − Σ |q_k − t_k| (Sun et al., 2019).

    A complex number is two neighbours of a vector. Angles are kept in units that make them as small as the numbers of
    entities, so that both learn at one rate.
    """

    @dataclass(frozen=True)
    class Options(DistanceModel.Options):
        inverses: Annotated[bool, "learn separate parameters for inverse relations"] = True  # as ConvE and later
        parts, cut_into = 2, "complex numbers"

    def __init__(self, graph: Graph, options: Options, random: RandomSource) -> None:
        planes = options.dim // 2
        super().__init__(graph, options, random, relation_dim=planes)
        self.group, self.margin, self.half_circle = 2, options.margin, (options.margin + 2) / planes
        self.draw_tables(nn.init.uniform_, a=-self.half_circle, b=self.half_circle)

    def encode(self, graph: Graph | None = None) -> Encoded:
        tables = super().encode(graph)
        return tables._replace(relations=tables.relations * (math.pi / self.half_circle))

    def query(self, encoded: Encoded, heads: Ids, relations: Ids) -> Float[Tensor, "b d"]:
        return _rotated(rows(encoded.entities, heads), rows(encoded.relations, relations))


class OTE(DistanceModel):
    """An orthogonal matrix and scales per group of numbers: q_g = h_g diag(eˢ) Q (Tang et al., 2020).

    Q are the orthonormalised rows of W. Heads are asked for by t_g diag(e⁻ˢ) Qᵀ, which is not exactly the inverse.
    """

    @dataclass(frozen=True)
    class Options(DistanceModel.Options):
        group: Annotated[int, "dimension of a group that is rotated together"] = 4  # the paper's on WN18RR
        parts, cut_into = "group", "groups of {}"
        inverses = False  # one matrix makes those of both directions

    def __init__(self, graph: Graph, options: Options, random: RandomSource) -> None:
        dim = options.dim
        super().__init__(graph, options, random, relation_dim=dim * (options.group + 1))
        self.group, self.margin, generator = options.group, options.margin, random.on("cpu")
        matrices, scales = self.relations.detach().split([dim * self.group, dim], dim=1)
        nn.init.uniform_(self.entities, -0.01, 0.01, generator=generator)
        nn.init.normal_(matrices, generator=generator)
        nn.init.zeros_(scales)

    def encode(self, graph: Graph | None = None) -> Encoded:
        matrices, scales = self.relations.split([self.entities.shape[1] * self.group, self.entities.shape[1]], dim=1)
        rotations = orthonormal_rows(matrices.unflatten(1, (-1, self.group, self.group)))
        scales = scales.unflatten(1, (-1, self.group))[..., None]
        both = torch.cat([scales.exp() * rotations, (-scales).exp() * rotations.mT])
        return Encoded(self.entities, both.flatten(1))

    def query(self, encoded: Encoded, heads: Ids, relations: Ids) -> Float[Tensor, "b d"]:
        groups = rows(encoded.entities, heads).unflatten(1, (-1, 1, self.group))
        return (groups @ rows(encoded.relations, relations).unflatten(1, (-1, self.group, self.group))).flatten(1)


class RotH(Baseline):
    """Givens rotations between two translations in hyperbolic space: −d(q, t)² + b_h + b_t (Chami et al., 2020).

    A relation has its own curvature c; entities are tangent vectors at the origin, mapped into it by exp₀. The
    last two numbers of a query are its curvature and the bias of its head.
    """

    @dataclass(frozen=True)
    class Options(ModelOptions):
        init_std: Annotated[float, "standard deviation of the initial weights"] = 1e-3  # all near the origin
        parts, cut_into = 2, "planes"

    def __init__(self, graph: Graph, options: Options, random: RandomSource) -> None:
        sizes = [2 * options.dim, options.dim // 2, 1]
        super().__init__(graph, options, random, relation_dim=sum(sizes))
        self.biases = nn.Parameter(torch.zeros(len(graph.entities)))
        shifts, angles, curvatures = self.relations.detach().split(sizes, dim=1)
        for table in (self.entities, shifts):
            nn.init.normal_(table, std=options.init_std, generator=random.on("cpu"))
        nn.init.uniform_(angles, -math.pi, math.pi, generator=random.on("cpu"))
        nn.init.ones_(curvatures)

    def query(self, encoded: Encoded, heads: Ids, relations: Ids) -> Float[Tensor, "b d"]:
        """Return where the answer should lie, and the curvature there and the bias of the head."""
        dim = encoded.entities.shape[1]
        first, second, angles, raw = rows(encoded.relations, relations).split([dim, dim, dim // 2, 1], dim=1)
        curvature = softplus(raw)
        moved = _added(_carried(rows(encoded.entities, heads), curvature), _carried(first, curvature), curvature)
        moved = _added(_rotated(moved, angles), _carried(second, curvature), curvature)
        biases = encoded.entities.new_zeros(len(heads)) if encoded.biases is None else rows(encoded.biases, heads)
        return torch.cat([moved, curvature, biases[:, None]], dim=1)

    def scores(self, encoded: Encoded, queries: Float[Tensor, "b d"], candidates: Candidates = None) -> Scores:
        """Return minus the squared distance plus both biases, by one product of queries and entities."""
        points, c, head_biases = queries[:, :-2], queries[:, -2:-1], queries[:, -1:]
        size = torch.linalg.vector_norm(encoded.entities, dim=1).clamp_min(_TINY)
        with exact_products():  # near neighbours are found by what is left of a difference
            along = super().scores(Encoded(encoded.entities / size[:, None], encoded.relations), points, candidates)
        size = size[None] if candidates is None else rows(size, candidates)
        root, squared = c.sqrt(), points.square().sum(dim=1, keepdim=True)
        reach = torch.tanh(root * size) / root  # of the candidate, carried into hyperbolic space
        # √c d = arcosh(1 + x), x = 2c ‖q − t‖² / (1 − c‖q‖²)(1 − c‖t‖²)
        apart = (squared + reach * (reach - 2 * along)).clamp_min(_TINY)
        off_rim = (1 - c * squared) * (1 - c * reach.square()).clamp_min(_EDGE)
        stretched = 2 * c * apart / off_rim
        distance = torch.log1p(stretched + (stretched * (stretched + 2)).sqrt()) / root
        biases = encoded.entities.new_zeros(len(encoded.entities)) if encoded.biases is None else encoded.biases
        return head_biases + (biases if candidates is None else rows(biases, candidates)) - distance.square()


_ALMOST = 1e-5  # share of a row that is left of it, where the rest lies along others
_TINY, _EDGE = 1e-15, 1e-5  # next to zero; how far from the boundary of hyperbolic space points stay


def _rotated(vectors: Float[Tensor, "b d"], angles: Float[Tensor, "b planes"]) -> Float[Tensor, "b d"]:
    """Rotate each pair of neighbouring numbers by an angle."""
    first, second = vectors.unflatten(1, (-1, 2)).unbind(dim=-1)
    cosine, sine = angles.cos(), angles.sin()
    return torch.stack([first * cosine - second * sine, first * sine + second * cosine], dim=-1).flatten(1)


def _carried(tangents: Float[Tensor, "b d"], curvature: Float[Tensor, "b 1"]) -> Float[Tensor, "b d"]:
    """Return exp₀(u) = tanh(√c ‖u‖) u / (√c ‖u‖), kept away from the boundary."""
    root = curvature.sqrt()
    reach = torch.tanh(root * torch.linalg.vector_norm(tangents, dim=1, keepdim=True)).clamp(max=1 - _EDGE) / root
    return reach * normalize(tangents, dim=1, eps=_TINY)


def _added(left: Tensor, right: Tensor, c: Float[Tensor, "b 1"]) -> Float[Tensor, "b d"]:
    """Return the Möbius sum x ⊕ y, kept away from the boundary."""
    product, ours, theirs = (
        (one * other).sum(dim=1, keepdim=True) for one, other in ((left, right), (left, left), (right, right))
    )
    above = (1 + 2 * c * product + c * theirs) * left + (1 - c * ours) * right
    point = above / (1 + 2 * c * product + c.square() * ours * theirs).clamp_min(_TINY)
    length = torch.linalg.vector_norm(point, dim=1, keepdim=True).clamp_min(_TINY)
    return point * ((1 - _EDGE) / (c.sqrt() * length)).clamp(max=1)


def orthonormal_rows(matrices: Float[Tensor, "*batch n n"]) -> Float[Tensor, "*batch n n"]:
    """Return the rows, each made orthogonal to those before it and of length one (Gram–Schmidt)."""
    return _GramSchmidt.apply(matrices)


class _GramSchmidt(torch.autograd.Function):
    """W = L Q, with L lower triangular; its gradient needs one solve, instead of hundreds of small steps.

    dW = dL Q + L dQ, and dQ Qᵀ is skew: its part above the diagonal is that of A = L⁻¹ dW Qᵀ, as L⁻¹ dL has none there.
    So ⟨P, dQ⟩ = ⟨triu(B − Bᵀ), A⟩ with B = P Qᵀ, and the gradient of W is L⁻ᵀ triu(B − Bᵀ) Q.
    """

    @staticmethod
    def forward(context: Any, matrices: Tensor) -> Tensor:
        rotations = torch.empty_like(matrices)
        with exact_products():
            for place in range(matrices.shape[-2]):
                row, before = matrices[..., place : place + 1, :], rotations[..., :place, :]
                for _ in range(2):  # the second time for what rounding left over
                    row = row - (row @ before.mT) @ before
                rotations[..., place : place + 1, :] = normalize(row, dim=-1)
        context.save_for_backward(matrices, rotations)
        return rotations

    @staticmethod
    def backward(context: Any, pull: Tensor) -> Tensor:
        matrices, rotations = context.saved_tensors
        with exact_products():
            lower, skew = matrices @ rotations.mT, pull @ rotations.mT
        above, upper = (skew - skew.mT).triu(1), lower.mT.triu()
        # A row that those before it make up but for rounding has no direction of its own: nothing is divided by that.
        left, least = upper.diagonal(dim1=-2, dim2=-1), _ALMOST * torch.linalg.vector_norm(matrices, dim=-1)
        left.copy_(torch.maximum(left, least.clamp_min(_TINY)))
        return torch.linalg.solve_triangular(upper, above @ rotations, upper=True)
