"""Full-batch PROCRUSTES on the two benchmarks, several seeds each: the README's first table.

python benchmarks/full_batch.py                     every row, on the GPU where there is one
python benchmarks/full_batch.py fast-wn18rr-d500    one row
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import records
from procrustes_kge import read_graph, recipe

ROWS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "paper-wn18rr": ("wn18rr", "paper", {}),
    "paper-fb15k-237": ("fb15k-237", "paper", {}),
    "fast-wn18rr": ("wn18rr", "fast", {}),
    "fast-fb15k-237": ("fb15k-237", "fast", {}),
    "fast-wn18rr-d500": ("wn18rr", "fast", {"dim": 500}),
    "fast-fb15k-237-d500": ("fb15k-237", "fast", {"dim": 500}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"all of {', '.join(ROWS)} where none is named")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folder", type=Path, default=records.RESULTS)
    parser.add_argument("--commit", default=records.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    if unknown := set(arguments.rows) - set(ROWS):
        parser.error(f"unknown rows {', '.join(unknown)}, expected some of {', '.join(ROWS)}")
    lines = []
    for name in arguments.rows or ROWS:
        dataset, chosen, changes = ROWS[name]
        graph = read_graph(dataset)
        reports = []
        for seed in range(arguments.seeds):
            settings = replace(recipe(chosen, graph, arguments.device), seed=seed, **changes)
            reports.append(records.trained(graph, settings, chosen))
        records.write(name, {"commit": arguments.commit, "runs": reports}, arguments.folder)
        lines.append(records.row(name, reports))
        print(lines[-1], flush=True)
    print("\n".join(["", "two-sided test MRR, mean of the seeds", *lines]))


if __name__ == "__main__":
    main()
