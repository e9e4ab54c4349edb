"""Calibrate a model on validation triples, and measure on test triples how far its probabilities are to be trusted.

Each triple asks for its tail and for its head. The right answer is compared with all entities that are not known as
answers: with the hardest of them one by one, with a random sample of the others that stands for them all.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.known_answers import KnownAnswers, known_answers
from procrustes_kge.graphs.queries import both_queries
from procrustes_kge.models.calibration import Calibration, Numbers
from procrustes_kge.models.predictor import LinkPredictor
from procrustes_kge.system.memory import explain_out_of_memory
from procrustes_kge.system.precision import exact_products
from procrustes_kge.words import counted

FEWEST = 20  # validation triples: with fewer, a probability would be a guess
SCORES = 2**26  # that are computed to calibrate: a second or two of products on a CPU
FEWEST_SCORED = 200  # triples, however many entities there are
SCORES_AT_ONCE = 2**22
HARDEST, RANDOM = 64, 64  # other entities of a query that are looked at
SHOWN = 10  # answers to a query, whose probabilities are measured
BINS = 10
FEWEST_OWN = 10  # right answers of a direction, from which on it moves the curve
STEPS = 30  # of Newton's method; it has converged long before
# How far the curve of a direction may move from that of all: standard deviations of a Gaussian prior. Log Λ differs by
# a factor between directions as their scores do, and by an addend as they are easy or hard.
SLOPE_SPREAD, OFFSET_SPREAD = 0.3, 1.0
LEAST_SLOPE = 0.05
MOST_WITHOUT = 1000  # directions without validation triples, whose scores are looked at on training triples


class Scored(NamedTuple):
    """The scores of queries' right answers and of other entities, each of which stands for `masses` entities."""

    directions: Int[np.ndarray, " queries"]
    right: Float[np.ndarray, " queries"]
    others: Float[np.ndarray, "queries others"]
    masses: Float[np.ndarray, "queries others"]  # 0 where there is none
    means: Float[np.ndarray, " queries"]  # of the scores of all entities
    squares: Float[np.ndarray, " queries"]

    @property
    def candidates(self) -> Float[np.ndarray, " queries"]:
        """How many entities each right answer is compared with."""
        return self.masses.sum(axis=1)


def calibrate(model: LinkPredictor, graph: Graph, seed: int = 0, seconds: float | None = None) -> Calibration:
    """Return what turns the model's scores into probabilities, from a random sample of the validation triples.

    The sample is one that takes a second or two; with `seconds`, it ends then. A graph with fewer than twenty
    validation triples is an `InputError`.
    """
    if len(graph.valid) < FEWEST:
        raise InputError(
            f"{graph.name} has {counted(len(graph.valid), 'validation triple')}, expected at least {FEWEST} to tell "
            "probabilities from; set more aside"
        )
    scored = _scored(model, graph, graph.valid, seed, seconds)
    centres, spreads = _levels(scored, model, graph, seed)
    heights = Scored(
        scored.directions,
        (scored.right - centres[scored.directions]) / spreads[scored.directions],
        (scored.others - centres[scored.directions, None]) / spreads[scored.directions, None],
        *scored[3:],
    )
    there = scored.masses > 0
    knots, evidence = rising(heights.right, heights.others[there], scored.masses[there])
    prior = float(1 / (1 + scored.candidates.mean()))
    examples = np.bincount(scored.directions, minlength=len(centres))
    slopes, offsets = _moved(heights, knots, evidence, prior, examples)
    own = np.where(examples >= FEWEST_OWN, examples, 0)
    return Calibration(knots, evidence, centres, spreads, slopes, offsets, own, prior, len(scored.right) // 2)


def reliability(
    calibration: Calibration, model: LinkPredictor, graph: Graph, seed: int = 1, seconds: float | None = None
) -> dict[str, Any]:
    """Return how probabilities and shares of right answers agree on test triples, overall and in ten bins.

    Twice: for the ten best new answers to each query, one of which may be the triple's own, at the prior that is kept;
    and for the triple's answer or another entity drawn evenly, at a prior of one half.
    """
    if not len(graph.test):
        raise InputError(f"{graph.name} has no test triples to measure probabilities on; set some aside")
    scored = _scored(model, graph, graph.test, seed, seconds)
    scores = np.concatenate([scored.right[:, None], scored.others], axis=1)
    right = np.zeros(scores.shape, dtype=bool)
    right[:, 0] = True
    directions = np.broadcast_to(scored.directions[:, None], scores.shape)
    there = np.concatenate([np.ones((len(scores), 1)), scored.masses], axis=1)
    shares = np.concatenate([np.ones((len(scores), 1)), scored.masses / scored.candidates.clip(1e-9)[:, None]], axis=1)
    even = calibration.probability(np.where(there > 0, scores, 0), directions, prior=0.5)
    listed = np.where(there[:, : HARDEST + 1] > 0, scores[:, : HARDEST + 1], -np.inf)
    best = np.argsort(-listed, axis=1, kind="stable")[:, :SHOWN]
    rows = np.arange(len(scores))[:, None]
    found = listed[rows, best] > -np.inf
    shown = calibration.probability(np.where(found, scores[rows, best], 0), directions[rows, best])
    measured = {"answers": (shown, right[rows, best], found), "even": (even, right, shares)}
    return {
        "split": "test",
        "triples": len(scored.right) // 2,
        "prior": calibration.prior,
        **{
            name: {"error": expected_calibration_error(*each), "bins": binned(*each)} for name, each in measured.items()
        },
    }


def expected_calibration_error(probabilities: Any, right: Any, weights: Any = None, bins: int = BINS) -> float:
    """Return Σ_b (n_b / n) |mean probability − share that is right|, over bins of equal width."""
    found = binned(probabilities, right, weights, bins)
    total = sum(each["weight"] for each in found)
    return sum(each["weight"] * abs(each["probability"] - each["right"]) for each in found) / max(total, 1e-300)


def binned(probabilities: Any, right: Any, weights: Any = None, bins: int = BINS) -> list[dict[str, float]]:
    """Return the bins of a reliability diagram that hold something: from, to, mean probability, share that is right."""
    probabilities = np.asarray(probabilities, dtype=np.float64).ravel()
    if not np.isfinite(probabilities).all() or ((probabilities < 0) | (probabilities > 1)).any():
        raise InputError("a probability outside 0 to 1, expected numbers between the two")
    masses = np.ones_like(probabilities) if weights is None else np.asarray(weights, dtype=np.float64).ravel()
    place = (probabilities * bins).astype(np.int64).clip(max=bins - 1)
    sums = [np.bincount(place, masses * each, bins) for each in (1, probabilities, np.asarray(right).ravel())]
    return [
        {"from": k / bins, "to": (k + 1) / bins, "weight": float(n), "probability": float(p / n), "right": float(r / n)}
        for k, (n, p, r) in enumerate(zip(*sums, strict=True))
        if n > 0
    ]


def rising(
    right: Float[np.ndarray, " right"], other: Float[np.ndarray, " other"], masses: Float[np.ndarray, " other"]
) -> tuple[Float[np.ndarray, " knots"], Float[np.ndarray, " knots"]]:
    """Return knots and log likelihood ratios that rise: isotonic regression of rightness on a score.

    Its steps are the slopes of the convex hull of the ROC curve, so they do not depend on the prior. `masses` are how
    many entities each of `other` stands for. So that no score makes certain, one right answer is added below all, and
    one other entity above all. A step goes from the lowest to the highest score in it; lines join steps.
    """
    lowest, highest = min(right.min(), other.min(initial=np.inf)), max(right.max(), other.max(initial=-np.inf))
    right, other, masses = np.append(right, lowest), np.append(other, highest), np.append(masses, 1.0)
    places, counts = np.unique(right, return_counts=True)
    # Slot 2i + 1 is at right answer i, the even ones lie between; what has equal scores has equal probability.
    at = np.searchsorted(places, other)
    slots = 2 * at + (places[at.clip(max=len(places) - 1)] == other)
    hits, lowest_in, highest_in = np.zeros((3, 2 * len(places) + 1))
    hits[1::2] = counts
    misses = np.bincount(slots, masses, len(hits))
    for each, extreme, end in ((lowest_in, np.minimum, np.inf), (highest_in, np.maximum, -np.inf)):
        each.fill(end)
        each[1::2] = places
        extreme.at(each, slots, other)
    pooled: list[tuple[float, float, float, float]] = []
    for slot in np.flatnonzero(hits + misses):
        more, fewer, start, stop = hits[slot], misses[slot], lowest_in[slot], highest_in[slot]
        while pooled and pooled[-1][0] * fewer >= more * pooled[-1][1]:
            above, below, start, _ = pooled.pop()
            more, fewer = more + above, fewer + below
        pooled.append((more, fewer, start, stop))
    more, fewer, *ends = np.array(pooled).T
    knots, first = np.unique(np.stack(ends, axis=1), return_index=True)
    return knots, (np.log(more / more.sum()) - np.log(fewer / fewer.sum())).repeat(2)[first]


def _moved(
    heights: Scored, knots: Numbers, evidence: Numbers, prior: float, examples: Int[np.ndarray, " directions"]
) -> tuple[Float[np.ndarray, " directions"], Float[np.ndarray, " directions"]]:
    """Return a and b of each direction: logistic regression on g(z), drawn towards 1 and 0 by a Gaussian prior."""
    slopes, offsets = np.ones(len(examples)), np.zeros(len(examples))
    enough = examples >= FEWEST_OWN
    values = np.interp(np.concatenate([heights.right[:, None], heights.others], axis=1), knots, evidence)
    masses = np.concatenate([np.ones((len(values), 1)), heights.masses], axis=1)
    right = np.zeros_like(masses)
    right[:, 0] = 1
    at = np.broadcast_to(heights.directions[:, None], values.shape)
    some = (masses > 0) & enough[at]
    at, values, masses, right = at[some], values[some], masses[some], right[some]
    chance = np.log(prior) - np.log1p(-prior)

    def summed(each: Float[np.ndarray, " n"]) -> Float[np.ndarray, " directions"]:
        return np.bincount(at, each, len(examples)).astype(np.float64)

    for _ in range(STEPS):
        odds = slopes[at] * values + offsets[at] + chance
        guess = 1 / (1 + np.exp(-odds.clip(-50, 50)))
        wrong, sure = masses * (guess - right), masses * guess * (1 - guess)
        by_slope = summed(wrong * values) + (slopes - 1) / SLOPE_SPREAD**2
        by_offset = summed(wrong) + offsets / OFFSET_SPREAD**2
        aa = summed(sure * values**2) + 1 / SLOPE_SPREAD**2
        ab, bb = summed(sure * values), summed(sure) + 1 / OFFSET_SPREAD**2
        determinant = aa * bb - ab**2
        # Steps of at most one: far from the optimum the curvature may be next to nothing.
        slopes = slopes - ((bb * by_slope - ab * by_offset) / determinant).clip(-1, 1)
        offsets = offsets - ((aa * by_offset - ab * by_slope) / determinant).clip(-1, 1)
        slopes = slopes.clip(min=LEAST_SLOPE)
    return slopes, offsets


def _levels(scored: Scored, model: LinkPredictor, graph: Graph, seed: int) -> tuple[Numbers, Numbers]:
    """Return mean and standard deviation of the scores of each direction's queries, whichever entity they are of."""
    many = 2 * len(graph.relations)
    missing = (np.bincount(scored.directions, minlength=many) == 0).reshape(2, -1).any(axis=0)
    relations, first = np.unique(graph.train[:, 1].numpy(), return_index=True)
    wanted = first[missing[relations]][:MOST_WITHOUT]
    directions, means, squares = scored.directions, scored.means, scored.squares
    if len(wanted):
        more = _scored(model, graph, graph.train[torch.from_numpy(wanted)], seed)
        fresh = ~np.isin(more.directions, directions)
        directions = np.concatenate([directions, more.directions[fresh]])
        means = np.concatenate([means, more.means[fresh]])
        squares = np.concatenate([squares, more.squares[fresh]])
    counts = np.bincount(directions, minlength=many)
    shift = means.mean()  # so that squares lose no digits
    centres = np.bincount(directions, means - shift, many) / counts.clip(1)
    spreads = np.bincount(directions, squares + (means - shift) ** 2, many) / counts.clip(1) - centres**2
    known = counts > 0
    usual = spreads[known].mean()
    spreads = np.sqrt(np.where(known & (spreads > 1e-12 * max(usual, 1e-300)), spreads, usual))
    return np.where(known, centres + shift, means.mean()), np.where(spreads > 0, spreads, 1.0)


def _scored(
    model: LinkPredictor, graph: Graph, triples: Int[Tensor, "n 3"], seed: int, seconds: float | None = None
) -> Scored:
    """Score the queries of a random sample of triples, as many as a second or two allow."""
    most = max(FEWEST_SCORED, SCORES // (2 * len(graph.entities)))
    generator = torch.Generator().manual_seed(seed)
    triples = triples[torch.randperm(len(triples), generator=generator)[:most]]
    ends, parts = None if seconds is None else time.perf_counter() + seconds, list[Scored]()
    with torch.no_grad(), exact_products(), explain_out_of_memory("calibrating", "a smaller --dim"):
        encoded = model.encode(graph)
        probe = model.query(encoded, triples[:1, 0], triples[:1, 1])
        known = known_answers(graph, probe.device)
        size = max(1, SCORES_AT_ONCE // max(len(graph.entities), probe.shape[1]) // 2)
        for some in triples.split(size):
            asked, directions, answers = (each.to(probe.device) for each in both_queries(some, len(graph.relations)))
            scores = model.scores(encoded, model.query(encoded, asked, directions))
            parts.append(_compared(scores, asked, directions, answers, known, generator))
            enough = size * len(parts) >= FEWEST
            if ends is not None and enough and time.perf_counter() > ends:
                break
    return Scored(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _compared(
    scores: Float[Tensor, "b n"],
    asked: Int[Tensor, " b"],
    directions: Int[Tensor, " b"],
    answers: Int[Tensor, " b"],
    known: KnownAnswers,
    generator: torch.Generator,
) -> Scored:
    """Return the scores of right answers, of the hardest other entities, and of a sample of the rest."""
    if not scores.isfinite().all():
        raise InputError(
            "the model's scores are not finite, so they have no probabilities; "
            "the learning rate may have been too high: train again with a lower one"
        )
    count = scores.shape[1]
    taken: Bool[Tensor, "b n"] = torch.zeros_like(scores, dtype=torch.bool)
    taken[known.look_up(asked, directions)] = True
    taken.scatter_(1, answers[:, None], True)
    left = count - taken.sum(dim=1)
    hardest = scores.masked_fill(taken, -torch.inf).topk(min(HARDEST, count))
    missing = scores.new_full((len(scores), HARDEST - hardest.values.shape[1]), -torch.inf)
    top = torch.cat([hardest.values, missing], dim=1)
    taken.scatter_(1, hardest.indices, True)
    drawn = torch.randint(count, (len(scores), RANDOM), generator=generator).to(scores.device)
    free = ~taken.gather(1, drawn)
    others = torch.cat([top, scores.gather(1, drawn)], dim=1)
    rest = (left - HARDEST).clamp_min(0)
    each = (rest / free.sum(dim=1).clamp_min(1)).double()
    masses = torch.cat([(top > -torch.inf).double(), free * each[:, None]], dim=1)
    tables = (directions, scores.gather(1, answers[:, None])[:, 0].double())
    masked = torch.where(masses > 0, others.double(), 0)
    levels = (scores.mean(dim=1).double(), scores.var(dim=1, correction=0).double())
    return Scored(*(table.cpu().numpy() for table in (*tables, masked, masses, *levels)))
