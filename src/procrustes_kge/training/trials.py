"""A trial: settings tried on a graph, and judged by how its validation triples rank.

Where there are too few validation triples to tell settings apart, training triples are set aside as well. All trials of
a search are judged by the same triples, so that two of them are compared triple by triple.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from procrustes_kge.errors import DivergedError, InputError
from procrustes_kge.graphs.graph import Graph, split_graph
from procrustes_kge.models.ranking import figure, rank
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.recipes import Settings, learned
from procrustes_kge.training.trainer import Report

ENOUGH = 1000  # validation triples: the means of two settings that are alike then differ by a few thousandths
FEWEST = 20  # with fewer, any difference is noise
MOST_ASIDE = 0.1  # of the training triples: what is learned from the rest is to be like what is learned from all
MARGIN = 0.5  # standard errors of the difference by which a winner must lead
MOST_PRODUCTS = 10**11  # multiplications for the scores of one trial: judging takes no longer than training
AMPLE = 4  # times as many triples, and products, on a GPU
REAL = 8.0  # what a validation triple counts beside one that was set aside: what is asked may be unlike what was known


@dataclass(frozen=True)
class Trial:
    """Settings that were tried, and what came of it."""

    changes: dict[str, Any]  # of the settings that a search starts from
    stage: str = ""
    valid_mrr: float | None = None  # None: it failed
    error: float = 0.0  # standard error of the difference from the trial that it is compared with
    seconds: float = 0.0
    failed: str = ""
    # Reciprocal ranks, the mean of both sides, times what each triple counts: their mean is the MRR.
    reciprocals: Float[Tensor, " triples"] | None = field(default=None, repr=False, compare=False)

    @property
    def score(self) -> float:
        """The MRR; below all others where the trial failed."""
        return -1.0 if self.valid_mrr is None else self.valid_mrr

    def beside(self, other: Trial) -> Trial:
        """Return the same trial, compared with another one triple by triple."""
        if self.reciprocals is None or other.reciprocals is None:
            return self
        apart = self.reciprocals - other.reciprocals
        return replace(self, error=apart.std().item() / len(apart) ** 0.5)

    def as_dict(self) -> dict[str, Any]:
        """Return what a report says of it."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "reciprocals"}


def leader(trials: Sequence[Trial]) -> Trial:
    """Return the first trial, or a later one that leads those before it by a margin of the noise."""
    best = trials[0]
    for each in trials[1:]:
        if each.score > best.score and (
            best.valid_mrr is None or each.score - best.score > MARGIN * max(each.error, best.error)
        ):
            best = each
    return best


def winner(trials: Sequence[Trial]) -> Trial | None:
    """Return the leader, where it changes anything of what the first trial has."""
    best = leader(trials)
    return best if best.changes and best.valid_mrr is not None else None


def verdict(start: Trial, best: Trial | None) -> str:
    """Return in words what a search that started from one trial has found."""
    if best is None:
        return "nothing was clearly better on validation"
    before = "failed" if start.valid_mrr is None else figure(start.score)
    return f"validation MRR {figure(best.score)}, before {before}"


@dataclass(frozen=True)
class Judge:
    """A graph with enough validation triples, and those of them that judge the trials."""

    graph: Graph
    sample: Tensor
    counts: Tensor  # what each of them counts; their mean is 1
    aside: int  # training triples that were set aside
    ample: bool = False  # where judging is cheap: on a GPU

    @classmethod
    def of(cls, graph: Graph, dim: int, seed: int = 0, ample: bool = False) -> Judge:
        """Draw the triples that judge models of this many numbers; with another seed, others are set aside."""
        share = min(MOST_ASIDE, (ENOUGH - len(graph.valid)) / max(1, len(graph.train)))
        drawn = split_graph(graph, valid=share, test=0, seed=seed) if share > 0 else graph
        times = AMPLE if ample else 1
        affordable = times * MOST_PRODUCTS // max(1, 2 * len(graph.entities) * dim)
        order = torch.randperm(len(drawn.valid), generator=torch.Generator().manual_seed(seed % 2**63))
        chosen = order[: max(FEWEST, min(times * ENOUGH, affordable))]
        counts = torch.where(chosen < len(graph.valid), REAL, 1.0).double()
        return cls(drawn, drawn.valid[chosen], counts / counts.mean(), len(graph.train) - len(drawn.train), ample)

    def fitted(self, settings: Settings) -> Settings:
        """Return the settings with batches of no more queries than there are without the triples set aside."""
        if not isinstance(settings, ContrastSettings) or settings.batch == "full":
            return settings
        return replace(settings, batch=min(settings.batch, 2 * len(self.graph.train)))

    def try_out(
        self, settings: Settings, changes: dict[str, Any], stage: str = "", report: Report | None = None
    ) -> Trial:
        """Train with settings, and rank the sample."""
        started = time.perf_counter()
        try:
            model = learned(self.graph, self.fitted(settings), report).model
            ranks = rank(model, self.graph, self.sample, workers=1).realistic
        except (DivergedError, InputError) as problem:  # such as numbers that are none, or too little memory
            return Trial(changes, stage, seconds=time.perf_counter() - started, failed=str(problem))
        reciprocals = self.counts * (1 / ranks).view(2, -1).mean(dim=0).cpu()
        mrr = reciprocals.mean().item()
        return Trial(changes, stage, mrr, seconds=time.perf_counter() - started, reciprocals=reciprocals)
