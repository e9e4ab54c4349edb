"""Tables of numbers with their names: .npy, .npz, safetensors and Parquet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from procrustes_kge.errors import InputError
from procrustes_kge.runs.exchange.content import Content, text_of
from procrustes_kge.runs.tensors import write_tensors
from procrustes_kge.system.extras import package
from procrustes_kge.system.files import write_names

WIDEST = 2**30  # bytes that names may take in an array, where each has the room of the longest


def write_npy(scratch: Path, name: str, content: Content) -> list[Path]:
    """Write a file for each table, the names in a .txt file beside the first."""
    vectors, lines = scratch / name, _names_beside(scratch, name, ".npy")
    main, *more = content.tables
    stem = Path(name).stem
    files = {main: vectors} | {other: scratch / f"{stem}-{other.replace('_', '-')}.npy" for other in more}
    for table, path in files.items():
        with path.open("wb") as file:
            np.save(file, content.tables[table])
    write_names(lines, content.names)
    return [vectors, lines, *(files[other] for other in more)]


def write_npz(scratch: Path, name: str, content: Content) -> list[Path]:
    """Write all tables and the array `names` into one file, which is read without unpickling."""
    longest = max(map(len, content.names), default=0)
    if 4 * longest * len(content.names) > WIDEST:
        seen = f"the longest name has {longest:,} characters"
        raise InputError(f"{name}: {seen}, and npz gives every name as much room; use npy, which has them in a text")
    for each in content.names:
        if each.endswith("\0"):
            raise InputError(f"the name {each[:40]!a} ends in NUL, which npz would lose; use npy")
    with (scratch / name).open("wb") as file:
        np.savez(file, names=np.array(list(content.names), dtype=np.str_), **content.tables)  # type: ignore[arg-type]
    return [scratch / name]


def write_safetensors(scratch: Path, name: str, content: Content) -> list[Path]:
    """Write all tables into one file, the names in a .txt file beside it: the format has no room for text."""
    lines = _names_beside(scratch, name, ".safetensors")
    tensors = {table: torch.from_numpy(np.ascontiguousarray(numbers)) for table, numbers in content.tables.items()}
    write_tensors(tensors, scratch / name)
    write_names(lines, content.names)
    return [scratch / name, lines]


def _names_beside(scratch: Path, name: str, suffix: str) -> Path:
    lines = scratch / f"{Path(name).stem}.txt"
    if lines.name == name:
        raise InputError(
            f"{name}: the names go into a .txt file beside the vectors; give the vectors a name that ends in {suffix}"
        )
    return lines


def write_parquet(scratch: Path, name: str, content: Content) -> list[Path]:
    """Write a column of names, one of labels where there are any, and one for each table."""
    polars = package("polars", f"{name}: writing Parquet")
    names = content.names
    columns = {"name": [text_of(each, "Parquet") for each in names]}
    if names.labels:
        columns["label"] = [text_of(names.label(row), "Parquet") for row in range(len(names))]
    arrays = {
        column: polars.Series(table, dtype=polars.Array(polars.Float32, table.shape[1:]))
        for column, table in content.tables.items()
    }
    polars.DataFrame(columns).with_columns(**arrays).write_parquet(scratch / name)
    return [scratch / name]
