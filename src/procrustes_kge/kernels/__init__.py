"""Fused forms of the steps that take most time. Each has a plain twin that does the same, and is tested against it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from procrustes_kge.layouts.fused import FusedLayout
from procrustes_kge.system.memory import is_out_of_memory

WIDEST = 64  # numbers in a segment: larger matrices do not fit into the registers of a program
WIDEST_GROUP = 32  # numbers whose distance is one of several: their loop is unrolled
FEWEST_STEPPED = 2**21  # numbers: to load Triton takes longer than is won on fewer


def can_fuse(device: torch.device, width: int, entities: int) -> bool:
    """Say whether the Triton kernels run on this device for segments of this width and this many entities."""
    return (
        width <= WIDEST
        and torch.get_default_dtype() == torch.float32
        and width * entities < 2**31  # indices within a segment are of 32 bits
        and runs_on(device)
    )


def can_compare(vectors: Tensor, group: int) -> bool:
    """Say whether a Triton kernel sums the distances of groups of this many numbers."""
    return group <= WIDEST_GROUP and vectors.dtype == torch.float32 and runs_on(vectors.device)


def can_step(vectors: Tensor) -> bool:
    """Say whether Triton kernels take the steps of training with negatives, and are worth loading."""
    large = vectors.numel() >= FEWEST_STEPPED and vectors.dtype == torch.float32
    return large and runs_on(vectors.device, _take_a_step)


@cache
def runs_on(device: torch.device, attempt: Callable[[torch.device], None] | None = None) -> bool:
    """Say whether the Triton kernels run on this device, those of an attempt above all."""
    return (
        device.type == "cuda"
        and torch.version.hip is None
        and torch.cuda.get_device_capability(device) >= (8, 0)  # the first with products of TF32
        and find_spec("triton") is not None
        and _compiles(device, attempt or _train_an_epoch)
    )


@cache
def _compiles(device: torch.device, attempt: Callable[[torch.device], None]) -> bool:
    """Say whether Triton can build a kernel here: it needs a C compiler, which slim systems lack."""
    try:
        attempt(device)
    except Exception as error:  # whichever it is: plain PyTorch does the same work
        if is_out_of_memory(error):  # of the moment, and no reason to do without kernels for good
            raise
        warnings.warn(f"training in plain PyTorch, as no kernel can be built: {error}", RuntimeWarning, stacklevel=2)
        return False
    return True


def _train_an_epoch(device: torch.device) -> None:
    from procrustes_kge.kernels.full_batch import FusedSegments

    layout = FusedLayout.of(torch.zeros(1, 3, dtype=torch.int64, device=device), 1, 1)
    small = FusedSegments(torch.ones(1, 1, 16, device=device), layout)
    small.train_epoch(0.1, translate=False, by_norm=False, adam=False, near=0.1)


def _take_a_step(device: torch.device) -> None:
    from procrustes_kge.kernels.adagrad import move_
    from procrustes_kge.kernels.polar import nearest_orthogonal_fused
    from procrustes_kge.kernels.queries import FusedQueries, QueryGradients
    from procrustes_kge.kernels.rows import weigh_rows
    from procrustes_kge.kernels.softmax import against_all_fused

    (vectors, square), whole = torch.ones(2, 16, 20, device=device), torch.ones(16, 24, device=device)
    rotations, sides = nearest_orthogonal_fused(torch.ones(2, 1, 20, 20, device=device)), vectors[:2, None].clone()
    ids, mass = torch.zeros(16, dtype=torch.int64, device=device), torch.zeros(16, device=device)
    mass, _, ends = weigh_rows(ids + 1, 1.0, (mass[0], mass[1], mass[2]))
    queries = FusedQueries(vectors, rotations, sides, sides, ids, ids[:1])
    table = torch.ones(16, 24, dtype=torch.bfloat16, device=device)
    _, found = against_all_fused(queries.rounded(24), table, ids, ids + 1, mass, whole, 16, ends=ends)
    queries.pull_(found, mass, 0.1, 2.0, QueryGradients(whole, torch.zeros_like(rotations), sides, sides))
    move_(vectors, square, whole[:, :20], mass.sum(), mass.sum(), table, mass, 0.1)
