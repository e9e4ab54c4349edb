"""What models that look at an entity's neighbours have in common.

An edge brings an entity the answer to one of its queries: of a triple (h, r, t), t arrives at h by direction r, and h
arrives at t by direction r + R.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from procrustes_kge.models.baselines.embedded import Baseline


class GraphNetwork(Baseline):
    """A model that keeps its edges as tables of indices, so that what is saved answers without the graph."""

    def keep(self, **tables: Int[Tensor, " _"]) -> None:
        """Keep tables of indices, which move and are saved with the model."""
        for name, table in tables.items():
            self.register_buffer(name, table)
        self.register_load_state_dict_pre_hook(_make_room)


def _make_room(module: nn.Module, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Let a model of other edges, or of none, load those that were saved; a table of their size is kept."""
    for name, table in list(module.named_buffers(recurse=False)):
        if prefix + name in state and table.shape != state[prefix + name].shape:
            setattr(module, name, table.new_empty(state[prefix + name].shape))


def arrivals(
    edges: Int[Tensor, "n 3"], relations: int
) -> tuple[Int[Tensor, " arrivals"], Int[Tensor, " arrivals"], Int[Tensor, " arrivals"]]:
    """Return where each edge arrives, by which direction, and from where: every triple twice."""
    head, relation, tail = edges.long().unbind(dim=1)
    return torch.cat([head, tail]), torch.cat([relation, relation + relations]), torch.cat([tail, head])


def weighted_sum(
    rows: Float[Tensor, "rows width"],
    members: Int[Tensor, " members"],
    offsets: Int[Tensor, " bags_and_one"],
    weights: Float[Tensor, " members"],
) -> Float[Tensor, "bags width"]:
    """Return Σ w_m rows[m] over the members of every bag, without keeping what each member adds.

    Gradients, of weights too, add up in a fixed order.
    """
    return embedding_bag(members, rows, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True)
