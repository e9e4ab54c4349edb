"""Whether the evidence that `explain` names matters: ranks after it was taken away, and the model trained again.

python benchmarks/evidence.py wn18rr fb15k-237 --seeds 0 1 2 --dim 200

For so many test triples that the model answers well, the named training triples of all are taken away at once, and the
model is trained again; so are, in another training, as many random triples of the same entities. Answers are chosen so
that no two share an entity, or a triple. Writes benchmarks/results/evidence-GRAPH.json after every seed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

import result_files
import ten_graphs
from procrustes_kge import Graph
from procrustes_kge.explore.evidence.evidence import Examination
from procrustes_kge.graphs.known_answers import known_answers
from procrustes_kge.models.predictor import Answering
from procrustes_kge.models.ranking import rank
from procrustes_kge.training.recipes import learned, recipe

WELL = 10.0  # the worst rank of an answer that is worth explaining
MOST_RANKED = 4000  # test triples among which answers are chosen
FEWEST = 2  # triples of the two entities for each that is taken away: else a random choice takes the named ones too


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", metavar="GRAPH", help=f"of {', '.join(ten_graphs.TEN)}")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--recipe", default="fast")
    parser.add_argument("--dim", type=int, default=200)
    parser.add_argument("--answers", type=int, default=100)
    parser.add_argument("--taken", type=int, default=5, help="triples that are taken away for each answer")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS, help="where results are written")
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    for name in arguments.graphs:
        graph, results = ten_graphs.read(name), []
        for seed in arguments.seeds:
            settings = recipe(arguments.recipe, graph, arguments.device, seed=seed, dim=arguments.dim)
            results.append({"seed": seed, **measured(graph, settings, seed, arguments.answers, arguments.taken)})
            about = {
                **result_files.about(arguments.commit, name, graph, arguments.recipe, settings),
                "taken": arguments.taken,
                "results": results,
            }
            result_files.write(f"evidence-{name.lower()}", about, arguments.folder)
            shown = {key: value for key, value in results[-1].items() if key != "ranks"}
            print(name, shown, flush=True)


def measured(graph: Graph, settings: Any, seed: int, answers: int, taken: int) -> dict[str, Any]:
    """Take away the named triples of some answers, then random ones, and compare ranks after training again."""
    started = time.perf_counter()
    model = learned(graph, settings).model
    training = time.perf_counter() - started
    chosen, named, random = [], list[int](), list[int]()
    generator = torch.Generator().manual_seed(seed)
    started = time.perf_counter()
    for triple, examination in explained(model, graph, generator, FEWEST * taken):
        rows = torch.cat([examination.ends[end].rows for end in {int(triple[0]), int(triple[2])}]).unique()
        strongest = examination.strongest(taken)
        if len(strongest) < taken:
            continue
        chosen.append(triple)
        named += strongest
        random += rows[torch.randperm(len(rows), generator=generator)[:taken]].tolist()
        if len(chosen) == answers:
            break
    explaining = (time.perf_counter() - started) / max(len(chosen), 1)
    triples = torch.stack(chosen)
    before = ranks(model, graph, triples)
    after = {}
    for name, rows in (("named", named), ("random", random)):
        kept = torch.ones(len(graph.train), dtype=torch.bool)
        kept[torch.tensor(rows)] = False
        fewer = replace(graph, train=graph.train[kept])
        after[name] = ranks(learned(fewer, settings).model, graph, triples)
    return {
        "answers": len(chosen),
        "training_seconds": training,
        "seconds_to_explain": explaining,
        "mrr": float((1 / before).mean()),
        **{name: changes(before, found) for name, found in after.items()},
        "named_lower_than_random": float((after["named"] > after["random"]).double().mean()),
        "random_lower_than_named": float((after["random"] > after["named"]).double().mean()),
        "ranks": {"before": before.tolist(), **{name: found.tolist() for name, found in after.items()}},
    }


def explained(
    model: Answering, graph: Graph, generator: torch.Generator, fewest: int
) -> Iterator[tuple[Int[Tensor, " 3"], Examination]]:
    """Yield test triples in random order, explained: answered well, with so many training triples at their ends.

    No two share an entity, nor does one have a training triple with an entity of another among its strongest.
    """
    degrees = torch.bincount(graph.train[:, [0, 2]].flatten(), minlength=len(graph.entities))
    drawn = graph.test[torch.randperm(len(graph.test), generator=generator)]
    enough = degrees[drawn[:, 0]] + degrees[drawn[:, 2]] > fewest
    drawn = drawn[enough & (drawn[:, 0] != drawn[:, 2])][:MOST_RANKED]
    well = ranks(model, graph, drawn) <= WELL
    touched = torch.zeros(len(graph.entities), dtype=torch.bool)
    for triple in drawn[well.all(dim=1)]:
        ends = triple[[0, 2]]
        if touched[ends].any():
            continue
        examination = Examination(model, graph, *triple.tolist())
        yield triple, examination
        touched[ends] = True
        touched[graph.train[examination.strongest(5)][:, [0, 2]].flatten()] = True


def ranks(model: Answering, graph: Graph, triples: Int[Tensor, "n 3"]) -> Float[Tensor, "n 2"]:
    """Return the ranks of tails and heads, filtered with what the whole graph knows."""
    return rank(model, graph, triples, known_answers(graph)).realistic.view(2, -1).T


def changes(before: Float[Tensor, "n 2"], after: Float[Tensor, "n 2"]) -> dict[str, float]:
    """Return the share of queries whose answer fell, and of those whose answer rose, and the MRR that is left."""
    return {
        "lower": float((after > before).double().mean()),
        "higher": float((after < before).double().mean()),
        "mrr": float((1 / after).mean()),
    }


if __name__ == "__main__":
    main()
