"""What the optimiser and the translation of the recipe `fast` are worth: validation MRR of each combination, one seed.

python benchmarks/steps.py
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import result_files
from procrustes_kge import FitSettings, read_graph
from procrustes_kge.models.ranking import PROTOCOL, figure
from procrustes_kge.runs.experiment import device_name, experiment
from procrustes_kge.system.devices import choose_device

# Adam's learning rates as the first trials on validation left them; those of `turn` are the defaults.
OPTIMISERS: dict[str, list[dict[str, Any]]] = {
    "wn18rr": [
        {"optimiser": "adam", "learning_rate": 0.003, "epochs": 500, "validate_every": 25},
        {"optimiser": "turn"},
    ],
    "fb15k-237": [
        {"optimiser": "adam", "learning_rate": 0.01, "epochs": 200, "validate_every": 10},
        {"optimiser": "turn"},
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=2000)
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    parser.add_argument("--commit", default=result_files.commit())
    arguments = parser.parse_args()
    rows = []
    for dataset, tries in OPTIMISERS.items():
        graph = read_graph(dataset)
        for changes in tries:
            for translate in (False, True):
                # The pilot is the whole model here: its best epoch is the model's own.
                settings = FitSettings(dim=arguments.dim, pilot=arguments.dim, translate=translate, **changes)
                report = experiment(graph, settings, splits=["valid"]).report
                mrr, epochs = report["metrics"]["valid"]["mrr"], report["epochs"]
                rows.append(
                    {
                        "dataset": dataset,
                        "checksum": graph.checksum,
                        "optimiser": settings.optimiser,
                        "translate": translate,
                        "learning_rate": settings.learning_rate,
                        "epochs": epochs,
                        "seed": settings.seed,
                        "valid_mrr": mrr,
                    }
                )
                shift = "h Q + b" if translate else "h Q"
                print(
                    f"{dataset:<10} {settings.optimiser:<5} {shift:<8} {figure(mrr)} after {epochs} epochs", flush=True
                )
    device = device_name(choose_device("auto"))
    content = {"commit": arguments.commit, "device": device, "protocol": PROTOCOL, "dim": arguments.dim, "rows": rows}
    result_files.write("steps", content, arguments.folder)


if __name__ == "__main__":
    main()
