"""From an embedding to one with paths as evidence: mine paths, weigh them, and find out what they are worth beside it.

candidates ─choose by expected gain and cost→ paths ─train, edges hidden→ weights ─validation→ worth of each direction
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.known_answers import KnownAnswers
from procrustes_kge.graphs.queries import both_queries
from procrustes_kge.linalg import numbered
from procrustes_kge.models.paths import LONGEST, Paths
from procrustes_kge.models.with_paths import Embedding, WithPaths
from procrustes_kge.system.memory import explain_out_of_memory
from procrustes_kge.system.precision import exact_products
from procrustes_kge.training.path_mining import Candidates, mined, sampled
from procrustes_kge.training.path_weights import Examples, first_weights, learned_weights
from procrustes_kge.training.path_worth import Worth

PATHS_OF_DIRECTION = 64
WALKS_OF_QUERY = 2000  # expected, along all paths of its direction
TRIPLES_OF_RELATION, FEWEST_TRIPLES = 1000, 50  # that weights are learned from
TRIPLES_IN_ALL = 200_000  # or the fewest of each relation
WALKS_IN_ALL = 2**24  # expected, while weights are learned: fewer triples where walks are many
WALKS_AT_ONCE = 2**19
PHASES = (0.25, 0.75, 1.0)  # of the time: until when paths are mined, weighed, and tried on validation

Report = Callable[[int, int], None] | None  # called with how much is done, of how much


@dataclass(frozen=True)
class WithEvidence:
    """An embedding with paths, and what is known of them."""

    model: WithPaths
    about: dict[str, Any]  # for a report


def with_paths(
    embedding: Embedding,
    graph: Graph,
    valid: Int[Tensor, "n 3"] | None = None,
    seed: int = 0,
    seconds: float | None = None,
    report: Report = None,
) -> WithEvidence:
    """Return the embedding with paths as evidence, of which `valid` (or the graph's own) says what they are worth.

    With `seconds`, relations whose turn does not come in that time have no paths; the most frequent come first.
    """
    started, generator = time.perf_counter(), torch.Generator().manual_seed(seed % 2**63)
    with torch.no_grad(), exact_products(), explain_out_of_memory(f"weighing paths of {graph.name}", "without --paths"):
        device = embedding.table.device
        edges = KnownAnswers.of(graph, ("train",))
        first, second, last = (None if seconds is None else started + share * seconds for share in PHASES)
        candidates = chosen(mined(graph, edges, generator, first))
        weighing = _Weighing(graph, edges.to(device), candidates, generator, second)
        paths = weighing.paths(report)
        model = WithPaths(
            embedding, paths, torch.zeros(2 * len(graph.relations), device=device), graph.train.to(device)
        )
        worth = Worth.of(model, graph, graph.valid if valid is None else valid, generator, last)
    about = {"paths": len(paths), "candidates": len(candidates.asked), "triples": weighing.triples, **worth.about}
    model = replace(model, worth=worth.worth)
    return WithEvidence(model, {**about, "seconds": time.perf_counter() - started})


def chosen(candidates: Candidates) -> Candidates:
    """Return the best paths of each direction, as many as their walks allow.

    Best by share · confidence: the share of triples whose ends it joins, and of its walks those that end at an answer.
    """
    cheap = torch.nonzero(candidates.walks <= WALKS_OF_QUERY / 4).flatten()
    candidates = candidates.only(cheap)
    value = candidates.share.double() ** 2 / (candidates.walks + 1)
    order = value.argsort(descending=True, stable=True)
    order = order[candidates.asked[order].argsort(stable=True)]
    candidates = candidates.only(order)
    sizes = torch.bincount(candidates.asked)
    _, places = numbered(sizes)
    walks = candidates.walks.cumsum(0)
    before = torch.cat([walks.new_zeros(1), walks])[(sizes.cumsum(0) - sizes)[candidates.asked]]
    return candidates.only(torch.nonzero((places < PATHS_OF_DIRECTION) & (walks - before <= WALKS_OF_QUERY)).flatten())


class _Weighing:
    """Learns the weights of candidates, some relations at a time, the most frequent first."""

    def __init__(
        self, graph: Graph, edges: KnownAnswers, candidates: Candidates, generator: torch.Generator, ends: float | None
    ) -> None:
        relations = len(graph.relations)
        self.edges, self.candidates, self.ends, self.triples = edges, candidates, ends, 0
        walks = torch.bincount(candidates.asked, candidates.walks, 2 * relations).view(2, -1).sum(dim=0)
        fitting = min(
            TRIPLES_OF_RELATION, TRIPLES_IN_ALL // relations, int(WALKS_IN_ALL / max(float(walks.sum()), 1.0))
        )
        self.examples = sampled(graph, max(FEWEST_TRIPLES, fitting), generator)
        counts = torch.bincount(self.examples[:, 1], minlength=relations)
        self.order = torch.bincount(graph.train[:, 1], minlength=relations).argsort(descending=True, stable=True)
        # Relations side by side, as many as have so many walks.
        self.parts = ((walks * counts)[self.order].cumsum(0) / WALKS_AT_ONCE).long()

    def paths(self, report: Report) -> Paths:
        """Return the paths that lead to an answer, with their weights."""
        relations, device = len(self.order), self.edges.queries.answers.device
        nothing = self.candidates.asked[:0].to(device)
        kept, done = [(nothing, nothing.new_zeros(0, LONGEST), nothing.float())], 0
        for part in self.parts.unique().tolist():
            if self.ends is not None and time.perf_counter() > self.ends:
                break
            some = torch.zeros(relations, dtype=torch.bool)
            some[self.order[self.parts == part]] = True
            ours = self.candidates.only(torch.nonzero(some[self.candidates.asked % relations]).flatten())
            kept.append(self._weighed(ours, self.examples[some[self.examples[:, 1]]], relations, device))
            done += int(some.sum())
            if report is not None:
                report(done, relations)
        asked, steps, weights = (torch.cat(each) for each in zip(*kept, strict=True))
        return Paths(asked, steps, weights)

    def _weighed(
        self, ours: Candidates, triples: Int[Tensor, "n 3"], relations: int, device: torch.device
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the paths among these that lead to an answer of the triples' queries, and their weights."""
        queries = [each.to(device) for each in both_queries(triples, relations)]
        paths = Paths(ours.asked, ours.steps, torch.zeros(len(ours.asked))).to(device)
        if not len(paths) or not len(triples):
            return paths.asked[:0], paths.steps[:0], paths.weights[:0]
        self.triples += len(triples)
        examples = Examples.of(paths, self.edges, *queries)
        confidences, hits = examples.confidences(len(paths))
        if not hits.any():
            return paths.asked[:0], paths.steps[:0], paths.weights[:0]
        weights = learned_weights(examples, first_weights(confidences))
        useful = torch.nonzero((hits > 0) & (weights != 0)).flatten()
        return paths.asked[useful], paths.steps[useful], weights[useful]
