"""Σ_g ‖q_g − t_g‖₂ of all pairs of queries and entities: the differences of a pair never reach memory.

A program compares a tile of queries with a tile of entities, group after group. In the backward pass it takes one group
of a tile of rows, computes its lengths again, and goes through all rows of the other side in a fixed order: results
repeat.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

FEW = 4  # numbers in a group up to which a gradient is summed number by number; above, by products
ROWS_PER_SIDE = 64  # of a tile of pairs


def summed_lengths(queries: Float[Tensor, "b d"], entities: Float[Tensor, "n d"], group: int) -> Float[Tensor, "b n"]:
    """Return Σ_g ‖q_g − t_g‖₂ for every query and entity; at a length of zero the gradient is zero."""
    return _SummedLengths.apply(queries, entities, group)


class _SummedLengths(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, queries: Tensor, entities: Tensor, group: int) -> Tensor:
        ours, theirs = queries.T.contiguous(), entities.T.contiguous()  # numbers of many rows side by side
        context.save_for_backward(ours, theirs)
        context.group = group
        total = queries.new_empty(len(queries), len(entities))
        # The first may be the longer.
        grid = triton.cdiv(len(entities), ROWS_PER_SIDE), triton.cdiv(len(queries), ROWS_PER_SIDE)
        with torch.cuda.device_of(queries):
            _compare[grid](ours, theirs, total, *total.shape, len(ours) // group, GROUP=group, TILE=ROWS_PER_SIDE)
        return total

    @staticmethod
    def backward(context: Any, weights: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        ours, theirs = context.saved_tensors
        found = [
            _pulled(one, other, part, context.group) if needed else None
            for one, other, part, needed in (
                (ours, theirs, weights.T.contiguous(), context.needs_input_grad[0]),
                (theirs, ours, weights.contiguous(), context.needs_input_grad[1]),
            )
        ]
        return found[0], found[1], None


def _pulled(
    ours: Float[Tensor, "d b"], theirs: Float[Tensor, "d n"], weights: Float[Tensor, "n b"], group: int
) -> Float[Tensor, "b d"]:
    """Return Σ_n w (q_g − t_g) / ‖q_g − t_g‖ for one side of all pairs."""
    pull = ours.new_empty(ours.T.shape)
    grid = triton.cdiv(len(pull), ROWS_PER_SIDE), len(ours) // group
    wide = max(16, triton.next_power_of_2(group))
    with torch.cuda.device_of(ours):
        _pull[grid](
            *(ours, theirs, weights, pull, len(pull), theirs.shape[1], len(ours), torch.finfo(torch.float32).tiny),
            GROUP=group,
            WIDE=wide,
            FEW=FEW,
            ROWS=ROWS_PER_SIDE,
            TILE=ROWS_PER_SIDE if group <= FEW else ROWS_PER_SIDE // 2,
        )
    return pull


@triton.jit
def _compare(ours, theirs, total, rows, columns, groups, GROUP: tl.constexpr, TILE: tl.constexpr):
    row = tl.program_id(1).to(tl.int64) * TILE + tl.arange(0, TILE)
    column = tl.program_id(0) * TILE + tl.arange(0, TILE)
    sums = tl.zeros((TILE, TILE), tl.float32)
    for _ in range(groups):
        squares = tl.zeros((TILE, TILE), tl.float32)
        for _ in tl.static_range(GROUP):
            one = tl.load(ours + row, row < rows, 0.0)
            other = tl.load(theirs + column, column < columns, 0.0)
            ours += rows
            theirs += columns
            apart = one[:, None] - other[None, :]
            squares += apart * apart
        sums += tl.sqrt(squares)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    tl.store(total + row[:, None] * columns + column[None, :], sums, inside)


@triton.jit
def _pull(
    ours, theirs, weights, pull, rows, columns, dim, tiny,
    GROUP: tl.constexpr, WIDE: tl.constexpr, FEW: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    first = tl.program_id(1).to(tl.int64) * GROUP
    number = tl.arange(0, WIDE)
    of_first = tl.zeros((TILE, ROWS), tl.float32)
    of_second, of_third, of_fourth = of_first, of_first, of_first
    masses, sums = tl.zeros((ROWS,), tl.float32), tl.zeros((ROWS, WIDE), tl.float32)
    for start in range(0, columns, TILE):
        column = start + tl.arange(0, TILE)
        squares = tl.zeros((TILE, ROWS), tl.float32)
        for each in tl.static_range(GROUP):
            one = tl.load(ours + (first + each) * rows + row, row < rows, 0.0)
            other = tl.load(theirs + (first + each) * columns + column, column < columns, 0.0)
            apart = one[None, :] - other[:, None]
            squares += apart * apart
        inside = (column < columns)[:, None] & (row < rows)[None, :]
        weight = tl.load(weights + column.to(tl.int64)[:, None] * rows + row[None, :], inside, 0.0)
        weight = tl.where(squares > 0, weight * tl.rsqrt(tl.maximum(squares, tiny)), 0.0)
        if GROUP <= FEW:
            for each in tl.static_range(GROUP):
                one = tl.load(ours + (first + each) * rows + row, row < rows, 0.0)
                other = tl.load(theirs + (first + each) * columns + column, column < columns, 0.0)
                part = weight * (one[None, :] - other[:, None])
                if each == 0:
                    of_first += part
                elif each == 1:
                    of_second += part
                elif each == 2:
                    of_third += part
                else:
                    of_fourth += part
        else:
            # Σ w (q − t) = q Σ w − Σ w t, the second a product.
            here = (column < columns)[:, None] & (number < GROUP)[None, :]
            table = tl.load(theirs + (first + number)[None, :] * columns + column[:, None], here, 0.0)
            sums += tl.dot(tl.trans(weight), table, input_precision="ieee")
            masses += tl.sum(weight, axis=0)
    if GROUP <= FEW:
        for each in tl.static_range(GROUP):
            if each == 0:
                found = tl.sum(of_first, axis=0)
            elif each == 1:
                found = tl.sum(of_second, axis=0)
            elif each == 2:
                found = tl.sum(of_third, axis=0)
            else:
                found = tl.sum(of_fourth, axis=0)
            tl.store(pull + row * dim + first + each, found, row < rows)
    else:
        here = (row < rows)[:, None] & (number < GROUP)[None, :]
        own = tl.load(ours + (first + number)[None, :] * rows + row[:, None], here, 0.0)
        tl.store(pull + row[:, None] * dim + first + number[None, :], own * masses[:, None] - sums, here)
