"""Queries q = c ∘ (x Q) + b, and from their gradient those of x, Q, c and b: a kernel each. The twin is in `gradients`.

A program makes one segment of a tile of queries. In the backward pass it makes them again: to read what they are made
of is faster than to keep them. Sums come together in no fixed order, so that results differ in their last digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int, UInt8
from torch import Tensor

Sides = Float[Tensor, "directions segments width"]


class QueryGradients(NamedTuple):
    """Sums that are added to; None: not wanted."""

    vectors: Float[Tensor, "n_padded d_padded"]
    rotations: Float[Tensor, "directions segments width width"] | None
    translations: Sides | None
    scales: Sides | None


@dataclass(frozen=True)
class FusedQueries:
    """A batch of queries, in tiles of one direction, and what they are made of."""

    vectors: Float[Tensor, "entities d"]
    rotations: Float[Tensor, "directions segments width width"]
    translations: Sides | None
    scales: Sides | None
    asked: Int[Tensor, " rows"]
    tiles: Int[Tensor, " tiles"]
    kept: UInt8[Tensor, "rows d"] | None = None  # by dropout: 1 or 0
    keep: float = 1.0  # the chance of a number to be kept

    def rounded(self, columns: int) -> Float[Tensor, "rows columns"]:
        """Return the queries after dropout in bfloat16, padded with zeros to a multiple of eight."""
        queries = self.vectors.new_empty(len(self.asked), columns, dtype=torch.bfloat16)
        with torch.cuda.device_of(queries):  # Triton launches on the current device
            _ask[self.grid](*self.tensors, queries, self.grid[0], columns // 8, 1 / self.keep, **self.shape)
        return queries

    def pull_(
        self,
        gradient: Float[Tensor, "rows d_padded"],
        mass: Float[Tensor, " rows"],
        decay: float,
        power: float,
        into: QueryGradients,
    ) -> None:
        """Add the gradients of what queries are made of, given theirs; queries are held short: decay · m Σ ‖q_s‖^p / p.

        Rows of the gradient and of the sums of vectors are padded alike, to a multiple of eight. A query of mass 0
        pulls at nothing.
        """
        columns = gradient.shape[1]
        if columns % 8 or into.vectors.shape[1] != columns:
            raise ValueError(f"rows of {columns} and {into.vectors.shape[1]} numbers, expected the same multiple of 8")
        spare = into.vectors  # stands where nothing is added
        sums = (spare if each is None else each for each in into)
        with torch.cuda.device_of(gradient):
            _pull[self.grid](
                *(*self.tensors, gradient, mass, *sums, self.grid[0], columns // 8),
                *(1 / self.keep, float(decay), float(power) - 2.0),
                **self.shape,
                ROTATES=into.rotations is not None,
                DECAYS=decay > 0,
                SQUARES=power == 2,
                TINY=torch.finfo(torch.float32).tiny,
            )

    @property
    def grid(self) -> tuple[int, int]:
        """The programs: those of a tile side by side, since they read the same rows."""
        return self.rotations.shape[1], len(self.tiles)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """What both kernels read."""
        some = (self.translations, self.scales, self.kept)
        others = (self.vectors if each is None else each for each in some)
        return self.vectors, self.asked, self.tiles, self.rotations, *others

    @property
    def shape(self) -> dict[str, Any]:
        """What both kernels are compiled for."""
        width = self.rotations.shape[-1]
        wide = max(16, triton.next_power_of_2(width))
        return {
            "WIDTH": width,
            "WIDE": wide,
            "TALL": len(self.asked) // len(self.tiles),
            "TRANSLATES": self.translations is not None,
            "SCALES": self.scales is not None,
            "DROPS": self.kept is not None,
            "num_warps": 1 if wide <= 32 else 4,
        }


@triton.jit
def _part(
    vectors, asked, tiles, rotations, segments,
    WIDTH: tl.constexpr, WIDE: tl.constexpr, TALL: tl.constexpr,
):  # fmt: skip
    """Return a segment of the entities of a tile, the rotation of its direction, and where all these are."""
    segment, tile, columns = tl.program_id(0), tl.program_id(1), tl.arange(0, WIDE)
    real, place = columns < WIDTH, segment * WIDTH + columns
    direction = tl.load(tiles + tile).to(tl.int64)
    row = tile.to(tl.int64) * TALL + tl.arange(0, TALL)
    entity = tl.load(asked + row).to(tl.int64)
    own_at = entity[:, None] * (segments * WIDTH) + place[None, :]
    own = tl.load(vectors + own_at, mask=real[None, :], other=0.0)
    side_at = (direction * segments + segment) * WIDTH + columns
    rotation_at = side_at[:, None] * WIDTH + columns[None, :]
    rotation = tl.load(rotations + rotation_at, mask=real[:, None] & real[None, :], other=0.0)
    return own, rotation, row, entity, place, real, side_at, rotation_at


@triton.jit(do_not_specialize_on_alignment=["asked", "tiles"])
def _ask(
    vectors, asked, tiles, rotations, translations, scales, kept, queries, segments, eights, lift,
    WIDTH: tl.constexpr, WIDE: tl.constexpr, TALL: tl.constexpr,
    TRANSLATES: tl.constexpr, SCALES: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    own, rotation, row, _entity, place, real, side_at, _rotation_at = _part(
        vectors, asked, tiles, rotations, segments, WIDTH, WIDE, TALL
    )
    query = tl.dot(own, rotation, input_precision="tf32x3")
    if SCALES:
        query *= tl.load(scales + side_at, mask=real, other=0.0)[None, :]
    if TRANSLATES:
        query += tl.load(translations + side_at, mask=real, other=0.0)[None, :]
    if DROPS:
        chosen = kept + row[:, None] * (segments * WIDTH) + place[None, :]
        query *= lift * tl.load(chosen, mask=real[None, :], other=0).to(tl.float32)
    columns = eights * 8  # so that the compiler knows: it then writes several numbers at a time
    there = queries + row[:, None] * columns
    tl.store(there + place[None, :], query.to(tl.bfloat16), mask=real[None, :])
    if tl.program_id(0) == segments - 1:
        more = segments * WIDTH + tl.arange(0, 8)[None, :]
        tl.store(there + more, tl.zeros((TALL, 8), tl.bfloat16), mask=more < columns)


@triton.jit(do_not_specialize_on_alignment=["asked", "tiles"])
def _pull(
    vectors, asked, tiles, rotations, translations, scales, kept, gradient, masses,
    of_vectors, of_rotations, of_translations, of_scales, segments, eights, lift, decay, beyond,
    WIDTH: tl.constexpr, WIDE: tl.constexpr, TALL: tl.constexpr,
    TRANSLATES: tl.constexpr, SCALES: tl.constexpr, DROPS: tl.constexpr, ROTATES: tl.constexpr,
    DECAYS: tl.constexpr, SQUARES: tl.constexpr, TINY: tl.constexpr,
):  # fmt: skip
    own, rotation, row, entity, place, real, side_at, rotation_at = _part(
        vectors, asked, tiles, rotations, segments, WIDTH, WIDE, TALL
    )
    columns = eights * 8  # so that the compiler knows, as in `_ask`
    slope = tl.load(gradient + row[:, None] * columns + place[None, :], mask=real[None, :], other=0.0)
    mass = tl.load(masses + row)
    if DROPS:
        chosen = kept + row[:, None] * (segments * WIDTH) + place[None, :]
        slope *= lift * tl.load(chosen, mask=real[None, :], other=0).to(tl.float32)
    if SCALES or DECAYS:
        rotated = tl.dot(own, rotation, input_precision="tf32x3")
    if SCALES:
        scale = tl.load(scales + side_at, mask=real, other=0.0)[None, :]
    if DECAYS:
        query = rotated
        if SCALES:
            query *= scale
        if TRANSLATES:
            query += tl.load(translations + side_at, mask=real, other=0.0)[None, :]
        weight = decay * mass
        if not SQUARES:
            length = tl.sqrt(tl.sum(query * query, axis=1))
            weight *= tl.exp2(beyond * tl.log2(tl.maximum(length, TINY)))
        slope += weight[:, None] * query
    if TRANSLATES:
        tl.atomic_add(of_translations + side_at, tl.sum(slope, axis=0), mask=real, sem="relaxed")
    if SCALES:
        tl.atomic_add(of_scales + side_at, tl.sum(slope * rotated, axis=0), mask=real, sem="relaxed")
        slope *= scale
    if ROTATES:
        covariance = tl.dot(tl.trans(own), slope, input_precision="tf32x3")
        tl.atomic_add(of_rotations + rotation_at, covariance, mask=real[:, None] & real[None, :], sem="relaxed")
    moved = tl.dot(slope, tl.trans(rotation), input_precision="tf32x3")
    moved_at = entity[:, None] * columns + place[None, :]
    tl.atomic_add(of_vectors + moved_at, moved, mask=(mass > 0)[:, None] & real[None, :], sem="relaxed")
