"""All triples of a graph, arranged so that every relation is solved in a few batched products.

A question is a pair (entity, relation) that training answers: (h, r) by tails, (t, r) by heads. Sums over its answers
are all that PROCRUSTES needs of the triples. With A_q the sum of the answers of question q, asked of entity x_q:

    M_r = Σ_{q asks tails of r} x_qᵀ A_q                       the cross-covariance Hᵀ T
    Σ over triples of t Qᵀ, arriving at h  =  A_q Qᵀ           the pull on heads
    Σ over triples of h Q,  arriving at t  =  A_q Q            the pull on tails

so each question is turned once, however many answers it has. Questions are sorted by relation and cut into tiles of
equal height, padded with questions that have no answers: all relations together are one batched product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.linalg import bag_sum, completed, starts, tiled

PIECE = 2**14  # rows that a core treats at once: with their sums they stay in its cache
TILE = 64  # rows: tall enough for a good product, short enough that relations of few triples waste little


def busiest_first(
    triples: Int[Tensor, "n 3"], entities: int
) -> tuple[Int[Tensor, " entities"], Int[Tensor, " entities"]]:
    """Return the entities, those that most questions ask about first, and the place of each in that order."""
    head, relation, tail = triples.unbind(dim=1)
    questions = torch.cat([2 * relation * entities + head, (2 * relation + 1) * entities + tail]).unique()
    order = torch.bincount(questions % entities, minlength=entities).argsort(descending=True, stable=True)
    place = torch.empty_like(order).index_copy_(0, order, torch.arange(entities, device=order.device))
    return order, place


def padded_rows(triples: int, relations: int, tile: int = TILE) -> tuple[int, int]:
    """Return how many rows, and how many tiles of them, the questions of so many triples take at most."""
    used = min(triples, relations)  # each relation may leave a tile of each direction nearly empty
    rows = 2 * (triples + used * (tile - 1))
    return rows, rows // tile + 1


@dataclass(frozen=True)
class Piece:
    """Some tiles of questions, few enough that they stay in a core's cache while they are treated."""

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
class Questions:
    """The questions of one direction, a row each, for `segments` stacked segments."""

    asked: Int[Tensor, " rows"]  # the vector that each row asks about (padding: the segment's first)
    counts: Int[Tensor, " rows"]  # how many answers each row has
    bags: Int[Tensor, " relations_and_one"]  # where each relation's tiles start, segment after segment
    pieces: list[Piece]

    @classmethod
    def of(
        cls,
        asked: Tensor,
        relation: Tensor,
        answer: Tensor,
        entities: int,
        relations: int,
        segments: int,
        tile: int,
        piece: int,
    ) -> Questions:
        """Arrange triples (asked entity, relation, answering entity) for each of the segments."""
        key = relation * entities + asked
        order = key.argsort(stable=True)
        pairs, sizes = key[order].unique_consecutive(return_counts=True)
        place, tiles = tiled(torch.bincount(pairs // entities, minlength=relations), tile)
        rows = len(tiles) * tile
        counts = key.new_zeros(rows).index_copy_(0, place, sizes).repeat(segments)
        asked = _stacked(key.new_zeros(rows).index_copy_(0, place, pairs % entities), entities, segments)
        answers, offsets = _stacked(answer[order], entities, segments), starts(counts)
        maps = _stacked(tiles, relations, segments)
        height = max(1, piece // tile) * tile
        firsts = range(0, len(counts), height)
        cuts = offsets[[*firsts, len(counts)]].tolist()

        def cut(number: int, first: int) -> Piece:
            last = min(first + height, len(counts))
            here, of_tiles = slice(first, last), slice(first // tile, last // tile)
            return Piece(
                *(here, of_tiles, asked[here]),
                answers=answers[cuts[number] : cuts[number + 1]],
                offsets=offsets[first : last + 1] - cuts[number],
                counts=counts[here].view(-1, tile),
                maps=maps[of_tiles],
            )

        return cls(
            asked=asked,
            counts=counts,
            bags=starts(torch.bincount(tiles, minlength=relations).repeat(segments)),
            pieces=[cut(number, first) for number, first in enumerate(firsts)],
        )

    @property
    def tiles(self) -> int:
        """How many there are."""
        return sum(len(piece.maps) for piece in self.pieces)


def _stacked(indices: Int[Tensor, " n"], stride: int, segments: int) -> Int[Tensor, " n_all"]:
    """Repeat indices into one segment's rows for each of the stacked segments."""
    return (indices + stride * torch.arange(segments, device=indices.device)[:, None]).flatten()


class Relations(NamedTuple):
    """The best map of each relation and segment, h Q + b, and what it leaves: ‖H Q + b − T‖²."""

    rotations: Float[Tensor, "segments relations width width"]
    translations: Float[Tensor, "segments relations width"] | None
    residuals: Float[Tensor, "segments relations"]
    back: Float[Tensor, "segments relations width"] | None  # c of the inverse map t Qᵀ + c

    def weighted(self, weights: Float[Tensor, "segments relations"]) -> Relations:
        """Return the maps, each times the weight of its relation."""
        shifts = (None if shift is None else weights[..., None] * shift for shift in (self.translations, self.back))
        translations, back = shifts
        return Relations(weights[..., None, None] * self.rotations, translations, self.residuals, back)


@dataclass(frozen=True)
class RelationalMatrices:
    """The triples of a graph, ready for the products of `segments` stacked segments."""

    segments: int
    entities: int
    relations: int
    by_tail: Questions  # (h, r, ?)
    by_head: Questions  # (?, r, t)
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
        tile: int = TILE,
        piece: int = PIECE,
    ) -> RelationalMatrices:
        """Arrange triples, on the device where they are."""
        head, relation, tail = triples.unbind(dim=1)
        # A GPU has no use for pieces: it would wait for each to start.
        sizes = (entities, relations, segments, tile, 2 * len(triples) * segments * tile if triples.is_cuda else piece)
        by_tail = Questions.of(head, relation, tail, *sizes)
        by_head = Questions.of(tail, relation, head, *sizes)
        real = torch.cat([by_tail.counts, by_head.counts]) > 0
        receiver = torch.cat([by_tail.asked, by_head.asked])[real]
        return cls(
            *(segments, entities, relations, by_tail, by_head),
            triples=torch.bincount(relation, minlength=relations),
            degrees=torch.bincount(torch.cat([head, tail]), minlength=entities),
            arriving=torch.nonzero(real).flatten()[receiver.argsort(stable=True)],
            arrivals=starts(torch.bincount(receiver, minlength=entities * segments)),
        )

    def solve(
        self,
        vectors: Float[Tensor, "segments entities width"],
        polar: Callable[[Tensor], Tensor],
        translate: bool = False,
    ) -> Relations:
        """Return the map of each relation that minimises ‖H Q + b − T‖, with b = 0 unless asked to translate.

        The best b carries the turned mean head to the mean tail, so Q is solved between centred heads and tails.
        """
        side, points, width = self.by_tail, vectors.flatten(0, 1), vectors.shape[-1]
        products = points.new_empty(side.tiles, width, width)
        heads, tails = points.new_empty(2, side.tiles, 1, width)
        for piece in side.pieces:
            answers = piece.sums(points)
            asked = points.index_select(0, piece.asked).view_as(answers)
            torch.bmm(asked.mT, answers, out=products[piece.tiles])
            if translate:  # a head counts once for each of its tails
                torch.bmm(piece.counts[:, None].to(points.dtype), asked, out=heads[piece.tiles])
                torch.sum(answers, dim=1, keepdim=True, out=tails[piece.tiles])
        covariances = self._per_relation(products)
        count = self.triples.to(vectors.dtype)
        lengths = 2 * count  # ‖H‖² + ‖T‖², for unit rows
        if translate:
            mean_tail, mean_head = (
                self._per_relation(ends).squeeze(-2) / count.clamp_min(1)[:, None] for ends in (tails, heads)
            )
            covariances = covariances - count[:, None, None] * mean_head[..., :, None] * mean_tail[..., None, :]
            lengths = lengths - count * (mean_head.square() + mean_tail.square()).sum(dim=-1)
        rotations = polar(completed(covariances))
        translations = back = None
        if translate:
            translations = mean_tail - (mean_head[..., None, :] @ rotations).squeeze(-2)
            # −b Qᵀ only where Q is orthogonal to the last digit, which products do not promise where M says nothing.
            back = mean_head - (rotations @ mean_tail[..., None]).squeeze(-1)
        # ‖H Q − T‖² = ‖H‖² + ‖T‖² − 2 tr(Qᵀ M): the residual itself never has to exist.
        residuals = lengths - 2 * (rotations * covariances).sum(dim=(-2, -1))
        return Relations(rotations, translations, residuals.clamp_min(0), back)

    def _per_relation(self, tiles: Float[Tensor, " _ *shape"]) -> Float[Tensor, "s r *shape"]:
        """Add up what the tiles of each relation hold, of questions that ask for tails."""
        members = torch.arange(len(tiles), device=tiles.device)
        sums = bag_sum(tiles.flatten(1), members, self.by_tail.bags)
        return sums.view(self.segments, self.relations, *tiles.shape[1:])

    def room(self, vectors: Float[Tensor, "segments entities width"]) -> Float[Tensor, "rows width"]:
        """Return room for what `pull` has to write down on its way; it may be used again."""
        return vectors.new_empty(len(self.by_tail.asked) + len(self.by_head.asked), vectors.shape[-1])

    def pull(
        self,
        vectors: Float[Tensor, "segments entities width"],
        relations: Relations,
        weights: Float[Tensor, "segments relations"] | None = None,
        room: Float[Tensor, "rows width"] | None = None,
    ) -> Float[Tensor, "segments entities width"]:
        """Return the sum, over its triples, of where they want each entity, times the weight of their relation.

        A head is wanted at t Qᵀ + c = (t − b) Qᵀ and a tail at h Q + b. With `mass`, the sum of those weights, the
        gradient of the halved squared loss is mass · x − pull: ∂/∂h = (hQ + b − t) Qᵀ = h − (t − b) Qᵀ and
        ∂/∂t = t − (hQ + b).
        """
        points, room = vectors.flatten(0, 1), self.room(vectors) if room is None else room
        rotations, translations, _, back = relations if weights is None else relations.weighted(weights)
        sides = (
            (self.by_tail, rotations.mT.flatten(0, 1), back),
            (self.by_head, rotations.flatten(0, 1), translations),
        )
        parts = room.split([len(self.by_tail.asked), len(self.by_head.asked)])
        for (side, turns, shifts), wanted in zip(sides, parts, strict=True):
            for piece in side.pieces:
                answers = piece.sums(points)
                here = wanted[piece.rows].view_as(answers)
                torch.bmm(answers, turns[piece.maps], out=here)
                if shifts is not None:
                    here.addcmul_(piece.counts[..., None].to(here.dtype), shifts.flatten(0, 1)[piece.maps, None])
        return bag_sum(room, self.arriving, self.arrivals).view_as(vectors)

    def mass(self, weights: Float[Tensor, "segments relations"]) -> Float[Tensor, "segments entities 1"]:
        """Return the sum of its triples' weights for each entity, a triple counted at its head and at its tail."""
        rows = weights.new_empty(len(self.by_tail.asked) + len(self.by_head.asked), 1)
        sides = (self.by_tail, self.by_head)
        for side, part in zip(sides, rows.split([len(side.asked) for side in sides]), strict=True):
            for piece in side.pieces:
                mine = piece.counts * weights.flatten()[piece.maps, None]
                part[piece.rows, 0] = mine.flatten()
        return bag_sum(rows, self.arriving, self.arrivals).view(self.segments, self.entities, 1)
