"""What paths as evidence add to an embedding: MRR with and without them, and the seconds they take.

python benchmarks/paths.py wn18rr fb15k-237 --seeds 0 1 2 --test
python benchmarks/paths.py wn18rr --recipe accurate --set dim=2000 groups=4

Half of the validation triples chooses what paths are worth, and the other half is ranked. With --test, all of
validation chooses, and the test triples are ranked. Writes benchmarks/results/paths-GRAPH.json after every seed.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

import result_files
import ten_graphs
from baselines import parsed
from procrustes_kge import Graph
from procrustes_kge.models.predictor import LinkPredictor
from procrustes_kge.models.ranking import Metrics, rank
from procrustes_kge.models.with_paths import Embedding
from procrustes_kge.training.paths import with_paths
from procrustes_kge.training.recipes import learned, recipe

MOST_RANKED = 5000  # validation triples of a half


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", metavar="GRAPH", help=f"of {', '.join(ten_graphs.TEN)}")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--recipe", default="accurate", help="of the embedding")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of it")
    parser.add_argument("--test", action="store_true", help="rank the test triples too")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS, help="where results are written")
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    own = recipe(arguments.recipe)
    changes = {name: value for each in arguments.set for name, value in parsed(own, each).items()}
    for name in arguments.graphs:
        graph, results = ten_graphs.read(name), []
        for seed in arguments.seeds:
            settings = recipe(arguments.recipe, graph, arguments.device, seed=seed, **changes)
            started = time.perf_counter()
            found = learned(graph, settings)
            seconds = time.perf_counter() - started
            results.append({"seed": seed, "training_seconds": seconds, **measured(found.model, graph, seed)})
            if arguments.test:
                results[-1]["test"] = tested(found.model, graph, seed)
            about = {
                **result_files.about(arguments.commit, name, graph, arguments.recipe, settings),
                "results": results,
            }
            result_files.write(f"paths-{name.lower()}", about, arguments.folder)
            print(name, results[-1], flush=True)


def measured(embedding: Embedding, graph: Graph, seed: int) -> dict[str, Any]:
    """Let half of the validation triples choose, and rank the other half."""
    drawn = torch.randperm(len(graph.valid), generator=torch.Generator().manual_seed(seed))
    choosing, checking = graph.valid[drawn].tensor_split(2)
    found = with_paths(embedding, graph, choosing, seed)
    return {"paths": found.about, "checked": compared(embedding, found.model, graph, checking[:MOST_RANKED])}


def tested(embedding: Embedding, graph: Graph, seed: int) -> dict[str, Any]:
    """Let all validation triples choose, and rank the test triples."""
    found = with_paths(embedding, graph, seed=seed)
    return {"paths": found.about, **compared(embedding, found.model, graph, graph.test)}


def compared(
    embedding: LinkPredictor, model: LinkPredictor, graph: Graph, triples: Int[Tensor, "n 3"]
) -> dict[str, Any]:
    """Return the metrics of triples without paths and with them, the seconds of each, and the error of the gain."""
    without, seconds = ranked(embedding, graph, triples)
    found, longer = ranked(model, graph, triples)
    gains = 1 / found.realistic - 1 / without.realistic
    return {
        "triples": len(triples),
        "without": {**Metrics.of(without.realistic, without.candidates).as_dict(), "seconds": seconds},
        "with": {**Metrics.of(found.realistic, found.candidates).as_dict(), "seconds": longer},
        "error": gains.std().item() / len(gains) ** 0.5,
    }


def ranked(model: LinkPredictor, graph: Graph, triples: Int[Tensor, "n 3"]) -> tuple[Any, float]:
    """Rank triples, and return the seconds that takes."""
    started = time.perf_counter()
    ranks = rank(model, graph, triples)
    return ranks, time.perf_counter() - started


if __name__ == "__main__":
    main()
