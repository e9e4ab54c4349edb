"""What each idea is worth: one change at a time to one start, the same on all graphs; validation MRR.

python benchmarks/ideas.py                               every idea on nine graphs
python benchmarks/ideas.py umls wn18rr --seconds 500     two graphs, for as long as that
python benchmarks/ideas.py --only inverses "power 2"     two ideas

Starts from the first settings of the portfolio, with vectors of 500 numbers in one group, as in the record. Writes
benchmarks/results/ideas-GRAPH.json, and goes on where that ends.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import product
from pathlib import Path
from typing import Any

import result_files
import ten_graphs
from procrustes_kge.runs.experiment import device_name
from procrustes_kge.system.devices import choose_device
from procrustes_kge.training.portfolio import portfolio
from trials import DIM, trial

GRAPHS = ("wn18rr", "fb15k-237", "umls", "kinship", "NELL-995", "DBpedia50", "nations", "wordnet-mini", "WN18")
SEEDS = (0, 1, 2)
FROM_NOTHING = {"init_scale": 1e-3, "init_std": 1e-3, "scale_regularisation": 0.01}
IDEAS: dict[str, dict[str, Any]] = {
    "the start": {},
    "no relation prediction": {"relation_weight": 0.0},
    "relation prediction, weight 4": {"relation_weight": 4.0},
    "inverses": {"inverses": True},
    "power 2": {"regulariser_power": 2.0},
    "power 2.25": {"regulariser_power": 2.25},
    "queries three times": {"query_regularisation": 3.0},
    "half of the regularisation": {"times": {"regularisation": 1 / 2}},
    "twice the regularisation": {"times": {"regularisation": 2.0}},
    "segments of 4": {"segment": 4},
    "segments of 10": {"segment": 10},
    "segments of 20": {"segment": 20},
    "translations": {"translate": True},
    "no scales": {"scale": False},
    "scales kept short": {"scale_regularisation": 0.001},
    "scales from nothing": FROM_NOTHING,
    "vectors from less": {"init_std": 1e-3},
    "no dropout": {"dropout": 0.0},
    "dropout .5": {"dropout": 0.5},
    "no crowd": {"crowd": 0.0},
    "full crowd": {"crowd": 1.0},
    "no smoothing": {"label_smoothing": 0.0},
    "rotations from positives": {"relations": "positives"},
    "half the rate": {"times": {"learning_rate": 0.5}},
    "60 epochs": {"epochs": 60},
    "power 2.25, segments of 20": {"regulariser_power": 2.25, "segment": 20},
    "inverses, no relation prediction": {"inverses": True, "relation_weight": 0.0},
    "inverses, half of the regularisation": {"inverses": True, "times": {"regularisation": 1 / 2}},
    # What FB15k-237 likes (`plateau.py fb-climbed`).
    "squares, full crowd, 60 epochs": {
        **{"regulariser_power": 2.0, "regularisation": 0.05, "learning_rate": 0.2, "crowd": 1.0},
        **{"translate": True, "epochs": 60},
    },
}


def best(name: str, folder: Path, count: int) -> list[dict[str, Any]]:
    """Return the settings of the best trials of a graph's record, the best first."""
    record = json.loads((folder / f"trials-{name.lower()}.json").read_text(encoding="utf-8"))
    ordered = sorted(record["trials"], key=lambda each: each.get("valid_mrr", 0.0), reverse=True)
    return [each["changes"] for each in ordered[:count]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help=f"{', '.join(GRAPHS)} if none is named")
    parser.add_argument("--only", nargs="*", default=[*IDEAS], metavar="IDEA")
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no training after this time")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS, help="where results are written")
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    started, names = time.perf_counter(), arguments.graphs or GRAPHS
    graphs = {name: ten_graphs.read(name) for name in names}
    results = {name: begun(name, arguments) for name in names}
    start = portfolio()[0]
    device = device_name(choose_device(arguments.device))
    for seed, idea, (name, graph) in product(range(arguments.seeds), arguments.only, graphs.items()):
        if time.perf_counter() - started > arguments.seconds:
            break
        if any((each["idea"], each["seed"]) == (idea, seed) for each in results[name]):
            continue
        base = ten_graphs.former(graph, arguments.device, dim=DIM, groups=1, negatives="all")
        found = trial(graph, base, {**start, **told(IDEAS[idea], start), "seed": seed})
        results[name].append({"idea": idea, "seed": seed, **found})
        about = {"commit": arguments.commit, "device": device, "dataset": name, "start": start}
        result_files.write(f"ideas-{name.lower()}", {**about, "results": results[name]}, arguments.folder)
        print(f"{name} {idea} {seed} {found.get('valid_mrr')} {found.get('seconds')}", flush=True)


def begun(name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the results there are of a graph."""
    for folder in (arguments.folder, result_files.RESULTS):
        file = folder / f"ideas-{name.lower()}.json"
        if file.exists():
            return json.loads(file.read_text(encoding="utf-8"))["results"]
    return []


def told(change: dict[str, Any], start: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of an idea; those under `times` are shares of what they start from."""
    scaled = {name: share * start[name] for name, share in change.get("times", {}).items()}
    return {**{name: value for name, value in change.items() if name != "times"}, **scaled}


if __name__ == "__main__":
    main()
