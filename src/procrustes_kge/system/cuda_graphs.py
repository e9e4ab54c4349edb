"""Training steps that a GPU replays: what a step launches is recorded once as a CUDA graph."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from procrustes_kge.system.memory import is_out_of_memory

WARM_UP = 3  # steps of a shape before one is recorded, in which libraries load and buffers are made
WAITS = "called a synchronizing CUDA operation"  # what PyTorch says of a step that waits for the GPU

Kind = tuple[Hashable, ...]  # the shapes of tensors, and what else tells steps apart

_lock = threading.Lock()  # PyTorch watches for waiting in the whole process, and records on one stream


class RecordedStep:
    """A step that is recorded once for each shape of its tensors and each kind, and replayed from then on.

    The step reads a number that changes from tensors alone, and draws from PyTorch's own generator of the GPU or from
    `generators`. Two kinds of steps cannot be recorded: those that wait for the GPU, and those that do
    not fit into memory twice. A warning says so, and they are taken one by one.
    """

    def __init__(
        self, step: Callable[..., Tensor], generators: Sequence[torch.Generator] = (), warm_up: int | None = None
    ) -> None:
        self.step, self.generators, self.records = step, generators, True
        self.warm_up = WARM_UP if warm_up is None else warm_up
        self.taken: Counter[Kind] = Counter()
        self.recorded: dict[Kind, _Recording] = {}

    def __call__(self, *tensors: Tensor, **options: Hashable) -> Tensor:
        """Take the step; where options differ, it is another kind of step."""
        kind: Kind = (*(each.shape for each in tensors), *options.items())
        step = partial(self.step, **options)
        if kind not in self.recorded and self.records:
            self.taken[kind] += 1
            if self.taken[kind] == self.warm_up:
                return self.rehearse(step, tensors)
            if self.taken[kind] > self.warm_up:
                self.record(kind, step, tensors)
        return self.recorded.get(kind, step)(*tensors)

    def rehearse(self, step: Callable[..., Tensor], tensors: tuple[Tensor, ...]) -> Tensor:
        """Take the step, and see whether it waits: recording such a step would fail halfway."""
        with _lock, _watching() as waits:
            result = step(*tensors)
        if waits:
            self.give_up(f"it waits for the GPU ({waits[0]})")
        return result

    def record(self, kind: Kind, step: Callable[..., Tensor], tensors: tuple[Tensor, ...]) -> None:
        """Record the step, if memory allows."""
        # All recordings use the same memory: only one is replayed at a time, and what it gives is copied.
        pool = next((each.graph.pool() for each in self.recorded.values()), None)
        try:
            with _lock:
                self.recorded[kind] = _Recording(step, tensors, self.generators, pool)
        except (RuntimeError, MemoryError) as error:
            # What ends a recording that ran out of memory may fail too, with an error of its own.
            if not any(is_out_of_memory(each) for each in (error, error.__context__) if each is not None):
                raise
            self.give_up("the GPU has no memory left for a second copy of it")

    def give_up(self, reason: str) -> None:
        """Take all steps one by one from here on, and say why."""
        self.records = False
        self.forget()
        warnings.warn(
            f"training is slower, with the same results: the step is not recorded as a CUDA graph, since {reason}",
            RuntimeWarning,
            stacklevel=4,
        )

    def forget(self) -> None:
        """Record again from here on, since a number that the step reads has changed."""
        self.recorded.clear()


class _Recording:
    """A CUDA graph of a step, the tensors that it reads, and the one that it writes."""

    def __init__(
        self,
        step: Callable[..., Tensor],
        tensors: tuple[Tensor, ...],
        generators: Sequence[torch.Generator],
        pool: Any = None,
    ) -> None:
        self.inputs, self.graph = [each.clone() for each in tensors], torch.cuda.CUDAGraph()
        for generator in generators:  # each replay draws new numbers, as from PyTorch's own generator
            self.graph.register_generator_state(generator)
        # The outer stream comes back where recording fails. Other threads may do meanwhile what a recording may not.
        with (
            torch.cuda.stream(torch.cuda.current_stream()),
            torch.cuda.graph(self.graph, pool=pool, capture_error_mode="thread_local"),
        ):
            self.output = step(*self.inputs)
        # PyTorch sets the place of the generators for the recording on a stream of its own, and waits for nothing. On a
        # busy GPU that would come after the place is set for the first replay, which would draw again what was drawn.
        torch.cuda.synchronize()

    def __call__(self, *tensors: Tensor) -> Tensor:
        for mine, given in zip(self.inputs, tensors, strict=True):
            mine.copy_(given)
        self.graph.replay()
        return self.output.clone()


@contextmanager
def _watching() -> Iterator[list[str]]:
    """Give a list that holds, at the end, the place of each wait for the GPU."""
    waits: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", message=WAITS)
        warnings.filterwarnings("ignore", message="Synchronization debug mode")  # that it does not see all waiting
        before = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield waits
        finally:
            torch.cuda.set_sync_debug_mode(before)
    for each in caught:
        if WAITS in str(each.message):
            waits.append(f"{Path(each.filename).name}, line {each.lineno}")
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
