"""procrustes train: read a graph, train on it, rank the held-out triples, save a run folder."""

from pathlib import Path
from typing import Annotated, Any

import typer

from procrustes_kge.cli.app import Json, new_verb
from procrustes_kge.cli.settings_flags import with_settings
from procrustes_kge.cli.terminal import TerminalWatcher, print_json, read_with_bar, say_unless, warnings_as_notes
from procrustes_kge.errors import DivergedError, InputError
from procrustes_kge.graphs import datasets
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.runs.experiment import Run, experiment
from procrustes_kge.runs.store import check_target, save
from procrustes_kge.system.footprint import grid_intensity
from procrustes_kge.training.budget import parse_size, parse_time, plan
from procrustes_kge.training.recipes import DEFAULT, OWN, Settings, baseline_recipes, check_recipe, recipe
from procrustes_kge.training.supervised_settings import TrainSettings
from procrustes_kge.words import either, unknown

A_MINUTE = 60.0  # what the default recipe is fitted to: about as long as people wait

verb = new_verb()
Source = Annotated[
    str,
    typer.Argument(
        help="A dataset's name, a file of triples, - for standard input, or a folder with train, valid and test files."
    ),
]
_RECIPES = f"Settings to start from: {either(OWN)}, or the name of a baseline."
_DEFAULT = f"{DEFAULT}, fitted to a minute unless --dim or --epochs is given"
RecipeName = Annotated[str | None, typer.Option("--recipe", help=_RECIPES, show_default=_DEFAULT)]
Grid = Annotated[
    str | None,
    typer.Option(help="Carbon intensity: grams of CO2 per kWh, or a country such as FRA.", show_default="world"),
]


@verb.command()
@with_settings
def train(
    graph: Source = datasets.DEFAULT,
    recipe_name: RecipeName = None,
    time: Annotated[
        str | None, typer.Option(help="Choose settings that finish in this time, such as 60s or 10m.")
    ] = None,
    memory: Annotated[str | None, typer.Option(help="Choose settings that fit into this memory, such as 4GB.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to save the run in.", show_default="runs/NAME")] = None,
    entities_only: Annotated[
        bool, typer.Option(help="Save entity vectors only; loading computes the relations from them.")
    ] = False,
    separator: Annotated[
        str | None, typer.Option(help="What separates columns: tab, comma, space, ';' or '|'.")
    ] = None,
    header: Annotated[bool | None, typer.Option(help="Whether the file's first line names the columns.")] = None,
    columns: Annotated[
        str | None, typer.Option(help="Columns of head, relation and tail, by name or number, such as 2,3,4.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="File of names and readable labels to show with them (.tsv, .csv, .json).")
    ] = None,
    valid: Annotated[float, typer.Option(help="Share of a single file set aside for validation.")] = 0.05,
    test: Annotated[float, typer.Option(help="Share of a single file set aside for testing.")] = 0.05,
    split_seed: Annotated[int, typer.Option(help="Random seed of that split, independent of --seed.")] = 0,
    grid: Grid = None,
    as_json: Json = False,
    *,
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
    as_it_is = recipe_name is not None or changes.keys() & {"dim", "epochs"}  # what was asked for is not shortened
    seconds = parse_time(time) if time is not None else None if as_it_is else A_MINUTE
    size = parse_size(memory) if memory is not None else None
    recipe_name = _recipe_name(changes.pop("model", None), recipe_name)
    check_recipe(recipe_name, **changes)
    if recipe_name not in OWN:
        _check_for_a_baseline(time or memory, entities_only)
    if out is not None:
        check_target(out)
    reading = {"separator": separator, "header": header, "columns": columns, "labels": labels}
    source = read_with_bar(graph, **reading, valid=valid, test=test, seed=split_seed)
    folder = out or Path("runs", source.name or "graph")
    check_target(folder)
    say = say_unless(as_json)
    say(source.describe())
    for note in (*source.notes, *source.remarks()):
        say(f"  {note}")
    with warnings_as_notes():
        settings = recipe(recipe_name, source, **changes)
        planned = None if isinstance(settings, TrainSettings) else plan(source, settings, seconds, size)
        say(f"{recipe_name}: {planned or settings}")
        settings = planned.settings if planned else settings
        found = _experiment(source, settings, recipe_name, grid, TerminalWatcher(say), folder)
    replaced = "   (in place of an earlier run)" if folder.exists() and any(folder.iterdir()) else ""
    save(found.model, folder, source, settings, found.report, relations=not entities_only)
    say(f"saved  {folder}{replaced}")
    if as_json:
        print_json(found.report)


def _recipe_name(model: str | None, name: str | None) -> str:
    """Return the recipe that is asked for: of a model, the one of the same name or another of its own."""
    if model is None:
        return name or DEFAULT
    model, asked = model.lower(), model  # papers and tables write capitals
    if model not in BASELINES:
        raise InputError(unknown("model", asked, BASELINES))
    own = baseline_recipes(model)
    if name is not None and name not in own:
        raise InputError(f"--model {model} has no recipe {name}; try --recipe {either(own)}, or leave --model out")
    return name or model


def _check_for_a_baseline(budget: str | None, entities_only: bool) -> None:
    """Refuse what a baseline cannot do."""
    if budget is not None:
        raise InputError("--time and --memory do not work with a baseline; set --epochs or --dim instead")
    if entities_only:
        raise InputError("--entities-only does not work with a baseline, whose relations are learned; leave it out")


def _experiment(
    graph: Graph, settings: Settings, recipe_name: str, grid: str | None, watcher: TerminalWatcher, folder: Path
) -> Run:
    """Train and rank; where training diverges, save the last good weights and say so."""
    try:
        return experiment(graph, settings, recipe_name, grid=grid, watcher=watcher)
    except DivergedError as error:
        kept = folder.with_name(f"{folder.name}-diverged") if folder.exists() else folder  # a good run stays
        save(error.model, kept, graph, settings, {"diverged": str(error)})
        raise InputError(f"{error}; the last good weights are in {kept}") from None
