"""Where to compute, and how long that takes there."""

import time
from collections.abc import Callable
from typing import TypeVar

import torch

from procrustes_kge.errors import InputError
from procrustes_kge.words import counted

Result = TypeVar("Result")


def choose_device(name: str) -> torch.device:
    """Return the device of a name; `auto` is the GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"unknown device {name!r}, expected cpu, cuda, cuda:N or auto") from None
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"device {name!r} is not supported, expected cpu, cuda, cuda:N or auto")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        seen = counted(torch.cuda.device_count(), "GPU") if torch.cuda.is_available() else "no GPU"
        raise InputError(f"device {name!r}, but PyTorch {torch.__version__} sees {seen}; try --device cpu")
    return device


def timed(work: Callable[[], Result], device: torch.device) -> tuple[Result, float]:
    """Return the result of work, and the seconds until its device has done it."""
    started = time.perf_counter()
    result = work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return result, time.perf_counter() - started
