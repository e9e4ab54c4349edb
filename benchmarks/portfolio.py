"""What the record of trials teaches: the best single default, and a portfolio of settings that complement one another.

python benchmarks/portfolio.py                  print both, and what leaving each graph out changes
python benchmarks/portfolio.py --write          write them to src/procrustes_kge/training/portfolio.toml as well

The settings of a trial are the same on all graphs, so trials and graphs make a matrix of validation MRRs. A trial's
regret on a graph is how far it stays behind the graph's best trial. The default has the least mean regret; then the
settings are added, one after another, that lower most the mean regret of the best so far.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import result_files
import ten_graphs

PORTFOLIO = Path(__file__).parents[1] / "src" / "procrustes_kge" / "training" / "portfolio.toml"
SIZE = 8
WORST = 0.2  # regrets count no more than this: one graph must not decide for all
HEADING = """# What a search tries first, learned by benchmarks/portfolio.py from random trials on {graphs} graphs.
# The first is the best single default; each further one lowers the regret of the best so far most, over all graphs.
"""

Regrets = dict[int, dict[str, float]]  # of a trial on each graph


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the record of each graph that has one."""
    files = {name: folder / f"trials-{name.lower()}.json" for name in ten_graphs.TEN}
    return {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items() if file.exists()}


def regrets(found: dict[str, dict[str, Any]]) -> Regrets:
    """Return how far each trial stays behind the best of its graph, of those that the graph has."""
    best = {name: max(trial.get("valid_mrr", 0.0) for trial in record["trials"]) for name, record in found.items()}
    rows: Regrets = {}
    for name, record in found.items():
        for number, trial in enumerate(record["trials"]):
            rows.setdefault(number, {})[name] = min(WORST, best[name] - trial.get("valid_mrr", 0.0))
    return rows


def completed(rows: Regrets, graphs: Sequence[str]) -> Regrets:
    """Return regrets of all trials on all graphs: where a graph has not had a trial, what is usual there."""
    usual = {name: median(row[name] for row in rows.values() if name in row) for name in graphs}
    return {number: {**usual, **row} for number, row in rows.items()}


def portfolio(rows: Regrets, graphs: Sequence[str], size: int = SIZE) -> list[int]:
    """Return trials in the order in which a search should try them."""
    chosen = list[int]()
    best = dict.fromkeys(graphs, WORST)

    def left(number: int) -> float:
        return mean(min(best[name], rows[number][name]) for name in graphs)

    for _ in range(size):
        chosen.append(min((number for number in rows if number not in chosen), key=left))
        best = {name: min(best[name], rows[chosen[-1]][name]) for name in graphs}
    return chosen


def after(rows: Regrets, chosen: Sequence[int], graph: str) -> list[float]:
    """Return the regret on a graph after each trial of a portfolio."""
    seen = [rows[number][graph] for number in chosen]
    return [min(seen[: count + 1]) for count in range(len(seen))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    found = records(arguments.folder)
    graphs = list(found)
    rows = completed(regrets(found), graphs)
    chosen = portfolio(rows, graphs, arguments.size)
    changes = {number: trial["changes"] for number, trial in enumerate(found[graphs[0]]["trials"])}
    for number in chosen:
        print(number, changes[number])
    print(f"\n{'regret':<14}{'as it was':>10}{'default':>9}{'portfolio':>11}   without this graph: default, portfolio")
    rows_of_table = []
    for name in graphs:
        without = portfolio(rows, [each for each in graphs if each != name], arguments.size)
        was = found[name]["former"]
        mine, others = after(rows, chosen, name), after(rows, without, name)
        rows_of_table.append({"graph": name, "was": rows[was][name], "with": mine, "without": others})
        print(f"{name:<14}{rows[was][name]:>10.4f}{mine[0]:>9.4f}{mine[-1]:>11.4f}   {others[0]:.4f} {others[-1]:.4f}")
    content = {"chosen": chosen, "graphs": rows_of_table}
    result_files.write("portfolio", content, arguments.folder)
    if arguments.write:
        entries = [
            "\n".join(
                ["", "[[settings]]", *(f"{name} = {json.dumps(value)}" for name, value in changes[number].items())]
            )
            for number in chosen
        ]
        PORTFOLIO.write_text(HEADING.format(graphs=len(graphs)) + "\n".join(entries) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
