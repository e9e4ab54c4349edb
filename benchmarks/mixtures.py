"""Groups that are unlike: the best settings of a graph's record, trained and added up, beside alike groups.

python benchmarks/mixtures.py wn18rr fb15k-237

Every group has vectors of 500 numbers; scores are logarithms of odds, so they add up as they are. Chosen on half of the
validation triples, shown on the other half. Writes benchmarks/results/mixtures-GRAPH.json.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import result_files
import ten_graphs
from ideas import best
from procrustes_kge import Graph
from procrustes_kge.models.predictor import LinkPredictor
from procrustes_kge.models.ranking import rank
from procrustes_kge.runs.experiment import device_name
from procrustes_kge.system.devices import choose_device
from procrustes_kge.training.recipes import changed, learned
from trials import DIM

GROUPS = 4
CANDIDATES = 8
HALF = 2000  # validation triples


@dataclass
class Sum(LinkPredictor):
    """The sum of the scores of several models: one product of longer vectors."""

    parts: list[Any]

    def encode(self, graph: Graph | None = None) -> Tensor:
        """Return the entity vectors side by side."""
        return torch.cat([part.table for part in self.parts], dim=1)

    def query(self, encoded: Tensor, heads: Tensor, relations: Tensor) -> Tensor:
        """Return the queries side by side."""
        return torch.cat([part.query(part, heads, relations) for part in self.parts], dim=1)

    def scores(self, encoded: Tensor, queries: Tensor, candidates: Tensor | None = None) -> Tensor:
        """Return the sum of the scores."""
        return queries @ encoded.T if candidates is None else (encoded[candidates] @ queries[..., None]).squeeze(-1)


def mrr(parts: list[Any], graph: Graph, triples: Tensor) -> float:
    return (1 / rank(Sum(parts), graph, triples).realistic).mean().item()


def study(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    graph = ten_graphs.read(name)
    order = torch.randperm(len(graph.valid), generator=torch.Generator().manual_seed(0))[: 2 * HALF]
    chooses, shows = (graph.valid[half] for half in order.chunk(2))
    base = ten_graphs.former(graph, arguments.device, dim=DIM, groups=1, negatives="all")
    started, found = time.perf_counter(), best(name, arguments.record, CANDIDATES)
    models = [learned(graph, changed(base, **changes)).model for changes in found]
    alike = [models[0], *(learned(graph, changed(base, **found[0], seed=seed)).model for seed in range(1, GROUPS))]
    rows: dict[str, Any] = {"one": mrr(alike[:1], graph, shows), "alike": mrr(alike, graph, shows)}
    rows["the best four"] = mrr(models[:GROUPS], graph, shows)
    pool, chosen, curve = models + alike[1:], list[int](), list[list[float]]()
    for _ in range(2 * GROUPS):
        tried = [
            (mrr([*(pool[k] for k in chosen), pool[number]], graph, chooses), number) for number in range(len(pool))
        ]
        chosen.append(max(tried)[1])
        curve.append([max(tried)[0], mrr([pool[k] for k in chosen], graph, shows)])
    return rows | {"chosen": chosen, "curve": curve, "settings": found, "seconds": time.perf_counter() - started}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", metavar="GRAPH")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--record", type=Path, default=result_files.RESULTS, help="where the record of trials is")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS, help="where results are written")
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    about = {"commit": arguments.commit, "device": device_name(choose_device(arguments.device))}
    for name in arguments.graphs:
        rows = study(name, arguments)
        print(name, rows, flush=True)
        result_files.write(f"mixtures-{name.lower()}", {**about, "dataset": name, **rows}, arguments.folder)


if __name__ == "__main__":
    main()
