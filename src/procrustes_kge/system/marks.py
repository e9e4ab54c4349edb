"""The mark of a process: it says later, and to others, whether the one that left a file behind is still at work."""

import hashlib
import os
import platform
from functools import cache
from pathlib import Path

PATTERN = r"([0-9a-f]{8})-(\d+)-(\d+)"  # where process numbers mean the same, the number, when that process started


def own_mark() -> str:
    """Return the mark of this process."""
    number = os.getpid()
    return f"{_where()}-{number}-{_started(number) or 0}"


def is_dead(where: str, number: str, started: str) -> bool:
    """Say whether the process of a mark has ended; of a process that cannot be asked about, no."""
    if where != _where() or not _answers():
        return False
    return _started(int(number)) != int(started)


def _answers() -> bool:
    return Path("/proc/self/stat").exists()  # Linux; elsewhere a number says nothing of when its process started


def _started(number: int) -> int | None:
    """Return when a process started, in ticks since the machine did; None where there is none, or only its shell."""
    try:
        state, *fields = Path(f"/proc/{number}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else int(fields[18])


@cache
def _where() -> str:
    """Return a name for this machine and, in a container, for its own counting of processes."""
    spaces = Path("/proc/self/ns/pid")
    space = spaces.stat().st_ino if spaces.exists() else 0
    return hashlib.sha256(f"{platform.node()} {space}".encode()).hexdigest()[:8]
