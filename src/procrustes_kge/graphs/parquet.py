"""Parquet, read in a process of its own: a damaged file makes the library that reads it ask for any memory, and abort.

What is read comes back as text: names that end in a NUL each, column by column; then JSON that says how it went.
"""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from procrustes_kge.errors import InputError, in_one_line
from procrustes_kge.graphs.columns import ROLES, Columns, check_characters, choose, named
from procrustes_kge.graphs.limits import Allowance
from procrustes_kge.graphs.values import SAMPLE, remarks, texts
from procrustes_kge.system.extras import package, require

MARK, END = b"PAR1", 8  # a file begins with the mark; the length of its footer and the mark end it
BESIDES = 2**29  # bytes of address space that the library takes for its threads, whatever it reads
THREADS = 2
SECONDS, BYTES_A_SECOND = 5, 1_000_000  # of the processor: many times what is needed
BUSY = 6  # times as long, by the clock, where other programs use the processor
BEGINS = b"\0report "  # what stands between the content and the report
ROWS = 100_000  # that are made into names at once


def parse_parquet(data: bytes, where: str, wanted: Sequence[str] | None = None, most: int | None = None) -> Columns:
    """Return the columns of a Parquet file that hold head, relation and tail."""
    columns, notes = parquet_columns(data, where, wanted, most)
    return named(where, columns, notes)


def parquet_columns(
    data: bytes, where: str, wanted: Sequence[str] | None = None, most: int | None = None
) -> tuple[list[list[str]], list[str]]:
    """Return three columns of a Parquet file, '' where a value is missing, and notes for the user."""
    output, found = apart(__name__, data, where, most, wanted=wanted)
    *names, _ = output.decode().split("\0")
    rows = len(names) // len(ROLES)
    return [names[number * rows : (number + 1) * rows] for number in range(len(ROLES))], found["notes"]


def apart(module: str, data: bytes, where: str, most: int | None, **asked: Any) -> tuple[bytes, dict[str, Any]]:
    """Return what a process that runs a module's `main` makes of a Parquet file, and its report."""
    require("polars", f"{where}: reading Parquet")
    footer = int.from_bytes(data[-END : -len(MARK)], "little")
    if not (data.startswith(MARK) and data.endswith(MARK) and 0 < footer <= len(data) - END - len(MARK)):
        raise InputError(_broken(where, "it is cut off, or its end is damaged"))
    allowance, seconds = Allowance(where, len(data), most), SECONDS + len(data) // BYTES_A_SECOND
    about = {"where": where, **asked, "bytes": allowance.most, "seconds": seconds}
    ended = _ended(module, json.dumps(about).encode() + b"\n" + data, where, BUSY * seconds)
    if ended is None:
        seen = f"reading it failed, or needs more than {(allowance.most + BESIDES) / 1e6:,.0f} MB or {seconds:,} s"
        raise InputError(f"{_broken(where, seen)}; if you trust it, --max-unpacked 4GB allows more")
    if ended[1].get("memory"):
        raise allowance.exceeded("reading it needs")
    if "error" in ended[1]:
        raise InputError(ended[1]["error"])
    return ended


def _ended(module: str, given: bytes, where: str, seconds: int) -> tuple[bytes, dict[str, Any]] | None:
    """Return what a process writes, and the report behind it; None where it broke off."""
    # The same modules are found as here, and none that happens to lie in the working folder. A backtrace that is
    # printed where memory has run out never ends.
    limits = {"POLARS_MAX_THREADS": str(THREADS), "RUST_BACKTRACE": "0", "MALLOC_ARENA_MAX": "1"}
    paths = {**os.environ, **limits, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command, pipe = [sys.executable or "python3", "-P", "-m", module], subprocess.PIPE
    try:
        ended = subprocess.run(
            command, input=given, stdout=pipe, stderr=subprocess.DEVNULL, env=paths, timeout=seconds, check=True
        )
        start = ended.stdout.rindex(BEGINS)
        return ended.stdout[:start], json.loads(ended.stdout[start + len(BEGINS) :])
    except OSError as error:
        seen = f"reading Parquet needs a process of its own, which does not start ({error.strerror or error})"
        raise InputError(f"{where}: {seen}; allow another one") from None
    except (subprocess.SubprocessError, ValueError):
        return None


def _broken(where: str, reason: str) -> str:
    return f"{where}: not a Parquet file of names ({reason}); write or download it again"


def answer(write: Callable[[bytes, dict[str, Any], Any], Any]) -> None:
    """Let a function write what a file holds, from standard input to standard output, within limits; then report."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the process that waits for this one
    about = json.loads(sys.stdin.buffer.readline())
    where, output = about["where"], sys.stdout.buffer
    try:
        data = sys.stdin.buffer.read()
        package("polars", f"{where}: reading Parquet")
        _limit(about["bytes"] + BESIDES, about["seconds"])
        report: dict[str, Any] = write(data, about, output)
    except InputError as error:
        report = {"error": str(error)}
    except MemoryError:
        report = {"memory": True}
    except BaseException as error:  # the library's own panic is no Exception
        report = {"error": _broken(where, in_one_line(error) or type(error).__name__)}
    output.write(BEGINS + json.dumps(report).encode())
    output.flush()
    os._exit(0)  # what is left of a panic may wait for ever


def _write_names(data: bytes, about: dict[str, Any], output: Any) -> dict[str, Any]:
    """Write the names, each with a NUL behind it, and return what the user should know."""
    where = about["where"]
    polars = package("polars", f"{where}: reading Parquet")
    stored = list(polars.read_parquet_schema(io.BytesIO(data)))
    places, notes = choose(stored, about["wanted"], where)
    chosen = [stored[place] for place in places]
    frame, left = polars.read_parquet(io.BytesIO(data), columns=chosen), about["bytes"]
    for role, name in zip(ROLES, chosen, strict=True):
        notes += remarks(role, frame[name][:SAMPLE].to_list())
        for start in range(0, len(frame), ROWS):
            part = _joined(where, role, frame[name][start : start + ROWS], start).encode() + b"\0"
            left -= len(part)
            if left < 0:
                raise MemoryError
            output.write(part)
    return {"notes": notes}


def _joined(where: str, role: str, values: Any, before: int) -> str:
    """Return the names of a part of a column, with a NUL between them."""
    if str(values.dtype) == "String" and not values.str.contains("\0", literal=True).any():
        text: str = values.fill_null("").str.join("\0")[0]
        return text
    names = texts(where, role, values.to_list(), before)
    check_characters(where, role, names, before=before)
    return "\0".join(names)


def _limit(memory: int, seconds: int) -> None:
    """Limit the address space to what is in use and so much more, and the processor's time, where the system can."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))


if __name__ == "__main__":
    answer(_write_names)
