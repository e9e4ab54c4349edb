"""The triples of a graph, arranged once per training, for all its parts and blocks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.graphs.queries import group_by_query
from procrustes_kge.layouts.fused import FusedLayout
from procrustes_kge.layouts.relational import RelationalMatrices, Vectors


@dataclass(frozen=True, eq=False)
class ArrangedTriples:
    """Triples whose entities are renumbered, and the layouts of them that were asked for, each made once.

    Entities that most queries ask about come first: those that are read together lie together. Several threads may ask
    at once.
    """

    entities: int
    relations: int
    order: Int[Tensor, " entities"]  # the graph's entity at each place
    places: Int[Tensor, " entities"]  # the place of each of the graph's entities
    triples: Int[Tensor, "n 3"]  # with places for entities
    _made: dict[Hashable, Any] = field(init=False, repr=False, default_factory=dict)
    _lock: threading.Lock = field(init=False, repr=False, default_factory=threading.Lock)

    @classmethod
    def of(cls, triples: Int[Tensor, "n 3"], entities: int, relations: int) -> ArrangedTriples:
        """Renumber the entities of triples, on the device where they are."""
        asked = torch.bincount(group_by_query(triples, entities, relations).entities, minlength=entities)
        order = asked.argsort(descending=True, stable=True)
        places = torch.empty_like(order).index_copy_(0, order, torch.arange(entities, device=order.device))
        moved = triples.clone()
        moved[:, [0, 2]] = places[triples[:, [0, 2]]]
        return cls(entities, relations, order, places, moved)

    def matrices(self, segments: int) -> RelationalMatrices:
        """Return the triples ready for the products of this many stacked segments."""
        return self._once(segments, partial(RelationalMatrices.of, segments=segments))

    @property
    def fused(self) -> FusedLayout:
        """The triples ready for the fused kernels."""
        return self._once("fused", FusedLayout.of)

    def _once(self, key: Hashable, arrange: Callable[..., Any]) -> Any:
        with self._lock:
            if key not in self._made:
                self._made[key] = arrange(self.triples, self.entities, self.relations)
            return self._made[key]

    def in_order(self, vectors: Vectors) -> Vectors:
        """Return vectors of the graph's entities in the order of these triples."""
        return vectors[:, self.order]

    def in_graph_order(self, vectors: Vectors) -> Float[Tensor, "entities segments width"]:
        """Return vectors in the order of these triples in that of the graph's entities, segments of one together."""
        return vectors[:, self.places].transpose(0, 1)
