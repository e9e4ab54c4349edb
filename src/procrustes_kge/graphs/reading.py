"""From a name, a folder, a file, a frame or an array to a Graph, and back to files."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs import datasets, formats
from procrustes_kge.graphs.graph import SPLITS, Graph, Vocabulary, split_graph
from procrustes_kge.system.files import scratch_folder
from procrustes_kge.system.written import put_in_place


def read_graph(
    source: str | Path | Any,
    *,
    valid: float = 0.05,
    test: float = 0.05,
    seed: int = 0,
    separator: str | None = None,
    header: bool | None = None,
    progress: datasets.DownloadReport | None = None,
) -> Graph:
    """Return the graph that a dataset's name, a folder, a file, a data frame or an array of triples holds.

    A folder holds files named train, valid and test (any suffix that is understood; only train is needed). One file,
    frame or array is split here: `valid` and `test` are the shares of its triples to set aside, drawn by `seed`, never
    leaving an entity or relation that training does not see.
    """
    if not isinstance(source, str | os.PathLike):
        return split_graph(_encode("frame", {"train": _columns_of(source)}, {}), valid, test, seed)
    path = Path(source)
    if not path.exists():
        if len(path.parts) > 1 or path.suffix in formats.SUFFIXES:
            raise InputError(f"{source}: no such file or folder; `procrustes data` lists the datasets known by name")
        known = datasets.dataset(str(source))
        contents = datasets.splits(known.name, progress).items()
        columns = {split: formats.parse_delimited(data, f"{known.name}/{split}.txt") for split, data in contents}
        try:
            return _encode(known.name, columns, datasets.labels(known.name, progress))
        except InputError as error:  # labels are a courtesy: a machine without a network trains all the same
            graph = _encode(known.name, columns, {})
            return replace(graph, notes=(*graph.notes, f"names are shown without their labels: {error}"))
    if path.is_dir():
        columns = {split: formats.read_columns(file, separator, header) for split, file in _split_files(path).items()}
        return _encode(path.resolve().name, columns, {})
    columns = {"train": formats.read_columns(path, separator, header)}
    return split_graph(_encode(path.name.split(".")[0], columns, {}), valid, test, seed)


def _split_files(folder: Path) -> dict[str, Path]:
    """Return the files of a folder that are named after the splits; `dev` is another word for valid."""
    words = {"train": "train", "valid": "valid", "validation": "valid", "dev": "valid", "val": "valid", "test": "test"}
    found, files = dict[str, Path](), sorted(folder.iterdir())
    for file in files:
        split = words.get(file.name.split(".")[0].lower())
        if split is None or not file.is_file() or not formats.is_triples_file(file):
            continue
        if split in found:
            raise InputError(f"{folder}: both {found[split].name} and {file.name} hold the {split} split; keep one")
        found[split] = file
    if "train" not in found:
        seen = f"found {', '.join(file.name for file in files[:5]) or 'nothing'}"
        raise InputError(f"{folder}: no triples here, expected a file train.txt (and valid.txt, test.txt); {seen}")
    return {split: found[split] for split in SPLITS if split in found}


def _columns_of(source: Any) -> formats.Columns:
    """Return head, relation and tail of a frame, by the names of its columns or as its first three, or of rows."""
    if hasattr(source, "columns") and hasattr(source, "to_numpy"):
        if len(source.columns) < 3:
            raise InputError(f"a frame of {len(source.columns)} columns, expected 3 (head, relation, tail)")
        by_place = getattr(source, "iloc", source)  # two columns of a pandas frame may share a name
        order = formats.column_order([str(name) for name in source.columns]) or range(3)
        heads, relations, tails = (by_place[:, place].to_numpy().tolist() for place in order)
    else:
        rows = source.tolist() if isinstance(source, np.ndarray | Tensor) else source
        if not isinstance(rows, Iterable):
            raise InputError(f"{source!r} given, expected a name, a path, a frame, or rows of (head, relation, tail)")
        rows = list(rows)
        for row in rows:
            if isinstance(row, str) or not hasattr(row, "__len__") or len(row) != 3:
                raise InputError(f"a row {row!r}, expected three values (head, relation, tail)")
        heads, relations, tails = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
    if not heads:
        raise InputError("no triples in what was given, expected rows of (head, relation, tail)")
    heads, relations, tails = ([_name(value) for value in column] for column in (heads, relations, tails))
    return formats.Columns(heads, relations, tails)


def _name(value: Any) -> str:
    # NaN and NaT differ from themselves; of NA, pandas does not say whether it does.
    if value is None or type(value).__name__ == "NAType" or value != value or value == "":
        seen = f"a missing value ({value!r}) among the triples"
        raise InputError(f"{seen}, expected a name; drop or fill such rows first")
    return str(value)


def _encode(name: str, columns: Mapping[str, formats.Columns], labels: Mapping[str, str]) -> Graph:
    """Number entities and relations as they first appear, and drop triples that came before, in any split."""
    entities, relations = dict[str, int](), dict[str, int]()
    parts, notes = [], []
    for split, column in columns.items():
        named = (column.heads, entities), (column.relations, relations), (column.tails, entities)
        numbered = [[ids.setdefault(each, len(ids)) for each in names] for names, ids in named]
        parts.append(np.array(numbered, dtype=np.int64).T)
        notes += [f"{split}: {note}" if len(columns) > 1 else note for note in column.notes]
    first = _first_occurrences(np.concatenate(parts))
    triples = {split: torch.empty(0, 3, dtype=torch.int64) for split in SPLITS}
    freshness = np.split(first, np.cumsum([len(part) for part in parts])[:-1])
    for split, part, fresh in zip(columns, parts, freshness, strict=True):
        triples[split] = torch.from_numpy(np.ascontiguousarray(part[fresh]))
        if dropped := len(part) - int(fresh.sum()):
            note = f"{formats.counted(dropped, 'duplicate triple')} dropped"
            notes.append(f"{split}: {note}" if len(columns) > 1 else note)
    labelled = Vocabulary(entities, "entity", labels)
    return Graph(name, labelled, Vocabulary(relations, "relation"), **triples, notes=tuple(notes))


def _first_occurrences(triples: np.ndarray) -> np.ndarray:
    """Return a mask of the triples that no earlier triple equals."""
    heads, relations, tails = triples.T
    # Numbered in two steps so that the product of the three counts need not fit into 64 bits.
    _, pairs = np.unique(heads * (relations.max() + 1) + relations, return_inverse=True)
    _, first = np.unique(pairs * (tails.max() + 1) + tails, return_index=True)
    mask = np.zeros(len(triples), dtype=bool)
    mask[first] = True
    return mask


def write_graph(graph: Graph, folder: str | Path) -> None:
    """Write the splits as tab-separated files train.txt, valid.txt, test.txt, which `read_graph` reads back.

    All of them are written, or none. Files that it wrote before are replaced, or deleted where this graph has no such
    split: they would be read back as a part of it. Others of these names are refused.
    """
    names = [*graph.entities, *graph.relations]
    broken = next((name for name in names if name != name.strip() or any(mark in name for mark in "\t\r\n\0")), None)
    if broken is not None:
        raise InputError(
            f"the name {broken!r} holds a tab or line break, or a blank at an end, which these files cannot; "
            "save as Parquet instead"
        )
    files = {split: Path(folder, f"{split}.txt") for split in SPLITS}
    with scratch_folder(files["train"]) as scratch:
        fresh: dict[Path, Path | None] = {}
        for split, file in files.items():
            rows = graph.split(split).tolist()
            lines = [f"{graph.entities[h]}\t{graph.relations[r]}\t{graph.entities[t]}\n" for h, r, t in rows]
            fresh[file] = scratch / file.name if rows or split == "train" else None
            (scratch / file.name).write_text("".join(lines), encoding="utf-8", newline="")
        Path(folder).mkdir(parents=True, exist_ok=True)
        put_in_place(fresh, scratch, "choose another folder, or move it away")
