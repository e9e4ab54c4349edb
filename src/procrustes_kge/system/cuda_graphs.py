"""Steps that a GPU takes at once: what a step launches is recorded as a graph, and replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from warnings import catch_warnings, filterwarnings

import torch
from torch import Tensor

WARM_UP = 3  # steps of a shape before one is recorded, in which libraries load and buffers are made

Shapes = tuple[torch.Size, ...]


class Captured:
    """A step that is recorded once for each shape of its tensors.

    The step must not read a number that changes from anywhere but a tensor. One that waits for the GPU cannot be
    recorded, nor one for which there is no room twice: it is taken as it is.
    """

    def __init__(self, step: Callable[..., Tensor]) -> None:
        self.step, self.records = step, True
        self.taken: Counter[Shapes] = Counter()
        self.recorded: dict[Shapes, _Recorded] = {}

    def __call__(self, *tensors: Tensor) -> Tensor:
        """Take the step."""
        shapes = tuple(each.shape for each in tensors)
        self.taken[shapes] += 1
        if self.records and self.taken[shapes] == WARM_UP:
            return self.rehearse(tensors)
        if self.records and self.taken[shapes] > WARM_UP and shapes not in self.recorded:
            self.record(shapes, tensors)
        return self.recorded.get(shapes, self.step)(*tensors)

    def rehearse(self, tensors: tuple[Tensor, ...]) -> Tensor:
        """Take the step, and see whether it waits: while it is recorded, that could not be undone."""
        try:
            with _without_waiting():
                return self.step(*tensors)
        except RuntimeError:  # what else is wrong with a step is raised when it is taken again
            self.give_up()
            return self.step(*tensors)

    def record(self, shapes: Shapes, tensors: tuple[Tensor, ...]) -> None:
        """Record the step for these shapes, if that can be done."""
        try:
            self.recorded[shapes] = _Recorded(self.step, tensors)
        except RuntimeError:
            self.give_up()

    def give_up(self) -> None:
        """Take all steps as they are, from here on."""
        self.records = False
        self.forget()

    def forget(self) -> None:
        """Record again from here on, since a number that the step reads has changed."""
        self.recorded.clear()


class _Recorded:
    """A recorded step, the tensors that it reads, and the one that it writes."""

    def __init__(self, step: Callable[..., Tensor], tensors: tuple[Tensor, ...]) -> None:
        self.inputs, self.graph = [each.clone() for each in tensors], torch.cuda.CUDAGraph()
        # The outer one brings the stream back where recording fails.
        with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(self.graph):
            self.output = step(*self.inputs)

    def __call__(self, *tensors: Tensor) -> Tensor:
        for mine, given in zip(self.inputs, tensors, strict=True):
            mine.copy_(given)
        self.graph.replay()
        return self.output.clone()


@contextmanager
def _without_waiting() -> Iterator[None]:
    """Let whatever would wait for the GPU raise an error."""
    before = torch.cuda.get_sync_debug_mode()
    _watch_waiting("error")
    try:
        yield
    finally:
        _watch_waiting(before)


def _watch_waiting(mode: int | str) -> None:
    with catch_warnings():
        filterwarnings("ignore", "Synchronization debug mode")  # does not see all waiting
        torch.cuda.set_sync_debug_mode(mode)


class RecordedStep(Captured):
    """A step that draws from generators of its own."""

    def __init__(self, step: Callable[..., Tensor], generators: Sequence[torch.Generator] = ()) -> None:
        super().__init__(step)
