"""Answers kept soft: shares of one instead of a single winner, so that questions can be chained and relations compared.

p_τ(y | x, ρ) = softmax(scores(x, ρ) / τ), with the temperature of `asked.Asked`. A path ρ₁, ρ₂ has
p(z) = Σ_y p(y | x, ρ₁) p(z | y, ρ₂). Where the graph knows answers to a step, those share half of its weight evenly:
what is known counts, and what the model thinks is missing still does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from procrustes_kge.explore.scores.asked import Asked, Ids, Scores
from procrustes_kge.models.highest import highest

BEAM = 64  # entities that a step goes on from
KNOWN = 0.5  # the weight of known answers together
RELATIONS = 16  # directions that an analogy goes along
LEAST = 1e-3  # weight of a direction that is gone along

Shares = Float[np.ndarray, " n"]


class Led(NamedTuple):
    """Where a mixture of queries leads to: the share of each entity, and the query that gives it most."""

    shares: Shares
    by: Int[np.ndarray, " n"]


class Path(NamedTuple):
    """Where a path leads to, with the entities of each step on the way and where each of those came from."""

    shares: Shares
    by: Int[np.ndarray, " n"]  # for each answer the place, among those of the last step, that it comes from
    places: list[Ids]  # the entities that each step starts at
    came: list[Ids]  # for each of them its place among those of the step before

    def through(self, answer: int) -> list[int]:
        """Return the entities between the first and an answer, along the likeliest way."""
        place, found = int(self.by[answer]), []
        for places, came in zip(reversed(self.places), reversed(self.came), strict=True):
            found.append(int(places[place]))
            place = int(came[place])
        return found[-2::-1]  # the last is the entity that was asked about


def log_shares(asked: Asked, scores: Scores) -> Scores:
    """Return log p_τ of each entity for each query."""
    scaled = scores.astype(np.float64) / asked.temperature
    scaled -= scaled.max(axis=1, keepdims=True)
    found: np.ndarray = scaled - np.log(np.exp(scaled).sum(axis=1, keepdims=True))
    return found


def logs(shares: Shares) -> Shares:
    """Return the logarithms of shares; that of none is −∞."""
    with np.errstate(divide="ignore"):
        return np.log(shares)


def led(asked: Asked, entities: Ids, directions: Ids, weights: Shares) -> Led:
    """Return Σ w · p_τ of some queries."""
    shares, most = np.zeros(len(asked.entities)), np.full(len(asked.entities), -1.0)
    by = np.zeros(len(asked.entities), dtype=np.int64)
    for some, scores in asked.scores_of(entities, directions):
        each = np.exp(log_shares(asked, scores)) * weights[some, None]
        shares += each.sum(axis=0)
        first = each.argmax(axis=0)
        largest = each[first, np.arange(each.shape[1])]
        by = np.where(largest > most, first + some.start, by)
        most = np.maximum(most, largest)
    return Led(shares, by)


def along(asked: Asked, entity: int, path: Sequence[int]) -> Path:
    """Return where a path of directions leads to from an entity."""
    places, came = np.array([entity]), np.array([0])
    weights, way, before = np.ones(1), [places], [came]
    for direction in path[:-1]:
        found = _with_facts(asked, places, weights, direction)
        ends = highest(found.shares, BEAM)
        came, places = found.by[ends], ends
        weights = found.shares[ends] / found.shares[ends].sum()
        way.append(places)
        before.append(came)
    shares, by = led(asked, places, np.full(len(places), path[-1]), weights)
    return Path(shares, by, way, before)


def _with_facts(asked: Asked, places: Ids, weights: Shares, direction: int) -> Led:
    """Return where a step leads to; what the graph knows to lie there has part of each place's weight, evenly."""
    shares, by = led(asked, places, np.full(len(places), direction), weights)
    for number in weights.argsort(kind="stable").tolist():  # where several places know an answer, the weightiest counts
        known = list(asked.facts.answers(int(places[number]), direction))
        if known:
            shares[known] += weights[number] * KNOWN / (1 - KNOWN) / len(known)
            by[known] = number
    return Led(shares, by)


class Pair(NamedTuple):
    """How likely each relation is to lead from a head to a tail."""

    logs: Float[np.ndarray, " relations"]
    scores: Float[np.ndarray, " relations"]  # of the tail, as the answer to (head, r, ?)


def pair_shares(asked: Asked, head: int, tail: int) -> Pair:
    """Return log p of each relation for a pair: the mean of log p_τ(tail | head, r) and log p_τ(head | tail, r⁻¹).

    Other answers that the graph knows are left out of both: a relation with many answers is not the less likely for it.
    """
    count = len(asked.relations)
    relations = np.arange(count)
    total, own = np.zeros(count), np.empty(count, dtype=np.float32)
    for start, end, directions in ((tail, head, relations + count), (head, tail, relations)):
        for some, scores in asked.scores_of(np.full(count, start), directions):
            own[some] = scores[:, end]
            for row, direction in zip(scores, directions[some].tolist(), strict=True):
                others = [each for each in asked.facts.answers(start, direction) if each != end]
                row[others] = -np.inf
            total[some] += log_shares(asked, scores)[:, end]
    return Pair(total / 2, own)


class Analogy(NamedTuple):
    """The directions that may lead from a to b, with their weights, and where they lead to from c."""

    directions: Ids
    weights: Shares
    shares: Shares
    by: Int[np.ndarray, " n"]  # for each answer the place of the direction that speaks most for it
    known: bool  # the graph says which directions lead from a to b


def analogous(asked: Asked, a: int, b: int, c: int) -> Analogy:
    """Return where what leads from a to b leads to from c: p(y) = Σ_ρ p(ρ | a, b) p_τ(y | c, ρ).

    The directions are those that the graph knows to lead from a to b, or else weighed as the model does:
    p(ρ | a, b) ∝ exp(2 · `pair_shares`).
    """
    count = len(asked.relations)
    known = [*asked.facts.relations_of(a, b), *(each + count for each in asked.facts.relations_of(b, a))]
    if known:
        directions = np.array(sorted(known))
        weights = np.full(len(known), 1 / len(known))
    else:
        logs = 2 * np.concatenate([pair_shares(asked, a, b).logs, pair_shares(asked, b, a).logs])
        shares = np.exp(logs - logs.max())
        shares /= shares.sum()
        directions = highest(shares, RELATIONS)
        directions = directions[shares[directions] > LEAST]
        weights = shares[directions] / shares[directions].sum()
    shares, by = led(asked, np.full(len(directions), c), directions, weights)
    return Analogy(directions, weights, shares, by, bool(known))
