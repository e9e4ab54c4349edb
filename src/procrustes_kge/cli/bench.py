"""procrustes bench: measure this machine, or train and print the paper's table."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from procrustes_kge.bench.speed import Timing, speed as measured
from procrustes_kge.bench.table import as_markdown, as_text, commit, filled, missing, read_line, table_rows
from procrustes_kge.cli.app import Device, Json, new_verb
from procrustes_kge.cli.terminal import TerminalWatcher, print_json, read_with_bar, say_unless, warnings_as_notes
from procrustes_kge.errors import InputError
from procrustes_kge.system.devices import choose_device

verb = new_verb(name="bench", help="Measure this machine, or repeat the paper's table.", no_args_is_help=True)


@verb.command()
def speed(
    graph: Annotated[str, typer.Argument(help="A dataset's name, a file of triples, or a folder.")] = "wn18rr",
    device: Device = "auto",
    pykeen: Annotated[bool, typer.Option(help="Time the same work by PyKEEN too, where it is installed.")] = True,
    as_json: Json = False,
) -> None:
    """Time epochs, a training and ranking, beside the floor that this machine's bandwidth and arithmetic set.

    Example: `procrustes bench speed wordnet-mini --no-pykeen`
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
    if as_json:
        print_json({"graph": source.name, "rates": asdict(rates), "timings": [each.as_dict() for each in done]})


@verb.command()
def table(
    folder: Annotated[Path, typer.Option(help="Where the figures of each row are kept.")] = Path("results"),
    only: Annotated[
        list[str] | None, typer.Option(help="Rows alone that this names: a recipe, a dataset, or RECIPE-DATASET.")
    ] = None,
    just_print: Annotated[bool, typer.Option("--print", help="Train nothing: show the rows that are there.")] = False,
    device: Device = "auto",
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown instead of text.")] = False,
    as_json: Json = False,
) -> None:
    """Train every model of the paper's Table 2 and print it with our figures; rows that are there are not trained.

    Example: `procrustes bench table --only fast --only complex-wn18rr`
    """
    if markdown and as_json:
        raise InputError("--markdown and --json: give one")
    choose_device(device)
    rows = table_rows(only or ())
    lines = {row: read_line(row, folder) for row in rows}  # before any is trained: one may be damaged
    todo = [] if just_print else missing(rows, folder)
    say = say_unless(markdown or as_json)
    with warnings_as_notes():
        for line in filled(todo, folder, device, commit(), read_with_bar, TerminalWatcher()) if todo else ():
            lines[line.row] = line
            if line.problem:
                print(f"error: {line}", file=sys.stderr, flush=True)
            else:
                say(str(line))
    shown = list(lines.values())
    if as_json:
        print_json({"folder": str(folder), "rows": [line.as_dict() for line in shown]})
    else:
        print(as_markdown(shown) if markdown else as_text(shown))
    if any(line.problem for line in shown):
        raise typer.Exit(1)
