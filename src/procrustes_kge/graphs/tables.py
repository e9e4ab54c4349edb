"""Columns that have names, and rows: Parquet, frames of pandas and polars, arrays and lists."""

import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.columns import Columns, choose, named, numbered
from procrustes_kge.graphs.contents import package


def parse_parquet(data: bytes, where: str, wanted: Sequence[str] | None = None) -> Columns:
    """Return the columns of a Parquet file that hold head, relation and tail."""
    polars = package("polars", where)
    try:
        stored = list(polars.read_parquet_schema(io.BytesIO(data)))
        places, notes = choose(stored, wanted, where)
        chosen = [stored[place] for place in places]
        frame = polars.read_parquet(io.BytesIO(data), columns=chosen).cast(polars.String)
    except polars.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{where}: not a Parquet file of names ({reason}); write or download it again") from None
    return named(where, (map(_name, frame[name].to_list()) for name in chosen), notes)


def columns_of(source: Any, wanted: Sequence[str] | None = None) -> Columns:
    """Return head, relation and tail of a frame, or of rows; missing values are refused as empty names are."""
    if hasattr(source, "columns") and hasattr(source, "to_numpy"):
        names = [str(name) for name in source.columns]
        if names == [str(place) for place in range(len(names))]:
            names = numbered(len(names))  # pandas counts columns without names from 0
        places, notes = choose(names, wanted, "frame")
        by_place = getattr(source, "iloc", source)  # two columns of a pandas frame may share a name
        columns = [by_place[:, place].to_numpy().tolist() for place in places]
    else:
        rows = source.tolist() if isinstance(source, np.ndarray | Tensor) else source
        if not isinstance(rows, Iterable):
            raise InputError(f"got {source!r}, expected a name, a path, a frame, or rows of (head, relation, tail)")
        columns, notes = _transposed(list(rows), wanted)
    return named("frame", (map(_name, column) for column in columns), notes)


def _transposed(rows: list[Any], wanted: Sequence[str] | None) -> tuple[list[list[Any]], list[str]]:
    """Return the three columns of rows, and what the user should know of the choice."""
    width = len(rows[0]) if wanted and rows and hasattr(rows[0], "__len__") else 3
    expected = "three values (head, relation, tail)" if width == 3 else f"{width} values, as the first row has"
    for row in rows:
        if isinstance(row, str) or not hasattr(row, "__len__") or len(row) != width:
            remedy = "; to choose among more columns, give columns=(1, 2, 3)" if width == 3 else ""
            raise InputError(f"a row {row!r}, expected {expected}{remedy}")
    places, notes = choose(numbered(width), wanted, "rows")
    return [[row[place] for row in rows] for place in places], notes


def _name(value: Any) -> str:
    # NaN and NaT differ from themselves; of NA, pandas does not say whether it does.
    missing = value is None or type(value).__name__ == "NAType" or value != value
    return "" if missing else str(value)
