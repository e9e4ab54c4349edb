"""Folders that know themselves: a manifest, written last, has the size and the checksum of every file.

    {"format": 5, "kind": "run", "id": "…", "files": {"settings.json": {"bytes": 812, "sha256": "…"}, …}, "sha256": "…"}

A file is compared with the manifest as it is read, from one and the same handle: what passes is what is used. While a
file is being replaced, `was` in its entry has what it was before, so that the folder is whole at every moment.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import stat
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO, FileIO
from pathlib import Path
from typing import Any

from procrustes_kge.system.durable import put_file
from procrustes_kge.system.files import parsed_json, scratch_folder, write_json

MANIFEST = "manifest.json"
LARGEST_MANIFEST, MOST_FILES = 2**22, 10_000
AT_ONCE = 2**22  # bytes that are read, then summed while they are in a core's cache


class DamagedError(ValueError):
    """A folder, or a file in it, is not what it should be."""


@dataclass(frozen=True)
class Entry:
    """What is known of a file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a folder holds: for each file its entry, and while it is being replaced the one before."""

    format: int
    kind: str
    id: str  # of this save: another save of the same run has another
    files: Mapping[str, tuple[Entry, ...]]

    def as_json(self) -> dict[str, Any]:
        """Return the manifest as it is written, with a checksum of its own."""
        files = {name: _as_json(*entries) for name, entries in self.files.items()}
        content = {"format": self.format, "kind": self.kind, "id": self.id, "files": files}
        return content | {"sha256": _sum_of(content)}


def seal(folder: Path, kind: str, format: int, known: Mapping[str, Entry] | None = None) -> None:
    """Write the manifest of a folder whose other files are complete; `known` ones are not read again."""
    known = known or {}
    names = sorted(file.name for file in folder.iterdir() if file.name != MANIFEST)
    files = {name: (known.get(name) or entry_of(folder / name),) for name in names}
    write_json(folder / MANIFEST, Manifest(format, kind, uuid.uuid4().hex, files).as_json())


def replace(folder: Path, name: str, write: Callable[[Path], None]) -> None:
    """Replace a file of a sealed folder, or add one, by what `write` writes to a path.

    At every moment the file is what the manifest says, for readers and after a crash: first the manifest has the sums
    of both, then the file is replaced, then the old one is forgotten. A new file is there before the manifest has it.
    The caller holds the lock of the folder.
    """
    manifest = read_manifest(folder)
    with scratch_folder(folder) as scratch:
        now = entry_of(folder / name) if name in manifest.files else None
        if now is not None and now not in manifest.files[name]:
            raise DamagedError(f"{name} was changed or damaged since it was written: its checksum is another")
        write(scratch / name)
        fresh = entry_of(scratch / name)

        def announce(*entries: Entry) -> None:
            files = {**manifest.files, name: entries}
            write_json(scratch / MANIFEST, dataclasses.replace(manifest, files=files).as_json())
            put_file(scratch / MANIFEST, folder / MANIFEST)

        if now is not None:
            announce(fresh, now)
        put_file(scratch / name, folder / name)
        announce(fresh)


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder; `DamagedError` where it is none."""
    with open_plain(folder / MANIFEST) as file:
        content = file.read(LARGEST_MANIFEST + 1)
    if len(content) > LARGEST_MANIFEST:
        raise DamagedError(f"{MANIFEST} has more than {LARGEST_MANIFEST:,} bytes")
    try:
        found = parsed_json(content, MANIFEST)
        files = {name: _entries(entry) for name, entry in found["files"].items()}
        manifest = Manifest(found["format"], found["kind"], found["id"], files)
    except (KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"{MANIFEST} is not a list of files with their checksums") from error
    except ValueError as error:
        raise DamagedError(str(error)) from error
    known = type(manifest.format) is int and type(manifest.kind) is str
    plain = all(re.fullmatch(r"[\w.-]+", name) and name.strip(".") for name in files)
    whole = known and plain and len(files) <= MOST_FILES and manifest.as_json() == found
    if not whole:
        raise DamagedError(f"{MANIFEST} was changed since it was written")
    return manifest


def stamp(folder: Path) -> object:
    """Return what changes whenever a sealed folder, or a file in it, is replaced; None where there is no folder."""
    try:
        place = folder.stat()
    except OSError:
        return None
    known = place.st_dev, place.st_ino, place.st_ctime_ns  # a rename changes the last: A, then B, then A again is seen
    try:
        return *known, read_manifest(folder)
    except (OSError, DamagedError):
        return known


class Sealed:
    """A sealed folder to read from: what a file holds is what the manifest says, or a `DamagedError`.

    So it is with all files of one save, even if another replaces the folder meanwhile. Without `verify`, sizes are
    compared but checksums are not, and only an equal `stamp` before and after says that they are of one save.
    """

    def __init__(self, folder: Path, verify: bool = True) -> None:
        self.folder, self.verify, self.manifest = folder, verify, read_manifest(folder)

    def __contains__(self, name: str) -> bool:
        return name in self.manifest.files

    @contextmanager
    def open(self, name: str) -> Iterator[Checked]:
        """Open a file; when it has been read to its end, it is compared with the manifest."""
        if name not in self:
            raise DamagedError(f"{name} is missing")
        with open_plain(self.folder / name) as raw:
            file = Checked(raw, name, self.verify)
            if file.size not in (entry.bytes for entry in self.manifest.files[name]):
                expected = f"{self.manifest.files[name][0].bytes:,}"
                raise DamagedError(f"{name} has {file.size:,} bytes, expected {expected}")
            yield file
            file.finish(self.manifest.files[name])

    def read(self, name: str, most: int | None = None) -> bytes:
        """Return the content of a file, of `most` bytes at most."""
        with self.open(name) as file:
            if most is not None and file.size > most:
                raise DamagedError(f"{name} has {file.size:,} bytes, expected {most:,} at most")
            return file.take(file.size)

    def problems(self) -> dict[str, str]:
        """Return in words what is wrong, by file; empty where all is as it was saved."""
        found = {}
        for name in self.manifest.files:
            try:
                with self.open(name) as file:
                    file.skip()
            except DamagedError as error:
                found[name] = str(error)
            except OSError as error:
                found[name] = f"{name}: {error.strerror or error}"
        return found


class Checked:
    """A file that is summed while it is read, from its start to its end."""

    def __init__(self, raw: FileIO | BytesIO, name: str, verify: bool, size: int | None = None) -> None:
        self.raw, self.name, self.sum = raw, name, hashlib.sha256() if verify else None
        self.size = os.fstat(raw.fileno()).st_size if size is None else size
        self.left = self.size

    def fill(self, buffer: memoryview) -> None:
        """Fill a buffer with the bytes that come next."""
        done = 0
        while done < len(buffer):
            count = self.raw.readinto(buffer[done : done + AT_ONCE])
            if not count:
                raise DamagedError(f"{self.name} was cut short while it was read")
            if self.sum is not None:
                self.sum.update(buffer[done : done + count])
            done += count
        self.left -= done

    def take(self, count: int) -> bytes:
        """Return as many bytes, those that come next."""
        content = bytearray(count)
        self.fill(memoryview(content))
        return bytes(content)

    def skip(self) -> None:
        """Read to the end, for the sum alone."""
        buffer = memoryview(bytearray(min(AT_ONCE, self.left)))
        while self.left:
            self.fill(buffer[: self.left])

    def finish(self, entries: tuple[Entry, ...]) -> None:
        """Compare what was read with what the manifest says; what was not read counts too."""
        if self.sum is not None:
            self.skip()
            if Entry(self.size, self.sum.hexdigest()) not in entries:
                raise DamagedError(f"{self.name} was changed or damaged since it was written: its checksum is another")


def open_plain(path: Path) -> FileIO:
    """Open a file to read; a link, a pipe, a device or a folder is refused, without waiting for it."""
    if path.is_symlink():
        raise DamagedError(f"{path.name} is a link, expected a file")
    if not stat.S_ISREG(path.stat().st_mode):
        raise DamagedError(f"{path.name} is a folder, a pipe or a device, expected a file")
    flags = (getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
    handle = os.open(path, sum(flags, os.O_RDONLY))
    if not stat.S_ISREG(os.fstat(handle).st_mode):  # it changed meanwhile
        os.close(handle)
        raise DamagedError(f"{path.name} is not a file")
    return FileIO(handle)


def entry_of(file: Path) -> Entry:
    """Return what is to be known of a file."""
    with open_plain(file) as content:
        return Entry(os.fstat(content.fileno()).st_size, hashlib.file_digest(content, "sha256").hexdigest())


def _as_json(now: Entry, was: Entry | None = None) -> dict[str, Any]:
    return {**vars(now), **({"was": vars(was)} if was else {})}


def _entries(entry: Mapping[str, Any]) -> tuple[Entry, ...]:
    """Return what a manifest says of a file: what it is, and perhaps what it was."""
    known = [entry, entry["was"]] if "was" in entry else [entry]
    if not all(type(each["bytes"]) is int and type(each["sha256"]) is str for each in known):
        raise TypeError
    return tuple(Entry(each["bytes"], each["sha256"]) for each in known)


def _sum_of(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
