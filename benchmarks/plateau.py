"""Accuracy past the plateau: named settings trained in full on the two benchmarks, several seeds, validation MRR.

python benchmarks/plateau.py                                   every candidate, on the GPU where there is one
python benchmarks/plateau.py fb-zero wn-cubes --seeds 1        two of them, one seed
python benchmarks/plateau.py fb-zero --changes epochs=60       a candidate with changes, under a name that says so
python benchmarks/plateau.py fb-zero --test                    the test triples too: once, for what validation chose

Each starts from the recipe `accurate`; the quick ones have 500 numbers, the others 2,000, most in one group. Writes
benchmarks/results/plateau.json after every training, and goes on where that ends.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean
from typing import Any

import result_files
from baselines import parsed
from procrustes_kge import read_graph, recipe
from procrustes_kge.runs.experiment import experiment
from procrustes_kge.training.recipes import changed, learned

ONE_PIECE = {"dim": 2000, "groups": 1, "segment": 2, "validate_every": 0}
FROM_NOTHING = {"init_scale": 1e-3, "init_std": 1e-3, "scale_regularisation": 0.05, "translate": False}
FB = {
    **{"dataset": "fb15k-237", **ONE_PIECE, **FROM_NOTHING, "inverses": True, "relation_weight": 4.0},
    **{"regulariser_power": 3.0, "regularisation": 0.05, "dropout": 0.2, "crowd": 1.0},
    **{"learning_rate": 0.1, "batch": 1024, "epochs": 40},
}
ALONE = {**FB, "relation_weight": 0.0}
WN = {
    **{"dataset": "wn18rr", **ONE_PIECE, "segment": 20, "regularisation": 0.1, "dropout": 0.3, "crowd": 0.5},
    **{"learning_rate": 0.2, "epochs": 40},
}
QUICK = {"dim": 500, "groups": 1, "validate_every": 0}  # how soon a good model is there
QUICK_FB, QUICK_WN = {"dataset": "fb15k-237", **QUICK, "epochs": 15}, {"dataset": "wn18rr", **QUICK, "epochs": 20}
# ComplEx with N3 has |h|³ + |r|³ + |t|³; here entities count three times, from both ends, and a scale is two numbers.
N3 = {"regularisation": 0.033, "query_regularisation": 0.0, "scale_regularisation": 0.018}
CANDIDATES: dict[str, dict[str, Any]] = {
    "fb-zero": FB,
    "fb-zero-256": {**FB, "batch": 256, "epochs": 20},  # as many answers in a step as a batch of 1,000 triples has
    "fb-zero-weak": {**FB, "scale_regularisation": 0.01, "regularisation": 0.03},
    "fb-zero-strong": {**FB, "regularisation": 0.1},
    "fb-zero-tied": {**FB, "inverses": False},
    "fb-zero-translated": {**FB, "translate": True},
    "fb-n3": {**FB, **N3, "dropout": 0.0},
    "fb-n3-256": {**FB, **N3, "dropout": 0.0, "batch": 256, "epochs": 30},
    "fb-n3-dropout": {**FB, **N3, "dropout": 0.3},
    "fb-ivr": {**FB, "regulariser_power": 2.25, "regularisation": 0.05, "query_regularisation": 3.0},
    "fb-squares": {**FB, "regulariser_power": 2.0, "init_scale": 1.0, "scale_regularisation": 0.001},
    "fb-ones": {**FB, "init_scale": 1.0, "scale_regularisation": 0.0},
    "fb-alone": ALONE,
    "fb-alone-segment-20": {**ALONE, "segment": 20, "init_scale": 1.0, "scale_regularisation": 0.0},
    "fb-groups": {**FB, "dim": 4000, "groups": 2},
    # Found by changing one setting at a time on validation triples, with 500 numbers, from what the recipe had before.
    "fb-climbed": {
        **{"dataset": "fb15k-237", "dim": 2000, "groups": 4, "validate_every": 0, "segment": 2, "epochs": 60},
        **{"regularisation": 0.05, "regulariser_power": 2.0, "learning_rate": 0.2, "crowd": 1.0, "dropout": 0.2},
        **{"label_smoothing": 0.1, "relation_weight": 1.0, "translate": True},
    },
    "fb-quick": QUICK_FB,
    "wn-quick": QUICK_WN,
    "wn-alone": WN,
    "wn-inverses": {**WN, "inverses": True},
    "wn-relations": {**WN, "relation_weight": 0.5},
    "wn-cubes": {**WN, "regulariser_power": 3.0},
    "wn-cubes-strong": {**WN, "regulariser_power": 3.0, "regularisation": 0.2},
    "wn-dura": {**WN, "query_regularisation": 9.0, "regularisation": 0.03},
    "wn-dropout": {**WN, "dropout": 0.5},
    "wn-dropout-dura": {**WN, "dropout": 0.5, "query_regularisation": 3.0, "regularisation": 0.05},
    "wn-segment-2": {**WN, "segment": 2},
    "wn-zero": {**WN, "segment": 2, **FROM_NOTHING, "inverses": True, "regulariser_power": 3.0},
    "wn-groups": {**WN, "groups": 4},
    "wn-groups-cubes": {**WN, "groups": 4, "regulariser_power": 3.0},
    "wn-groups-inverses": {**WN, "groups": 4, "inverses": True},
}


def trained(candidate: dict[str, Any], seed: int, device: str, test: bool) -> dict[str, Any]:
    """Train once, and return its MRR on validation triples, on test triples where asked for, and its seconds."""
    changes = {name: value for name, value in candidate.items() if name != "dataset"}
    graph = read_graph(candidate["dataset"])
    settings = recipe("accurate", graph, device, **changes, negatives="all", seed=seed)
    learned(graph, changed(settings, epochs=1))  # is not counted: it loads libraries
    report = experiment(graph, settings, "accurate", ["valid", "test"] if test else ["valid"]).report
    figures = {
        f"{split}_{name}": report["metrics"][split][name]
        for split in report["metrics"]
        for name in ("mrr", "hits@1", "hits@3", "hits@10")
    }
    about = {name: report[name] for name in ("dataset", "checksum", "device", "epochs")}
    return {**about, **figures, "seconds": report["footprint"]["seconds"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all of {', '.join(CANDIDATES)} if none is named")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--changes", default="", help="such as 'epochs=60 dropout=0.3'")
    parser.add_argument("--test", action="store_true", help="rank the test triples too")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS, help="where results are written")
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    names = arguments.names or [*CANDIDATES]
    if unknown := [name for name in names if name not in CANDIDATES]:
        parser.error(f"unknown candidates {', '.join(unknown)}, expected some of {', '.join(CANDIDATES)}")
    results = begun(arguments.folder)
    for name in names:
        candidate = CANDIDATES[name]
        for change in arguments.changes.split():
            candidate = {**candidate, **parsed(recipe("accurate"), change)}
        title = f"{name} {arguments.changes}".strip()
        for seed in range(arguments.seeds):
            same = [each for each in results if (each["name"], each["seed"]) == (title, seed)]
            if any(each["settings"] == candidate and ("test_mrr" in each or not arguments.test) for each in same):
                continue
            found = trained(candidate, seed, arguments.device, arguments.test)
            found = {"name": title, "seed": seed, "settings": candidate, "commit": arguments.commit, **found}
            results = [each for each in results if each not in same] + [found]
            result_files.write("plateau", {"results": results}, arguments.folder)
            print(line(title, [found]), flush=True)
        print(line(f"{title}, mean", [each for each in results if each["name"] == title]), flush=True)


def begun(folder: Path) -> list[dict[str, Any]]:
    """Return the results that there are."""
    file = folder / "plateau.json"
    return json.loads(file.read_text(encoding="utf-8"))["results"] if file.exists() else []


def line(title: str, results: list[dict[str, Any]]) -> str:
    """Return the figures of some trainings, averaged, in one line."""
    parts = [f"{title:<40}", f"valid {mean(each['valid_mrr'] for each in results):.4f}"]
    if all("test_mrr" in each for each in results):
        parts.append(f"test {mean(each['test_mrr'] for each in results):.4f}")
        parts.append(f"(lowest {min(each['test_mrr'] for each in results):.4f})")
    return "  ".join([*parts, f"{mean(each['seconds'] for each in results):.1f} s"])


if __name__ == "__main__":
    main()
