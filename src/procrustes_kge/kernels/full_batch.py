"""One full-batch epoch on the GPU in six kernels: what `fit.train_epoch` does, with few trips through memory.

    spherise ─ covary: M ─ solve: Q, shifts ─ turn: where questions want their entity ─ arrive: sums, step, centre

A row is a question with at most FEW answers (sums over answers are linear, so a question with more is several rows); a
tile is up to TILE rows of one relation and direction, a strip up to STRIP such tiles. All programs of a segment run
side by side, so that its few megabytes stay in the cache of the GPU however often rows are gathered. Every sum has a
fixed order: results repeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.linalg import LIFT, POLISH, tiled

FEW = 16  # answers of a row
TILE = 64  # rows that a program holds at once
STRIP = 4  # tiles that a program goes through
ENTITIES = {"turn": 16, "adam": 32}  # that a program moves
WARPS = {"turn": 1, "adam": 4}  # of that program
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
    arriving: Int[Tensor, "rows 3"]  # place, relation and answers of the rows in that order

    @classmethod
    def of(cls, triples: Int[Tensor, "n 3"], entities: int, relations: int) -> Strips:
        """Arrange triples, on the device where they are."""
        head, relation, tail = _turned_round(triples, entities, relations).unbind(dim=1)
        key = torch.cat([relation, relation + relations]) * entities + torch.cat([head, tail])
        order = key.argsort(stable=True)
        answers = torch.cat([tail, head])[order]
        questions, sizes = key[order].unique_consecutive(return_counts=True)
        # Rows: the answers of a question, FEW at a time.
        question, piece = _spread((sizes + FEW - 1) // FEW)
        first = _starts(sizes)[question] + FEW * piece
        count = torch.minimum(sizes[question] - FEW * piece, sizes.new_tensor(FEW))
        by_count = ((questions[question] // entities) * (FEW + 1) + FEW - count).argsort(stable=True)
        question, first, count = question[by_count], first[by_count], count[by_count]
        asked, direction = questions[question] % entities, questions[question] // entities
        # Tiles: the rows of a direction, TILE at a time; the last may have room left.
        place, tile_direction = tiled(torch.bincount(direction, minlength=2 * relations), TILE)
        tiles, places = torch.bincount(tile_direction, minlength=2 * relations), len(tile_direction) * TILE
        counts = key.new_zeros(places).index_copy_(0, place, count).view(-1, TILE)
        depth = counts[:, 0]  # the first row has most
        offset = _starts(depth * TILE)
        of_row, number = _spread(count)
        at = offset[place[of_row] // TILE] + number * TILE + place[of_row] % TILE
        # Strips: the tiles of a direction, STRIP at a time.
        strips = (tiles + STRIP - 1) // STRIP
        strip_direction, strip = _spread(strips)
        begin = _starts(tiles)[strip_direction] + strip * STRIP
        end = torch.minimum(begin + STRIP, _starts(tiles)[strip_direction + 1])
        return cls(
            entities=entities,
            relations=relations,
            answers=key.new_full((int(offset[-1]),), NOBODY).index_copy_(0, at, answers[first[of_row] + number]).int(),
            asked=key.new_full((places,), NOBODY).index_copy_(0, place, asked).view(-1, TILE).int(),
            counts=counts.int(),
            tiles=torch.stack([offset[:-1], depth], dim=1).int(),
            strips=torch.stack([begin, end, strip_direction], dim=1).int(),
            bags=_starts(strips).int(),
            asking_tails=int(strips[:relations].sum()),
            triples=torch.bincount(relation, minlength=relations).float(),
            degrees=torch.bincount(torch.cat([head, tail]), minlength=entities).float(),
            arrivals=_starts(torch.bincount(asked, minlength=entities)).int(),
            arriving=torch.stack([place, direction % relations, count], dim=1)[asked.argsort(stable=True)].int(),
        )


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
    return bag, torch.arange(len(bag), device=sizes.device) - _starts(sizes)[bag]


def _starts(sizes: Int[Tensor, " bags"]) -> Int[Tensor, " bags_and_one"]:
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


class FusedSegments:
    """Some segments in training, and room for what lies between the kernels. The plain twin is `fit.Segments`.

    Entities that are asked about most often should come first: a program moves neighbours, and waits for the last.
    """

    def __init__(self, vectors: Float[Tensor, "segments entities width"], strips: Strips) -> None:
        segments, _, width = vectors.shape
        relations, new = strips.relations, vectors.new_empty
        self.vectors, self.strips = vectors, strips
        self.covariances = new(segments, strips.asking_tails, width, width)
        self.sums = new(segments, strips.asking_tails, 2, width)
        self.rotations, self.residuals = new(segments, relations, width, width), new(segments, relations)
        self.shifts = new(segments, 2 * relations, width)
        self.pulls = new(segments, strips.asked.numel(), width)
        self.centres, self.taken = vectors.mean(dim=1), 0

    @cached_property
    def moments(self) -> tuple[Float[Tensor, "segments entities width"], Float[Tensor, "segments entities width"]]:
        """What Adam remembers of every number; not made for the other step."""
        return torch.zeros_like(self.vectors), torch.zeros_like(self.vectors)

    def train_epoch(
        self, rate: float, *, translate: bool, by_norm: bool, adam: bool, near: float
    ) -> Float[Tensor, " segments"]:
        """Train one epoch in place, and return the loss that it started from."""
        vectors, strips, precision = self.vectors, self.strips, torch.finfo(torch.float32)
        segments, entities, width = vectors.shape
        shape: dict[str, Any] = {"WIDTH": width, "WIDE": max(16, triton.next_power_of_2(width))}
        rows = (strips.answers, strips.tiles, strips.strips, strips.counts)
        places, relations = strips.asked.numel(), strips.relations
        _spherise[(triton.cdiv(entities, TILE), segments)](vectors, self.centres, entities, **shape, ROWS=TILE)
        _covary[(strips.asking_tails, segments)](
            *(vectors, *rows, strips.asked, self.covariances, self.sums, entities),
            **shape,
            ROWS=TILE // 2,
            TILE=TILE,
            num_warps=2,
        )
        _solve[(relations, segments)](
            *(self.covariances, self.sums, strips.bags, strips.triples, self.rotations, self.shifts, self.residuals),
            *(strips.asking_tails, *LIFT, *POLISH, precision.eps**0.5, precision.tiny),
            **shape,
            TRANSLATE=translate,
            num_warps=2,
        )
        weights = self.residuals
        if by_norm:
            noise = 10 * precision.eps * strips.triples.clamp_min(1)
            weights = torch.where(weights > noise, weights.clamp_min(precision.eps).rsqrt(), 0)
        _turn[(len(strips.strips), segments)](
            *(vectors, *rows, self.rotations, self.shifts, weights, self.pulls, entities, places, relations),
            **shape,
            TILE=TILE,
            TRANSLATE=translate,
            BY_NORM=by_norm,
        )
        self.taken += 1
        mean, square = self.moments if adam else (vectors, vectors)
        step = "adam" if adam else "turn"
        parts = vectors.new_empty(segments, triton.cdiv(entities, ENTITIES[step]), width)
        _arrive[(parts.shape[1], segments)](
            *(vectors, self.pulls, strips.arrivals, strips.arriving, strips.degrees, weights, mean, square, parts),
            *(entities, places, relations, rate, near, 1 - 0.9**self.taken, 1 - 0.999**self.taken, precision.tiny),
            **shape,
            ROWS=ENTITIES[step],
            BY_NORM=by_norm,
            ADAM=adam,
            num_warps=WARPS[step],
        )
        torch.sum(parts, dim=1, out=self.centres).div_(entities)
        return self.residuals.sqrt().sum(dim=1) if by_norm else self.residuals.sum(dim=1) / 2


@triton.jit
def _spherise(vectors, means, entities, WIDTH: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr):
    """Centre and scale to length one, given the centre."""
    segment = tl.program_id(1).to(tl.int64)
    rows, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDE)
    real = columns < WIDTH
    kept = (rows < entities)[:, None] & real[None, :]
    places = vectors + (segment * entities + rows[:, None]) * WIDTH + columns[None, :]
    centre = tl.load(means + segment * WIDTH + columns, mask=real, other=0.0)
    centred = tl.where(kept, tl.load(places, mask=kept, other=0.0) - centre[None, :], 0.0)
    length = tl.sqrt(tl.sum(centred * centred, axis=1))
    tl.store(places, centred / tl.maximum(length, 1.1754944e-38)[:, None], mask=kept)


@triton.jit
def _answer_sums(
    table, answers, tiles, tile, lane,
    WIDTH: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Return the sum of the answers of some rows of a tile."""
    columns = tl.arange(0, WIDE)
    real = (columns < WIDTH)[None, :]
    places = answers + tl.load(tiles + 2 * tile) + lane
    total = tl.zeros((ROWS, WIDE), dtype=tl.float32)
    for number in tl.range(0, tl.load(tiles + 2 * tile + 1), loop_unroll_factor=UNROLL):
        answer = tl.load(places + number * TILE)
        place = table + answer[:, None] * WIDTH + columns[None, :]
        total += tl.load(place, mask=(answer >= 0)[:, None] & real, other=0.0)
    return total


@triton.jit
def _covary(
    vectors, answers, tiles, strips, counts, asked, covariances, sums, entities,
    WIDTH: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Of a strip that asks for tails: Σ x_qᵀ A_q, and the sums of its tails and, once for each tail, its heads."""
    strip, segment = tl.program_id(0), tl.program_id(1).to(tl.int64)
    table, columns = vectors + segment * entities * WIDTH, tl.arange(0, WIDE)
    real = columns < WIDTH
    covariance = tl.zeros((WIDE, WIDE), dtype=tl.float32)
    tails, heads = tl.zeros((WIDE,), dtype=tl.float32), tl.zeros((WIDE,), dtype=tl.float32)
    for begin in range(tl.load(strips + 3 * strip) * TILE, tl.load(strips + 3 * strip + 1) * TILE, ROWS):
        lane = begin % TILE + tl.arange(0, ROWS)
        row = begin + tl.arange(0, ROWS)
        entity, count = tl.load(asked + row), tl.load(counts + row)
        kept = (entity >= 0)[:, None] & real[None, :]
        own = tl.load(table + entity[:, None] * WIDTH + columns[None, :], mask=kept, other=0.0)
        total = _answer_sums(table, answers, tiles, begin // TILE, lane, WIDTH, WIDE, ROWS, TILE, 2)
        tails += tl.sum(total, axis=0)
        heads += tl.sum(count.to(tl.float32)[:, None] * own, axis=0)
        covariance = tl.dot(tl.trans(own), total, covariance, input_precision="tf32x3")
    at = segment * tl.num_programs(0) + strip
    inside = covariances + at * WIDTH * WIDTH + columns[:, None] * WIDTH + columns[None, :]
    tl.store(inside, covariance, mask=real[:, None] & real[None, :])
    tl.store(sums + at * 2 * WIDTH + columns, tails, mask=real)
    tl.store(sums + (at * 2 + 1) * WIDTH + columns, heads, mask=real)


@triton.jit
def _polynomial(turned, a, b, c):
    """Return a·x + b·x³ + c·x⁵ of the singular values."""
    gram = tl.dot(tl.trans(turned), turned, input_precision="tf32x3")
    inner = b * gram + c * tl.dot(gram, gram, input_precision="tf32x3")
    return a * turned + tl.dot(turned, inner, input_precision="tf32x3")


@triton.jit
def _solve(
    covariances, sums, bags, triples, rotations, shifts, residuals, asking_tails, lift_a, lift_b, lift_c, polish_a,
    polish_b, polish_c, eps, tiny,
    WIDTH: tl.constexpr, WIDE: tl.constexpr, TRANSLATE: tl.constexpr,
):  # fmt: skip
    """Solve one relation of one segment: Q by products of M, the shifts of both ways, and ‖H Q + b − T‖²."""
    relation, relations, segment = tl.program_id(0), tl.num_programs(0), tl.program_id(1).to(tl.int64)
    columns = tl.arange(0, WIDE)
    real = columns < WIDTH
    square = real[:, None] & real[None, :]
    inside = columns[:, None] * WIDTH + columns[None, :]
    matrix = tl.zeros((WIDE, WIDE), dtype=tl.float32)
    tails, heads = tl.zeros((WIDE,), dtype=tl.float32), tl.zeros((WIDE,), dtype=tl.float32)
    for strip in range(tl.load(bags + relation), tl.load(bags + relation + 1)):
        at = segment * asking_tails + strip
        matrix += tl.load(covariances + at * WIDTH * WIDTH + inside, mask=square, other=0.0)
        tails += tl.load(sums + at * 2 * WIDTH + columns, mask=real, other=0.0)
        heads += tl.load(sums + (at * 2 + 1) * WIDTH + columns, mask=real, other=0.0)
    count = tl.load(triples + relation)
    length = 2 * count
    if TRANSLATE:
        tails /= tl.maximum(count, 1.0)
        heads /= tl.maximum(count, 1.0)
        matrix -= count * heads[:, None] * tails[None, :]
        length -= count * (tl.sum(heads * heads, axis=0) + tl.sum(tails * tails, axis=0))
    size = tl.maximum(tl.sqrt(tl.sum(tl.sum(matrix * matrix, axis=1), axis=0)), 1.0)
    sign = tl.where(columns % 2 == 0, 1.0, -1.0)
    turned = matrix + tl.where((columns[:, None] == columns[None, :]) & square, eps * size * sign[:, None], 0.0)
    turned /= tl.maximum(tl.sqrt(tl.sum(tl.sum(turned * turned, axis=1), axis=0)), tiny)
    for _ in range(7):
        turned = _polynomial(turned, lift_a, lift_b, lift_c)
    for _ in range(3):
        turned = _polynomial(turned, polish_a, polish_b, polish_c)
    at = segment * relations + relation
    tl.store(rotations + at * WIDTH * WIDTH + inside, turned, mask=square)
    left = length - 2 * tl.sum(tl.sum(turned * matrix, axis=1), axis=0)
    tl.store(residuals + at, tl.maximum(left, 0.0))
    if TRANSLATE:
        back = shifts + (2 * segment * relations + relation) * WIDTH + columns
        tl.store(back, heads - tl.sum(tails[None, :] * turned, axis=1), mask=real)
        tl.store(back + relations * WIDTH, tails - tl.sum(heads[:, None] * turned, axis=0), mask=real)


@triton.jit
def _turn(
    vectors, answers, tiles, strips, counts, rotations, shifts, weights, pulls, entities, places, relations,
    WIDTH: tl.constexpr, WIDE: tl.constexpr, TILE: tl.constexpr, TRANSLATE: tl.constexpr, BY_NORM: tl.constexpr,
):  # fmt: skip
    """Say where the rows of a strip want the entity they ask about: Σ (t − b) Qᵀ for heads, Σ (h Q + b) for tails."""
    strip, segment = tl.program_id(0), tl.program_id(1).to(tl.int64)
    table, lane, columns = vectors + segment * entities * WIDTH, tl.arange(0, TILE), tl.arange(0, WIDE)
    real = columns < WIDTH
    direction = tl.load(strips + 3 * strip + 2)
    at = segment * relations + direction % relations
    # Qᵀ for rows that ask for tails (they pull at the head), Q for the others: read along rows or along columns.
    down, across = tl.where(direction < relations, 1, WIDTH), tl.where(direction < relations, WIDTH, 1)
    inside = rotations + at * WIDTH * WIDTH + columns[:, None] * down + columns[None, :] * across
    turn = tl.load(inside, mask=real[:, None] & real[None, :], other=0.0)
    if TRANSLATE:
        shift = tl.load(shifts + (2 * segment * relations + direction) * WIDTH + columns, mask=real, other=0.0)
    if BY_NORM:
        weight = tl.load(weights + at)
        turn *= weight
        if TRANSLATE:
            shift *= weight
    for tile in range(tl.load(strips + 3 * strip), tl.load(strips + 3 * strip + 1)):
        total = _answer_sums(table, answers, tiles, tile, lane, WIDTH, WIDE, TILE, TILE, 1)
        out = tl.dot(total, turn, input_precision="tf32x3")
        count = tl.load(counts + tile * TILE + lane)
        if TRANSLATE:
            out += count.to(tl.float32)[:, None] * shift[None, :]
        place = pulls + (segment * places + tile * TILE + lane[:, None]) * WIDTH + columns[None, :]
        tl.store(place, out, mask=(count > 0)[:, None] & real[None, :])


@triton.jit
def _arrive(
    vectors, pulls, arrivals, arriving, degrees, weights, means, squares, parts, entities, places, relations, rate,
    near, grown_mean, grown_square, tiny,
    WIDTH: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, BY_NORM: tl.constexpr, ADAM: tl.constexpr,
):  # fmt: skip
    """Sum what the rows of some entities want, move the entities, and add up where they are then."""
    program, segment = tl.program_id(0), tl.program_id(1).to(tl.int64)
    entity, columns = program * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDE)
    there, real = entity < entities, columns < WIDTH
    start = tl.load(arrivals + entity, mask=there, other=0)
    many = tl.where(there, tl.load(arrivals + entity + 1, mask=there, other=0) - start, 0)
    pull = tl.zeros((ROWS, WIDE), dtype=tl.float32)
    mass = tl.zeros((ROWS,), dtype=tl.float32)
    for number in range(0, tl.max(many, axis=0)):
        more = number < many
        row = arriving + 3 * (start + number)
        place = pulls + (segment * places + tl.load(row, mask=more, other=0)[:, None]) * WIDTH + columns[None, :]
        pull += tl.load(place, mask=more[:, None] & real[None, :], other=0.0)
        if BY_NORM:
            weight = weights + segment * relations + tl.load(row + 1, mask=more, other=0)
            mass += tl.load(weight, mask=more, other=0.0) * tl.load(row + 2, mask=more, other=0).to(tl.float32)
    if not BY_NORM:
        mass = tl.load(degrees + entity, mask=there, other=0.0)
    kept = there[:, None] & real[None, :]
    inside = (segment * entities + entity[:, None]) * WIDTH + columns[None, :]
    own = tl.load(vectors + inside, mask=kept, other=0.0)
    if ADAM:
        gradient = mass[:, None] * own - pull
        mean = 0.9 * tl.load(means + inside, mask=kept, other=0.0) + 0.1 * gradient
        square = 0.999 * tl.load(squares + inside, mask=kept, other=0.0) + 0.001 * gradient * gradient
        tl.store(means + inside, mean, mask=kept)
        tl.store(squares + inside, square, mask=kept)
        own -= rate * (mean / grown_mean) / (tl.sqrt(square / grown_square) + 1e-8)
    else:
        target = pull / tl.maximum(mass, tiny)[:, None]
        towards = target - tl.sum(target * own, axis=1)[:, None] * own
        own += rate * towards / (tl.sqrt(tl.sum(towards * towards, axis=1)) + near)[:, None]
    tl.store(vectors + inside, own, mask=kept)
    part = parts + (segment * tl.num_programs(0) + program) * WIDTH + columns
    tl.store(part, tl.sum(tl.where(kept, own, 0.0), axis=0), mask=real)
