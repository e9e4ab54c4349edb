"""An experiment: learn, measure, rank and report. The command, the tables and the benchmarks all train through here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.models.ranking import Evaluation, evaluate
from procrustes_kge.runs.report import build_report
from procrustes_kge.system.devices import choose_device
from procrustes_kge.system.footprint import Footprint, measure
from procrustes_kge.training.loop import Learned, Report
from procrustes_kge.training.recipes import Settings, learned

Model = Procrustes | TrainedBaseline


@dataclass(frozen=True)
class Experiment:
    """A model, and the report that its run folder holds."""

    model: Model
    report: dict[str, Any]


class Watcher:
    """How an experiment learns and ranks, and what it reports meanwhile: nothing here, bars and lines in a terminal."""

    learn: Callable[[Graph, Settings, Report | None], Learned[Model]] = staticmethod(learned)
    rank: Callable[[Model, Graph, str], Evaluation] = staticmethod(evaluate)

    def on_learned(self, found: Learned[Model], footprint: Footprint) -> None:
        """Called with a learned model and what it cost."""

    def on_ranked(self, split: str, evaluation: Evaluation) -> None:
        """Called with the figures of a split."""


def experiment(
    graph: Graph,
    settings: Settings,
    recipe: str | None = None,
    splits: Iterable[str] = ("valid", "test"),
    grid: str | float | None = None,
    watcher: Watcher | None = None,
) -> Experiment:
    """Learn once, measure the learning alone, rank the splits that have triples, and report."""
    watcher, device = watcher or Watcher(), choose_device(settings.device)
    with measure(grid, device) as meter:
        found = watcher.learn(graph, settings, None)
    watcher.on_learned(found, meter.footprint)
    metrics = {}
    for split in splits:
        if len(graph.split(split)):
            metrics[split] = watcher.rank(found.model, graph, split)
            watcher.on_ranked(split, metrics[split])
    report = build_report(graph, settings, found.epochs, metrics, meter.footprint, device, recipe)
    report["curve"] = [asdict(point) for point in found.curve]
    return Experiment(found.model, report)
