"""The softmax loss over all entities, from scores to their gradients in place: one kernel and two products.

    S = q Xᵀ ─weigh: S becomes G→ ∂q = G X,  ∂X = Gᵀ q

A program goes through a row of scores twice, the second time out of the cache of the GPU: to hold the row in registers
is slower. The twin is `objective.against_all`. Every sum has a fixed order: results repeat.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

LONG = 2**14  # scores; of a longer row a program takes four times as many at once
AT_ONCE = 2**11
ANSWERS_AT_ONCE = 128


def against_all_fused(
    queries: Float[Tensor, "rows d_padded"],
    table: Float[Tensor, "n_padded d_padded"],
    answers: Int[Tensor, " answers"],
    counts: Int[Tensor, " rows"],
    weights: Float[Tensor, " rows"],
    pull: Float[Tensor, "n_padded d_padded"],
    entities: int,
    label_smoothing: float = 0.0,
    overwrites: bool = False,
    ends: Int[Tensor, " rows"] | None = None,
) -> tuple[Float[Tensor, " rows"], Float[Tensor, "rows d_padded"]]:
    """Return the loss of each row and the gradient of the queries; add that of the entities to `pull`, or write it.

    Queries and table are in bfloat16, padded alike with zeros. Both gradients are padded too, and in float32: a product
    of sizes that are no multiples of eight takes three times as long. The answers of a row follow those of the row
    before.
    """
    scores = queries @ table.T
    losses = weigh_(scores, answers, counts, weights, entities, label_smoothing, ends)
    gradient = multiply(scores, table, pull.new_empty(queries.shape))
    multiply(scores.T, queries, pull, adds=not overwrites)
    return losses, gradient


def multiply(
    left: Float[Tensor, "n k"], right: Float[Tensor, "k m"], into: Float[Tensor, "n m"], adds: bool = False
) -> Float[Tensor, "n m"]:
    """Write or add a product of numbers of bfloat16, which is never rounded to them."""
    if not left.is_cuda:  # PyTorch has no such product there
        product = left.to(into.dtype) @ right.to(into.dtype)
        return into.add_(product) if adds else into.copy_(product)
    return torch.addmm(into, left, right, out_dtype=into.dtype, beta=int(adds), out=into)


def weigh_(
    scores: Float[Tensor, "rows n_padded"],
    answers: Int[Tensor, " answers"],
    counts: Int[Tensor, " rows"],
    weights: Float[Tensor, " rows"],
    entities: int,
    label_smoothing: float = 0.0,
    ends: Int[Tensor, " rows"] | None = None,
) -> Float[Tensor, " rows"]:
    """Replace scores by the gradient of −v Σ log p(answer), v the weight of a row; return that loss of each row.

    The gradient is v n (p − target), n the number of the row's answers. Columns that pad the entities become zeros.
    """
    rows, columns = scores.shape
    losses, chances = torch.empty_like(weights), weights.new_empty(len(answers))
    wide = 4 * AT_ONCE if columns > LONG else AT_ONCE
    with torch.cuda.device_of(scores):  # Triton launches on the current device
        _weigh[(rows,)](
            *(scores, answers, counts.cumsum(0) if ends is None else ends, counts, weights, chances, losses),
            *(entities, columns // 8, label_smoothing),
            WIDE=wide,
            FEW=ANSWERS_AT_ONCE,
            num_warps=max(4, wide // 512),
            maxnreg=64,  # so that two programs share a processor: one waits for memory while the other computes
        )
    return losses


@triton.jit(do_not_specialize_on_alignment=["answers", "counts"])
def _weigh(
    scores, answers, ends, counts, weights, chances, losses, entities, eights, smoothing,
    WIDE: tl.constexpr, FEW: tl.constexpr,
):  # fmt: skip
    # Rows are a multiple of eight long, and the compiler is to know: it then moves eight scores at a time.
    row, columns = tl.program_id(0).to(tl.int64), eights * 8
    scores += row * columns
    column, lane = tl.arange(0, WIDE), tl.arange(0, FEW)
    tops, sums = tl.full((WIDE,), -3e38, tl.float32), tl.zeros((WIDE,), tl.float32)
    for start in range(0, columns, WIDE):
        score = tl.load(scores + start + column, mask=start + column < columns, other=0.0).to(tl.float32)
        score = tl.where(start + column < entities, score, float("-inf"))
        apart = tl.exp(-tl.abs(score - tops))
        sums = tl.where(score > tops, sums * apart + 1, sums + apart)
        tops = tl.maximum(tops, score)
    top = tl.max(tops, axis=0)
    top += tl.log(tl.sum(sums * tl.exp(tops - top), axis=0))
    count, weight = tl.load(counts + row), tl.load(weights + row)
    first, many = tl.load(ends + row) - count, count.to(tl.float32)
    loss = tl.zeros((FEW,), tl.float32)
    for start in range(0, count, FEW):
        there = start + lane < count
        answer = tl.load(answers + first + start + lane, mask=there, other=0)
        log = tl.load(scores + answer, mask=there, other=0.0).to(tl.float32) - top
        loss -= tl.where(there, log, 0.0)
        tl.store(chances + first + start + lane, tl.exp(log), mask=there)
    tl.store(losses + row, weight * tl.sum(loss, axis=0))
    tl.debug_barrier()  # scores of answers have been read; from here on they are written
    mass, even = weight * many, smoothing / entities
    for start in range(0, columns, WIDE):
        score = tl.load(scores + start + column, mask=start + column < columns, other=0.0).to(tl.float32)
        slope = tl.where(start + column < entities, mass * tl.exp(score - top) - mass * even, 0.0)
        tl.store(scores + start + column, slope.to(tl.bfloat16), mask=start + column < columns)
    tl.debug_barrier()
    for start in range(0, count, FEW):
        there = start + lane < count
        answer = tl.load(answers + first + start + lane, mask=there, other=0)
        chance = tl.load(chances + first + start + lane, mask=there, other=0.0)
        of_answer = mass * (chance - (1 - smoothing) / many - even)
        tl.store(scores + answer, of_answer.to(tl.bfloat16), mask=there)
