"""Write small run folders and a training that was stopped, in the formats of today, for tests/runs/samples.

    python scripts/make_samples.py        before a format changes; samples of older formats stay as they are

Tests load them all, whatever the format of the day is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from procrustes_kge import FolderCheckpoints, Graph, evaluate, learn, recipe, save
from procrustes_kge.graphs.graph import Vocabulary
from procrustes_kge.runs.checkpoints import FORMAT as CHECKPOINT_FORMAT
from procrustes_kge.runs.contents import FORMAT
from procrustes_kge.runs.jobs import Job, write_job
from procrustes_kge.training.checkpoints import Stopped
from procrustes_kge.training.recipes import Settings
from procrustes_kge.training.trainer import Progress

SAMPLES = Path(__file__).parents[1] / "tests" / "runs" / "samples"
WAYS: dict[str, dict[str, Any]] = {"fast": {"segment": 2}, "accurate": {"segment": 2, "batch": "full"}, "complex": {}}


def main() -> None:
    for name, changes in WAYS.items():
        settings = recipe(name, None, "cpu", dim=4, epochs=4, patience=0, validate_every=0, **changes)
        model, run = learn(graph(), settings), SAMPLES / f"run-{FORMAT}-{name}"
        metrics = {"test": evaluate(model, graph()).as_dict()}
        save(model, run, graph(), settings, {"metrics": metrics, "recipe": name})
        if name != "complex":
            save(model, SAMPLES / f"run-{FORMAT}-{name}-entities", graph(), settings, {}, relations=False)
        stopped(settings, name, SAMPLES / f"checkpoint-{CHECKPOINT_FORMAT}-{name}.unfinished")


def stopped(settings: Settings, name: str, folder: Path) -> None:
    """Leave a training that was stopped in its second epoch."""
    kept = FolderCheckpoints(folder, begin=lambda: write_job(Job(graph(), settings, name, "sample"), folder))

    def stop(progress: Progress) -> None:
        if progress.epoch == 2:
            kept.stop()

    try:
        learn(graph(), settings, stop, kept)
    except Stopped:
        return
    raise AssertionError(folder)


def graph() -> Graph:
    """Return a graph of six names, some of them awkward, with labels."""
    names = ["a", "b c", "d\ne", "☃", "\\n", "f"]
    entities, relations = Vocabulary(names, "entity", {"a": "Ünï"}), Vocabulary(["next", "far"], "relation")
    triples = torch.tensor([(i, r, (i + r + 1) % 6) for i in range(6) for r in range(2)])
    return Graph("sample", entities, relations, triples[:8], triples[8:10], triples[10:])


if __name__ == "__main__":
    main()
