"""What settings are worth where there is hardly any time: the shortest trials of a search, on a CPU.

python benchmarks/short.py                     the portfolio on three large graphs
python benchmarks/short.py wn18rr --threads 2

Short vectors and few epochs rank settings otherwise than long ones do, so that `portfolio.py` looks at these too.
Writes benchmarks/results/short-GRAPH.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import result_files
import ten_graphs
from procrustes_kge import Graph, recipe
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.levels import possible
from procrustes_kge.training.portfolio import portfolio
from procrustes_kge.training.recipes import changed
from procrustes_kge.training.trials import Judge

GRAPHS = ("wn18rr", "DBpedia50", "fb15k-237")


def tried(graph: Graph, threads: int) -> list[dict[str, Any]]:
    """Return the validation MRR and the seconds of each settings of the portfolio."""
    base = recipe("accurate", graph, "cpu")
    if not isinstance(base, ContrastSettings):
        raise TypeError(base)
    judge, level, rows = Judge.of(graph, base.dim, base.seed), possible(base)[-1], []
    for values in portfolio():
        fitting = {name: value for name, value in values.items() if name != "label_smoothing"}
        trial = judge.try_out(level.of(changed(base, **fitting), threads), values)
        rows.append({"settings": values, "valid_mrr": trial.score, "seconds": trial.seconds})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help=f"{', '.join(GRAPHS)} if none is named")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    arguments = parser.parse_args()
    for name in arguments.graphs or GRAPHS:
        rows = tried(ten_graphs.read(name), arguments.threads)
        print(name, [round(row["valid_mrr"], 3) for row in rows], flush=True)
        content = {"commit": result_files.commit(), "dataset": name, "rows": rows}
        result_files.write(f"short-{name.lower()}", content, arguments.folder)


if __name__ == "__main__":
    main()
