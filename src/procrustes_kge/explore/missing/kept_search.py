"""What a search has found so far, in a sealed folder that is replaced in one moment: it can go on after any stop.

FILE.partial/state.json          what is searched, and how far the search has come
FILE.partial/found.safetensors   the best triples so far, with their scores
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from procrustes_kge.errors import DamagedFolderError, InputError, in_one_line
from procrustes_kge.explore.missing.best import Best
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.with_paths import WithPaths
from procrustes_kge.runs.experiment import Model
from procrustes_kge.runs.tensors import Spec, Specs, read_tensors, write_tensors
from procrustes_kge.system.durable import locked, put_folder
from procrustes_kge.system.files import explain_write_errors, parsed_json, scratch_folder, write_json
from procrustes_kge.system.sealed import DamagedError, Sealed, seal
from procrustes_kge.validation import check_entries

KIND, FORMAT, SUFFIX = "search", 1, ".partial"
STATE, FOUND = "state.json", "found.safetensors"
LARGEST_STATE = 2**24  # bytes
CONTENT = {"identity": dict, "relation": int, "job": int, "seconds": float | int}


class Place(NamedTuple):
    """How far a search has come: the relation and the job that come next, and what was found before."""

    relation: int
    job: int
    seconds: float
    best: Best


class Kept:
    """A folder in which a search keeps its place."""

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self.folder, self.identity = folder, dict(identity)

    def read(self, k: int) -> Place | None:
        """Return where the search was stopped, if it was; that of another search is refused."""
        if not self.folder.exists():
            return None
        try:
            sealed = Sealed(self.folder)
            if (sealed.manifest.kind, sealed.manifest.format) != (KIND, FORMAT):
                raise DamagedError(f"a {sealed.manifest.kind} of format {sealed.manifest.format}")
            return self._place(sealed, k)
        except (OSError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            reason = in_one_line(error)
            message = f"{self.folder}: damaged ({reason}), so the search cannot go on; delete it to begin again"
            raise DamagedFolderError(message, reason) from error

    def _place(self, sealed: Sealed, k: int) -> Place:
        state = parsed_json(sealed.read(STATE, LARGEST_STATE), STATE)
        check_entries(state, CONTENT, STATE)
        theirs = state["identity"]
        if other := [name for name in self.identity if theirs.get(name) != self.identity[name]]:
            known = other[0] in theirs and isinstance(self.identity[other[0]], int | bool)
            seen = f"{other[0]} {theirs[other[0]]!s:.60}, now {self.identity[other[0]]}" if known else other[0]
            raise InputError(f"{self.folder}: is of another search ({seen}); ask for the same, or delete it to begin")
        relations = self.identity["relations"]
        if not (0 <= state["relation"] <= len(relations) and state["job"] >= 0 and state["seconds"] >= 0):
            raise DamagedError(f"{STATE} has a place that cannot be")
        tables = read_tensors(sealed, FOUND, lambda specs: _check(specs, k))
        best = Best(k, tables["keys"], tables["scores"], tables["triples"])
        return Place(state["relation"], state["job"], float(state["seconds"]), best)

    def write(self, place: Place) -> None:
        """Replace what is kept, flushed to the disk; a crash leaves the one or the other."""
        best = place.best
        with explain_write_errors(self.folder), locked(self.folder), scratch_folder(self.folder) as scratch:
            fresh = scratch / "fresh"
            fresh.mkdir()
            content = {"identity": self.identity, **place._asdict()}
            write_json(fresh / STATE, {name: content[name] for name in CONTENT})
            tables = {"keys": best.keys, "scores": best.scores, "triples": best.triples}
            write_tensors(tables, fresh / FOUND)
            seal(fresh, KIND, FORMAT)
            put_folder(fresh, self.folder)

    def remove(self) -> None:
        """Delete what was kept: the search is over."""
        if not self.folder.exists():
            return
        with scratch_folder(self.folder) as scratch:
            self.folder.rename(scratch / "done")  # in one moment: what is left of it is nothing to go on from


def _check(specs: Specs, k: int) -> None:
    count = specs["keys"].shape[0] if "keys" in specs and specs["keys"].shape else 0
    wanted = {"keys": Spec(torch.float64, (count,)), "scores": Spec(torch.float32, (count,))}
    if specs != wanted | {"triples": Spec(torch.int64, (count, 3))} or count > k:
        raise DamagedError(f"{FOUND} does not hold the best {k:,} triples")


def fingerprint(model: Model) -> str:
    """Return a checksum of all numbers of a model."""
    digest = hashlib.sha256()
    for name, table in sorted(_tables(model).items()):
        digest.update(f"{name} {tuple(table.shape)} {table.dtype}\0".encode())
        digest.update(table.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _tables(model: Model) -> dict[str, Tensor]:
    if isinstance(model, WithPaths):
        return _tables(model.embedding) | model.evidence_tables() | {"train": model.train}
    return dict(model.module.state_dict() if isinstance(model, TrainedBaseline) else model.tables())
