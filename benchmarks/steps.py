"""What the step and the translation of the recipe `fast` are worth: validation MRR of each combination, one seed.

python benchmarks/steps.py
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import records
from procrustes_kge import FitSettings, evaluate, fit, read_graph
from procrustes_kge.models.ranking import PROTOCOL, figure
from procrustes_kge.runs.store import device_name
from procrustes_kge.system.devices import choose_device
from procrustes_kge.training.full_batch import Progress

# Adam's rates as the first trials on validation left them; the turn's are the defaults.
STEPS: dict[str, list[dict[str, Any]]] = {
    "wn18rr": [{"step": "adam", "learning_rate": 0.003, "epochs": 500, "validate_every": 25}, {"step": "turn"}],
    "fb15k-237": [{"step": "adam", "learning_rate": 0.01, "epochs": 200, "validate_every": 10}, {"step": "turn"}],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=2000)
    parser.add_argument("--folder", type=Path, default=records.RESULTS)
    parser.add_argument("--commit", default=records.commit())
    arguments = parser.parse_args()
    rows = []
    for dataset, steps in STEPS.items():
        graph = read_graph(dataset)
        for changes in steps:
            for translate in (False, True):
                # The pilot is the whole model here: its best epoch is the model's own.
                settings = FitSettings(dim=arguments.dim, pilot=arguments.dim, translate=translate, **changes)
                last: list[Progress] = []
                metrics = evaluate(fit(graph, settings, last.append), graph, "valid")
                rows.append(
                    {
                        "dataset": dataset,
                        "checksum": graph.checksum,
                        "step": settings.step,
                        "translate": translate,
                        "learning_rate": settings.learning_rate,
                        "epochs": last[-1].epochs,
                        "seed": settings.seed,
                        "valid_mrr": metrics.mrr,
                    }
                )
                shift = "h Q + b" if translate else "h Q"
                print(
                    f"{dataset:<10} {settings.step:<5} {shift:<8} {figure(metrics.mrr)} after {last[-1].epochs} epochs",
                    flush=True,
                )
    device = device_name(choose_device("auto"))
    content = {"commit": arguments.commit, "device": device, "protocol": PROTOCOL, "dim": arguments.dim, "rows": rows}
    records.write("steps", content, arguments.folder)


if __name__ == "__main__":
    main()
