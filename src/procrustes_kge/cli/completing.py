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
    return _named(context.params.get("run"), "entities.txt", "labels.json", incomplete)


@no_type_check
def relations(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return relations of the run that begin so, by name, by label or by the last part of an IRI."""
    return _named(context.params.get("run"), "relations.txt", "relation_labels.json", incomplete)


def _named(run: Path | str | None, names: str, labels: str, incomplete: str) -> list[tuple[str, str]]:
    """Return names with their labels; a space is typed as _, which is forgiven, for a shell would cut there."""
    if run is None:
        return []
    found = list[tuple[str, str]]()
    for name, label in _read(Path(run), names, labels):
        if len(found) == MOST:
            break
        begun = incomplete.lower().replace("_", " ")
        if any(text.lower().replace("_", " ").startswith(begun) for text in (name, label) if text):
            found.append((name.replace(" ", "_"), label))
    return found


def _read(run: Path, names: str, labels: str) -> Iterator[tuple[str, str]]:
    try:
        listed = names_in((run / names).read_bytes(), names)
        known = json.loads((run / labels).read_bytes()) if (run / labels).is_file() else {}
    except (OSError, ValueError):
        return
    yield from ((name, str(known.get(name, ""))) for name in listed)
