"""procrustes report: one page about one run or several."""

from pathlib import Path
from typing import Annotated

import typer

from procrustes_kge.cli.app import Json, new_verb
from procrustes_kge.cli.terminal import print_json
from procrustes_kge.figures.report import check_count, report as written
from procrustes_kge.runs.store import load_run
from procrustes_kge.words import counted

OUT = Path("report.html")

verb = new_verb()


@verb.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders written by `procrustes train`.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = OUT,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that was not written by `report`.")] = False,
    as_json: Json = False,
) -> None:
    """Write a page about runs, several side by side: graph, settings, curves, ranks, cost, map, relations, answers.

    The page is one file, which opens without a network and prints well.

    Examples:

        procrustes report runs/wordnet-mini
        procrustes report runs/wordnet-mini runs/wordnet-mini-fast --out both.html
    """
    check_count(runs)
    path = written([load_run(run) for run in runs], out, force)
    size = path.stat().st_size
    if as_json:
        print_json({"page": str(path), "bytes": size, "runs": [str(run) for run in runs]})
        return
    print(f"wrote  {path}   {counted(len(runs), 'run')}, {size / 1e6:.1f} MB")
