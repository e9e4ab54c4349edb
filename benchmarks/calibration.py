"""How far probabilities are to be trusted: calibrated on validation triples, measured on test triples.

python benchmarks/calibration.py wn18rr fb15k-237 wordnet-mini
python benchmarks/calibration.py wn18rr --recipe accurate --set dim=200 epochs=10

Writes benchmarks/results/calibration-GRAPH.json, with the recipe behind it where that is not `fast`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import result_files
import ten_graphs
from baselines import parsed
from procrustes_kge.explore.calibration import calibrate, reliability
from procrustes_kge.training.recipes import learned, recipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", metavar="GRAPH", help=f"of {', '.join(ten_graphs.TEN)}")
    parser.add_argument("--recipe", default="fast")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of it")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS, help="where results are written")
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    own = recipe(arguments.recipe)
    changes = {name: value for each in arguments.set for name, value in parsed(own, each).items()}
    for name in arguments.graphs:
        graph = ten_graphs.read(name)
        settings = recipe(arguments.recipe, graph, arguments.device, **changes)
        model = learned(graph, settings).model
        started = time.perf_counter()
        found = calibrate(model, graph)
        seconds = time.perf_counter() - started
        about = {
            **result_files.about(arguments.commit, name, graph, arguments.recipe, settings),
            "triples": found.triples,
            "seconds": seconds,
            **reliability(found, model, graph),
        }
        suffix = "" if arguments.recipe == "fast" else f"-{arguments.recipe}"
        result_files.write(f"calibration-{name.lower()}{suffix}", about, arguments.folder)
        errors = {each: about[each]["error"] for each in ("answers", "even")}
        print(name, arguments.recipe, errors, f"{seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
