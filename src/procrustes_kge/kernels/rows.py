"""What the answers of queries weigh, and where they end: one kernel in place of a dozen. The twin is in `gradients`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

AT_ONCE = 2**12


def weigh_rows(
    counts: Int[Tensor, " rows"],
    crowd: float,
    sums: tuple[Float[Tensor, ""], Float[Tensor, ""], Float[Tensor, ""]],
) -> tuple[Float[Tensor, " rows"], Float[Tensor, " rows"], Int[Tensor, " rows"]]:
    """Return v = n^(crowd − 1) of each row of n answers, the mass v n, and Σ n up to the row; add all mass to sums."""
    weights = counts.new_empty(len(counts), dtype=torch.float32)
    masses, ends = torch.empty_like(weights), torch.empty_like(counts)
    wide = min(AT_ONCE, max(16, triton.next_power_of_2(len(counts))))
    with torch.cuda.device_of(counts):  # Triton launches on the current device
        _weigh_rows[(1,)](
            *(counts, weights, masses, ends, *sums, len(counts), float(crowd) - 1.0),
            WIDE=wide,
            num_warps=max(1, wide // 256),
        )
    return weights, masses, ends


@triton.jit(do_not_specialize_on_alignment=["counts"])
def _weigh_rows(counts, weights, masses, ends, first, second, third, rows, beyond, WIDE: tl.constexpr):
    lane = tl.arange(0, WIDE)
    before, total = tl.zeros((1,), tl.int64), tl.zeros((1,), tl.float32)
    for start in range(0, rows, WIDE):
        row = start + lane
        count = tl.load(counts + row, mask=row < rows, other=0)
        many = count.to(tl.float32)
        weight = tl.where(count > 0, tl.exp2(beyond * tl.log2(tl.maximum(many, 1.0))), 0.0)
        tl.store(weights + row, weight, mask=row < rows)
        tl.store(masses + row, weight * many, mask=row < rows)
        tl.store(ends + row, before + tl.cumsum(count, axis=0), mask=row < rows)
        before += tl.sum(count, axis=0)
        total += tl.sum(weight * many, axis=0)
    one = tl.arange(0, 1)
    tl.store(first + one, tl.load(first + one) + total)
    tl.store(second + one, tl.load(second + one) + total)
    tl.store(third + one, tl.load(third + one) + total)
