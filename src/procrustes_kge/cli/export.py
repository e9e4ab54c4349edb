"""procrustes export: the entity vectors for other programs."""

from pathlib import Path
from typing import Annotated

import typer

from procrustes_kge.cli.app import Json, RunFolder, new_verb
from procrustes_kge.cli.terminal import print_json
from procrustes_kge.runs.export import EXPORTS, SUFFIXES, export
from procrustes_kge.runs.store import load_run

verb = new_verb()


@verb.command("export")
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
    written = [str(file) for file in export(model, path, kind)]
    count, dim = model.table.shape
    if as_json:
        print_json({"format": kind or SUFFIXES[path.suffix.lower()], "files": written, "shape": [count, dim]})
    else:
        print(f"wrote  {', '.join(written)}   {count:,} vectors of {dim:,} numbers")
