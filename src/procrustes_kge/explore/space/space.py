"""What a map shows of a run: points, clusters, degrees, and the slots of relations that entities appear in."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.explore.space.clusters import Cluster, find_clusters
from procrustes_kge.explore.space.columns import Column
from procrustes_kge.explore.space.projection import entity_vectors, project, turned_like, umap_points
from procrustes_kge.explore.space.topics import Topic, topics
from procrustes_kge.graphs.graph import Graph, Vocabulary
from procrustes_kge.words import counted, unknown

MOST_POINTS = 100_000
MOST_SLOTS = 400  # in a list to choose from; a graph of thousands of relations has as many more
DIMENSIONS = 3
METHODS = ("pca", "umap")


@dataclass(frozen=True)
class Slot:
    """The entities shown that appear as head, or as tail, of a relation in training."""

    name: str
    rows: Int[Tensor, " m"]  # among those shown, rising


@dataclass(frozen=True)
class Space:
    """The entities of a run as points, and what is known of each; rows are those of the entities shown."""

    title: str
    about: str
    entities: Vocabulary
    shown: Int[Tensor, " n"]  # which entities, by id
    points: Float[Tensor, "n 3"]
    axes: Float[Tensor, "3 3"]  # where the components point, in the coordinates of the points
    shares: tuple[float, ...]  # of the variance, by component; none where there are no components
    method: str
    clusters: tuple[Cluster, ...]
    topics: tuple[Topic | None, ...]  # of the clusters
    degrees: Int[Tensor, " n"]
    slots: tuple[Slot, ...]
    columns: tuple[Column, ...] = ()
    notes: tuple[str, ...] = ()

    def label(self, row: int) -> str:
        """Return the label of a row, or its name if it has none."""
        return self.entities.label(int(self.shown[row]))

    def typical(self, cluster: Cluster, count: int = 4) -> list[str]:
        """Return the labels of a cluster's most typical entities."""
        return [self.label(row) for row in cluster.typical[:count]]


def space_of(
    model: Any,
    graph: Graph | None = None,
    title: str = "",
    columns: Sequence[Column] = (),
    method: str = "pca",
    most: int = MOST_POINTS,
    seed: int = 0,
) -> Space:
    """Return the map of a model's entity vectors; given the graph, with degrees and slots of its training triples.

    Of more than `most` entities, half are those of highest degree, the others drawn by their names: two runs on one
    graph show the same.
    """
    if method not in METHODS:
        raise InputError(unknown("projection", method, METHODS))
    if most < 2:
        raise InputError(f"points {most}, expected a whole number of at least 2")
    vectors = entity_vectors(model)
    entities: Vocabulary = model.entities
    triples = torch.empty(0, 3, dtype=torch.int64) if graph is None else graph.train.long().cpu()
    degrees = torch.bincount(triples[:, [0, 2]].flatten(), minlength=len(entities))
    shown = _chosen(entities, degrees, most)
    found = project(vectors[shown] if len(shown) < len(entities) else vectors)
    points = found.points if method == "pca" else umap_points(vectors[shown], DIMENSIONS, seed)
    clusters = find_clusters(vectors[shown], found.points, degrees[shown])
    groups = [shown[cluster.rows] for cluster in clusters]
    return Space(
        title=title,
        about=_about(model, found.shares if method == "pca" else None),
        entities=entities,
        shown=shown,
        points=points,
        axes=torch.eye(DIMENSIONS),
        shares=tuple(found.shares.tolist()) if method == "pca" else (),
        method=method,
        clusters=clusters,
        topics=(None,) * len(clusters) if graph is None else tuple(topics(graph, groups)),
        degrees=degrees[shown],
        slots=_slots(triples, graph, shown, len(entities)),
        columns=tuple(_of_shown(column, shown) for column in columns),
        notes=tuple(_notes(graph, shown, len(entities))),
    )


def beside(space: Space, first: Space) -> Space:
    """Return a space turned to lie as the first does, as far as the entities that both have say how."""
    theirs = {first.entities.names[row]: place for place, row in enumerate(first.shown.tolist())}
    pairs = [
        (row, theirs[name])
        for row, entity in enumerate(space.shown.tolist())
        if (name := space.entities.names[entity]) in theirs
    ]
    rows, others = torch.tensor(pairs, dtype=torch.int64).view(-1, 2).T
    turn = turned_like(space.points, first.points, rows, others)
    note = f"turned to lie as {first.title} does, by {counted(len(pairs), 'entity')} that both show"
    if not pairs:
        note = f"has no entity in common with {first.title}, so nothing is selected in both"
    return replace(space, points=space.points @ turn, axes=space.axes @ turn, notes=(*space.notes, note))


def _chosen(entities: Vocabulary, degrees: Int[Tensor, " n"], most: int) -> Int[Tensor, " shown"]:
    """Return the ids of the entities to show, rising."""
    if len(entities) <= most:
        return torch.arange(len(entities))
    order = degrees.argsort(descending=True, stable=True)
    first, rest = order[: most // 2], order[most // 2 :]
    # A checksum of the name is as good as chance, and the same in every run and on every machine.
    drawn = torch.tensor([zlib.crc32(entities.names[row].encode("utf-8", "surrogatepass")) for row in rest.tolist()])
    return torch.cat([first, rest[drawn.argsort(stable=True)[: most - len(first)]]]).sort().values


def _about(model: Any, shares: Float[Tensor, " k"] | None) -> str:
    kind = getattr(model, "kind", type(model).__name__)
    size = f"{kind} · {counted(len(model.entities), 'entity')}"
    return size if shares is None else f"{size} · {100 * float(shares.sum()):.1f} % of the variance in 3 dimensions"


def _notes(graph: Graph | None, shown: Int[Tensor, " n"], count: int) -> list[str]:
    notes = []
    if len(shown) < count:
        half = len(shown) // 2
        notes.append(
            f"{len(shown):,} of {counted(count, 'entity')} are shown: "
            f"{half:,} of highest degree, the others drawn at random"
        )
    if graph is None:
        notes.append("the run was saved without its graph, so degrees and slots of relations are not known")
    return notes


def _slots(triples: Int[Tensor, "t 3"], graph: Graph | None, shown: Int[Tensor, " n"], count: int) -> tuple[Slot, ...]:
    """Return who appears as head and as tail of each relation, in their order; of many, those with most entities."""
    if graph is None:
        return ()
    places = torch.full((count,), -1, dtype=torch.int64)
    places[shown] = torch.arange(len(shown))
    found = []
    for side, column in (("head", 0), ("tail", 2)):
        pairs = torch.unique(torch.stack([triples[:, 1], places[triples[:, column]]], dim=1), dim=0)
        pairs = pairs[pairs[:, 1] >= 0]
        parts = pairs[:, 1].split(torch.bincount(pairs[:, 0], minlength=len(graph.relations)).tolist())
        found += [
            (row, Slot(f"{side} of {graph.relations.label(row)}", part)) for row, part in enumerate(parts) if len(part)
        ]
    largest = sorted(found, key=lambda each: -len(each[1].rows))[:MOST_SLOTS]
    return tuple(slot for _, slot in sorted(largest, key=lambda each: each[0]))


def _of_shown(column: Column, shown: Int[Tensor, " n"]) -> Column:
    rows = shown.tolist()
    if column.words:
        return replace(column, codes=tuple(np.asarray(column.codes)[rows].tolist()))
    return replace(column, numbers=tuple(np.asarray(column.numbers)[rows].tolist()))
