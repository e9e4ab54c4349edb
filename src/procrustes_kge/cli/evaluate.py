"""procrustes evaluate: rank the triples of a run."""

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from procrustes_kge.cli.app import Device, Json, RunFolder, new_verb
from procrustes_kge.cli.terminal import TerminalWatcher, print_json, warnings_as_notes
from procrustes_kge.errors import InputError
from procrustes_kge.models.ranking import PROTOCOL
from procrustes_kge.runs.store import load_run, update_report
from procrustes_kge.system.devices import choose_device
from procrustes_kge.words import counted

WIDEST = 40  # characters of a relation's name; a longer one only shifts the numbers in its own line

verb = new_verb()


@verb.command()
def evaluate(
    run: RunFolder,
    split: Annotated[str, typer.Option(help="Triples to rank: train, valid or test.")] = "test",
    relations: Annotated[bool, typer.Option(help="Show a line for each relation.")] = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Rank the triples of a run: filtered, from both sides, ties count half.

    The metrics are saved in the run's report.json.

    Examples:

        procrustes evaluate runs/wordnet-mini --relations
        procrustes evaluate runs/wordnet-mini --split valid
    """
    opened = load_run(run)
    graph = opened.graph
    if graph is None:
        raise InputError(f"{run}: saved without its triples, so there is nothing to rank; save it with graph=…")
    started = time.perf_counter()
    evaluation = TerminalWatcher().rank(opened.model.to(choose_device(device)), graph, split)
    seconds, metrics = time.perf_counter() - started, {split: evaluation.as_dict()}
    place = _report(run, metrics)
    if as_json:
        print_json({"run": str(run), "dataset": graph.name, "seconds": seconds, "metrics": metrics})
        return
    print(f"{graph.describe()}\n{split:<6} {evaluation}")
    for view in ("tail", "head", "seen_only", "optimistic", "pessimistic"):
        print(f"  {view.replace('_', ' '):<12}{getattr(evaluation, view)}")
    by_name = evaluation.relations if relations else {}
    each = {graph.relations.shown(graph.relations.id(name)): sides for name, sides in by_name.items()}
    width = min(WIDEST, max(map(len, each), default=0))
    for name, sides in sorted(each.items(), key=lambda item: -item[1].both.count):
        print(f"{name:<{width}}   {sides}   {counted(sides.tail.count, 'triple')}")
    print(f"ranked {counted(len(graph.split(split)), 'triple')} in {seconds:.1f} s{place}")


def _report(run: Path, metrics: dict[str, Any]) -> str:
    """Add metrics to a run's report, and say where they are; a run that cannot be written is no reason to fail."""
    try:
        with warnings_as_notes():
            update_report(run, metrics=metrics, protocol=PROTOCOL)
    except InputError as error:
        print(f"note: {error}", file=sys.stderr)
        return ""
    return f", saved in {run / 'report.json'}"
