"""An experiment: learn, measure, rank and report. The command, the tables and the benchmarks all train through here."""

import platform
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import SPLITS, Graph
from procrustes_kge.models.calibration import Calibration
from procrustes_kge.models.ranking import PROTOCOL, Evaluation, evaluate
from procrustes_kge.models.with_paths import Embedding, WithPaths
from procrustes_kge.system.devices import choose_device
from procrustes_kge.system.footprint import Footprint, measure
from procrustes_kge.system.machine import processor_name
from procrustes_kge.training.checkpoints import Checkpoints
from procrustes_kge.training.paths import WithEvidence, with_paths
from procrustes_kge.training.proposals import ANOTHER
from procrustes_kge.training.recipes import Settings, learned, method_name, values_of
from procrustes_kge.training.trainer import Learned
from procrustes_kge.training.tuned import Tuned, Tuning
from procrustes_kge.training.tuning import Search
from procrustes_kge.version import __version__

Model = Embedding | WithPaths


@dataclass(frozen=True)
class Run:
    """What an experiment leaves behind, and a run folder holds."""

    model: Model
    graph: Graph | None
    settings: Settings | None
    report: dict[str, Any]
    calibration: Calibration | None = field(default=None, kw_only=True)


class Watcher:
    """How an experiment learns and ranks, and what it reports meanwhile: nothing here, bars and lines in a terminal."""

    def tune(self, graph: Graph, settings: Settings, tuning: Tuning, checkpoints: Checkpoints | None = None) -> Tuned:
        """Search for settings."""
        return Search(graph, settings, tuning, checkpoints=checkpoints).run()

    def learn(self, graph: Graph, settings: Settings, checkpoints: Checkpoints | None = None) -> Learned[Embedding]:
        """Learn a model."""
        return learned(graph, settings, checkpoints=checkpoints)

    def weigh(self, model: Embedding, graph: Graph, seed: int, between: Callable[[], None]) -> WithEvidence:
        """Put paths as evidence beside a model; `between` relations something may be called, which may raise."""
        return with_paths(model, graph, seed=seed, report=lambda *_: between())

    def rank(self, model: Model, graph: Graph, split: str, seconds: float | None = None) -> Evaluation:
        """Rank a split, or as much of it as there is time for."""
        return evaluate(model, graph, split, seconds=seconds)

    def on_tuned(self, found: Tuned) -> None:
        """Called with the settings that a search has found."""

    def on_learned(self, found: Learned[Any], footprint: Footprint) -> None:
        """Called with a learned model and what it cost."""

    def on_weighed(self, about: dict[str, Any]) -> None:
        """Called with what is known of paths."""

    def on_ranked(self, split: str, evaluation: Evaluation) -> None:
        """Called with the figures of a split."""


def experiment(
    graph: Graph,
    settings: Settings,
    recipe: str | None = None,
    splits: Iterable[str] = SPLITS[1:],
    grid: str | float | None = None,
    watcher: Watcher | None = None,
    checkpoints: Checkpoints | None = None,
) -> Run:
    """Learn once, measure the learning alone, rank the splits that have triples, and report."""
    run = learned_run(graph, settings, recipe, grid, watcher, checkpoints)
    run.report["metrics"] = ranked(run.model, graph, splits, watcher)
    return run


def learned_run(
    graph: Graph,
    settings: Settings,
    recipe: str | None = None,
    grid: str | float | None = None,
    watcher: Watcher | None = None,
    checkpoints: Checkpoints | None = None,
    tuning: Tuning | None = None,
    paths: bool = False,
) -> Run:
    """Learn once, measure the learning, and report, without figures so far; the settings are those that repeat it.

    With `tuning`, settings are searched for first, and the learning is that of the search too. With `paths`,
    paths as evidence are mined and weighed for the model: a part of the learning, and of what it costs.
    """
    watcher, device = watcher or Watcher(), choose_device(settings.device)
    with measure(grid, device) as meter:
        tuned = watcher.tune(graph, settings, tuning, checkpoints) if tuning else None
        if tuned is not None:
            watcher.on_tuned(tuned)
        found = watcher.learn(graph, tuned.settings if tuned else settings, checkpoints)
        weighed = _weighed(watcher, found, graph, checkpoints) if paths else None
    footprint = meter.footprint.after(checkpoints.seconds if checkpoints else 0.0)
    watcher.on_learned(found, footprint)
    if weighed is not None:
        watcher.on_weighed(weighed.about)
    another = tuned.chosen.changes.get(ANOTHER, recipe) if tuned and tuned.chosen else recipe
    report = {
        **_described(graph, found.settings, another),
        "epochs": found.epochs,
        **({"paths": weighed.about} if weighed else {}),
        "metrics": {},
        "protocol": PROTOCOL,
        "footprint": footprint.as_dict(),
        "device": device_name(device),
        "versions": versions(),
        "curve": [asdict(point) for point in found.curve],
        **({"tuning": tuned.as_dict()} if tuned else {}),
    }
    return Run(weighed.model if weighed else found.model, graph, found.settings, report)


def _weighed(
    watcher: Watcher, found: Learned[Any], graph: Graph, checkpoints: Checkpoints | None
) -> WithEvidence | None:
    """Return the model with paths; nothing where memory does not suffice, or it is asked to stop: no model is lost."""

    def stop_if_asked() -> None:
        if checkpoints is not None and checkpoints.stopping:
            raise InputError("asked to stop while paths were weighed")

    try:
        return watcher.weigh(found.model, graph, found.settings.seed, stop_if_asked)
    except InputError as error:
        warnings.warn(f"trained without paths: {error}", RuntimeWarning, stacklevel=3)
        return None


def ranked(
    model: Model,
    graph: Graph,
    splits: Iterable[str] = SPLITS[1:],
    watcher: Watcher | None = None,
    seconds: float | None = None,
) -> dict[str, Any]:
    """Return the figures of the splits that have triples; with `seconds` for all of them, perhaps of samples."""
    watcher, ends = watcher or Watcher(), time.perf_counter() + (seconds or 0)
    splits, metrics = [split for split in splits if len(graph.split(split))], {}
    for place, split in enumerate(splits):
        share = None if seconds is None else max(0.0, ends - time.perf_counter()) / (len(splits) - place)
        evaluation = watcher.rank(model, graph, split, share)
        watcher.on_ranked(split, evaluation)
        metrics[split] = evaluation.as_dict()
    return metrics


def _described(graph: Graph, settings: Settings, recipe: str | None) -> dict[str, Any]:
    """Return the part of a report that is known before anything is learned."""
    return {
        **described(graph),
        "model": getattr(settings, "model", "procrustes"),
        "recipe": recipe,
        "method": method_name(settings),
        "settings": values_of(settings),
        "seed": settings.seed,
    }


def described(graph: Graph) -> dict[str, Any]:
    """Return what a report says of a graph."""
    return {
        "dataset": graph.name,
        "checksum": graph.checksum,
        "entities": len(graph.entities),
        "relations": len(graph.relations),
        "triples": {split: len(graph.split(split)) for split in SPLITS},
        "notes": [*graph.notes, *graph.remarks()],
    }


def versions() -> dict[str, str]:
    """Return the versions that figures depend on."""
    known = {"procrustes-kge": __version__, "torch": torch.__version__, "numpy": np.__version__}
    return {**known, "python": platform.python_version()}


def device_name(device: torch.device) -> str:
    """Return the product name of a device."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else processor_name()
