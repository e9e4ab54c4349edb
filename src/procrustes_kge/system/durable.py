"""Files that survive a crash: flushed to the disk, replaced in one moment, known by sums, locked by their writer."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from procrustes_kge.errors import InputError

_HERE = -100  # AT_FDCWD: paths that are not absolute are meant from the current folder
_EXCHANGE = 2  # RENAME_EXCHANGE


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
    names = os.fsencode(one), os.fsencode(other)
    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "linux" and hasattr(library, "renameat2"):
        return not library.renameat2(_HERE, names[0], _HERE, names[1], ctypes.c_uint(_EXCHANGE))
    if sys.platform == "darwin" and hasattr(library, "renamex_np"):
        return not library.renamex_np(names[0], names[1], ctypes.c_uint(_EXCHANGE))
    return False


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
        old = fresh.with_name(f"{fresh.name}-old")
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


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Keep other processes from writing to a place meanwhile; the second to try is told at once.

    The lock is on a hidden file beside the target. The system lets go of it however the process ends.
    """
    import fcntl  # not on Windows

    file = target.with_name(f".{target.name}.lock")
    handle = _locked(file)
    if handle is None:
        raise InputError(f"{target}: another process is writing there; wait until it ends, or choose another place")
    try:
        yield
    finally:
        file.unlink(missing_ok=True)  # while it is locked: whoever opens it later makes a new one
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _locked(file: Path) -> int | None:
    """Return the handle of a file that this process has locked; None where another one has."""
    import fcntl

    while True:
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        if file.exists() and os.path.samestat(os.fstat(handle), file.stat()):
            return handle
        os.close(handle)  # its owner deleted it between the two calls: once more
