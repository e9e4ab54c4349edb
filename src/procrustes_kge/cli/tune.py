"""procrustes tune: search for hours for the settings that suit a graph."""

import os
import sys
import threading
from contextlib import closing
from importlib.metadata import version
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from procrustes_kge.cli import interrupts
from procrustes_kge.cli.app import Json, new_verb
from procrustes_kge.cli.clock import elapsed
from procrustes_kge.cli.reading_flags import Reading, Source, with_reading
from procrustes_kge.cli.repeating import repeating_command
from procrustes_kge.cli.settings_flags import RECIPES, recipe_name_of, with_settings
from procrustes_kge.cli.terminal import TerminalWatcher, print_json, say_unless, tuning_bar, warnings_as_notes
from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.system.durable import locked
from procrustes_kge.system.extras import require
from procrustes_kge.system.files import write_json_atomically
from procrustes_kge.training.budget import parse_time
from procrustes_kge.training.checkpoints import Stopped
from procrustes_kge.training.recipes import DEFAULT, check_recipe, values_of
from procrustes_kge.training.tuned import Tuned
from procrustes_kge.version import __version__
from procrustes_kge.words import counted

if TYPE_CHECKING:
    from procrustes_kge.bench.search import LongSearch

AN_HOUR = 3600.0
REPORT = "report.json"

verb = new_verb()


@verb.command()
@with_settings
@with_reading
def tune(
    graph: Source,
    recipe_name: Annotated[str | None, typer.Option("--recipe", help=RECIPES, show_default=DEFAULT)] = None,
    time: Annotated[
        str | None, typer.Option(help="Search for so long, such as 2h.", show_default="1h, without --trials")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="End with this many trials, those before a stop included.", show_default=False)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the search that is in the folder.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder to keep the search in.", show_default="runs/NAME-tuning")
    ] = None,
    as_json: Json = False,
    *,
    reading: Reading,
    changes: dict[str, Any],
) -> None:
    """Search for settings of a model that suit a graph, for hours.

    Each trial is a whole training, judged by validation triples. A setting that is given stays as it is. All trials are
    kept in a file that `optuna-dashboard` shows. The last line is the command that trains with what was found.

    Examples:

        procrustes tune my-triples.tsv --time 2h
        procrustes tune wn18rr --model rotate --dim 200 --trials 40
        procrustes tune my-triples.tsv --time 8h --resume
    """
    # Mistakes that do not depend on the graph are reported before it is read, or downloaded.
    seconds = parse_time(time) if time is not None else None if trials is not None else AN_HOUR
    if trials is not None and trials < 1:
        raise InputError(f"trials {trials}, expected a whole number of at least 1")
    name = recipe_name_of(changes.pop("model", None), recipe_name)
    check_recipe(name, **changes)
    if name.startswith("paper"):
        raise InputError(f"the settings of {name} are the paper's, and not tuned; try --recipe {DEFAULT}")
    reading.check()
    require("optuna", "procrustes tune")
    if out is not None:
        out = Path(os.path.normpath(out))
        _check_folder(out)
    source = reading.read(graph)
    folder = out or Path("runs", f"{source.name or 'graph'}-tuning")
    _check_folder(folder)
    say = say_unless(as_json)
    say(source.describe())
    for note in (*source.notes, *source.remarks()):
        say(f"  {note}")
    stop = threading.Event()

    def left() -> float:
        return inf if seconds is None else seconds - elapsed()

    from procrustes_kge.bench.search import LongSearch  # Optuna takes a second to load

    with warnings_as_notes(), locked(folder), tuning_bar(seconds) as show:
        search = LongSearch(source, name, changes, folder, resume, trials, left, show, stop.is_set)
        if resume:
            say(f"{name}: going on after {counted(len(search.trials), 'trial')}")
        with closing(search.study):
            found = _found(search, stop, folder)
        repeat = repeating_command(graph, source, name, found.settings, reading.options())
        report = _report(source, name, found, repeat)
        write_json_atomically(folder / REPORT, report)
    TerminalWatcher(say).on_tuned(found)
    say(f"saved  {folder}\ntrain: {repeat}")
    if as_json:
        print_json(report)


def _found(search: "LongSearch", stop: threading.Event, folder: Path) -> Tuned:
    """Search; a signal asks to stop, and the next one stops at once: what has ended is kept in the file."""
    interrupts.stop_first(stop.set)
    try:
        return search.run()
    except (KeyboardInterrupt, SystemExit) as end:
        so_far = f"{folder} holds {counted(len(search.trials), 'trial')}"
        print(f"{so_far}; the same command with --resume goes on", file=sys.stderr)
        if not isinstance(end, Stopped):
            raise
        interrupts.interrupt(interrupts.release())
    finally:
        interrupts.release()


def _report(graph: Graph, name: str, found: Tuned, repeat: str) -> dict[str, Any]:
    """Return what was searched, and what was found."""
    settings = values_of(found.settings)
    return {
        "dataset": graph.name,
        "checksum": graph.checksum,
        "model": settings.get("model", "procrustes"),
        "recipe": name,
        "settings": settings,
        "tuning": found.as_dict(),
        "repeat": repeat,
        "versions": {"procrustes-kge": __version__, "optuna": version("optuna")},
    }


def _check_folder(folder: Path) -> None:
    """Refuse a folder that holds something else, whose report would be replaced."""
    if not folder.is_dir():
        if folder.exists():
            raise InputError(f"{folder}: is a file, expected a folder for the search; choose another --out")
        return
    others = sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))
    if others and not any(each.startswith("study.db") for each in others):
        raise InputError(f"{folder} holds {others[0]}, but no search; choose another --out")
