"""The mathematics of PROCRUSTES: tensors in, tensors out.

Nothing here knows of files, devices, logs or settings. Vectors are laid out ``[..., entities, width]``: the leading
dimensions are segments, which never meet in training, so every function works on one segment or on many alike.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor
from torch.nn.functional import embedding_bag

# Odd polynomials a·x + b·x³ + c·x⁵. Seven lifts (the coefficients known from the Muon optimiser) carry every singular
# value in [1e-4, 1] into (0.6, 1.3); three polishes, which touch 1 to second order, leave it within 2e-6 of 1.
LIFT, LIFTS = (3.4445, -4.7750, 2.0315), 7
POLISH, POLISHES = (15 / 8, -10 / 8, 3 / 8), 3
MORE_LIFTS = 30  # carry every singular value from 1e-12 on; a few more polishes make the rest exact
ORTHOGONAL = 1e-9  # what ‖QᵀQ − I‖ may be of a matrix that is kept, in float64

Polar = Callable[[Tensor], Tensor]  # such as `nearest_orthogonal`


def spherise(vectors: Float[Tensor, "*batch entities width"]) -> Float[Tensor, "*batch entities width"]:
    """Return the vectors centred over all entities, then scaled to length one.

    Without it the loss is least at zero, where everything collapses. A vector that lies exactly on the centre has no
    direction and stays zero.
    """
    centred = vectors - vectors.mean(dim=-2, keepdim=True)
    return centred / _length(centred)


def spherise_(vectors: Float[Tensor, "*batch entities width"]) -> Float[Tensor, "*batch entities width"]:
    """Spherise in place: the form that training uses, one pass less over memory."""
    vectors.sub_(vectors.mean(dim=-2, keepdim=True))
    return vectors.div_(_length(vectors))


def _length(vectors: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch 1"]:
    return torch.linalg.vector_norm(vectors, dim=-1, keepdim=True).clamp_min(torch.finfo(vectors.dtype).tiny)


def cross_covariance(
    heads: Float[Tensor, "*batch n width"], tails: Float[Tensor, "*batch n width"]
) -> Float[Tensor, "*batch width width"]:
    """Return M = Hᵀ T, all that the closed form needs to know of one relation's triples (row i is triple i)."""
    return heads.mT @ tails


def nearest_orthogonal(matrices: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch d d"]:
    """Return the orthogonal Q that maximises tr(Qᵀ M): U Vᵀ where M = U Σ Vᵀ (Eq. 3)."""
    left, _, right = torch.linalg.svd(matrices)
    return left @ right


def nearest_orthogonal_by_products(
    matrices: Float[Tensor, "*batch d d"], lifts: int = LIFTS, polishes: int = POLISHES
) -> Float[Tensor, "*batch d d"]:
    """Return nearly the same Q as `nearest_orthogonal`, by matrix products alone, which are fast on GPUs in batches.

    An odd polynomial of M acts on its singular values and leaves U and V alone; composed until every σ is 1, it gives
    U Vᵀ. Directions with σ under 1e-4 of the largest may stay shorter than one: good for a step of training, where
    they carry no weight, and not for a matrix that is kept.
    """
    size = torch.linalg.matrix_norm(matrices, keepdim=True).clamp_min(torch.finfo(matrices.dtype).tiny)
    rotations = (matrices / size).flatten(0, -3) if matrices.ndim > 2 else (matrices / size)[None]
    for a, b, c in (LIFT,) * lifts + (POLISH,) * polishes:
        gram = rotations.mT @ rotations
        inner = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        rotations = torch.baddbmm(rotations, rotations, inner, beta=a)
    return rotations.view_as(matrices)


def nearest_orthogonal_by_long_products(matrices: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch d d"]:
    """Return the same Q as `nearest_orthogonal`, orthogonal to the last digit of float32, by products in float64.

    For GPUs, which take the SVDs of larger matrices one by one. Those whose singular values are too far apart for
    products are left to the SVD.
    """
    exact = matrices.double().flatten(0, -3) if matrices.ndim > 2 else matrices.double()[None]
    rotations = nearest_orthogonal_by_products(exact, MORE_LIFTS, 2 * POLISHES)
    eye = torch.eye(exact.shape[-1], dtype=exact.dtype, device=exact.device)
    wrong = (rotations.mT @ rotations - eye).abs().amax(dim=(-2, -1)) > ORTHOGONAL
    if wrong.any():
        rotations[wrong] = nearest_orthogonal(exact[wrong])
    return rotations.view_as(matrices).to(matrices.dtype)


def nearest_orthogonal_of_pairs(matrices: Float[Tensor, "*batch 2 2"]) -> Float[Tensor, "*batch 2 2"]:
    """Return the same Q of 2 × 2 matrices, which needs no iteration: M + sign(det M) · cofactors of M, to its length.

    Both parts of the sum turn alike: M = U Σ Vᵀ has the cofactors ± U Σ' Vᵀ, Σ' with the singular values exchanged.
    """
    size = matrices.abs().amax(dim=(-2, -1), keepdim=True).clamp_min(torch.finfo(matrices.dtype).tiny)
    (a, b), (c, d) = ((row.unbind(-1)) for row in (matrices / size).unbind(-2))
    sign = torch.where(a * d < b * c, -1.0, 1.0).to(matrices.dtype)
    along, across = a + sign * d, b - sign * c
    length = torch.hypot(along, across).clamp_min(torch.finfo(matrices.dtype).tiny)
    along, across = along / length, across / length
    return torch.stack([along, across, -sign * across, sign * along], dim=-1).view_as(matrices)


def completed(covariances: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch d d"]:
    """Return M + ε·diag(1, −1, 1, …), ε = √(machine precision) · ‖M‖: its nearest orthogonal matrix is unique.

    Relations with few distinct heads or tails leave M singular and Q free in some directions; rounding would choose
    there, differently on each machine. ε lies far above the rounding of M and far below its useful part. Signs that
    alternate neither favour nor disfavour the head itself as an answer; the identity would favour it.
    The diagonal is its own transpose, so heads and tails may still be swapped.
    """
    size = torch.linalg.matrix_norm(covariances, keepdim=True).clamp_min(1.0)  # at least one triple's worth
    signs = covariances.new_ones(covariances.shape[-1])
    signs[1::2] = -1
    return covariances + torch.finfo(covariances.dtype).eps ** 0.5 * size * torch.diag(signs)


def procrustes_step(
    rotation: Float[Tensor, "*batch d d"],
    gradient: Float[Tensor, "*batch d d"],
    bound: Float[Tensor, "*batch"],
    polar: Polar = nearest_orthogonal,
) -> Float[Tensor, "*batch d d"]:
    """Return nearest_orthogonal(L·Q − ∂loss/∂Q): the best next Q under a quadratic bound of curvature L.

    On orthogonal matrices (L/2)‖Q − Q₀‖² is constant but for L·⟨Q, Q₀⟩, so minimising the bound is a Procrustes
    problem. The loss cannot rise if L is at least its largest curvature; with L = 0 and gradient −M it is Eq. 3.
    """
    return polar(bound[..., None, None] * rotation - gradient)


def inverse_norms(
    residuals: Float[Tensor, "*batch relations"], triples: Real[Tensor, " relations"]
) -> Float[Tensor, "*batch relations"]:
    """Return 1/‖D‖ from ‖D‖², the weights that ∂‖D‖ = D/‖D‖ gives; 0 where the norm is no more than rounding."""
    precision = torch.finfo(residuals.dtype).eps
    noise = 10 * precision * triples.clamp_min(1)
    return torch.where(residuals > noise, residuals.clamp_min(precision).rsqrt(), 0)


def bag_sum(
    rows: Float[Tensor, "rows width"],
    members: Int[Tensor, " members"],
    offsets: Int[Tensor, " bags_and_one"],
    weights: Float[Tensor, " members"] | None = None,
) -> Float[Tensor, "bags width"]:
    """Return Σ w_m rows[m] over members[offsets[i] : offsets[i+1]] for every bag i, always added in the same order.

    So are gradients, of weights too; what each member adds is not kept.
    """
    return embedding_bag(members, rows, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True)


def starts(sizes: Int[Tensor, " bags"]) -> Int[Tensor, " bags_and_one"]:
    """Return where the members of each bag start, bag after bag, and last how many there are."""
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


def numbered(sizes: Int[Tensor, " bags"], members: int | None = None) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    """Return the bag of every member and its number in it; a GPU need not be waited for where `members` is known."""
    bags = torch.arange(len(sizes), device=sizes.device).repeat_interleave(sizes, output_size=members)
    return bags, torch.arange(len(bags), device=sizes.device) - (sizes.cumsum(0) - sizes)[bags]


def run_sum(rows: Float[Tensor, "rows width"], offsets: Int[Tensor, " runs_and_one"]) -> Float[Tensor, "runs width"]:
    """Return Σ rows[offsets[i] : offsets[i+1]] for every run i of rows that follow each other."""
    return bag_sum(rows, torch.arange(len(rows), device=rows.device), offsets)


def cut(sizes: Int[Tensor, " bags"], most: int) -> tuple[Int[Tensor, " pieces_and_one"], Int[Tensor, " bags_and_one"]]:
    """Cut bags into pieces of at most `most` members: a GPU adds members one by one, and would wait for a long bag.

    Return where the members of each piece start, and where the pieces of each bag do.
    """
    pieces = (sizes + most - 1) // most
    bags, places = numbered(pieces)
    return torch.cat([starts(sizes)[bags] + places * most, sizes.sum()[None]]), starts(pieces)


def tiled(sizes: Int[Tensor, " bags"], height: int) -> tuple[Int[Tensor, " members"], Int[Tensor, " tiles"]]:
    """Cut bags into tiles of equal height, so that one batched product does them all; the last tile of a bag is padded.

    Return the row that each member gets, bag after bag, and the bag of each tile.
    """
    tiles = (sizes + height - 1) // height
    # Padding moves the members of a bag down by what the bags before it were padded with.
    moved = (tiles.cumsum(0) - tiles) * height - (sizes.cumsum(0) - sizes)
    moved, bags = moved.repeat_interleave(sizes), torch.arange(len(sizes), device=sizes.device)
    return torch.arange(len(moved), device=sizes.device) + moved, bags.repeat_interleave(tiles)


def principal_components(
    vectors: Float[Tensor, "n d"], count: int
) -> tuple[Float[Tensor, "n count"], Float[Tensor, " count"]]:
    """Return the vectors in their `count` directions of largest variance, and the share of variance in each.

    The sign of a component is chosen so that its largest loading is positive: the same data give the same picture.
    """
    centred = vectors - vectors.mean(dim=0)
    variances, directions = torch.linalg.eigh(centred.mT @ centred)
    variances = variances.clamp_min(0)  # rounding leaves directions without any a little below
    order = variances.argsort(descending=True)[:count]
    directions = directions[:, order]
    directions = directions * directions.gather(0, directions.abs().argmax(dim=0)[None]).sign()
    return centred @ directions, variances[order] / variances.sum().clamp_min(torch.finfo(variances.dtype).tiny)
