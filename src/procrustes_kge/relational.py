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

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.linalg import bag_sum, completed, tiled

TILE = 64  # rows: tall enough for a good product, short enough that relations of few triples waste little


def busiest_first(triples: Int[Tensor, "n 3"], entities: int) -> tuple[Int[Tensor, " entities"], Int[Tensor, "n 3"]]:
    """Return the entities, those that most questions ask about first, and the triples in terms of that order."""
    head, relation, tail = triples.unbind(dim=1)
    questions = torch.cat([2 * relation * entities + head, (2 * relation + 1) * entities + tail]).unique()
    order = torch.bincount(questions % entities, minlength=entities).argsort(descending=True, stable=True)
    place = torch.empty_like(order).index_copy_(0, order, torch.arange(entities, device=order.device))
    return order, torch.stack([place[head], relation, place[tail]], dim=1)


@dataclass(frozen=True)
class Questions:
    """The questions of one direction, a row each, for `segments` stacked segments."""

    asked: Int[Tensor, " rows"]  # the vector that each row asks about (padding: the segment's first)
    answers: Int[Tensor, " answers"]  # the vectors that answer, row after row
    offsets: Int[Tensor, " rows_and_one"]  # where each row's answers start
    counts: Int[Tensor, " rows_of_one_segment"]  # how many answers each row has
    tiles: Int[Tensor, " tiles_of_one_segment"]  # the relation of each tile
    bags: Int[Tensor, " relations_and_one"]  # where each relation's tiles start, segment after segment

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
    ) -> Questions:
        """Arrange triples (asked entity, relation, answering entity) for each of the segments."""
        key = relation * entities + asked
        order = key.argsort(stable=True)
        pairs, sizes = key[order].unique_consecutive(return_counts=True)
        place, tiles = tiled(torch.bincount(pairs // entities, minlength=relations), tile)
        rows = len(tiles) * tile
        counts = key.new_zeros(rows).index_copy_(0, place, sizes)
        return cls(
            asked=_stacked(key.new_zeros(rows).index_copy_(0, place, pairs % entities), entities, segments),
            answers=_stacked(answer[order], entities, segments),
            offsets=_starts(counts.repeat(segments)),
            counts=counts,
            tiles=tiles,
            bags=_starts(torch.bincount(tiles, minlength=relations).repeat(segments)),
        )


def _stacked(indices: Int[Tensor, " n"], stride: int, segments: int) -> Int[Tensor, " n_all"]:
    """Repeat indices into one segment's rows for each of the stacked segments."""
    return (indices + stride * torch.arange(segments, device=indices.device)[:, None]).flatten()


def _starts(sizes: Int[Tensor, " bags"]) -> Int[Tensor, " bags_and_one"]:
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


@dataclass(frozen=True)
class AnswerSums:
    """A_q for every question, tile by tile, both directions."""

    by_tail: Float[Tensor, "tiles_of_tails rows width"]
    by_head: Float[Tensor, "tiles_of_heads rows width"]


@dataclass(frozen=True)
class Relations:
    """The best map of each relation and segment, h Q + b, and what it leaves: ‖H Q + b − T‖²."""

    rotations: Float[Tensor, "segments relations width width"]
    translations: Float[Tensor, "segments relations width"] | None
    residuals: Float[Tensor, "segments relations"]
    back: Float[Tensor, "segments relations width"] | None = None  # c of the inverse map t Qᵀ + c


@dataclass(frozen=True)
class RelationalMatrices:
    """The triples of a graph, ready for the products of `segments` stacked segments."""

    segments: int
    entities: int
    relations: int
    tile: int
    by_tail: Questions  # (h, r, ?)
    by_head: Questions  # (?, r, t)
    triples: Int[Tensor, " relations"]  # how many of each relation
    degrees: Int[Tensor, " entities"]  # how many of each entity, as head and as tail
    arriving: Int[Tensor, " rows"]  # the rows of both directions, sorted by the entity they pull at
    arrivals: Int[Tensor, " entities_and_one"]  # where each entity's rows start, segment after segment

    @classmethod
    def of(
        cls, triples: Int[Tensor, "n 3"], entities: int, relations: int, segments: int = 1, tile: int = TILE
    ) -> RelationalMatrices:
        """Arrange triples, on the device where they are."""
        head, relation, tail = triples.unbind(dim=1)
        sizes = (entities, relations, segments, tile)
        by_tail = Questions.of(head, relation, tail, *sizes)
        by_head = Questions.of(tail, relation, head, *sizes)
        real = torch.cat([questions.counts.repeat(segments) > 0 for questions in (by_tail, by_head)])
        receiver = torch.cat([by_tail.asked, by_head.asked])[real]
        return cls(
            *(segments, entities, relations, tile, by_tail, by_head),
            triples=torch.bincount(relation, minlength=relations),
            degrees=torch.bincount(torch.cat([head, tail]), minlength=entities),
            arriving=torch.nonzero(real).flatten()[receiver.argsort(stable=True)],
            arrivals=_starts(torch.bincount(receiver, minlength=entities * segments)),
        )

    def answer_sums(self, vectors: Float[Tensor, "segments entities width"]) -> AnswerSums:
        """Return the sum of the answers of every question."""
        rows = vectors.flatten(0, 1)
        sums = [bag_sum(rows, side.answers, side.offsets) for side in (self.by_tail, self.by_head)]
        return AnswerSums(*(side.view(-1, self.tile, rows.shape[1]) for side in sums))

    def solve(
        self,
        vectors: Float[Tensor, "segments entities width"],
        sums: AnswerSums,
        polar: Callable[[Tensor], Tensor],
        translate: bool = False,
    ) -> Relations:
        """Return the map of each relation that minimises ‖H Q + b − T‖, with b = 0 unless asked to translate.

        The best b carries the turned mean head to the mean tail, so Q is solved between centred heads and tails.
        """
        asked = vectors.flatten(0, 1).index_select(0, self.by_tail.asked).view_as(sums.by_tail)
        covariances = self._per_relation(asked.mT @ sums.by_tail, self.by_tail)
        count = self.triples.to(vectors.dtype)
        lengths = 2 * count  # ‖H‖² + ‖T‖², for unit rows
        if translate:
            mean_tail = self._per_relation(sums.by_tail.sum(dim=1), self.by_tail) / count.clamp_min(1)[:, None]
            mean_head = self._per_relation(sums.by_head.sum(dim=1), self.by_head) / count.clamp_min(1)[:, None]
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

    def _per_relation(self, tiles: Float[Tensor, " tiles *shape"], side: Questions) -> Float[Tensor, "s r *shape"]:
        """Add up what the tiles of each relation hold."""
        members = torch.arange(len(tiles), device=tiles.device)
        sums = bag_sum(tiles.flatten(1), members, side.bags)
        return sums.view(self.segments, self.relations, *tiles.shape[1:])

    def pull(
        self,
        sums: AnswerSums,
        relations: Relations,
        weights: Float[Tensor, "segments relations"] | None = None,
    ) -> Float[Tensor, "segments entities width"]:
        """Return the sum, over its triples, of where they want each entity, times the weight of their relation.

        A head is wanted at t Qᵀ + c = (t − b) Qᵀ and a tail at h Q + b. With `mass`, the sum of those weights, the
        gradient of the halved squared loss is mass · x − pull: ∂/∂h = (hQ + b − t) Qᵀ = h − (t − b) Qᵀ and
        ∂/∂t = t − (hQ + b).
        """
        rotations = relations.rotations if weights is None else weights[..., None, None] * relations.rotations
        sides = (
            (self.by_tail, sums.by_tail, rotations.mT, relations.back),
            (self.by_head, sums.by_head, rotations, relations.translations),
        )
        wanted = sums.by_tail.new_empty(len(self.by_tail.asked) + len(self.by_head.asked), rotations.shape[-1])
        parts = wanted.split([len(self.by_tail.asked), len(self.by_head.asked)])
        for (side, answers, turns, shifts), part in zip(sides, parts, strict=True):
            torch.bmm(answers, self._per_tile(turns, side), out=part.view_as(answers))
            if shifts is not None:
                shift = shifts if weights is None else weights[..., None] * shifts
                part.view_as(answers).add_(self._counted(shift, side))
        return bag_sum(wanted, self.arriving, self.arrivals).view(self.segments, self.entities, -1)

    def mass(self, weights: Float[Tensor, "segments relations"]) -> Float[Tensor, "segments entities 1"]:
        """Return the sum of its triples' weights for each entity, a triple counted at its head and at its tail."""
        rows = [
            self._counted(weights[..., None], questions).flatten(0, 1) for questions in (self.by_tail, self.by_head)
        ]
        return bag_sum(torch.cat(rows), self.arriving, self.arrivals).view(self.segments, self.entities, 1)

    def _per_tile(self, table: Float[Tensor, "s r *shape"], side: Questions) -> Float[Tensor, " tiles *shape"]:
        """Return each tile's own entry of a table over relations."""
        return table[:, side.tiles].flatten(0, 1)

    def _counted(self, table: Float[Tensor, "s r width"], side: Questions) -> Float[Tensor, "tiles rows width"]:
        """Return each row's own entry of a table over relations, times how many answers the row has."""
        counts = side.counts.to(table.dtype).view(1, -1, self.tile, 1)
        return (counts * table[:, side.tiles, None]).flatten(0, 1)
