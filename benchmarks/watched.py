"""Work that may hang, crash or ask for all memory: each piece in a process of its own, which is watched.

A process is forked for each piece, so that it has the modules already; it may have so much more memory than it begins
with, and is killed when it takes far too long.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from procrustes_kge.errors import InputError

SECONDS, MEGABYTES = 2.0, 500.0
PATIENCE = 5 * SECONDS  # until it is killed; what is slower than it may be is counted all the same
REFUSED, DONE, TRACEBACK, CRASHED, SLOW, HUNGRY = "refused", "done", "traceback", "crashed", "slow", "hungry"
LONGEST = 1100  # characters of a sentence


@dataclass(frozen=True)
class Outcome:
    """How a piece of work ended: with a result, a sentence, or worse."""

    kind: str
    result: Any
    seconds: float
    megabytes: float


def watched(work: Callable[..., Any], *arguments: Any, seconds: float = SECONDS, room: float = MEGABYTES) -> Outcome:
    """Return how work(*arguments), whose result must be JSON, ends in a process of its own."""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=_child, args=(sender, work, arguments, room))
    child.start()
    sender.close()
    try:
        said = json.loads(receiver.recv_bytes()) if receiver.poll(PATIENCE * seconds / SECONDS) else None
    except EOFError:
        said = {"kind": CRASHED, "result": None, "seconds": 0.0, "megabytes": 0.0}
    child.kill()
    child.join()
    receiver.close()
    if said is None:
        return Outcome(SLOW, "killed", PATIENCE, 0.0)
    found = Outcome(**said)
    if found.kind == CRASHED:
        return Outcome(CRASHED, f"exit code {child.exitcode}", 0.0, 0.0)
    if found.seconds > seconds:
        return Outcome(SLOW, found.result, found.seconds, found.megabytes)
    return found


def is_sentence(text: str) -> bool:
    """Say whether a message is one line of moderate length that can be printed."""
    return bool(text) and text.isprintable() and len(text) <= LONGEST


def _child(sender: Any, work: Callable[..., Any], arguments: tuple[Any, ...], room: float) -> None:
    before = _megabytes("VmRSS")
    most = int((_megabytes("VmSize") + room) * 1e6)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    started = time.perf_counter()
    try:
        kind, result = DONE, work(*arguments)
    except InputError as error:
        kind, result = REFUSED, str(error)
        if not is_sentence(result):
            kind = TRACEBACK
    except MemoryError:
        kind, result = HUNGRY, "MemoryError"
    except BaseException as error:
        kind, result = TRACEBACK, f"{type(error).__name__}: {error}"[:LONGEST]
        if "memory" in str(error).lower():
            kind = HUNGRY
    seconds = time.perf_counter() - started
    megabytes = round(max(0.0, _megabytes("VmHWM") - before), 1)
    said = {"kind": kind, "result": result, "seconds": round(seconds, 3), "megabytes": megabytes}
    sender.send_bytes(json.dumps(said).encode())


def _megabytes(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1000 for line in lines if line.startswith(f"{name}:"))
