"""Least values of many smooth functions at once, one for each row of a table."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

Rows = Float[Tensor, "rows numbers"]
Loss = Callable[[Rows], Float[Tensor, " rows"]]  # leaves the gradient of their sum in its argument's `grad`

STEPS = 60
SETTLED = 1e-3  # a step that is shorter than this share of its row is the last
FIRST_STEP = 0.1  # of the usual length of a row
LONGEST = 1.0  # the same of any step
GROWTH = 4.0  # how much longer than the one before a step may be, in units of the gradient


def minimised(loss: Loss, start: Rows, usual: float, steps: int = STEPS) -> Rows:
    """Return the rows from which no step gains much, found by gradients alone (Barzilai and Borwein, 1988).

    A row moves by −α g, with α = ⟨s, s⟩ / ⟨s, y⟩ of its last step s and the change y of its gradient: one over the
    curvature that it met. Where that step has raised its loss it is taken back, and a quarter of it is tried.
    `usual` is the usual length of a row.
    """
    rows, gradient, value = _looked(loss, start)
    longest = LONGEST * usual
    step = FIRST_STEP * usual / _length(gradient)
    for _ in range(steps):
        move = -step * gradient
        move = move * (longest / _length(move)).clamp(max=1)
        tried, new_gradient, new_value = _looked(loss, rows + move)
        # Rows that know each other move at once, so that a little more loss may be the others' doing.
        better = (new_value <= value + 1e-4 * value.abs() + 1e-7)[:, None]
        change = new_gradient - gradient
        met = (move * change).sum(dim=1, keepdim=True)
        length = move.square().sum(dim=1, keepdim=True)
        next_step = torch.where(met > 0, length / met.clamp_min(torch.finfo(met.dtype).tiny), GROWTH * step)
        next_step = torch.minimum(next_step, GROWTH * step)
        settled = length.sqrt() <= SETTLED * _length(rows).clamp_min(1e-3 * usual)
        step = torch.where(better, next_step, step / 4)
        rows, gradient = torch.where(better, tried, rows), torch.where(better, new_gradient, gradient)
        value = torch.where(better[:, 0], new_value, value)
        if bool(settled.all()):
            break
    return rows


def _looked(loss: Loss, rows: Rows) -> tuple[Rows, Rows, Float[Tensor, " rows"]]:
    """Return the rows, the gradient of each, and its loss."""
    moved = rows.detach().requires_grad_()
    with torch.enable_grad():
        value = loss(moved)
    gradient = torch.zeros_like(rows) if moved.grad is None else moved.grad
    return rows.detach(), gradient, value


def _length(rows: Rows) -> Float[Tensor, "rows 1"]:
    return torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)
