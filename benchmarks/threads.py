"""Compare what one thread learns with what two learn, to the last bit: of every model, on a small and a usual graph.

    python benchmarks/threads.py                  a ring of 40 entities, and the 10,412 of wordnet-mini

Two epochs each, with the settings of the recipe: on the ring vectors of 20 numbers, on wordnet-mini 2,000 of its
training triples, our own vectors of 200 numbers and others as long as in their recipes. Writes
benchmarks/results/threads.json.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import result_files
from masters import ring
from procrustes_kge import Graph, learn, read_graph, recipe
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.runs.experiment import device_name
from procrustes_kge.system.threads import threads
from procrustes_kge.training.recipes import has_setting

WAYS = ("paper", "fast", "accurate", *BASELINES)
SHORT = {"epochs": 2, "patience": 0, "validate_every": 0, "time": 0.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triples", type=int, default=2000)
    parser.add_argument("--dim", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    arguments = parser.parse_args()
    whole = read_graph("wordnet-mini")
    usual = replace(whole, train=whole.train[: arguments.triples])
    rows = []
    for name in WAYS:
        row: dict[str, Any] = {"recipe": name}
        for size, graph in (("small", ring()), ("usual", usual)):
            started = time.perf_counter()
            row[size] = compared(name, graph, arguments.dim if size == "usual" else 20)
            row[f"{size}_seconds"] = round(time.perf_counter() - started, 1)
        rows.append(row)
        print("   ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        about: dict[str, Any] = {"commit": result_files.commit(), "device": device_name(torch.device("cpu"))}
        about |= {"triples": len(usual.train), "entities": len(usual.entities), "dim": arguments.dim}
        result_files.write("threads", about | {"rows": rows}, arguments.folder)


def compared(name: str, graph: Graph, dim: int) -> dict[str, Any]:
    """Return whether one thread and two end in the same tables, and by how much these differ at most."""
    small = {"segment": 5, "relation_dim": 8, "height": 2, "blocks": 4, "input_dim": 8, "filters": 4}
    changes: dict[str, Any] = SHORT | (small if dim < 100 else {})
    if dim < 100 or name not in BASELINES:
        changes["dim"] = dim
    usual = recipe(name, graph, "cpu")
    fitting = {key: value for key, value in changes.items() if has_setting(usual, key)}
    settings: Any = recipe(name, graph, "cpu", **fitting)
    found = []
    for count in (1, 2):
        torch.set_num_threads(count)
        own = {"workers": count} if has_setting(settings, "workers") else {}
        with threads(count):
            model: Any = learn(graph, replace(settings, **own))
        found.append(model.module.state_dict() if hasattr(model, "module") else model.tables())
    one, two = found
    apart = [float((one[each] - two[each]).abs().max()) for each in one if one[each].is_floating_point()]
    return {"same": all(one[each].equal(two[each]) for each in one), "most_apart": max(apart)}


if __name__ == "__main__":
    main()
