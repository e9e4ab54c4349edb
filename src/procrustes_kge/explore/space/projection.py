"""Entity vectors in three dimensions: principal components, the same each time, or turned to lie as another picture."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.linalg import nearest_orthogonal

ROWS_AT_ONCE = 8192  # of a table, as it is centred: no second table of its size is made
FLAT = 1e-12  # of the largest variance: below it a direction is rounding noise
UNDECIDED = 1e-6  # of Σ|x|³: a third moment below it says nothing of a sign


@dataclass(frozen=True)
class Projection:
    """Points of few dimensions: (x − centre) directionsᵀ, the directions orthonormal and the widest first."""

    points: Float[Tensor, "n k"]
    directions: Float[Tensor, "k d"]
    centre: Float[Tensor, " d"]
    shares: Float[Tensor, " k"]  # of the variance; their sum is what the picture shows of the whole


def entity_vectors(model: Any) -> Float[Tensor, "n d"]:
    """Return a model's entity vectors, one real row for each; of complex numbers, the real and the imaginary parts."""
    table = getattr(model, "table", None)
    if table is None and hasattr(model, "encode"):
        table = getattr(model.encode(), "entities", None)
    kind = getattr(model, "kind", type(model).__name__)
    if not isinstance(table, Tensor) or table.ndim < 2 or table.numel() == 0:
        seen = f"a tensor of shape {tuple(table.shape)}" if isinstance(table, Tensor) else f"{type(table).__name__}"
        raise InputError(f"the entities of this {kind} are {seen}, expected a vector for each; give another model")
    table = table.detach().cpu()
    rows = torch.view_as_real(table).flatten(1) if table.is_complex() else table.flatten(1)
    if not rows.isfinite().all():
        raise InputError(
            f"the entity vectors of this {kind} hold numbers that are not finite, so they have no place in a picture; "
            "the learning rate may have been too high: train again with a lower one"
        )
    return rows.float() if rows.dtype in (torch.float16, torch.bfloat16) else rows


def project(vectors: Float[Tensor, "n d"], components: int = 3) -> Projection:
    """Return the principal components of vectors: the directions of largest variance, Σ = Vᵀ diag(λ) V.

    Where there are fewer directions than asked for, as of two entities, the rest are zero. A direction and its opposite
    serve equally; of the two, the one is taken whose points have a positive third moment Σx³, so that the long arm
    points to where numbers grow, whatever basis the vectors are written in.
    """
    count, dim = vectors.shape
    centre = vectors.double().mean(dim=0)
    known = min(components, dim, count)
    if count <= dim:
        found = torch.linalg.svd(vectors.double() - centre, full_matrices=False)
        values, directions = found.S.square(), found.Vh[:known]
    else:
        ascending, columns = torch.linalg.eigh(_scatter(vectors, centre))
        values, directions = ascending.flip(0).clamp_min(0), columns.T.flip(0)[:known]
    points = torch.cat([(rows.double() - centre) @ directions.T for rows in vectors.split(ROWS_AT_ONCE)])
    points[:, values[:known] <= FLAT * values.max().clamp_min(torch.finfo(values.dtype).tiny)] = 0
    signs = _signs(points)
    missing = components - known
    shares = values[:known] / values.sum().clamp_min(torch.finfo(values.dtype).tiny)
    return Projection(
        torch.nn.functional.pad(points * signs, (0, missing)).float(),
        torch.nn.functional.pad(directions * signs[:, None], (0, 0, 0, missing)).float(),
        centre.float(),
        torch.nn.functional.pad(shares, (0, missing)).float(),
    )


def _scatter(vectors: Float[Tensor, "n d"], centre: Float[Tensor, " d"]) -> Float[Tensor, "d d"]:
    """Return Σ (x − centre)(x − centre)ᵀ: products as exact as the vectors are, sums in float64."""
    total = torch.zeros(vectors.shape[1], vectors.shape[1], dtype=torch.float64)
    for rows in vectors.split(ROWS_AT_ONCE):
        centred = (rows.double() - centre).to(vectors.dtype)
        total += centred.T @ centred
    return total


def _signs(points: Float[Tensor, "n k"]) -> Float[Tensor, " k"]:
    """Return 1 or −1 for each component; one whose points are as many on both sides goes by the first far point."""
    third = points.pow(3).sum(dim=0)
    undecided = third.abs() <= UNDECIDED * points.abs().pow(3).sum(dim=0)
    far = points.abs() >= 0.999 * points.abs().amax(dim=0)  # more than one where they are equal but for rounding
    first = points.gather(0, far.to(torch.uint8).argmax(dim=0, keepdim=True))[0]
    signs = torch.where(undecided, first, third).sign()
    return torch.where(signs == 0, torch.ones_like(signs), signs)


def turned_like(
    points: Float[Tensor, "n k"], other: Float[Tensor, "m k"], rows: Int[Tensor, " c"], others: Int[Tensor, " c"]
) -> Float[Tensor, "k k"]:
    """Return the orthogonal Q for which points[rows] Q lie as other[others] do (Eq. 3); of nothing, the identity."""
    if len(rows) == 0:
        return torch.eye(points.shape[1], dtype=points.dtype)
    ours, theirs = (each - each.mean(dim=0) for each in (points[rows].double(), other[others].double()))
    covariance = ours.T @ theirs
    return nearest_orthogonal(covariance + covariance.norm() * 1e-9 * torch.eye(len(covariance))).to(points.dtype)


def umap_points(vectors: Float[Tensor, "n d"], components: int = 3, seed: int = 0) -> Float[Tensor, "n k"]:
    """Return UMAP's picture of vectors, where umap-learn is installed: neighbours stay neighbours, distances do not."""
    try:
        umap = import_module("umap")
    except ImportError:
        raise InputError("the projection umap needs umap-learn: pip install umap-learn; or use pca") from None
    if len(vectors) <= components + 1:
        raise InputError(f"umap of {len(vectors)} entities, expected more than {components + 1}; use pca")
    neighbours = min(15, len(vectors) - 1)
    # One job: with more, a seed would not repeat.
    found = umap.UMAP(n_components=components, n_neighbors=neighbours, random_state=seed, n_jobs=1)
    points = torch.from_numpy(found.fit_transform(vectors.numpy())).float()
    return points - points.mean(dim=0)
