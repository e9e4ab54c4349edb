"""What vectors from elsewhere do not say: relations, by Eq. 3, and entities without a vector, folded in or left out.

vectors ─Eq. 3→ relations between them ─fold→ entities next to them, and the relations that only these have
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.explore.importing.matching import SHOWN
from procrustes_kge.explore.updates.folding import fold, unreachable
from procrustes_kge.graphs.graph import SPLITS, Graph, Vocabulary
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.training.restoring import restore_relations
from procrustes_kge.words import counted, shortened


class Completed(NamedTuple):
    """The model, the graph of its entities, and what the user should know."""

    model: Procrustes
    graph: Graph
    notes: list[str]


def completed(
    graph: Graph,
    table: Float[Tensor, "entities segments width"],
    known: Bool[Tensor, " entities"],
    translate: bool,
    folding: bool,
) -> Completed:
    """Solve relations for the vectors that are known; fold in entities without one, or leave them out.

    Those that nothing known leads to are left out in any case. A relation without a triple between vectors says
    nothing of an entity, until it is solved from entities that others have led to.
    """
    both = known[graph.train[:, 0]] & known[graph.train[:, 2]]
    if not both.any():
        seen = f"{counted(int(known.sum()), 'entity')} with a vector, and no training triple between two of them"
        raise InputError(f"{seen}; give vectors of more entities")
    between = replace(graph, train=graph.train[both])
    unsolved = _triples_of_each(between) == 0
    model = Procrustes(graph.entities, graph.relations, table, *restore_relations(table, between, translate))
    lost = unreachable(graph.train, ~known, unsolved) if folding else ~known
    kept = graph
    if lost.any():
        model, kept = without(model, graph, lost)
    solvable = unsolved & (_triples_of_each(kept) > 0)
    model = _folded_in(model, kept, ~known[~lost], solvable)
    notes = _told_of_relations("solved once entities were folded in", graph, solvable)
    notes += _told_of_relations("left as they are", graph, unsolved & ~solvable)
    notes += _told("folded in from their neighbours", graph, ~known & ~lost)
    notes += _told("left out, with their triples", graph, lost)
    return Completed(model, kept, notes)


def _triples_of_each(graph: Graph) -> Int[Tensor, " relations"]:
    return torch.bincount(graph.train[:, 1], minlength=len(graph.relations))


def _folded_in(
    model: Procrustes, graph: Graph, fresh: Bool[Tensor, " entities"], unsolved: Bool[Tensor, " relations"]
) -> Procrustes:
    if not fresh.any():
        return model
    found = fold(model, graph, fresh.nonzero().flatten(), fresh, unsolved.nonzero().flatten())
    assert isinstance(found, Procrustes)
    return found


def without(model: Procrustes, graph: Graph, lost: Bool[Tensor, " entities"]) -> tuple[Procrustes, Graph]:
    """Return model and graph without some entities and their triples; relations stay."""
    kept = ~lost
    entities = Vocabulary(
        [graph.entities[row] for row in kept.nonzero().flatten().tolist()], "entity", graph.entities.labels
    )
    fresh = torch.cumsum(kept, dim=0) - 1
    parts = dict[str, Any]()
    for split in SPLITS:
        triples = graph.split(split)
        triples = triples[kept[triples[:, 0]] & kept[triples[:, 2]]]
        parts[split] = torch.stack([fresh[triples[:, 0]], triples[:, 1], fresh[triples[:, 2]]], dim=1)
    return replace(model, entities=entities, vectors=model.vectors[kept]), replace(graph, entities=entities, **parts)


def _told_of_relations(what: str, graph: Graph, rows: Bool[Tensor, " relations"]) -> list[str]:
    names = [graph.relations.shown(row) for row in rows.nonzero().flatten().tolist()]
    count = counted(len(names), "relation")
    return [f"{count} without a triple between vectors, {what}: {shortened(names, SHOWN)}"] if names else []


def _told(what: str, graph: Graph, rows: Bool[Tensor, " entities"]) -> list[str]:
    names = [graph.entities.shown(row) for row in rows.nonzero().flatten()[:SHOWN].tolist()]
    count = int(rows.sum())
    more = ", …" if count > len(names) else ""
    return [f"{counted(count, 'entity')} without a vector {what} ({', '.join(names)}{more})"] if count else []
