"""Print the README's results table from benchmarks/results/*.json: no number is typed by hand.

python benchmarks/tables.py
"""

from __future__ import annotations

import json
from statistics import mean
from typing import Any

import records
from procrustes_kge.ranking import figure

# Result file, the command that a user would give, and what the paper prints for the same thing, if it does.
ROWS = (
    ("paper-wn18rr", "procrustes train wn18rr --recipe paper", ".453"),
    ("fast-wn18rr", "procrustes train wn18rr", ""),
    ("fast-wn18rr-d500", "procrustes train wn18rr --dim 500", ""),
    ("cpu-wn18rr-d500", "procrustes train wn18rr --dim 500 --device cpu", ""),
    ("paper-fb15k-237", "procrustes train fb15k-237 --recipe paper", ".295"),
    ("fast-fb15k-237", "procrustes train fb15k-237", ""),
    ("fast-fb15k-237-d500", "procrustes train fb15k-237 --dim 500", ""),
)


def results_table() -> str:
    """Return the table in Markdown: two-sided first, then each side; means over the seeds."""
    lines = [
        "| command | MRR | H@1 | H@3 | H@10 | tails only | heads only | paper | seconds | g CO2 |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, command, paper in ROWS:
        runs = json.loads((records.RESULTS / f"{name}.json").read_text(encoding="utf-8"))["runs"]
        test = [run["metrics"]["test"] for run in runs]
        figures = [_mean(test, key) for key in ("mrr", "hits@1", "hits@3", "hits@10")]
        sides = [_mean([view[side] for view in test], "mrr") for side in ("tail", "head")]
        seconds = mean(run["footprint"]["seconds"] for run in runs)
        grams = mean(run["footprint"]["g_co2"] for run in runs)
        cells = [f"`{command}`", f"**{figures[0]}**", *figures[1:], *sides, paper, f"{seconds:.1f}", f"{grams:.2g}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(views: list[dict[str, Any]], key: str) -> str:
    return figure(mean(view[key] for view in views))


if __name__ == "__main__":
    print(results_table())
