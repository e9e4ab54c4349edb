"""What leaving the rotations out of a run folder costs: MRR as trained, and with rotations computed from the rest.

python benchmarks/restoring.py                       every dataset, on the CPU
python benchmarks/restoring.py umls --device cuda

Writes benchmarks/results/restoring.json; `python benchmarks/tables.py restoring` makes a table of it.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import result_files
from procrustes_kge import ContrastSettings, Procrustes, evaluate, learn, read_graph, recipe
from procrustes_kge.runs.experiment import device_name
from procrustes_kge.system.devices import choose_device
from procrustes_kge.training.recipes import values_of
from procrustes_kge.training.restoring import restore_contrasted_relations

DATASETS = ("umls", "kinship", "nations", "wn18rr", "fb15k-237")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", metavar="DATASET", help=f"all of {', '.join(DATASETS)} if none is named")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for dataset in arguments.datasets or DATASETS:
        graph = read_graph(dataset)
        settings = recipe("accurate", graph, arguments.device, dim=arguments.dim)
        model = learn(graph, settings)
        assert isinstance(settings, ContrastSettings)
        assert isinstance(model, Procrustes)
        started = time.perf_counter()
        rotations = restore_contrasted_relations(
            model.vectors, graph, settings.groups, model.translations, model.scales
        )
        seconds = time.perf_counter() - started
        trained, restored = (
            evaluate(each, graph, "valid").mrr for each in (model, replace(model, rotations=rotations))
        )
        rows.append(
            {"dataset": dataset, "trained": trained, "restored": restored, "seconds": seconds, **values_of(settings)}
        )
        print(f"{dataset:<12}valid MRR {trained:.4f} trained, {restored:.4f} restored in {seconds:.1f} s", flush=True)
        about = {"commit": arguments.commit, "device": device_name(choose_device(arguments.device)), "rows": rows}
        result_files.write("restoring", about, arguments.folder)


if __name__ == "__main__":
    main()
