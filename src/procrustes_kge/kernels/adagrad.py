"""A step of Adagrad in one pass over memory; in plain PyTorch it is about ten. The twin is `optimisers.Adagrad`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

WIDEST_ROW = 1024  # numbers of a row that a program moves at once
AT_ONCE = 2048  # numbers that a program moves


def move_(
    values: Float[Tensor, "n d"],
    square: Float[Tensor, "n d"],
    gradient: Float[Tensor, "n d"],
    weight: Float[Tensor, ""],
    rate: Float[Tensor, ""],
    rounded: Float[Tensor, "n_padded d_padded"] | None = None,
) -> None:
    """Move values by −rate · g / √(Σ g²), g = gradient / weight; clear the gradient, and round values to bfloat16.

    All in place; the rounded values may be padded.
    """
    rows, dim = values.shape
    wide = min(WIDEST_ROW, triton.next_power_of_2(dim))
    high = AT_ONCE // wide
    rate = rate.clone()  # out of a larger tensor it would not be aligned, and need a kernel of its own
    with torch.cuda.device_of(values):
        _move[(triton.cdiv(rows, high), triton.cdiv(dim, wide))](
            *(values, square, gradient, values if rounded is None else rounded, weight, rate, rows),
            DIM=dim,
            STRIDE=0 if rounded is None else rounded.shape[1],
            HIGH=high,
            WIDE=wide,
        )


@triton.jit
def _move(
    values, square, gradient, rounded, weight, rate, rows,
    DIM: tl.constexpr, STRIDE: tl.constexpr, HIGH: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * HIGH + tl.arange(0, HIGH)[:, None]
    column = tl.program_id(1) * WIDE + tl.arange(0, WIDE)[None, :]
    there = (row < rows) & (column < DIM)
    at = row * DIM + column
    slope = tl.load(gradient + at, mask=there, other=0.0) / tl.load(weight)
    total = tl.load(square + at, mask=there, other=0.0) + slope * slope
    step = tl.load(rate) * slope / (tl.sqrt(total) + 1e-10)
    moved = tl.load(values + at, mask=there, other=0.0) - step
    tl.store(values + at, moved, mask=there)
    tl.store(square + at, total, mask=there)
    tl.store(gradient + at, tl.zeros((HIGH, WIDE), dtype=tl.float32), mask=there)
    if STRIDE > 0:
        tl.store(rounded + row * STRIDE + column, moved.to(tl.bfloat16), mask=there)
