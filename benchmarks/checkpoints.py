"""What a checkpoint costs: milliseconds, bytes, and the share of a training at the default interval.

    python benchmarks/checkpoints.py                WN18RR, vectors of 2,000 numbers, on the GPU where there is one

The dearest checkpoint of each trainer is timed: of full batch, one that has to write all vectors at once. An epoch of a
few triples comes before: what is kept does not depend on how many there are. Writes
benchmarks/results/checkpoints-cpu.json or checkpoints-cuda.json.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

import result_files
from procrustes_kge import Graph, read_graph, recipe
from procrustes_kge.cli.job import EVERY
from procrustes_kge.runs.checkpoints import FolderCheckpoints, parse_interval
from procrustes_kge.runs.experiment import device_name
from procrustes_kge.system.devices import choose_device
from procrustes_kge.training.checkpoints import Added, Facts, InTraining
from procrustes_kge.training.contrastive import Contrastive
from procrustes_kge.training.full_batch import FullBatch
from procrustes_kge.training.state import merged
from procrustes_kge.training.supervised import Supervised

TIMES = 5
FEW = 1000  # triples
METHODS = {"fast": FullBatch, "accurate": Contrastive, "distmult": Supervised}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", nargs="?", default="wn18rr")
    parser.add_argument("--dim", type=int, default=2000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    device, graph = choose_device(arguments.device), read_graph(arguments.graph)
    graph = replace(graph, train=graph.train[:FEW])
    rows = [timed(graph, name, arguments.dim, device) for name in METHODS]
    about = {"commit": arguments.commit, "device": device_name(device), "dataset": graph.name, "dim": arguments.dim}
    result_files.write(f"checkpoints-{device.type}", about | {"rows": rows}, arguments.folder)


@torch.no_grad()
def timed(graph: Graph, name: str, dim: int, device: torch.device) -> dict[str, Any]:
    """Time a checkpoint, and reading what is needed to go on."""
    settings: Any = recipe(name, graph, str(device), dim=dim)
    method: Any = METHODS[name]
    training = method(graph, settings, device)
    trainer, parts = training.trainer(0), len(training.sizes)
    with torch.enable_grad() if name == "distmult" else torch.no_grad():
        trainer.epoch()
    if name == "fast":  # all vectors, as at the end of a training that has not kept any
        training.vectors.normal_()
    facts: Facts = {
        "epochs": settings.epochs,
        "sizes": list(training.sizes),
        "added": parts - 1 if name == "fast" else 0,
    }
    facts |= {"loss": None, "valid_mrr": None, "best": None, "curve": [], "changes": "", "seconds": 0.0, "over": False}
    writing, reading = [], []
    for _ in range(TIMES):
        with tempfile.TemporaryDirectory(dir=".") as folder:
            checkpoints = FolderCheckpoints(folder)
            checkpoints.kept("training", graph, settings)
            added = Added(0, parts - 1, lambda: training.added(0, parts - 1)) if name == "fast" else None
            state = InTraining(1, lambda: merged(trainer=trainer.state(), best=trainer.state()))
            started = time.perf_counter()
            checkpoints.put("training", facts, parts - 1, state, added)
            writing.append(time.perf_counter() - started)
            octets = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
            started = time.perf_counter()
            FolderCheckpoints(folder)  # compares every file with its checksum
            reading.append(time.perf_counter() - started)
    interval = parse_interval(EVERY).seconds
    row = {
        "recipe": name,
        "megabytes": round(octets / 1e6),
        "milliseconds": round(1000 * median(writing)),
        "per_cent": round(100 * median(writing) / interval, 3),
        "reading_milliseconds": round(1000 * median(reading)),
    }
    print("   ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return row


if __name__ == "__main__":
    main()
