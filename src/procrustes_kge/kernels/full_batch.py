"""One full-batch epoch on the GPU in six kernels: what `fit.train_epoch` does, with few trips through memory.

    spherise ─ covary: M, sums ─ solve: Q, b ─ turn: where questions want their entity ─ arrive: sums, step

A row is a question with at most FEW answers (sums over answers are linear, so a question with more is several rows); a
strip is up to STRIP rows of one relation and direction. All programs of a segment run side by side, so that its few
megabytes stay in the cache of the GPU however often rows are gathered. Every sum has a fixed order: results repeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.linalg import LIFT, POLISH

FEW = 16  # answers of a row
TILE = 64  # rows that a program holds at once
STRIP = 512  # rows that a program goes through
ENTITIES = 32  # that a program moves
_EPS = torch.finfo(torch.float32).eps ** 0.5
_TINY = torch.finfo(torch.float32).tiny


@dataclass(frozen=True)
class Strips:
    """The triples of a graph, arranged for the kernels; the same for every segment."""

    entities: int
    relations: int
    answers: Int[Tensor, " answers"]  # the entities that answer, row after row
    asked: Int[Tensor, " rows"]  # the entity that a row asks about
    first: Int[Tensor, " rows"]  # where its answers start
    counts: Int[Tensor, " rows"]  # how many it has
    directions: Int[Tensor, " rows"]  # relation r asked for tails; r + R for heads
    strips: Int[Tensor, "strips 3"]  # first row, row after the last, direction
    bags: Int[Tensor, " directions_and_one"]  # where the strips of each direction start
    asking_tails: int  # strips
    triples: Float[Tensor, " relations"]  # how many of each relation
    degrees: Float[Tensor, " entities"]  # how many of each entity, as head and as tail
    order: Int[Tensor, " entities"]  # entities, those with most rows first: no program waits long for the last
    arriving: Int[Tensor, " rows"]  # rows, sorted by the entity they ask about
    arrivals: Int[Tensor, " entities_and_one"]  # where each entity's rows start

    @classmethod
    def of(cls, triples: Int[Tensor, "n 3"], entities: int, relations: int) -> Strips:
        """Arrange triples, on the device where they are."""
        head, relation, tail = triples.unbind(dim=1)
        answers = torch.cat([tail, head])
        key = torch.cat([relation, relation + relations]) * entities + torch.cat([head, tail])
        order = key.argsort(stable=True)
        questions, counts = key[order].unique_consecutive(return_counts=True)
        pieces = (counts + FEW - 1) // FEW
        question = torch.repeat_interleave(torch.arange(len(counts), device=key.device), pieces)
        piece = torch.arange(len(question), device=key.device) - _starts(pieces)[question]
        asked, directions = questions[question] % entities, questions[question] // entities
        rows = torch.bincount(directions, minlength=2 * relations)
        strips = (rows + STRIP - 1) // STRIP
        of_strip = torch.repeat_interleave(torch.arange(2 * relations, device=key.device), strips)
        number = torch.arange(len(of_strip), device=key.device) - _starts(strips)[of_strip]
        begin = _starts(rows)[of_strip] + number * STRIP
        end = torch.minimum(begin + STRIP, _starts(rows)[of_strip + 1])
        arriving = torch.bincount(asked, minlength=entities)
        return cls(
            entities=entities,
            relations=relations,
            answers=answers[order].int(),
            asked=asked.int(),
            first=(_starts(counts)[question] + FEW * piece).int(),
            counts=torch.minimum(counts[question] - FEW * piece, counts.new_tensor(FEW)).int(),
            directions=directions.int(),
            strips=torch.stack([begin, end, of_strip], dim=1).int(),
            bags=_starts(strips).int(),
            asking_tails=int(strips[:relations].sum()),
            triples=torch.bincount(relation, minlength=relations).float(),
            degrees=torch.bincount(torch.cat([head, tail]), minlength=entities).float(),
            order=arriving.argsort(descending=True, stable=True).int(),
            arriving=asked.argsort(stable=True).int(),
            arrivals=_starts(arriving).int(),
        )


def _starts(sizes: Int[Tensor, " bags"]) -> Int[Tensor, " bags_and_one"]:
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


@dataclass(frozen=True)
class Moments:
    """What Adam remembers of every number, and how many steps it has taken, this one included."""

    mean: Float[Tensor, "segments entities width"]
    square: Float[Tensor, "segments entities width"]
    taken: int


def fused_epoch(
    vectors: Float[Tensor, "segments entities width"],
    strips: Strips,
    rate: float,
    *,
    translate: bool,
    by_norm: bool,
    near: float,
    moments: Moments | None = None,
) -> Float[Tensor, " segments"]:
    """Train one epoch in place, by Adam where there are moments, and return the loss that it started from."""
    segments, entities, width = vectors.shape
    wide = max(16, triton.next_power_of_2(width))
    relations, rows = strips.relations, len(strips.asked)
    shape: dict[str, Any] = {"WIDTH": width, "WIDE": wide}
    new = vectors.new_empty
    _spherise[(triton.cdiv(entities, TILE), segments)](vectors, vectors.mean(dim=1), entities, **shape, ROWS=TILE)
    covariances = new(segments, strips.asking_tails, width, width)
    sums = new(segments, len(strips.strips), width)
    questions = (strips.answers, strips.asked, strips.first, strips.counts, strips.strips)
    _covary[(len(strips.strips), segments)](
        *(vectors, *questions, covariances, sums, entities, strips.asking_tails, relations), **shape, ROWS=TILE
    )
    rotations, shifts = new(segments, relations, width, width), new(segments, relations, width)
    residuals = new(segments, relations)
    _solve[(relations, segments)](
        *(covariances, sums, strips.bags, strips.triples, rotations, shifts, residuals),
        *(strips.asking_tails, len(strips.strips), relations, *LIFT, *POLISH, _EPS, _TINY),
        **shape,
        TRANSLATE=translate,
    )
    if by_norm:
        noise = 10 * torch.finfo(torch.float32).eps * strips.triples.clamp_min(1)
        weights = torch.where(residuals > noise, residuals.clamp_min(torch.finfo(torch.float32).eps).rsqrt(), 0)
        loss = residuals.sqrt().sum(dim=1)
    else:
        weights, loss = residuals, residuals.sum(dim=1) / 2
    wanted = new(segments, rows, width)
    _turn[(len(strips.strips), segments)](
        *(vectors, *questions, rotations, shifts, weights, wanted, entities, rows, relations),
        **shape,
        ROWS=TILE,
        TRANSLATE=translate,
        BY_NORM=by_norm,
    )
    mean, square, taken = (moments.mean, moments.square, moments.taken) if moments else (vectors, vectors, 1)
    _arrive[(triton.cdiv(entities, ENTITIES), segments)](
        *(vectors, wanted, strips.order, strips.arriving, strips.arrivals, strips.degrees),
        *(strips.counts, strips.directions, weights, mean, square),
        *(entities, rows, relations, rate, near, 1 - 0.9**taken, 1 - 0.999**taken, _TINY),
        **shape,
        ROWS=ENTITIES,
        BY_NORM=by_norm,
        ADAM=moments is not None,
    )
    return loss


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
    table, answers, firsts, counts, rows, in_strip,
    WIDTH: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Return the sum of the answers of some rows, and how many they are."""
    columns = tl.arange(0, WIDE)
    real = (columns < WIDTH)[None, :]
    first = tl.load(firsts + rows, mask=in_strip, other=0)
    count = tl.load(counts + rows, mask=in_strip, other=0)
    total = tl.zeros((ROWS, WIDE), dtype=tl.float32)
    for number in range(0, tl.max(count, axis=0)):
        there = number < count
        answer = tl.load(answers + first + number, mask=there, other=0).to(tl.int64)
        total += tl.load(table + answer[:, None] * WIDTH + columns[None, :], mask=there[:, None] & real, other=0.0)
    return total, count.to(tl.float32)


@triton.jit
def _strip(strips, strip):
    """Return the first row of a strip, the row after its last, and its direction."""
    return tl.load(strips + 3 * strip), tl.load(strips + 3 * strip + 1), tl.load(strips + 3 * strip + 2)


@triton.jit
def _covary(
    vectors, answers, asked, firsts, counts, strips, covariances, sums, entities, asking_tails, relations,
    WIDTH: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Of a strip: Σ x_qᵀ A_q where it asks for tails, and Σ A_q."""
    strip, segment = tl.program_id(0), tl.program_id(1).to(tl.int64)
    start, stop, direction = _strip(strips, strip)
    table, columns = vectors + segment * entities * WIDTH, tl.arange(0, WIDE)
    real = columns < WIDTH
    covariance = tl.zeros((WIDE, WIDE), dtype=tl.float32)
    column_sums = tl.zeros((WIDE,), dtype=tl.float32)
    for begin in range(start, stop, ROWS):
        rows = begin + tl.arange(0, ROWS)
        in_strip = rows < stop
        total, _ = _answer_sums(table, answers, firsts, counts, rows, in_strip, WIDTH, WIDE, ROWS)
        column_sums += tl.sum(total, axis=0)
        if direction < relations:
            entity = tl.load(asked + rows, mask=in_strip, other=0).to(tl.int64)
            own = tl.load(
                table + entity[:, None] * WIDTH + columns[None, :], mask=in_strip[:, None] & real[None, :], other=0.0
            )
            covariance = tl.dot(tl.trans(own), total, covariance, input_precision="tf32x3")
    number = tl.num_programs(0)
    tl.store(sums + (segment * number + strip) * WIDTH + columns, column_sums, mask=real)
    if direction < relations:
        places = (
            covariances + (segment * asking_tails + strip) * WIDTH * WIDTH + columns[:, None] * WIDTH + columns[None, :]
        )
        tl.store(places, covariance, mask=real[:, None] & real[None, :])


@triton.jit
def _polynomial(turned, a, b, c):
    """Return a·x + b·x³ + c·x⁵ of the singular values."""
    gram = tl.dot(tl.trans(turned), turned, input_precision="tf32x3")
    inner = b * gram + c * tl.dot(gram, gram, input_precision="tf32x3")
    return a * turned + tl.dot(turned, inner, input_precision="tf32x3")


@triton.jit
def _solve(
    covariances, sums, bags, triples, rotations, shifts, residuals, asking_tails, strips, relations, lift_a, lift_b,
    lift_c, polish_a, polish_b, polish_c, eps, tiny,
    WIDTH: tl.constexpr, WIDE: tl.constexpr, TRANSLATE: tl.constexpr,
):  # fmt: skip
    """Solve one relation of one segment: Q by products of M, b, and ‖H Q + b − T‖²."""
    relation, segment = tl.program_id(0), tl.program_id(1).to(tl.int64)
    columns = tl.arange(0, WIDE)
    real = columns < WIDTH
    square = real[:, None] & real[None, :]
    inside = columns[:, None] * WIDTH + columns[None, :]
    matrix = tl.zeros((WIDE, WIDE), dtype=tl.float32)
    tails, heads = tl.zeros((WIDE,), dtype=tl.float32), tl.zeros((WIDE,), dtype=tl.float32)
    for strip in range(tl.load(bags + relation), tl.load(bags + relation + 1)):
        matrix += tl.load(
            covariances + (segment * asking_tails + strip) * WIDTH * WIDTH + inside, mask=square, other=0.0
        )
        tails += tl.load(sums + (segment * strips + strip) * WIDTH + columns, mask=real, other=0.0)
    count = tl.load(triples + relation)
    length = 2 * count
    if TRANSLATE:
        for strip in range(tl.load(bags + relations + relation), tl.load(bags + relations + relation + 1)):
            heads += tl.load(sums + (segment * strips + strip) * WIDTH + columns, mask=real, other=0.0)
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
        tl.store(shifts + at * WIDTH + columns, tails - tl.sum(heads[:, None] * turned, axis=0), mask=real)


@triton.jit
def _turn(
    vectors, answers, asked, firsts, counts, strips, rotations, shifts, weights, wanted, entities, all_rows,
    relations,
    WIDTH: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, TRANSLATE: tl.constexpr, BY_NORM: tl.constexpr,
):  # fmt: skip
    """Say where the rows of a strip want the entity they ask about: Σ (t − b) Qᵀ for heads, Σ (h Q + b) for tails."""
    strip, segment = tl.program_id(0), tl.program_id(1).to(tl.int64)
    start, stop, direction = _strip(strips, strip)
    table, columns = vectors + segment * entities * WIDTH, tl.arange(0, WIDE)
    real = columns < WIDTH
    asks_tails = direction < relations
    at = segment * relations + direction % relations
    # Qᵀ for rows that ask for tails (they pull at the head), Q for the others: read along rows or along columns.
    down, across = tl.where(asks_tails, 1, WIDTH), tl.where(asks_tails, WIDTH, 1)
    places = rotations + at * WIDTH * WIDTH + columns[:, None] * down + columns[None, :] * across
    turn = tl.load(places, mask=real[:, None] & real[None, :], other=0.0)
    if BY_NORM:
        turn *= tl.load(weights + at)
    for begin in range(start, stop, ROWS):
        rows = begin + tl.arange(0, ROWS)
        in_strip = rows < stop
        total, count = _answer_sums(table, answers, firsts, counts, rows, in_strip, WIDTH, WIDE, ROWS)
        if TRANSLATE:
            shift = count[:, None] * tl.load(shifts + at * WIDTH + columns, mask=real, other=0.0)[None, :]
            if direction < relations:
                total -= shift
            out = tl.dot(total, turn, input_precision="tf32x3")
            if direction >= relations:
                if BY_NORM:
                    shift *= tl.load(weights + at)
                out += shift
        else:
            out = tl.dot(total, turn, input_precision="tf32x3")
        place = wanted + (segment * all_rows + rows[:, None]) * WIDTH + columns[None, :]
        tl.store(place, out, mask=in_strip[:, None] & real[None, :])


@triton.jit
def _arrive(
    vectors, wanted, order, arriving, arrivals, degrees, counts, directions, weights, means, squares, entities,
    all_rows, relations, rate, near, grown_mean, grown_square, tiny,
    WIDTH: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, BY_NORM: tl.constexpr, ADAM: tl.constexpr,
):  # fmt: skip
    """Sum what the rows of some entities want, and move the entities."""
    segment = tl.program_id(1).to(tl.int64)
    number = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = number < entities
    entity = tl.load(order + number, mask=there, other=0)
    start = tl.load(arrivals + entity, mask=there, other=0)
    many = tl.where(there, tl.load(arrivals + entity + 1, mask=there, other=0) - start, 0)
    columns = tl.arange(0, WIDE)
    real = columns < WIDTH
    pull = tl.zeros((ROWS, WIDE), dtype=tl.float32)
    mass = tl.zeros((ROWS,), dtype=tl.float32)
    for next_row in range(0, tl.max(many, axis=0)):
        more = next_row < many
        row = tl.load(arriving + start + next_row, mask=more, other=0).to(tl.int64)
        place = wanted + (segment * all_rows + row[:, None]) * WIDTH + columns[None, :]
        pull += tl.load(place, mask=more[:, None] & real[None, :], other=0.0)
        if BY_NORM:
            relation = tl.load(directions + row, mask=more, other=0) % relations
            weight = tl.load(weights + segment * relations + relation, mask=more, other=0.0)
            mass += weight * tl.load(counts + row, mask=more, other=0).to(tl.float32)
    if not BY_NORM:
        mass = tl.load(degrees + entity, mask=there, other=0.0)
    kept = there[:, None] & real[None, :]
    places = (segment * entities + entity[:, None]) * WIDTH + columns[None, :]
    own = tl.load(vectors + places, mask=kept, other=0.0)
    if ADAM:
        gradient = mass[:, None] * own - pull
        mean = 0.9 * tl.load(means + places, mask=kept, other=0.0) + 0.1 * gradient
        square = 0.999 * tl.load(squares + places, mask=kept, other=0.0) + 0.001 * gradient * gradient
        tl.store(means + places, mean, mask=kept)
        tl.store(squares + places, square, mask=kept)
        own -= rate * (mean / grown_mean) / (tl.sqrt(square / grown_square) + 1e-8)
    else:
        target = pull / tl.maximum(mass, tiny)[:, None]
        towards = target - tl.sum(target * own, axis=1)[:, None] * own
        own += rate * towards / (tl.sqrt(tl.sum(towards * towards, axis=1)) + near)[:, None]
    tl.store(vectors + places, own, mask=kept)
