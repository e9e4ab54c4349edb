"""procrustes export: what a model learned, for other programs."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from procrustes_kge.cli.app import Json, RunFolder, new_verb
from procrustes_kge.cli.terminal import print_json
from procrustes_kge.runs.export import EXPORTS, SUFFIXES, export, exported_tables
from procrustes_kge.runs.store import load_run

verb = new_verb()


@verb.command("export")
def export_run(
    run: RunFolder,
    path: Annotated[Path, typer.Argument(help="The file to write.", show_default=False)],
    kind: Annotated[
        str | None, typer.Option("--format", help=f"One of {', '.join(EXPORTS)}.", show_default="by the path's suffix")
    ] = None,
    what: Annotated[
        Literal["entities", "relations"], typer.Option(help="Vectors of entities, or rotations of relations.")
    ] = "entities",
    force: Annotated[bool, typer.Option("--force", help="Replace files that `export` did not write.")] = False,
    as_json: Json = False,
) -> None:
    """Write entity vectors, or the rotations of relations, with their names, for other programs.

    npy is a table with the names in a .txt beside it; parquet has columns name and vector; word2vec is text.
    Rotations come with scales and translations where the model has them: in files beside the npy, or as columns.
    """
    model = load_run(run).model
    written = [str(file) for file in export(model, path, kind, what, force)]
    shapes = {name: list(table.shape) for name, table in exported_tables(model, what).items()}
    (count, *shape), *_ = shapes.values()
    if as_json:
        found = kind or SUFFIXES[path.suffix.lower()]
        print_json({"what": what, "format": found, "files": written, "shape": [count, *shape]})
    elif what == "entities":
        print(f"wrote  {', '.join(written)}   {count:,} vectors of {shape[0]:,} numbers")
    else:
        each = ", ".join(f"{name.replace('_', ' ')} {' × '.join(map(str, own))}" for name, (_, *own) in shapes.items())
        print(f"wrote  {', '.join(written)}   {count:,} relations: {each}")
