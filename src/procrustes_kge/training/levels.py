"""Levels: how short a trial is beside the training that it stands for, and which level there is time for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.system.devices import choose_device
from procrustes_kge.system.threads import cores
from procrustes_kge.training.budget import MEASURING
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.costs import Costs, measured
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import Settings
from procrustes_kge.training.trials import Judge

USUAL_DIM = 200  # of a trial: with fewer numbers less regularisation is best, with more hardly any other
DIMS = (200, 100)
SHARES = (1.0, 0.5, 0.25)  # of the epochs
FEWEST_EPOCHS = 5
LONGER = 4  # times as many numbers where nothing is compared with negatives: it trains as fast, and needs them


@dataclass(frozen=True)
class Level:
    """How many numbers a trial's vectors have, and which share of its epochs it trains."""

    dim: int
    epochs: float = 1.0

    def of(self, settings: Settings, triples: int, workers: int = 0) -> Settings:
        """Return the settings of a trial at this level, on a graph with so many training triples."""
        changes: dict[str, Any] = {"time": 0.0, "replay": "", "workers": workers or settings.workers}
        if isinstance(settings, ContrastSettings):
            changes |= {"dim": max(1, self.dim // settings.segment) * settings.segment, "groups": 1}
            changes |= {"validate_every": 0, "patience": 0}
            changes["epochs"] = max(min(FEWEST_EPOCHS, settings.epochs), round(self.epochs * settings.epochs))
            changes["batch"] = settings.batch if settings.batch == "full" else min(settings.batch, 2 * triples)
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
    return [*map(Level, dims), *(Level(dims[-1], share) for share in SHARES[1:])]


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
        self.low, self.high = self.levels[-1].dim, self.levels[0].dim
        cheap = self._measured(self.low, seconds)
        self.cheap = self.dear = cheap.towards(Costs(), 0.0)
        if self.high > self.low:
            longer = self.high / self.low
            # What may take too long for a trial is not timed: all of it grows with the vectors at most.
            too_dear = longer * self.of(self.levels[-1]) > seconds
            self.dear = cheap.towards(Costs(), 1 - longer) if too_dear else self._measured(self.high, seconds)

    def _measured(self, dim: int, seconds: float) -> Costs:
        return measured(self.judge.graph, self._short(Level(dim)), MEASURING * seconds)

    def _short(self, level: Level) -> ContrastSettings:
        short = level.of(self.settings, len(self.judge.graph.train), self.threads)
        assert isinstance(short, ContrastSettings)
        return short

    def of(self, level: Level) -> float:
        """Return the seconds of a trial with the settings that a search starts from."""
        short, costs = self._short(level), self.cheap
        if self.high > self.low:
            costs = self.cheap.towards(self.dear, (level.dim - self.low) / (self.high - self.low))
        return costs.learning(self.judge.graph, short, short.epochs) + costs.triple * len(self.judge.sample)

    def dearest(self, seconds: float, trials: float, least: Level | None = None) -> Level | None:
        """Return the dearest level at which there is time for so many trials, and no cheaper one than the least."""
        levels = self.levels[: self.levels.index(least) + 1] if least else self.levels
        return next((each for each in levels if trials * self.of(each) <= self.workers * seconds), least)
