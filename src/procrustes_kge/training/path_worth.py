"""What paths are worth beside an embedding, in each direction: chosen on validation triples.

    score(y) = embedding's score + a_ρ s(y)        a_ρ = (a multiple from a few) · (spread of the embedding's scores)

A direction chooses by the mean reciprocal rank of its own queries and of all: those of all count as 100 of its own.
Unless the gain, measured on triples that did not choose, is larger than its standard error, paths are worth nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.known_answers import known_answers
from procrustes_kge.graphs.queries import both_queries
from procrustes_kge.models.predictor import LinkPredictor
from procrustes_kge.models.ranking import count_places
from procrustes_kge.models.with_paths import WithPaths

MOST_TRIPLES, FEWEST_TRIPLES = 3000, 200  # of validation
SCORES_IN_ALL = 2**30
TRIPLES_AT_ONCE = 250
SCORES_AT_ONCE = 2**22
# What paths may be worth, as multiples of how far the embedding's scores are spread. Beside scores that are log-odds
# with a spread near one, weights that are log-odds too are worth about one.
WORTHS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0)
USUAL_WORTH = 0.7  # where no validation triple says
SHARED = 100  # queries: a direction with fewer takes its worth mostly from all
CERTAIN = 1.0  # standard errors that the gain on validation has to reach, or paths are left out


@dataclass(frozen=True)
class Worth:
    """What paths are worth in each direction, beside an embedding."""

    worth: Float[Tensor, " directions"]
    about: dict[str, Any]

    @classmethod
    def of(
        cls,
        model: WithPaths,
        graph: Graph,
        valid: Int[Tensor, "n 3"],
        generator: torch.Generator,
        ends: float | None = None,
    ) -> Worth:
        """Try each worth on validation triples, as many as there is time for; without any, take the usual one."""
        directions = 2 * len(graph.relations)
        if len(model.paths) == 0:
            return cls(model.worth, {"valid": None, "worth": 0.0})
        most = max(FEWEST_TRIPLES, min(MOST_TRIPLES, SCORES_IN_ALL // (2 * len(graph.entities))))
        sample = valid[torch.randperm(len(valid), generator=generator)[:most]]
        spread = _spread(model, graph, sample if len(sample) else graph.train)
        if len(sample) == 0:
            worth = model.worth.new_full((directions,), USUAL_WORTH * spread)
            return cls(worth, {"valid": None, "worth": USUAL_WORTH})
        ranked = list[tuple[Tensor, Tensor]]()
        for some in sample.split(TRIPLES_AT_ONCE):
            if ranked and ends is not None and time.perf_counter() > ends:
                break
            ranked.append(_reciprocal_ranks(model, graph, some, spread))
        ranks, asked = (torch.cat(each) for each in zip(*ranked, strict=True))
        half = torch.cat([torch.arange(len(each) // 2).repeat(2) % 2 for _, each in ranked])  # both queries of a triple
        places, found = worths_that_gain(ranks, asked, half, directions)
        worth = torch.tensor(WORTHS)[places]
        return cls((worth * spread).to(model.worth), {"valid": found, "worth": float(worth[asked].mean())})


def worths_that_gain(
    ranks: Float[Tensor, "queries worths"],
    asked: Int[Tensor, " queries"],
    half: Int[Tensor, " queries"],
    directions: int,
) -> tuple[Int[Tensor, " directions"], dict[str, float]]:
    """Return the place of each direction's best worth, 0 for all where the gain is not certain; and the gain.

    What half of the queries chooses is measured on the other half: an honest figure, and a test of the gain.
    """
    gains = torch.cat([_chosen_gains(ranks, asked, half == one, half != one, directions) for one in (0, 1)])
    gain, error = float(gains.mean()), float(gains.std()) / len(gains) ** 0.5 if len(gains) > 1 else float("inf")
    certain = gain > CERTAIN * error
    places = best_worths(ranks, asked, directions) if certain else torch.zeros(directions, dtype=torch.int64)
    return places, {"triples": len(asked) // 2, "without": float(ranks[:, 0].mean()), "gain": gain, "error": error}


def best_worths(
    ranks: Float[Tensor, "queries worths"], asked: Int[Tensor, " queries"], directions: int
) -> Int[Tensor, " directions"]:
    """Return the place of each direction's best worth: by its own queries, and 100 that are as all are on average."""
    gains = ranks - ranks[:, :1]
    own = gains.new_zeros(directions, gains.shape[1]).index_add_(0, asked, gains)
    return (own + SHARED * gains.mean(dim=0)).argmax(dim=1)


def _chosen_gains(
    ranks: Float[Tensor, "queries worths"],
    asked: Int[Tensor, " queries"],
    by: Bool[Tensor, " queries"],
    on: Bool[Tensor, " queries"],
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
    embedding: LinkPredictor = model.embedding
    encoded = embedding.encode(graph)
    parts = zip(heads.split(20), relations.split(20), strict=True)
    scores = torch.cat(
        [embedding.scores(encoded, embedding.query(encoded, *some)).std(dim=1, correction=0) for some in parts]
    )
    return float(scores.mean()) or 1.0


def _reciprocal_ranks(
    model: WithPaths, graph: Graph, triples: Int[Tensor, "n 3"], spread: float
) -> tuple[Float[Tensor, "queries worths"], Int[Tensor, " queries"]]:
    """Return 1/rank of both queries of each triple, filtered, for each worth; and the directions asked."""
    heads, relations, answers = (each.to(model.worth.device) for each in both_queries(triples, len(graph.relations)))
    embedding: LinkPredictor = model.embedding
    encoded, known = embedding.encode(graph), known_answers(graph, heads.device)
    ranks = torch.empty(len(heads), len(WORTHS), dtype=torch.float64)
    for some in relations.argsort(stable=True).split(max(1, min(256, SCORES_AT_ONCE // len(graph.entities)))):
        asked = heads[some], relations[some]
        scores = embedding.scores(encoded, embedding.query(encoded, *asked))
        evidence = model.paths.evidence(model.paths.found(model.edges, *asked), len(some), len(graph.entities))
        others = known.look_up(*asked)
        for place, worth in enumerate(WORTHS):
            places = count_places(scores + worth * spread * evidence, answers[some], *others)
            ranks[some.cpu(), place] = 2 / (1 + 2 * places[:, 0] + places[:, 1]).cpu().double()
    return ranks, relations.cpu()
