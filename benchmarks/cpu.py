"""WN18RR on the CPU: seconds to train and to rank, beside one epoch of PyKEEN's RotatE in the same run.

python benchmarks/cpu.py
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import result_files
from procrustes_kge import FitSettings, evaluate, fit, read_graph
from procrustes_kge.bench.speed import by_pykeen
from procrustes_kge.bench.table import trained


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    graph = read_graph("wn18rr")
    reports: list[dict[str, Any]] = []
    for seed in range(arguments.seeds):
        settings = FitSettings(dim=500, device="cpu", seed=seed)
        reports.append(trained(graph, settings, "fast"))
    model = fit(graph, replace(settings, epochs=1, patience=0))
    started = time.perf_counter()
    evaluate(model, graph)
    ranking = time.perf_counter() - started
    rotate = dict(zip(("epoch", "rank_100_triples"), (each.seconds for each in by_pykeen(graph)), strict=True))
    print(result_files.row("fast --dim 500, wn18rr", reports))
    seconds = [round(report["footprint"]["seconds"], 1) for report in reports]
    print(f"training               {seconds} s")
    print(f"ranking the test set   {ranking:.1f} s for {len(graph.test):,} triples")
    print(f"PyKEEN RotatE, d 200   {rotate['epoch']:.1f} s an epoch, {rotate['rank_100_triples']:.1f} s to rank 100")
    content = {
        "commit": result_files.commit(),
        "runs": reports,
        "ranking_seconds": ranking,
        "pykeen_rotate_seconds": rotate,
    }
    result_files.write("cpu-wn18rr-d500", content)


if __name__ == "__main__":
    main()
