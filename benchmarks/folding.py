"""Entities that training never saw, added from half of their triples: how well the other half is answered.

    python benchmarks/folding.py wn18rr fb15k-237 --recipe fast                  on the CPU
    python benchmarks/folding.py wn18rr fb15k-237 --recipe accurate --device cuda

A tenth of the entities is held out of training, with all their triples. One model is trained without them, and they are
added to it from half of these triples; the other is trained with that half too. Both are ranked on the rest.
Writes benchmarks/results/folding-NAME-RECIPE.json.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import result_files
from procrustes_kge import Graph, evaluate, learn, read_graph, recipe
from procrustes_kge.explore.updating import change
from procrustes_kge.graphs.graph import Vocabulary
from procrustes_kge.models.ranking import figure
from procrustes_kge.runs.experiment import Run, device_name
from procrustes_kge.system.devices import choose_device
from procrustes_kge.training.recipes import values_of

SHARE = 0.1  # of the entities that are held out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", metavar="DATASET")
    parser.add_argument("--recipe", default="fast")
    parser.add_argument("--dim", type=int)
    parser.add_argument("--epochs", type=int, help="of the trainings")
    parser.add_argument("--warm", type=int, nargs="*", default=[], help="epochs after the update, each tried too")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", type=Path, default=result_files.RESULTS)
    parser.add_argument("--commit", default=result_files.commit(), help="what to record where there is no git")
    arguments = parser.parse_args()
    for name in arguments.datasets:
        found = measured(name, arguments)
        about = {"commit": arguments.commit, "device": device_name(choose_device(arguments.device))}
        result_files.write(f"folding-{name}-{arguments.recipe}", about | found, arguments.folder)


def measured(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of one dataset."""
    graph = read_graph(name)
    rest, given, asked = held_out(graph, arguments.seed)
    known = restricted(graph, rest)
    changes = {key: value for key in ("dim", "epochs") if (value := getattr(arguments, key)) is not None}
    settings = recipe(arguments.recipe, known, arguments.device, seed=arguments.seed, **changes)
    base, base_seconds = timed(lambda: learn(known, settings))
    update = named(graph, given)
    run = Run(base, known, settings, {})
    before = time.process_time()
    added, seconds = timed(lambda: change(run, update, None))
    processor = time.process_time() - before
    assert added.graph is not None
    # Both models are ranked on the same graph: names in the order of the update.
    test = ids(graph, asked, added.graph)
    full = replace(restricted(graph, torch.cat([rest, given]), added.graph), test=test)
    again, again_seconds = timed(lambda: learn(full, settings))
    models = {"added": added.model, "retrained": again}
    for epochs in arguments.warm:
        models[f"added, {epochs} epochs"] = change(run, update, None, epochs).model
    metrics = {which: evaluate(model, full).as_dict() for which, model in models.items()}
    for figures in metrics.values():
        del figures["relations"]
    new = added.counts["entities"]
    shares = {which: figures["mrr"] / metrics["retrained"]["mrr"] for which, figures in metrics.items()}
    found = {
        **{"dataset": name, "recipe": arguments.recipe, "checksum": graph.checksum, "seed": arguments.seed},
        **{"held_out": SHARE, "entities": len(known.entities), "new": new, "rest": len(rest)},
        **{"given": len(given), "asked": len(asked), "placed": added.counts["concerned"]},
        **{"seconds_of_training": base_seconds, "seconds_of_retraining": again_seconds, "seconds_of_update": seconds},
        **{"processor_seconds_of_update": processor, "processor_seconds_for_a_thousand": 1000 * processor / new},
        **{"seconds_for_a_thousand": 1000 * seconds / new, "share_of_retrained": shares, "metrics": metrics},
        "settings": values_of(settings),
    }
    row = "   ".join(f"{which} {figure(each['mrr'])} ({shares[which]:.0%})" for which, each in metrics.items())
    print(
        f"{name:<12}{row}   {new:,} entities in {seconds:.1f} s ({processor:.1f} s of a core), "
        f"training {base_seconds:.0f} s",
        flush=True,
    )
    return found


def held_out(graph: Graph, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return training triples without a tenth of the entities, and two halves of those that they are in.

    All that the second half asks about is in the first one, or in the rest.
    """
    generator, count = torch.Generator().manual_seed(seed), len(graph.entities)
    held = torch.zeros(count, dtype=torch.bool)
    held[torch.randperm(count, generator=generator)[: round(SHARE * count)]] = True
    touched = held[graph.train[:, 0]] | held[graph.train[:, 2]]
    rest, theirs = graph.train[~touched], graph.train[touched]
    theirs = theirs[torch.randperm(len(theirs), generator=generator)]
    entities, relations = set(rest[:, [0, 2]].flatten().tolist()), set(rest[:, 1].tolist())
    halves: tuple[list[list[int]], list[list[int]]] = ([], [])
    for head, relation, tail in theirs.tolist():
        known = head in entities and tail in entities and relation in relations
        # A triple that makes a name known is given; of the others, as many as bring the halves together.
        second = known and len(halves[1]) < len(halves[0])
        halves[second].append([head, relation, tail])
        entities |= {head, tail}
        relations |= {relation}
    given, asked = (torch.tensor(half, dtype=torch.int64).view(-1, 3) for half in halves)
    return rest, given, asked


def restricted(graph: Graph, train: torch.Tensor, like: Graph | None = None) -> Graph:
    """Return a graph of these training triples, with their names alone, or those of another graph, in its order.

    Of the validation triples those stay whose names do.
    """
    if like is None:
        used = [train[:, [0, 2]].flatten().unique().tolist(), train[:, 1].unique().tolist()]
        names = Vocabulary((graph.entities[row] for row in used[0]), "entity")
        relations = Vocabulary((graph.relations[row] for row in used[1]), "relation")
        like = Graph(graph.name, names, relations, train[:0], train[:0], train[:0])
    splits = [ids(graph, triples, like) for triples in (train, graph.valid)]
    return replace(like, train=splits[0], valid=splits[1], test=train[:0])


def ids(graph: Graph, triples: torch.Tensor, other: Graph) -> torch.Tensor:
    """Return those of a graph's triples whose names another graph has, by the ids of that."""
    maps = []
    for ours, theirs in ((graph.entities, other.entities), (graph.relations, other.relations)):
        places = {name: row for row, name in enumerate(theirs)}
        maps.append(torch.tensor([places.get(name, -1) for name in ours]))
    heads, relations, tails = triples.unbind(dim=1)
    rows = torch.stack([maps[0][heads], maps[1][relations], maps[0][tails]], dim=1)
    return rows[(rows >= 0).all(dim=1)]


def named(graph: Graph, triples: torch.Tensor) -> Graph:
    """Return some triples of a graph as an update: a graph of their own names."""
    return replace(restricted(graph, triples), valid=triples[:0], test=triples[:0])


def timed(work: Any) -> tuple[Any, float]:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    started = time.perf_counter()
    found = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return found, time.perf_counter() - started


if __name__ == "__main__":
    main()
