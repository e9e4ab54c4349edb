"""What each idea is worth: one change at a time to the best settings of a graph's record; validation MRR, three seeds.

python benchmarks/ideas.py                               every idea on every graph
python benchmarks/ideas.py umls wn18rr --seconds 500     two graphs, for as long as that

Vectors of 500 numbers in one group, as in the record. Writes benchmarks/results/ideas-GRAPH.json, and goes on where
that ends.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import result_files
import ten_graphs
from procrustes_kge.runs.experiment import device_name
from procrustes_kge.system.devices import choose_device
from procrustes_kge.training.contrastive_settings import ContrastSettings
from trials import DIM, trial

GRAPHS = ("wn18rr", "fb15k-237", "umls", "kinship", "NELL-995", "DBpedia50", "nations", "wordnet-mini", "WN18")
SEEDS = (0, 1, 2)
# With squares everything would stay at nothing: there they pull harder than answers do.
CUBES = {"regulariser_power": 3.0, "regularisation": 0.02}
FROM_NOTHING = {
    **{"scale": True, "translate": False, "init_scale": 1e-3, "init_std": 1e-3, "scale_regularisation": 0.01},
    **CUBES,
}
IDEAS: dict[str, dict[str, Any]] = {
    "as the record's best": {},
    "relations too": {"relation_weight": 4.0},
    "relations too, 1": {"relation_weight": 1.0},
    "inverses": {"inverses": True},
    "power 3": {"regulariser_power": 3.0},
    "power 3, half as much": {"regulariser_power": 3.0, "times": {"regularisation": 0.5}},
    "power 3, no translation": {"regulariser_power": 3.0, "translate": False},
    "power 2.25": {"regulariser_power": 2.25},
    "queries .5 to 1.5": {"query_regularisation": 9.0, "times": {"regularisation": 1 / 6}},
    "queries three times": {"query_regularisation": 3.0, "times": {"regularisation": 0.5}},
    "scales kept short": {"scale": True, "scale_regularisation": 0.001},
    "vectors from less": {"init_std": 1e-3},
    "dropout .65": {"dropout": 0.65},
    "segments of 2": {"segment": 2},
    "segments of 2, relations too": {"segment": 2, "relation_weight": 4.0},
    "segments of 2, power 3": {"segment": 2, "regulariser_power": 3.0},
    "segments of 2, power 3, relations too": {"segment": 2, "regulariser_power": 3.0, "relation_weight": 4.0},
    "scales from nothing": FROM_NOTHING,
    "segments of 2, scales from nothing": {"segment": 2, **FROM_NOTHING},
    "segments of 2, scales from nothing, inverses": {"segment": 2, **FROM_NOTHING, "inverses": True},
    "segments of 2, scales from nothing, inverses, relations too": {
        **{"segment": 2, "inverses": True, "relation_weight": 4.0},
        **FROM_NOTHING,
    },
    "inverses, power 3": {"inverses": True, "regulariser_power": 3.0},
    "inverses, relations too": {"inverses": True, "relation_weight": 4.0},
}


def best(name: str, folder: Path, count: int) -> list[dict[str, Any]]:
    """Return the settings of the best trials of a graph's record, the best first."""
    record = json.loads((folder / f"trials-{name.lower()}.json").read_text(encoding="utf-8"))
    ordered = sorted(record["trials"], key=lambda each: each.get("valid_mrr", 0.0), reverse=True)
    return [each["changes"] for each in ordered[:count]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help=f"{', '.join(GRAPHS)} if none is named")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no training after this time")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--record", type=Path, default=result_files.RESULTS, help="where the record of trials is")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS, help="where results are written")
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    started = time.perf_counter()
    for name in arguments.graphs or GRAPHS:
        graph = ten_graphs.read(name)
        [start] = best(name, arguments.record, 1)
        base = ten_graphs.former(graph, arguments.device, dim=DIM, groups=1, negatives="all")
        about = {
            "commit": arguments.commit,
            "device": device_name(choose_device(arguments.device)),
            "dataset": name,
            "settings": start,
        }
        results = begun(name, arguments)
        for seed in SEEDS:
            for idea, described in IDEAS.items():
                change = told(described, start, base)
                done = any(each["idea"] == idea and each["seed"] == seed for each in results)
                if done or time.perf_counter() - started > arguments.seconds or not possible(change):
                    continue
                results.append({"idea": idea, "seed": seed, **trial(graph, base, {**start, **change, "seed": seed})})
                print(f"{name} {idea} {seed} {results[-1].get('valid_mrr')} {results[-1].get('seconds')}", flush=True)
                result_files.write(f"ideas-{name.lower()}", {**about, "results": results}, arguments.folder)


def begun(name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the results there are of a graph."""
    for folder in (arguments.folder, result_files.RESULTS):
        file = folder / f"ideas-{name.lower()}.json"
        if file.exists():
            return json.loads(file.read_text(encoding="utf-8"))["results"]
    return []


def told(change: dict[str, Any], start: dict[str, Any], base: ContrastSettings) -> dict[str, Any]:
    """Return the settings of an idea; those under `times` are shares of what they start from."""
    shares: dict[str, float] = change.get("times", {})
    scaled = {name: share * start.get(name, getattr(base, name)) for name, share in shares.items()}
    return {**{name: value for name, value in change.items() if name != "times"}, **scaled}


def possible(change: dict[str, Any]) -> bool:
    """Say whether all settings of an idea are there."""
    return all(name in ContrastSettings.__dataclass_fields__ for name in change)


if __name__ == "__main__":
    main()
