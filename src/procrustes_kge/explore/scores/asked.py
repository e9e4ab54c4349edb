"""A model that is asked: names, facts and scores as numpy arrays, whatever the model and wherever it lies.

Whoever answers a question asks a `Scorer` for the scores of some queries, and knows nothing else of the model. Nothing
here loads PyTorch before a model needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.facts import Facts
from procrustes_kge.graphs.vocabulary import SPLITS, Vocabulary
from procrustes_kge.models.calibration import Calibration

if TYPE_CHECKING:
    from procrustes_kge.graphs.graph import Graph

Ids = Int[np.ndarray, " b"]  # of entities, or of directions: r asks for tails, r + R for heads
Scores = Float[np.ndarray, "b n"]
SCORES_AT_ONCE = 2**23  # 32 MB of float32
LARGEST_EXACT = 1_000_000  # entities that are all compared with a query
SAMPLE = 128  # held-out triples by which scores are made comparable
STEPS = 30  # of the search for their temperature, which ends far earlier


@runtime_checkable
class Scorer(Protocol):
    """What answers queries: a model in memory, or vectors on a disk."""

    def scores(self, entities: Ids, directions: Ids) -> Scores:
        """Return how well each entity answers each query: higher is better."""

    def vectors(self) -> Float[np.ndarray, "n d"]:
        """Return the vectors of all entities."""


@dataclass(frozen=True, eq=False, repr=False)
class Asked:
    """A model with its names and with what its graph holds, prepared for questions."""

    entities: Vocabulary
    relations: Vocabulary
    facts: Facts
    scorer: Scorer
    kind: str  # of model
    calibration: Calibration | None = None
    source: Any = None  # the run folder, where it is one
    searcher: Any = (
        None  # `index.Searcher`, which finds the best by an index, where all entities are too many to compare
    )

    def __repr__(self) -> str:
        return f"Asked({self.kind})"

    @property
    def per_block(self) -> int:
        """How many queries are answered at once."""
        return max(1, SCORES_AT_ONCE // len(self.entities))

    def scores_of(self, entities: Ids, directions: Ids) -> Iterator[tuple[slice, Scores]]:
        """Yield the scores of some queries after the others, with their places; no more at once than memory allows."""
        for start in range(0, len(entities), self.per_block):
            some = slice(start, start + self.per_block)
            yield some, self.scorer.scores(entities[some], directions[some])

    def inverse(self, direction: int) -> int:
        """Return the direction that leads back."""
        return (direction + len(self.relations)) % (2 * len(self.relations))

    def spelled(self, direction: int) -> str:
        """Return a direction by the name of its relation, with ⁻¹ where it asks for heads."""
        backwards, relation = divmod(direction, len(self.relations))
        return str(self.relations[relation]) + ("⁻¹" if backwards else "")

    def probabilities(self, scores: Float[np.ndarray, " n"], directions: Any) -> list[float | None]:
        """Return the probability of each score, of a query in this direction; None where the run has no calibration."""
        if self.calibration is None:
            return [None] * len(scores)
        found: list[float | None] = self.calibration.probability(scores, np.asarray(directions)).tolist()
        return found

    @cached_property
    def inverse_lengths(self) -> Float[np.ndarray, " n"]:
        """1 / ‖x‖ of every entity, 0 where it has no length."""
        lengths = np.linalg.norm(self.scorer.vectors(), axis=1)
        return np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)

    @cached_property
    def temperature(self) -> float:
        """The τ that makes softmax(scores / τ) most likely to give held-out answers: argmax Σ log p_τ(answer).

        Scores order the answers of one query; divided by τ they can be compared across queries.
        """
        split = next((name for name in reversed(SPLITS[:2]) if len(self.facts.splits.get(name, ()))), None)
        if split is None:
            return 1.0
        triples = self.facts.splits[split]
        size = max(1, min(SAMPLE, len(triples), SCORES_AT_ONCE // len(self.entities)))
        heads, relations, tails = triples[np.linspace(0, len(triples) - 1, size).astype(np.int64)].T
        scores = self.scorer.scores(heads, relations).astype(np.float64)
        scores -= scores.max(axis=1, keepdims=True)
        return _temperature(scores, scores[np.arange(len(tails)), tails])


def _temperature(scores: Float[np.ndarray, "b n"], own: Float[np.ndarray, " b"]) -> float:
    """Return the temperature of most likelihood; −log p is convex in 1/τ, so Newton's steps find it."""
    spread = float(scores.std())
    if spread == 0 or not np.isfinite(spread):
        return 1.0
    inverse, low, high = 1.0 / spread, 1e-3 / spread, 1e3 / spread
    for _ in range(STEPS):
        shares = np.exp(inverse * scores)
        shares /= shares.sum(axis=1, keepdims=True)
        means = (shares * scores).sum(axis=1)
        slope, curve = float((means - own).mean()), float(((shares * scores**2).sum(axis=1) - means**2).mean())
        low, high = (inverse, high) if slope < 0 else (low, inverse)
        newton = inverse - slope / curve if curve > 0 else np.inf
        step = newton if low < newton < high else (low * high) ** 0.5
        if abs(step - inverse) < 1e-3 * inverse:
            break
        inverse = step
    return 1.0 / inverse


def ask(source: Any, graph: Graph | None = None, index: bool | None = None) -> Asked:
    """Prepare a run folder, a run or a model for questions; without a graph, a model knows no known answers.

    Whoever asks once need not call this: `predict`, `score`, `neighbours` and `analogy` do. A run folder is answered
    from its files by numpy alone where its model allows that, which starts in a fraction of the time.
    With more than a million entities, or with `index`, the best are found by an index, which may miss one in a hundred;
    with `index=False`, all are compared.
    """
    if isinstance(source, Asked) and index is None:
        return source
    asked = source if isinstance(source, Asked) else _asked(source, graph)
    products = index or (len(asked.entities) > LARGEST_EXACT and getattr(asked.scorer, "table", None) is not None)
    if index is False or not products:
        return replace(asked, searcher=None)
    from procrustes_kge.explore.scores.index import Searcher

    run = Path(asked.source) if isinstance(asked.source, str | Path) else None
    return replace(asked, searcher=Searcher(asked.scorer, 2 * len(asked.relations), run))


def _asked(source: Any, graph: Graph | None) -> Asked:
    if isinstance(source, str | Path):
        from procrustes_kge.explore.scores.fast import mapped_asked

        if (mapped := mapped_asked(source)) is not None:
            return mapped
        from procrustes_kge.runs.store import load_run

        source = load_run(source)
    from procrustes_kge.explore.scores.scoring import asked_model

    model = getattr(source, "model", source)
    if not all(hasattr(model, name) for name in ("encode", "query", "scores")):
        raise InputError(f"got {source!r:.60}, expected a run folder, a run or a model; `load_run` reads a run folder")
    kept = {name: getattr(source, name, None) for name in ("calibration", "folder")}
    return asked_model(model, graph or getattr(source, "graph", None), **kept)
