"""procrustes update: new entities and facts for a run, or facts taken away, without training again."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from procrustes_kge.cli.app import Device, Json, RunFolder, new_verb
from procrustes_kge.cli.terminal import print_json, progress_bar, say_unless, warnings_as_notes
from procrustes_kge.errors import InputError
from procrustes_kge.explore.updates.updates import Update, update
from procrustes_kge.explore.updates.updating import read_update
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.runs.experiment import Run
from procrustes_kge.runs.history import Entries, changes, undo
from procrustes_kge.system.devices import choose_device
from procrustes_kge.training.budget import parse_size
from procrustes_kge.words import counted, listed

verb = new_verb()


@verb.command("update")
def update_run(
    run: RunFolder,
    new: Annotated[
        str | None,
        typer.Argument(help="Triples to add: a file in any format that `train` reads, or - for standard input."),
    ] = None,
    remove: Annotated[str | None, typer.Option(help="A file of triples to take away.")] = None,
    epochs: Annotated[int, typer.Option(help="Train for so many epochs more, from there.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Another run folder to write.", show_default="RUN itself")] = None,
    take_back: Annotated[bool, typer.Option("--undo", help="Take back the last change.")] = False,
    history: Annotated[bool, typer.Option("--history", help="List the changes since the training.")] = False,
    separator: Annotated[
        str | None, typer.Option(help="What separates columns: tab, comma, space, ';' or '|'.")
    ] = None,
    header: Annotated[bool | None, typer.Option(help="Whether the first line names the columns.")] = None,
    columns: Annotated[
        str | None, typer.Option(help="Columns of head, relation and tail, by name or number, such as 2,3,4.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="File of readable labels for names that are new.")] = None,
    max_unpacked: Annotated[
        str | None,
        typer.Option(help="Most that a file may unpack to, such as 4GB.", show_default="100 times its size, or 4MB"),
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Add triples to a run, with vectors for entities and relations that are new, or take triples away.

    A new entity gets its vector in closed form from its neighbours, a new relation its rotation; all else stays as it
    was, unless --epochs asks for more. The run keeps its history, and each change can be undone.

    Examples:

        procrustes update runs/wordnet-mini new.tsv
        procrustes update runs/wordnet-mini --remove wrong.tsv --epochs 2
        procrustes update runs/wordnet-mini --undo
    """
    asked = {"NEW": new, "--remove": remove, "--epochs": epochs or None, "--out": out}
    given = [name for name, value in asked.items() if value is not None]
    if take_back or history:
        flag = "--undo" if take_back else "--history"
        if given or (take_back and history):
            raise InputError(f"{flag} with {listed(given or ['--history'])}; give it alone")
        _show(run, as_json, undone=undo(run) if take_back else None)
        return
    if new is None and remove is None:
        raise InputError("nothing to do; give a file of triples to add, or --remove, --undo or --history")
    if new == "-" and remove == "-":
        raise InputError("standard input cannot be both what is added and what is removed; give a file for one")
    say = say_unless(as_json)
    most = int(parse_size(max_unpacked, "max-unpacked")) if max_unpacked is not None else None
    read = partial(_read, separator=separator, header=header, columns=columns, labels=labels, max_unpacked=most)
    with warnings_as_notes(), progress_bar() as bar:
        task = bar.add_task("training", total=None) if epochs else None

        def report(progress: Any) -> None:
            if task is not None:
                bar.update(task, completed=progress.done, total=progress.total)

        done = update(
            *(run, new),
            remove=remove,
            epochs=epochs,
            out=out,
            report=report,
            read=read,
            device=str(choose_device(device)),
        )
    for note in done.run.notes:
        print(f"note: {note}", file=sys.stderr, flush=True)
    if as_json:
        print_json(
            {
                "run": str(done.folder),
                "changed": done.entry is not None,
                "counts": done.run.counts,
                "change": done.entry,
            }
        )
    else:
        say("\n".join(_lines(done)))


def _read(source: Any, opened: Run, **options: Any) -> Graph:
    if source == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed; pipe triples into it, or give the path of a file")
        source = sys.stdin.buffer
    return read_update(source, opened, **options)


def _lines(done: Update) -> list[str]:
    """Return in words what came of an update."""
    counts, graph = done.run.counts, done.run.graph
    assert graph is not None
    if done.entry is None:
        return [f"nothing to change; {done.folder} is as it was"]
    lines = [graph.describe()]
    if counts["added"]:
        fresh = {"new entity": counts["entities"], "new relation": counts["relations"]}
        named = [counted(count, noun) for noun, count in fresh.items() if count]
        lines.append(
            f"added  {counted(counts['added'], 'triple')}{', ' if named else ''}{listed(named) if named else ''}"
        )
    if counts["removed"]:
        lines.append(f"removed  {counted(counts['removed'], 'triple')}")
    epochs = f", {counted(done.entry['epochs'], 'epoch')} of training included" if done.entry["epochs"] else ""
    lines.append(f"placed {counted(counts['concerned'], 'entity')} in {done.entry['seconds']:.1f} s{epochs}")
    back = f"`procrustes update {done.folder} --undo` takes it back"
    lines.append(f"saved  {done.folder}   change {done.entry['number']}; {back}")
    stale = f"`procrustes evaluate {done.folder}` ranks it anew"
    return [*lines, f"stale  the metrics in report.json were of the model before, and are gone from it; {stale}"]


def _show(run: Path, as_json: bool, undone: dict[str, Any] | None) -> None:
    """Print the changes of a run, or the one that was undone."""
    entries: Entries = changes(run)
    if as_json:
        print_json({"run": str(run), "undone": undone, "changes": entries})
        return
    if undone is not None:
        print(f"undone change {undone['number']} of {undone['when']}: {run} is what it was, bit for bit")
    elif not entries:
        print(f"{run}: not changed since its training")
    for entry in entries if undone is None else ():
        print(_line(entry))


def _line(entry: dict[str, Any]) -> str:
    """Return a change in a line."""
    counts, said = entry["counts"], list[str]()
    said += [f"{counted(counts[name], 'triple')} {name}" for name in ("added", "removed") if counts[name]]
    said += [
        counted(counts[name], f"new {noun}")
        for name, noun in (("entities", "entity"), ("relations", "relation"))
        if counts[name]
    ]
    said += [f"{counted(entry['epochs'], 'epoch')} of training"] if entry["epochs"] else []
    files = [
        f"{source['file'] or 'triples'} (sha256 {source['sha256'][:12]}…)" for source in entry["sources"] if source
    ]
    return f"{entry['number']:>4}  {entry['when']}   {', '.join(said)}   from {listed(files)}"
