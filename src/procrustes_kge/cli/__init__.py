"""The command `procrustes`: arguments → functions → a few lines of text, or JSON."""

from __future__ import annotations

import inspect
import io
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from functools import wraps
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, no_type_check

import typer

from procrustes_kge.bench.speed import Timing, speed
from procrustes_kge.bench.table import as_markdown, as_text, commit, filled, missing, read_line, table_rows
from procrustes_kge.cli.terminal import (
    FitBar,
    cost_line,
    learn_with_bar,
    print_json,
    rank_with_bar,
    read_with_bar,
    say_line,
    say_nothing,
    warnings_as_notes,
)
from procrustes_kge.errors import DivergedError, InputError
from procrustes_kge.graphs import datasets
from procrustes_kge.graphs.graph import SPLITS, Graph
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.runs.export import EXPORTS, SUFFIXES, export
from procrustes_kge.runs.store import Run, build_report, check_target, load_run, save
from procrustes_kge.system.devices import choose_device
from procrustes_kge.system.footprint import grid_intensity, measure
from procrustes_kge.training.budget import parse_size, parse_time, plan
from procrustes_kge.training.recipes import (
    DEFAULT,
    METHODS,
    OWN,
    baseline_recipes,
    check_buildable,
    learn,
    recipe,
    recipes_with,
)
from procrustes_kge.training.supervised_settings import TrainSettings
from procrustes_kge.version import __version__

INTERRUPTED = 130  # the exit code after Ctrl-C
A_MINUTE = 60.0  # what the default recipe is fitted to: about as long as people wait

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Knowledge-graph embeddings in seconds: from a file of triples to ranked answers.\n\n"
    "Start with `procrustes train`, which needs no data of yours, then `procrustes train my-triples.tsv`.",
)


def _show_version(wanted: bool) -> bool:
    if wanted:
        print(f"procrustes-kge {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Answer what concerns no command."""


data_app = typer.Typer(help="List the datasets known by name, or get one.")
app.add_typer(data_app, name="data")
bench_app = typer.Typer(help="Measure this machine, or repeat the paper's table.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text.")]
RunFolder = Annotated[Path, typer.Argument(help="A folder that `procrustes train` wrote.", show_default=False)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; a mistake of the user's ends in one sentence and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no failure
    try:
        app(args=list(arguments) if arguments is not None else None, prog_name="procrustes")
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.exit(0)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            print("interrupted", file=sys.stderr)
        raise


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command one option per field of any method's settings; those that are used arrive as `changes`."""
    names = list(dict.fromkeys(field.name for kind in METHODS.values() for field in fields(kind)))
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(name))
        for name in names
    ]
    own = [
        parameter
        for name, parameter in inspect.signature(command, eval_str=True).parameters.items()
        if name != "changes"
    ]

    @wraps(command)
    def wrapped(**values: Any) -> None:
        chosen = {name: values.pop(name) for name in names}
        command(**values, changes={name: value for name, value in chosen.items() if value is not None})

    wrapped.__signature__ = inspect.Signature(own + options)  # type: ignore[attr-defined]
    return wrapped


def _option(name: str) -> Any:
    """Return the option of a setting: its values and words are those of every method that has it."""
    hints = [
        get_type_hints(kind, include_extras=True)[name]
        for kind in METHODS.values()
        if name in {field.name for field in fields(kind)}
    ]
    kinds = [hint.__origin__ for hint in hints]
    kind = kinds[0]
    if get_origin(kind) is Literal:
        kind = Literal[tuple(dict.fromkeys(word for each in kinds for word in get_args(each)))]
    elif get_origin(kind) in (Union, UnionType):
        kind = str  # a number or a word: the settings tell them apart
    words = "; or ".join(dict.fromkeys(hint.__metadata__[0] for hint in hints))
    recipes = recipes_with(name, "the baselines (--model)")
    every = {tuple(OWN): "every recipe of our own", (*OWN, "the baselines (--model)"): "every recipe"}
    which = every.get(tuple(recipes)) or ", ".join(recipes)
    flag = "--" + name.replace("_", "-")
    option = typer.Option(
        f"{flag}/--no-{flag[2:]}" if kind is bool else flag,
        help=f"{words[0].upper()}{words[1:]}.",
        rich_help_panel=f"Settings of {which}, where they differ from the recipe's own",
    )
    return Annotated[kind | None, option]


@data_app.callback(invoke_without_command=True)
@no_type_check  # typer has it written so, and yet hands over a context of the parent class
def data(context: typer.Context, as_json: Json = False) -> None:
    """List the datasets known by name, with licence and citation; `data get NAME` fetches one."""
    if not context.invoked_subcommand:
        _list_datasets(as_json)


def _list_datasets(as_json: bool) -> None:
    known = list(datasets.DATASETS.values())
    if as_json:
        print_json(
            {
                each.name: {
                    "summary": each.summary,
                    "entities": each.entities,
                    "relations": each.relations,
                    "triples": dict(zip(SPLITS, each.triples, strict=True)),
                    "address": each.archive.address if each.archive else None,
                    "sha256": each.sha256,
                    "local": datasets.is_local(each.name),
                    "licence": each.licence,
                    "citation": each.citation,
                }
                for each in known
            }
        )
        return
    for each in known:
        here = "here" if datasets.is_local(each.name) else "to download"
        print(
            f"{each.name:<14}{each.entities:>7,} entities {each.relations:>4} relations {sum(each.triples):>8,} triples"
            f"   {here}\n{'':14}{each.summary}\n{'':14}licence: {each.licence}\n{'':14}{each.citation}"
        )


@data_app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="A name from `procrustes data`.")], as_json: Json = False
) -> None:
    """Download a dataset into the cache, unless it is there, and check it."""
    name = datasets.dataset(name).name
    if Path(name).exists():
        raise InputError(f"{name}: a file or folder here has this name and would be read instead; run this elsewhere")
    graph = read_with_bar(name)
    if as_json:
        counts = {"entities": len(graph.entities), "relations": len(graph.relations)}
        triples = {split: len(graph.split(split)) for split in SPLITS}
        print_json({"dataset": graph.name, "checksum": graph.checksum, **counts, "triples": triples})
        return
    print(graph.describe())
    for head, relation, tail in graph.train[:3].tolist():
        print(f"  {graph.entities.label(head)}  {graph.relations[relation]}  {graph.entities.label(tail)}")


@app.command()
@with_settings
def train(
    graph: Annotated[
        str, typer.Argument(help="A dataset's name, a file of triples, or a folder with train, valid and test files.")
    ] = datasets.DEFAULT,
    recipe_name: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            help=f"Settings to start from: {', '.join(OWN)}; or a baseline's: {', '.join(baseline_recipes())}.",
            show_default=f"{DEFAULT}, fitted to a minute unless --dim or --epochs is given",
        ),
    ] = None,
    time_budget: Annotated[
        str | None, typer.Option("--time", help="Time to fit the settings to, such as 60s or 10m.")
    ] = None,
    memory_budget: Annotated[
        str | None, typer.Option("--memory", help="Memory to fit the settings to, such as 4GB.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder to write.", show_default="runs/NAME")] = None,
    entities_only: Annotated[bool, typer.Option(help="Save entities alone; relations follow from them.")] = False,
    separator: Annotated[str | None, typer.Option(help="Between columns: tab, comma, space, or a character.")] = None,
    header: Annotated[bool | None, typer.Option(help="Whether the file's first line names the columns.")] = None,
    valid_share: Annotated[float, typer.Option("--valid", help="Share of one file's triples for validation.")] = 0.05,
    test_share: Annotated[float, typer.Option("--test", help="Share of one file's triples for the test.")] = 0.05,
    split_seed: Annotated[int, typer.Option(help="Draws that split: the same triples whatever --seed is.")] = 0,
    grid: Annotated[
        str | None, typer.Option(help="g CO2 per kWh, or a country such as FRA.", show_default="world")
    ] = None,
    as_json: Json = False,
    *,
    changes: dict[str, Any],
) -> None:
    """Learn vectors for a graph's entities, rank the test triples, and save a run folder.

    Examples: `procrustes train`, `procrustes train wn18rr --dim 500`, `procrustes train wn18rr --model rotate`,
    `procrustes train my-triples.csv --out runs/mine`
    """
    # What can be wrong without the graph is told before it is read, or downloaded.
    grid_intensity(grid)
    as_it_is = recipe_name is not None or changes.keys() & {"dim", "epochs"}  # what was asked for is not shortened
    seconds = parse_time(time_budget) if time_budget is not None else None if as_it_is else A_MINUTE
    memory = parse_size(memory_budget) if memory_budget is not None else None
    recipe_name = _recipe_name(changes.pop("model", None), recipe_name)
    if isinstance(recipe(recipe_name, **changes), TrainSettings):
        if time_budget is not None or memory_budget is not None:
            raise InputError("--time and --memory are for our own model; give --epochs or --dim with --model")
        if entities_only:
            raise InputError(
                "--entities-only is for our own model; a baseline's relations do not follow from its entities"
            )
        check_buildable(recipe_name, **changes)
    device = choose_device(changes.get("device", "auto"))
    if out is not None:
        check_target(out)
    source = read_with_bar(
        graph, separator=separator, header=header, valid=valid_share, test=test_share, seed=split_seed
    )
    folder = out or Path("runs", source.name or "graph")
    check_target(folder)
    say = say_nothing if as_json else say_line
    say(source.describe())
    for note in (*source.notes, *source.remarks()):
        say(f"  {note}")
    with warnings_as_notes(), measure(grid, device) as meter:
        settings = recipe(recipe_name, source, **changes)
        planned = None if isinstance(settings, TrainSettings) else plan(source, settings, seconds, memory)
        say(f"{recipe_name}: {planned or settings}")
        settings = planned.settings if planned else settings
        show = FitBar(settings)
        try:
            with show.bar:
                model = learn(source, settings, show)
        except DivergedError as error:
            kept = folder.with_name(f"{folder.name}-diverged") if folder.exists() else folder  # a good run stays
            save(error.model, kept, source, settings, {"diverged": str(error)})
            raise InputError(f"{error}; the last good weights are in {kept}") from None
    say(cost_line(meter.footprint, show.epochs))
    metrics = {split: rank_with_bar(model, source, split) for split in SPLITS[1:] if len(source.split(split))}
    for split, evaluation in metrics.items():
        say(f"{split:<6} {evaluation}")
    content = build_report(source, settings, show.epochs, metrics, meter.footprint, device, recipe_name)
    replaced = "   (in place of an earlier run)" if folder.exists() and any(folder.iterdir()) else ""
    save(model, folder, source, settings, content, relations=not entities_only)
    say(f"saved  {folder}{replaced}")
    if as_json:
        print_json(content)


def _recipe_name(model: str | None, name: str | None) -> str:
    """Return the recipe that is asked for: of a model, the one of the same name or another of its own."""
    if model is None:
        return name or DEFAULT
    model, asked = model.lower(), model  # papers and tables write capitals
    if model not in BASELINES:
        raise InputError(f"unknown model {asked!r}, expected {' or '.join(BASELINES)}")
    own = baseline_recipes(model)
    if name is not None and name not in own:
        raise InputError(f"--model {model} has no recipe {name}; give one of its own ({', '.join(own)}) or no --model")
    return name or model


@app.command("evaluate")
def evaluate_run(
    run: RunFolder,
    split: Annotated[str, typer.Option(help="Which triples to rank: train, valid or test.")] = "test",
    relations: Annotated[bool, typer.Option(help="Add a line per relation.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 or auto.")] = "auto",
    as_json: Json = False,
) -> None:
    """Rank the triples of a run's graph again: filtered, from both sides, ties count half.

    Example: `procrustes evaluate runs/wordnet-mini --relations`
    """
    opened = load_run(run)
    graph = _graph_of(opened, run)
    started = time.perf_counter()
    evaluation = rank_with_bar(opened.model.to(choose_device(device)), graph, split)
    seconds = time.perf_counter() - started
    if as_json:
        print_json(
            {"run": str(run), "dataset": graph.name, "seconds": seconds, "metrics": {split: evaluation.as_dict()}}
        )
        return
    print(graph.describe())
    print(f"{split:<6} {evaluation}")
    for view in ("tail", "head", "seen_only", "optimistic", "pessimistic"):
        print(f"  {view.replace('_', ' '):<12}{getattr(evaluation, view)}")
    if relations:
        for name, metrics in sorted(evaluation.relations.items(), key=lambda item: -item[1].count):
            print(f"  {metrics}   {metrics.count:,} ranks of {name}")
    print(f"ranked {len(graph.split(split)):,} triples in {seconds:.1f} s")


@app.command()
def predict(
    run: RunFolder,
    relation: Annotated[str, typer.Option("--relation", "-r", help="The relation's name.")],
    head: Annotated[str | None, typer.Option("--head", "-H", help="The head's name: asks for tails.")] = None,
    tail: Annotated[str | None, typer.Option("--tail", "-T", help="The tail's name: asks for heads.")] = None,
    count: Annotated[int, typer.Option("-k", "--count", help="How many answers.")] = 10,
    new: Annotated[bool, typer.Option(help="Leave out answers that the graph already holds.")] = False,
    as_json: Json = False,
) -> None:
    """Answer (head, relation, ?) or (?, relation, tail), best first; answers the graph holds are marked.

    Example: `procrustes predict runs/wordnet-mini --head dog.n.01 --relation hypernym -k 5`
    """
    if (head is None) == (tail is None):
        raise InputError("give either --head, to ask for tails, or --tail, to ask for heads")
    if count < 1:
        raise InputError(f"-k {count}, expected a whole number of at least 1")
    opened = load_run(run)
    model = opened.model
    entity = model.entities.id(head if head is not None else str(tail))
    question = model.relations.id(relation) + (0 if head is not None else len(model.relations))
    sources = _known_answers(opened.graph, entity, question)
    found = model.answers(entity, question, count + len(sources) if new else count)
    answers = [answer for answer in found if not (new and answer.name in sources)][:count]
    if as_json:
        print_json(
            {
                "relation": relation,
                "head" if head is not None else "tail": model.entities[entity],
                "answers": [{**answer._asdict(), "known": sources.get(answer.name)} for answer in answers],
            }
        )
        return
    for place, answer in enumerate(answers, start=1):
        readable = f"   {answer.label}" if answer.label != answer.name else ""
        mark = f"   ({sources[answer.name]})" if answer.name in sources else ""
        print(f"{place:>3}  {answer.score:8.3f}   {answer.name}{readable}{mark}")


@app.command("export")
def export_run(
    run: RunFolder,
    path: Annotated[Path, typer.Argument(help="The file to write.", show_default=False)],
    kind: Annotated[
        str | None, typer.Option("--format", help=f"One of {', '.join(EXPORTS)}.", show_default="by the path's suffix")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the entity vectors with their names, for other programs.

    npy is a matrix with the names in a .txt beside it; parquet has columns name and vector; word2vec is text.
    """
    model = load_run(run).model
    written = export(model, path, kind)
    if as_json:
        print_json(
            {
                "format": kind or SUFFIXES[path.suffix.lower()],
                "files": [str(file) for file in written],
                "shape": list(model.table.shape),
            }
        )
        return
    count, dim = model.table.shape
    print(f"wrote  {', '.join(map(str, written))}   {count:,} vectors of {dim:,} numbers")


@bench_app.command("speed")
def bench_speed(
    graph: Annotated[str, typer.Argument(help="A dataset's name, a file of triples, or a folder.")] = "wn18rr",
    device: Annotated[str, typer.Option(help="Cpu, cuda, cuda:1, or auto.")] = "auto",
    pykeen: Annotated[bool, typer.Option(help="Time the same work by PyKEEN too, where it is installed.")] = True,
    as_json: Json = False,
) -> None:
    """Time epochs, a training and ranking, beside the floor that this machine's bandwidth and arithmetic set.

    Example: `procrustes bench speed wordnet-mini --no-pykeen`
    """
    choose_device(device)
    source = read_with_bar(graph)
    rates, timings = speed(source, device, pykeen)
    say = say_nothing if as_json else say_line
    say(str(rates))
    say(Timing.heading())
    done = []
    for timing in timings:
        done.append(timing)
        say(str(timing))
    if as_json:
        print_json({"graph": source.name, "rates": asdict(rates), "timings": [each.as_dict() for each in done]})


@bench_app.command("table")
def bench_table(
    folder: Annotated[Path, typer.Option(help="Where the figures of each row are kept.")] = Path("results"),
    only: Annotated[
        list[str] | None, typer.Option(help="Rows alone that this names: a recipe, a dataset, or RECIPE-DATASET.")
    ] = None,
    just_print: Annotated[bool, typer.Option("--print", help="Train nothing: show the rows that are there.")] = False,
    device: Annotated[str, typer.Option(help="Cpu, cuda, cuda:1, or auto.")] = "auto",
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
    say = say_nothing if markdown or as_json else say_line
    with warnings_as_notes():
        for line in filled(todo, folder, device, commit(), read_with_bar, learn_with_bar) if todo else ():
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


def _graph_of(opened: Run, folder: Path) -> Graph:
    if opened.graph is None:
        raise InputError(f"{folder}: saved without its triples, so there is nothing to rank; save it with graph=…")
    return opened.graph


def _known_answers(graph: Graph | None, entity: int, question: int) -> dict[str, str]:
    """Return the answers of a question that the graph holds, each with its split."""
    if graph is None:
        return {}
    asks_head, relation = divmod(question, len(graph.relations))
    found = {}
    for split in SPLITS:
        triples = graph.split(split).flip(1) if asks_head else graph.split(split)
        answers = triples[(triples[:, 0] == entity) & (triples[:, 1] == relation), 2]
        found.update({graph.entities[answer]: split for answer in answers.tolist()})
    return found
