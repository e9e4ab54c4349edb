"""Entities without a vector: folded in from their neighbours in closed form, or left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from procrustes_kge.graphs.graph import SPLITS, Graph, Vocabulary
from procrustes_kge.models.procrustes import Procrustes

SWEEPS = 5  # over entities that know each other, once each of them has a vector
AT_ONCE = 2**14  # questions


def fold_in(
    model: Procrustes, train: Int[Tensor, "n 3"], known: Bool[Tensor, " entities"], unit: bool
) -> tuple[Procrustes, Bool[Tensor, " entities"]]:
    """Give each entity without a vector the mean of the points where its neighbours' questions look for it.

    With relations fixed this is the closed form of the squared loss; for unit segments the mean is scaled to length
    one. Entities that only know each other are swept over, from those next to a vector outwards.
    """
    questions = torch.cat([train, torch.stack([train[:, 2], train[:, 1] + len(model.relations), train[:, 0]], dim=1)])
    questions = questions[~known[questions[:, 2]]]
    vectors, reached = model.vectors.clone(), known.clone()
    left = SWEEPS
    while left and len(questions):
        ready = questions[reached[questions[:, 0]]]
        sums, counts = _sums(replace(model, vectors=vectors), ready)
        fresh = (counts > 0) & ~known
        mean = sums[fresh] / counts[fresh, None, None]
        if unit:
            mean = torch.nn.functional.normalize(mean, dim=-1)
        vectors[fresh] = mean
        left -= bool((fresh & ~reached).sum() == 0)
        reached |= fresh
    return replace(model, vectors=vectors), reached


def _sums(model: Procrustes, questions: Int[Tensor, "n 3"]) -> tuple[Float[Tensor, "entities segments width"], Tensor]:
    """Return the sum of the points where each entity is looked for, and how many there are."""
    sums, counts = torch.zeros_like(model.vectors), torch.zeros(len(model.entities))
    for some in questions.split(AT_ONCE):
        points = model.query(model, some[:, 0], some[:, 1]).view(len(some), *model.vectors.shape[1:])
        sums.index_add_(0, some[:, 2], points)
        counts.index_add_(0, some[:, 2], torch.ones(len(some)))
    return sums, counts


def without(model: Procrustes, graph: Graph, known: Bool[Tensor, " entities"]) -> tuple[Procrustes, Graph]:
    """Return model and graph without entities that have no vector; relations stay."""
    rows = known.nonzero().flatten().tolist()
    entities = Vocabulary([graph.entities[row] for row in rows], "entity", graph.entities.labels)
    fresh = torch.cumsum(known, dim=0) - 1
    parts = dict[str, Any]()
    for split in SPLITS:
        triples = graph.split(split)
        triples = triples[known[triples[:, 0]] & known[triples[:, 2]]]
        parts[split] = torch.stack([fresh[triples[:, 0]], triples[:, 1], fresh[triples[:, 2]]], dim=1)
    return replace(model, entities=entities, vectors=model.vectors[known]), replace(graph, entities=entities, **parts)
