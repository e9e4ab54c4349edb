"""Running out of memory: recognise it, explain it in one sentence, or go on in smaller pieces."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

from procrustes_kge.errors import InputError

Result = TypeVar("Result")

# PyTorch raises a plain RuntimeError where memory runs out on the CPU, and inside CUDA's own libraries.
_ON_A_GPU = re.compile(r"CUDA error: out of memory|CU\w+_STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an error means too little memory, on the GPU or on the CPU."""
    says = any(words in str(error) for words in ("tried to allocate", "Storage size calculation overflowed"))
    return (says and isinstance(error, RuntimeError)) or isinstance(error, MemoryError) or _gpu_is_full(error)


@contextmanager
def explain_out_of_memory(what: str, instead: str) -> Iterator[None]:
    """Turn running out of memory while doing `what` into an error that says what to try instead."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        where, elsewhere = ("the GPU", ", or --device cpu") if _gpu_is_full(error) else ("this machine", "")
        raise InputError(f"{where} ran out of memory while {what}; try {instead}{elsewhere}") from None


def shrinking(work: Callable[[int], Result], size: int, least: int = 1) -> tuple[Result, int]:
    """Return work(size) and the size that fitted: halved, to multiples of `least`, whenever memory runs out.

    Work that runs out of memory is started again: it must leave nothing half done. At `least` the error is raised.
    """
    while True:
        try:
            return work(size), size
        except (RuntimeError, MemoryError) as error:
            if size <= least or not is_out_of_memory(error):
                raise
        torch.cuda.empty_cache()  # outside of `except`: the error's traceback holds what did not fit
        size = max(least, size // 2 // least * least)


def _gpu_is_full(error: BaseException) -> bool:
    says = isinstance(error, RuntimeError) and _ON_A_GPU.search(str(error))
    return isinstance(error, torch.OutOfMemoryError) or bool(says)
