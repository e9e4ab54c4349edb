"""A run folder as numpy sees it, its tables mapped from the disk: what one question needs, without PyTorch.

Loading PyTorch takes seconds, one question some milliseconds. What is read here is checked as `store.load_run` checks
it: the manifest against its own checksum, every file that is used against its size and SHA-256 in the manifest (the
mapped ones too, all of their bytes), names, shapes, numbers and ids against each other. Files that a question does not
use, such as the report, are not opened. Whatever is unusual or wrong gives None: `load_run` answers then, or says what
is wrong. Like any file of a run, a mapped one is only ever replaced, never written to.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from procrustes_kge.graphs.vocabulary import SPLITS, Vocabulary
from procrustes_kge.models.calibration import Calibration
from procrustes_kge.runs.headers import read_header
from procrustes_kge.system.files import names_in, parsed_json
from procrustes_kge.system.sealed import DamagedError, Entry, Sealed, open_plain

FORMATS = (5, 6)  # in 5, no relation had rotations of its own for the way back
DTYPES = {"F32": np.float32, "I64": np.int64, "U8": np.uint8}
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, eq=False)
class Mapped:
    """What a run folder holds: names, triples by split, the kind of model, and its tables, which cannot be written."""

    entities: Vocabulary
    relations: Vocabulary
    splits: Mapping[str, np.ndarray]
    about: Mapping[str, Any]  # settings.json
    tables: Mapping[str, np.ndarray]
    calibration: Calibration | None


def mapped_run(folder: Path) -> Mapped | None:
    """Return a run without PyTorch, or None where that is not possible."""
    if not (folder / "manifest.json").is_file():
        return None
    try:
        sealed = Sealed(folder)
        if sealed.manifest.kind != "run" or sealed.manifest.format not in FORMATS or "paths.safetensors" in sealed:
            return None
        return _mapped(sealed)
    except UNREADABLE:
        return None


def _mapped(sealed: Sealed) -> Mapped:
    model = MappedFile(sealed, "model.safetensors")  # summed in a thread of its own, while the rest is read
    about = parsed_json(sealed.read("settings.json"), "settings.json")
    entities, relations = (_names(sealed, *each) for each in (("entities", "entity"), ("relations", "relation")))
    splits: dict[str, np.ndarray] = {}
    if "triples.safetensors" in sealed:
        file = MappedFile(sealed, "triples.safetensors")
        splits = file.arrays()
        file.check()
        _check_triples(splits, len(entities), len(relations))
    if (about["graph"] is None) != (not splits):
        raise DamagedError("a graph without triples, or triples without a graph")
    tables = model.arrays()
    model.check()
    for name, table in tables.items():
        if not all(map(math.isfinite, (table.min(initial=0), table.max(initial=0)))):
            raise DamagedError(f"{name} has numbers that are not finite")
    curve = None
    if "calibration.json" in sealed:
        content = parsed_json(sealed.read("calibration.json"), "calibration.json")
        curve = Calibration.of_json(content, 2 * len(relations), "calibration.json")
    return Mapped(entities, relations, splits, {"inverses": False, **about}, tables, curve)


def _names(sealed: Sealed, stem: str, kind: str) -> Vocabulary:
    file, of_labels = f"{stem}.txt", {"entity": "labels.json", "relation": "relation_labels.json"}[kind]
    names = names_in(sealed.read(file), file)
    labels = parsed_json(sealed.read(of_labels), of_labels) if of_labels in sealed else {}
    if not names or "" in names or len(set(names)) < len(names):
        raise DamagedError(f"{file} has names that are empty, or the same")
    if not all(isinstance(label, str) for label in labels.values()):
        raise DamagedError(f"{of_labels} has a label that is not text")
    return Vocabulary(names, kind, labels)


def _check_triples(splits: Mapping[str, np.ndarray], entities: int, relations: int) -> None:
    if splits.keys() != set(SPLITS):
        raise DamagedError("splits of other names")
    for triples in splits.values():
        if triples.dtype != np.int64 or triples.ndim != 2 or triples.shape[1] != 3:
            raise DamagedError("triples of another shape")
        if len(triples) and (triples.min() < 0 or (triples.max(axis=0) >= (entities, relations, entities)).any()):
            raise DamagedError("triples of ids that have no name")


class MappedFile:
    """A file of tensors in memory, as the system maps it; it is compared with the manifest by `check`."""

    def __init__(self, sealed: Sealed, name: str) -> None:
        self.name, self.entries, self.place = name, sealed.manifest.files[name], 0
        with open_plain(sealed.folder / name) as raw:
            self.size = os.fstat(raw.fileno()).st_size
            if self.size not in (entry.bytes for entry in self.entries) or not self.size:
                raise DamagedError(f"{name} has {self.size:,} bytes")
            self.map = mmap.mmap(raw.fileno(), self.size, access=mmap.ACCESS_READ)
        self.sum, self.summing = hashlib.sha256(), threading.Thread(target=self._add_up, daemon=True)
        self.summing.start()

    def _add_up(self) -> None:
        self.sum.update(self.map)  # without Python's lock

    def check(self) -> None:
        """Refuse a file of another checksum than the manifest has."""
        self.summing.join()
        if Entry(self.size, self.sum.hexdigest()) not in self.entries:
            raise DamagedError(f"{self.name} was changed or damaged since it was written")

    @property
    def left(self) -> int:
        """How many bytes come after those that were taken."""
        return self.size - self.place

    def take(self, count: int) -> bytes:
        """Return as many bytes, those that come next."""
        self.place += count
        return self.map[self.place - count : self.place]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the tensors, which share the memory of the file."""
        found = {}
        for name, about in read_header(self).items():
            count, begin = math.prod(about.shape), self.place + about.start
            found[name] = np.frombuffer(self.map, DTYPES[about.dtype], count, begin).reshape(about.shape)
        return found
