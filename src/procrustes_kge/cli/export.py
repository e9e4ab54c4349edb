"""procrustes export: what a model learned, for other programs."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.progress import BarColumn, TaskProgressColumn, TextColumn

from procrustes_kge.cli.app import Json, RunFolder, new_verb
from procrustes_kge.cli.terminal import TimeLeft, print_json, progress_bar
from procrustes_kge.errors import InputError
from procrustes_kge.explore.missing.missing import search_for
from procrustes_kge.runs.exchange.content import Predicted
from procrustes_kge.runs.exchange.neo4j import import_command
from procrustes_kge.runs.export import EXPORTS, PREDICTIONS, check_export, export, exported_tables
from procrustes_kge.runs.saved import SavedRun
from procrustes_kge.runs.store import load_run
from procrustes_kge.words import counted, either, listed

RDF = 1000  # predicted triples, unless another number is asked for

verb = new_verb()


@verb.command("export")
def export_run(
    run: RunFolder,
    path: Annotated[Path, typer.Argument(help="The file to write.", show_default=False)],
    kind: Annotated[
        str | None, typer.Option("--format", help=f"{either(EXPORTS)}.", show_default="by the suffix of PATH")
    ] = None,
    what: Annotated[
        Literal["entities", "relations"], typer.Option(help="Entity vectors, or rotations of relations.")
    ] = "entities",
    predictions: Annotated[
        int | None,
        typer.Option(help="For RDF and Neo4j: how many predicted triples.", show_default=f"{RDF:,} as RDF, else 0"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that were not written by `export`.")] = False,
    as_json: Json = False,
) -> None:
    """Write entity vectors or relation rotations, with their names, for other programs.

    npy is a NumPy table, with the names in a .txt file beside it; parquet has the columns name and vector; word2vec is
    text. If the relations also have scales and translations, those go into further .npy files or further columns. neo4j
    has the graph too; turtle and ntriples are the likeliest triples that the graph does not hold, with how likely each
    is.

    Examples:

        procrustes export runs/wordnet-mini vectors.parquet
        procrustes export runs/wordnet-mini rotations.npy --what relations
        procrustes export runs/wordnet-mini predicted.ttl --predictions 500
    """
    kind = check_export(path, kind)
    count = _wanted(kind, predictions)
    opened = load_run(run)
    found = _predicted(opened, count)
    files = export(opened.model, path, kind, what, force, opened.graph, found)
    written = [str(file) for file in files]
    if kind in PREDICTIONS and kind != "neo4j":
        _say_predicted(written, kind, found, as_json)
        return
    shapes = {name: list(table.shape) for name, table in exported_tables(opened.model, what).items()}
    (rows, *shape), *_ = shapes.values()
    if as_json:
        print_json({"what": what, "format": kind, "files": written, "shape": [rows, *shape]})
    elif what == "entities":
        print(f"wrote  {', '.join(written)}   {counted(rows, 'vector')} of dimension {shape[0]:,}")
        if kind == "neo4j":
            print(f"load it with  {import_command(*files)}")
    else:
        each = ", ".join(f"{name.replace('_', ' ')} {' × '.join(map(str, own))}" for name, (_, *own) in shapes.items())
        print(f"wrote  {', '.join(written)}   {counted(rows, 'relation')}: {each}")


def _wanted(kind: str, predictions: int | None) -> int:
    """Return how many predicted triples are written."""
    if predictions is None:
        return RDF if kind in PREDICTIONS and kind != "neo4j" else 0
    if kind not in PREDICTIONS:
        raise InputError(f"--predictions {predictions}: {kind} holds none; {listed(PREDICTIONS)} do")
    if predictions < 0 or (predictions == 0 and kind != "neo4j"):
        raise InputError(f"--predictions {predictions}, expected a whole number of at least 1")
    return predictions


def _predicted(run: SavedRun, count: int) -> list[Predicted]:
    """Return the likeliest triples that the graph does not hold, best first."""
    if not count:
        return []
    search = search_for(run.model, run.graph, k=count, calibration=run.calibration)
    columns = TextColumn("searching"), BarColumn(), TaskProgressColumn(), TimeLeft()
    with progress_bar(*columns) as bar:
        task = bar.add_task("", total=1.0)
        best = search.run(progress=lambda share: bar.update(task, completed=share))
    rows = zip(best.triples.tolist(), best.scores.tolist(), best.keys.tolist(), strict=True)
    probable = run.calibration is not None
    return [
        Predicted(head, relation, tail, score, key if probable else None) for (head, relation, tail), score, key in rows
    ]


def _say_predicted(written: list[str], kind: str, found: list[Predicted], as_json: bool) -> None:
    probable = bool(found) and found[0].probability is not None
    about: dict[str, Any] = {"what": "predictions", "format": kind, "files": written, "probabilities": probable}
    if as_json:
        print_json({**about, "triples": len(found)})
        return
    told = "their probabilities and scores" if probable else "their scores: the run has no probabilities, see calibrate"
    print(f"wrote  {', '.join(written)}   {counted(len(found), 'predicted triple')} with {told}")
