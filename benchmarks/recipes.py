"""Rows of the README's results that the paper's table lacks, several seeds each.

python benchmarks/recipes.py                          smaller vectors, on the GPU where there is one
python benchmarks/recipes.py fast-wn18rr-d500         one row
python benchmarks/recipes.py cpu-accurate-wn18rr      a row of the CPU, whatever there is

Recipes as they are have rows in that table: `python benchmarks/baselines.py accurate-wn18rr` writes one.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import result_files
from procrustes_kge import read_graph
from procrustes_kge.bench.table import repeated

ROWS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "fast-wn18rr-d500": ("wn18rr", "fast", {"dim": 500}),
    "fast-fb15k-237-d500": ("fb15k-237", "fast", {"dim": 500}),
}
ON_THE_CPU: dict[str, tuple[str, str, dict[str, Any]]] = {
    "cpu-accurate-wn18rr": ("wn18rr", "accurate", {}),
    "cpu-accurate-fb15k-237": ("fb15k-237", "accurate", {}),
    "cpu-accurate-umls": ("umls", "accurate", {}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"all of {', '.join(ROWS)} where none is named")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    known = {**ROWS, **ON_THE_CPU}
    if unknown := set(arguments.rows) - set(known):
        parser.error(f"unknown rows {', '.join(unknown)}, expected some of {', '.join(known)}")
    lines = []
    for name in arguments.rows or ROWS:
        dataset, chosen, changes = known[name]
        graph, device = read_graph(dataset), "cpu" if name in ON_THE_CPU else arguments.device
        reports = repeated(graph, chosen, arguments.seeds, device, **changes)
        result_files.write(name, {"commit": arguments.commit, "runs": reports}, arguments.folder)
        lines.append(result_files.row(name, reports))
        print(lines[-1], flush=True)
    print("\n".join(["", "two-sided test MRR, mean of the seeds", *lines]))


if __name__ == "__main__":
    main()
