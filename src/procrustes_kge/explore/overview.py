"""What there is to tell of a run, as data: its graph, its answers, its vectors and its relations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

from procrustes_kge.errors import InputError
from procrustes_kge.explore.relations.leakage import Leakage, leakage
from procrustes_kge.explore.relations.relations import RelationProperties, relation_properties
from procrustes_kge.explore.space.space import Space, space_of
from procrustes_kge.graphs.graph import SPLITS, Graph
from procrustes_kge.models.ranking import rank
from procrustes_kge.runs.saved import SavedRun

MAPPED = 50_000  # entities whose vectors are looked at, where there are more
ASKED, SHOWN = 6, 5  # sample queries, and answers of each
Found = TypeVar("Found")


@dataclass(frozen=True)
class RelationCounts:
    """A relation in numbers: triples by split, and how many answers a query has on average."""

    name: str
    triples: tuple[int, int, int]
    tails_per_head: float
    heads_per_tail: float


@dataclass(frozen=True)
class GraphFacts:
    """A graph in numbers."""

    graph: Graph
    degrees: tuple[tuple[str, int], ...]  # how many entities have so many training triples: 0, 1, 2, up to 4, 8 …
    relations: tuple[RelationCounts, ...]  # those with most triples first
    leakage: Leakage | None  # None without test triples


@dataclass(frozen=True)
class SampleAnswer:
    """One of the best answers to a query, with the split that holds it, if one does."""

    name: str
    label: str
    score: float
    split: str | None
    wanted: bool  # it is the answer that the triple has


@dataclass(frozen=True)
class SampleQuery:
    """A triple that was asked about from one side."""

    head: str | None  # None: asked for
    relation: str
    tail: str | None
    wanted: str
    rank: float  # filtered, ties count half
    answers: tuple[SampleAnswer, ...]


@dataclass(frozen=True)
class Overview:
    """All there is to tell of a run."""

    run: SavedRun
    facts: GraphFacts | None  # None: saved without its triples
    relations: RelationProperties | None
    unread: str  # why its relations cannot be read, where they cannot
    queries: tuple[SampleQuery, ...]
    split: str  # that the sample queries are of
    space: Space | None
    unseen: str  # why its entities cannot be drawn, where they cannot


def overview(run: SavedRun, seed: int = 0) -> Overview:
    """Gather what there is to tell of a run."""
    graph = run.graph
    relations, unread = _or_why_not(lambda: relation_properties(run.model, graph, seed))
    space, unseen = _or_why_not(lambda: space_of(run.model, graph, str(run.folder), most=MAPPED))
    split = next((each for each in ("test", "valid", "train") if graph is not None and len(graph.split(each))), "")
    queries = sample_queries(run, split, seed) if graph is not None and split else ()
    facts = graph_facts(graph) if graph is not None else None
    return Overview(run, facts, relations, unread, tuple(queries), split, space, unseen)


def _or_why_not(work: Callable[[], Found]) -> tuple[Found | None, str]:
    """Return what work finds, or nothing and what keeps it from finding it."""
    try:
        return work(), ""
    except InputError as error:
        return None, str(error)


def graph_facts(graph: Graph) -> GraphFacts:
    """Count what a graph has."""
    found = leakage(graph) if len(graph.test) else None
    return GraphFacts(graph, tuple(_degrees(graph)), tuple(_relations(graph)), found)


def _degrees(graph: Graph) -> list[tuple[str, int]]:
    """Return how many entities have no training triple, one, two, up to four, up to eight …"""
    degrees = torch.bincount(graph.train[:, [0, 2]].flatten(), minlength=len(graph.entities))
    found, low, high = [("0", int((degrees == 0).sum()))], 1, 1
    while low <= int(degrees.max()):
        count = int(((degrees >= low) & (degrees <= high)).sum())
        found.append((f"{high:,}" if low == high else f"≤{high:,}", count))
        low, high = high + 1, 2 * high
    while len(found) > 1 and not found[0][1]:
        found.pop(0)
    return found


def _relations(graph: Graph) -> list[RelationCounts]:
    count, entities = len(graph.relations), len(graph.entities)
    by_split = [torch.bincount(graph.split(split)[:, 1], minlength=count) for split in SPLITS]
    heads, kinds, tails = graph.train.T
    asked = [torch.bincount((kinds * entities + each).unique() // entities, minlength=count) for each in (heads, tails)]
    tails_per_head, heads_per_tail = (by_split[0] / each.clamp_min(1) for each in asked)
    order = torch.stack(by_split).sum(dim=0).argsort(descending=True, stable=True)
    return [
        RelationCounts(
            graph.relations.shown(r),
            (int(by_split[0][r]), int(by_split[1][r]), int(by_split[2][r])),
            float(tails_per_head[r]),
            float(heads_per_tail[r]),
        )
        for r in order.tolist()
    ]


def sample_queries(run: SavedRun, split: str, seed: int = 0) -> list[SampleQuery]:
    """Ask about a few triples of a split, each of another relation as long as there are such, from either side."""
    graph, model = run.graph, run.model
    if graph is None:
        raise InputError(f"{run.folder}: saved without its triples, so none can be asked about; save it with graph=…")
    triples = graph.split(split)
    order = torch.randperm(len(triples), generator=torch.Generator().manual_seed(seed)).tolist()
    seen = dict[int, list[int]]()
    for row in order:
        seen.setdefault(int(triples[row, 1]), []).append(row)
    chosen = [row for turn in range(ASKED) for rows in seen.values() for row in rows[turn : turn + 1]][:ASKED]
    some = triples[chosen]
    ranks = rank(model, graph, some).realistic.view(2, -1).tolist()
    found = []
    for place, (head, relation, tail) in enumerate(some.tolist()):
        backwards = place % 2 == 1
        asked, wanted = (tail, head) if backwards else (head, tail)
        answers = _answers(run, graph, asked, relation, wanted, backwards)
        shown = graph.entities.shown
        found.append(
            SampleQuery(
                None if backwards else shown(head),
                graph.relations.shown(relation),
                shown(tail) if backwards else None,
                shown(wanted),
                ranks[backwards][place],
                tuple(answers),
            )
        )
    return found


def _answers(
    run: SavedRun, graph: Graph, asked: int, relation: int, wanted: int, backwards: bool
) -> list[SampleAnswer]:
    known, name = known_splits(graph, asked, relation, backwards), graph.entities[wanted]
    best = run.model.answers(asked, relation + backwards * len(graph.relations), SHOWN, graph)
    return [SampleAnswer(each.name, each.label, each.score, known.get(each.name), each.name == name) for each in best]


def known_splits(graph: Graph, asked: int, relation: int, backwards: bool) -> dict[str, str]:
    """Return the names that answer a query, each with the split that says so."""
    found = {}
    for split in SPLITS:
        triples = graph.split(split).flip(1) if backwards else graph.split(split)
        answers = triples[(triples[:, 0] == asked) & (triples[:, 1] == relation), 2]
        found.update({graph.entities[answer]: split for answer in answers.tolist()})
    return found
