"""Vectors and their names from a file, in any format that exports have, or from what another library holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.archives import STARTS
from procrustes_kge.graphs.contents import file_bytes, suffixes, unpacked
from procrustes_kge.graphs.recognising import packing_of
from procrustes_kge.runs.exchange.npy import MAGIC, parse_npy, parse_npz, texts
from procrustes_kge.runs.exchange.parquet import read_parquet
from procrustes_kge.runs.exchange.word2vec import is_binary, read_binary, read_text
from procrustes_kge.runs.tensors import tensors_in
from procrustes_kge.system.files import names_in
from procrustes_kge.words import counted, listed, shortened

NAMES = ("names", "name", "entities", "words", "index")  # arrays of text
TABLES = ("vectors", "vector", "embeddings", "embedding", "entities", "weight")  # arrays of numbers
SAFETENSORS = ".safetensors"
EXPECTED = "a file of vectors"
SAVE_AS = "save vectors and names with numpy.savez, or as safetensors"


@dataclass(frozen=True)
class Vectors:
    """A row of numbers for each name; where rows come in segments, how long these are."""

    names: list[str]
    table: np.ndarray
    segment: int | None = None


def read_vectors(
    path: str | Path, names: str | Path | None = None, table: str | None = None, max_unpacked: int | None = None
) -> Vectors:
    """Read vectors with their names: .npy, .npz, Parquet, safetensors, and word2vec as text or binary.

    `names` is a file with a name on each line, for formats that have no room for names; without it, that is sought as
    a .txt file beside the vectors. `table` is the array, tensor or column to take, where there are several.
    """
    place = Path(path)
    where = str(place)
    data = unpacked(raw := file_bytes(place, EXPECTED), where, packing_of(raw), max_unpacked)
    beside = _names_beside(place) if names is None else Path(names)
    if data.startswith(b"PAR1"):
        _no_names(names, where)
        return Vectors(*read_parquet(data, where, table, max_unpacked))
    if data.startswith(MAGIC):
        found: Mapping[str, np.ndarray] = {"vectors": parse_npy(data, where)}
        return _among(found, where, beside, None)
    if data.startswith(STARTS):
        return _among(parse_npz(data, where, max_unpacked), where, None if names is None else beside, table)
    if suffixes(place)[0] == SAFETENSORS:
        return _among(_tensors(data, place), where, beside, table)
    _no_names(names, where)
    if is_binary(data):
        return Vectors(*read_binary(data, where))
    _refuse_foreign(data, where)
    return Vectors(*read_text(data, where))


def _no_names(names: object, where: str) -> None:
    if names is not None:
        raise InputError(f"{where}: has names of its own, and more are given; leave --names out")


def _names_beside(path: Path) -> Path:
    packing = suffixes(path)[1]
    return path.with_name(f"{Path(path.name[: len(path.name) - len(packing)]).stem}.txt")


def _refuse_foreign(data: bytes, where: str) -> None:
    """Refuse what only unpickling would read, and what is no text."""
    if data[:1] == b"\x80" and data.rstrip()[-1:] == b".":
        raise InputError(f"{where}: is a pickle, which is never unpickled; {SAVE_AS}")
    if b"\0" in data[:4096]:
        formats = ".npy, .npz, .parquet, .safetensors or word2vec"
        raise InputError(f"{where}: not a file of vectors that is read; expected {formats}")


def _tensors(data: bytes, path: Path) -> dict[str, np.ndarray]:
    """Return the tensors of a safetensors file, of any type of floats."""
    try:
        found = tensors_in(data, path.name)
    except ValueError as error:
        raise InputError(f"{path}: damaged ({error}); download or write it again") from None
    floats = {name: tensor.float() if tensor.dtype == torch.bfloat16 else tensor for name, tensor in found.items()}
    return {name: tensor.numpy() for name, tensor in floats.items()}


def _among(found: Mapping[str, np.ndarray], where: str, lines: Path | None, wanted: str | None) -> Vectors:
    """Return the array of vectors among several, and the names, which one of them or a file of lines holds."""
    numbers = {name: each for name, each in found.items() if each.dtype.kind in "fiuc" and each.ndim in (2, 3)}
    words = {name: each for name, each in found.items() if each.dtype.kind in "US"}
    if wanted is not None and wanted not in numbers:
        raise InputError(f"{where}: {wanted!r} is no table of vectors in it; there are {_shown(found)}")
    known = [name for name in TABLES if name in numbers]
    chosen = wanted or (known[0] if known else next(iter(numbers), None))
    if chosen is None or (wanted is None and not known and len(numbers) > 1):
        remedy = "say which, as by --table" if numbers else "expected a row of numbers for each name"
        raise InputError(f"{where}: holds {_shown(found)}; {remedy}")
    table = numbers[chosen]
    if words and lines is None:
        own = next((name for name in NAMES if name in words), next(iter(words)))
        names = texts(words[own], where)
    else:
        names = read_names(lines, where)
    return vectors_of(names, table, where)


def _shown(found: Mapping[str, np.ndarray]) -> str:
    each = [f"{name} ({' × '.join(map(str, table.shape)) or 'one number'})" for name, table in found.items()]
    return shortened(each, 6) or "nothing"


def read_names(lines: Path | None, where: str) -> list[str]:
    """Return the names in a file of lines."""
    if lines is None or not lines.exists():
        sought = f"{lines.name} beside it" if lines is not None else "an array of text in it"
        raise InputError(f"{where}: no names for its rows, expected {sought}; give a file of them, as by --names")
    data = file_bytes(lines, "a file of names").replace(b"\r\n", b"\n")
    try:
        return names_in(data if data.endswith(b"\n") or not data else data + b"\n", lines.name)
    except ValueError as error:
        raise InputError(f"{lines}: not a file of names ({error}); write a name on each line, as UTF-8") from None


def vectors_of(names: Sequence[str], table: np.ndarray, where: str = "vectors") -> Vectors:
    """Return vectors of any shape and type that can be vectors; complex numbers are pairs."""
    if table.ndim not in (2, 3) or 0 in table.shape or table.dtype.kind not in "fiuc":
        seen = f"{table.dtype} of shape {tuple(table.shape)}"
        raise InputError(f"{where}: {seen}, expected numbers, a row for each name")
    segment = int(table.shape[2]) if table.ndim == 3 else None
    if table.dtype.kind == "c":
        table, segment = np.stack([table.real, table.imag], axis=-1), 2 if segment is None else 2 * segment
    if len(names) != len(table):
        raise InputError(
            f"{where}: {counted(len(table), 'row')} and {counted(len(names), 'name')}; expected a name for each row"
        )
    with np.errstate(over="ignore"):  # what is too large is refused with all that is not finite
        rows = np.ascontiguousarray(table.reshape(len(table), -1), dtype=np.float32)
    return Vectors([name.strip() for name in names], rows, segment)


# What other libraries hold.


def vectors_held(source: Any, names: Sequence[str] | Mapping[str, int] | None) -> Vectors:
    """Return the vectors of an array, a tensor, a mapping by name, gensim's KeyedVectors or a model of PyKEEN's."""
    if isinstance(source, Mapping):
        names, source = list(source), [np.asarray(vector) for vector in source.values()]
        if len({vector.shape for vector in source}) != 1:
            raise InputError("vectors of different shapes; expected one shape for all")
        source = np.stack(source)
    elif hasattr(source, "index_to_key") and hasattr(source, "vectors"):
        names, source = list(source.index_to_key), source.vectors
    elif hasattr(source, "entity_representations"):
        if names is None:
            remedy = "give those of its triples factory, names=factory.entity_to_id"
            raise InputError(f"a PyKEEN model does not know the names of its entities; {remedy}")
        source = source.entity_representations[0](indices=None)
    if isinstance(source, torch.Tensor):
        source = source.detach().cpu()
        source = (source.float() if source.dtype == torch.bfloat16 else source.resolve_conj()).numpy()
    table = np.asarray(source)
    if names is None:
        raise InputError(f"{counted(len(table), 'vector') if table.ndim else 'vectors'} without names; give names=…")
    return vectors_of(_in_order(names), table)


def _in_order(names: Sequence[str] | Mapping[str, int]) -> list[str]:
    """Return names by row, from a list, or from a mapping to rows as `entity_to_id` of PyKEEN is."""
    if not isinstance(names, Mapping):
        return [str(name) for name in names]
    rows = sorted(names.items(), key=lambda each: each[1])
    if [row for _, row in rows] != list(range(len(rows))):
        twice = listed([name for name, _ in rows[:2]])
        raise InputError(f"names with rows that are not 0, 1, 2, … each once, as of {twice}; give a row for each")
    return [str(name) for name, _ in rows]
