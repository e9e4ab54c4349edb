"""Distances of all pairs of queries and entities: sums of lengths, each of a group of numbers."""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from procrustes_kge.kernels import can_compare
from procrustes_kge.models.baselines.embedded import aligned, rows
from procrustes_kge.models.predictor import Candidates
from procrustes_kge.system.precision import exact_products

MOST_BY_NUMBER = 64  # numbers of a distance that is learned by differences; ranking is by them however many
PAIRS_IN_CACHE, PAIRS_IN_TILE = 2**20, 2**26  # in a tile of all pairs: on a CPU, and elsewhere
WIDEST_TILE = 2**13  # entities


def grouped_distance(
    queries: Float[Tensor, "b d"], entities: Float[Tensor, "n d"], group: int, candidates: Candidates = None
) -> Float[Tensor, "b _"]:
    """Return Σ ‖q_g − t_g‖₂ over groups of this many numbers; one group of all numbers is the distance itself."""
    if candidates is not None:
        apart = queries[:, None] - rows(entities, candidates)
        return lengths(apart.unflatten(-1, (-1, group))).sum(dim=-1)
    if torch.is_grad_enabled() and group == queries.shape[1] > MOST_BY_NUMBER:
        return distance_by_product(queries, entities)
    if can_compare(queries, group):
        from procrustes_kge.kernels.distances import summed_lengths

        return summed_lengths(queries, entities, group)
    if group in (1, queries.shape[1]):
        # Not by a product, which loses the digits of near neighbours.
        return torch.cdist(queries, entities, p=min(2, group), compute_mode="donot_use_mm_for_euclid_dist")
    return _SummedLengths.apply(queries, entities, group)


def distance_by_product(queries: Float[Tensor, "b d"], entities: Float[Tensor, "n d"]) -> Float[Tensor, "b n"]:
    """Return ‖q − t‖ = √(‖q‖² + ‖t‖² − 2 q · t), which loses digits where q and t are nearly equal."""
    with exact_products():
        products = queries @ aligned(entities).T
    squares = queries.square().sum(dim=1)[:, None] + entities.square().sum(dim=1)
    return (squares - 2 * products[:, : len(entities)]).clamp_min(torch.finfo(squares.dtype).tiny).sqrt()


def lengths(vectors: Float[Tensor, "*shape width"]) -> Float[Tensor, "*shape"]:
    """Return ‖x‖₂, whose gradient at zero is zero instead of undefined."""
    squares = vectors.square().sum(dim=-1)
    return torch.where(squares > 0, squares.clamp_min(torch.finfo(squares.dtype).tiny).sqrt(), 0)


class _SummedLengths(torch.autograd.Function):
    """Σ_g ‖q_g − t_g‖₂, number after number, each of a tile of pairs: no difference is kept.

    In the backward pass lengths are computed again; the gradient of a number is w (q − t) / ‖q_g − t_g‖, summed over
    either side.
    """

    @staticmethod
    def forward(context: Any, queries: Tensor, entities: Tensor, group: int) -> Tensor:
        context.save_for_backward(queries, entities)
        context.group = group
        total = queries.new_zeros(len(queries), len(entities))
        for some, others, ours, theirs in _tiles(queries, entities):
            sums = total[some, others]
            squares, apart = torch.empty_like(sums), torch.empty_like(sums)
            for one, other in zip(ours.split(group), theirs.split(group), strict=True):
                _square_lengths(one, other, squares, apart)
                sums += squares.sqrt_()
        return total

    @staticmethod
    def backward(context: Any, weights: Tensor) -> tuple[Tensor, Tensor, None]:
        queries, entities = context.saved_tensors
        our_pulls, their_pulls = (each.new_zeros(each.T.shape) for each in (queries, entities))
        for some, others, ours, theirs in _tiles(queries, entities):
            weight = weights[some, others]
            squares, apart = torch.empty_like(weight), torch.empty_like(weight)
            parts = (each.split(context.group) for each in (ours, theirs, our_pulls[:, some], their_pulls[:, others]))
            for one, other, to_us, to_them in zip(*parts, strict=True):
                _square_lengths(one, other, squares, apart)
                # Where there is no length there is no difference either, and zero times anything pulls nowhere.
                shares = squares.clamp_min_(torch.finfo(squares.dtype).tiny).rsqrt_().mul_(weight)
                for number in range(context.group):
                    pull = torch.sub(one[number, :, None], other[number], out=apart).mul_(shares)
                    to_us[number] += pull.sum(dim=1)
                    to_them[number] -= pull.sum(dim=0)
        return our_pulls.T, their_pulls.T, None


def _tiles(
    queries: Float[Tensor, "b d"], entities: Float[Tensor, "n d"]
) -> Iterator[tuple[slice, slice, Float[Tensor, "d some"], Float[Tensor, "d others"]]]:
    """Yield parts of the table of all pairs, with the numbers of their rows and columns side by side."""
    ours, room = queries.T.contiguous(), PAIRS_IN_CACHE if queries.device.type == "cpu" else PAIRS_IN_TILE
    for others in _slices(len(entities), WIDEST_TILE):
        theirs = entities[others].T.contiguous()
        for some in _slices(len(queries), max(1, room // theirs.shape[1])):
            yield some, others, ours[:, some], theirs


def _slices(count: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, count, size))


def _square_lengths(ours: Float[Tensor, "g b"], theirs: Float[Tensor, "g n"], into: Tensor, apart: Tensor) -> None:
    """Write ‖q_g − t_g‖² of one group of all pairs into a table, with another as scratch."""
    into.zero_()
    for one, other in zip(ours, theirs, strict=True):
        torch.sub(one[:, None], other, out=apart)
        into.addcmul_(apart, apart)
