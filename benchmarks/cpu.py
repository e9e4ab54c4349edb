"""WN18RR on the CPU: seconds to train and to rank, beside one epoch of PyKEEN's RotatE in the same run.

python benchmarks/cpu.py
"""

from __future__ import annotations

import argparse
import logging
import time
from dataclasses import replace
from typing import Any

import torch

import records
from procrustes_kge import FitSettings, Graph, evaluate, fit, read_graph


def pykeen_seconds(graph: Graph, dim: int) -> dict[str, float]:
    """Return the seconds of one epoch of RotatE by PyKEEN, with its defaults, and of ranking 100 test triples."""
    logging.disable(logging.WARNING)
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.models import RotatE
    from pykeen.training import SLCWATrainingLoop
    from pykeen.triples import CoreTriplesFactory

    factory = CoreTriplesFactory(graph.train, num_entities=len(graph.entities), num_relations=len(graph.relations))
    best = {"epoch": float("inf"), "rank_100_triples": float("inf")}
    for threads in (torch.get_num_threads(), 1):  # whichever serves it better on this machine
        torch.set_num_threads(threads)
        model = RotatE(triples_factory=factory, embedding_dim=dim, random_seed=0)
        loop = SLCWATrainingLoop(model=model, triples_factory=factory, optimizer=torch.optim.Adam(model.parameters()))
        started = time.perf_counter()
        loop.train(triples_factory=factory, num_epochs=1, use_tqdm=False)
        trained = time.perf_counter()
        RankBasedEvaluator().evaluate(
            model, graph.test[:100], additional_filter_triples=[graph.train, graph.valid], use_tqdm=False
        )
        ranked = time.perf_counter()
        best["epoch"] = min(best["epoch"], trained - started)
        best["rank_100_triples"] = min(best["rank_100_triples"], ranked - trained)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    graph = read_graph("wn18rr")
    reports: list[dict[str, Any]] = []
    for seed in range(arguments.seeds):
        settings = FitSettings(dim=500, device="cpu", seed=seed)
        reports.append(records.trained(graph, settings, "fast"))
    model = fit(graph, replace(settings, epochs=1, patience=0))
    started = time.perf_counter()
    evaluate(model, graph)
    ranking = time.perf_counter() - started
    rotate = pykeen_seconds(graph, 200)
    print(records.row("fast --dim 500, wn18rr", reports))
    seconds = [round(report["footprint"]["seconds"], 1) for report in reports]
    print(f"training               {seconds} s")
    print(f"ranking the test set   {ranking:.1f} s for {len(graph.test):,} triples")
    print(f"PyKEEN RotatE, d 200   {rotate['epoch']:.1f} s an epoch, {rotate['rank_100_triples']:.1f} s to rank 100")
    content = {"commit": records.commit(), "runs": reports, "ranking_seconds": ranking, "pykeen_rotate_seconds": rotate}
    records.write("cpu-wn18rr-d500", content)


if __name__ == "__main__":
    main()
