"""Vectors in a Parquet file, read as its triples are: in a process of its own.

A column of names, and either one column of lists or arrays of numbers, or a column for each number. What is read comes
back as names that end in a NUL each, then float32, then a report.
"""

from __future__ import annotations

import io
from array import array
from typing import Any

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.columns import shortened
from procrustes_kge.graphs.parquet import answer, apart
from procrustes_kge.graphs.values import texts
from procrustes_kge.system.extras import package

NAMES = ("name", "names", "entity", "word", "node", "id", "label")  # the plainest first
VECTORS = ("vector", "vectors", "embedding", "embeddings")
ROWS = 4096  # whose numbers are written at once


def read_parquet(data: bytes, where: str, table: str | None = None, most: int | None = None) -> tuple[list[str], Any]:
    """Return names and vectors; `table` is the column of vectors."""
    import numpy as np

    output, about = apart(__name__, data, where, most, table=table)
    names = output[: about["names"]].decode().split("\0")[:-1]
    return names, np.frombuffer(output, np.float32, offset=about["names"]).reshape(about["rows"], about["dim"])


def _write(data: bytes, about: dict[str, Any], output: Any) -> dict[str, Any]:
    """Write names and numbers, and return how many there are."""
    where, wanted = about["where"], about["table"]
    polars = package("polars", f"{where}: reading Parquet")
    schema = polars.read_parquet_schema(io.BytesIO(data))
    names = _of_names(schema, where)
    columns = _of_numbers(schema, where, wanted, names)
    frame = polars.read_parquet(io.BytesIO(data), columns=[names, *columns])
    if not len(frame):
        raise InputError(f"{where}: has no rows, expected a name and a vector in each")
    written = "".join(f"{name}\0" for name in _names(frame[names].to_list(), where)).encode()
    if len(columns) == 1:
        parts = frame[columns[0]].cast(polars.List(polars.Float32))
        sizes = parts.list.len().unique().to_list()
        if len(sizes) != 1 or not sizes[0]:
            raise InputError(f"{where}: {columns[0]} has vectors of different lengths, or none; expected one length")
        dim = sizes[0]
    else:
        dim = len(columns)
        parts = frame.select(polars.concat_list(columns).cast(polars.List(polars.Float32)))[:, 0]
    if len(written) + 4 * dim * len(frame) > about["bytes"]:
        raise MemoryError
    output.write(written)
    for start in range(0, len(frame), ROWS):
        flat = parts[start : start + ROWS].explode()
        output.write(array("f", flat.fill_null(float("nan")).to_list()).tobytes())
    return {"names": len(written), "rows": len(frame), "dim": dim}


def _of_names(schema: Any, where: str) -> str:
    """Return the column that holds names."""
    texts_in = [name for name, type in schema.items() if str(type) in ("String", "Categorical", "Enum")]
    known = [each for word in NAMES for each in texts_in if each.lower() == word]
    others = [each for each in schema if each.lower() in NAMES and not schema[each].is_nested()]
    found = (known or texts_in or others)[:1]
    if not found:
        raise InputError(f"{where}: no column of names among {shortened(list(schema))}; expected one called name")
    return found[0]


def _of_numbers(schema: Any, where: str, wanted: str | None, names: str) -> list[str]:
    """Return the column that holds vectors, or those that hold a number each."""
    nested = [name for name, type in schema.items() if type.is_nested() and _is_numeric(type)]
    if wanted is not None:
        if wanted not in nested:
            raise InputError(f"{where}: {wanted!r} is no column of vectors; its columns are {shortened(list(schema))}")
        return [wanted]
    known = [each for word in VECTORS for each in nested if each.lower() == word]
    if known or len(nested) == 1:
        return (known or nested)[:1]
    if nested:
        raise InputError(f"{where}: several columns of vectors ({shortened(nested)}); say which, as by --table")
    floats = [name for name, type in schema.items() if type.is_float() and name != names]
    if len(floats) < 2:
        raise InputError(f"{where}: no column of vectors among {shortened(list(schema))}; expected lists of numbers")
    return floats


def _is_numeric(type: Any) -> bool:
    inner, shape = getattr(type, "inner", None), getattr(type, "shape", (1,))
    return inner is not None and inner.is_numeric() and len(shape) == 1


def _names(values: list[Any], where: str) -> list[str]:
    found = texts(where, "name", values)
    if any("\0" in name for name in found):
        raise InputError(f"{where}: a name has a NUL character in it, expected text; rename it")
    return found


if __name__ == "__main__":
    answer(_write)
