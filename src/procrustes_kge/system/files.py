"""Files that are written whole or not at all, and errors that explain why one cannot be written."""

import json
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from procrustes_kge.errors import InputError
from procrustes_kge.system.durable import put_back, put_file, short_name
from procrustes_kge.system.marks import PATTERN, is_dead, own_mark


def nearest_folder(target: Path) -> Path:
    """Return the innermost of the target's parents that exists."""
    return next(parent for parent in target.absolute().parents if parent.exists())


def is_folder(path: Path) -> bool:
    """Say whether a path is a folder itself, and no link to one."""
    return path.is_dir() and not path.is_symlink()


@contextmanager
def scratch_folder(target: Path) -> Iterator[Path]:
    """Give a folder on the target's file system to write in, gone afterwards whatever happens.

    Its name has the mark of this process. What processes that were killed have left for the same target is deleted.
    """
    with explain_write_errors(target):
        remove_stale_scratch(target)
        scratch = Path(tempfile.mkdtemp(prefix=f".{short_name(target)}-{own_mark()}-", dir=nearest_folder(target)))
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def stale_scratch(target: Path) -> list[Path]:
    """Return the scratch folders for a target whose process has ended."""
    return stale_within(nearest_folder(target), re.escape(short_name(target)))


def stale_within(folder: Path, name: str = ".+") -> list[Path]:
    """Return the scratch folders in a folder whose process has ended, for targets of any name or of one pattern."""
    ours = re.compile(rf"\.{name}-{PATTERN}-\w+")
    found = ((each, ours.fullmatch(each.name)) for each in folder.iterdir())
    return [each for each, mark in found if mark and is_dead(*mark.groups())]


def remove_stale_scratch(target: Path) -> None:
    """Delete the scratch folders for a target whose process has ended; a warning names them."""
    for each in stale_scratch(target):
        warnings.warn(f"{each}: left by a process that was killed while it wrote {target}; deleted", stacklevel=2)
        put_back(each, target)
        shutil.rmtree(each, ignore_errors=True)


@contextmanager
def explain_write_errors(target: Path) -> Iterator[None]:
    """Turn a failure to write into a one-sentence error: a full disk, a protected folder, a name that is too long."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{target}: cannot be written ({reason}); choose another place, or fix this one") from error


@contextmanager
def explain_read_errors() -> Iterator[None]:
    """Turn what keeps the system from reading a file into a sentence that names it."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        reason = error.strerror or error
        raise InputError(f"{error.filename}: cannot be read ({reason}); check its name and permissions") from error


def read_json(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds; anything else is a ValueError that names the file."""
    return parsed_json(path.read_bytes(), path.name)


def parsed_json(text: bytes, name: str) -> dict[str, Any]:
    """Return the object that JSON stands for; anything else is a ValueError that names the file."""
    try:
        content = json.loads(text.decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    except RecursionError:
        raise ValueError(f"{name}: brackets within brackets, too many to read") from None
    if not isinstance(content, dict):
        raise ValueError(f"{name} holds a {type(content).__name__}, expected an object")
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object as JSON that people can read too."""
    # Half a surrogate pair, which UTF-8 has no bytes for, becomes \udXXX, which JSON reads as the same half.
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_json_atomically(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object as JSON, in a folder made where it is missing; the file is there whole or not at all."""
    with scratch_folder(path) as scratch:
        fresh = scratch / path.name
        write_json(fresh, content)
        path.parent.mkdir(parents=True, exist_ok=True)
        put_file(fresh, path)


_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_MEANT = {escaped: mark for mark, escaped in _ESCAPES.items()}


def write_names(path: Path, names: Iterable[str]) -> None:
    """Write a name per line; a line break inside a name becomes \\n, and a backslash is doubled."""
    lines = (re.sub(r"[\\\n\r]", lambda mark: _ESCAPES[mark[0]], name) + "\n" for name in names)
    path.write_text("".join(lines), encoding="utf-8", errors="surrogatepass", newline="")


def names_in(text: bytes, name: str) -> list[str]:
    """Return the names in a text that `write_names` wrote; a ValueError names the file."""
    try:
        *lines, end = text.decode("utf-8", "surrogatepass").split("\n")
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    if end:
        raise ValueError(f"{name} does not end with its last line")
    return [re.sub(r"\\[\\nr]", lambda mark: _MEANT[mark[0]], line) if "\\" in line else line for line in lines]
