"""A record of random settings on ten graphs: validation MRR and seconds of each. Defaults are learned from it.

python benchmarks/trials.py                              what is missing of 60 trials a graph, and 20 of Debian's
python benchmarks/trials.py umls wn18rr --seconds 500    two graphs, for as long as that

Vectors of 500 numbers in one group, trained with the softmax over all entities. The first two trials are those between
which the recipe `accurate` chose by a rule; of the others, each setting is drawn on its own, the same ones for all
graphs. Writes benchmarks/results/trials-GRAPH.json after every trial, and goes on where that ends.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

import result_files
import ten_graphs
from procrustes_kge import Graph, recipe
from procrustes_kge.errors import DivergedError, InputError
from procrustes_kge.models.ranking import rank
from procrustes_kge.runs.experiment import device_name
from procrustes_kge.system.devices import choose_device
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.recipes import changed, learned
from procrustes_kge.training.spaces import SPACES

DIM = 500
MOST = {name: 20 if name == ten_graphs.DEBIAN else 60 for name in ten_graphs.TEN}
MOST_RANKED = 20_000  # validation triples
LEFT_ALONE = ("batch",)  # the recipe chooses it by the size of a graph
WARM_UP = {"epochs": 1, "dim": 100}  # one training is not counted: it loads libraries


def drawn(number: int) -> dict[str, Any]:
    """Return the settings of a trial; the first two are those between which `accurate` chose by a rule."""
    if number < len(ten_graphs.FORMER_PAIR):
        return ten_graphs.FORMER_PAIR[number]
    space = {name: values for name, values in SPACES[ContrastSettings].items() if name not in LEFT_ALONE}
    return {name: values.at(random.Random(f"{number} {name}").random()) for name, values in space.items()}


def trial(graph: Graph, base: ContrastSettings, changes: dict[str, Any]) -> dict[str, Any]:
    """Train once, and rank the validation triples, or a sample of them."""
    settings = changed(base, **changes)
    started = time.perf_counter()
    try:
        model = learned(graph, settings).model
    except (DivergedError, InputError) as problem:
        return {"changes": changes, "failed": str(problem)}
    seconds = time.perf_counter() - started
    reciprocal = 1 / rank(model, graph, graph.valid[:MOST_RANKED]).realistic
    error = reciprocal.std().item() / len(reciprocal) ** 0.5
    return {"changes": changes, "valid_mrr": reciprocal.mean().item(), "error": error, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help=f"all of {', '.join(ten_graphs.TEN)} if none is")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no trial after this time")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--debian", type=Path, help="the file that debian_graph.py wrote")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS, help="where the record is written")
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    started, names = time.perf_counter(), arguments.graphs or ten_graphs.TEN
    graphs = {name: ten_graphs.read(name, arguments.debian) for name in names}
    records = {name: begun(name, graph, arguments) for name, graph in graphs.items()}
    learned(graphs[names[0]], recipe("accurate", graphs[names[0]], arguments.device, **WARM_UP))
    for number in range(max(MOST.values())):  # in turn, so that every graph has as many where time ends
        for name, graph in graphs.items():
            trials = records[name]["trials"]
            if number != len(trials) or number >= MOST[name] or time.perf_counter() - started > arguments.seconds:
                continue
            base = ten_graphs.former(graph, arguments.device, dim=DIM, groups=1, negatives="all")
            trials.append(trial(graph, base, drawn(number)))
            result_files.write(f"trials-{name.lower()}", records[name], arguments.folder)
            print(f"{name} {number} {trials[-1]}", flush=True)


def begun(name: str, graph: Graph, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what there is of a graph's record."""
    for folder in (arguments.folder, result_files.RESULTS):
        file = folder / f"trials-{name.lower()}.json"
        if file.exists():
            return json.loads(file.read_text(encoding="utf-8"))
    device = device_name(choose_device(arguments.device))
    sizes = {"entities": len(graph.entities), "relations": len(graph.relations), "triples": len(graph.train)}
    about = {"commit": arguments.commit, "device": device, "dataset": name, "checksum": graph.checksum}
    return {**about, **sizes, "dim": DIM, "former": ten_graphs.rule(graph), "trials": []}


if __name__ == "__main__":
    main()
