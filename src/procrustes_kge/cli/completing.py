"""What the shell offers after a tab: run folders, and entities and relations of the run that was named before.

A tab must not wait: names are read from the run's files, and PyTorch is not loaded.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import no_type_check

import typer

from procrustes_kge.system.files import names_in

MOST = 200  # that a shell lists without asking
RUNS = "runs"


def runs(incomplete: str) -> list[str]:
    """Return run folders that begin so, in the folder that is named or in `runs`; else folders that may hold some."""
    places = [incomplete] if os.sep in incomplete else [f"{RUNS}{os.sep}{incomplete}", incomplete]
    found = [each for place in places for each in _folders(place)]
    ours = [each for each in found if (Path(each) / "model.safetensors").is_file()]
    return ours or [each + os.sep for each in found]


def _folders(begun: str) -> list[str]:
    folder, name = os.path.split(begun)
    try:
        names = sorted(
            each.name for each in os.scandir(folder or ".") if each.is_dir() and not each.name.startswith(".")
        )
    except OSError:
        return []
    return [os.path.join(folder, each) for each in names if each.startswith(name)]  # noqa: PTH118  # as it was typed


@no_type_check  # typer asks for this type
def entities(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return entities of the run that begin so, by name or by label."""
    return _named(_run(context), "entities.txt", "labels.json", incomplete)


@no_type_check
def relations(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return relations of the run that begin so, by name or by label."""
    return _named(_run(context), "relations.txt", "relation_labels.json", incomplete)


@no_type_check
def _run(context: typer.Context) -> Path | None:
    """Return the run that was typed; behind a flag without its value it is not yet taken for an argument."""
    return context.params.get("run") or next(map(Path, context.args), None)


def _named(run: Path | None, names: str, labels: str, incomplete: str) -> list[tuple[str, str]]:
    """Return names, each with its label, or labels with their names; a space is typed as _, for a shell cuts there."""
    found = list[tuple[str, str]]()
    begun = _typed(incomplete)
    for name, label in () if run is None else _read(run, names, labels):
        if len(found) == MOST:
            break
        for text, beside in ((name, label), (label, name)):
            if text and _typed(text).startswith(begun):
                found.append((_typed(text), beside))
                break
    return found


def _typed(text: str) -> str:
    """Return a name as it may be typed in a shell."""
    return text.replace(" ", "_")


def _read(run: Path, names: str, labels: str) -> Iterator[tuple[str, str]]:
    try:
        listed = names_in((run / names).read_bytes(), names)
        known = json.loads((run / labels).read_bytes()) if (run / labels).is_file() else {}
    except (OSError, ValueError):
        return
    yield from ((name, str(known.get(name, ""))) for name in listed)
