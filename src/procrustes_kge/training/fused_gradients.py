"""The gradients of a batch of queries against all entities, by kernels; the twin is `gradients.add_gradients`."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from procrustes_kge.kernels import WIDEST
from procrustes_kge.layouts.batches import Batch
from procrustes_kge.training.gradients import (
    AgainstAll,
    Gradients,
    Objective,
    Tables,
    add_covariances,
    add_losses,
    add_of_directions,
    hold,
)

NARROWEST = 8  # numbers in a segment: a product of narrower ones is mostly padding


def can_ask(tables: Tables) -> bool:
    """Say whether kernels make queries of these tables: not where results are to repeat to the last bit."""
    return NARROWEST <= tables.rotations.shape[-1] <= WIDEST and not torch.are_deterministic_algorithms_enabled()


def add_gradients_fused(
    into: Gradients,
    tables: Tables,
    batch: Batch,
    objective: Objective,
    compared: Float[Tensor, "n_padded d_padded"],
    generator: torch.Generator | None,
    against: AgainstAll,
) -> None:
    """Add the gradients of a batch to sums, which are padded, as `add_gradients` does."""
    from procrustes_kge.kernels.queries import FusedQueries, QueryGradients
    from procrustes_kge.kernels.rows import weigh_rows

    assert into.padded is not None, "kernels add to padded sums"
    vectors, keep, kept = tables.vectors, 1 - objective.dropout, None
    weights, mass, ends = weigh_rows(batch.counts, objective.crowd, into.weights)
    if objective.dropout:
        kept = vectors.new_empty(len(batch.asked), vectors.shape[1], dtype=torch.uint8)
        kept.bernoulli_(keep, generator=generator)
    queries = FusedQueries(
        vectors, tables.rotations, tables.translations, tables.scales, batch.asked, batch.tiles, kept, keep
    )
    losses, gradient = against(queries.rounded(compared.shape[1]), compared, batch, weights, ends, into.padded)
    rotations = None if objective.positives else into.rotations
    sums = QueryGradients(into.padded, rotations, into.translations, into.scales)
    queries.pull_(gradient, mass, objective.query_decay, objective.power, sums)
    hold(into, tables, batch, objective, weights, mass)
    if objective.positives:
        add_covariances(into.rotations, tables, batch)
    if objective.relation_weight:
        add_of_directions(into, tables, batch, objective.relation_weight * weights, objective.positives, compared.dtype)
    add_losses(into, batch, losses)
