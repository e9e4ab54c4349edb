"""What the entities of a cluster have in common, in the graph's own words: an answer that most of them share."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.queries import both_queries

LEAST = 0.25  # of a cluster's entities, for an answer to be its topic


class Topic(NamedTuple):
    """The answer (relation, entity) that the largest share of a cluster's entities has in training."""

    relation: str  # with ⁻¹ where the entities are the tails
    entity: str
    share: float

    def __str__(self) -> str:
        """Return the topic in words: relation, entity, share.

        >>> str(Topic("hypernym", "dog", 0.5))
        'hypernym dog 50 %'
        """
        return f"{self.relation} {self.entity} {100 * self.share:.0f} %"


def topics(graph: Graph, groups: list[Int[Tensor, " _"]]) -> list[Topic | None]:
    """Return the topic of each group of entity ids, None where the entities share no answer."""
    relations = len(graph.relations)
    owner = torch.full((len(graph.entities),), -1, dtype=torch.int64)
    for group, ids in enumerate(groups):
        owner[ids] = group
    entities, directions, answers = both_queries(graph.train.long().cpu(), relations)
    ours = owner[entities] >= 0
    asked = torch.stack([owner[entities], directions, answers, entities], dim=1)[ours].unique(dim=0)
    pairs, counts = asked[:, :3].unique(dim=0, return_counts=True)
    found: list[Topic | None] = [None] * len(groups)
    for group in pairs[:, 0].unique().tolist():
        rows = torch.nonzero(pairs[:, 0] == group).flatten()
        best = int(rows[counts[rows].argmax()])
        share = int(counts[best]) / len(groups[group])
        _, direction, answer = pairs[best].tolist()
        name = graph.relations.label(direction % relations) + ("⁻¹" if direction >= relations else "")
        if share >= LEAST and counts[best] > 1:
            found[group] = Topic(name, graph.entities.label(answer), share)
    return found
