"""Fused forms of the hot steps. Each has a plain twin that says what it computes, and that it is tested against."""

from __future__ import annotations

from importlib.util import find_spec

import torch

WIDEST = 64  # numbers in a segment: larger matrices do not fit into the registers of a program


def can_fuse(device: torch.device, width: int) -> bool:
    """Say whether the Triton kernels run on this device for segments this wide."""
    return (
        device.type == "cuda"
        and width <= WIDEST
        and find_spec("triton") is not None
        and torch.cuda.get_device_capability(device) >= (8, 0)  # the first with products of TF32
    )
