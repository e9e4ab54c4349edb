"""How far the score of an answer falls if a training triple is taken away, in closed form, without training again.

Each training triple z of an entity e says where e lies: at the point q_z that the model computes from its other end.
Where full-batch training has converged, a vector is exactly the sum of these, spherised; other models come near it:

    x_e ∝ Σ_z q_z            fall_z = s(x_e) − s(x_e without q_z)                  through the vector of e
    fall_z = h' U G Vᵀ t'ᵀ   G_ij = (a_i b_j − a_j b_i) / (σ_i + σ_j)              through the rotation Q = U Vᵀ

The second is the derivative of the nearest orthogonal matrix of M = U Σ Vᵀ = Hᵀ T; a = h U and b = (c ∘ t) V are the
answer's own ends. All are in units of the score, and add up where a triple acts in several ways.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.baselines.embedded import Encoded
from procrustes_kge.models.predictor import LinkPredictor
from procrustes_kge.models.procrustes import Procrustes

ROWS_AT_ONCE = 4096
# What holds a vector of free length back, in triples: one that is the only one of its entity takes all with it.
PRIOR = 1.0
MOST_TURNING = 20_000  # triples of a relation: where there are more, none of them turns it by what could be seen
LEAST_SUM = 1e-5  # of two singular values, to the largest: what M leaves open has no derivative
Rows = Int[Tensor, " n"]  # of the training triples
Vectors = Float[Tensor, "_ d"]


class Refolding:
    """A model whose entities may be computed again from their training triples, without some of them."""

    def __init__(self, model: LinkPredictor, graph: Graph, hidden: Int[Tensor, " 3"]) -> None:
        self.model, self.graph, self.relations = model, graph, len(graph.relations)
        with torch.no_grad():
            self.encoded = model.encode(graph)
            self.table = _table(model, self.encoded)
            probe = model.query(self.encoded, *torch.zeros(2, 1, dtype=torch.int64))
        if probe.shape[1] != self.table.shape[1]:
            raise _unable(model)
        self.hidden = torch.nonzero((graph.train == hidden).all(dim=1)).flatten()
        self.unit = isinstance(model, Procrustes) and _unit(model.vectors)
        self._rows, self._sums = dict[int, Rows](), dict[int, Vectors]()

    def rows(self, entity: int) -> Rows:
        """Return the training triples that an entity is in, but for the one that is asked about."""
        if entity not in self._rows:
            train = self.graph.train
            rows = torch.nonzero((train[:, 0] == entity) | (train[:, 2] == entity)).flatten()
            self._rows[entity] = rows[~torch.isin(rows, self.hidden)]
        return self._rows[entity]

    def pulls(self, entity: int, rows: Rows) -> Vectors:
        """Return the points where triples of an entity say that it lies."""
        triples = self.graph.train[rows]
        is_tail = triples[:, 2] == entity
        others = torch.where(is_tail, triples[:, 0], triples[:, 2])
        return self.points(self.encoded, others, triples[:, 1] + torch.where(is_tail, 0, self.relations))

    def sums(self, entity: int) -> Vectors:
        """Return what all triples of an entity say, added up, as one row."""
        if entity not in self._sums:
            parts = [self.pulls(entity, some).sum(dim=0) for some in self.rows(entity).split(ROWS_AT_ONCE)]
            self._sums[entity] = torch.stack(parts).sum(dim=0, keepdim=True)
        return self._sums[entity]

    def points(self, encoded: Any, entities: Rows, directions: Rows) -> Vectors:
        """Return the points where the answers to queries lie."""
        with torch.no_grad():
            return self.model.query(encoded, entities, directions)

    def vectors(self, entity: int, sums: Vectors, count: int) -> Vectors:
        """Return the vectors of an entity of which so many triples sum up to these."""
        if not count:
            return torch.zeros_like(sums)
        if self.unit:
            width = self.model.vectors.shape[2]  # type: ignore[attr-defined]
            return normalize(sums.unflatten(1, (-1, width)), dim=-1).flatten(1)
        # As much longer than the mean of what its triples say as the model's own vector is.
        mean = self.sums(entity).norm() / (len(self.rows(entity)) + PRIOR)
        return sums / (count + PRIOR) * (self.table[entity].norm() / mean.clamp_min(1e-12))

    def folded(self, entity: int, without: Rows | None = None) -> Vectors:
        """Return the one vector of an entity, without some of its triples."""
        rows = self.rows(entity)
        gone = rows[:0] if without is None else rows[torch.isin(rows, without)]
        sums = self.sums(entity) - self.pulls(entity, gone).sum(dim=0)
        return self.vectors(entity, sums, len(rows) - len(gone))

    def scores(self, query: Vectors, entity: int, vectors: Vectors) -> Float[Tensor, "_ _"]:
        """Return the scores that an entity would have with other vectors."""
        with torch.no_grad():
            if isinstance(self.encoded, Procrustes):
                return query @ vectors.T
            biases = None if self.encoded.biases is None else self.encoded.biases[entity].expand(len(vectors))
            return self.model.scores(self.encoded._replace(entities=vectors, biases=biases), query)

    def asking(self, entity: int, vectors: Vectors, direction: int) -> Vectors:
        """Return the points of queries about an entity with other vectors."""
        if isinstance(self.encoded, Procrustes):
            encoded = replace(self.encoded, vectors=vectors.unflatten(1, self.encoded.vectors.shape[1:]))
            return self.points(encoded, torch.arange(len(vectors)), torch.full((len(vectors),), direction))
        asked, found = torch.tensor([entity]), []
        for each in vectors:  # in its row of the whole table: a graph network looks at neighbours too
            table = self.table.index_copy(0, asked, each[None])
            found.append(self.points(self.encoded._replace(entities=table), asked, torch.tensor([direction])))
        return torch.cat(found)

    def falls(self, entity: int, query: Vectors) -> tuple[Rows, Float[Tensor, " n"]]:
        """Return the triples of an entity, and how far its score falls without each of them in turn."""
        rows = self.rows(entity)
        if not len(rows):
            return rows, self.table.new_zeros(0)
        left = []
        for some in rows.split(ROWS_AT_ONCE):
            vectors = self.vectors(entity, self.sums(entity) - self.pulls(entity, some), len(rows) - 1)
            left.append(self.scores(query, entity, vectors)[0])
        return rows, self.scores(query, entity, self.folded(entity))[0] - torch.cat(left)

    def fall_from_afar(self, row: int, between: int, link: int, entity: int, query: Vectors) -> float:
        """Return how far the score falls without a triple of a neighbour, which a triple links with the entity.

        Without the triple the neighbour moves, and where it says that the entity lies moves with it.
        """
        triple = self.graph.train[link]
        direction = int(triple[1]) + (0 if int(triple[2]) == entity else self.relations)
        both = torch.cat([self.folded(between), self.folded(between, torch.tensor([row]))])
        moved = self.asking(between, both, direction) - self.pulls(entity, torch.tensor([link]))
        vectors = self.vectors(entity, self.sums(entity) + moved, len(self.rows(entity)))
        kept, gone = self.scores(query, entity, vectors)[0].tolist()
        return float(kept - gone)


def falls_by_turning(model: Procrustes, graph: Graph, triple: Int[Tensor, " 3"]) -> tuple[Rows, Float[Tensor, " n"]]:
    """Return the training triples of the answer's relation, and how far its score falls as Q turns without each."""
    head, relation, tail = triple.tolist()
    rows = torch.nonzero((graph.train[:, 1] == relation) & ~(graph.train == triple).all(dim=1)).flatten()
    if not 0 < len(rows) <= MOST_TURNING:
        return rows[:0], model.vectors.new_zeros(0)
    ends = graph.train[rows]
    heads, tails = (model.vectors[each].double().transpose(0, 1) for each in (ends[:, 0], ends[:, 2]))
    if model.translations is not None:  # Q turns what is left when b has moved the mean
        heads, tails = heads - heads.mean(dim=1, keepdim=True), tails - tails.mean(dim=1, keepdim=True)
    left, values, right = torch.linalg.svd(heads.mT @ tails)
    target = model.vectors[tail].double()
    target = target if model.scales is None else target * model.scales[relation]
    ours, theirs = model.vectors[head].double()[:, None] @ left, target[:, None] @ right.mT
    sums = values[:, :, None] + values[:, None, :]
    outer = ours.mT @ theirs
    known = sums > LEAST_SUM * values[:, :1, None].clamp_min(1e-12)
    turning = left @ torch.where(known, (outer - outer.mT) / sums.clamp_min(1e-12), 0) @ right
    return rows, ((heads @ turning) * tails).sum(dim=(0, 2)).float()


def _table(model: LinkPredictor, encoded: Any) -> Vectors:
    if isinstance(encoded, Procrustes):
        return encoded.table
    if type(encoded) is Encoded:
        return encoded.entities.detach()
    raise _unable(model)


def _unable(model: Any) -> InputError:
    kind = getattr(model, "kind", type(model).__name__)
    return InputError(
        f"{kind}: its queries lie in another space than its entities, so no triple says where an entity lies; "
        "every other --model of this package can be explained"
    )


def _unit(vectors: Float[Tensor, "entities segments width"]) -> bool:
    return bool(torch.allclose(vectors[:1000].norm(dim=-1), vectors.new_ones(()), atol=1e-3))
