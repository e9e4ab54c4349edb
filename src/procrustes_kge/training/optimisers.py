"""How tables of numbers move down their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from procrustes_kge.training.state import State, copy_into


@runtime_checkable
class Optimiser(Protocol):
    """Moves one table; what it remembers between steps belongs to that table."""

    def __call__(self, values: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Move values in place."""

    def state(self) -> State:
        """Return what it remembers."""

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Remember what `state` returned."""


class Adam:
    """Adam: the running mean of the gradient over the root of that of its square, number by number."""

    def __init__(self, values: Tensor) -> None:
        self.mean, self.square, self.taken = torch.zeros_like(values), torch.zeros_like(values), 0

    def __call__(self, values: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Move values in place."""
        keep_mean, keep_square = 0.9, 0.999
        self.taken += 1
        self.mean.lerp_(gradient, 1 - keep_mean)
        self.square.mul_(keep_square).addcmul_(gradient, gradient, value=1 - keep_square)
        scale = (self.square / (1 - keep_square**self.taken)).sqrt_().add_(1e-8)
        values.addcdiv_(self.mean, scale, value=-learning_rate / (1 - keep_mean**self.taken))

    def state(self) -> State:
        """Return both means and the number of steps taken."""
        return {"mean": self.mean, "square": self.square, "taken": torch.tensor(self.taken)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take means and steps from a state."""
        copy_into({"mean": self.mean, "square": self.square}, state)
        self.taken = int(state["taken"])


class Adagrad:
    """Adagrad: the gradient over the root of the sum of its squares so far, so that rare entities keep moving."""

    def __init__(self, values: Tensor) -> None:
        self.square = torch.zeros_like(values)

    def __call__(self, values: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Move values in place; the gradient may be overwritten."""
        self.square.addcmul_(gradient, gradient)
        values.addcdiv_(gradient, self.square.sqrt().add_(1e-10), value=-learning_rate)

    def move_rows(self, rows: Tensor, values: Tensor, gradient: Tensor, learning_rate: float) -> None:
        """Move copies of some rows of the table in place; no row twice. The others' gradients are zero."""
        square = self.square[rows].addcmul_(gradient, gradient)
        self.square[rows] = square
        values.addcdiv_(gradient, square.sqrt_().add_(1e-10), value=-learning_rate)

    def state(self) -> State:
        """Return the sum of squares."""
        return {"square": self.square}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take the sum of squares from a state."""
        copy_into({"square": self.square}, state)
