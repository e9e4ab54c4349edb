"""Procrustes: the trained thing, which answers questions by id in batches and by name one at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graph import Graph, Vocabulary
from procrustes_kge.linalg import nearest_orthogonal
from procrustes_kge.relational import RelationalMatrices, Relations
from procrustes_kge.threads import over_cores


class Answer(NamedTuple):
    """An entity that may complete a triple; a higher score is a better answer to the same question."""

    name: str
    score: float
    label: str


@dataclass(frozen=True, eq=False)
class Procrustes:
    """Unit segments for every entity, and an orthogonal matrix per relation and segment: t ≈ h Q + b."""

    entities: Vocabulary
    relations: Vocabulary
    vectors: Float[Tensor, "entities segments width"]
    rotations: Float[Tensor, "relations segments width width"]
    translations: Float[Tensor, "relations segments width"] | None = None

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
        """Return h Q + b for tails, and (t − b) Qᵀ for heads: the same relation read backwards (relation r + R)."""
        asked = encoded.vectors[heads]
        wanted = torch.empty_like(asked)
        for relation in relations.unique().tolist():
            rows = relations == relation
            forward, index = relation < len(self.relations), relation % len(self.relations)
            rotation, points = encoded.rotations[index], asked[rows].transpose(0, 1)
            shift = 0 if encoded.translations is None else encoded.translations[index][:, None]
            turned = points @ rotation + shift if forward else (points - shift) @ rotation.mT
            wanted[rows] = turned.transpose(0, 1)
        return wanted.flatten(1)

    def scores(
        self, encoded: Procrustes, queries: Float[Tensor, "b d"], candidates: Int[Tensor, "b k"] | None = None
    ) -> Float[Tensor, "b n"]:
        """Return dot products: for unit segments −‖q − t‖² = 2 q·t − const, so distance and product rank alike."""
        table = encoded.vectors.flatten(1)
        if candidates is None:
            return queries @ table.T
        return (table[candidates] @ queries[..., None]).squeeze(-1)

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
        place = torch.tensor([[entity], [relation]], device=self.vectors.device)
        scores = self.scores(self, self.query(self, *place))[0]
        best = scores.topk(min(k, len(scores)))
        found = zip(best.values.tolist(), best.indices.tolist(), strict=True)
        return [Answer(self.entities[index], score, self.entities.label(index)) for score, index in found]

    def to(self, device: torch.device | str) -> Procrustes:
        """Return the same model on another device."""
        moved: dict[str, Any] = {"vectors": self.vectors.to(device), "rotations": self.rotations.to(device)}
        if self.translations is not None:
            moved["translations"] = self.translations.to(device)
        return replace(self, **moved)


def restore_relations(
    vectors: Float[Tensor, "entities segments width"], graph: Graph, translate: bool = True, workers: int = 0
) -> tuple[Float[Tensor, "relations segments width width"], Float[Tensor, "relations segments width"] | None]:
    """Return the rotations (and translations) that training gave to these entity vectors, by Eq. 3 alone.

    The entities determine the relations: a saved model may leave them out. `translate` is as it was in training.
    Solved in float64, so that rotations are orthogonal to the last digit of float32.
    """
    if vectors.ndim != 3:
        raise InputError(f"vectors of shape {tuple(vectors.shape)}, expected [entities, segments, width]")
    entities, segments, width = vectors.shape
    if entities != len(graph.entities):
        raise InputError(f"vectors of {entities:,} entities, but the graph {graph.name} has {len(graph.entities):,}")
    matrices = RelationalMatrices.of(graph.train.to(vectors.device), entities, len(graph.relations))

    def solved(segment: int) -> Relations:
        points = vectors[:, segment].double()[None]
        return matrices.solve(points, matrices.answer_sums(points), nearest_orthogonal, translate)

    rotations = vectors.new_empty(len(graph.relations), segments, width, width)
    translations = vectors.new_empty(len(graph.relations), segments, width) if translate else None
    found = map(solved, range(segments)) if vectors.is_cuda else over_cores(solved, range(segments), workers)
    for segment, relations in enumerate(found):
        rotations[:, segment] = relations.rotations[0]
        if translations is not None and relations.translations is not None:
            translations[:, segment] = relations.translations[0]
    return rotations, translations
