"""What the benchmark scripts share: one training measured and ranked, and a JSON file of several."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from procrustes_kge import Graph, evaluate, learn
from procrustes_kge.devices import choose_device
from procrustes_kge.fit import Progress
from procrustes_kge.footprint import measure
from procrustes_kge.ranking import figure
from procrustes_kge.recipes import Settings
from procrustes_kge.store import build_report

RESULTS = Path(__file__).parent / "results"


def trained(graph: Graph, settings: Settings, recipe: str) -> dict[str, Any]:
    """Train once, rank valid and test, and return the report that a run folder would hold."""
    device, last = choose_device(settings.device), Progress(0, 1, 0, settings.epochs)

    def remember(progress: Progress) -> None:
        nonlocal last
        last = progress

    with measure(device=device) as meter:
        model = learn(graph, settings, remember)
    metrics = {split: evaluate(model, graph, split) for split in ("valid", "test")}
    report = build_report(graph, settings, last.epochs, metrics, meter.footprint, device, recipe)
    for figures in report["metrics"].values():
        del figures["relations"]  # long, and not what a table shows
    return report


def commit() -> str | None:
    """Return the commit of the working tree, if it is a git checkout."""
    command = ["git", "-C", str(RESULTS.parent), "rev-parse", "HEAD"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return asked.stdout.strip() or None


def write(name: str, content: dict[str, Any], folder: Path = RESULTS) -> None:
    """Write a result file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def row(name: str, reports: Sequence[dict[str, Any]]) -> str:
    """Return one line of a table: means over the seeds, two-sided first."""

    def average(*keys: str) -> float:
        values: list[Any] = list(reports)
        for key in keys:
            values = [value[key] for value in values]
        return mean(values)

    test = ("metrics", "test")
    hits = "  ".join(figure(average(*test, f"hits@{k}")) for k in (1, 3, 10))
    lowest = min(report["metrics"]["test"]["mrr"] for report in reports)
    return (
        f"{name:<28}{average(*test, 'mrr'):.4f} (lowest {lowest:.4f})   {hits}   "
        f"tails {figure(average(*test, 'tail', 'mrr'))}  heads {figure(average(*test, 'head', 'mrr'))}  "
        f"seen {figure(average(*test, 'seen_only', 'mrr'))}   "
        f"valid {figure(average('metrics', 'valid', 'mrr'))}   "
        f"{average('epochs'):.0f} epochs  {average('footprint', 'seconds'):.1f} s  "
        f"{average('footprint', 'g_co2'):.2g} g CO2"
    )
