"""What the record of trials teaches: the best single default, and a portfolio of settings that complement one another.

python benchmarks/portfolio.py                  print both, and what leaving each graph out changes
python benchmarks/portfolio.py --write          write them to src/procrustes_kge/training/portfolio.toml as well

The settings of a trial are the same on all graphs, and so are those of an idea that `ideas.py` tried on nine: settings
and graphs make a matrix of validation MRRs. The regret of settings on a graph is how far they stay behind the best one
there. The default has the least mean regret; then the settings are added, one after another, that lower most the mean
regret of the best so far.
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
HEADING = """# What a search tries first, learned by benchmarks/portfolio.py from trials on {graphs} graphs.
# The first is the best single default; each further one lowers the regret of the best so far most, over all graphs.
"""

Found = dict[str, dict[str, float]]  # validation MRR on each graph of some settings, by their name
Regrets = dict[str, dict[str, float]]


def records(folder: Path) -> tuple[Found, dict[str, dict[str, Any]], dict[str, str]]:
    """Return what was found with each settings, the settings in full, and what `accurate` was on each graph."""
    found, settings, was = Found(), dict[str, dict[str, Any]](), dict[str, str]()
    for name in ten_graphs.TEN:
        file = folder / f"trials-{name.lower()}.json"
        if not file.exists():
            continue
        record = json.loads(file.read_text(encoding="utf-8"))
        was[name] = f"trial {record['former']}"
        tried = [(f"trial {number}", trial) for number, trial in enumerate(record["trials"])]
        ideas = folder / f"ideas-{name.lower()}.json"
        if ideas.exists():
            rows = json.loads(ideas.read_text(encoding="utf-8"))["results"]
            tried += [(f"idea: {row['idea']}", row) for row in rows if row["seed"] == 0]
        for title, trial in tried:
            changes = {key: value for key, value in trial["changes"].items() if key != "seed"}
            settings[title] = ten_graphs.usual(changes)
            found.setdefault(title, {})[name] = trial.get("valid_mrr", 0.0)
    return found, settings, was


def regrets(found: Found, graphs: Sequence[str]) -> Regrets:
    """Return how far each stays behind the best of a graph."""
    best = {name: max(row.get(name, 0.0) for row in found.values()) for name in graphs}
    return {
        title: {name: min(WORST, best[name] - value) for name, value in row.items() if name in best}
        for title, row in found.items()
    }


def completed(rows: Regrets, graphs: Sequence[str]) -> Regrets:
    """Return regrets on all graphs: where some settings were not tried, what is usual there, more or less as elsewhere.

    >>> completed({"a": {"x": 0.1}, "b": {"x": 0.3, "y": 0.2}, "c": {"x": 0.2, "y": 0.4}}, ["x", "y"])["a"]["y"]
    0.15
    """
    usual = {name: median(row[name] for row in rows.values() if name in row) for name in graphs}
    full = Regrets()
    for title, row in rows.items():
        share = mean(row.values()) / max(mean(usual[name] for name in row), 1e-9)
        full[title] = {name: round(row.get(name, share * usual[name]), 6) for name in graphs}
    return full


def portfolio(rows: Regrets, graphs: Sequence[str], size: int = SIZE) -> list[str]:
    """Return settings in the order in which a search should try them; the first is the best single default."""
    chosen = list[str]()
    best = dict.fromkeys(graphs, WORST)

    def left(title: str) -> float:
        return mean(min(best[name], rows[title][name]) for name in graphs)

    for _ in range(size):
        chosen.append(min((title for title in rows if title not in chosen), key=left))
        best = {name: min(best[name], rows[chosen[-1]][name]) for name in graphs}
    return chosen


def after(rows: Regrets, chosen: Sequence[str], graph: str) -> list[float]:
    """Return the regret on a graph after each settings of a portfolio."""
    seen = [rows[title][graph] for title in chosen]
    return [min(seen[: count + 1]) for count in range(len(seen))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    found, settings, was = records(arguments.folder)
    graphs = list(was)
    rows = completed(regrets(found, graphs), graphs)
    chosen = portfolio(rows, graphs, arguments.size)
    for title in chosen:
        print(title, settings[title])
    print(f"\n{'regret':<14}{'as it was':>10}{'default':>9}{'portfolio':>11}   without this graph: default, portfolio")
    rows_of_table = []
    for name in graphs:
        without = portfolio(rows, [each for each in graphs if name != each], arguments.size)
        mine, others = after(rows, chosen, name), after(rows, without, name)
        rows_of_table.append({"graph": name, "was": rows[was[name]][name], "with": mine, "without": others})
        before = rows[was[name]][name]
        print(f"{name:<14}{before:>10.4f}{mine[0]:>9.4f}{mine[-1]:>11.4f}   {others[0]:.4f} {others[-1]:.4f}")
    content = {"chosen": chosen, "graphs": rows_of_table}
    result_files.write("portfolio", content, arguments.folder)
    if arguments.write:
        entries = [
            "\n".join(["", "[[settings]]", *(f"{key} = {json.dumps(value)}" for key, value in settings[title].items())])
            for title in chosen
        ]
        PORTFOLIO.write_text(HEADING.format(graphs=len(graphs)) + "\n".join(entries) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
