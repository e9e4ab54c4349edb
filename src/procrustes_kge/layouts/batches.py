"""The questions of a graph in random batches: tiles of one direction, dealt afresh every epoch on the device.

A question is a pair (entity, direction): direction r asks for tails of relation r, r + R for heads. All triples with
the same question are one row with several answers, so a row is turned and compared once, however many answers it has:
FB15k-237 has 544,230 ends of triples and 149,689 questions. Rows of one direction fill tiles of equal height (padded
with rows that have no answers), so that a batch is turned in one batched product. An epoch deals rows to tiles and
tiles to batches at random; its sizes are known beforehand, so the host waits for the device once an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from procrustes_kge.linalg import tiled

TILE = 16  # rows: short, since a graph of many relations pads half a tile for each


@dataclass(frozen=True)
class Batch:
    """Some tiles of questions, with all their answers."""

    asked: Int[Tensor, " rows"]  # the entity of each row (padding: any)
    tiles: Int[Tensor, " tiles"]  # the direction of each tile of rows
    counts: Int[Tensor, " rows"]  # how many answers each row has (padding: 0)
    rows: Int[Tensor, " answers"]  # the row of each answer
    answers: Int[Tensor, " answers"]  # the entity that answers

    def split(self, size: int) -> list[Batch]:
        """Return batches of at most `size` questions, but at least a tile, that hold the same; a cut waits once."""
        if len(self.asked) <= size:
            return [self]
        tile = len(self.asked) // len(self.tiles)
        many = max(1, size // tile)
        starts = range(0, len(self.asked), many * tile)
        first_rows = torch.arange(0, len(self.asked), many * tile, device=self.rows.device)
        cuts = [*torch.searchsorted(self.rows, first_rows).tolist(), len(self.rows)]
        return [
            Batch(
                asked=self.asked[start : start + many * tile],
                tiles=self.tiles[start // tile : start // tile + many],
                counts=self.counts[start : start + many * tile],
                rows=self.rows[cuts[number] : cuts[number + 1]] - start,
                answers=self.answers[cuts[number] : cuts[number + 1]],
            )
            for number, start in enumerate(starts)
        ]


@dataclass(frozen=True)
class Questions:
    """Every question that a graph's triples answer, sorted by direction."""

    asked: Int[Tensor, " questions"]
    direction: Int[Tensor, " questions"]
    counts: Int[Tensor, " questions"]
    starts: Int[Tensor, " questions"]  # where each question's answers start
    answers: Int[Tensor, " answers"]
    slots: Int[Tensor, " questions"]  # the row that the first, second … question gets, padding left out
    tiles: Int[Tensor, " tiles"]  # the direction of each tile
    tile: int

    @classmethod
    def of(cls, triples: Int[Tensor, "n 3"], entities: int, relations: int, tile: int = TILE) -> Questions:
        """Collect the questions of triples, on the device where they are."""
        head, relation, tail = triples.unbind(dim=1)
        keys = torch.cat([relation * entities + head, (relation + relations) * entities + tail])
        # Sorted by question; a triple that occurs twice counts once.
        answered = (keys * entities + torch.cat([tail, head])).unique()
        questions, counts = (answered // entities).unique_consecutive(return_counts=True)
        direction = questions // entities
        slots, tiles = tiled(torch.bincount(direction, minlength=2 * relations), tile)
        return cls(
            asked=questions % entities,
            direction=direction,
            counts=counts,
            starts=counts.cumsum(0) - counts,
            answers=answered % entities,
            slots=slots,
            tiles=tiles,
            tile=tile,
        )

    def __len__(self) -> int:
        return len(self.asked)

    def steps(self, size: int) -> int:
        """Return how many batches of about `size` questions an epoch has."""
        return -(-len(self.tiles) // self._tiles_at_once(size))

    def _tiles_at_once(self, size: int) -> int:
        return max(1, min(size // self.tile, len(self.tiles)))

    def epoch(self, size: int, generator: torch.Generator | None = None) -> Iterator[Batch]:
        """Yield every question once, in random batches of about `size`; without a generator, in the sorted order."""
        place = torch.arange(len(self), device=self.asked.device)
        dealt = torch.arange(len(self.tiles), device=self.asked.device)
        if generator is not None:
            draw = torch.rand(len(self), dtype=torch.float64, device=place.device, generator=generator)
            place = (self.direction + draw).argsort()  # shuffled within each direction
            dealt = torch.randperm(len(dealt), device=place.device, generator=generator)
        padding = len(self)
        rows = place.new_full((len(self.tiles) * self.tile,), padding).index_copy_(0, self.slots, place)
        rows = rows.view(-1, self.tile)[dealt].flatten()
        real, rows = rows < padding, rows.clamp_max(padding - 1)
        counts = torch.where(real, self.counts[rows], 0)
        ends = counts.cumsum(0)
        everyone = torch.arange(len(rows), device=rows.device)
        owner = torch.repeat_interleave(everyone, counts, output_size=len(self.answers))
        within = torch.arange(len(owner), device=rows.device) - (ends - counts)[owner]
        answers = self.answers[self.starts[rows[owner]] + within]
        tiles, asked = self.tiles[dealt], self.asked[rows]
        many = self._tiles_at_once(size)
        height = many * self.tile
        cuts = [0, *ends[height - 1 :: height].tolist(), len(owner)]  # the one wait of an epoch
        for number in range(self.steps(size)):
            some, mine = slice(number * height, (number + 1) * height), slice(cuts[number], cuts[number + 1])
            yield Batch(
                asked=asked[some],
                tiles=tiles[number * many : (number + 1) * many],
                counts=counts[some],
                rows=owner[mine] - number * height,
                answers=answers[mine],
            )
