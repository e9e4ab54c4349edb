"""procrustes train: read a graph, train on it, rank the held-out triples, save a run folder."""

import os
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Annotated, Any

import typer

from procrustes_kge.cli.app import Json, new_verb
from procrustes_kge.cli.clock import elapsed
from procrustes_kge.cli.job import Every, carry_out, interval
from procrustes_kge.cli.reading_flags import Reading, Source, with_reading
from procrustes_kge.cli.settings_flags import RECIPES, recipe_name_of, with_settings
from procrustes_kge.cli.terminal import say_unless, warnings_as_notes
from procrustes_kge.errors import InputError
from procrustes_kge.graphs import datasets
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.runs.jobs import Job, remove, strangers, unfinished, write_job
from procrustes_kge.runs.store import check_target
from procrustes_kge.system.devices import choose_device
from procrustes_kge.system.durable import locked
from procrustes_kge.system.footprint import grid_intensity
from procrustes_kge.training.budget import AIM, MEASURING, USUAL_TIME, Plan, parse_size, parse_time, plan, spoken_time
from procrustes_kge.training.costs import pace
from procrustes_kge.training.recipes import (
    DEFAULT,
    FASTEST,
    OWN,
    Settings,
    check_recipe,
    has_setting,
    recipe,
)
from procrustes_kge.training.supervised_settings import TrainSettings
from procrustes_kge.training.timekeeping import NO_TIME
from procrustes_kge.training.tuned import Tuning

A_MINUTE = 60.0  # what the default recipe is fitted to: about as long as people wait
PATHS_SHARE = 0.4  # of the time, to mine and weigh paths and for what ranking takes longer with them
WRAP_UP = 1.0  # seconds: the last line, and the end of the process

verb = new_verb()
_DEFAULT = f"{DEFAULT}, fitted to a minute unless --dim or --epochs is given"
RecipeName = Annotated[str | None, typer.Option("--recipe", help=RECIPES, show_default=_DEFAULT)]
Grid = Annotated[
    str | None,
    typer.Option(help="Carbon intensity: grams of CO2 per kWh, or a country such as FRA.", show_default="world"),
]


@verb.command()
@with_settings
@with_reading
def train(
    graph: Source = datasets.DEFAULT,
    recipe_name: RecipeName = None,
    time: Annotated[
        str | None, typer.Option(help="Choose settings that finish in this time, such as 60s or 10m.")
    ] = None,
    tune: Annotated[
        bool | None,
        typer.Option(
            help="Search for settings that suit the graph, in a part of the time.", show_default="with --time"
        ),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="Search with so many trials, however long it takes.", show_default=False)
    ] = None,
    memory: Annotated[str | None, typer.Option(help="Choose settings that fit into this memory, such as 4GB.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to save the run in.", show_default="runs/NAME")] = None,
    entities_only: Annotated[
        bool, typer.Option(help="Save entity vectors only; loading computes the relations from them.")
    ] = False,
    paths: Annotated[
        bool, typer.Option("--paths", help="Use paths through the graph as evidence too: slower, often better.")
    ] = False,
    grid: Grid = None,
    checkpoint_every: Every = None,
    anew: Annotated[
        bool, typer.Option("--anew", help="Begin anew where an earlier training into the folder was stopped.")
    ] = False,
    as_json: Json = False,
    *,
    reading: Reading,
    changes: dict[str, Any],
) -> None:
    """Train on a graph, rank the test triples, and save a run folder.

    Examples:

        procrustes train
        procrustes train my-triples.tsv --time 60s --out runs/mine
        procrustes train wn18rr --recipe fast --dim 500
        procrustes train wn18rr --model rotate
    """
    # Mistakes that do not depend on the graph are reported before it is read, or downloaded.
    grid_intensity(grid)
    # What was asked for is not shortened.
    named = recipe_name is not None or bool(changes.keys() & {"dim", "epochs"})
    as_it_is = trials is not None or (named and not tune)
    every = interval(checkpoint_every)
    seconds = parse_time(time) if time is not None else None if as_it_is else A_MINUTE
    size = parse_size(memory) if memory is not None else None
    reading.check()
    recipes = _recipes(changes.pop("model", None), recipe_name, changes)
    _check_tuning(tune, trials, time, recipes[0])
    if recipes[0] not in OWN:
        _check_for_a_baseline(time or memory, entities_only)
    if out is not None:
        out = Path(os.path.normpath(out))
        check_target(out)
        _check_begun(out, anew)
    source = reading.read(graph)
    folder = out or Path("runs", source.name or "graph")
    check_target(folder)
    _check_begun(folder, anew)
    say = say_unless(as_json)
    say(source.describe())
    for note in (*source.notes, *source.remarks()):
        say(f"  {note}")
    options = reading.options() | {"entities_only": entities_only or None, "grid": grid, "out": out}
    options["paths"] = paths or None
    with warnings_as_notes(), locked(folder):
        _check_begun(folder, anew)
        share = 1 - PATHS_SHARE if paths else 1
        for_epochs = seconds and seconds * share
        chosen, settings, planned = _choose(source, recipes, changes, for_epochs, size)
        if chosen != recipes[0]:
            say(f"  {recipes[0]} does not fit into the time here, so {chosen} is trained; a longer --time allows it")
        tuning, expected = None, None
        if planned is not None and for_epochs is not None and planned.seconds > for_epochs - WRAP_UP - elapsed():
            say(f"{chosen}: {planned.describe(elapsed())}")
            if time is not None:
                raise InputError(_too_short(time, source, chosen, planned, share))
            seconds = for_epochs = None  # nobody asked for a minute
            say(f"  the smallest model of {source.name} that is worth training takes longer than a minute")
        elif tune is not False and (tuning := _tuning(chosen, changes, for_epochs, trials, size)):
            settings = recipe(chosen, source, **changes)
            say(f"{chosen}: tuned on validation {tuning.describe()}")
        elif planned is None:
            settings, paced = _paced(source, settings)
            say(f"{chosen}: {settings}{paced}")
        else:
            before = elapsed()
            say(f"{chosen}: {planned.describe(before)}")
            if for_epochs is not None:
                settings = replace(settings, time=planned.for_epochs(for_epochs - WRAP_UP - before))
        if planned is not None and tuning is None:
            expected = {"seconds": elapsed() + planned.seconds, "memory_mb": planned.memory / 1e6}
        job = Job(source, settings, chosen, graph, options, grid, not entities_only, expected, tuning)
        remove(unfinished(folder))
        if checkpoint_every is not None and every is not None:
            write_job(job, unfinished(folder))  # it can be resumed from the beginning on
        carry_out(job, folder, every, say, seconds and seconds - WRAP_UP, as_json)


def _recipes(model: str | None, name: str | None, changes: dict[str, Any]) -> list[str]:
    """Return the recipe that is asked for, or those to try in turn until one fits the time."""
    if model is None and name is None:
        check_recipe(DEFAULT, **changes)
        fast = recipe(FASTEST)
        return [DEFAULT, FASTEST] if all(has_setting(fast, change) for change in changes) else [DEFAULT]
    name = recipe_name_of(model, name)
    check_recipe(name, **changes)
    return [name]


def _choose(
    graph: Graph, recipes: list[str], changes: dict[str, Any], seconds: float | None, memory: float | None
) -> tuple[str, Settings, Plan | None]:
    """Return the first recipe that fits the time, or else the last, with settings that fit, and the plan of our own."""
    for name in recipes:
        settings = recipe(name, graph, **changes)
        if isinstance(settings, TrainSettings):
            return name, settings, None
        left = None if seconds is None else max(NO_TIME, seconds - WRAP_UP - elapsed())
        planned = plan(graph, settings, left, memory, keep=changes)
        if left is None or planned.seconds <= AIM * left:
            break
    return name, planned.settings, planned


def _paced(graph: Graph, settings: Settings) -> tuple[Settings, str]:
    """Return the settings of a baseline, on a CPU with the threads that are faster, and how long it trains at most."""
    if not isinstance(settings, TrainSettings) or choose_device(settings.device).type != "cpu":
        return settings, ""
    epoch, workers = pace(graph, settings, MEASURING * USUAL_TIME)
    return replace(settings, workers=workers), f": at most about {spoken_time(settings.epochs * epoch)}"


def _too_short(time: str, graph: Graph, name: str, planned: Plan, share: float) -> str:
    """Return in a sentence how much time is needed."""
    takes = elapsed() + planned.seconds
    enough, step = (takes + WRAP_UP) / AIM / share, 10 if takes > 10 else 1
    enough = ceil(enough / step) * step
    other = "" if name == FASTEST else f", or --recipe {FASTEST}"
    size = f"{planned.settings.dim:,} numbers"
    return (
        f"time {time} is too short for {graph.name}: the smallest model of {name} that is worth training ({size}) "
        f"takes about {spoken_time(takes)}; try --time {enough}s{other}"
    )


def _check_tuning(tune: bool | None, trials: int | None, time: str | None, name: str) -> None:
    """Refuse a search that is not asked for in one way, or for a recipe whose settings are the point of it."""
    if trials is None and tune is not True:
        return
    if tune is False:
        raise InputError("--trials is for a search, which --no-tune leaves out; leave one of them out")
    if trials is not None:
        if time is not None:
            raise InputError("--trials and --time both say how long to search; leave one out")
        Tuning(trials=trials)
    if name.startswith("paper"):
        raise InputError(f"the settings of {name} are the paper's, and not tuned; try --recipe {DEFAULT}")
    if trials is None and name != DEFAULT:
        raise InputError(f"{name} is not tuned within a time; give a number of trials, such as --trials 20")


def _tuning(
    name: str, changes: dict[str, Any], seconds: float | None, trials: int | None, memory: float | None
) -> Tuning | None:
    """Return the search that a recipe gets: by the clock, the default alone."""
    if trials is not None:
        return Tuning(tuple(changes), trials=trials, memory=memory)
    if seconds is None or name != DEFAULT:
        return None
    return Tuning(tuple(changes), seconds=max(NO_TIME, seconds - WRAP_UP - elapsed()), memory=memory)


def _check_for_a_baseline(budget: str | None, entities_only: bool) -> None:
    """Refuse what a baseline cannot do."""
    if budget is not None:
        raise InputError("--time and --memory do not work with a baseline; set --epochs or --dim instead")
    if entities_only:
        raise InputError("--entities-only does not work with a baseline, whose relations are learned; leave it out")


def _check_begun(folder: Path, anew: bool) -> None:
    """Refuse a folder where an earlier training was stopped, which would be lost."""
    place = unfinished(folder)
    with locked(folder):  # where a training runs, that is said instead
        if guests := strangers(place):
            raise InputError(f"{place} holds {guests[0]}, but is for this training's checkpoints; choose another --out")
        if not anew and any(place.glob("[!.]*")):  # scratch alone: killed before anything was kept
            raise InputError(
                f"{place} holds a training that was stopped; `procrustes resume {folder}` goes on with it, "
                "--anew begins anew in its place"
            )
