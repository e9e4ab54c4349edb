"""The queries of a graph in random batches: tiles of one direction, shuffled every epoch on the device.

All triples with the same query (entity, direction) are one row with several answers, so a row is rotated and compared
once, however many answers it has: FB15k-237 has 544,230 ends of triples and 149,689 queries. Rows of one direction fill
tiles of equal height (padded with rows that have no answers), so that a batch is rotated in one batched product. An
epoch assigns rows to tiles and tiles to batches at random; its sizes are known in advance, so the host waits for the
device once an epoch.

A GPU replays steps of one shape. So the batches of an epoch can be had padded: tiles that ask nothing, the last of them
in every batch, and answers to its rows. These have no weight, so that nothing is learned from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import pad

from procrustes_kge.graphs.queries import Queries, group_by_query
from procrustes_kge.linalg import numbered, starts, tiled

QUERIES_PER_TILE = 16  # few, since a graph of many relations pads half a tile for each
SIZES_AN_OCTAVE = 4  # to which the number of answers is padded: the epochs of a training have two or three of them


@dataclass(frozen=True)
class Batch:
    """Some tiles of queries, with all their answers."""

    asked: Int[Tensor, " rows"]  # the entity of each row (padding: any)
    tiles: Int[Tensor, " tiles"]  # the direction of each tile of rows
    counts: Int[Tensor, " rows"]  # how many answers each row has (padding: 0)
    rows: Int[Tensor, " answers"]  # the row of each answer
    answers: Int[Tensor, " answers"]  # the entity that answers

    @classmethod
    def unpacked(cls, numbers: Int[Tensor, " numbers"], tiles: int, height: int) -> Batch:
        """Return a batch of so many tiles, given all its tensors one after another."""
        rows = tiles * height
        answers = (len(numbers) - 2 * rows - tiles) // 2
        return cls(*numbers.split([rows, tiles, rows, answers, answers]))

    def split(self, size: int) -> list[Batch]:
        """Return batches of at most `size` queries, but at least a tile, that hold the same; wait only if it is cut."""
        if len(self.asked) <= size:
            return [self]
        height = len(self.asked) // len(self.tiles)
        return list(self.cut(max(1, size // height), height))

    def cut(self, tiles: int, height: int) -> Iterator[Batch]:
        """Yield batches of this many tiles that hold the same; the host waits for the device once."""
        rows = tiles * height
        cuts = [0, *self.counts.cumsum(0)[rows - 1 :: rows].tolist(), len(self.answers)]
        for number in range(-(-len(self.tiles) // tiles)):
            mine, here = slice(cuts[number], cuts[number + 1]), slice(number * rows, (number + 1) * rows)
            asked, directions = self.asked[here], self.tiles[number * tiles : (number + 1) * tiles]
            yield Batch(asked, directions, self.counts[here], self.rows[mine] - number * rows, self.answers[mine])


@dataclass(frozen=True)
class QueryBatches:
    """Every query of a graph's triples, and how an epoch puts them into batches."""

    queries: Queries
    slots: Int[Tensor, " queries"]  # the row that the first, second … query gets, padding left out
    tiles: Int[Tensor, " tiles"]  # the direction of each tile
    height: int  # rows of a tile

    @classmethod
    def of(
        cls, triples: Int[Tensor, "n 3"], entities: int, relations: int, height: int = QUERIES_PER_TILE
    ) -> QueryBatches:
        """Collect the queries of triples, on the device where they are; a triple that occurs twice counts once."""
        queries = group_by_query(triples, entities, relations)
        return cls(queries, *tiled(torch.bincount(queries.directions, minlength=2 * relations), height), height)

    def __len__(self) -> int:
        return len(self.queries)

    def steps(self, size: int) -> int:
        """Return how many batches of about `size` queries an epoch has."""
        return -(-len(self.tiles) // self._tiles_per_batch(size))

    def _tiles_per_batch(self, size: int) -> int:
        return max(1, min(size // self.height, len(self.tiles)))

    def epoch(self, size: int, generator: torch.Generator | None = None) -> Iterator[Batch]:
        """Yield every query once, in random batches of about `size`; without a generator, in the sorted order."""
        yield from self._dealt(generator).cut(self._tiles_per_batch(size), self.height)

    def padded_tiles(self, size: int) -> int:
        """Return how many tiles a padded batch of about `size` queries has."""
        return self._tiles_per_batch(size) + 1

    def padded_epoch(
        self, size: int, generator: torch.Generator | None = None
    ) -> Int[Tensor, "batches numbers_of_a_batch"]:
        """Return the batches of `epoch`, padded to one shape; each is for `Batch.unpacked`. The host waits once.

        How much they are padded depends on this epoch alone: where training goes on from a state, it is the same again.
        """
        whole, height = self._dealt(generator), self.height
        batches, tiles = self.steps(size), self._tiles_per_batch(size)
        rows = tiles * height

        def cut(values: Tensor, length: int, more: int) -> Tensor:
            values = pad(values, (0, batches * length - len(values)))
            return pad(values.view(batches, length), (0, more))

        counts = cut(whole.counts, rows, height)
        sizes = counts.sum(dim=1)
        most = _rounded_up(int(sizes.max()))
        # Spread over rows and entities: sums would otherwise wait for one another at a single place.
        spare = torch.arange(most, device=sizes.device)
        batch = whole.rows // rows
        place = batch * most + torch.arange(len(batch), device=sizes.device) - starts(sizes)[batch]
        answered, answers = (
            table.repeat(batches).index_copy_(0, place, real).view(batches, most)
            for table, real in (
                (rows + spare % height, whole.rows % rows),
                (self.queries.answers[spare % len(self.queries.answers)], whole.answers),
            )
        )
        asked, directions = cut(whole.asked, rows, height), cut(whole.tiles, tiles, 1)
        return torch.cat([asked, directions, counts, answered, answers], dim=1)

    def _dealt(self, generator: torch.Generator | None) -> Batch:
        """Return all queries as one batch: shuffled within each direction, and then tile by tile."""
        queries, device = self.queries, self.tiles.device
        order = torch.arange(len(self), device=device)
        tile_order = torch.arange(len(self.tiles), device=device)
        if generator is not None:
            draw = torch.rand(len(self), dtype=torch.float64, device=device, generator=generator)
            order = (queries.directions + draw).argsort()
            tile_order = torch.randperm(len(self.tiles), device=device, generator=generator)
        padding = len(self)
        query_of = order.new_full((len(self.tiles) * self.height,), padding).index_copy_(0, self.slots, order)
        query_of = query_of.view(-1, self.height)[tile_order].flatten()
        real, query_of = query_of < padding, query_of.clamp_max(padding - 1)
        counts = torch.where(real, queries.counts[query_of], 0)
        rows, within = numbered(counts, len(queries.answers))
        answers = queries.answers[queries.offsets[query_of[rows]] + within]
        return Batch(queries.entities[query_of], self.tiles[tile_order], counts, rows, answers)


def _rounded_up(size: int) -> int:
    """Return the next of a few sizes, of which there are as many in every octave."""
    step = max(1, 2 ** (size - 1).bit_length() // (2 * SIZES_AN_OCTAVE))
    return -(-size // step) * step
