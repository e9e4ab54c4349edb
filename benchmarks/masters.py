"""Small run folders and trainings that were stopped, to damage: of every model, and of each trainer."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import Any

import torch

from procrustes_kge import Graph, learn, load_run, recipe, save
from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Vocabulary, split_graph
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.runs.checkpoints import FolderCheckpoints
from procrustes_kge.runs.examining import examine
from procrustes_kge.runs.jobs import Job, read_job, unfinished, write_job
from procrustes_kge.runs.tensors import read_tensors
from procrustes_kge.system.sealed import Sealed
from procrustes_kge.training.checkpoints import Stopped
from procrustes_kge.training.recipes import has_setting

SMALL = {
    **{"dim": 20, "segment": 5, "pilot": 10, "epochs": 2, "patience": 0, "validate_every": 0},
    **{"relation_dim": 8, "height": 2, "blocks": 4, "input_dim": 8, "filters": 4, "kernel": 3},
}
WAYS = ("fast", "accurate", "paper", *BASELINES)
STOPPED = ("fast", "accurate", "rotate", "rgcn")


def made(place: Path) -> list[Path]:
    """Return folders to damage: a run of every model, and stopped trainings of each trainer."""
    graph, folders = ring(), list[Path]()
    for name in WAYS:
        settings = recipe(name, graph, "cpu", **changes_of(name))
        folders.append(place / name)
        report = {"metrics": {"test": {"mrr": 0.25}}, "recipe": name}
        save(learn(graph, settings), folders[-1], graph, settings, report)
        if name in ("fast", "accurate"):
            folders.append(place / f"{name}-entities")
            save(learn(graph, settings), folders[-1], graph, settings, report, relations=False)
        if name in STOPPED:
            folders.append(unfinished(place / name))
            job = Job(graph, settings, name, "ring", {"labels": None})
            stop_after_two(job, folders[-1])
    return folders


def changes_of(name: str) -> dict[str, Any]:
    """Return what makes a recipe small, as far as it has such settings."""
    usual = recipe(name, None, "cpu")
    return {change: value for change, value in SMALL.items() if has_setting(usual, change)}


def ring(size: int = 40) -> Graph:
    """Return a small graph, with labels."""
    triples = torch.tensor([(i, r, (i + r + 1) % size) for i in range(size) for r in range(3)])
    names = [f"entity {i}" for i in range(size)]
    entities = Vocabulary(names, "entity", {name: name.title() for name in names})
    none = torch.empty(0, 3, dtype=torch.int64)
    whole = Graph("ring", entities, Vocabulary(["one", "two", "three"], "relation"), triples, none, none)
    return split_graph(whole, valid=0.1, test=0.1, seed=0)


def stop_after_two(job: Job, folder: Path) -> None:
    """Leave a training that was stopped, with two checkpoints."""
    kept = FolderCheckpoints(folder, "1", begin=lambda: write_job(job, folder))
    put, calls = kept.put, []

    def counted(*given: Any) -> None:
        put(*given)
        calls.append(given)
        if len(calls) == 2:
            raise Stopped

    kept.put = counted  # type: ignore
    try:
        learn(job.graph, job.settings, checkpoints=kept)
    except Stopped:
        return
    raise AssertionError(folder)


def looked_at(folder: str) -> dict[str, Any]:
    """Open a folder and check it: return a sum of all that is read, or the sentence that refuses it, and a verdict."""
    place, said = Path(folder), dict[str, Any]()
    try:
        said |= of_training(place) if place.name.endswith(".unfinished") else of_run(place)
    except InputError as error:
        said["refused"] = str(error)
    try:
        verdict = examine(place)
        said |= {"sound": verdict.sound, "verdict": " | ".join(verdict.problems.values())}
    except InputError as error:
        said |= {"sound": False, "verdict": str(error)}
    return said


def of_run(place: Path, verify: bool = True) -> dict[str, Any]:
    """Return a sum of all that a run folder holds."""
    run = load_run(place, verify)
    assert run.graph is not None
    model: Any = run.model
    tables = model.module.state_dict() if hasattr(model, "module") else model.tables()
    return {"sum": sum_of([*about(run.graph), run.settings, run.report], tables)}


def of_training(place: Path) -> dict[str, Any]:
    """Return a sum of all that is needed to go on, and whether a moment before the last had to do."""
    job = read_job(place)
    assert isinstance(job, Job)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        kept = FolderCheckpoints(place)
    kept.kept("training", job.graph, job.settings)
    tables: dict[str, Any] = {}
    if kept.current is not None:
        sealed = Sealed(kept.current)
        for name in sealed.manifest.files:
            if name.endswith(".safetensors"):
                tables |= {f"{name} {each}": table for each, table in read_tensors(sealed, name).items()}
    known = [*about(job.graph), vars(job) | {"graph": None}, kept.stages, kept.parts, kept.added]
    return {"sum": sum_of(known, tables), "told": bool(told)}


def about(graph: Graph) -> list[Any]:
    """Return all that a graph is known by."""
    return [graph.name, graph.checksum, *((*names, names.labels) for names in (graph.entities, graph.relations))]


def sum_of(known: list[Any], tables: dict[str, Any]) -> str:
    """Return one sum of what is known and of tables, to the last bit."""
    found = hashlib.sha256(repr(known).encode("utf-8", "surrogatepass"))
    for name, table in sorted(tables.items()):
        found.update(f"{name} {table.dtype} {[*table.shape]}".encode())
        found.update(table.contiguous().flatten().view(torch.uint8).numpy().data)
    return found.hexdigest()
