"""How tables of numbers move down their gradients."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Step(Protocol):
    """Moves one table; what it remembers between steps belongs to that table."""

    def __call__(self, values: Tensor, gradient: Tensor, rate: float) -> None:
        """Move values in place."""


class Adam:
    """Adam: the running mean of the gradient over the root of that of its square, a number at a time."""

    def __init__(self, values: Tensor) -> None:
        self.mean, self.square, self.taken = torch.zeros_like(values), torch.zeros_like(values), 0

    def __call__(self, values: Tensor, gradient: Tensor, rate: float) -> None:
        """Move values in place."""
        keep_mean, keep_square = 0.9, 0.999
        self.taken += 1
        self.mean.lerp_(gradient, 1 - keep_mean)
        self.square.mul_(keep_square).addcmul_(gradient, gradient, value=1 - keep_square)
        scale = (self.square / (1 - keep_square**self.taken)).sqrt_().add_(1e-8)
        values.addcdiv_(self.mean, scale, value=-rate / (1 - keep_mean**self.taken))


class Adagrad:
    """Adagrad: the gradient over the root of the sum of its squares so far, so that rare entities keep moving."""

    def __init__(self, values: Tensor) -> None:
        self.square = torch.zeros_like(values)

    def __call__(self, values: Tensor, gradient: Tensor, rate: float) -> None:
        """Move values in place; the gradient is used up."""
        self.square.addcmul_(gradient, gradient)
        values.addcdiv_(gradient, self.square.sqrt().add_(1e-10), value=-rate)

    def some(self, rows: Tensor, values: Tensor, gradient: Tensor, rate: float) -> None:
        """Move copies of some rows of the table in place; no row twice. The others' gradients are zero."""
        square = self.square[rows].addcmul_(gradient, gradient)
        self.square[rows] = square
        values.addcdiv_(gradient, square.sqrt_().add_(1e-10), value=-rate)
