"""procrustes evaluate: rank the triples of a run's graph again."""

import time
from typing import Annotated

import typer

from procrustes_kge.cli.app import Device, Json, RunFolder, new_verb
from procrustes_kge.cli.terminal import TerminalWatcher, print_json
from procrustes_kge.errors import InputError
from procrustes_kge.runs.store import load_run
from procrustes_kge.system.devices import choose_device

verb = new_verb()


@verb.command()
def evaluate(
    run: RunFolder,
    split: Annotated[str, typer.Option(help="Which triples to rank: train, valid or test.")] = "test",
    relations: Annotated[bool, typer.Option(help="Add a line per relation.")] = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Rank the triples of a run's graph again: filtered, from both sides, ties count half.

    Example: `procrustes evaluate runs/wordnet-mini --relations`
    """
    opened = load_run(run)
    graph = opened.graph
    if graph is None:
        raise InputError(f"{run}: saved without its triples, so there is nothing to rank; save it with graph=…")
    started = time.perf_counter()
    evaluation = TerminalWatcher().rank(opened.model.to(choose_device(device)), graph, split)
    seconds = time.perf_counter() - started
    if as_json:
        metrics = {split: evaluation.as_dict()}
        print_json({"run": str(run), "dataset": graph.name, "seconds": seconds, "metrics": metrics})
        return
    print(f"{graph.describe()}\n{split:<6} {evaluation}")
    for view in ("tail", "head", "seen_only", "optimistic", "pessimistic"):
        print(f"  {view.replace('_', ' '):<12}{getattr(evaluation, view)}")
    for name, each in sorted(evaluation.relations.items(), key=lambda item: -item[1].count) if relations else ():
        print(f"  {each}   {each.count:,} ranks of {name}")
    print(f"ranked {len(graph.split(split)):,} triples in {seconds:.1f} s")
