"""procrustes check: whether a run folder, or a training that was stopped, is as it was saved."""

from pathlib import Path
from typing import Annotated

import typer

from procrustes_kge.cli.app import Json, new_verb
from procrustes_kge.cli.terminal import print_json
from procrustes_kge.runs.examining import RUN, UNFINISHED, Verdict, examine
from procrustes_kge.words import counted

verb = new_verb()


@verb.command()
def check(
    run: Annotated[
        Path, typer.Argument(help="A run folder, a training that was stopped, or a checkpoint.", show_default=False)
    ],
    as_json: Json = False,
) -> None:
    """Compare every file with its checksum, and what the files hold with each other.

    It ends with 0 where all is sound, with 1 where something is damaged, and with 2 where there is nothing to check.

    Examples:

        procrustes check runs/wordnet-mini
        procrustes check runs/my-triples.unfinished
    """
    found = examine(run)
    if as_json:
        names = ("kind", "sound", "files", "bytes", "problems", "others", "whole")
        about = {name: getattr(found, name) for name in names}
        print_json({"folder": str(found.folder), **about, "scratch": [str(each) for each in found.scratch]})
    else:
        print("\n".join(_lines(found)))
    if not found.sound:
        raise typer.Exit(1)


def _lines(found: Verdict) -> list[str]:
    lines = [f"{found.folder}   a {found.kind}, {counted(found.files, 'file')}, {found.bytes / 1e6:,.1f} MB"]
    lines += [f"damaged  {said}" for said in found.problems.values()]
    lines += [f"other    {name}: no part of it; nothing of ours reads or replaces it" for name in found.others]
    lines += [
        f"left     {path}: by a process that was killed; the next to write there deletes it" for path in found.scratch
    ]
    return [*lines, f"{'sound' if found.sound else 'to do':<9}{_ending(found)}"]


def _ending(found: Verdict) -> str:
    """Return what follows from a verdict."""
    if found.sound:
        return "every file is as it was saved, and they belong together"
    if found.kind == UNFINISHED and found.whole and "job" not in {name.split("/")[0] for name in found.problems}:
        return f"`procrustes resume {found.folder}` goes on from what is whole"
    return f"restore it from a copy{', or train again' if found.kind in (RUN, UNFINISHED) else ''}"
