"""What the benchmark scripts share: where results are, how files are written and read, a line about some trainings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from procrustes_kge.system.process import prepare_process

prepare_process()  # as the command does: before what follows loads PyTorch

from procrustes_kge.bench.table import commit  # noqa: E402
from procrustes_kge.graphs.graph import Graph  # noqa: E402
from procrustes_kge.models.ranking import PROTOCOL, figure  # noqa: E402
from procrustes_kge.runs.experiment import device_name  # noqa: E402
from procrustes_kge.system.devices import choose_device  # noqa: E402
from procrustes_kge.system.files import write_json_atomically  # noqa: E402
from procrustes_kge.training.recipes import Settings, values_of  # noqa: E402

__all__ = ["RESULTS", "about", "commit", "renamed", "row", "write"]

RESULTS = Path(__file__).parent / "results"
# What settings, and two of their values, were called when the older result files were written.
OLD_NAMES = {
    "against": "negatives",
    "average": "weight_average",
    "decay": "regularisation",
    "even": "subsampling",
    "focus": "adversarial_temperature",
    "most": "max_neighbours",
    "outweigh": "negative_weight",
    "penalty": "regulariser",
    "rate_decay": "learning_rate_decay",
    "shared": "shared_negatives",
    "smoothing": "label_smoothing",
    "spread": "init_std",
    "step": "optimiser",
    "turning_rate": "rotation_learning_rate",
}
OLD_VALUES = {("loss", "logistic"): "sigmoid", ("negatives", "labels"): "kvsall"}


def write(name: str, content: dict[str, Any], folder: Path = RESULTS) -> None:
    """Write a result file."""
    write_json_atomically(folder / f"{name}.json", content)


def about(commit: str | None, name: str, graph: Graph, recipe: str, settings: Settings) -> dict[str, Any]:
    """Return what a result file says of how its figures came about."""
    return {
        "commit": commit,
        "device": device_name(choose_device(settings.device)),
        "dataset": name,
        "checksum": graph.checksum,
        "protocol": PROTOCOL,
        "recipe": recipe,
        "settings": values_of(settings),
    }


def renamed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a result file by their names of today."""
    named = {OLD_NAMES.get(name, name): value for name, value in settings.items()}
    return {name: OLD_VALUES.get((name, value), value) for name, value in named.items()}


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
