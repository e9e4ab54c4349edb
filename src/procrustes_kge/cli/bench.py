"""procrustes bench: measure this machine, or train and print the paper's table."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from procrustes_kge.bench.speed import Timing, speed as measured, verdict
from procrustes_kge.bench.table import (
    Line,
    Row,
    as_markdown,
    as_text,
    commit,
    filled,
    missing,
    read_line,
    shipped_line,
    table_rows,
)
from procrustes_kge.cli import interrupts
from procrustes_kge.cli.app import Device, Json, new_verb
from procrustes_kge.cli.job import interval
from procrustes_kge.cli.terminal import TerminalWatcher, print_json, read_with_bar, say_unless, warnings_as_notes
from procrustes_kge.errors import InputError
from procrustes_kge.runs.jobs import remove, unfinished, write_table
from procrustes_kge.runs.several import Several
from procrustes_kge.system.devices import choose_device
from procrustes_kge.system.durable import locked
from procrustes_kge.training.checkpoints import Stopped

FOLDER = Path("results")  # where rows are trained into, unless the user names another
SHIPPED = "These results come with procrustes-kge; to see your own, add --folder."

verb = new_verb(
    name="bench", help="Measure how fast this machine is, or repeat the paper's table.", no_args_is_help=True
)


@verb.command()
def speed(
    graph: Annotated[str, typer.Argument(help="A dataset's name, a file of triples, or a folder.")] = "wn18rr",
    device: Device = "auto",
    pykeen: Annotated[bool, typer.Option(help="Also time PyKEEN, if it is installed (the default).")] = True,
    as_json: Json = False,
) -> None:
    """Time epochs, a training and ranking on this machine.

    Beside each time stands its floor: the least time that this machine's memory bandwidth and arithmetic allow.

    Example:

        procrustes bench speed wordnet-mini --no-pykeen
    """
    choose_device(device)
    source = read_with_bar(graph)
    rates, timings = measured(source, device, pykeen)
    say = say_unless(as_json)
    say(f"{rates}\n{Timing.heading()}")
    done = []
    for timing in timings:
        done.append(timing)
        say(str(timing))
    found = verdict(source.name, done)
    say(found)
    if as_json:
        timed = [each.as_dict() for each in done]
        print_json({"graph": source.name, "rates": asdict(rates), "timings": timed, "verdict": found})


@verb.command()
def table(
    folder: Annotated[
        Path | None, typer.Option(help="Folder with the results of each row.", show_default=str(FOLDER))
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only these rows: a recipe, a dataset, or RECIPE-DATASET. May be repeated.")
    ] = None,
    just_print: Annotated[
        bool,
        typer.Option("--print", help="Train nothing: show the results that come with the package, or in --folder."),
    ] = False,
    device: Device = "auto",
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown instead of text.")] = False,
    as_json: Json = False,
) -> None:
    """Train every model of the paper's Table 2 and print it with our results.

    Rows that have a file in the folder are not trained again. If a row fails, it is reported and the rest continue.

    Examples:

        procrustes bench table --print
        procrustes bench table --only fast --only complex-wn18rr
    """
    if markdown and as_json:
        raise InputError("--markdown and --json exclude each other; give one of them")
    choose_device(device)
    rows, shipped, place = table_rows(only or ()), just_print and folder is None, folder or FOLDER
    # All are read before any is trained: a file may be damaged.
    lines = {row: shipped_line(row) if shipped else read_line(row, place) for row in rows}
    todo = [] if just_print else missing(rows, place)
    say = say_unless(markdown or as_json)
    if todo:
        asked = {"only": list(only or ()), "device": device, "markdown": markdown, "as_json": as_json}
        for line in _trained(todo, place, asked):
            lines[line.row] = line
            if line.problem:
                print(f"error: {line}", file=sys.stderr, flush=True)
            else:
                say(str(line))
    shown = list(lines.values())
    if as_json:
        print_json({"folder": None if shipped else str(place), "rows": [line.as_dict() for line in shown]})
    else:
        print(as_markdown(shown) if markdown else as_text(shown))
        if shipped:
            say(SHIPPED)
    if any(line.problem for line in shown):
        raise typer.Exit(1)


def _trained(todo: list[Row], place: Path, asked: dict[str, Any]) -> Iterator[Line]:
    """Train rows; a stop on the way says how to go on."""
    several = Several(unfinished(place), interval(None))
    with warnings_as_notes(), locked(place):
        write_table(asked, several.folder)
        interrupts.stop_first(several.stop)
        try:
            yield from filled(todo, place, asked["device"], commit(), read_with_bar, TerminalWatcher(), several)
        except Stopped:
            print(f"{several.folder} holds what was learned; `procrustes resume {place}` goes on", file=sys.stderr)
            interrupts.interrupt(interrupts.release())
        finally:
            interrupts.release()
        remove(several.folder)
