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

from procrustes_kge.errors import DamagedFolderError, InputError, in_one_line
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.runs.tensors import read_tensors, write_tensors
from procrustes_kge.system.devices import choose_device
from procrustes_kge.system.durable import put_folder
from procrustes_kge.system.files import explain_write_errors, is_folder, parsed_json, scratch_folder, write_json
from procrustes_kge.system.sealed import DamagedError, Entry, Sealed, read_manifest, seal
from procrustes_kge.training.budget import parse_time
from procrustes_kge.training.checkpoints import TUNING, Added, Checkpoints, Facts, InTraining, Kept, check_facts
from procrustes_kge.training.recipes import Settings, values_of
from procrustes_kge.training.state import State
from procrustes_kge.validation import MOST, check_entries
from procrustes_kge.version import __version__

FORMAT, KIND, FACTS = 1, "checkpoint", "facts.json"
KEPT = 2  # checkpoints
LARGEST_FACTS = 2**26  # bytes
SETTING = "setting "
CONTENT = {"version": str, "identities": dict, "stage": str, "stages": dict, "parts": dict, "added": list}
NAME = re.compile(r"checkpoint-(\d{6,})")


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
        self, folder: str | Path, every: str | int | Interval | None = None, begin: Callable[[], None] | None = None
    ) -> None:
        """Go on from the last checkpoint of the folder that is whole, if any.

        `every` is a time such as "5m" or a number of epochs such as 3; without it, only `stop` makes one. `begin` is
        called before the first one is written.
        """
        self.folder, self.begin = Path(folder), begin
        self.every = every if every is None or isinstance(every, Interval) else parse_interval(str(every))
        self.lock, self.stop_asked = threading.RLock(), threading.Event()
        self.stages, self.stage = dict[str, Facts](), ""
        self.identities = dict[str, dict[str, Any]]()
        self.parts, self.added = dict[int, int](), list[tuple[int, int]]()
        self.seen, self.last_put = dict[int, tuple[float, int]](), time.monotonic()
        self.number = max((number for number, _ in numbered(self.folder)), default=0)
        self.current = self._newest()
        self.seconds = sum(facts["seconds"] for facts in self.stages.values())

    def go_on(self) -> None:
        """Forget that the training was asked to stop."""
        self.stop_asked.clear()
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
            try:
                return read_tensors(Sealed(self.current), name)
            except (OSError, ValueError) as error:
                raise _damaged(self.current, error) from error

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

    def put_facts(self, stage: str, facts: Facts) -> None:
        """Write a checkpoint of a stage that has no parts."""
        with self.lock, explain_write_errors(self.folder):
            if self.current is None and self.begin is not None:
                self.begin()
            self.note(stage, facts)
            self._write({})
            self.last_put = time.monotonic()

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
            write_json(fresh / FACTS, content)
            seal(fresh, KIND, FORMAT, known)
            put_folder(fresh, target)
        self.current = target
        for number, old in numbered(self.folder):
            if number <= self.number - KEPT:
                shutil.rmtree(old, ignore_errors=True)  # it is not needed, and no reason to stop

    def _newest(self) -> Path | None:
        """Return the newest checkpoint that is whole."""
        for _, folder in reversed(numbered(self.folder)):
            try:
                content = read_checkpoint(folder)
            except DamagedFolderError as error:
                warnings.warn(f"{folder}: damaged ({error.reason}), and so not used", stacklevel=3)
                continue
            self.identities, self.stages, self.stage, self.parts, self.added = content
            return folder
        return None


class Content(NamedTuple):
    """What a checkpoint knows of a training, the states aside."""

    identities: dict[str, dict[str, Any]]
    stages: dict[str, Facts]
    stage: str
    parts: dict[int, int]  # the epochs that each part in training has had
    added: list[tuple[int, int]]


def read_checkpoint(folder: Path) -> Content:
    """Compare all files of a checkpoint with its manifest, and return what it knows.

    `DamagedFolderError` where it is not as it was written; `InputError` where another version wrote it.
    """
    try:
        sealed = Sealed(folder)
        kind, format = sealed.manifest.kind, sealed.manifest.format
        if (kind, format) != (KIND, FORMAT):
            remedy = "go on with the version that wrote it, or train again"
            raise InputError(f"{folder}: a {kind} of format {format}, this version reads format {FORMAT}; {remedy}")
        for problem in sealed.problems().values():
            raise DamagedError(problem)
        return _content(parsed_json(sealed.read(FACTS, LARGEST_FACTS), FACTS), sealed)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise _damaged(folder, error) from error


def _content(found: dict[str, Any], sealed: Sealed) -> Content:
    """Refuse facts that cannot be, or that speak of files that are missing."""
    check_entries(found, CONTENT, FACTS)
    stages, stage, identities = found["stages"], found["stage"], found["identities"]
    try:
        for name, facts in stages.items():
            check_facts(name, facts)
        parts = {int(part): epoch for part, epoch in found["parts"].items()}
        added = [(first, last) for first, last in found["added"]]
        done = stages[stage]["added"] if stage else 0
        firsts, ends = [0, *(last for _, last in added)], [*(first for first, _ in added), done]
        epochs = all(type(epoch) is int and 0 < epoch <= MOST for epoch in parts.values())
        if firsts != ends or not epochs or not (stage or not parts) or stages.keys() != identities.keys():
            raise ValueError("its parts do not fit together")
        for identity in identities.values():
            named = {name: identity[name] for name in identity if not name.startswith(SETTING)}
            check_entries(named, {"the graph": str, "the device": str}, "what it is of")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(f"{FACTS}: what it says of the training cannot be ({error})") from error
    names = {FACTS, *map(_part, parts), *(_added(*each) for each in added)}
    for name in sorted(names ^ sealed.manifest.files.keys()):
        raise DamagedError(f"{name} is {'missing' if name in names else f'unknown to {FACTS}'}")
    return Content(identities, stages, stage, parts, added)


def check_same(content: Content, settings: Settings) -> None:
    """Refuse a checkpoint of other settings than a training's, or than a stage of it has."""
    values = {name: value for name, value in values_of(settings).items() if name != "time"}
    found = content.stages.get(TUNING, {}).get("settings", values)  # by a search, which started from those
    for stage, identity in content.identities.items():
        values = values if stage == TUNING else found
        theirs = {name.removeprefix(SETTING): each for name, each in identity.items() if name.startswith(SETTING)}
        epochs = theirs.get("epochs")
        chosen = {"epochs": epochs, "patience": 0, "replay": ""}  # where epochs were chosen in a stage before
        for name in sorted(theirs.keys() | values.keys()):
            if name not in theirs or theirs[name] not in (values.get(name), chosen.get(name, values.get(name))):
                raise DamagedError(f"{FACTS}: it is of another training ({SETTING}{name})")
        if type(epochs) is not int or not 0 < epochs <= MOST:
            raise DamagedError(f"{FACTS}: it is of another training ({SETTING}epochs)")


def _damaged(folder: Path, error: Exception) -> DamagedFolderError:
    remedy = "delete it to go on from the one before, or train again"
    reason = in_one_line(error)
    return DamagedFolderError(f"{folder}: damaged ({reason}); {remedy}", reason)


def numbered(folder: Path) -> list[tuple[int, Path]]:
    """Return the checkpoints of a folder with their numbers, the oldest first."""
    folders = filter(is_folder, folder.iterdir()) if folder.is_dir() else ()
    names = [(NAME.fullmatch(each.name), each) for each in folders]
    return sorted((int(name[1]), each) for name, each in names if name)


def _identity(graph: Graph, settings: Settings) -> dict[str, Any]:
    """Return what must be the same for a training to go on; how much time is left may differ."""
    values = {f"{SETTING}{name}": value for name, value in values_of(settings).items() if name != "time"}
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
