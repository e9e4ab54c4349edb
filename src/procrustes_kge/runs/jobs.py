"""A job: a training as it was asked for, kept beside the run folder that it is to become, so that it can be resumed.

runs/NAME.unfinished/job/                  the graph, the settings, and what else was asked for
runs/NAME.unfinished/checkpoint-000007/    how far it has come
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from procrustes_kge.errors import DamagedFolderError, InputError
from procrustes_kge.graphs.graph import SPLITS, Graph, Vocabulary
from procrustes_kge.runs.experiment import method_name
from procrustes_kge.runs.tensors import read_tensors, write_tensors
from procrustes_kge.system.durable import put_folder
from procrustes_kge.system.files import (
    explain_write_errors,
    names_in,
    parsed_json,
    scratch_folder,
    write_json,
    write_names,
)
from procrustes_kge.system.sealed import DamagedError, Sealed, seal
from procrustes_kge.training.recipes import Settings, settings_of, values_of
from procrustes_kge.version import __version__

FORMAT, TRAINING, TABLE, JOB = 1, "training", "table", "job"
SUFFIX = ".unfinished"


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

    def __post_init__(self) -> None:
        """Keep paths as text: a job is written as JSON."""
        plain = {name: str(value) if isinstance(value, Path) else value for name, value in self.options.items()}
        object.__setattr__(self, "options", plain)


def unfinished(run: Path) -> Path:
    """Return the folder of the job that is to become a run folder; that folder itself stands for itself."""
    return run if run.name.endswith(SUFFIX) else run.with_name(run.name + SUFFIX)


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
    }

    def write(fresh: Path) -> None:
        write_json(fresh / "job.json", about)
        write_names(fresh / "entities.txt", graph.entities)
        write_names(fresh / "relations.txt", graph.relations)
        write_tensors({split: graph.split(split) for split in SPLITS}, fresh / "triples.safetensors")

    _put(folder, TRAINING, write)


def write_table(arguments: dict[str, Any], folder: Path) -> None:
    """Write what a table was asked for with, flushed to the disk."""
    _put(folder, TABLE, lambda fresh: write_json(fresh / "job.json", arguments))


def _put(folder: Path, kind: str, write: Callable[[Path], None]) -> None:
    target = folder / JOB
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with scratch_folder(target) as scratch:
            fresh = scratch / "fresh"
            fresh.mkdir()
            write(fresh)
            seal(fresh, kind, FORMAT)
            put_folder(fresh, target)


def read_job(folder: Path) -> Job | dict[str, Any]:
    """Return the job of a folder, or what a table was asked for with; `InputError` where it is damaged or too new."""
    try:
        sealed = Sealed(folder / JOB)
        kind, format = sealed.manifest.kind, sealed.manifest.format
        if kind not in (TRAINING, TABLE) or format != FORMAT:
            seen = f"a {kind} of format {format}, this version reads format {FORMAT}"
            raise InputError(f"{folder}: {seen} of a {TRAINING} or a {TABLE}; train again")
        about = parsed_json(sealed.read("job.json"), "job.json")
        if kind == TABLE:
            return about
        entities, relations = (names_in(sealed.read(name), name) for name in ("entities.txt", "relations.txt"))
        triples = read_tensors(sealed, "triples.safetensors")
        graph = Graph(
            about["name"],
            Vocabulary(entities, "entity", about["labels"]),
            Vocabulary(relations, "relation", about["relation_labels"]),
            **{split: triples[split] for split in SPLITS},
            notes=tuple(about["notes"]),
        )
        rest = {name: about[name] for name in ("recipe", "source", "options", "grid", "relations", "planned")}
        return Job(graph, settings_of(about["method"], about["settings"]), **rest)
    except (DamagedError, OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise DamagedFolderError(f"{folder}: its job is damaged ({error}); train again", str(error)) from error


def remove(folder: Path) -> None:
    """Delete the folder of a job that is done."""
    if folder.exists():
        with scratch_folder(folder) as scratch:
            folder.rename(scratch / "done")  # in one moment: what is left of it is no job
