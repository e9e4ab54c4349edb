"""All likely missing triples: of every pair of entities and every relation asked for, the k with the best scores.

The score of a triple is that of its tail as an answer to (head, relation, ?). Known triples are left out, of all
splits; so are entities in a slot where training has never seen them, unless they are asked for.

The search is exact, and goes on to the same list, bit for bit, from wherever it was stopped: scores come from a fixed
grid of blocks (`pairs`), equal ones are ordered by ids (`best`), and what is left out could not have come in.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.explore.missing.best import Best
from procrustes_kge.explore.missing.kept_search import Kept, Place, fingerprint
from procrustes_kge.explore.missing.pairs import GRID, LEAST, Grid, Hits, Pairs
from procrustes_kge.explore.questions.answers import Answers, MissingTriple
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.known_answers import known_answers
from procrustes_kge.models.calibration import Calibration
from procrustes_kge.models.predictor import LinkPredictor
from procrustes_kge.runs.experiment import Model
from procrustes_kge.runs.store import load_run
from procrustes_kge.system.memory import explain_out_of_memory
from procrustes_kge.system.precision import exact_products
from procrustes_kge.system.threads import cores, over_cores
from procrustes_kge.validation import MOST
from procrustes_kge.words import counted

Progress = Callable[[float], None]  # called with the share of the pairs that are done
KEEP_EVERY = 10.0  # seconds
PROBED = 8  # relations that an estimate looks at, those with the most pairs
MEASURED = 2  # blocks of each worker
STEPS = 60  # of a bisection: as many as a float64 has digits


class Plan(NamedTuple):
    """What a search is expected to take, measured on its most promising blocks."""

    pairs: int  # of all relations
    left: int  # those whose bound reaches the best found so far: fewer and fewer as the search goes on
    seconds: float
    memory: float  # bytes at most, beside the model and the graph


@dataclass
class Search:
    """A search for the k best missing triples of some relations."""

    model: LinkPredictor
    graph: Graph
    relations: Sequence[int]
    k: int
    any_kind: bool = False
    calibration: Calibration | None = None
    workers: int = 0
    grid: Grid = GRID

    def __post_init__(self) -> None:
        """Check what is asked for, and encode the model once."""
        if type(self.k) is not int or not 1 <= self.k <= MOST:
            raise InputError(f"k {self.k!s:.60}, expected a whole number of at least 1")
        with torch.no_grad():
            self.encoded = self.model.encode(self.graph)
            probe = self.model.query(self.encoded, *torch.tensor([[0], [0]]))
        self.dim, self.device = probe.shape[1], probe.device
        self.known = known_answers(self.graph, self.device)
        self.workers = 1 if self.device.type != "cpu" else self.workers or cores()
        self.slots = Slots(self.graph, self.any_kind)
        self.place, self.stop, self.floor = Place(0, 0, 0.0, Best.none(self.k)), threading.Event(), LEAST

    @property
    def pairs(self) -> int:
        """How many pairs of entities are compared, over all relations."""
        return sum(self.slots.pairs(relation) for relation in self.relations)

    @property
    def memory(self) -> float:
        """The bytes that the search takes at most, beside the model and the graph."""
        # Of each worker its queries, the tails of a block, the scores, flags of those that reach the floor, and their
        # places: two of 8 bytes for each score where all are equal, usually for next to none.
        block = 4 * self.dim * (2 * self.grid.job + self.grid.columns) + self.grid.numbers * (4 + 4 + 1 + 16)
        found = min(self.k, self.pairs) * 32 * (4 + 2 * self.workers)  # sorted with what comes in
        return block * self.workers + found + 8 * 8 * len(self.graph.entities)

    def plan(self) -> Plan:
        """Return what the search is expected to take: one block of each of the largest relations is measured."""
        largest = sorted(self.relations, key=self.slots.pairs, reverse=True)[:PROBED]
        best, seconds, scored, probed = Best.none(self.k), 0.0, 0, []
        with exact_products():
            for relation in largest:
                pairs = self._pairs(relation)
                if pairs.count:
                    hits, taken, numbers = self._measured(pairs)
                    best = self._joined(best, relation, hits)
                    seconds, scored = seconds + taken, scored + numbers
                    probed.append(pairs)
        left = sum(self.slots.pairs(relation) for relation in self.relations) - sum(pairs.count for pairs in probed)
        for pairs in probed:
            floor = self._floor(pairs.relation, best)
            left += sum(pairs.left(job, floor) for job in range(pairs.jobs))
        return Plan(self.pairs, left, left * seconds / max(scored, 1), self.memory)

    def _measured(self, pairs: Pairs) -> tuple[Hits, float, int]:
        """Return the best of the first blocks, and the seconds that so many pairs take all workers together."""
        work = partial(pairs.probe, k=self.k)
        (hits, _), *_ = self._spread(work, range(self.workers))  # memory is touched, and threads begin
        started = time.perf_counter()
        numbers = sum(count for _, count in self._spread(work, range(MEASURED * self.workers)))
        return hits, time.perf_counter() - started, numbers

    def run(self, kept: Kept | None = None, progress: Progress | None = None) -> Best:
        """Return the best triples; with `kept`, from where an earlier search was stopped. `stop` ends it early."""
        if kept is not None:
            self.place = kept.read(self.k) or self.place
        began, since = time.perf_counter() - self.place.seconds, time.monotonic()
        try:
            with exact_products():
                for place in self._places(self.place):
                    self.place = place._replace(seconds=time.perf_counter() - began)
                    if kept is not None and time.monotonic() - since > KEEP_EVERY:
                        kept.write(self.place)
                        since = time.monotonic()
                    if progress is not None:
                        progress(self.done)
        finally:  # whatever stopped it, Ctrl-C too
            if kept is not None and (self.place.relation, self.place.job) != (0, 0):
                kept.write(self.place)
        return self.place.best

    @property
    def done(self) -> float:
        """The share of the pairs that are done, or left out for good."""
        before = sum(self.slots.pairs(relation) for relation in self.relations[: self.place.relation])
        if self.place.relation < len(self.relations):
            heads, tails = self.slots.counts(self.relations[self.place.relation])
            before += min(self.place.job * self.grid.job, heads) * tails
        return before / max(self.pairs, 1)

    def _places(self, place: Place) -> Iterator[Place]:
        """Yield every place of the search after one, job after job, until it is to stop."""
        for number in range(place.relation, len(self.relations)):
            pairs, best = self._pairs(self.relations[number]), place.best
            jobs, place = range(place.job, pairs.jobs), place._replace(relation=number)
            self.floor = self._floor(pairs.relation, best)  # read by the threads, again at every block
            work = partial(pairs.hits, k=self.k, floor=lambda: self.floor, stopping=self.stop.is_set)
            for job, hits in zip(jobs, self._spread(work, jobs), strict=True):
                if self.stop.is_set():
                    return
                best = self._joined(best, pairs.relation, hits)
                self.floor = self._floor(pairs.relation, best)
                place = place._replace(job=job + 1, best=best)
                yield place
            place = place._replace(relation=number + 1, job=0, best=best)
            yield place

    def _spread(self, work: Callable[[int], Any], jobs: range) -> Iterator[Any]:
        if self.device.type != "cpu":
            return map(work, jobs)
        return over_cores(work, jobs, self.workers, stop=self.stop.set)

    def _pairs(self, relation: int) -> Pairs:
        heads, tails = (each.to(self.device) for each in self.slots.of(relation))
        return Pairs(self.model, self.encoded, self.graph, self.known, relation, heads, tails, self.grid)

    def _joined(self, best: Best, relation: int, hits: Hits) -> Best:
        heads, tails, scores = (each.cpu() for each in hits)
        keys = scores.double() if self.calibration is None else self._probability(relation, scores)
        return best.joined(keys, scores, torch.stack([heads, torch.full_like(heads, relation), tails], dim=1))

    def _probability(self, relation: int, scores: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        assert self.calibration is not None
        return torch.from_numpy(self.calibration.probability(scores.numpy(), relation))

    def _floor(self, relation: int, best: Best) -> float:
        """Return a score of the relation below which no triple can be among the best."""
        if len(best) < self.k:
            return LEAST
        if self.calibration is None:
            return best.least
        # Probabilities have steps: of those that are equal, the higher score counts.
        equal, above = (self._lowest(relation, best.least, strictly) for strictly in (False, True))
        return min(max(float(best.scores[-1]), equal), above)

    def _lowest(self, relation: int, key: float, strictly: bool) -> float:
        """Return a score below which no probability reaches this one, or exceeds it."""
        low, high = LEAST, -LEAST
        for _ in range(STEPS):
            middle = _between(low, high)
            found = float(self._probability(relation, torch.tensor([middle])))
            low, high = (low, middle) if found > key or (found == key and not strictly) else (middle, high)
        return low


def _between(low: float, high: float) -> float:
    """Return a number between two, by their exponents where these are far apart."""
    if low < 0 < high:
        return 0.0
    if max(abs(low), abs(high)) > 4 * min(abs(low), abs(high)) > 0:
        return (1 if high > 0 else -1) * (abs(low) * abs(high)) ** 0.5
    return (low + high) / 2


class Slots:
    """Which entities may be heads of a relation, and which tails: those that training has seen there, or all."""

    def __init__(self, graph: Graph, any_kind: bool) -> None:
        self.entities, self.any_kind = len(graph.entities), any_kind
        relations, seen = len(graph.relations), []
        for column in (0, 2):
            slots = torch.unique(graph.train[:, 1] * self.entities + graph.train[:, column])
            sizes = torch.bincount(slots // self.entities, minlength=relations).tolist()
            seen.append((slots % self.entities).split(sizes))
        self.heads, self.tails = seen

    def of(self, relation: int) -> tuple[Int[Tensor, " heads"], Int[Tensor, " tails"]]:
        """Return the heads and the tails of a relation."""
        if self.any_kind:
            everything = torch.arange(self.entities)
            return everything, everything
        return self.heads[relation], self.tails[relation]

    def counts(self, relation: int) -> tuple[int, int]:
        """Return how many heads and how many tails a relation may have."""
        if self.any_kind:
            return self.entities, self.entities
        return len(self.heads[relation]), len(self.tails[relation])

    def pairs(self, relation: int) -> int:
        """Return how many pairs that makes."""
        heads, tails = self.counts(relation)
        return heads * tails


def search_for(
    model: Model,
    graph: Graph | None,
    relation: str | Sequence[str] | None = None,
    k: int = 100,
    any_kind: bool = False,
    calibration: Calibration | None = None,
) -> Search:
    """Return the search for what is asked for by name; without a relation, all are searched."""
    if graph is None:
        raise InputError("the run was saved without its triples, so what is missing is not known; save it with graph=…")
    names = [relation] if isinstance(relation, str) else list(relation or [])
    relations = list(dict.fromkeys(map(graph.relations.id, names))) or list(range(len(graph.relations)))
    search = Search(model, graph, relations, k, any_kind, calibration)
    if names and not search.pairs:
        untrained = graph.relations[relations[0]]
        raise InputError(
            f"relation {untrained!r} has no training triples, so no entity has been seen beside it; "
            "add --any (in Python, any_kind=True) to compare all entities"
        )
    return search


def missing(
    source: Any,
    relation: str | Sequence[str] | None = None,
    *,
    k: int = 100,
    any_kind: bool = False,
    graph: Graph | None = None,
    state: str | Path | None = None,
    progress: Progress | None = None,
) -> Answers[MissingTriple]:
    """Return the k likeliest triples that the graph does not hold, best first, of some relations or of all.

    `source` is a run folder, a run, or a model with its graph. Where the run has probabilities, triples of several
    relations are in their order, else in that of scores. With `state`, a folder keeps what has been found, and the same
    call goes on from there after a stop.
    """
    run = load_run(source) if isinstance(source, str | Path) else source
    model: Any = getattr(run, "model", run)
    calibration = getattr(run, "calibration", None)
    search = search_for(model, graph or getattr(run, "graph", None), relation, k, any_kind, calibration)
    kept = None if state is None else Kept(Path(state), identity(search, model))
    with explain_out_of_memory(f"comparing {counted(search.pairs, 'pair')} of entities", "a smaller k"):
        best = search.run(kept, progress)
    if kept is not None:
        kept.remove()
    return named(best, search)


def identity(search: Search, model: Model) -> dict[str, Any]:
    """Return what must be the same for a search to go on."""
    curve = None if search.calibration is None else json.dumps(search.calibration.as_json(), sort_keys=True)
    return {
        "the graph": search.graph.checksum,
        "the model": fingerprint(model),
        "relations": list(search.relations),
        "k": search.k,
        "any": search.any_kind,
        "the probabilities": curve and hashlib.sha256(curve.encode()).hexdigest(),
        "the device": search.device.type,
        "the blocks": list(search.grid),
    }


def named(best: Best, search: Search) -> Answers[MissingTriple]:
    """Return triples by their names."""
    entities, relations, probable = search.graph.entities, search.graph.relations, search.calibration is not None
    rows = zip(best.triples.tolist(), best.scores.tolist(), best.keys.tolist(), strict=True)

    def row(rank: int, ids: list[int], score: float, key: float) -> MissingTriple:
        head, relation, tail = ids
        names = entities[head], relations[relation], entities[tail]
        return MissingTriple(rank, *names, entities.label(head), entities.label(tail), score, key if probable else None)

    found = [row(rank, ids, score, key) for rank, (ids, score, key) in enumerate(rows, start=1)]
    return Answers(MissingTriple, found)
