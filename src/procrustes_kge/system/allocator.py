"""Memory that one step frees is kept for the next.

The C library gives large blocks back to the system and asks for them again at every step; the system then clears each
page anew. On graphs of some hundred thousand triples that takes half the time of an epoch, or more.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Parameters of glibc's mallopt, and the values that keep what is freed: one heap for all threads. Blocks over 32 MB are
# given back all the same: kept, they would be cut up, and peak memory would grow by half.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_KEEP = {_ARENA_MAX: 1, _MMAP_THRESHOLD: 2**25, _TRIM_THRESHOLD: 2**31 - 1}
_GIVE_BACK = {_MMAP_THRESHOLD: 2**25, _TRIM_THRESHOLD: 2**26}  # where glibc's own defaults drift to

_users: list[int] = []  # threads that keep memory now
_lock = threading.Lock()


@contextmanager
def kept_memory() -> Iterator[None]:
    """Keep what is freed within, and give it back to the system at the end; does nothing where there is no glibc."""
    library = _glibc()
    if library is None:
        yield
        return
    with _lock:
        _users.append(threading.get_ident())
        _set(library, _KEEP)
    try:
        yield
    finally:
        with _lock:
            _users.pop()
            if not _users:
                _set(library, _GIVE_BACK)
                library.malloc_trim(0)


def give_back() -> None:
    """Give what is free now back to the system, after a part of the work that needed more than the next will."""
    if (library := _glibc()) is not None:
        library.malloc_trim(0)


def _set(library: Any, values: dict[int, int]) -> None:
    for parameter, value in values.items():
        library.mallopt(parameter, value)


def _glibc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None)
        return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
    except OSError:
        return None
