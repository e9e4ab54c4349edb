"""Procrustes: the trained thing, which answers questions by id in batches and by name one at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph, Vocabulary
from procrustes_kge.linalg import tiled

TILE = 16  # questions of one relation that are turned together


class Answer(NamedTuple):
    """An entity that may complete a triple; a higher score is a better answer to the same question."""

    name: str
    score: float
    label: str


class Answering:
    """Answers by name, for every model that can be asked by ids."""

    entities: Vocabulary
    relations: Vocabulary

    def encode(self, graph: Graph | None = None) -> Any:
        """Return the tables that questions are asked of."""
        raise NotImplementedError

    def query(self, encoded: Any, heads: Int[Tensor, " b"], relations: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
        """Return the point where the answer to each question should lie."""
        raise NotImplementedError

    def scores(
        self, encoded: Any, queries: Float[Tensor, "b d"], candidates: Int[Tensor, "b k"] | None = None
    ) -> Float[Tensor, "b n"]:
        """Return how well each entity, or each given candidate, answers each query."""
        raise NotImplementedError

    def tails(self, head: str, relation: str, k: int = 10) -> list[Answer]:
        """Return the k best answers to (head, relation, ?), best first."""
        return self.answers(self.entities.id(head), self.relations.id(relation), k)

    def heads(self, relation: str, tail: str, k: int = 10) -> list[Answer]:
        """Return the k best answers to (?, relation, tail), best first."""
        return self.answers(self.entities.id(tail), self.relations.id(relation) + len(self.relations), k)

    def answers(self, entity: int, relation: int, k: int) -> list[Answer]:
        """Return the k best answers to a question of ids, best first; relation r + R asks for heads."""
        if k < 1:
            raise InputError(f"{k} answers asked for, expected at least 1")
        with torch.no_grad():
            encoded = self.encode()
            scores = self.scores(encoded, self.query(encoded, *torch.tensor([[entity], [relation]])))[0]
        best = scores.topk(min(k, len(scores)))
        found = zip(best.values.tolist(), best.indices.tolist(), strict=True)
        return [Answer(self.entities[index], score, self.entities.label(index)) for score, index in found]


@dataclass(frozen=True, eq=False)
class Procrustes(Answering):
    """Vectors in segments for every entity, and an orthogonal matrix per relation and segment.

    A direction is a relation asked for tails (r) or for heads (r + R), which turns by Qᵀ instead of Q. Where there are
    scales c and translations b, each direction has its own: the answer is sought at c ∘ (x Q) + b.
    """

    entities: Vocabulary
    relations: Vocabulary
    vectors: Float[Tensor, "entities segments width"]
    rotations: Float[Tensor, "relations segments width width"]
    translations: Float[Tensor, "directions segments width"] | None = None
    scales: Float[Tensor, "directions segments width"] | None = None

    @property
    def table(self) -> Float[Tensor, "entities d"]:
        """The vectors of entities, whole."""
        return self.vectors.flatten(1)

    @property
    def dim(self) -> int:
        """How many numbers an entity's vector has."""
        return self.vectors.shape[1] * self.vectors.shape[2]

    def encode(self, graph: Graph | None = None) -> Procrustes:
        """Return the tables themselves: nothing has to be computed from the graph."""
        return self

    def query(
        self, encoded: Procrustes, heads: Int[Tensor, " b"], relations: Int[Tensor, " b"]
    ) -> Float[Tensor, "b d"]:
        """Return c ∘ (h Q) + b for tails, and c ∘ (t Qᵀ) + b for heads (relation r + R)."""
        count, (_, *shape) = len(self.relations), encoded.vectors.shape
        heads, relations = heads.to(encoded.vectors.device), relations.to(encoded.vectors.device)
        order = relations.argsort(stable=True)
        rows, tiles = tiled(torch.bincount(relations, minlength=2 * count), TILE)
        asked = encoded.vectors.new_zeros(len(tiles) * TILE, *shape).index_copy_(0, rows, encoded.vectors[heads[order]])
        turns = encoded.rotations[tiles % count]
        turns = torch.where((tiles < count)[:, None, None, None], turns, turns.mT)
        turned = asked.view(len(tiles), TILE, *shape).transpose(1, 2) @ turns
        if encoded.scales is not None:
            turned = turned * encoded.scales[tiles, :, None]
        if encoded.translations is not None:
            turned = turned + encoded.translations[tiles, :, None]
        wanted = turned.transpose(1, 2).flatten(0, 1)[rows]
        return torch.empty_like(wanted).index_copy_(0, order, wanted).flatten(1)

    def scores(
        self, encoded: Procrustes, queries: Float[Tensor, "b d"], candidates: Int[Tensor, "b k"] | None = None
    ) -> Float[Tensor, "b n"]:
        """Return dot products. For unit segments −‖q − t‖² = 2 q·t − const: distance and product rank alike."""
        table = encoded.table
        if candidates is None:
            return queries @ table.T
        return (table[candidates] @ queries[..., None]).squeeze(-1)

    def to(self, device: torch.device | str) -> Procrustes:
        """Return the same model on another device."""
        moved: dict[str, Any] = {name: table.to(device) for name, table in self.tables().items()}
        return replace(self, **moved)

    def tables(self) -> dict[str, Tensor]:
        """Return every table that there is, by its name."""
        tables = {
            "vectors": self.vectors,
            "rotations": self.rotations,
            "translations": self.translations,
            "scales": self.scales,
        }
        return {name: table for name, table in tables.items() if table is not None}


def both_ways(
    rotations: Float[Tensor, "relations segments width width"], translations: Float[Tensor, "relations segments width"]
) -> Float[Tensor, "directions segments width"]:
    """Return b for tails and −b Qᵀ for heads: h Q + b read backwards is (t − b) Qᵀ."""
    return torch.cat([translations, -(translations[..., None, :] @ rotations.mT).squeeze(-2)])
