"""Optimisers of single tables: each remembers its own moments between steps."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from procrustes_kge.training.state import Remembering


class Optimiser(Remembering):
    """Moves a table of numbers by its gradients."""

    moments: ClassVar[int]  # tables of the same size that it remembers
    moves_rows: ClassVar[bool] = False  # whether a gradient of 0 leaves a row as it is, so that the others will do

    def __init__(self, values: Tensor) -> None:
        raise NotImplementedError

    def __call__(self, values: Tensor, gradient: Tensor, learning_rate: float | Tensor) -> None:
        """Move values in place; the gradient may be overwritten."""
        raise NotImplementedError

    def move_rows(self, rows: Tensor, values: Tensor, gradient: Tensor, learning_rate: float | Tensor) -> None:
        """Move copies of some rows of the table in place; no row twice. The others' gradients are zero."""
        raise NotImplementedError


class Adam(Optimiser):
    """Adam: the running mean of the gradient over the root of that of its square, number by number."""

    remembered, moments = ("mean", "square", "taken"), 2

    def __init__(self, values: Tensor) -> None:
        self.mean, self.square = torch.zeros_like(values), torch.zeros_like(values)
        self.taken = torch.zeros((), dtype=torch.int64, device=values.device)  # counted where a recorded step reads it

    def __call__(self, values: Tensor, gradient: Tensor, learning_rate: float | Tensor) -> None:
        """Move values in place."""
        keep_mean, keep_square = 0.9, 0.999
        self.taken += 1
        taken = self.taken.double()
        self.mean.lerp_(gradient, 1 - keep_mean)
        self.square.mul_(keep_square).addcmul_(gradient, gradient, value=1 - keep_square)
        scale = (self.square / (1 - keep_square**taken)).sqrt_().add_(1e-8)
        _descend(values, self.mean, scale, learning_rate / (1 - keep_mean**taken))


class Adagrad(Optimiser):
    """Adagrad: the gradient over the root of the sum of its squares so far, so that rare entities keep moving."""

    remembered, moments, moves_rows = ("square",), 1, True

    def __init__(self, values: Tensor) -> None:
        self.square = torch.zeros_like(values)

    def __call__(self, values: Tensor, gradient: Tensor, learning_rate: float | Tensor) -> None:
        """Move values in place."""
        self.square.addcmul_(gradient, gradient)
        _descend(values, gradient, self.square.sqrt().add_(1e-10), learning_rate)

    def move_rows(self, rows: Tensor, values: Tensor, gradient: Tensor, learning_rate: float | Tensor) -> None:
        """Move copies of some rows in place."""
        square = self.square[rows].addcmul_(gradient, gradient)
        self.square[rows] = square
        _descend(values, gradient, square.sqrt_().add_(1e-10), learning_rate)


def _descend(values: Tensor, direction: Tensor, scale: Tensor, learning_rate: float | Tensor) -> None:
    """Move values in place by −rate · direction / scale."""
    if isinstance(learning_rate, Tensor) and learning_rate.is_cuda:  # read where it lies: the host would wait for it
        values.addcdiv_(direction * learning_rate, scale, value=-1)
    else:
        values.addcdiv_(direction, scale, value=-float(learning_rate))


OPTIMISERS: dict[str, type[Optimiser]] = {"adagrad": Adagrad, "adam": Adam}
