"""Where entities of unit segments lie among others that stay: the spherised mean of where their triples want them.

A triple (h, r, t) wants its tail at h Q + b, and its head at (t − b) Qᵀ: each is where the model expects the answer to
the query about the other end. Of unit vectors, the nearest to all these points together is

    x = Σ wanted / ‖Σ wanted‖        for each segment,

which minimises Σ ‖wanted − x‖². Entities that know each other are swept: with k of them among its neighbours, one goes
to

    x ← (Σ wanted + k x) / ‖Σ wanted + k x‖,

all at once, so that their order says nothing. The term k x holds it back just enough for no sweep to be worse than the
one before: Σ ⟨wanted, x⟩ + ½ Σ k ‖x‖² is convex in all of them together, and a sweep maximises its tangent.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from procrustes_kge.explore.updates.new_relations import NewRelations
from procrustes_kge.graphs.queries import both_queries
from procrustes_kge.models.procrustes import Procrustes

NUMBERS_AT_ONCE = 2**22  # of queries
SWEEPS, SETTLED = 300, 1e-5  # at most so many; one that moves no segment further is the last

Sums = Float[Tensor, "movers segments width"]


class _Edges(NamedTuple):
    """What arrives at movers: the asked entity, the direction, and the number of the mover that answers."""

    asked: Int[Tensor, " edges"]
    directions: Int[Tensor, " edges"]
    movers: Int[Tensor, " edges"]

    def where(self, mask: Bool[Tensor, " edges"]) -> _Edges:
        """Return some of them."""
        return _Edges(self.asked[mask], self.directions[mask], self.movers[mask])


def swept(
    model: Procrustes,
    triples: Int[Tensor, "n 3"],
    movers: Int[Tensor, " movers"],
    placed: Bool[Tensor, " entities"],
    unknown: NewRelations,
) -> Procrustes:
    """Return the model with the movers where their triples want them, and with its new relations.

    Those not `placed` have no vector yet: they say nothing until a neighbour has given them one.
    """
    needed = torch.cat([triples[:, [0, 2]].flatten(), movers]).unique()
    small, place = needed.new_full((len(placed),), -1), needed.new_full((len(needed),), -1)
    small[needed] = torch.arange(len(needed), device=needed.device)
    place[small[movers]] = torch.arange(len(movers), device=needed.device)
    tables: dict[str, Any] = {name: table.double() for name, table in model.tables().items() if name != "vectors"}
    exact = replace(model, vectors=model.vectors[needed].double(), **tables)
    found = _Sweeps(exact, _arriving(small, place, triples, len(model.relations)), small[movers], placed[needed])
    found.run(unknown.of_few(small))
    solved: dict[str, Any] = {name: table.float() for name, table in found.model.tables().items() if name != "vectors"}
    vectors = model.vectors.index_copy(0, movers, found.model.vectors[small[movers]].float())
    return replace(model, vectors=vectors, **(solved if len(unknown.numbers) else {}))


def _arriving(
    small: Int[Tensor, " entities"], place: Int[Tensor, " few"], triples: Int[Tensor, "n 3"], relations: int
) -> _Edges:
    asked, directions, answers = both_queries(triples, relations)
    asked, movers = small[asked], place[small[answers]]
    return _Edges(asked, directions, movers).where(movers >= 0)


class _Sweeps:
    """Movers, what arrives at them, and who has been placed so far."""

    def __init__(self, model: Procrustes, edges: _Edges, movers: Int[Tensor, " movers"], placed: Tensor) -> None:
        self.model, self.edges, self.movers, self.placed = model, edges, movers, placed.clone()
        moves = torch.zeros_like(placed)
        moves[movers] = True
        self.among = moves[edges.asked]

    def run(self, unknown: NewRelations) -> None:
        """Sweep until nothing moves any more."""
        still: Sums | None = None
        for _ in range(SWEEPS):
            ready = self.placed[self.edges.asked] & unknown.ready[self.edges.directions % len(self.model.relations)]
            if still is None or len(unknown.numbers):  # what those that stay want changes with relations alone
                still = self.wanted(self.edges.where(ready & ~self.among))
            moved, more = self.sweep(still, ready), False
            if len(unknown.numbers):
                before = unknown.ready.clone()
                self.model = unknown.solved(self.model, self.placed)
                more = not before.equal(unknown.ready)
            if moved <= SETTLED and not more:
                break

    def sweep(self, still: Sums, ready: Bool[Tensor, " edges"]) -> float:
        """Move all movers that anything pulls at; return how far a segment has moved at most."""
        among, count = self.edges.where(ready & self.among), len(self.movers)
        neighbours = torch.bincount(among.movers, minlength=count)[:, None, None]
        before = self.model.vectors[self.movers]
        sums = still + self.wanted(among) + neighbours * before
        lengths = torch.linalg.vector_norm(sums, dim=-1, keepdim=True)
        after = torch.where(lengths > 0, sums / lengths.clamp_min(torch.finfo(sums.dtype).tiny), before)
        self.placed[self.movers[self.edges.movers[ready]]] = True
        self.model = replace(self.model, vectors=self.model.vectors.index_copy(0, self.movers, after))
        return float((after - before).norm(dim=-1).max()) if count else 0.0

    def wanted(self, edges: _Edges) -> Sums:
        """Return Σ wanted of each mover."""
        model, shape = self.model, self.model.vectors.shape[1:]
        sums = model.vectors.new_zeros(len(self.movers), *shape)
        # Those of one direction side by side: a model rotates them in one product.
        for some in edges.directions.argsort(stable=True).split(max(1, NUMBERS_AT_ONCE // model.dim)):
            points = model.query(model, edges.asked[some], edges.directions[some])
            sums.index_add_(0, edges.movers[some], points.unflatten(1, shape))
        return sums
