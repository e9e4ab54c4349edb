"""What verifying a run folder costs on loading: milliseconds, and per cent of the time without.

    python benchmarks/verification.py                WN18RR, vectors of 2,000 numbers

Of each trainer, untrained weights: reading takes as long whatever the numbers are. The files are in the memory of the
system, as just after saving; from a disk, reading itself takes longer, and the share is smaller. The best of several.
Writes benchmarks/results/verification.json.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import result_files
from procrustes_kge import Graph, Procrustes, load_run, read_graph, recipe, save
from procrustes_kge.models.baselines import build
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.runs.examining import examine
from procrustes_kge.runs.experiment import device_name

TIMES = 7
WAYS = ("fast", "accurate", "distmult")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", nargs="?", default="wn18rr")
    parser.add_argument("--dim", type=int, default=2000)
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    arguments = parser.parse_args()
    graph = read_graph(arguments.graph)
    rows = [timed(graph, name, arguments.dim) for name in WAYS]
    about: dict[str, Any] = {"commit": result_files.commit(), "device": device_name(torch.device("cpu"))}
    about |= {"dataset": graph.name, "dim": arguments.dim, "times": TIMES}
    result_files.write("verification", about | {"rows": rows}, arguments.folder)


def timed(graph: Graph, name: str, dim: int) -> dict[str, Any]:
    """Time loading with and without, in turn, and `examine`."""
    with tempfile.TemporaryDirectory(dir=".") as place:
        folder, settings = Path(place) / "run", recipe(name, graph, "cpu", dim=dim)
        save(untrained(graph, settings), folder, graph, settings)
        octets = sum(file.stat().st_size for file in folder.iterdir())
        with_it, without, examined = [], [], []
        for _ in range(TIMES):
            with_it.append(seconds(lambda: load_run(folder)))
            without.append(seconds(lambda: load_run(folder, verify=False)))
            examined.append(seconds(lambda: examine(folder)))
    more = min(with_it) - min(without)
    row = {
        "recipe": name,
        "megabytes": round(octets / 1e6),
        "verified_milliseconds": round(1000 * min(with_it)),
        "trusted_milliseconds": round(1000 * min(without)),
        "more_milliseconds": round(1000 * more),
        "more_per_cent": round(100 * more / min(without)),
        "check_milliseconds": round(1000 * min(examined)),
    }
    print("   ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return row


def untrained(graph: Graph, settings: Any) -> Any:
    """Return a model of the shapes that these settings learn."""
    if hasattr(settings, "options"):
        module = build(settings.model, graph, settings.options).eval()
        return TrainedBaseline(settings.model, settings.options, graph.entities, graph.relations, module)
    shape = settings.segments, settings.segment
    relations = len(graph.relations)
    vectors, rotations = torch.randn(len(graph.entities), *shape), torch.randn(relations, *shape, shape[1])
    translations = torch.randn(2 * relations, *shape) if settings.translate else None
    scales = torch.rand(2 * relations, *shape) if getattr(settings, "scale", False) else None
    return Procrustes(graph.entities, graph.relations, vectors, rotations, translations, scales)


def seconds(work: Callable[[], object]) -> float:
    """Return how long some work takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
