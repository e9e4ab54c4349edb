"""Levels: how short a trial is beside the training that it stands for, and which level there is time for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.system.devices import choose_device
from procrustes_kge.system.threads import cores
from procrustes_kge.training.budget import MEASURING
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.costs import measured
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import Settings
from procrustes_kge.training.trials import Judge

USUAL_DIM = 200  # of a trial: with fewer numbers less regularisation is best, with more hardly any other
DIMS = (200, 100)
SHARES = (1.0, 0.5, 0.25)  # of the epochs
MOST_NEGATIVES, FEW_NEGATIVES = 10**9, 256  # few: a third of the time on a CPU, and nearly the same settings are best
FEWEST_EPOCHS = 5
LONGER = 4  # times as many numbers where nothing is compared with negatives: it trains as fast, and needs them


@dataclass(frozen=True)
class Level:
    """How many numbers a trial's vectors have, and which share of its epochs it trains."""

    dim: int
    epochs: float = 1.0
    negatives: int = MOST_NEGATIVES  # at most, where negatives are drawn

    def of(self, settings: Settings, workers: int = 0) -> Settings:
        """Return the settings of a trial at this level."""
        changes: dict[str, Any] = {"time": 0.0, "replay": "", "workers": workers or settings.workers}
        if isinstance(settings, ContrastSettings):
            changes |= {"dim": max(1, self.dim // settings.segment) * settings.segment, "groups": 1}
            changes |= {"validate_every": 0, "patience": 0}
            changes["epochs"] = max(min(FEWEST_EPOCHS, settings.epochs), round(self.epochs * settings.epochs))
            if isinstance(settings.negatives, int):
                changes["negatives"] = min(settings.negatives, self.negatives)
        elif isinstance(settings, FitSettings):
            dim = min(settings.dim, LONGER * self.dim)
            changes["dim"] = max(1, dim // settings.segment) * settings.segment
        return replace(settings, **changes)


def whole(settings: Settings) -> Level:
    """Return the level of a part of the training itself."""
    return Level(settings.dim // settings.groups) if isinstance(settings, ContrastSettings) else Level(10**9)


def usual(settings: Settings) -> Level:
    """Return the level of trials where time does not matter."""
    return Level(min(whole(settings).dim, USUAL_DIM))


def possible(settings: ContrastSettings) -> list[Level]:
    """Return the levels that trials may have, the dearest first."""
    most = whole(settings).dim
    dims = [most, *(dim for dim in DIMS if dim < most)]
    negatives = FEW_NEGATIVES if isinstance(settings.negatives, int) else MOST_NEGATIVES
    short = [Level(dims[-1], share, negatives) for share in SHARES]
    return [*map(Level, dims), *(level for level in short if level != Level(dims[-1]))]


def work(settings: Settings, graph: Graph) -> float:
    """Return about how many multiplications a training takes, of those that grow with its size."""
    if not isinstance(settings, ContrastSettings):
        return float(settings.epochs)
    compared = settings.compared(len(graph.entities)) + settings.segment
    # A query, which may have several answers, is compared with entities; each of its answers with all relations.
    predicted = 2 * len(graph.relations) * settings.segment if settings.relation_weight else 0
    return float(settings.epochs * settings.dim * (compared + predicted))


class Prices:
    """What trials at each level cost here; a little of one or two of them is run and timed."""

    def __init__(self, judge: Judge, settings: ContrastSettings, seconds: float) -> None:
        self.judge, self.settings, self.levels = judge, settings, possible(settings)
        on_a_cpu = choose_device(settings.device).type == "cpu"
        self.workers = (settings.workers or cores()) if on_a_cpu else 1  # trials at once, on a thread each
        self.threads = 1 if on_a_cpu else 0
        self.least, self.most = (self._work(each) for each in (self.levels[-1], self.levels[0]))
        if not on_a_cpu:
            self._timed(self.levels[-1], seconds)  # a GPU first loads what training needs
        self.low = self._timed(self.levels[-1], seconds)
        # What may take too long for a trial is not timed: it grows with the work at most.
        self.high = self.low * self.most / self.least
        if self.low < self.high <= seconds:
            self.high = self._timed(self.levels[0], seconds)

    def _short(self, level: Level) -> ContrastSettings:
        short = self.judge.fitted(level.of(self.settings, self.threads))
        assert isinstance(short, ContrastSettings)
        return short

    def _work(self, level: Level) -> float:
        return work(self._short(level), self.judge.graph)

    def _timed(self, level: Level, seconds: float) -> float:
        short, graph = self._short(level), self.judge.graph
        costs = measured(graph, short, MEASURING * seconds)
        return costs.learning(graph, short, short.epochs) + costs.triple * len(self.judge.sample)

    def of(self, level: Level) -> float:
        """Return the seconds of a trial with the settings that a search starts from: some, and more with its work."""
        share = (self._work(level) - self.least) / max(self.most - self.least, 1.0)
        return self.low + share * (self.high - self.low)

    def dearest(self, seconds: float, trials: float, among: Sequence[Level] | None = None) -> Level | None:
        """Return the dearest level at which there is time for so many trials, if there is one."""
        levels = self.levels if among is None else among
        return next((each for each in levels if trials * self.of(each) <= self.workers * seconds), None)
