"""Which recipe gives the best validation MRR within a minute on this machine: why `procrustes train` does what it does.

python benchmarks/default.py                 every dataset, on the GPU where there is one
python benchmarks/default.py umls --device cpu

Writes benchmarks/results/default-cpu.json or default-cuda.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import result_files
from procrustes_kge import TrainSettings, read_graph, recipe
from procrustes_kge.runs.experiment import device_name, experiment
from procrustes_kge.system.devices import choose_device
from procrustes_kge.training.budget import plan

DATASETS = ("wordnet-mini", "umls", "kinship", "nations", "wn18rr", "fb15k-237")
RECIPES = ("fast", "accurate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", metavar="DATASET", help=f"all of {', '.join(DATASETS)} if none is named")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    device = choose_device(arguments.device)
    rows: list[dict[str, Any]] = []
    for dataset in arguments.datasets or DATASETS:
        graph = read_graph(dataset)
        for name in RECIPES:
            settings = recipe(name, graph, arguments.device)
            assert not isinstance(settings, TrainSettings)
            planned = plan(graph, settings, arguments.seconds)
            report = experiment(graph, planned.settings, name, splits=["valid"]).report
            mrr, footprint = report["metrics"]["valid"]["mrr"], report["footprint"]
            rows.append(
                {
                    "dataset": graph.name,
                    "recipe": name,
                    "valid_mrr": mrr,
                    "planned_seconds": planned.seconds,
                    "planned_memory_gb": planned.memory / 1e9,
                    "footprint": footprint,
                    "settings": report["settings"],
                }
            )
            print(
                f"{graph.name:<14}{name:<10}valid MRR {mrr:.4f}   {footprint['seconds']:.0f} s "
                f"(planned {planned.seconds:.0f})   {planned}",
                flush=True,
            )
            about = {"commit": arguments.commit, "device": device_name(device), "rows": rows}
            result_files.write(f"default-{device.type}", about, arguments.folder)


if __name__ == "__main__":
    main()
