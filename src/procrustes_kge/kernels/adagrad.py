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
    held: Float[Tensor, " n"] | None = None,
    decay: float = 0.0,
    clears: bool = True,
) -> None:
    """Move values by −rate · g / √(Σ g²), g = (gradient + decay · held · values) / weight; round them to bfloat16.

    All in place. The rounded values may be padded, and the gradient may be a part of a padded table; it is cleared, or
    left as it is.
    """
    rows, dim = values.shape
    wide = min(WIDEST_ROW, triton.next_power_of_2(dim))
    apart = gradient.stride(0)
    high, together = AT_ONCE // wide, 4 if dim % 4 == apart % 4 == 0 else 1
    with torch.cuda.device_of(values):
        _move[(triton.cdiv(rows, high), triton.cdiv(dim, wide))](
            *(values, square, gradient, values if rounded is None else rounded, values if held is None else held),
            *(weight, rate, decay, rows, dim // together, apart // together),
            0 if rounded is None else rounded.shape[1] // together,
            TOGETHER=together,
            ROUNDS=rounded is not None,
            HOLDS=held is not None,
            CLEARS=clears,
            HIGH=high,
            WIDE=wide,
        )


# A rate out of a larger tensor is not aligned, and would need a kernel of its own.
@triton.jit(do_not_specialize_on_alignment=["rate"])
def _move(
    values, square, gradient, rounded, held, weight, rate, decay, rows, dim, apart, stride,
    TOGETHER: tl.constexpr, ROUNDS: tl.constexpr, HOLDS: tl.constexpr, CLEARS: tl.constexpr,
    HIGH: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * HIGH + tl.arange(0, HIGH)[:, None]
    column = tl.program_id(1) * WIDE + tl.arange(0, WIDE)[None, :]
    # Numbers that are moved together, so that the compiler knows: rows of any length need no kernel of their own.
    dim *= TOGETHER
    apart *= TOGETHER
    stride *= TOGETHER
    there = (row < rows) & (column < dim)
    at = row * dim + column
    value = tl.load(values + at, mask=there, other=0.0)
    gradient += row * apart + column
    slope = tl.load(gradient, mask=there, other=0.0)
    if HOLDS:
        slope += decay * tl.load(held + row, mask=row < rows, other=0.0) * value
    slope /= tl.load(weight)
    total = tl.load(square + at, mask=there, other=0.0) + slope * slope
    moved = value - tl.load(rate) * slope / (tl.sqrt(total) + 1e-10)
    tl.store(values + at, moved, mask=there)
    tl.store(square + at, total, mask=there)
    if CLEARS:
        tl.store(gradient, tl.zeros((HIGH, WIDE), dtype=tl.float32), mask=there)
    if ROUNDS:
        tl.store(rounded + row * stride + column, moved.to(tl.bfloat16), mask=there)
