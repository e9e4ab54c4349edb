"""The triples of a graph, arranged for the kernels of a full-batch epoch.

A row is a question with some of its answers: sums over answers are linear, so a question with many is several rows. A
tile is up to TILE rows of one relation and direction, a strip up to STRIP such tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.linalg import starts, tiled

FEW = 16  # answers of a row, or the root of how many its question has: no program goes through all of a million alone
TILE = 64  # rows that a program holds at once
STRIP = 4  # tiles that a program goes through
NOBODY = -1  # where a tile has no row, and a row no further answer


@dataclass(frozen=True)
class Strips:
    """The triples of a graph, arranged for the kernels; the same for every segment.

    The rows of a direction are sorted by how many answers they have, so that those of a tile have about as many.
    Relations that are asked for heads less often than for tails are turned round, head for tail: the best map of the
    inverse is the inverse map, so nothing changes but that M is a sum over fewer questions.
    """

    entities: int
    relations: int
    answers: Int[Tensor, " answers"]  # entities, or NOBODY: the first answer of each row of a tile, then the second, …
    asked: Int[Tensor, "tiles rows"]  # the entity that a row asks about, or NOBODY
    counts: Int[Tensor, "tiles rows"]  # how many answers a row has
    tiles: Int[Tensor, "tiles 2"]  # where the answers of a tile start, and the most that a row has
    strips: Int[Tensor, "strips 3"]  # first tile, tile after the last, direction: r asks for tails, r + R for heads
    bags: Int[Tensor, " directions_and_one"]  # where the strips of each direction start
    asking_tails: int  # strips
    triples: Float[Tensor, " relations"]  # how many of each relation
    degrees: Float[Tensor, " entities"]  # how many of each entity, as head and as tail
    arrivals: Int[Tensor, " entities_and_one"]  # where each entity's rows start, sorted by the entity they ask about
    arriving: Int[Tensor, "places 3"]  # place, relation and answers of the rows in that order

    @property
    def places(self) -> int:
        """How many rows there is room for, in all tiles."""
        return self.asked.numel()

    @classmethod
    def of(cls, triples: Int[Tensor, "n 3"], entities: int, relations: int) -> Strips:
        """Arrange triples, on the device where they are."""
        head, relation, tail = _turned_round(triples, entities, relations).unbind(dim=1)
        key = torch.cat([relation, relation + relations]) * entities + torch.cat([head, tail])
        order = key.argsort(stable=True)
        answers = torch.cat([tail, head])[order]
        question, first, count = _rows(key[order], entities)
        asked, direction = question % entities, question // entities
        # Tiles: the rows of a direction, TILE at a time; the last may have room left.
        place, tile_direction = tiled(torch.bincount(direction, minlength=2 * relations), TILE)
        tiles, places = torch.bincount(tile_direction, minlength=2 * relations), len(tile_direction) * TILE
        counts = key.new_zeros(places).index_copy_(0, place, count).view(-1, TILE)
        depth = counts[:, 0]  # the first row has most
        offset = starts(depth * TILE)
        of_row, number = _spread(count)
        at = offset[place[of_row] // TILE] + number * TILE + place[of_row] % TILE
        # Strips: the tiles of a direction, STRIP at a time.
        strips = (tiles + STRIP - 1) // STRIP
        strip_direction, strip = _spread(strips)
        begin = starts(tiles)[strip_direction] + strip * STRIP
        end = torch.minimum(begin + STRIP, starts(tiles)[strip_direction + 1])
        return cls(
            entities=entities,
            relations=relations,
            answers=key.new_full((int(offset[-1]),), NOBODY).index_copy_(0, at, answers[first[of_row] + number]).int(),
            asked=key.new_full((places,), NOBODY).index_copy_(0, place, asked).view(-1, TILE).int(),
            counts=counts.int(),
            tiles=torch.stack([offset[:-1], depth], dim=1).int(),
            strips=torch.stack([begin, end, strip_direction], dim=1).int(),
            bags=starts(strips).int(),
            asking_tails=int(strips[:relations].sum()),
            triples=torch.bincount(relation, minlength=relations).float(),
            degrees=torch.bincount(torch.cat([head, tail]), minlength=entities).float(),
            arrivals=starts(torch.bincount(asked, minlength=entities)).int(),
            arriving=torch.stack([place, direction % relations, count], dim=1)[asked.argsort(stable=True)].int(),
        )


def _rows(
    keys: Int[Tensor, " answers"], entities: int
) -> tuple[Int[Tensor, " rows"], Int[Tensor, " rows"], Int[Tensor, " rows"]]:
    """Cut sorted answers into rows: the question of each, where its answers start, and how many they are.

    Sorted by direction, and there by how many.
    """
    questions, sizes = keys.unique_consecutive(return_counts=True)
    most = sizes.double().sqrt().ceil().long().clamp_min(FEW)  # answers of a row
    question, piece = _spread((sizes + most - 1) // most)
    most = most[question]
    first, count = starts(sizes)[question] + most * piece, torch.minimum(sizes[question] - most * piece, most)
    question = questions[question]
    longest = int(count.max()) if len(count) else 0
    order = (question // entities * (longest + 1) + longest - count).argsort(stable=True)
    return question[order], first[order], count[order]


def _turned_round(triples: Int[Tensor, "n 3"], entities: int, relations: int) -> Int[Tensor, "n 3"]:
    """Exchange heads and tails in relations that have fewer distinct tails than heads."""
    heads, tails = (
        torch.bincount((triples[:, 1] * entities + triples[:, side]).unique() // entities, minlength=relations)
        for side in (0, 2)
    )
    return torch.where((tails < heads)[triples[:, 1], None], triples.flip(1), triples)


def _spread(sizes: Int[Tensor, " bags"]) -> tuple[Int[Tensor, " members"], Int[Tensor, " members"]]:
    """Return, for every member of every bag, its bag and its number in it."""
    bag = torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)
    return bag, torch.arange(len(bag), device=sizes.device) - starts(sizes)[bag]
