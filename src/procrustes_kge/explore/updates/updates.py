"""A run folder that is changed after its training, and changed back."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from procrustes_kge.errors import InputError
from procrustes_kge.explore.updates.updating import Updated, change, read_update
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.runs.history import save_change
from procrustes_kge.runs.saved import SavedRun
from procrustes_kge.runs.store import check_target, load_run
from procrustes_kge.system.durable import locked
from procrustes_kge.training.trainer import Report
from procrustes_kge.version import __version__

MOST_NAMES = 1000  # of new entities that the history has by name

Read = Callable[[Any, SavedRun], Graph]


@dataclass(frozen=True)
class Update:
    """What came of an update: the run as it is now, the entry of its history (none where nothing changed), seconds."""

    run: Updated
    entry: dict[str, Any] | None
    folder: Path


def update(
    run: str | Path,
    triples: Any = None,
    *,
    remove: Any = None,
    epochs: int = 0,
    out: str | Path | None = None,
    report: Report | None = None,
    read: Read = read_update,
    device: str = "cpu",
) -> Update:
    """Change a run folder: add triples, remove others, place what is new, and train for a few epochs if asked to.

    The run is changed in place, or saved to `out`; it keeps its history, and `undo` takes the change back.
    """
    if triples is None and remove is None:
        raise InputError("an update without triples; give some to add, or some to remove")
    folder = Path(run)
    target = folder if out is None else Path(out)
    with locked(target):
        check_target(target, changed=target.resolve() == folder.resolve())
        opened = load_run(folder)
        if opened.graph is None:
            raise InputError(f"{run}: saved without its triples, so nothing can be added to them; save it with graph=…")
        started = time.perf_counter()
        graphs = [None if source is None else read(source, opened) for source in (triples, remove)]
        moved = SavedRun(opened.model.to(device), opened.graph, opened.settings, opened.report, folder)
        done = change(moved, graphs[0], graphs[1], epochs, report)
        if done.empty:
            return Update(done, None, folder)
        entry = {
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "sources": [_described(source, graph) for source, graph in zip((triples, remove), graphs, strict=True)],
            "counts": done.counts,
            "entities": list(done.new[:MOST_NAMES]),
            "epochs": epochs,
            "notes": list(done.notes),
            "seconds": round(time.perf_counter() - started, 3),
            "version": __version__,
        }
        return Update(done, save_change(done, folder, target, entry), target)


def _described(source: Any, graph: Graph | None) -> Mapping[str, Any] | None:
    """Return the name and the checksum of what was read: of the file, or of the triples where there is none."""
    if graph is None:
        return None
    file = Path(source) if isinstance(source, str | Path) else None
    if file is not None and file.is_file():
        with file.open("rb") as content:
            return {"file": str(source), "sha256": hashlib.file_digest(content, "sha256").hexdigest()}
    return {"file": None, "sha256": graph.checksum}
