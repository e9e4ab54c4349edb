"""From scores to ranks to metrics: filtered, two-sided, with ties counting half."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.known_answers import KnownAnswers, known_answers
from procrustes_kge.graphs.queries import both_queries
from procrustes_kge.models.predictor import LinkPredictor
from procrustes_kge.system.memory import explain_out_of_memory, shrinking
from procrustes_kge.system.precision import exact_products
from procrustes_kge.system.threads import over_cores
from procrustes_kge.words import counted

PROTOCOL = "filtered with all splits, both sides, ties count half, all entities, unseen ones included"
SCORES_RANKED_AT_ONCE = 2**22  # 16 MB of float32: in a last-level cache, and small enough for an allocator to keep
SCORES_RANKED_AT_ONCE_CUDA = 2**28
FEWEST_RANKED = 50  # triples: fewer are not worth the overhead of a call
Progress = Callable[[int, int], None] | None  # called with how many chunks are done, of how many


@dataclass(frozen=True)
class Ranks:
    """The place of each true answer among all entities that are not known answers of the same query."""

    optimistic: Int[Tensor, " q"]  # 1 + the candidates that score higher
    pessimistic: Int[Tensor, " q"]  # the candidates that score at least as high, the answer itself among them
    candidates: Int[Tensor, " q"]  # how many entities were compared, the answer itself among them
    asks_tail: Bool[Tensor, " q"]
    relation: Int[Tensor, " q"]
    seen: Bool[Tensor, " q"]  # both entities of the triple occur in training

    @property
    def realistic(self) -> Float[Tensor, " q"]:
        """The mean of the two, so ties count half: a model that gives everything the same score must not rank first."""
        return (self.optimistic + self.pessimistic).double() / 2

    def __getitem__(self, mask: Bool[Tensor, " q"]) -> Ranks:
        return Ranks(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))


@dataclass(frozen=True, repr=False)
class Metrics:
    """Metrics of one set of queries; never NaN: an empty set has count 0 and every metric 0."""

    mrr: float
    hits_at_1: float
    hits_at_3: float
    hits_at_10: float
    mean_rank: float
    amri: float  # 1 is perfect, 0 is what random scores give, whatever the number of candidates
    count: int

    @classmethod
    def of(cls, ranks: Real[Tensor, " q"], candidates: Int[Tensor, " q"]) -> Metrics:
        """Summarise ranks, each out of its number of candidates."""
        return cls.by_group(ranks, candidates, torch.zeros_like(candidates), 1)[0]

    @classmethod
    def by_group(
        cls, ranks: Real[Tensor, " q"], candidates: Int[Tensor, " q"], group: Int[Tensor, " q"], groups: int
    ) -> list[Metrics]:
        """Summarise each group of ranks on its own."""
        ranks = ranks.double()
        seen = [1 / ranks, ranks <= 1, ranks <= 3, ranks <= 10, ranks, (candidates.double() + 1) / 2]
        counts = torch.bincount(group, minlength=groups)
        sums = [torch.bincount(group, values.double(), groups).double() for values in seen]
        means = torch.stack(sums, dim=1) / counts.clamp_min(1)[:, None]
        found = []
        for count, (mrr, first, third, tenth, mean, expected) in zip(counts.tolist(), means.tolist(), strict=True):
            amri = 1 - (mean - 1) / (expected - 1) if expected > 1 else 0.0
            found.append(cls(mrr, first, third, tenth, mean, amri, count))
        return found

    def as_dict(self) -> dict[str, float]:
        """Return the metrics under the names that reports use."""
        return {name.replace("_at_", "@"): value for name, value in vars(self).items()}

    def __repr__(self) -> str:
        hits = ((1, self.hits_at_1), (3, self.hits_at_3), (10, self.hits_at_10))
        return f"MRR {figure(self.mrr)}   " + "   ".join(f"hits@{k} {figure(share)}" for k, share in hits)


def figure(share: float) -> str:
    """Return a share of one with three digits, as tables print it.

    >>> figure(0.4637), figure(1.0)
    ('.464', '1.000')
    """
    return f"{share:.3f}".removeprefix("0")


@dataclass(frozen=True, repr=False)
class Sides:
    """Metrics of both sides together, and of each."""

    both: Metrics
    tail: Metrics
    head: Metrics

    @property
    def mrr(self) -> float:
        """The two-sided, filtered, realistic mean reciprocal rank."""
        return self.both.mrr

    def as_dict(self) -> dict[str, Any]:
        """Return the two-sided metrics, with those of each side under its name."""
        return {**self.both.as_dict(), "tail": self.tail.as_dict(), "head": self.head.as_dict()}

    def __repr__(self) -> str:
        return f"{self.both}   (tails {figure(self.tail.mrr)}, heads {figure(self.head.mrr)})"


@dataclass(frozen=True, repr=False)
class Evaluation(Sides):
    """Two-sided metrics first, then other views of the same ranks."""

    seen_only: Metrics
    optimistic: Metrics
    pessimistic: Metrics
    relations: dict[str, Sides]
    ranks: Ranks
    triples: int  # in the split; if time was short, only a sample of them was ranked

    @classmethod
    def of(cls, ranks: Ranks, names: Sequence[str], triples: int) -> Evaluation:
        """Summarise ranks over all queries, per side, for seen entities, and per relation."""

        def summary(chosen: Ranks) -> Metrics:
            return Metrics.of(chosen.realistic, chosen.candidates)

        def by_relation(chosen: Ranks) -> list[Metrics]:
            return Metrics.by_group(chosen.realistic, chosen.candidates, chosen.relation, len(names))

        tails, heads = ranks[ranks.asks_tail], ranks[~ranks.asks_tail]
        relations = map(Sides, by_relation(ranks), by_relation(tails), by_relation(heads))
        return cls(
            both=summary(ranks),
            tail=summary(tails),
            head=summary(heads),
            seen_only=summary(ranks[ranks.seen]),
            optimistic=Metrics.of(ranks.optimistic, ranks.candidates),
            pessimistic=Metrics.of(ranks.pessimistic, ranks.candidates),
            relations={name: sides for name, sides in zip(names, relations, strict=True) if sides.both.count},
            ranks=ranks,
            triples=triples,
        )

    @property
    def ranked(self) -> int:
        """How many triples were ranked, from both sides."""
        return len(self.ranks.relation) // 2

    def as_dict(self) -> dict[str, Any]:
        """Return the two-sided metrics, with every other view under its name."""
        views = ("seen_only", "optimistic", "pessimistic")
        return {
            **super().as_dict(),
            "ranked": self.ranked,
            "triples": self.triples,
            **{view: getattr(self, view).as_dict() for view in views},
            "relations": {name: sides.as_dict() for name, sides in self.relations.items()},
        }


def evaluate(
    model: LinkPredictor,
    graph: Graph,
    split: str = "test",
    progress: Progress = None,
    seconds: float | None = None,
) -> Evaluation:
    """Rank the triples of a split, from both sides, among all entities; other known answers are filtered out.

    With `seconds`, triples are ranked in random order until the time is up: all of them, or a sample.
    """
    triples = graph.split(split)
    if len(triples) == 0:
        raise InputError(f"the graph {graph.name} has no {split} triples to rank")
    with explain_out_of_memory(f"ranking {counted(len(triples), 'triple')} of {graph.name}", "a smaller --dim"):
        if seconds is None:
            ranks = rank(model, graph, triples, progress=progress)
        else:
            ranks = _rank_in_time(model, graph, triples, progress, seconds)
        return Evaluation.of(ranks, graph.relations, len(triples))


def _rank_in_time(
    model: LinkPredictor, graph: Graph, triples: Int[Tensor, "n 3"], progress: Progress, seconds: float
) -> Ranks:
    """Return the ranks of as many random triples as there is time for, at least of a few."""
    ends = time.perf_counter() + seconds
    drawn = torch.randperm(len(triples), generator=torch.Generator().manual_seed(0))
    parts, places, done, many = list[Ranks](), list[Tensor](), 0, FEWEST_RANKED
    while done < len(triples) and many > 0:
        some, started = drawn[done : done + many], time.perf_counter()
        parts.append(rank(model, graph, triples[some]))
        places += [some, some + len(triples)]  # of tails, then of heads
        done, now = done + len(some), time.perf_counter()
        if progress is not None:
            progress(done, len(triples))
        # Half of what seems to fit: the pace of a few triples says little, and that of others' programs may change.
        fitting = int((ends - now) / max(now - started, 1e-9) * len(some))
        many = fitting if fitting >= len(triples) - done else fitting // 2 if fitting >= FEWEST_RANKED else 0
    order = torch.cat(places).argsort()  # as they would be without a time, so that sums round alike
    return Ranks(*(torch.cat([getattr(part, name) for part in parts])[order] for name in Ranks.__dataclass_fields__))


def rank(
    model: LinkPredictor,
    graph: Graph,
    triples: Int[Tensor, "n 3"],
    known: KnownAnswers | None = None,
    progress: Progress = None,
    workers: int = 0,
) -> Ranks:
    """Return the ranks of the triples' tails, then of their heads; without `known`, all splits are filtered."""
    asked, relations, answers = both_queries(triples, len(graph.relations))
    with torch.no_grad(), exact_products():
        encoded = model.encode(graph)
        probe = model.query(encoded, asked[:1], relations[:1])
    device = probe.device
    filtered = known_answers(graph, device) if known is None else known.to(device)

    # Queries of one direction side by side: a model rotates them in one product.
    order = relations.argsort(stable=True)
    room, most = (SCORES_RANKED_AT_ONCE_CUDA, 2**16) if device.type == "cuda" else (SCORES_RANKED_AT_ONCE, 2**10)
    # A query takes as much memory as its scores where entities are few, and computing it may take far more.
    size = max(1, min(most, room // max(len(graph.entities), probe.shape[1])))
    chunks = list(order.split(size))

    def placed(chunk: Tensor) -> Tensor:
        places = (asked[chunk].to(device), relations[chunk].to(device))
        with torch.no_grad():  # here, since it holds for one thread alone
            scores = model.scores(encoded, model.query(encoded, *places))
        return count_places(scores, answers[chunk].to(device), *filtered.look_up(*places)).cpu()

    def placed_in_parts(chunk: Tensor) -> Tensor:
        nonlocal size  # later chunks start with the size that fitted; only the last chunk may be smaller
        parts, size = shrinking(
            lambda some: torch.cat([placed(part) for part in chunk.split(some)]), min(size, len(chunk))
        )
        return parts

    counts = torch.empty(len(asked), 3, dtype=torch.int64)
    with exact_products():
        spread = partial(over_cores, workers=workers) if device.type == "cpu" else map
        for done, result in enumerate(spread(placed_in_parts, chunks)):
            counts[chunks[done]] = result
            if progress is not None:
                progress(done + 1, len(chunks))
    higher, equal, candidates = counts.unbind(dim=1)
    return Ranks(
        optimistic=higher + 1,
        pessimistic=higher + equal,
        candidates=candidates,
        asks_tail=torch.arange(len(asked)) < len(triples),
        relation=relations % len(graph.relations),
        seen=graph.seen[asked] & graph.seen[answers],
    )


def count_places(
    scores: Float[Tensor, "b n"], answers: Int[Tensor, " b"], rows: Int[Tensor, " found"], known: Int[Tensor, " found"]
) -> Int[Tensor, "b 3"]:
    """Return for each answer how many candidates score higher, how many equal (itself included), and how many are.

    Candidates are all entities but the other known answers, given as (row, entity). They are counted with the rest and
    subtracted again, which spares a pass over the scores. The answer's score comes from the same product as the rest,
    so that equal means equal to the last bit.
    """
    low, high = scores.aminmax()
    if not (low.isfinite() and high.isfinite()):
        raise InputError(
            "the model's scores are not finite, so they cannot be ranked; "
            "the learning rate may have been too high: train again with a lower one"
        )
    own = scores.gather(1, answers[:, None])
    # Flags summed as floats are far faster than counted, and exact to 2²⁴ of float32.
    flags = torch.empty_like(scores, dtype=torch.float32 if scores.shape[1] < 2**24 else torch.float64)
    higher = torch.gt(scores, own, out=flags).sum(dim=1).long()
    equal = torch.eq(scores, own, out=flags).sum(dim=1).long()
    other = known != answers[rows]
    rows, known = rows[other], known[other]
    theirs, places = scores[rows, known], len(answers)
    higher -= torch.bincount(rows[theirs > own[rows, 0]], minlength=places)
    equal -= torch.bincount(rows[theirs == own[rows, 0]], minlength=places)
    candidates = scores.shape[1] - torch.bincount(rows, minlength=places)
    return torch.stack([higher, equal, candidates], dim=1)
