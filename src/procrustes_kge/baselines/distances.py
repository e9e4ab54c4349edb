"""Distances of all pairs of queries and entities: sums of lengths, each of a group of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from procrustes_kge.baselines.parts import aligned, rows
from procrustes_kge.devices import exact_products
from procrustes_kge.kernels import can_compare

MOST_BY_NUMBER = 64  # numbers of a distance that is learned by differences; ranking is by them however many
PAIRS_IN_CACHE, PAIRS_AT_ONCE = 2**20, 2**26  # of which tables are made: on a CPU, and elsewhere


def grouped_distance(
    queries: Float[Tensor, "b d"],
    entities: Float[Tensor, "n d"],
    group: int,
    candidates: Int[Tensor, "b k"] | None = None,
) -> Float[Tensor, "b _"]:
    """Return Σ ‖q_g − t_g‖₂ over groups of so many numbers; one group of all numbers is the distance itself."""
    if candidates is not None:
        apart = queries[:, None] - rows(entities, candidates)
        return lengths(apart.unflatten(-1, (-1, group))).sum(dim=-1)
    if torch.is_grad_enabled() and group == queries.shape[1] > MOST_BY_NUMBER:
        return distance_by_product(queries, entities)
    if can_compare(queries, group):
        from procrustes_kge.kernels.distances import summed_lengths

        return summed_lengths(queries, entities, group)
    if group == 1:
        return torch.cdist(queries, entities, p=1)
    return _SummedLengths.apply(queries, entities, group)


def distance_by_product(queries: Float[Tensor, "b d"], entities: Float[Tensor, "n d"]) -> Float[Tensor, "b n"]:
    """Return ‖q − t‖ = √(‖q‖² + ‖t‖² − 2 q · t), which loses digits where the two are nearly one."""
    with exact_products():
        products = queries @ aligned(entities).T
    squares = queries.square().sum(dim=1)[:, None] + entities.square().sum(dim=1)
    return (squares - 2 * products[:, : len(entities)]).clamp_min(torch.finfo(squares.dtype).tiny).sqrt()


def lengths(vectors: Float[Tensor, "*shape width"]) -> Float[Tensor, "*shape"]:
    """Return ‖x‖₂, whose gradient at zero is zero instead of undefined."""
    squares = vectors.square().sum(dim=-1)
    return torch.where(squares > 0, squares.clamp_min(torch.finfo(squares.dtype).tiny).sqrt(), 0)


class _SummedLengths(torch.autograd.Function):
    """Σ_g ‖q_g − t_g‖₂, number after number, each of as many pairs as a cache holds: no difference is kept.

    Not by products, which lose the digits of near neighbours. Going back, lengths are found again, and the pull of a
    number is w (q − t) / ‖q_g − t_g‖, summed over either side.
    """

    @staticmethod
    def forward(context: Any, queries: Tensor, entities: Tensor, group: int) -> Tensor:
        ours, theirs = queries.T.contiguous(), entities.T.contiguous()  # numbers of many rows side by side
        context.save_for_backward(ours, theirs)
        context.group = group
        total = queries.new_zeros(len(queries), len(entities))
        for some in _blocks(total):
            sums, squares, apart = total[some], *_room(total[some])
            for one, other in zip(ours[:, some].split(group), theirs.split(group), strict=True):
                _squared_lengths(one, other, squares, apart)
                sums += squares.sqrt_()
        return total

    @staticmethod
    @once_differentiable
    def backward(context: Any, weights: Tensor) -> tuple[Tensor, Tensor, None]:
        ours, theirs = context.saved_tensors
        our_pull, their_pull = torch.empty_like(ours), torch.zeros_like(theirs)
        for some in _blocks(weights):
            squares, apart = _room(weights[some])
            parts = (each.split(context.group) for each in (ours[:, some], theirs, our_pull[:, some], their_pull))
            for one, other, mine, back in zip(*parts, strict=True):
                _squared_lengths(one, other, squares, apart)
                # Where there is no length there is no difference either, and zero times anything pulls nowhere.
                shares = squares.clamp_min_(torch.finfo(squares.dtype).tiny).rsqrt_().mul_(weights[some])
                for number in range(context.group):
                    pull = torch.sub(one[number, :, None], other[number], out=apart).mul_(shares)
                    mine[number] = pull.sum(dim=1)
                    back[number] -= pull.sum(dim=0)
        return our_pull.T, their_pull.T, None


def _blocks(pairs: Float[Tensor, "b n"]) -> Iterator[slice]:
    """Yield rows of a table of pairs, as many as there is room for."""
    room = PAIRS_IN_CACHE if pairs.device.type == "cpu" else PAIRS_AT_ONCE
    size = max(1, room // max(1, pairs.shape[1]))
    return (slice(start, start + size) for start in range(0, len(pairs), size))


def _room(pairs: Float[Tensor, "b n"]) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b n"]]:
    """Return two tables to work in."""
    return torch.empty_like(pairs), torch.empty_like(pairs)


def _squared_lengths(ours: Float[Tensor, "g b"], theirs: Float[Tensor, "g n"], into: Tensor, apart: Tensor) -> None:
    """Write ‖q_g − t_g‖² of one group of all pairs into a table, by way of another."""
    into.zero_()
    for one, other in zip(ours, theirs, strict=True):
        torch.sub(one[:, None], other, out=apart)
        into.addcmul_(apart, apart)
