"""Checkpoints in a folder: each a sealed folder of its own, the last two kept.

checkpoint-000007/facts.json                  the stages, and which parts the files are of
checkpoint-000007/part-3.safetensors          the state of a part in training
checkpoint-000007/added-0-3.safetensors       what the parts 0, 1 and 2 have added to the model
checkpoint-000007/manifest.json               size and checksum of each, written last

What an earlier checkpoint has already is linked, not written again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.runs.tensors import read_tensors, write_tensors
from procrustes_kge.system.devices import choose_device
from procrustes_kge.system.durable import put_folder
from procrustes_kge.system.files import explain_write_errors, parsed_json, scratch_folder, write_json
from procrustes_kge.system.sealed import DamagedError, Entry, Sealed, read_manifest, seal
from procrustes_kge.training.budget import parse_time
from procrustes_kge.training.checkpoints import Added, Checkpoints, Facts, InTraining, Kept
from procrustes_kge.training.recipes import Settings, values_of
from procrustes_kge.training.state import State
from procrustes_kge.version import __version__

FORMAT, KIND = 1, "checkpoint"
KEPT = 2  # checkpoints
LARGEST_FACTS = 2**26  # bytes
_NAME = re.compile(r"checkpoint-(\d{6,})")


class Interval(NamedTuple):
    """How often a checkpoint is made: after so many seconds, or so many epochs of a part."""

    seconds: float = 0.0
    epochs: int = 0


def parse_interval(text: str) -> Interval:
    """Return the interval of a time such as 5m, or of a number of epochs.

    >>> parse_interval("5m"), parse_interval("3")
    (Interval(seconds=300.0, epochs=0), Interval(seconds=0.0, epochs=3))
    """
    if re.fullmatch(r"\s*\d+\s*", text) and 0 < int(text) < 10**9:
        return Interval(epochs=int(text))
    try:
        return Interval(seconds=parse_time(text))
    except InputError:
        raise InputError(f"checkpoint-every {text!r}, expected a time such as 5m, or a number of epochs") from None


class FolderCheckpoints(Checkpoints):
    """Keep checkpoints in a folder, which is made when the first of them is."""

    def __init__(
        self, folder: str | Path, every: str | Interval | None = None, begin: Callable[[], None] | None = None
    ) -> None:
        """Go on from the last checkpoint of the folder that is whole, if any.

        `every` is a time such as "5m" or a number of epochs such as "3"; without it, only `stop` makes one. `begin` is
        called before the first one is written.
        """
        self.folder, self.begin = Path(folder), begin
        self.every = parse_interval(every) if isinstance(every, str) else every
        self.lock, self.stop_asked = threading.RLock(), threading.Event()
        self.stages, self.stage = dict[str, Facts](), ""
        self.identities = dict[str, dict[str, Any]]()
        self.parts, self.added = dict[int, int](), list[tuple[int, int]]()
        self.seen, self.last_put = dict[int, tuple[float, int]](), time.monotonic()
        self.number = max((number for number, _ in _checkpoints(self.folder)), default=0)
        self.current = self._newest()
        if self.current is not None:
            self._read_facts(self.current)
        self.seconds = sum(facts["seconds"] for facts in self.stages.values())

    def stop(self) -> None:
        """Ask the training to stop after the epoch that runs, and to keep what it needs to go on."""
        self.stop_asked.set()

    @property
    def stopping(self) -> bool:
        """Whether the training is to stop after the epoch that runs."""
        return self.stop_asked.is_set()

    def kept(self, stage: str, graph: Graph, settings: Settings) -> Kept | None:
        """Return what is kept of a stage, if anything; what is kept of another training is refused."""
        now = _identity(graph, settings)
        before, self.identities[stage] = self.identities.get(stage), now
        if stage not in self.stages:
            return None
        if other := [name for name in now if before is None or before.get(name) != now[name]]:
            raise InputError(f"{self.folder}: its checkpoints are of another training ({other[0]}); delete it to begin")
        if stage != self.stage:
            return Kept(self.stages[stage])
        added = [Added(first, last, partial(self._load, _added(first, last))) for first, last in self.added]
        parts = {part: InTraining(epoch, partial(self._load, _part(part))) for part, epoch in self.parts.items()}
        return Kept(self.stages[stage], added, parts)

    def _load(self, name: str) -> State:
        """Return a state out of the last checkpoint: it has all that is still needed."""
        with self.lock:
            assert self.current is not None
            return read_tensors(Sealed(self.current), name)

    def due(self, part: int, epoch: int) -> bool:
        """Say whether it is time for a checkpoint: since the last one, or the last one of this part."""
        if self.stopping:
            return True
        if self.every is None:
            return False
        now = time.monotonic()
        with self.lock:
            then, had = self.seen.setdefault(part, (now, epoch - 1))
            if self.every.epochs:
                return epoch - had >= self.every.epochs
            return now - min(then, self.last_put) >= self.every.seconds

    def note(self, stage: str, facts: Facts) -> None:
        """Take it that a stage is over: of it, only these facts are needed to go on."""
        with self.lock:
            self.stages[stage] = facts
            self.stage, self.parts, self.added, self.seen = "", {}, [], {}

    def put(self, stage: str, facts: Facts, part: int, training: InTraining, added: Added | None) -> None:
        """Write a checkpoint, flushed to the disk; of the older ones, the last is kept."""
        with self.lock, explain_write_errors(self.folder):
            if self.current is None and self.begin is not None:
                self.begin()
            if stage != self.stage:
                self.stage, self.parts, self.added = stage, {}, []
            self.stages[stage] = facts
            states = {_part(part): training.state}
            if added is not None:
                self.added.append((added.first, added.last))
                states[_added(added.first, added.last)] = added.state
            self.parts = {each: epoch for each, epoch in self.parts.items() if each >= facts["added"]}
            self.parts[part] = training.epoch
            self._write(states)
            self.seen[part], self.last_put = (time.monotonic(), training.epoch), time.monotonic()

    def _write(self, states: dict[str, Callable[[], State]]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.number += 1
        target = self.folder / f"checkpoint-{self.number:06}"
        with scratch_folder(target) as scratch:
            fresh, known = scratch / "fresh", dict[str, Entry]()
            fresh.mkdir()
            for name, state in states.items():
                write_tensors(state(), fresh / name)
            if self.current is not None:
                entries = read_manifest(self.current).files
                wanted = {*map(_part, self.parts), *(_added(*each) for each in self.added)} - {*states}
                for name in sorted(wanted):
                    _link(self.current / name, fresh / name)
                    known[name] = entries[name][0]
            content = {
                "version": __version__,
                "identities": self.identities,
                "stage": self.stage,
                "stages": self.stages,
                "parts": {str(part): epoch for part, epoch in self.parts.items()},
                "added": self.added,
            }
            write_json(fresh / "facts.json", content)
            seal(fresh, KIND, FORMAT, known)
            put_folder(fresh, target)
        self.current = target
        for number, old in _checkpoints(self.folder):
            if number <= self.number - KEPT:
                shutil.rmtree(old)

    def _newest(self) -> Path | None:
        """Return the newest checkpoint that is whole."""
        for _, folder in reversed(_checkpoints(self.folder)):
            try:
                sealed = Sealed(folder)
                problems = [*sealed.problems().values()]
            except (DamagedError, OSError) as error:
                problems = [str(error)]
            if not problems:
                return folder
            warnings.warn(f"{folder}: damaged ({problems[0]}); going on from an earlier moment", stacklevel=3)
        return None

    def _read_facts(self, folder: Path) -> None:
        sealed = Sealed(folder)
        if (sealed.manifest.kind, sealed.manifest.format) != (KIND, FORMAT):
            seen = f"{sealed.manifest.kind} of format {sealed.manifest.format}"
            raise InputError(f"{folder}: {seen}, this version reads checkpoints of format {FORMAT}; train again")
        content = parsed_json(sealed.read("facts.json", LARGEST_FACTS), "facts.json")
        self.identities, self.stage, self.stages = content["identities"], content["stage"], content["stages"]
        self.parts = {int(part): epoch for part, epoch in content["parts"].items()}
        self.added = [(first, last) for first, last in content["added"]]


def _checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """Return the checkpoints of a folder with their numbers, the oldest first."""
    names = [(_NAME.fullmatch(each.name), each) for each in folder.iterdir()] if folder.is_dir() else []
    return sorted((int(name[1]), each) for name, each in names if name)


def _identity(graph: Graph, settings: Settings) -> dict[str, Any]:
    """Return what must be the same for a training to go on; how much time is left may differ."""
    values = {f"setting {name}": value for name, value in values_of(settings).items() if name != "time"}
    seen = {"the graph": graph.checksum, "the device": choose_device(settings.device).type, **values}
    found: dict[str, Any] = json.loads(json.dumps(seen))  # as it will be read
    return found


def _part(part: int) -> str:
    return f"part-{part}.safetensors"


def _added(first: int, last: int) -> str:
    return f"added-{first}-{last}.safetensors"


def _link(file: Path, place: Path) -> None:
    try:
        os.link(file, place)
    except OSError:  # a file system without links
        shutil.copy2(file, place)
