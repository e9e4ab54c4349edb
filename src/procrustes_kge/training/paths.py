"""From an embedding to one with paths as evidence: mine paths, weigh them, and find out what they are worth beside it.

    candidates ─choose by expected gain and cost→ paths ─train, edges hidden→ weights ─validation→ worth of each direction
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.known_answers import KnownAnswers, known_answers
from procrustes_kge.graphs.queries import both_queries
from procrustes_kge.linalg import numbered
from procrustes_kge.models.paths import Paths
from procrustes_kge.models.ranking import count_places
from procrustes_kge.models.with_paths import Embedding, WithPaths
from procrustes_kge.system.memory import explain_out_of_memory
from procrustes_kge.system.precision import exact_products
from procrustes_kge.training.path_mining import Candidates, mined, sampled
from procrustes_kge.training.path_weights import Examples, first_weights, learned_weights

PATHS_OF_DIRECTION = 64
WALKS_OF_QUERY = 2000  # expected, along all paths of its direction
TRIPLES_OF_RELATION, FEWEST_TRIPLES = 1000, 50  # that weights are learned from
WALKS_IN_ALL = 2**24  # expected, while weights are learned: fewer triples where walks are many
WALKS_AT_ONCE = 2**22
VALIDATION_TRIPLES = 3000
# What paths may be worth, as multiples of how far the embedding's scores are spread. Beside scores that are log-odds
# with a spread near one, weights that are log-odds too are worth about one.
WORTHS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0)
USUAL_WORTH = 0.7  # where no validation triple says
SHARED = 50  # queries: a direction with fewer takes its worth mostly from all
CERTAIN = 1.0  # standard errors that the gain on validation has to reach, or paths are left out
ASKED_AT_ONCE = 2**22  # scores

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
    with torch.no_grad(), exact_products(), explain_out_of_memory(f"weighing paths of {graph.name}", "--device cpu"):
        encoded = embedding.encode(graph)
        device = embedding.query(encoded, *torch.zeros(2, 1, dtype=torch.int64)).device
        edges = KnownAnswers.of(graph, ("train",))
        candidates = chosen(mined(graph, edges, generator))
        ends = None if seconds is None else started + seconds
        weighing = _Weighing(graph, edges.to(device), candidates, generator, ends)
        paths = weighing.paths(report)
        model = WithPaths(embedding, paths, torch.zeros(2 * len(graph.relations), device=device), graph.train.to(device))
        worth = Worth.of(model, graph, graph.valid if valid is None else valid, generator)
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
        fitting = int(WALKS_IN_ALL / max(float(walks.sum()), 1.0))
        self.examples = sampled(graph, min(TRIPLES_OF_RELATION, max(FEWEST_TRIPLES, fitting)), generator)
        counts = torch.bincount(self.examples[:, 1], minlength=relations)
        self.order = torch.bincount(graph.train[:, 1], minlength=relations).argsort(descending=True, stable=True)
        # Relations side by side, as many as have so many walks.
        self.parts = ((walks * counts)[self.order].cumsum(0) / WALKS_AT_ONCE).long()

    def paths(self, report: Report) -> Paths:
        """Return the paths that lead to an answer, with their weights."""
        relations, device = len(self.order), self.edges.queries.answers.device
        kept, done = [], 0
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
        self.triples += len(triples)
        queries = [each.to(device) for each in both_queries(triples, relations)]
        paths = Paths(ours.asked, ours.steps, torch.zeros(len(ours.asked))).to(device)
        if not len(paths) or not len(triples):
            return paths.asked, paths.steps, paths.weights
        examples = Examples.of(paths, self.edges, *queries)
        confidences, hits = examples.confidences(len(paths))
        weights = learned_weights(examples, first_weights(confidences))
        useful = torch.nonzero((hits > 0) & (weights != 0)).flatten()
        return paths.asked[useful], paths.steps[useful], weights[useful]


@dataclass(frozen=True)
class Worth:
    """What paths are worth in each direction, beside an embedding."""

    worth: Float[Tensor, " directions"]
    about: dict[str, Any]

    @classmethod
    def of(cls, model: WithPaths, graph: Graph, valid: Int[Tensor, "n 3"], generator: torch.Generator) -> Worth:
        """Try each worth on validation triples; without any, every direction has the usual one."""
        directions = 2 * len(graph.relations)
        sample = valid[torch.randperm(len(valid), generator=generator)[:VALIDATION_TRIPLES]]
        spread = _spread(model, graph, sample if len(sample) else graph.train)
        if len(sample) == 0:
            worth = model.worth.new_full((directions,), USUAL_WORTH * spread)
            return cls(worth, {"valid": None, "worth": USUAL_WORTH})
        ranks, asked = _reciprocal_ranks(model, graph, sample, spread)
        # What half of the triples chooses is measured on the other half: an honest figure, and a test of the gain.
        half = torch.arange(len(sample)).repeat(2) % 2
        gains = torch.cat(
            [_chosen_gains(ranks, asked, half == one, half != one, directions) for one in (0, 1)]
        )
        error = float(gains.std()) / len(gains) ** 0.5 if len(gains) > 1 else float("inf")
        certain = float(gains.mean()) > CERTAIN * error
        places = best_worths(ranks, asked, directions) if certain else torch.zeros(directions, dtype=torch.int64)
        found = {"triples": len(sample), "without": float(ranks[:, 0].mean()), "gain": float(gains.mean()), "error": error}
        worth = torch.tensor(WORTHS)[places]
        return cls((worth * spread).to(model.worth), {"valid": found, "worth": float(worth[asked].mean())})


def best_worths(
    ranks: Float[Tensor, "queries worths"], asked: Int[Tensor, " queries"], directions: int
) -> Int[Tensor, " directions"]:
    """Return the place of each direction's best worth: by its own queries, and 50 that are as all are on average."""
    gains = ranks - ranks[:, :1]
    own = gains.new_zeros(directions, gains.shape[1]).index_add_(0, asked, gains)
    return (own + SHARED * gains.mean(dim=0)).argmax(dim=1)


def _chosen_gains(
    ranks: Float[Tensor, "queries worths"],
    asked: Int[Tensor, " queries"],
    by: Tensor,
    on: Tensor,
    directions: int,
) -> Float[Tensor, " measured"]:
    """Return what some queries gain from worths that others choose."""
    if not by.any():
        return ranks.new_zeros(int(on.sum()))
    places = best_worths(ranks[by], asked[by], directions)[asked[on]]
    return ranks[on].gather(1, places[:, None])[:, 0] - ranks[on, 0]


def _spread(model: WithPaths, graph: Graph, triples: Int[Tensor, "n 3"]) -> float:
    """Return the mean standard deviation of the embedding's scores of a query, or 1 if it gives all the same."""
    heads, relations, _ = both_queries(triples[:100].to(model.worth.device), len(graph.relations))
    encoded = model.embedding.encode(graph)
    parts = zip(heads.split(20), relations.split(20), strict=True)
    scores = torch.cat(
        [model.embedding.scores(encoded, model.embedding.query(encoded, *some)).std(dim=1) for some in parts]
    )
    return float(scores.mean()) or 1.0


def _reciprocal_ranks(
    model: WithPaths, graph: Graph, triples: Int[Tensor, "n 3"], spread: float
) -> tuple[Float[Tensor, "queries worths"], Int[Tensor, " queries"]]:
    """Return 1/rank of both queries of each triple, filtered, for each worth; and the directions asked."""
    heads, relations, answers = (each.to(model.worth.device) for each in both_queries(triples, len(graph.relations)))
    encoded, known = model.embedding.encode(graph), known_answers(graph, heads.device)
    ranks = torch.empty(len(heads), len(WORTHS), dtype=torch.float64)
    for some in relations.argsort(stable=True).split(max(1, min(256, ASKED_AT_ONCE // len(graph.entities)))):
        asked = heads[some], relations[some]
        scores = model.embedding.scores(encoded, model.embedding.query(encoded, *asked))
        evidence = model.paths.evidence(model.paths.found(model.edges, *asked), len(some), len(graph.entities))
        others = known.look_up(*asked)
        for place, worth in enumerate(WORTHS):
            places = count_places(scores + worth * spread * evidence, answers[some], *others)
            ranks[some.cpu(), place] = 2 / (1 + 2 * places[:, 0] + places[:, 1]).cpu().double()
    return ranks, relations.cpu()
