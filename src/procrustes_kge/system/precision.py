"""How products round, and whether sums repeat to the last bit: switches of the whole process.

PyTorch has one of each for all threads. Here several users, nested or in threads of their own, may want different
values at once: the strictest one holds, and after the last user the value from before the first is restored.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, Generic, TypeVar

import torch

Value = TypeVar("Value")

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"  # without one of two fixed values cuBLAS may change its order of sums


class Switch(Generic[Value]):
    """A setting of the whole process that several users may want changed at once."""

    def __init__(
        self, read: Callable[[], Value], write: Callable[[Value], object], strictness: Callable[[Value], int]
    ) -> None:
        self.read, self.write, self.strictness = read, write, strictness
        self.lock = threading.Lock()
        self.wishes: list[Value] = []
        self.before: Value

    @contextmanager
    def wanted(self, value: Value) -> Iterator[None]:
        """Keep the switch at this value, or at a stricter one that another user wants."""
        with self.lock:
            if not self.wishes:
                self.before = self.read()
            self.wishes.append(value)
            self.write(max(self.wishes, key=self.strictness))
        try:
            yield
        finally:
            with self.lock:
                self.wishes.remove(value)
                self.write(max(self.wishes, key=self.strictness) if self.wishes else self.before)


def _precision_of(backend: Any) -> Switch[str]:
    name = "fp32_precision"
    return Switch(partial(getattr, backend, name), partial(setattr, backend, name), ("tf32", "ieee").index)


_ON_A_GPU = [_precision_of(torch.backends.cuda.matmul), _precision_of(torch.backends.cudnn.conv)]  # type: ignore[attr-defined]
_ON_THE_CPU = _precision_of(torch.backends.mkldnn.matmul)  # type: ignore[attr-defined]


@contextmanager
def _products(precision: str, switches: Iterable[Switch[str]]) -> Iterator[None]:
    with ExitStack() as stack:
        for switch in switches:
            stack.enter_context(switch.wanted(precision))
        yield


def exact_products() -> AbstractContextManager[None]:
    """Keep float32 products in float32: the rounding of TF32 would make ties out of near misses."""
    return _products("ieee", (*_ON_A_GPU, _ON_THE_CPU))


def rough_products() -> AbstractContextManager[None]:
    """Let a GPU round products to TF32, several times as fast and good enough to learn by, unless others want exact."""
    return _products("tf32", _ON_A_GPU)


def _read_determinism() -> tuple[bool, bool, str | None]:
    enabled, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    return enabled, warns, os.environ.get(WORKSPACE)


def _write_determinism(state: tuple[bool, bool, str | None]) -> None:
    enabled, warns, workspace = state
    torch.use_deterministic_algorithms(enabled, warn_only=warns)
    if workspace is None:
        os.environ.pop(WORKSPACE, None)
    else:
        os.environ[WORKSPACE] = workspace


_DETERMINISM = Switch(_read_determinism, _write_determinism, lambda _: 0)


def deterministic_algorithms(wanted: bool) -> AbstractContextManager[None]:
    """Let PyTorch use deterministic algorithms and refuse others, if wanted."""
    return _DETERMINISM.wanted((True, False, os.environ.get(WORKSPACE, ":4096:8"))) if wanted else nullcontext()
