"""The baselines on the two benchmarks: a search by validation, or rows for the table.

python benchmarks/baselines.py complex-wn18rr          one row: train, rank, write baseline-complex-wn18rr.json
python benchmarks/baselines.py complex-wn18rr --valid --set decay=0.05 --set epochs=30     look at validation alone

Rows whose file is there are left alone, unless they are named.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import records
from procrustes_kge import Graph, TrainSettings, evaluate, read_graph, train
from procrustes_kge.devices import choose_device
from procrustes_kge.fit import Progress
from procrustes_kge.footprint import measure
from procrustes_kge.published import PUBLISHED, published
from procrustes_kge.ranking import figure
from procrustes_kge.store import build_report

ROWS = [f"{model}-{dataset}" for dataset in ("wn18rr", "fb15k-237") for model in PUBLISHED]


def trained(graph: Graph, settings: TrainSettings, splits: tuple[str, ...]) -> dict[str, Any]:
    """Train once, rank some splits, and return the report that a run folder would hold."""
    device, last = choose_device(settings.device), Progress(0, 1, 0, settings.epochs)

    def remember(progress: Progress) -> None:
        nonlocal last
        last = progress

    with measure(device=device) as meter:
        model = train(graph, settings, remember)
    started = time.perf_counter()
    metrics = {split: evaluate(model, graph, split) for split in splits}
    ranked = time.perf_counter() - started
    report = build_report(graph, settings, last.epoch, metrics, meter.footprint, device)
    for figures in report["metrics"].values():
        del figures["relations"]  # long, and not what a table shows
    return {**report, "ranking_seconds": ranked}


def parsed(settings: TrainSettings, change: str) -> dict[str, Any]:
    """Return a change of a setting from words such as decay=0.05."""
    name, _, value = change.partition("=")
    if name not in {field.name for field in fields(settings)}:
        raise SystemExit(f"{name} is no setting")
    kind = type(getattr(settings, name))
    if kind is bool:
        return {name: value == "True"}
    return {name: int(value) if value.isdecimal() and kind is not float else float(value) if kind is float else value}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="MODEL-DATASET; where none is named, all without a file")
    parser.add_argument("--valid", action="store_true", help="look at validation alone, and write nothing")
    parser.add_argument("--set", action="append", default=[], metavar="SETTING=VALUE", dest="changes")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folder", type=Path, default=records.RESULTS)
    parser.add_argument("--commit", default=records.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    missing = [row for row in ROWS if not (arguments.folder / f"baseline-{row}.json").exists()]
    for row in arguments.rows or missing:
        model, _, dataset = row.partition("-")
        graph = read_graph(dataset)
        settings = replace(published(model, graph), device=arguments.device)
        for change in arguments.changes:
            settings = replace(settings, **parsed(settings, change))
        report = trained(graph, settings, ("valid",) if arguments.valid else ("valid", "test"))
        found = "   ".join(f"{split} {figure(metrics['mrr'])}" for split, metrics in report["metrics"].items())
        seconds = f"{report['footprint']['seconds']:.0f} s, ranked in {report['ranking_seconds']:.1f} s"
        print(f"{row:<24}{' '.join(arguments.changes)}   {found}   {report['epochs']} epochs in {seconds}", flush=True)
        if not arguments.valid:
            content = {"commit": arguments.commit, "runs": [report]}
            records.write(f"baseline-{row}", content, arguments.folder)


if __name__ == "__main__":
    main()
