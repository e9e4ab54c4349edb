"""procrustes export: what a model learned, for other programs."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from procrustes_kge.cli.app import Json, RunFolder, new_verb
from procrustes_kge.cli.terminal import print_json
from procrustes_kge.runs.export import EXPORTS, SUFFIXES, export, exported_tables
from procrustes_kge.runs.store import load_run
from procrustes_kge.words import counted, either

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
    force: Annotated[bool, typer.Option("--force", help="Replace files that were not written by `export`.")] = False,
    as_json: Json = False,
) -> None:
    """Write entity vectors or relation rotations, with their names, for other programs.

    npy is a NumPy table, with the names in a .txt file beside it; parquet has the columns name and vector; word2vec is
    text. If the relations also have scales and translations, those go into further .npy files or further columns.

    Examples:

        procrustes export runs/wordnet-mini vectors.parquet
        procrustes export runs/wordnet-mini rotations.npy --what relations
    """
    model = load_run(run).model
    written = [str(file) for file in export(model, path, kind, what, force)]
    shapes = {name: list(table.shape) for name, table in exported_tables(model, what).items()}
    (count, *shape), *_ = shapes.values()
    if as_json:
        found = kind or SUFFIXES[path.suffix.lower()]
        print_json({"what": what, "format": found, "files": written, "shape": [count, *shape]})
    elif what == "entities":
        print(f"wrote  {', '.join(written)}   {counted(count, 'vector')} of dimension {shape[0]:,}")
    else:
        each = ", ".join(f"{name.replace('_', ' ')} {' × '.join(map(str, own))}" for name, (_, *own) in shapes.items())
        print(f"wrote  {', '.join(written)}   {counted(count, 'relation')}: {each}")
