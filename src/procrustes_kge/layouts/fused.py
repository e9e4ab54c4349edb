"""The triples of a graph, arranged for the kernels of a full-batch epoch.

A row is a query with some of its answers: sums over answers are linear, so a query with many is several rows. A tile is
up to ROWS_PER_FUSED_TILE rows of one direction, a workload up to TILES_PER_WORKLOAD such tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.queries import Queries, group_by_query
from procrustes_kge.linalg import numbered, starts, tiled

ANSWERS_PER_ROW = 16  # or the root of how many its query has: no program adds up a million alone
ROWS_PER_FUSED_TILE = 64  # that a program holds at once
TILES_PER_WORKLOAD = 4  # that a program goes through
NOBODY = -1  # where a tile has no row, and a row no further answer
LARGEST = 2**31 - 1  # of the 32-bit integers that the kernels read


@dataclass(frozen=True)
class FusedLayout:
    """The triples of a graph, arranged for the kernels; the same for every segment.

    The rows of a direction are sorted by how many answers they have, so that those of a tile have about as many.
    Relations with fewer queries for heads than for tails exchange heads and tails: the best map of the inverse is the
    inverse map, so nothing changes but that M is a sum over fewer queries.
    """

    entities: int
    relations: int
    answers: Int[Tensor, " answers"]  # entities, or NOBODY: the first answer of each row of a tile, then the second, …
    asked: Int[Tensor, "tiles rows"]  # the entity that a row asks about, or NOBODY
    counts: Int[Tensor, "tiles rows"]  # how many answers a row has
    tiles: Int[Tensor, "tiles 2"]  # where the answers of a tile start, and the most that a row has
    workloads: Int[Tensor, "workloads 3"]  # first tile, tile after the last, direction (r for tails, r + R for heads)
    workload_offsets: Int[Tensor, " directions_and_one"]  # where the workloads of each direction start
    tail_workloads: int  # how many of them ask for tails
    triples: Float[Tensor, " relations"]  # how many of each relation
    degrees: Float[Tensor, " entities"]  # how many of each entity, as head and as tail
    arrivals: Int[Tensor, " entities_and_one"]  # where each entity's rows start, sorted by the entity they ask about
    arriving: Int[Tensor, "places 3"]  # place, relation and answers of the rows in that order

    @property
    def places(self) -> int:
        """How many rows all tiles have, padding included."""
        return self.asked.numel()

    @classmethod
    def of(cls, triples: Int[Tensor, "n 3"], entities: int, relations: int) -> FusedLayout:
        """Arrange triples, on the device where they are."""
        height = ROWS_PER_FUSED_TILE
        triples = _with_few_tail_queries(triples, entities, relations)
        queries = group_by_query(triples, entities, relations, distinct=False)
        query, first, count = _rows(queries)
        asked, direction = queries.entities[query], queries.directions[query]
        # Tiles: the rows of a direction, as many as a tile has at a time; the last may be padded.
        place, tile_direction = tiled(torch.bincount(direction, minlength=2 * relations), height)
        places = len(tile_direction) * height
        counts = count.new_zeros(places).index_copy_(0, place, count).view(-1, height)
        depth = counts[:, 0]  # the first row has most
        offset = starts(depth * height)
        of_row, number = numbered(count)
        at = offset[place[of_row] // height] + number * height + place[of_row] % height
        workloads = _workloads(tile_direction, relations)
        per_direction = torch.bincount(workloads[:, 2], minlength=2 * relations)
        if (held := int(offset[-1])) > LARGEST:
            seen = f"{held:,} answers in the tiles of the fused kernels"
            raise InputError(f"{seen}, expected at most {LARGEST:,}; try --device cpu")
        padded = count.new_full((held,), NOBODY)
        return cls(
            entities=entities,
            relations=relations,
            answers=padded.index_copy_(0, at, queries.answers[first[of_row] + number]).int(),
            asked=count.new_full((places,), NOBODY).index_copy_(0, place, asked).view(-1, height).int(),
            counts=counts.int(),
            tiles=torch.stack([offset[:-1], depth], dim=1).int(),
            workloads=workloads.int(),
            workload_offsets=starts(per_direction).int(),
            tail_workloads=int(per_direction[:relations].sum()),
            triples=torch.bincount(triples[:, 1], minlength=relations).float(),
            degrees=torch.bincount(triples[:, [0, 2]].flatten(), minlength=entities).float(),
            arrivals=starts(torch.bincount(asked, minlength=entities)).int(),
            arriving=torch.stack([place, direction % relations, count], dim=1)[asked.argsort(stable=True)].int(),
        )


def _rows(queries: Queries) -> tuple[Int[Tensor, " rows"], Int[Tensor, " rows"], Int[Tensor, " rows"]]:
    """Cut queries into rows, sorted by direction and size: the query of each, where its answers start, and how many."""
    sizes = queries.counts
    most = sizes.double().sqrt().ceil().long().clamp_min(ANSWERS_PER_ROW)
    query, piece = numbered((sizes + most - 1) // most)
    most = most[query]
    first, count = queries.offsets[query] + most * piece, torch.minimum(sizes[query] - most * piece, most)
    longest = int(count.max()) if len(count) else 0
    order = (queries.directions[query] * (longest + 1) + longest - count).argsort(stable=True)
    return query[order], first[order], count[order]


def _workloads(tile_direction: Int[Tensor, " tiles"], relations: int) -> Int[Tensor, "workloads 3"]:
    """Return the first tile, the tile after the last, and the direction of each workload."""
    tiles = torch.bincount(tile_direction, minlength=2 * relations)
    direction, number = numbered((tiles + TILES_PER_WORKLOAD - 1) // TILES_PER_WORKLOAD)
    begin = starts(tiles)[direction] + number * TILES_PER_WORKLOAD
    end = torch.minimum(begin + TILES_PER_WORKLOAD, starts(tiles)[direction + 1])
    return torch.stack([begin, end, direction], dim=1)


def _with_few_tail_queries(triples: Int[Tensor, "n 3"], entities: int, relations: int) -> Int[Tensor, "n 3"]:
    """Exchange heads and tails in relations that have fewer distinct tails than heads."""
    directions = group_by_query(triples, entities, relations).directions
    heads, tails = torch.bincount(directions, minlength=2 * relations).chunk(2)
    return torch.where((tails < heads)[triples[:, 1], None], triples.flip(1), triples)
