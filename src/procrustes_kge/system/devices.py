"""Where to compute, and whether sums must come out the same every time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from procrustes_kge.errors import InputError


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
        seen = f"{torch.cuda.device_count()} GPUs" if torch.cuda.is_available() else "no GPU"
        raise InputError(f"device {name!r} asked for, but PyTorch {torch.__version__} sees {seen}; try --device cpu")
    return device


@contextmanager
def exact_products() -> Iterator[None]:
    """Keep float32 products in float32: the rounding of TF32 would make ties out of near misses."""
    with _products("ieee", [*_on_a_gpu(), torch.backends.mkldnn.matmul]):  # type: ignore[attr-defined]
        yield


@contextmanager
def rough_products() -> Iterator[None]:
    """Let a GPU round what it multiplies to TF32, which is several times as fast and good enough to learn by."""
    with _products("tf32", _on_a_gpu()):
        yield


def _on_a_gpu() -> list[Any]:
    return [torch.backends.cuda.matmul, torch.backends.cudnn.conv]  # type: ignore[attr-defined]


@contextmanager
def _products(precision: str, backends: list[Any]) -> Iterator[None]:
    before = [backend.fp32_precision for backend in backends]
    for backend in backends:
        backend.fp32_precision = precision
    try:
        yield
    finally:
        for backend, kept in zip(backends, before, strict=True):
            backend.fp32_precision = kept


@contextmanager
def deterministic_algorithms(wanted: bool) -> Iterator[None]:
    """Let PyTorch refuse algorithms that may round differently from run to run."""
    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS may change its order of sums
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(wanted or before)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
