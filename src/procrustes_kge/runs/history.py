"""What was changed in a run after its training, and what it was before: each change can be undone, the last one first.

history.json                  a list of changes: when, how many triples, which entities, the checksums of files
before-000001.safetensors     what the first change replaced: rows of tables, or files, that are not as they were

A change is written as any save is: the folder is the old run or the new one. Undone, every file has the bytes that it
had; only the manifest has another id.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from procrustes_kge.errors import DamagedFolderError, InputError, in_one_line
from procrustes_kge.runs.contents import BEFORE, FORMAT, HISTORY, KIND, check, check_history, contents_of, write
from procrustes_kge.runs.experiment import Run
from procrustes_kge.runs.store import check_target, opened, put
from procrustes_kge.runs.tensors import read_tensors, write_tensors
from procrustes_kge.system.durable import locked
from procrustes_kge.system.files import parsed_json, write_json
from procrustes_kge.system.sealed import DamagedError, Entry, Sealed, entry_of, seal
from procrustes_kge.validation import check_entries

MOST = 100  # changes that can be undone; of older ones, what was before is forgotten
ABOUT, TENSORS = "about", ".safetensors"
OF_FILE = {"bytes": int, "sha256": str, "how": str}
SAME, START, WHOLE, TABLES = "same", "start", "whole", "tables"  # how a file is had again
Entries = list[dict[str, Any]]


def changes(folder: str | Path) -> Entries:
    """Return the changes of a run after its training, the first one first."""
    return _entries(opened(Path(folder)))


def save_change(run: Run, source: str | Path, target: str | Path, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Save a changed run, with what its folder `source` held before, and return the entry of its history.

    The target may be the source itself.
    """
    check_target(target, changed=Path(target).resolve() == Path(source).resolve())
    place = Path(target).resolve()
    with locked(place):
        sealed = opened(Path(source))
        entries = _entries(sealed)
        number = 1 + max((each["number"] for each in entries), default=0)
        done = {"number": number, **entry}
        contents = contents_of(run)
        try:
            check(contents)
        except ValueError as error:
            raise InputError(f"{target}: not saved, since it could not be loaded ({in_one_line(error)})") from error

        def fill(fresh: Path) -> None:
            write(contents, fresh)
            write_json(fresh / HISTORY, {"changes": [*entries, done]})
            kept = [name for name in sealed.manifest.files if BEFORE.fullmatch(name) and _number(name) > number - MOST]
            for name in kept:
                _link(sealed, name, fresh)
            write_tensors(_before(sealed, fresh), fresh / _name(number))
            seal(fresh, KIND, FORMAT)

        with _explained(f"{source}: what it was cannot be kept"):
            put(place, fill)
    return done


def undo(folder: str | Path) -> dict[str, Any]:
    """Make a run what it was before its last change, bit for bit; return the entry of the change that is undone."""
    check_target(folder, changed=True)
    place = Path(folder).resolve()
    with locked(place):
        sealed = opened(Path(folder))
        entries = _entries(sealed)
        if not entries:
            raise InputError(f"{folder}: nothing to undo, it was not changed since its training")
        last = entries[-1]
        name = _name(last["number"])
        if name not in sealed:
            raise InputError(f"{folder}: change {last['number']} is too long ago to undo; the last {MOST} can be")
        with _explained(f"{folder}: change {last['number']} cannot be undone"):
            tensors = read_tensors(sealed, name)
            about = parsed_json(_bytes(tensors.pop(ABOUT)), name)
            _check_about(about)
            put(place, lambda fresh: _restore(sealed, about, tensors, fresh))
    return last


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Let what is wrong with a file of the folder end in a sentence."""
    try:
        yield
    except InputError:
        raise
    except (ValueError, LookupError, TypeError, RuntimeError) as error:
        reason = in_one_line(error)
        raise DamagedFolderError(f"{what} ({reason}); restore the run from a copy", reason) from error


def _restore(sealed: Sealed, about: Mapping[str, Any], tensors: Mapping[str, Tensor], fresh: Path) -> None:
    """Write the files of the run before; each is compared with the checksum that it had."""
    for name, of_file in about["files"].items():
        how, path = of_file["how"], fresh / name
        if BEFORE.fullmatch(name) and name not in sealed:
            continue  # forgotten since
        if how == SAME:
            _link(sealed, name, fresh)
        elif how == START:
            path.write_bytes(sealed.read(name)[: of_file["bytes"]])
        elif how == WHOLE:
            path.write_bytes(_bytes(tensors[name]))
        else:
            write_tensors(_tables(read_tensors(sealed, name), name, of_file["tables"], tensors), path)
        if entry_of(path) != Entry(of_file["bytes"], of_file["sha256"]):
            raise DamagedError(f"{name} would not be what it was")
    seal(fresh, KIND, about["format"])


def _before(sealed: Sealed, fresh: Path) -> dict[str, Tensor]:
    """Return what it takes to have the files of a folder again, given those of the fresh one."""
    found, files = dict[str, Tensor](), dict[str, Any]()
    for name, (entry, *_) in sealed.manifest.files.items():
        known, path = {"bytes": entry.bytes, "sha256": entry.sha256}, fresh / name
        if BEFORE.fullmatch(name) and not path.exists():
            continue  # forgotten
        if path.exists() and entry_of(path) == entry:
            files[name] = known | {"how": SAME}
        elif path.exists() and name.endswith(TENSORS):
            tables, kept = _changed_tables(name, read_tensors(sealed, name), _loaded(path))
            files[name] = known | {"how": TABLES, "tables": tables}
            found |= kept
        else:
            old = sealed.read(name)
            starts = path.exists() and path.read_bytes()[: len(old)] == old
            files[name] = known | {"how": START if starts else WHOLE}
            if not starts:
                found[name] = torch.from_numpy(np.frombuffer(bytearray(old), dtype=np.uint8))
    text = json.dumps({"format": sealed.manifest.format, "files": files}).encode()
    return found | {ABOUT: torch.frombuffer(bytearray(text), dtype=torch.uint8)}


def _changed_tables(
    file: str, old: Mapping[str, Tensor], new: Mapping[str, Tensor]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return how each table of a file is had again, and the rows, or whole tables, that it takes."""
    how, kept = dict[str, Any](), dict[str, Tensor]()
    for name, table in old.items():
        key, other = f"{file}/{name}", new.get(name)
        rows = None if other is None else _different_rows(table, other)
        if rows is None:
            how[name], kept[key] = WHOLE, table
            continue
        how[name] = len(table)
        if len(rows):
            kept[f"{key}/rows"], kept[key] = rows, table[rows]
    return how, kept


def _different_rows(old: Tensor, new: Tensor) -> Tensor | None:
    """Return the rows of a table that are not the same in the new one; None where all of it has to be kept."""
    alike = old.ndim > 0 and old.ndim == new.ndim and old.shape[1:] == new.shape[1:] and old.dtype == new.dtype
    if not alike or len(new) < len(old):
        return None
    ours, theirs = (table[: len(old)].flatten(1) if table.ndim > 1 else table[: len(old), None] for table in (old, new))
    same = (ours.contiguous().view(torch.uint8) == theirs.contiguous().view(torch.uint8)).all(dim=1)
    rows = torch.nonzero(~same).flatten()
    return rows if 2 * len(rows) <= len(old) else None


def _tables(
    now: Mapping[str, Tensor], file: str, how: Mapping[str, Any], kept: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the tables of a file as they were."""
    found = {}
    for name, way in how.items():
        key = f"{file}/{name}"
        if way == WHOLE:
            found[name] = kept[key]
            continue
        table = now[name][:way].clone()
        if key in kept:
            table[kept[f"{key}/rows"]] = kept[key]
        found[name] = table
    return found


def _loaded(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return load_file(path)


def _link(sealed: Sealed, name: str, fresh: Path) -> None:
    """Put a file into the fresh folder too: not copied where the system can link, as no file is written to again."""
    with sealed.open(name) as file:
        file.skip()  # compared with its checksum
    try:
        os.link(sealed.folder / name, fresh / name)
    except OSError:
        shutil.copyfile(sealed.folder / name, fresh / name)


def _bytes(table: Tensor) -> bytes:
    if table.dtype is not torch.uint8:
        raise ValueError(f"bytes are {str(table.dtype).removeprefix('torch.')}, expected uint8")
    return bytes(table.numpy())


def _entries(sealed: Sealed) -> Entries:
    if HISTORY not in sealed:
        return []
    try:
        found = parsed_json(sealed.read(HISTORY), HISTORY)
        check_history(found)
    except (OSError, ValueError) as error:
        reason = in_one_line(error)
        raise DamagedFolderError(f"{sealed.folder}: damaged ({reason}); restore it from a copy", reason) from error
    entries: Entries = found["changes"]
    return entries


def _check_about(about: Mapping[str, Any]) -> None:
    check_entries(about, {"format": int, "files": dict}, "the change")
    for name, of_file in about["files"].items():
        own = OF_FILE | ({"tables": dict} if of_file.get("how") == TABLES else {})
        check_entries(of_file, own, "a file of the change")
        if Path(name).name != name or of_file["how"] not in (SAME, START, WHOLE, TABLES):
            raise ValueError("the change has a file that is none")
        if not all(way == WHOLE or (type(way) is int and way >= 0) for way in of_file.get("tables", {}).values()):
            raise ValueError("the change has a table that is none")


def _name(number: int) -> str:
    return f"before-{number:06}{TENSORS}"


def _number(name: str) -> int:
    return int(name.removeprefix("before-").removesuffix(TENSORS))
