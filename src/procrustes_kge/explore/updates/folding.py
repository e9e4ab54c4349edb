"""Vectors for entities, and rotations for relations, that were not in training: in closed form, all else held fixed.

triples ─unit segments→ the spherised mean of what is wanted, in sweeps        (sweeping)
        ─free lengths→  the solution of the training objective                (placing)
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.explore.updates.minimising import minimised
from procrustes_kge.explore.updates.new_relations import NewRelations
from procrustes_kge.explore.updates.placing import Placing
from procrustes_kge.explore.updates.scorers import scorer_of
from procrustes_kge.explore.updates.sweeping import swept
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.baselines.neighbours import GraphNetwork
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.models.with_paths import Embedding
from procrustes_kge.system.precision import exact_products
from procrustes_kge.training.contrastive import joined, parts_of
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.recipes import Settings

ROUNDS = 2  # of entities, then relations, where some of both are new


def fold(
    model: Embedding,
    graph: Graph,
    movers: Int[Tensor, " movers"],
    fresh: Bool[Tensor, " entities"],
    relations: Int[Tensor, " new"],
    settings: Settings | None = None,
) -> Embedding:
    """Return the model with the movers where the graph's training triples want them, and with its new relations.

    `fresh` says which movers have no vector yet. A mover without triples stays where it is.
    """
    ends = torch.zeros_like(fresh)
    ends[graph.train[:, [0, 2]].flatten()] = True
    movers = movers[ends[movers]]
    movers, fresh, relations = (each.to(model.table.device) for each in (movers, fresh, relations))
    with torch.no_grad(), exact_products():
        if isinstance(model, Procrustes) and is_unit(model, ~fresh):
            return _folded_unit(model, graph, movers, fresh, relations, settings)
        if isinstance(model, Procrustes) and isinstance(settings, ContrastSettings) and settings.groups > 1:
            # Each group was trained with a softmax of its own, of which it is the solution.
            parts = parts_of(model, settings.groups)
            found = (_folded_free(each, graph, movers, fresh, relations, settings) for each in parts)
            return joined([part for part in found if isinstance(part, Procrustes)])
        return _folded_free(model, graph, movers, fresh, relations, settings)


def is_unit(model: Procrustes, known: Bool[Tensor, " entities"]) -> bool:
    """Say whether the segments of entities that are known have length one, or none where one lay on the centre."""
    lengths = model.vectors[known.to(model.vectors.device)].norm(dim=-1)
    return bool(torch.allclose(lengths[lengths > 0], lengths.new_ones(()), atol=1e-3))


def check_foldable(model: Embedding, relations: int) -> None:
    """Refuse models, or new relations of models, that have no closed form."""
    if isinstance(model, Procrustes):
        return
    if isinstance(model.module, GraphNetwork):
        seen = (
            f"{model.name} makes vectors from those of neighbours, so those of all entities near a change would differ"
        )
        raise InputError(f"{seen}; train again with the new triples, or use a model with a table, such as complex")
    if relations:
        raise InputError(
            f"a new relation for {model.name}: only our own models solve relations in closed form; leave its triples "
            "out, or train again"
        )


def unreachable(
    triples: Int[Tensor, "n 3"], fresh: Bool[Tensor, " entities"], new: Bool[Tensor, " relations"]
) -> Bool[Tensor, " entities"]:
    """Return which fresh entities nothing known leads to: they are linked only to one another, or by unknown relations.

    A triple leads from an entity that is placed to its other end if its relation is known; a new relation is known as
    soon as it links two entities that are placed.
    """
    placed, ready = ~fresh, ~new
    heads, relations, tails = triples.unbind(dim=1)
    while True:
        before = placed.clone(), ready.clone()
        ready[relations[placed[heads] & placed[tails]]] = True
        usable = ready[relations]
        placed[tails[usable & placed[heads]]] = True
        placed[heads[usable & placed[tails]]] = True
        if placed.equal(before[0]) and ready.equal(before[1]):
            return ~placed


def drawn_rows(graph: Graph, entities: Int[Tensor, " some"], numbers: int) -> Float[Tensor, "some numbers"]:
    """Return random rows of length one: of each name the same, wherever it stands in a file."""
    rows = torch.empty(len(entities), numbers)
    for row, entity in enumerate(entities.tolist()):
        seed = int.from_bytes(hashlib.sha256(graph.entities[entity].encode("utf-8", "surrogatepass")).digest()[:7])
        rows[row].normal_(generator=torch.Generator().manual_seed(seed))
    return rows / rows.norm(dim=1, keepdim=True)


def _folded_unit(
    model: Procrustes, graph: Graph, movers: Tensor, fresh: Tensor, relations: Tensor, settings: Settings | None
) -> Procrustes:
    """Return the model after sweeps."""
    shape, device = model.vectors.shape[1:], model.vectors.device
    loose, new = _loose(graph, fresh, relations)
    drawn = drawn_rows(graph, loose.cpu(), model.dim).unflatten(1, shape).to(device)
    drawn = drawn / drawn.norm(dim=-1, keepdim=True)
    model = replace(model, vectors=model.vectors.index_copy(0, loose, drawn))
    placed = ~fresh
    placed[loose] = True
    concerned = torch.zeros_like(fresh)
    concerned[movers] = True
    train = graph.train.to(device)
    touching = concerned[train[:, 0]] | concerned[train[:, 2]] | new[train[:, 1]]
    unknown = NewRelations(relations, train, len(graph.relations), settings)
    return swept(model, train[touching], movers, placed, unknown)


def _folded_free(
    model: Embedding, graph: Graph, movers: Tensor, fresh: Tensor, relations: Tensor, settings: Settings | None
) -> Embedding:
    """Return the model after the objective has been minimised; where relations are new, in turn with them."""
    loose, _ = _loose(graph, fresh, relations)
    table = scorer_of(model, settings).table
    usual = float(table[~fresh].norm(dim=1).mean())
    drawn = drawn_rows(graph, loose.cpu(), table.shape[1]).to(table)
    model = with_rows(model, loose, usual / 2 * drawn)
    train = graph.train.to(table.device)
    unknown = NewRelations(relations, train, len(graph.relations), settings)
    rounds = 0
    while True:
        ready = unknown.ready[train[:, 1]]
        model = _placed(model, replace(graph, train=train[ready].cpu()), movers, usual, settings)
        if not len(relations) or rounds == ROUNDS:
            return model
        assert isinstance(model, Procrustes)
        before = unknown.ready.clone()
        model = unknown.solved(model, model.table.norm(dim=1) > 0, unit=False)
        rounds += before.equal(unknown.ready)


def _loose(graph: Graph, fresh: Tensor, relations: Tensor) -> tuple[Int[Tensor, " loose"], Bool[Tensor, " relations"]]:
    """Return the fresh entities that nothing known leads to, and which relations are new."""
    new = torch.zeros(len(graph.relations), dtype=torch.bool, device=fresh.device)
    new[relations] = True
    return torch.nonzero(unreachable(graph.train.to(fresh.device), fresh, new)).flatten(), new


def _placed(model: Embedding, graph: Graph, movers: Tensor, usual: float, settings: Settings | None) -> Embedding:
    ends = torch.zeros(len(graph.entities), dtype=torch.bool, device=movers.device)
    ends[graph.train[:, [0, 2]].flatten().to(movers.device)] = True
    movers = movers[ends[movers]]
    if not len(movers):
        return model
    scorer = scorer_of(model, settings)
    rows = minimised(Placing(scorer, graph, movers).loss, scorer.table[movers], usual)
    return with_rows(model, movers, rows)


def with_rows(model: Embedding, entities: Int[Tensor, " some"], rows: Float[Tensor, "some numbers"]) -> Embedding:
    """Return the model with these rows of its table of entities."""
    if isinstance(model, Procrustes):
        moved = rows.unflatten(1, model.vectors.shape[1:])
        return replace(model, vectors=model.vectors.index_copy(0, entities, moved))
    return _with_rows_of_baseline(model, entities, rows)


def _with_rows_of_baseline(model: TrainedBaseline, entities: Tensor, rows: Tensor) -> TrainedBaseline:
    module = model.to(model.table.device).module  # a copy
    dim = module.entities.shape[1]
    module.entities.data[entities] = rows[:, :dim]
    if module.biases is not None:
        module.biases.data[entities] = rows[:, dim]
    return replace(model, module=module)
