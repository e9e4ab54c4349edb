"""One full-batch epoch on the GPU in five kernels: what `blocks.PlainBlock.epoch` does, in few passes over memory.

    spherise ─ covary: M ─ solve: Q, shifts ─ rotate: where queries want their entity ─ arrive: sums, step, centre

A program goes through a workload of queries, or moves some entities. All programs of a segment run side by side, so
that its few megabytes stay in the cache of the GPU however often rows are gathered. Every sum has a fixed order:
results repeat.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from procrustes_kge.kernels.polar import _orthogonal
from procrustes_kge.layouts.fused import ROWS_PER_FUSED_TILE, FusedLayout
from procrustes_kge.linalg import LIFT, LIFTS, POLISH, POLISHES, inverse_norms

# By optimiser: how many entities a program moves, and with how many warps.
ENTITIES_PER_PROGRAM = {"turn": 16, "adam": 32}
WARPS_PER_PROGRAM = {"turn": 1, "adam": 4}


class Scratch:
    """Memory for what one kernel passes to the next; blocks that are trained one after another may share it."""

    def __init__(self, layout: FusedLayout, segments: int, width: int, device: torch.device) -> None:
        self.segments = segments
        self.covariances = torch.empty(segments, layout.tail_workloads, width, width, device=device)
        self.sums = torch.empty(segments, layout.tail_workloads, 2, width, device=device)
        self.rotations = torch.empty(segments, layout.relations, width, width, device=device)
        self.residuals = torch.empty(segments, layout.relations, device=device)
        self.shifts = torch.empty(segments, 2 * layout.relations, width, device=device)
        self.pulls = torch.empty(segments, layout.places, width, device=device)

    @staticmethod
    def numbers(layout: FusedLayout, width: int) -> int:
        """Return how many numbers it holds for a segment."""
        sizes = Scratch(layout, 1, width, torch.device("meta"))  # a device that holds no numbers
        return sum(table.numel() for table in vars(sizes).values() if isinstance(table, Tensor))


class FusedSegments:
    """Some segments in training, in place. The plain twin is `blocks.PlainBlock`.

    Entities that are asked about most often should come first: a program moves neighbours, and waits for the last. The
    centre of an epoch is summed in the one before: nothing else may move the vectors.
    """

    def __init__(
        self, vectors: Float[Tensor, "segments entities width"], layout: FusedLayout, scratch: Scratch | None = None
    ) -> None:
        segments, _, width = vectors.shape
        if scratch is not None and scratch.segments < segments:
            raise ValueError(f"scratch memory for {scratch.segments} segments, expected at least {segments}")
        self.vectors, self.layout = vectors, layout
        self.scratch = scratch or Scratch(layout, segments, width, vectors.device)
        self.centres, self.taken = vectors.mean(dim=1), 0

    @cached_property
    def moments(self) -> tuple[Float[Tensor, "segments entities width"], Float[Tensor, "segments entities width"]]:
        """What Adam remembers of every number; not made for the other optimiser."""
        return torch.zeros_like(self.vectors), torch.zeros_like(self.vectors)

    def train_epoch(
        self, rate: float, *, translate: bool, by_norm: bool, adam: bool, near: float
    ) -> Float[Tensor, " segments"]:
        """Train one epoch in place, and return the loss that it started from."""
        with torch.cuda.device_of(self.vectors):  # Triton launches on the current device
            weights = self._solve(translate, by_norm)
            self._rotate(weights, translate, by_norm)
            self._move(weights, rate, by_norm, adam, near)
        residuals = self.scratch.residuals[: len(self.vectors)]
        return residuals.sqrt().sum(dim=1) if by_norm else residuals.sum(dim=1) / 2

    @property
    def shape(self) -> dict[str, Any]:
        """What every kernel is compiled for."""
        width = self.vectors.shape[2]
        return {"WIDTH": width, "WIDE": max(16, triton.next_power_of_2(width))}

    @property
    def rows(self) -> tuple[Tensor, ...]:
        """The queries, as kernels read them."""
        return self.layout.answers, self.layout.tiles, self.layout.workloads, self.layout.counts

    def _solve(self, translate: bool, by_norm: bool) -> Float[Tensor, "segments relations"]:
        """Spherise, solve all relations, and return the weight of each."""
        vectors, layout, scratch, precision = self.vectors, self.layout, self.scratch, torch.finfo(torch.float32)
        segments, entities, _ = vectors.shape
        grid = triton.cdiv(entities, ROWS_PER_FUSED_TILE), segments
        _spherise[grid](vectors, self.centres, entities, **self.shape, ROWS=ROWS_PER_FUSED_TILE)
        _covary[(layout.tail_workloads, segments)](
            *(vectors, *self.rows, layout.asked, scratch.covariances, scratch.sums, entities),
            **self.shape,
            ROWS=ROWS_PER_FUSED_TILE // 2,
            TILE=ROWS_PER_FUSED_TILE,
            num_warps=2,
        )
        _solve[(layout.relations, segments)](
            *(scratch.covariances, scratch.sums, layout.workload_offsets, layout.triples),
            *(scratch.rotations, scratch.shifts, scratch.residuals),
            *(layout.tail_workloads, *LIFT, *POLISH, precision.eps**0.5, precision.tiny),
            **self.shape,
            LIFTS=LIFTS,
            POLISHES=POLISHES,
            TRANSLATE=translate,
            num_warps=2,
        )
        residuals = scratch.residuals[:segments]
        return inverse_norms(residuals, layout.triples) if by_norm else residuals  # not read

    def _rotate(self, weights: Float[Tensor, "segments relations"], translate: bool, by_norm: bool) -> None:
        """Compute where every query wants its entity."""
        layout, scratch = self.layout, self.scratch
        _rotate[(len(layout.workloads), len(self.vectors))](
            *(self.vectors, *self.rows, scratch.rotations, scratch.shifts, weights, scratch.pulls),
            *(layout.entities, layout.places, layout.relations),
            **self.shape,
            TILE=ROWS_PER_FUSED_TILE,
            TRANSLATE=translate,
            BY_NORM=by_norm,
        )

    def _move(
        self, weights: Float[Tensor, "segments relations"], rate: float, by_norm: bool, adam: bool, near: float
    ) -> None:
        """Move every entity, then sum all vectors."""
        (segments, entities, width), layout, step = self.vectors.shape, self.layout, "adam" if adam else "turn"
        self.taken += 1
        grown = 1 - 0.9**self.taken, 1 - 0.999**self.taken
        parts = self.vectors.new_empty(segments, triton.cdiv(entities, ENTITIES_PER_PROGRAM[step]), width)
        _arrive[(parts.shape[1], segments)](
            *(self.vectors, self.scratch.pulls, layout.arrivals, layout.arriving, layout.degrees, weights),
            *(self.moments if adam else (parts, parts)),
            *(parts, entities, layout.places, layout.relations, rate, near, *grown, torch.finfo(torch.float32).tiny),
            **self.shape,
            ROWS=ENTITIES_PER_PROGRAM[step],
            BY_NORM=by_norm,
            ADAM=adam,
            num_warps=WARPS_PER_PROGRAM[step],
        )
        torch.sum(parts, dim=1, out=self.centres).div_(entities)


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
    vectors, answers, tiles, workloads, counts, asked, covariances, sums, entities,
    WIDTH: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Of a workload of queries for tails: Σ x_qᵀ A_q, and the sums of its tails and, once for each tail, its heads."""
    workload, segment = tl.program_id(0), tl.program_id(1).to(tl.int64)
    table, columns = vectors + segment * entities * WIDTH, tl.arange(0, WIDE)
    real = columns < WIDTH
    covariance = tl.zeros((WIDE, WIDE), dtype=tl.float32)
    tails, heads = tl.zeros((WIDE,), dtype=tl.float32), tl.zeros((WIDE,), dtype=tl.float32)
    for begin in range(tl.load(workloads + 3 * workload) * TILE, tl.load(workloads + 3 * workload + 1) * TILE, ROWS):
        lane = begin % TILE + tl.arange(0, ROWS)
        row = begin + tl.arange(0, ROWS)
        entity, count = tl.load(asked + row), tl.load(counts + row)
        kept = (entity >= 0)[:, None] & real[None, :]
        own = tl.load(table + entity[:, None] * WIDTH + columns[None, :], mask=kept, other=0.0)
        total = _answer_sums(table, answers, tiles, begin // TILE, lane, WIDTH, WIDE, ROWS, TILE, 2)
        tails += tl.sum(total, axis=0)
        heads += tl.sum(count.to(tl.float32)[:, None] * own, axis=0)
        covariance = tl.dot(tl.trans(own), total, covariance, input_precision="tf32x3")
    at = segment * tl.num_programs(0) + workload
    inside = covariances + at * WIDTH * WIDTH + columns[:, None] * WIDTH + columns[None, :]
    tl.store(inside, covariance, mask=real[:, None] & real[None, :])
    tl.store(sums + at * 2 * WIDTH + columns, tails, mask=real)
    tl.store(sums + (at * 2 + 1) * WIDTH + columns, heads, mask=real)


@triton.jit
def _solve(
    covariances, sums, workload_offsets, triples, rotations, shifts, residuals, tail_workloads,
    lift_a, lift_b, lift_c, polish_a, polish_b, polish_c, eps, tiny,
    WIDTH: tl.constexpr, WIDE: tl.constexpr, LIFTS: tl.constexpr, POLISHES: tl.constexpr, TRANSLATE: tl.constexpr,
):  # fmt: skip
    """Solve one relation of one segment: Q by products of M, the shifts of both ways, and ‖H Q + b − T‖²."""
    relation, relations, segment = tl.program_id(0), tl.num_programs(0), tl.program_id(1).to(tl.int64)
    columns = tl.arange(0, WIDE)
    real = columns < WIDTH
    square = real[:, None] & real[None, :]
    inside = columns[:, None] * WIDTH + columns[None, :]
    matrix = tl.zeros((WIDE, WIDE), dtype=tl.float32)
    tails, heads = tl.zeros((WIDE,), dtype=tl.float32), tl.zeros((WIDE,), dtype=tl.float32)
    for workload in range(tl.load(workload_offsets + relation), tl.load(workload_offsets + relation + 1)):
        at = segment * tail_workloads + workload
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
    rotation = matrix + tl.where((columns[:, None] == columns[None, :]) & square, eps * size * sign[:, None], 0.0)
    rotation = _orthogonal(rotation, lift_a, lift_b, lift_c, polish_a, polish_b, polish_c, tiny, LIFTS, POLISHES)
    at = segment * relations + relation
    tl.store(rotations + at * WIDTH * WIDTH + inside, rotation, mask=square)
    left = length - 2 * tl.sum(tl.sum(rotation * matrix, axis=1), axis=0)
    tl.store(residuals + at, tl.maximum(left, 0.0))
    if TRANSLATE:
        back = shifts + (2 * segment * relations + relation) * WIDTH + columns
        tl.store(back, heads - tl.sum(tails[None, :] * rotation, axis=1), mask=real)
        tl.store(back + relations * WIDTH, tails - tl.sum(heads[:, None] * rotation, axis=0), mask=real)


@triton.jit
def _rotate(
    vectors, answers, tiles, workloads, counts, rotations, shifts, weights, pulls, entities, places, relations,
    WIDTH: tl.constexpr, WIDE: tl.constexpr, TILE: tl.constexpr, TRANSLATE: tl.constexpr, BY_NORM: tl.constexpr,
):  # fmt: skip
    """Compute where the rows of a workload want their entity: a head at Σ (t − b) Qᵀ, a tail at Σ (h Q + b)."""
    workload, segment = tl.program_id(0), tl.program_id(1).to(tl.int64)
    table, lane, columns = vectors + segment * entities * WIDTH, tl.arange(0, TILE), tl.arange(0, WIDE)
    real = columns < WIDTH
    direction = tl.load(workloads + 3 * workload + 2)
    at = segment * relations + direction % relations
    # Qᵀ for rows that ask for tails (they pull at the head), Q for the others: read along rows or along columns.
    down, across = tl.where(direction < relations, 1, WIDTH), tl.where(direction < relations, WIDTH, 1)
    inside = rotations + at * WIDTH * WIDTH + columns[:, None] * down + columns[None, :] * across
    rotation = tl.load(inside, mask=real[:, None] & real[None, :], other=0.0)
    if TRANSLATE:
        shift = tl.load(shifts + (2 * segment * relations + direction) * WIDTH + columns, mask=real, other=0.0)
    if BY_NORM:
        weight = tl.load(weights + at)
        rotation *= weight
        if TRANSLATE:
            shift *= weight
    for tile in range(tl.load(workloads + 3 * workload), tl.load(workloads + 3 * workload + 1)):
        total = _answer_sums(table, answers, tiles, tile, lane, WIDTH, WIDE, TILE, TILE, 1)
        out = tl.dot(total, rotation, input_precision="tf32x3")
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
    """Sum where the rows of some entities want them, move the entities, then add up their vectors."""
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
