"""Files that this package writes into a folder of the user's, told from the user's own.

A hidden file in the folder, `.procrustes.json`, records the checksum of each when it was written. A file that has
another now, because it was edited or replaced, is the user's: nothing replaces or deletes it unless the user insists.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from procrustes_kge.errors import InputError
from procrustes_kge.system.durable import checksum
from procrustes_kge.system.files import read_json, write_json

RECORD = ".procrustes.json"


def put_in_place(fresh: Mapping[Path, Path | None], scratch: Path, remedy: str, insist: bool = False) -> None:
    """Move fresh files to their places in one folder, all of them or none; None stands for a file that must not be.

    They belong to the first of them: what an earlier export of that name wrote beside it goes, and no other replaces
    them. What is not ours to replace is refused, with the remedy, unless the caller insists. `scratch` is a folder on
    the same file system.
    """
    first, *_ = fresh
    folder, record = first.parent, _recorded(first.parent)
    for place in fresh:
        beside = f"goes with {first.name}, but " if place != first else ""
        if place.exists() and not place.is_file():
            seen = "is a folder" if place.is_dir() else "is a device or a pipe, not a file"
            raise InputError(f"{place}: {beside}{seen}; choose another name")
        problem = _problem(place, first.name, record)
        if problem and not insist:
            raise InputError(f"{place}: {beside}{problem}; {remedy}")
    earlier = [folder / name for name, known in record.items() if known["belongs_to"] == first.name]
    stale = [place for place in earlier if place not in fresh and not _problem(place, first.name, record)]
    changes = {**fresh, **dict.fromkeys(stale)}
    for place, file in changes.items():
        record.pop(place.name, None)
        if file is not None:
            record[place.name] = {"belongs_to": first.name, "sha256": checksum(file)}
    write_json(scratch / RECORD, record)
    _swap({**changes, folder / RECORD: scratch / RECORD}, scratch)


def check_replaceable(place: Path, remedy: str) -> None:
    """Refuse a file that is not ours to replace, before any work is done."""
    if problem := _problem(place, place.name, _recorded(place.parent)):
        raise InputError(f"{place}: {problem}; {remedy}")


def _problem(place: Path, owner: str, record: Mapping[str, Any]) -> str | None:
    """Return in words why a file may not be replaced."""
    if not (place.exists() or place.is_symlink()):
        return None
    known = record.get(place.name)
    if known is None:
        return "is there already and was not written by procrustes"
    if not place.is_file() or checksum(place) != known["sha256"]:
        return "was changed since procrustes wrote it"
    if known["belongs_to"] != owner and place.with_name(known["belongs_to"]).exists():
        return f"belongs to {known['belongs_to']}, which was written with it"
    return None


def _recorded(folder: Path) -> dict[str, Any]:
    """Return what is recorded in a folder; a record that is damaged knows no file."""
    try:
        record = read_json(folder / RECORD)
    except (OSError, ValueError):
        return {}
    wanted = {"belongs_to", "sha256"}
    return {name: known for name, known in record.items() if isinstance(known, dict) and known.keys() == wanted}


def _swap(changes: Mapping[Path, Path | None], scratch: Path) -> None:
    """Put each file in its place; a failure puts back what was there."""
    aside = scratch / "aside"
    aside.mkdir()
    with ExitStack() as undo:
        for place, file in changes.items():
            undo.callback(_put_back, place, aside / place.name, file)
            if place.exists() or place.is_symlink():
                place.rename(aside / place.name)
            if file is not None:
                file.rename(place)
        undo.pop_all()


def _put_back(place: Path, old: Path, file: Path | None) -> None:
    if old.exists() or old.is_symlink():
        old.replace(place)
    elif file is not None and not file.exists():
        place.unlink(missing_ok=True)
