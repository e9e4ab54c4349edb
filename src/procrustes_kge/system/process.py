"""Settings of the whole process that make it faster: the command sets them when it starts; the library sets nothing.

In Python, before anything loads PyTorch:

    from procrustes_kge.system.process import prepare_process
    prepare_process()

**Make idle OpenMP threads sleep instead of spinning.** A thread that waits for another spins, busy, for milliseconds.
Where other programs use the cores, two spinning threads slow each other down: several times slower than threads that
sleep, and slower than one alone. Spinning for some microseconds costs nothing on an idle machine.

**Keep freed memory for the next step.** The C library returns large blocks to the system and asks for them again
at every step; the system then clears each page again. On graphs of some hundred thousand triples that takes half the
time of an epoch, or more.
"""

import ctypes
import os
import sys
from typing import Any

# Parameters of glibc's mallopt by name, with values that keep what is freed: one heap for all threads. Blocks over
# 32 MB are given back all the same: kept, they would be cut up, and peak memory would grow by half.
_KEEP = {"ARENA_MAX": (-8, 1), "MMAP_THRESHOLD": (-3, 2**25), "TRIM_THRESHOLD": (-1, 2**31 - 1)}


def prepare_process() -> None:
    """Let idle threads sleep, and keep freed memory; whatever the user has set in the environment stays as it is.

    OpenMP reads the environment once, when PyTorch is loaded: call this before. Keeping memory needs glibc.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    if (library := _glibc()) is not None:
        for name, (parameter, value) in _KEEP.items():  # the user may have set it by either of glibc's two ways
            tuned = f"glibc.malloc.{name.lower()}=" in os.environ.get("GLIBC_TUNABLES", "")
            if not tuned and {f"MALLOC_{name}", f"MALLOC_{name}_"}.isdisjoint(os.environ):
                library.mallopt(parameter, value)


def give_back() -> None:
    """Return free memory to the system, after work that needed more than what follows."""
    if (library := _glibc()) is not None:
        library.malloc_trim(0)


def _glibc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None)
    except OSError:  # linked statically, with a C library of another kind
        return None
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
