"""All triples of a graph, arranged so that every relation is solved in a few batched products.

A query is a pair (entity, direction): of a triple (h, r, t), t answers (h, r) and h answers (t, r + R). Sums over its
answers are all that PROCRUSTES needs of the triples. With A_q the sum of the answers of query q, asked of entity x_q:

    M_r = Σ_{q asks for tails of r} x_qᵀ A_q                   the cross-covariance Hᵀ T
    Σ over triples of t Qᵀ, arriving at h  =  A_q Qᵀ           the pull on heads
    Σ over triples of h Q,  arriving at t  =  A_q Q            the pull on tails

so each query is rotated once, however many answers it has. Queries are sorted by direction and cut into tiles of equal
height, padded with rows that have no answers: all relations together are one batched product.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.graphs.queries import Queries, group_by_query
from procrustes_kge.linalg import Polar, bag_sum, completed, starts, tiled

ROWS_PER_CHUNK = 2**14  # that a core processes at once: with their sums they stay in its cache
ROWS_PER_TILE = 64  # tall enough for a good product, short enough that relations of few triples waste little

Vectors = Float[Tensor, "segments entities width"]
Rows = Float[Tensor, "rows width"]
Matrices = Float[Tensor, "segments relations width width"]
Shifts = Float[Tensor, "segments relations width"]
Weights = Float[Tensor, "segments relations"]


def padded_rows(triples: int, relations: int, height: int = ROWS_PER_TILE) -> tuple[int, int]:
    """Return how many rows, and how many tiles of them, the queries of this many triples take at most."""
    used = min(triples, relations)  # each relation may leave a tile of each direction nearly empty
    rows = 2 * (triples + used * (height - 1))
    return rows, rows // height + 1


@dataclass(frozen=True)
class Chunk:
    """Some tiles of queries, few enough to stay in a core's cache while they are processed."""

    rows: slice  # of all rows
    tiles: slice  # of all tiles
    asked: Int[Tensor, " rows"]
    answers: Int[Tensor, " answers"]
    offsets: Int[Tensor, " rows_and_one"]  # where each row's answers start
    counts: Int[Tensor, "tiles height"]  # how many answers each row has
    maps: Int[Tensor, " tiles"]  # segment and relation of each tile, as one index

    def sums(self, vectors: Float[Tensor, "vectors width"]) -> Float[Tensor, "tiles height width"]:
        """Return A_q: the sum of the answers of each row."""
        return bag_sum(vectors, self.answers, self.offsets).view(*self.counts.shape, -1)


@dataclass(frozen=True)
class DirectionRows:
    """The queries for tails, or those for heads, a row each, for `segments` stacked segments."""

    asked: Int[Tensor, " rows"]  # the vector that each row asks about (padding: the segment's first)
    counts: Int[Tensor, " rows"]  # how many answers each row has
    bags: Int[Tensor, " relations_and_one"]  # where each relation's tiles start, segment after segment
    chunks: list[Chunk]

    @classmethod
    def of(
        cls, queries: Queries, entities: int, relations: int, segments: int, height: int, chunk: int
    ) -> DirectionRows:
        """Arrange queries of one side for each of the segments."""
        place, tiles = tiled(torch.bincount(queries.directions % relations, minlength=relations), height)
        padded = tiles.new_zeros(len(tiles) * height)
        counts = padded.index_copy(0, place, queries.counts).repeat(segments)
        asked = _stacked(padded.index_copy(0, place, queries.entities), entities, segments)
        answers, offsets = _stacked(queries.answers, entities, segments), starts(counts)
        maps = _stacked(tiles, relations, segments)
        rows = max(1, chunk // height) * height
        ends = [*range(0, len(counts), rows), len(counts)]
        chunks = []
        for (first, last), (begin, end) in zip(pairwise(ends), pairwise(offsets[ends].tolist()), strict=True):
            here, of_tiles = slice(first, last), slice(first // height, last // height)
            mine = answers[begin:end], offsets[first : last + 1] - begin, counts[here].view(-1, height)
            chunks.append(Chunk(here, of_tiles, asked[here], *mine, maps[of_tiles]))
        return cls(asked, counts, starts(torch.bincount(tiles, minlength=relations).repeat(segments)), chunks)

    @property
    def tiles(self) -> int:
        """How many there are."""
        return sum(len(chunk.maps) for chunk in self.chunks)


def _stacked(indices: Int[Tensor, " n"], stride: int, segments: int) -> Int[Tensor, " n_all"]:
    """Repeat indices into one segment's rows for each of the stacked segments."""
    return (indices + stride * torch.arange(segments, device=indices.device)[:, None]).flatten()


class Relations(NamedTuple):
    """The best map of each relation and segment, h Q + b, and what it leaves: ‖H Q + b − T‖²."""

    rotations: Matrices
    translations: Shifts | None
    residuals: Weights
    back: Shifts | None  # c of the inverse map t Qᵀ + c

    def weighted(self, weights: Weights) -> Relations:
        """Return the maps, each times the weight of its relation."""
        old = self.translations, self.back
        translations, back = (None if shift is None else weights[..., None] * shift for shift in old)
        return Relations(weights[..., None, None] * self.rotations, translations, self.residuals, back)


@dataclass(frozen=True)
class RelationalMatrices:
    """The triples of a graph, ready for the products of `segments` stacked segments."""

    segments: int
    entities: int
    relations: int
    asking_tails: DirectionRows  # (h, r, ?)
    asking_heads: DirectionRows  # (?, r, t)
    triples: Int[Tensor, " relations"]  # how many of each relation
    degrees: Int[Tensor, " entities"]  # how many of each entity, as head and as tail
    arriving: Int[Tensor, " rows"]  # the rows of both directions, sorted by the entity they pull at
    arrivals: Int[Tensor, " entities_and_one"]  # where each entity's rows start, segment after segment

    @classmethod
    def of(
        cls,
        triples: Int[Tensor, "n 3"],
        entities: int,
        relations: int,
        segments: int = 1,
        height: int = ROWS_PER_TILE,
        chunk: int = ROWS_PER_CHUNK,
    ) -> RelationalMatrices:
        """Arrange triples, on the device where they are."""
        queries = group_by_query(triples, entities, relations, distinct=False)
        if triples.is_cuda:  # a GPU has no use for chunks: it would wait for each to start
            chunk = 2 * len(triples) * segments * height
        sizes = (entities, relations, segments, height, chunk)
        tails, heads = (DirectionRows.of(side, *sizes) for side in queries.by_side(relations))
        real = torch.cat([tails.counts, heads.counts]) > 0
        receiver = torch.cat([tails.asked, heads.asked])[real]
        return cls(
            *(segments, entities, relations, tails, heads),
            triples=torch.bincount(triples[:, 1], minlength=relations),
            degrees=torch.bincount(triples[:, [0, 2]].flatten(), minlength=entities),
            arriving=torch.nonzero(real).flatten()[receiver.argsort(stable=True)],
            arrivals=starts(torch.bincount(receiver, minlength=entities * segments)),
        )

    def solve(self, vectors: Vectors, polar: Polar, translate: bool = False) -> Relations:
        """Return the map of each relation that minimises ‖H Q + b − T‖, with b = 0 unless asked to translate.

        The best b carries the rotated mean head to the mean tail, so Q is solved between centred heads and tails.
        """
        covariances, sums = self._moments(vectors, translate)
        count = self.triples.to(vectors.dtype)
        lengths = 2 * count  # ‖H‖² + ‖T‖², for unit rows
        if sums is not None:
            mean_head, mean_tail = (each / count.clamp_min(1)[:, None] for each in sums)
            covariances = covariances - count[:, None, None] * mean_head[..., :, None] * mean_tail[..., None, :]
            lengths = lengths - count * (mean_head.square() + mean_tail.square()).sum(dim=-1)
        rotations = polar(completed(covariances))
        translations = back = None
        if sums is not None:
            translations = mean_tail - (mean_head[..., None, :] @ rotations).squeeze(-2)
            # −b Qᵀ only where Q is orthogonal to the last digit, which products do not promise where M says nothing.
            back = mean_head - (rotations @ mean_tail[..., None]).squeeze(-1)
        # ‖H Q − T‖² = ‖H‖² + ‖T‖² − 2 tr(Qᵀ M): the residual itself never has to exist.
        residuals = lengths - 2 * (rotations * covariances).sum(dim=(-2, -1))
        return Relations(rotations, translations, residuals.clamp_min(0), back)

    def _moments(self, vectors: Vectors, translate: bool) -> tuple[Matrices, tuple[Shifts, ...] | None]:
        """Return M = Σ x_qᵀ A_q of each relation and, if asked to translate, the sums of its heads and of its tails."""
        side, points, width = self.asking_tails, vectors.flatten(0, 1), vectors.shape[-1]
        products = points.new_empty(side.tiles, width, width)
        heads, tails = points.new_empty(2, side.tiles, 1, width)
        for chunk in side.chunks:
            answers = chunk.sums(points)
            asked = points.index_select(0, chunk.asked).view_as(answers)
            torch.bmm(asked.mT, answers, out=products[chunk.tiles])
            if translate:  # a head counts once for each of its tails
                torch.bmm(chunk.counts[:, None].to(points.dtype), asked, out=heads[chunk.tiles])
                torch.sum(answers, dim=1, keepdim=True, out=tails[chunk.tiles])
        sums = tuple(self._per_relation(each).squeeze(-2) for each in (heads, tails)) if translate else None
        return self._per_relation(products), sums

    def _per_relation(self, tiles: Float[Tensor, " _ *shape"]) -> Float[Tensor, "s r *shape"]:
        """Add up what the tiles of each relation hold, of queries for tails."""
        members = torch.arange(len(tiles), device=tiles.device)
        sums = bag_sum(tiles.flatten(1), members, self.asking_tails.bags)
        return sums.view(self.segments, self.relations, *tiles.shape[1:])

    def buffer(self, vectors: Vectors) -> Rows:
        """Return memory for what `pull` computes on its way; it may be used again."""
        return vectors.new_empty(sum(len(side.asked) for side in self._sides), vectors.shape[-1])

    @property
    def _sides(self) -> tuple[DirectionRows, DirectionRows]:
        return self.asking_tails, self.asking_heads

    def pull(
        self, vectors: Vectors, relations: Relations, weights: Weights | None = None, buffer: Rows | None = None
    ) -> Vectors:
        """Return the sum, over its triples, of where they want each entity, times the weight of their relation.

        A head is wanted at t Qᵀ + c = (t − b) Qᵀ and a tail at h Q + b. With `mass`, the sum of those weights, the
        gradient of the halved squared loss is mass · x − pull: ∂/∂h = (hQ + b − t) Qᵀ = h − (t − b) Qᵀ and
        ∂/∂t = t − (hQ + b).
        """
        points, wanted = vectors.flatten(0, 1), self.buffer(vectors) if buffer is None else buffer
        rotations, translations, _, back = relations if weights is None else relations.weighted(weights)
        maps = (rotations.mT.flatten(0, 1), back), (rotations.flatten(0, 1), translations)
        for side, mine, (rotate, shifts) in zip(self._sides, self._by_side(wanted), maps, strict=True):
            for chunk in side.chunks:
                answers = chunk.sums(points)
                here = mine[chunk.rows].view_as(answers)
                torch.bmm(answers, rotate[chunk.maps], out=here)
                if shifts is not None:
                    here.addcmul_(chunk.counts[..., None].to(here.dtype), shifts.flatten(0, 1)[chunk.maps, None])
        return bag_sum(wanted, self.arriving, self.arrivals).view_as(vectors)

    def mass(self, weights: Weights) -> Float[Tensor, "segments entities 1"]:
        """Return the sum of its triples' weights for each entity, a triple counted at its head and at its tail."""
        rows = self.buffer(weights[..., None])
        for side, mine in zip(self._sides, self._by_side(rows), strict=True):
            for chunk in side.chunks:
                mine[chunk.rows, 0] = (chunk.counts * weights.flatten()[chunk.maps, None]).flatten()
        return bag_sum(rows, self.arriving, self.arrivals).view(self.segments, self.entities, 1)

    def _by_side(self, rows: Rows) -> tuple[Tensor, ...]:
        return rows.split([len(side.asked) for side in self._sides])
