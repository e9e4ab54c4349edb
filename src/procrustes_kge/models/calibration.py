"""From scores to probabilities: a curve for all relations, moved a little for each that has examples of its own.

    z       = (score − m_ρ) / d_ρ              how high a score is among those of all entities, for direction ρ
    log Λ   = a_ρ g(z) + b_ρ                   how much likelier it is of a right answer than of another entity
    P       = σ(log Λ + log π − log(1 − π))    π: the prior, the share of right answers before the score is known

g rises and a_ρ > 0, so a higher score never has a lower probability. Numpy alone: asking a run loads no PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from procrustes_kge.errors import InputError

FORMAT = 1
MOST_KNOTS = 10_000
LARGEST_ODDS = 50.0  # e⁵⁰ to one is certain: larger numbers say no more
Numbers = Float[np.ndarray, " n"]
_CURVE, _DIRECTIONS = ("knots", "evidence"), ("centres", "spreads", "slopes", "offsets")


@dataclass(frozen=True, eq=False)
class Calibration:
    """What turns the scores of a model into probabilities; direction r + R asks for heads of relation r.

    With the prior that is kept, a probability is the share of right answers among entities with such a score, if one
    of all entities that are not known as answers is right.
    """

    knots: Float[np.ndarray, " knots"]  # z, ascending
    evidence: Float[np.ndarray, " knots"]  # g(z), between knots on a line
    centres: Float[np.ndarray, " directions"]
    spreads: Float[np.ndarray, " directions"]
    slopes: Float[np.ndarray, " directions"]
    offsets: Float[np.ndarray, " directions"]
    examples: Int[np.ndarray, " directions"]  # right answers that each was fitted to; 0: the curve of all, as it is
    prior: float
    triples: int  # of validation, which all this was learned from

    def log_ratio(self, scores: Any, relations: Any) -> Float[np.ndarray, "*shape"]:
        """Return log Λ of scores, each of a direction: the relation's number for tails, R more for heads."""
        directions = np.asarray(relations)
        if directions.size and not 0 <= directions.min() <= directions.max() < len(self.centres):
            raise InputError(
                f"relation {directions.min()} to {directions.max()}, expected rows from 0 to {len(self.centres) - 1}: "
                "those of relations, then as many again that ask for heads"
            )
        heights = (np.asarray(scores, dtype=np.float64) - self.centres[directions]) / self.spreads[directions]
        if np.isnan(heights).any():
            raise InputError("scores that are not numbers (NaN) have no probability; train again with a lower rate")
        curve = np.interp(heights, self.knots, self.evidence)
        return np.asarray(self.slopes[directions] * curve + self.offsets[directions])

    def probability(self, scores: Any, relations: Any, prior: float | None = None) -> Float[np.ndarray, "*shape"]:
        """Return the probability of each score: scores and directions have one shape, or are broadcast to one.

        `prior` is the share of right answers before the score is known; one half: a fair coin chooses between a right
        answer and another entity. Without it, one of all entities that are not known as answers is right.
        """
        prior = self.prior if prior is None else prior
        if not 0 < prior < 1:
            raise InputError(f"prior {prior}, expected a number between 0 and 1, without the two")
        odds = self.log_ratio(scores, relations) + np.log(prior) - np.log1p(-prior)
        return np.asarray(1 / (1 + np.exp(-odds.clip(-LARGEST_ODDS, LARGEST_ODDS))))

    def as_json(self) -> dict[str, Any]:
        """Return what a file keeps."""
        tables = {name: getattr(self, name).tolist() for name in (*_CURVE, *_DIRECTIONS, "examples")}
        return {"format": FORMAT, "prior": self.prior, "triples": self.triples, **tables}

    @classmethod
    def of_json(cls, content: Mapping[str, Any], directions: int, where: str) -> Calibration:
        """Return what `as_json` said; a ValueError that begins with `where` says what is wrong."""
        if content.get("format") != FORMAT:
            raise ValueError(f"{where} has format {content.get('format')!r:.60}, this version reads {FORMAT}")
        tables = {name: _numbers(content.get(name), name, where) for name in (*_CURVE, *_DIRECTIONS, "examples")}
        knots, evidence, (prior, triples) = tables["knots"], tables["evidence"], map(content.get, ("prior", "triples"))
        if not 0 < len(knots) == len(evidence) <= MOST_KNOTS:
            raise ValueError(f"{where}: {len(knots):,} knots for {len(evidence):,} values of evidence")
        if (np.diff(knots) <= 0).any() or (np.diff(evidence) < 0).any():
            raise ValueError(f"{where}: the curve does not rise")
        for name in (*_DIRECTIONS, "examples"):
            if len(tables[name]) != directions:
                raise ValueError(f"{where}: {len(tables[name]):,} {name}, expected {directions:,}")
        if (tables["spreads"] <= 0).any() or (tables["slopes"] <= 0).any() or (tables["examples"] < 0).any():
            raise ValueError(f"{where}: spreads and slopes are above 0, and examples are not below")
        if type(prior) is not float or not 0 < prior < 1:
            raise ValueError(f"{where}: prior {prior!r:.60}, expected a number between 0 and 1")
        if type(triples) is not int or triples < 0:
            raise ValueError(f"{where}: triples {triples!r:.60}, expected a whole number")
        return cls(**{**tables, "examples": tables["examples"].astype(np.int64)}, prior=prior, triples=triples)


def _numbers(found: Any, name: str, where: str) -> Numbers:
    if not isinstance(found, list) or not all(type(each) in (int, float) for each in found):
        raise ValueError(f"{where}: {name} are no list of numbers")
    try:
        numbers = np.array(found, dtype=np.float64)
    except OverflowError:
        raise ValueError(f"{where}: {name} are too large") from None
    if not np.isfinite(numbers).all():
        raise ValueError(f"{where}: {name} are not all finite")
    return numbers
