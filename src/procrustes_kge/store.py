"""A run folder: everything that ranking and predicting need, in open formats, written whole or not at all.

settings.json        format version, kind of model, settings
model.safetensors    vectors, rotations (may be left out), translations
entities.txt         a name per line, in row order; relations.txt likewise
labels.json          readable names of entities, where there are any
triples.safetensors  train, valid and test as ids
report.json          dataset, settings, metrics, footprint, versions
"""

from __future__ import annotations

import dataclasses
import json
import platform
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from procrustes_kge.errors import InputError
from procrustes_kge.fit import FitSettings
from procrustes_kge.footprint import Footprint, processor_name
from procrustes_kge.graph import SPLITS, Graph, Vocabulary
from procrustes_kge.model import Procrustes, restore_relations
from procrustes_kge.ranking import Evaluation

FORMAT = 1


@dataclass(frozen=True)
class Run:
    """What a run folder holds."""

    model: Procrustes
    graph: Graph | None
    settings: FitSettings
    report: dict[str, Any]


def save(
    model: Procrustes,
    folder: str | Path,
    graph: Graph | None = None,
    settings: FitSettings | None = None,
    report: Mapping[str, Any] | None = None,
    relations: bool = True,
) -> None:
    """Write a run folder; one that is already there is replaced at once, anything else there is left alone.

    Without `graph`, the folder predicts but does not rank. Without `relations`, rotations are left out and computed
    from the entities and the training triples on loading: a smaller folder, the same answers.
    """
    target = Path(folder)
    check_target(target)
    if not relations and graph is None:
        raise InputError("a model saved without its relations needs the graph they are computed from")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Written beside its target and renamed: a run folder is there whole or not at all.
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
        fresh, old = Path(scratch, "fresh"), Path(scratch, "old")
        fresh.mkdir()
        _write(fresh, model, graph, settings or FitSettings(), report or {}, relations)
        if target.exists():
            target.rename(old)
        fresh.rename(target)


def check_target(folder: str | Path) -> None:
    """Refuse a place where no run folder can be written, before any work is done."""
    target = Path(folder)
    if target.exists() and not (target.is_dir() and (_is_run(target) or not any(target.iterdir()))):
        raise InputError(f"{target}: exists and is not a run folder, so it is not overwritten; choose another --out")


def _is_run(folder: Path) -> bool:
    return (folder / "settings.json").is_file() and (folder / "model.safetensors").is_file()


def _write(
    folder: Path,
    model: Procrustes,
    graph: Graph | None,
    settings: FitSettings,
    report: Mapping[str, Any],
    relations: bool,
) -> None:
    from safetensors.torch import save_file

    tensors = {"vectors": model.vectors, "rotations": model.rotations, "translations": model.translations}
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None and (relations or name == "vectors")}
    save_file({name: tensor.cpu().contiguous() for name, tensor in kept.items()}, folder / "model.safetensors")
    about = {
        "format": FORMAT,
        "model": "procrustes",
        "graph": graph.name if graph else None,
        "translate": model.translations is not None,
        "settings": dataclasses.asdict(settings),
    }
    _write_json(folder / "settings.json", about)
    _write_json(folder / "report.json", report)
    _write_names(folder / "entities.txt", model.entities)
    _write_names(folder / "relations.txt", model.relations)
    if model.entities.labels:
        _write_json(folder / "labels.json", model.entities.labels)
    if graph is not None:
        triples = {split: graph.split(split).contiguous() for split in SPLITS}
        save_file(triples, folder / "triples.safetensors")
    for file in folder.glob("*.safetensors"):  # written for their owner's eyes alone
        file.chmod((folder / "settings.json").stat().st_mode)


def load(folder: str | Path) -> Procrustes:
    """Return the model of a run folder."""
    return load_run(folder).model


def load_run(folder: str | Path) -> Run:
    """Return all that a run folder holds; refuse one that is missing, damaged or of another version."""
    source = Path(folder)
    if not source.is_dir():
        raise InputError(f"{source}: no such run folder; `procrustes train --out {source}` makes one")
    if not (source / "settings.json").is_file():
        raise InputError(f"{source}: not a run folder, it has no settings.json; is it another folder of the run?")
    from safetensors import SafetensorError

    try:
        return _read(source)
    except (OSError, SafetensorError, json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise InputError(f"{source}: damaged or truncated ({error}); train again or restore it from a copy") from error


def _read(source: Path) -> Run:
    from safetensors.torch import load_file

    about = json.loads((source / "settings.json").read_text(encoding="utf-8"))
    if about.get("format") != FORMAT or about.get("model") != "procrustes":
        seen = f"format {about.get('format')} of model {about.get('model')!r}"
        raise InputError(
            f"{source}: written in {seen}, this version reads format {FORMAT} of 'procrustes'; train again"
        )
    labels_file = source / "labels.json"
    labels = json.loads(labels_file.read_text(encoding="utf-8")) if labels_file.exists() else None
    entities = Vocabulary(_read_names(source / "entities.txt"), "entity", labels)
    relations = Vocabulary(_read_names(source / "relations.txt"), "relation")
    graph = None
    if (source / "triples.safetensors").exists():
        triples = load_file(source / "triples.safetensors")
        train, valid, test = (triples[split] for split in SPLITS)
        graph = Graph(about["graph"], entities, relations, train, valid, test)
    tensors = load_file(source / "model.safetensors")
    vectors = tensors["vectors"]
    if "rotations" not in tensors:
        if graph is None:
            raise InputError(f"{source}: holds neither relations nor the triples they are computed from; train again")
        rotations, translations = restore_relations(vectors, graph, about["translate"])
    else:
        rotations, translations = tensors["rotations"], tensors.get("translations")
    if (len(vectors), len(rotations)) != (len(entities), len(relations)):
        raise InputError(
            f"{source}: damaged: {len(vectors):,} vectors and {len(rotations):,} rotations for {len(entities):,} names "
            f"of entities and {len(relations):,} of relations; train again or restore it from a copy"
        )
    report = json.loads((source / "report.json").read_text(encoding="utf-8"))
    model = Procrustes(entities, relations, vectors, rotations, translations)
    return Run(model, graph, FitSettings(**about["settings"]), report)


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_MEANT = {escaped: mark for mark, escaped in _ESCAPES.items()}


def _write_names(path: Path, names: Iterable[str]) -> None:
    """Write a name per line; a line break inside a name becomes \\n, and a backslash is doubled."""
    lines = (re.sub(r"[\\\n\r]", lambda mark: _ESCAPES[mark[0]], name) + "\n" for name in names)
    path.write_text("".join(lines), encoding="utf-8", newline="")


def _read_names(path: Path) -> list[str]:
    with path.open(encoding="utf-8", newline="\n") as file:
        lines = file.read().split("\n")[:-1]
    return [re.sub(r"\\[\\nr]", lambda mark: _MEANT[mark[0]], line) if "\\" in line else line for line in lines]


def build_report(
    graph: Graph,
    settings: FitSettings,
    epochs: int,
    metrics: Mapping[str, Evaluation],
    footprint: Footprint,
    device: torch.device,
    recipe: str | None = None,
) -> dict[str, Any]:
    """Return what is worth keeping about a training, ready for JSON."""
    from procrustes_kge import __version__

    return {
        "dataset": graph.name,
        "checksum": graph.checksum,
        "entities": len(graph.entities),
        "relations": len(graph.relations),
        "triples": {split: len(graph.split(split)) for split in SPLITS},
        "notes": [*graph.notes, *graph.remarks()],
        "model": "procrustes",
        "recipe": recipe,
        "settings": dataclasses.asdict(settings),
        "seed": settings.seed,
        "epochs": epochs,
        "metrics": {split: evaluation.as_dict() for split, evaluation in metrics.items()},
        "protocol": "filtered with all splits, both sides, ties count half, all entities, unseen ones included",
        "footprint": footprint.as_dict(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else processor_name(),
        "versions": {
            "procrustes-kge": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def export(model: Procrustes, path: str | Path, kind: str) -> list[Path]:
    """Write the entity vectors with their names, and return the files: a .npy has its names in a .txt beside it."""
    target = Path(path)
    if kind not in EXPORTS:
        raise InputError(f"unknown format {kind!r}, expected {', '.join(EXPORTS)}")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent}: no such folder to write {target.name} into")
    table = model.vectors.flatten(1).cpu().numpy()
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
        written = EXPORTS[kind](Path(scratch), target.name, table, model.entities)
        return [file.replace(target.parent / file.name) for file in written]


def _export_npy(scratch: Path, name: str, table: np.ndarray, names: Vocabulary) -> list[Path]:
    vectors, lines = scratch / name, scratch / f"{Path(name).stem}.txt"
    with vectors.open("wb") as file:
        np.save(file, table)
    _write_names(lines, names)
    return [vectors, lines]


def _export_parquet(scratch: Path, name: str, table: np.ndarray, names: Vocabulary) -> list[Path]:
    try:
        import polars
    except ImportError:
        raise InputError("writing Parquet needs the package polars; pip install polars") from None

    columns = {"name": list(names)}
    if names.labels:
        columns["label"] = [names.label(row) for row in range(len(names))]
    frame = polars.DataFrame(columns).with_columns(
        vector=polars.Series(table, dtype=polars.Array(polars.Float32, table.shape[1]))
    )
    frame.write_parquet(scratch / name)
    return [scratch / name]


def _export_word2vec(scratch: Path, name: str, table: np.ndarray, names: Vocabulary) -> list[Path]:
    with (scratch / name).open("w", encoding="utf-8", newline="") as file:
        file.write(f"{table.shape[0]} {table.shape[1]}\n")
        for entity, vector in zip(names, table, strict=True):
            # The format ends a word at the first space.
            file.write(
                re.sub(r"\s", "_", entity) + " " + " ".join(f"{number:.6g}" for number in vector.tolist()) + "\n"
            )
    return [scratch / name]


EXPORTS = {"npy": _export_npy, "parquet": _export_parquet, "word2vec": _export_word2vec}
