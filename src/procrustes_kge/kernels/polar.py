"""Nearest orthogonal matrices, each read and written once: the twin of `linalg.nearest_orthogonal_by_products`.

A program keeps a matrix in registers through all rounds. In plain PyTorch a round is three batched products, which
read and write all matrices.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from procrustes_kge.linalg import LIFT, LIFTS, POLISH, POLISHES

NEAR = 0.5  # ‖QᵀQ − I‖ up to which the singular values of Q, all within (0.7, 1.3), are polished at once


def nearest_orthogonal_fused(matrices: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch d d"]:
    """Return nearly the same Q as `linalg.nearest_orthogonal`: good for a step of training."""
    matrices, width = matrices.contiguous(), matrices.shape[-1]
    found = torch.empty_like(matrices)
    with torch.cuda.device_of(matrices):  # Triton launches on the current device
        _polar[(matrices.numel() // width**2,)](
            *(matrices, found, *LIFT, *POLISH, torch.finfo(torch.float32).tiny),
            WIDTH=width,
            WIDE=max(16, triton.next_power_of_2(width)),
            LIFTS=LIFTS,
            POLISHES=POLISHES,
            NEAR=NEAR,
            num_warps=2 if width <= 32 else 4,
        )
    return found


@triton.jit
def _polynomial(matrix, a, b, c):
    """Return a·x + b·x³ + c·x⁵ of the singular values."""
    gram = tl.dot(tl.trans(matrix), matrix, input_precision="tf32x3")
    inner = b * gram + c * tl.dot(gram, gram, input_precision="tf32x3")
    return a * matrix + tl.dot(matrix, inner, input_precision="tf32x3")


@triton.jit
def _orthogonal(
    matrix, lift_a, lift_b, lift_c, polish_a, polish_b, polish_c, tiny, LIFTS: tl.constexpr, POLISHES: tl.constexpr
):
    """Return a matrix, padded with zeros, with its singular values brought to one."""
    rotation = matrix / tl.maximum(tl.sqrt(tl.sum(tl.sum(matrix * matrix, axis=1), axis=0)), tiny)
    for _ in range(LIFTS):
        rotation = _polynomial(rotation, lift_a, lift_b, lift_c)
    for _ in range(POLISHES):
        rotation = _polynomial(rotation, polish_a, polish_b, polish_c)
    return rotation


@triton.jit
def _polar(
    matrices, found, lift_a, lift_b, lift_c, polish_a, polish_b, polish_c, tiny,
    WIDTH: tl.constexpr, WIDE: tl.constexpr, LIFTS: tl.constexpr, POLISHES: tl.constexpr, NEAR: tl.constexpr,
):  # fmt: skip
    columns = tl.arange(0, WIDE)
    square = (columns < WIDTH)[:, None] & (columns < WIDTH)[None, :]
    inside = tl.program_id(0).to(tl.int64) * WIDTH * WIDTH + columns[:, None] * WIDTH + columns[None, :]
    matrix = tl.load(matrices + inside, mask=square, other=0.0)
    # A rotation that a step has moved a little is nearly orthogonal, and needs no lifting.
    size = tl.sqrt(tl.sum(tl.sum(matrix * matrix, axis=1), axis=0) / WIDTH)
    rotation = matrix / tl.maximum(size, tiny)
    gram = tl.dot(tl.trans(rotation), rotation, input_precision="tf32x3")
    apart = gram - tl.where((columns[:, None] == columns[None, :]) & square, 1.0, 0.0)
    if tl.sum(tl.sum(apart * apart, axis=1), axis=0) < NEAR * NEAR:
        for _ in range(POLISHES):
            rotation = _polynomial(rotation, polish_a, polish_b, polish_c)
    else:
        rotation = _orthogonal(matrix, lift_a, lift_b, lift_c, polish_a, polish_b, polish_c, tiny, LIFTS, POLISHES)
    tl.store(found + inside, rotation, mask=square)
