"""Steps that a GPU takes at once: what a step launches is recorded as a graph, and replayed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

WARM_UP = 3  # steps before one is recorded, in which libraries load and buffers are made


class Captured:
    """A step that is recorded once for each shape of its tensors.

    The step must not wait for the GPU, nor read a number that changes from anywhere but a tensor.
    """

    def __init__(self, step: Callable[..., Tensor]) -> None:
        self.step, self.taken = step, 0
        self.recorded: dict[tuple[torch.Size, ...], _Recorded] = {}

    def __call__(self, *tensors: Tensor) -> Tensor:
        """Take the step."""
        shapes = tuple(each.shape for each in tensors)
        self.taken += 1
        if self.taken <= WARM_UP:
            return self.step(*tensors)
        if shapes not in self.recorded:
            self.recorded[shapes] = _Recorded(self.step, tensors)
        return self.recorded[shapes](*tensors)

    def forget(self) -> None:
        """Record again from here on, since a number that the step reads has changed."""
        self.recorded.clear()


class _Recorded:
    """A recorded step, the tensors that it reads, and the one that it writes."""

    def __init__(self, step: Callable[..., Tensor], tensors: tuple[Tensor, ...]) -> None:
        self.inputs, self.graph = [each.clone() for each in tensors], torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.output = step(*self.inputs)

    def __call__(self, *tensors: Tensor) -> Tensor:
        for mine, given in zip(self.inputs, tensors, strict=True):
            mine.copy_(given)
        self.graph.replay()
        return self.output.clone()
