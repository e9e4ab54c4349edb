"""Files that survive a crash: flushed to the disk, replaced in one moment, known by sums, locked by their writer."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from procrustes_kge.errors import InputError

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_HERE = -100  # AT_FDCWD: paths that are not absolute are meant from the current folder
_EXCHANGE = 2  # RENAME_EXCHANGE
_OLD = "-old"
LONGEST_NAME = 150  # bytes, where systems take 255


def flush(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on the disk."""
    if os.name == "nt" and path.is_dir():  # Windows has no such thing for folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def checksum(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def exchange(one: Path, other: Path) -> bool:
    """Let two files or folders of one file system take each other's place in one moment; say whether that is possible.

    Linux and macOS can, on most file systems.
    """
    if sys.platform not in ("linux", "darwin"):
        return False
    names, library = (os.fsencode(one), os.fsencode(other)), ctypes.CDLL(None, use_errno=True)
    if sys.platform == "linux" and hasattr(library, "renameat2"):
        return not library.renameat2(_HERE, names[0], _HERE, names[1], ctypes.c_uint(_EXCHANGE))
    if sys.platform == "darwin" and hasattr(library, "renamex_np"):
        return not library.renamex_np(names[0], names[1], ctypes.c_uint(_EXCHANGE))
    return False


def put_file(fresh: Path, target: Path) -> None:
    """Put a file in the place of another, if there is one; it is on the disk before, and in its place after."""
    flush(fresh)
    fresh.replace(target)
    flush(target.parent)


def put_folder(fresh: Path, target: Path) -> None:
    """Put a folder in the place of another, if there is one, with no moment without either where the system allows.

    All of `fresh` is on the disk before; what was in its place is deleted. A failure leaves the target as it was.
    """
    for file in fresh.rglob("*"):
        flush(file)
    flush(fresh)
    if not target.exists():
        fresh.rename(target)
    elif not exchange(fresh, target):
        old = fresh.with_name(f"{fresh.name}{_OLD}")
        target.rename(old)
        try:
            fresh.rename(target)
        except BaseException:
            old.rename(target)
            raise
        fresh = old
    flush(target.parent)
    if fresh.exists():
        shutil.rmtree(fresh)


def put_back(scratch: Path, target: Path) -> None:
    """After a crash between the two renames, where folders cannot be exchanged, put back what was in the place."""
    for old in scratch.glob(f"*{_OLD}"):
        if not target.exists():
            old.rename(target)


def short_name(target: Path) -> str:
    """Return the target's name, or a checksum of a long one: names of files beside it are longer."""
    name = os.fsencode(target.name)
    return target.name if not LONGEST_NAME < len(name) <= 255 else hashlib.sha256(name).hexdigest()[:16]


@contextmanager
def locked(target: Path, patience: float = 0.0) -> Iterator[None]:
    """Keep others, processes or threads, from writing to a place meanwhile; the second is told at once, or in a while.

    The thread that has the lock may take it again. The lock is on a hidden file beside the target; the system lets go
    of it however the process ends. Parents that are missing are made, and gone afterwards if nothing was put there.
    """
    target = target.resolve()
    if target in _mine.held or fcntl is None:  # without it, as on Windows, nothing is kept from writing
        yield
        return
    made = [parent for parent in target.parents if not parent.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    file, ends = target.with_name(f".{short_name(target)}.lock"), time.monotonic() + patience
    try:
        while (handle := _locked(file)) is None:
            if time.monotonic() > ends:
                raise InputError(f"{target}: {_BUSY}")
            time.sleep(0.01)
        _mine.held.add(target)
        try:
            yield
        finally:
            _mine.held.discard(target)
            file.unlink(missing_ok=True)  # while it is locked: whoever opens it later makes a new one
            os.close(handle)
    finally:
        for parent in made:
            with suppress(OSError):  # something was put there
                parent.rmdir()


class _Held(threading.local):
    """What this thread has locked."""

    def __init__(self) -> None:
        self.held = set[Path]()


_mine = _Held()
_BUSY = "another process or thread is writing there; wait until it ends, or choose another place"


def _locked(file: Path) -> int | None:
    """Return the handle of a file that is locked now; None where another has locked it."""
    while True:
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if file.exists() and os.path.samestat(os.fstat(handle), file.stat()):
                return handle
        except BlockingIOError:
            os.close(handle)
            return None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # its owner deleted it between the two calls: once more
