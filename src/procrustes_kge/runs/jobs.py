"""A job: a training as it was asked for, kept beside the run folder that it is to become, so that it can be resumed.

runs/NAME.unfinished/job/                  the graph, the settings, and what else was asked for
runs/NAME.unfinished/checkpoint-000007/    how far it has come
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any

from procrustes_kge.errors import DamagedFolderError, InputError, in_one_line
from procrustes_kge.graphs.graph import SPLITS, Graph, Vocabulary
from procrustes_kge.runs.contents import ENTITIES, RELATIONS, TRIPLES, check_names, check_triples
from procrustes_kge.runs.tensors import read_tensors, write_tensors
from procrustes_kge.system.durable import put_folder
from procrustes_kge.system.files import (
    explain_write_errors,
    is_folder,
    names_in,
    parsed_json,
    scratch_folder,
    write_json,
    write_names,
)
from procrustes_kge.system.sealed import Sealed, seal
from procrustes_kge.training.recipes import Settings, method_name, settings_of, values_of
from procrustes_kge.training.tuned import Tuning
from procrustes_kge.validation import check_entries
from procrustes_kge.version import __version__

FORMAT, TRAINING, TABLE, JOB = 2, "training", "table", "job"
SUFFIX = ".unfinished"
ABOUT: dict[str, dict[str, Any]] = {
    TRAINING: {
        **{"version": str, "name": str, "notes": list, "labels": dict, "relation_labels": dict, "relations": bool},
        **{"method": str, "settings": dict, "options": dict, "recipe": str, "source": str},
        **{"grid": str | None, "planned": dict | None},
        "tuning": dict | None,
    },
    TABLE: {"only": list, "device": str, "markdown": bool, "as_json": bool},
}

_NUMBER = float | int | None
OF_TUNING: dict[str, Any] = {"kept": list, "seconds": _NUMBER, "trials": int | None, "memory": _NUMBER, "enough": bool}


@dataclass(frozen=True)
class Job:
    """A graph, settings, and what else `procrustes train` was told."""

    graph: Graph
    settings: Settings
    recipe: str
    source: str = ""  # as it was given, for the command that repeats the run
    options: dict[str, Any] = field(default_factory=dict)  # flags that are no settings, for the same
    grid: str | None = None
    relations: bool = True  # whether they are saved
    planned: dict[str, float] | None = None
    tuning: Tuning | None = None

    def __post_init__(self) -> None:
        """Keep paths as text: a job is written as JSON."""
        plain = {name: str(value) if isinstance(value, Path) else value for name, value in self.options.items()}
        object.__setattr__(self, "options", plain)


def unfinished(run: Path) -> Path:
    """Return the folder of the job that is to become a run folder; that folder itself stands for itself."""
    run = run.resolve() if run.name in ("", "..") else run  # such as `.`, which has no name to add to
    return run if run.name.endswith(SUFFIX) else run.parent / f"{run.name}{SUFFIX}"


def write_job(job: Job, folder: Path) -> None:
    """Write a job into its folder, flushed to the disk."""
    graph = job.graph
    about = {
        "version": __version__,
        "name": graph.name,
        "notes": graph.notes,
        "labels": graph.entities.labels,
        "relation_labels": graph.relations.labels,
        "method": method_name(job.settings),
        "settings": values_of(job.settings),
        **{name: getattr(job, name) for name in ("recipe", "source", "options", "grid", "relations", "planned")},
        "tuning": asdict(job.tuning) if job.tuning else None,
    }

    def write(fresh: Path) -> None:
        write_json(fresh / "job.json", about)
        write_names(fresh / ENTITIES, graph.entities)
        write_names(fresh / RELATIONS, graph.relations)
        write_tensors({split: graph.split(split) for split in SPLITS}, fresh / TRIPLES)

    _put(folder, TRAINING, write)


def write_table(arguments: dict[str, Any], folder: Path) -> None:
    """Write what a table was asked for with, flushed to the disk."""
    _put(folder, TABLE, lambda fresh: write_json(fresh / "job.json", arguments))


def _put(folder: Path, kind: str, write: Callable[[Path], None]) -> None:
    target = folder / JOB
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with scratch_folder(target) as scratch:
                fresh = scratch / "fresh"
                fresh.mkdir()
                write(fresh)
                seal(fresh, kind, FORMAT)
                put_folder(fresh, target)
        except BaseException:
            with suppress(OSError):  # what has something in it stays
                folder.rmdir()
            raise


def read_job(folder: Path) -> Job | dict[str, Any]:
    """Return the job of a folder, or what a table was asked for with; `InputError` where it is damaged or too new."""
    try:
        sealed = Sealed(folder / JOB)
        kind, format = sealed.manifest.kind, sealed.manifest.format
        if kind in ABOUT and format == FORMAT:
            return _job(sealed, kind)
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = in_one_line(error)
        raise DamagedFolderError(f"{folder}: its job is damaged ({reason}); train again", reason) from error
    seen = f"a {kind} of format {format}, this version reads format {FORMAT}"
    raise InputError(f"{folder}: {seen} of a {TRAINING} or a {TABLE}; train again")


def _job(sealed: Sealed, kind: str) -> Job | dict[str, Any]:
    about = parsed_json(sealed.read("job.json"), "job.json")
    usual: dict[str, Any] = (
        {"tuning": None} if kind == TRAINING else {}
    )  # jobs from before there were searches have none
    about = usual | about if isinstance(about, dict) else about
    check_entries(about, ABOUT[kind], "job.json")
    if kind == TABLE:
        return about
    plain = all(type(value) in (str, int, float, bool, NoneType) for value in about["options"].values())
    if not plain or not all(type(value) in (int, float) for value in (about["planned"] or {}).values()):
        raise ValueError("job.json has options, or a plan, of things that are none")
    entities, relations = (names_in(sealed.read(name), name) for name in (ENTITIES, RELATIONS))
    check_names(entities, about["labels"], ENTITIES, "job.json")
    check_names(relations, about["relation_labels"], RELATIONS, "job.json")
    triples = read_tensors(sealed, TRIPLES)
    check_triples(triples, len(entities), len(relations))
    graph = Graph(
        about["name"],
        Vocabulary(entities, "entity", about["labels"]),
        Vocabulary(relations, "relation", about["relation_labels"]),
        **{split: triples[split] for split in SPLITS},
        notes=tuple(about["notes"]),
    )
    rest = {name: about[name] for name in ("recipe", "source", "options", "grid", "relations", "planned")}
    return Job(graph, settings_of(about["method"], about["settings"]), **rest, tuning=_tuning(about["tuning"]))


def _tuning(values: dict[str, Any] | None) -> Tuning | None:
    if values is None:
        return None
    check_entries(values, OF_TUNING, "the search")
    if not all(type(name) is str for name in values["kept"]):
        raise ValueError("the search keeps settings that are none")
    return Tuning(**{**values, "kept": tuple(values["kept"])})


def remove(folder: Path) -> None:
    """Delete the folder of a job that is done; what others put there stays."""
    if not folder.exists():
        return
    with scratch_folder(folder) as scratch:
        if not strangers(folder):
            folder.rename(scratch / "done")  # in one moment: what is left of it is no job
            return
        for each in list(folder.iterdir()):
            if _of_a_job(each):
                each.rename(scratch / each.name)


def strangers(folder: Path) -> list[str]:
    """Return what lies in the folder of a job, or of several trainings, and is no part of them."""
    return sorted(each.name for each in folder.iterdir() if not _is_ours(each)) if folder.is_dir() else []


def _is_ours(place: Path) -> bool:
    if _of_a_job(place) or not is_folder(place):
        return _of_a_job(place) or place.suffix == ".json"  # the report of one of several
    return all(map(_of_a_job, place.iterdir()))  # the checkpoints of one of several


def _of_a_job(place: Path) -> bool:
    return is_folder(place) and (place.name == "job" or place.name.startswith((".", "checkpoint-")))
