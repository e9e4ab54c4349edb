"""Nearest orthogonal matrices, each by the way that is fast or exact where it is wanted."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from procrustes_kge.kernels import WIDEST
from procrustes_kge.linalg import (
    Polar,
    nearest_orthogonal,
    nearest_orthogonal_by_long_products,
    nearest_orthogonal_by_products,
    nearest_orthogonal_of_pairs,
)

BATCHED = 32  # the largest matrices whose SVDs a GPU takes together; of larger ones it takes 50 in a second


def polar(matrices: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch d d"]:
    """Return the nearest orthogonal matrices, by the way that is fast on this device."""
    if not matrices.is_cuda:
        return nearest_orthogonal(matrices)
    return (nearest_orthogonal_of_pairs if matrices.shape[-1] == 2 else nearest_orthogonal_by_products)(matrices)


def polar_of(width: int, fuses: bool) -> Polar:
    """Return `polar`, or the kernel in its place for matrices that it holds."""
    if not fuses or not 2 < width <= WIDEST:
        return polar
    from procrustes_kge.kernels.polar import nearest_orthogonal_fused

    return nearest_orthogonal_fused


def exact_polar(matrices: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch d d"]:
    """Return the nearest orthogonal matrices to the last digit, by the way that does not take for ever here."""
    long = matrices.is_cuda and matrices.shape[-1] > BATCHED
    return (nearest_orthogonal_by_long_products if long else nearest_orthogonal)(matrices)
