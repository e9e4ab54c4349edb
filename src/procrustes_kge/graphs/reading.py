"""Read a graph from a name, a folder, a file, a frame or an array, and write it to files."""

import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from procrustes_kge.errors import InputError
from procrustes_kge.graphs import archives, datasets, formats
from procrustes_kge.graphs.columns import Columns, wanted_columns
from procrustes_kge.graphs.contents import file_bytes, stream_bytes
from procrustes_kge.graphs.delimited import parse_delimited
from procrustes_kge.graphs.graph import SPLITS, Graph, Vocabulary, split_graph
from procrustes_kge.graphs.held import columns_held
from procrustes_kge.graphs.labels import read_labels
from procrustes_kge.graphs.limits import explain_memory
from procrustes_kge.graphs.lookup import plain
from procrustes_kge.graphs.tables import columns_of
from procrustes_kge.system.files import explain_read_errors, scratch_folder
from procrustes_kge.system.written import put_in_place
from procrustes_kge.words import counted

FEW_LINES = 10  # of which one may share no name with the others and be a triple all the same
Reader = Callable[..., Columns]  # of a path
Place = TypeVar("Place", bound=PurePath)


def read_graph(
    source: str | Path | Any,
    *,
    valid: float = 0.05,
    test: float = 0.05,
    seed: int = 0,
    separator: str | None = None,
    header: bool | None = None,
    columns: str | Sequence[str | int] | None = None,
    labels: str | Path | Mapping[str, Any] | None = None,
    progress: datasets.DownloadReport | None = None,
    max_unpacked: int | None = None,
    known: Container[str] = (),
) -> Graph:
    """Read a graph from a name, a folder, a file, an open file, a frame, an array, triples, or another library's graph.

    A folder, or a .zip archive, holds files named train, valid and test, in any supported format; only train is
    required. An archive may hold one table instead. Graphs of networkx, rdflib and PyTorch Geometric are taken as they
    are. What does not come in splits is split here: `valid` and `test` are the shares of triples to set aside at
    random, by `seed`. Every entity and relation stays in train.

    `columns` names the columns of head, relation and tail, or gives their numbers counted from 1; it is needed if there
    are more than three and their names are not recognised. `labels` are readable names to show with the names: a
    mapping, or the path of a file. `separator` and `header` are guessed unless given. `progress` is called during
    downloads with the file, the bytes so far and the bytes in all. `max_unpacked` is how many bytes a file may unpack
    to; None: a hundred times its size, and no less than 4 MB. A first line that has a name that is `known` is a triple.
    """
    if max_unpacked is not None and (type(max_unpacked) is not int or max_unpacked < 1):
        raise InputError(f"max_unpacked {max_unpacked!r}, expected a whole number of bytes, such as 4_000_000_000")
    # An error in labels is reported before a long reading.
    with explain_memory("labels" if isinstance(labels, Mapping) else str(labels)):
        readable = read_labels(labels, max_unpacked) if labels is not None else None
    wanted = wanted_columns(columns)
    asked = partial(formats.read_columns, separator=separator, header=header, wanted=wanted)
    read = partial(asked, max_unpacked=max_unpacked)
    where = str(source) if isinstance(source, str | os.PathLike) else "the triples"
    with explain_memory(where), explain_read_errors():
        divided = _divided(source, read, progress) if isinstance(source, str | os.PathLike) else None
        graph = divided or _of_columns(_found(source, read, wanted, max_unpacked), valid, test, seed, known)
    return graph if readable is None else graph.labelled(readable)


def _divided(source: str | os.PathLike[str], read: Reader, progress: datasets.DownloadReport | None) -> Graph | None:
    """Return the graph of a folder, or of a dataset known by name, which come in splits; None for a file."""
    path = Path(source)
    if path.is_dir():
        return _encode(path.resolve().name, {split: read(file) for split, file in _split_files(path).items()})
    if path.exists() or path.is_symlink():  # one that leads nowhere is no dataset: reading it says why
        return None
    if len(path.parts) > 1 or path.suffix in (*formats.SUFFIXES, archives.SUFFIX):
        raise InputError(f"{source}: no such file or folder; `procrustes data` lists the datasets known by name")
    known = datasets.dataset(str(source))
    contents = datasets.splits(known.name, progress).items()
    columns = {split: parse_delimited(data, f"{known.name}/{split}.txt", header=False) for split, data in contents}
    try:
        return _encode(known.name, columns, datasets.labels(known.name, progress))
    except InputError as error:  # labels are a courtesy: a machine without a network trains all the same
        graph = _encode(known.name, columns)
        return replace(graph, notes=(*graph.notes, f"names are shown without their labels: {error}"))


class Found(NamedTuple):
    """The triples of a source, and whether it came in splits."""

    name: str
    columns: Mapping[str, Columns]
    divided: bool = False


def _of_columns(found: Found, valid: float, test: float, seed: int, known: Container[str]) -> Graph:
    graph = _encode(found.name, found.columns, known=known)
    return graph if found.divided else split_graph(graph, valid, test, seed)


def _found(source: Any, read: Reader, wanted: Sequence[str] | None, most: int | None) -> Found:
    """Return what a file holds, an open file, a graph of another library, a frame, an array or a list of rows."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if path.suffix.lower() == archives.SUFFIX:
            return _in_archive(path, file_bytes(path), read, most)
        return Found(path.name.split(".")[0], {"train": read(path)})
    if hasattr(source, "read"):
        path, data = stream_bytes(source)
        if data.startswith(archives.STARTS):
            return _in_archive(path, data, read, most)
        return Found(path.name.split(".")[0], {"train": read(path, data=data)})
    if held := columns_held(source, wanted):
        return Found(*held, divided=len(held[1]) > 1)
    return Found("frame", {"train": columns_of(source, wanted)})


def _in_archive(path: Path, data: bytes, read: Reader, most: int | None) -> Found:
    """Return what a zip archive holds: files named after the splits, or else one table."""
    archive = archives.Archive(data, str(path), most)
    files = archive.files()
    divided = _by_split(str(path), files)
    chosen = divided if "train" in divided else {"train": archive.one(files)}
    columns = {split: read(Path(path, file), data=archive.read(file)) for split, file in chosen.items()}
    return Found(path.name.split(".")[0], columns, "train" in divided)


def _split_files(folder: Path) -> dict[str, Path]:
    """Return the files of a folder that are named after the splits; `dev` and `val` also mean valid."""
    files = sorted(folder.iterdir())
    found = _by_split(str(folder), [file for file in files if not file.is_dir()])
    if "train" not in found:
        seen = f"found {', '.join(file.name for file in files[:5]) or 'nothing'}"
        raise InputError(f"{folder}: no triples here, expected a file train.txt (and valid.txt, test.txt); {seen}")
    return found


def _by_split(where: str, files: Iterable[Place]) -> dict[str, Place]:
    """Return the files that are named after the splits, in the order of these."""
    found = dict[str, Place]()
    for file in files:
        split = _split_of(file)
        if split is None:
            continue
        if split in found:
            raise InputError(
                f"{where}: both {found[split].name} and {file.name} hold the {split} split; keep one of them"
            )
        found[split] = file
    return {split: found[split] for split in SPLITS if split in found}


def _split_of(file: PurePath) -> str | None:
    """Return the split that a file is named after; None for any other file."""
    words = {"train": "train", "valid": "valid", "validation": "valid", "dev": "valid", "val": "valid", "test": "test"}
    split = words.get(file.name.split(".")[0].lower())
    return split if formats.is_triples_file(file) else None


def _encode(
    name: str, columns: Mapping[str, Columns], labels: Mapping[str, str] | None = None, known: Container[str] = ()
) -> Graph:
    """Number entities and relations in order of appearance, and drop triples that occurred before, in any split."""
    entities, relations = dict[str, int](), dict[str, int]()
    parts, notes = [], []
    for split, column in columns.items():
        named = (column.heads, entities), (column.relations, relations), (column.tails, entities)
        numbered = [[ids.setdefault(each, len(ids)) for each in names] for names, ids in named]
        parts.append(np.array(numbered, dtype=np.int64).T)
        notes += [f"{split}: {note}" if len(columns) > 1 else note for note in column.notes]
    notes += _doubts(columns.values(), parts, known)
    notes += [*_twins(entities, "entity"), *_twins(relations, "relation")]
    first = _first_occurrences(np.concatenate(parts))
    triples = {split: torch.empty(0, 3, dtype=torch.int64) for split in SPLITS}
    freshness = np.split(first, np.cumsum([len(part) for part in parts])[:-1])
    for split, part, fresh in zip(columns, parts, freshness, strict=True):
        triples[split] = torch.from_numpy(np.ascontiguousarray(part[fresh]))
        if dropped := len(part) - int(fresh.sum()):
            note = f"{counted(dropped, 'duplicate triple')} dropped"
            notes.append(f"{split}: {note}" if len(columns) > 1 else note)
    readable = {key: label for column in columns.values() for key, label in column.labels.items()} | dict(labels or {})
    ends, between = Vocabulary(entities, "entity", readable), Vocabulary(relations, "relation", readable)
    return Graph(name, ends, between, **triples, notes=tuple(notes))


def _doubts(columns: Iterable[Columns], parts: Sequence[np.ndarray], known: Container[str]) -> list[str]:
    """Refuse a first line that looks like a header: none of its words is known as one, but none occurs again either.

    Not one line of the six datasets is so alone. In a graph of a few lines one may well be, or the only one of its
    file, and gets a note.
    """
    notes, triples = [], np.concatenate(parts)
    for column, part in zip(columns, parts, strict=True):
        if not column.doubtful or any(
            name in known for name in (column.heads[0], column.relations[0], column.tails[0])
        ):
            continue
        others = triples[(triples != part[0]).any(axis=1)]  # the same header may begin every file
        if not len(others) or (others == part[0]).any() or (others[:, [2, 0]] == part[0, [0, 2]]).any():
            continue
        words = ", ".join((column.heads[0], column.relations[0], column.tails[0]))
        seen = f"{column.doubtful} ({words}): no other line has any of these names"
        if len(others) >= FEW_LINES and len(part) > 1:
            remedy = "add --header if it names the columns, or --no-header if it is a triple"
            raise InputError(f"{seen}, so this may be a header; {remedy}")
        notes.append(f"{seen}, but it is read as a triple; --header skips it")
    return notes


def _twins(ids: Mapping[str, int], kind: str) -> list[str]:
    """Return a note on names that look alike but are spelled in two ways: nobody sees that they are two.

    They stay two, so that the names of a graph are those of its file.
    """
    unusual = (name for name in ids if not name.isascii() or name.startswith("<"))  # all others are as they look
    twins = [name for name in unusual if (usual := plain(name)) != name and usual in ids]
    if not twins:
        return []
    seen = f"{counted(len(twins), kind)} spelled in another way too, such as {twins[0]!a}"
    return [f"{seen} beside {plain(twins[0])!a}: spell them alike if they are the same"]


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
    """Write the splits to a folder as train.txt, valid.txt and test.txt, which `read_graph` reads back.

    Either all are written or none. Files from an earlier call are replaced, or deleted if this graph has no such split.
    Files of these names that this function did not write are never replaced: they are an error.
    """
    names = [*graph.entities, *graph.relations]
    broken = next(
        (name for name in names if name != name.strip() or any(mark in name for mark in "\t\r\n\0\ufeff")), None
    )
    if broken is not None:
        raise InputError(
            f"the name {broken!r} has a tab, a line break or a byte order mark in it, or a space at an end, "
            "which these files cannot hold; "
            "save as Parquet instead"
        )
    files = {split: Path(folder, f"{split}.txt") for split in SPLITS}
    beside = sorted(Path(folder).iterdir()) if Path(folder).is_dir() else []
    if others := [file for file in beside if _split_of(file) and file not in files.values()]:
        raise InputError(f"{others[0]}: would be read as a part of this graph; choose another folder, or move it away")
    with scratch_folder(files["train"]) as scratch:
        fresh: dict[Path, Path | None] = {}
        for split, file in files.items():
            rows = graph.split(split).tolist()
            lines = [f"{graph.entities[h]}\t{graph.relations[r]}\t{graph.entities[t]}\n" for h, r, t in rows]
            fresh[file] = scratch / file.name if rows or split == "train" else None
            (scratch / file.name).write_text("".join(lines), encoding="utf-8", newline="")
        Path(folder).mkdir(parents=True, exist_ok=True)
        put_in_place(fresh, scratch, "choose another folder, or move the file away")
