"""Try to hurt whatever reads files: damaged, absurd and hostile ones, drawn from a seed.

    python scripts/fuzz.py --minutes 60             every target in turn; `make fuzz`
    python scripts/fuzz.py --only parquet --seed 7  one of them
    python scripts/fuzz.py --replay                 what was found before
    python scripts/fuzz.py --inputs 100000 --write  a fixed number, into benchmarks/results/fuzz-readers.json

A finding is the end of the process, an exception that is no `InputError`, a sentence of several lines, more than 2 s of
the processor, more memory than ten times the file and half a gigabyte, or damage that is believed. What was found is
kept in tests/findings, by target.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "scripts")]
os.environ["OMP_NUM_THREADS"] = "1"  # a process with threads cannot be forked

import result_files  # noqa: E402
from fuzz_inputs import Files, Input, Target, drawn  # noqa: E402
from fuzz_targets import TARGETS  # noqa: E402
from procrustes_kge.errors import InputError  # noqa: E402
from procrustes_kge.system.machine import processor_name  # noqa: E402

FINDINGS = ROOT / "tests" / "findings"
SLOW, STUCK = 2.0, 60.0  # seconds of the processor; of the clock, on a machine that has other work
TIMES, BESIDES = 10, 2**29  # memory: so many times the file, and bytes
LONGEST = 2000  # characters of a sentence
BATCH, SHOWN = 100, 10_000  # inputs of one process; after which a line is printed


@dataclass
class Counts:
    """What is known of a target."""

    inputs: int = 0
    read: int = 0
    refused: int = 0
    findings: int = 0
    worst_seconds: float = 0.0
    worst_megabytes: float = 0.0
    worst_of_helpers_megabytes: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)

    def add(self, record: dict[str, Any]) -> None:
        """Count what became of an input."""
        self.inputs += 1
        self.read += record["kind"] == "read"
        self.refused += record["kind"] == "refused"
        self.worst_seconds = max(self.worst_seconds, record.get("seconds", 0.0))
        self.worst_megabytes = max(self.worst_megabytes, record.get("megabytes", 0.0))
        self.worst_of_helpers_megabytes = max(self.worst_of_helpers_megabytes, record.get("helper", 0.0))


# What becomes of one.


def tried(target: Target, place: Path) -> dict[str, Any]:
    """Check a file; return what became of it, what it took, and what was said."""
    helpers, before = resource.getrusage(resource.RUSAGE_CHILDREN), memory(fresh=True)
    started = time.process_time()
    try:
        kind, said = ("read" if target.check(place) else "refused"), ""
    except InputError as error:
        kind, said = "refused", str(error)
        if "\n" in said or len(said) > LONGEST:
            kind = "sentence"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        kind, said = "traceback", f"{type(error).__name__} in {Path(last.filename).name}:{last.name}: {error!s:.300}"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = time.process_time() - started + after.ru_utime + after.ru_stime - helpers.ru_utime - helpers.ru_stime
    most, helped = memory(), after.ru_maxrss * 1024
    if helped <= max(most, helpers.ru_maxrss * 1024):  # no more than an earlier one, or this process as it was forked
        helped = 0
    taken = most - before
    if seconds > SLOW:
        kind, said = "slow", f"{seconds:.1f} s; {said}"
    if max(taken, helped) > TIMES * place.stat().st_size + BESIDES:
        kind, said = "memory", f"{max(taken, helped) / 1e6:.0f} MB; {said}"
    figures = {"seconds": round(seconds, 3), "megabytes": round(taken / 1e6, 1), "helper": round(helped / 1e6, 1)}
    return {"kind": kind, "said": said, **figures}


def memory(fresh: bool = False) -> int:
    """Return the most bytes that this process has had at once since it was last asked with `fresh`."""
    try:
        if fresh:
            Path("/proc/self/clear_refs").write_text("5")
        return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, IndexError):  # no Linux
        return 0


def laid_out(target: Target, folder: Path, seeds: Files, given: Input) -> Path:
    """Write an input where its target looks for it."""
    place = folder / "now"
    if not target.together:
        shutil.rmtree(place, ignore_errors=True)
    place.mkdir(exist_ok=True)
    for name, data in seeds.items() if target.together else ():
        if not (place / name).exists() or (place / name).read_bytes() != data:
            (place / name).write_bytes(data)
    (place / given.name).write_bytes(given.data)
    return place / given.name


# Processes.


class Batch:
    """A process that tries inputs of one target, and says of each in a file what became of it."""

    def __init__(self, name: str, folder: Path, seeds: Files, inputs: list[tuple[str, Input]]) -> None:
        self.name, self.inputs, self.folder = name, inputs, Path(tempfile.mkdtemp(dir=folder))
        self.log, self.seen, self.since = self.folder / "log", 0, time.monotonic()
        self.log.touch()
        self.process = os.fork()
        if not self.process:
            os.setsid()  # it ends with what it has started
            self._work(TARGETS[name], seeds)

    def _work(self, target: Target, seeds: Files) -> None:
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            if target.together:
                whole = self.folder / "whole"
                whole.mkdir()
                for name, data in seeds.items():
                    (whole / name).write_bytes(data)
            with self.log.open("w") as log:
                for _, given in self.inputs:
                    record = tried(target, laid_out(target, self.folder, seeds, given))
                    print(json.dumps(record), file=log, flush=True)
            code = 0
        finally:
            os._exit(code)

    def ended(self) -> list[dict[str, Any]] | None:
        """Return what became of the inputs, up to the one that ended the process; None while it runs."""
        size, now = self.log.stat().st_size, time.monotonic()
        if size != self.seen:
            self.seen, self.since = size, now
        stuck = now - self.since > STUCK
        if stuck:
            os.killpg(self.process, signal.SIGKILL)
        done, status = os.waitpid(self.process, 0 if stuck else os.WNOHANG)
        if not done:
            return None
        records = [json.loads(line) for line in self.log.read_text().splitlines()]
        if status:
            how = "hang" if stuck else "crash"
            records.append({"kind": how, "said": f"the process ended with {os.waitstatus_to_exitcode(status)}"})
        shutil.rmtree(self.folder)
        return records


def made(name: str, folder: Path) -> Files:
    """Return the seeds of a target, made in a process of their own: libraries may leave threads behind."""
    place = folder / name
    place.mkdir()
    process = os.fork()
    if not process:
        code = 1
        try:
            (place / "scratch").mkdir()
            found = TARGETS[name].seeds(place / "scratch")
            shutil.rmtree(place / "scratch")
            for file, data in found.items():
                (place / file).write_bytes(data)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    if os.waitpid(process, 0)[1]:
        raise SystemExit(f"{name}: its files to begin with could not be made")
    return {file.name: file.read_bytes() for file in sorted(place.iterdir())}


def campaign(
    asked: Iterator[tuple[str, list[tuple[str, Input]]]], seeds: dict[str, Files], folder: Path, jobs: int
) -> dict[str, Counts]:
    """Try batches of inputs, so many at once; keep what is found."""
    counts, running, known = {name: Counts() for name in seeds}, list[Batch](), set[tuple[str, str, str]]()
    waiting = list[tuple[str, list[tuple[str, Input]]]]()
    more = True
    while more or running or waiting:
        while len(running) < jobs and (waiting or more):
            batch = waiting.pop() if waiting else next(asked, None)
            if batch is None:
                more = False
                break
            running.append(Batch(batch[0], folder, seeds[batch[0]], batch[1]))
        time.sleep(0.005)
        for each in list(running):
            records = each.ended()
            if records is None:
                continue
            running.remove(each)
            before = sum(each.inputs for each in counts.values())
            if (before + len(records)) // SHOWN > before // SHOWN:
                print(f"{before + len(records):,} inputs", flush=True)
            for (where, given), record in zip(each.inputs, records, strict=False):
                counts[each.name].add(record)
                if record["kind"] not in ("read", "refused"):
                    counts[each.name].findings += 1
                    counts[each.name].kinds[record["kind"]] += 1
                    alike = each.name, record["kind"], record["said"].partition(": ")[0][:80]
                    if alike not in known:
                        known.add(alike)
                        print(f"{each.name}, {where}: {record['kind']}: {record['said']}\n  {kept(each.name, given)}")
            if len(records) < len(each.inputs):
                waiting.append((each.name, each.inputs[len(records) :]))
    return counts


def kept(name: str, given: Input) -> Path:
    """Keep an input among the findings, and return its file."""
    (FINDINGS / name).mkdir(parents=True, exist_ok=True)
    file = FINDINGS / name / f"{hashlib.sha256(given.data).hexdigest()[:12]}.{given.name}"
    file.write_bytes(given.data)
    return file


def batches(
    seeds: dict[str, Files], seed: int, inputs: int | None, ends: float
) -> Iterator[tuple[str, list[tuple[str, Input]]]]:
    """Yield batches of inputs, every target as often as its share says."""
    turns = [name for name in seeds for _ in range(TARGETS[name].share)]
    random.Random(seed).shuffle(turns)
    begun, given = Counter[str](), 0
    while time.monotonic() < ends and (inputs is None or given < inputs):
        for name in turns:
            size = BATCH if inputs is None else min(BATCH, inputs - given)
            if not size or time.monotonic() > ends:
                break
            numbers = range(begun[name], begun[name] + size)
            begun[name], given = begun[name] + size, given + size
            yield (
                name,
                [
                    (f"seed {seed}, input {each}", drawn(TARGETS[name], seeds[name], name, seed, each))
                    for each in numbers
                ],
            )


def findings(names: list[str]) -> Iterator[tuple[str, list[tuple[str, Input]]]]:
    """Yield what was found before, by target."""
    for name in names:
        files = sorted((FINDINGS / name).glob("*"))
        if files:
            yield name, [(file.name, Input(file.name.split(".", 1)[1], file.read_bytes())) for file in files]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", choices=TARGETS, default=list(TARGETS), metavar="TARGET", help=", ".join(TARGETS)
    )
    parser.add_argument("--minutes", type=float, default=1e6, help="stop after this time")
    parser.add_argument("--inputs", type=int, help="stop after this number of inputs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument("--replay", action="store_true", help="try the findings that are kept, and nothing else")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/fuzz-readers.json")
    arguments = parser.parse_args()
    if not arguments.replay and arguments.inputs is None and arguments.minutes == 1e6:
        arguments.minutes = 2.0
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        seeds = {name: made(name, folder) for name in arguments.only}
        asked = (
            findings(arguments.only)
            if arguments.replay
            else batches(seeds, arguments.seed, arguments.inputs, started + 60 * arguments.minutes)
        )
        counts = campaign(asked, seeds, folder, arguments.jobs)
    report(counts)
    if arguments.write:
        about = {
            "commit": result_files.commit(),
            "seed": arguments.seed,
            "device": processor_name(),
            "protocol": __doc__.split("\n\n")[2],
        }
        total = {
            "inputs": sum(each.inputs for each in counts.values()),
            "minutes": round((time.monotonic() - started) / 60, 1),
        }
        result_files.write(
            "fuzz-readers", {**about, **total, "targets": {name: asdict(each) for name, each in counts.items()}}
        )
    sys.exit(any(each.findings for each in counts.values()))


def report(counts: dict[str, Counts]) -> None:
    """Print a line for each target."""
    print(f"{'target':<12}{'inputs':>8}{'read':>8}{'refused':>9}{'findings':>10}{'worst s':>9}{'worst MB':>10}")
    for name, each in counts.items():
        megabytes = max(each.worst_megabytes, each.worst_of_helpers_megabytes)
        row = f"{name:<12}{each.inputs:>8,}{each.read:>8,}{each.refused:>9,}{each.findings:>10,}"
        print(f"{row}{each.worst_seconds:>9.2f}{megabytes:>10.0f}  {dict(each.kinds) or ''}")


if __name__ == "__main__":
    main()
