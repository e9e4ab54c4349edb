"""procrustes bench: measure this machine, or train and print the paper's table."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.progress import BarColumn, TextColumn

from procrustes_kge.bench.speed import Timing, speed as measured, verdict
from procrustes_kge.bench.studies import STUDIES, find_study
from procrustes_kge.bench.studies.drawing import draw_study, study_files
from procrustes_kge.bench.studies.kept import Conducted, StudyProgress, study_file
from procrustes_kge.bench.studies.study import Place
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
from procrustes_kge.cli.terminal import (
    TerminalWatcher,
    print_json,
    progress_bar,
    read_with_bar,
    say_unless,
    warnings_as_notes,
)
from procrustes_kge.errors import InputError
from procrustes_kge.figures.style import can_draw
from procrustes_kge.graphs.datasets import DEFAULT
from procrustes_kge.runs.jobs import remove, unfinished, write_table
from procrustes_kge.runs.several import Several
from procrustes_kge.system.devices import choose_device
from procrustes_kge.system.durable import locked
from procrustes_kge.training.budget import spoken_time
from procrustes_kge.training.checkpoints import Stopped
from procrustes_kge.words import counted

STUDIES_FOLDER = Path("studies")
FOLDER = Path("results")  # where rows are trained into, unless the user names another
SHIPPED = "These results come with procrustes-kge; to see your own, add --folder."

verb = new_verb(
    name="bench",
    help="Measure this machine, repeat the paper's table, or conduct one of its studies.",
    no_args_is_help=True,
)


class Choice(NamedTuple):
    """How a study is conducted."""

    quick: bool
    anew: bool
    device: str


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


def _register(name: str, about: str) -> None:
    """Make a study a command of its own."""

    @verb.command(name=name, help=f"{about}\n\nExample:\n\n    procrustes bench {name} wn18rr --out studies")
    def conduct(
        graph: Annotated[str, typer.Argument(help="A dataset's name, a file of triples, or a folder.")] = DEFAULT,
        out: Annotated[Path, typer.Option(help="Folder for the figures and for what was measured.")] = STUDIES_FOLDER,
        quick: Annotated[
            bool, typer.Option("--quick", help="A glance: some of the triples, small vectors, few epochs.")
        ] = False,
        anew: Annotated[
            bool, typer.Option("--train", help="Train everything here, also what comes with the package.")
        ] = False,
        device: Device = "auto",
        as_json: Json = False,
    ) -> None:
        _conducted(name, graph, out, Choice(quick, anew, device), as_json)


for _name, _about in STUDIES.items():
    _register(_name, _about)


@contextmanager
def study_bar() -> Iterator[Callable[[StudyProgress], None]]:
    """Give a function that shows which row of a study is measured, and how long the others will take."""
    columns = TextColumn("row {task.fields[row]}"), BarColumn(), TextColumn("{task.fields[words]}")
    with progress_bar(*columns) as bar:
        task = bar.add_task("", total=1.0, row="", words="")

        def show(progress: StudyProgress) -> None:
            left = "" if progress.left is None else f"   about {spoken_time(progress.left)} left"
            row = f"{min(progress.done + 1, progress.rows)} of {progress.rows}"
            bar.update(task, completed=progress.share, row=row, words=f"{progress.name}{left}")

        yield show


def _conducted(name: str, graph: str, out: Path, choice: Choice, as_json: bool) -> None:
    can_draw()  # before anything is measured
    choose_device(choice.device)
    place = Place(read_with_bar(graph), choice.device, choice.quick, choice.anew)
    file = study_file(name, place.graph.name, out)
    say = say_unless(as_json)
    with warnings_as_notes(), locked(file):
        conducted = Conducted(find_study(name), place, out)
        if done := len(conducted.results):
            say(f"{file} has {done} of {counted(len(conducted.plan), 'row')}")
        try:
            with study_bar() as show:
                for result in conducted.measured(show):
                    say(str(result))
        except KeyboardInterrupt:
            if conducted.results:
                kept = f"{len(conducted.results)} of {counted(len(conducted.plan), 'row')}"
                print(f"{file} has {kept}; the same command goes on", file=sys.stderr)
            raise
        written = draw_study(file, out)
    for each in written:
        say(f"drawn  {each}")
    if as_json:
        print_json({**conducted.content, "file": str(file), "figures": list(map(str, written))})


@verb.command()
def draw(
    studies: Annotated[
        list[Path] | None,
        typer.Argument(help="Files of studies, or folders of them.", show_default=str(STUDIES_FOLDER)),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the figures.", show_default="beside each file")] = None,
) -> None:
    """Draw figures of studies again; nothing is measured.

    Example:

        procrustes bench draw studies --out pictures
    """
    for place in studies or [STUDIES_FOLDER]:
        for file in study_files(place):
            for each in draw_study(file, out or file.parent):
                print(f"drawn  {each}")
