"""The file of a study: every row is written when it is measured, so that a study that was stopped goes on.

FOLDER/NAME-GRAPH.json is there whole or not at all. One that is about something else, or not as it was written, is
refused in a sentence: it is never written over.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from procrustes_kge.bench.studies.study import Bench, Findings, Place, Result, Row, Study, free_memory
from procrustes_kge.bench.table import commit
from procrustes_kge.errors import InputError, in_one_line
from procrustes_kge.models.ranking import PROTOCOL
from procrustes_kge.runs.experiment import device_name
from procrustes_kge.system.devices import choose_device
from procrustes_kge.system.durable import LONGEST_NAME
from procrustes_kge.system.files import read_json, scratch_folder, write_json_atomically
from procrustes_kge.system.memory import is_out_of_memory
from procrustes_kge.validation import check_entries
from procrustes_kge.version import __version__
from procrustes_kge.words import listed

FORMAT = 1
ENTRIES: dict[str, Any] = {
    **{"format": int, "study": str, "graph": str, "checksum": str, "quick": bool, "device": str, "protocol": str},
    **{"commit": str | None, "version": str, "planned": int, "rows": list},
}
ROW: dict[str, Any] = {"name": str, "about": dict, "figures": dict | None, "problem": str | None}
SOON = 0.02  # share of the work after which an estimate of the rest is worth showing


@dataclass(frozen=True)
class StudyProgress:
    """How far a study has come: rows that are done, which one is measured, and about how many seconds are left."""

    done: int
    rows: int
    name: str
    share: float  # of the work that was left when it began
    left: float | None = None


class Conducted:
    """A study of a place, kept in a folder: what was measured before, and what is still to be."""

    def __init__(self, study: Study, place: Place, folder: Path, at_commit: str | None = None) -> None:
        """Begin a study, or go on with one; `InputError` where its file is of something else, or damaged."""
        self.study, self.place, self.commit = study, place, at_commit
        self.file = study_file(study.name, place.graph.name, folder)
        self.plan = study.plan(place)
        with scratch_folder(folder / "row"):  # a folder that cannot be written is an error before anything is measured
            pass
        self.content = self._content()
        self.results = [Result(**row) for row in self.content["rows"]]

    @property
    def todo(self) -> list[Row]:
        """The rows that are still to be measured."""
        done = {row.name for row in self.results}
        return [row for row in self.plan if row.name not in done]

    @property
    def findings(self) -> Findings:
        """All that was found so far."""
        return findings(self.content)

    def measured(
        self, report: Callable[[StudyProgress], None] = lambda progress: None, only: str = ""
    ) -> Iterator[Result]:
        """Measure the rows that are left, or those whose name begins so; each is written, and yielded, when done."""
        todo, began = [row for row in self.todo if row.name.startswith(only)], time.perf_counter()
        whole, done = sum(row.cost for row in todo), 0.0
        for row in todo:

            def tell(part: float, row: Row = row, before: float = done) -> None:
                share = (before + part * row.cost) / whole
                spent = time.perf_counter() - began
                left = spent / share - spent if share > SOON else None
                report(StudyProgress(len(self.results), len(self.plan), row.name, share, left))

            tell(0.0)
            result = attempted(row, Bench(self.place, tell))
            done += row.cost
            self._keep(result)
            tell(1.0)
            free_memory()
            yield result

    def _keep(self, result: Result) -> None:
        self.results.append(result)
        order = [row.name for row in self.plan]
        self.results.sort(key=lambda each: order.index(each.name))
        self.content["rows"] = [_plain(vars(each)) for each in self.results]
        write_json_atomically(self.file, self.content)

    def _content(self) -> dict[str, Any]:
        """Return what the file holds, or what a new one begins with."""
        place = self.place
        device = device_name(choose_device(place.device))
        fresh: dict[str, Any] = {
            **{"format": FORMAT, "study": self.study.name, "graph": place.graph.name},
            **{"checksum": place.graph.checksum, "quick": place.quick, "device": device, "protocol": PROTOCOL},
            **{"version": __version__, "planned": len(self.plan), "rows": []},
        }
        if not self.file.exists():
            return {**fresh, "commit": self.commit or commit()}
        found = read_study(self.file)
        self._check_same(found, fresh)
        return found

    def _check_same(self, found: dict[str, Any], fresh: dict[str, Any]) -> None:
        """Refuse to go on with a study of something else, and say what."""
        about = {row.name: _plain(dict(row.about)) for row in self.plan}
        other = [row["name"] for row in found["rows"] if about.get(row["name"]) != row["about"]]
        seen = None
        if found["study"] != fresh["study"]:
            seen = f"the study {found['study']:.60}"
        elif found["checksum"] != fresh["checksum"]:
            seen = "another graph of this name, or another split of it"
        elif found["quick"] != fresh["quick"]:
            seen = "what --quick measured" if found["quick"] else "what was measured without --quick"
        elif other:
            seen = f"the row {other[0]!r:.80} with other settings, or of another version"
        elif found["device"] != fresh["device"] and len(found["rows"]) < len(self.plan):
            seen = f"what was measured on {found['device']:.80}, and this is {fresh['device']}"
        if seen is not None:
            raise InputError(f"{self.file}: holds {seen}; choose another --out, or delete it to measure anew")


def attempted(row: Row, bench: Bench) -> Result:
    """Measure a row; one that diverges, does not fit into memory or cannot be trained has a reason and no figures."""
    about = _plain(dict(row.about))
    try:
        return Result(row.name, about, _plain(row.measure(bench)))
    except (InputError, RuntimeError, MemoryError) as error:
        if isinstance(error, InputError):
            return Result(row.name, about, problem=str(error))
        if not is_out_of_memory(error):
            raise
    return Result(row.name, about, problem="out of memory")


def study_file(study: str, graph: str, folder: Path) -> Path:
    """Return where a study of a graph is kept."""
    plain = "".join(each if each.isalnum() or each in "-_.+" else "-" for each in graph).strip(".") or "graph"
    return folder / f"{study}-{plain.encode()[: LONGEST_NAME // 2].decode(errors='ignore')}.json"


def read_study(file: Path) -> dict[str, Any]:
    """Return what the file of a study holds; `InputError` where it is missing, or not as it was written."""
    if not file.exists():
        raise InputError(f"{file}: there is no such study; `procrustes bench --help` lists those that can be measured")
    try:
        content = read_json(file)
        if type(content.get("format")) is int and content["format"] > FORMAT:
            raise ValueError(f"format {content['format']}, this version reads {FORMAT}")
        check_entries(content, ENTRIES, "the study")
        for row in content["rows"]:
            check_entries(row, ROW, "a row")
            if (row["figures"] is None) == (row["problem"] is None):
                raise ValueError(f"the row {row['name']!r:.60} has neither figures nor a problem, or both")
        names = [row["name"] for row in content["rows"]]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"rows that are there twice: {listed(twice[:3]):.100}")
    except (OSError, ValueError) as error:
        reason = in_one_line(error)
        raise InputError(f"{file}: is no study, or a damaged one ({reason}); delete it to measure anew") from error
    return content


def findings(content: dict[str, Any]) -> Findings:
    """Return what the file of a study holds as findings."""
    rows = [Result(**row) for row in content["rows"]]
    return Findings(**{name: content[name] for name in ("study", "graph", "quick", "device", "planned")}, rows=rows)


def _plain(content: dict[str, Any]) -> dict[str, Any]:
    """Return an object as JSON gives it back: a tuple is a list there."""
    plain: dict[str, Any] = json.loads(json.dumps(content))
    return plain
