"""Approximate search among a million trained vectors, against exact search: recall@10, milliseconds, memory.

    python benchmarks/index.py                   a million entities, vectors of 200 numbers
    python benchmarks/index.py --axes 4          ten thousand, in seconds

The graph is planted: entities are the elements of Z₁₀ × Z₁₀ × …, a relation adds one or two along an axis, and one
triple in twenty is drawn at random. `fast` is trained for a few epochs; queries are rotated heads, as of questions.
Each search runs on one thread: one query at a time, as a question comes, and many at once. Writes
benchmarks/results/index-cpu.json.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import result_files
from procrustes_kge import Graph, learn, recipe
from procrustes_kge.explore.scores.fast import Turned
from procrustes_kge.explore.scores.index import exact_best, make_index
from procrustes_kge.graphs.graph import Vocabulary
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.runs.experiment import device_name
from procrustes_kge.system.extras import package
from procrustes_kge.system.threads import threads

TEN, K = 10, 10
ONE_BY_ONE, AT_ONCE = 50, 500  # queries that are timed, none of which measured the index


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--axes", type=int, default=6, help="10^AXES entities")
    parser.add_argument("--dim", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--triples", type=int, default=2, help="for each entity")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    arguments = parser.parse_args()
    graph = planted(arguments.axes, arguments.triples)
    print(graph, flush=True)
    settings = recipe("fast", graph, "cpu", dim=arguments.dim, epochs=arguments.epochs, patience=0, validate_every=0)
    model, trained = timed(lambda: learn(graph, settings))
    print(f"trained in {trained:.0f} s", flush=True)
    assert isinstance(model, Procrustes)
    package("faiss", "an index of vectors").omp_set_num_threads(1)
    with threads(1):
        row = compared(model, graph)
    about: dict[str, Any] = {"commit": result_files.commit(), "device": device_name(torch.device("cpu"))}
    about |= {"entities": len(graph.entities), "dim": arguments.dim, "epochs": arguments.epochs}
    about |= {"triples": len(graph.train), "trained_seconds": trained, **row}
    result_files.write("index-cpu", about, arguments.folder)


def planted(axes: int, triples: int) -> Graph:
    """Return the graph of Z₁₀ to the power of `axes`."""
    random, count, ways = np.random.default_rng(0), TEN**axes, [(axis, step) for axis in range(axes) for step in (1, 2)]
    heads, relations = random.integers(count, size=count * triples), random.integers(len(ways), size=count * triples)
    axis, step = np.array(ways)[relations].T
    stride = TEN**axis
    digit = heads // stride % TEN
    tails = heads + ((digit + step) % TEN - digit) * stride
    odd = random.random(len(tails)) < 0.05
    tails[odd] = random.integers(count, size=odd.sum())
    rows = torch.from_numpy(np.unique(np.stack([heads, relations, tails], axis=1), axis=0))
    entities, names = Vocabulary(map(str, range(count)), "entity"), Vocabulary(map(str, range(len(ways))), "relation")
    nothing = torch.empty(0, 3, dtype=torch.int64)
    return Graph("planted", entities, names, rows, nothing, nothing)


def compared(model: Procrustes, graph: Graph) -> dict[str, Any]:
    """Build the index and compare its answers and times with those of exact search."""
    scorer = Turned({name: table.numpy() for name, table in model.tables().items()})
    random = np.random.default_rng(1)
    rows = graph.train.numpy()[random.choice(len(graph.train), 2 * AT_ONCE, replace=False)]
    queries = scorer.query(rows[:, 0], rows[:, 1])
    asked, measuring = queries[:AT_ONCE], queries[AT_ONCE:]
    vectors = scorer.table
    index, built = timed(lambda: make_index(vectors, measuring))
    print(f"built in {built:.0f} s: {index.factor} times k looked at again, recall {index.recall:.4f}", flush=True)
    exact, exactly = timed(lambda: exact_best(vectors, asked, K))
    found, fast = timed(lambda: index.best(asked, K))
    one_exact, one_fast = (median(way, asked) for way in ways(vectors, index))
    recall = float(np.mean([np.isin(ours, theirs).mean() for ours, theirs in zip(exact.ids, found.ids, strict=True)]))
    row = {
        "recall@10": recall,
        "factor": index.factor,
        "built_seconds": built,
        "one": {
            "exact_milliseconds": 1e3 * one_exact,
            "index_milliseconds": 1e3 * one_fast,
            "share": one_fast / one_exact,
        },
        "many": {
            "exact_milliseconds": 1e3 * exactly / AT_ONCE,
            "index_milliseconds": 1e3 * fast / AT_ONCE,
            "share": fast / exactly,
        },
        "vectors_megabytes": vectors.nbytes / 1e6,
        "codes_megabytes": len(vectors) * vectors.shape[1] / 4 / 1e6,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }
    print(row, flush=True)
    return row


def ways(vectors: np.ndarray, index: Any) -> list[Callable[[np.ndarray], object]]:
    """Return exact search and that of the index, of one query."""
    return [lambda query: exact_best(vectors, query, K), lambda query: index.best(query, K)]


def median(way: Callable[[np.ndarray], object], queries: np.ndarray) -> float:
    """Return the usual seconds of one query on its own, each the best of three."""
    each = [min(timed(partial(way, query))[1] for _ in range(3)) for query in queries[:ONE_BY_ONE, None]]
    return float(np.median(each))


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what work returns, and its seconds."""
    started = time.perf_counter()
    return work(), time.perf_counter() - started


if __name__ == "__main__":
    main()
