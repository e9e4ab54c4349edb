"""Columns that have names, and rows: Parquet, frames of pandas and polars, arrays and lists.

All of them hold values of Python in the end, and one rule makes names of these.
"""

import io
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.columns import ROLES, Columns, choose, named, numbered, shortened
from procrustes_kge.system.extras import package
from procrustes_kge.words import counted

PLAIN = (str, int)  # nearly all values, of which nothing has to be asked
SAMPLE = 1000  # values of a column that are looked at for what they have in common


def parse_parquet(data: bytes, where: str, wanted: Sequence[str] | None = None) -> Columns:
    """Return the columns of a Parquet file that hold head, relation and tail."""
    polars = package("polars", f"{where}: reading Parquet")
    try:
        stored = list(polars.read_parquet_schema(io.BytesIO(data)))
        places, notes = choose(stored, wanted, where)
        chosen = [stored[place] for place in places]
        frame = polars.read_parquet(io.BytesIO(data), columns=chosen)
    except polars.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{where}: not a Parquet file of names ({reason}); write or download it again") from None
    return _columns(where, [frame[name].to_list() for name in chosen], notes)


def columns_of(source: Any, wanted: Sequence[str] | None = None) -> Columns:
    """Return head, relation and tail of a frame, or of rows; missing values are refused as empty names are."""
    if hasattr(source, "collect_schema") and hasattr(source, "collect"):
        source = source.collect()  # a lazy frame of polars
    if hasattr(source, "columns") and hasattr(source, "to_numpy"):
        names = [str(name) for name in source.columns]
        if names == [str(place) for place in range(len(names))]:
            names = numbered(len(names))  # pandas counts columns without names from 0
        if len(names) < 3 and any(name is not None for name in getattr(getattr(source, "index", None), "names", ())):
            seen = f"{counted(len(names), 'column')} ({shortened(names)}) and an index"
            raise InputError(
                f"frame: {seen}, expected 3 (head, relation, tail); reset_index() makes columns of an index"
            )
        places, notes = choose(names, wanted, "frame")
        by_place = getattr(source, "iloc", source)  # two columns of a pandas frame may share a name
        columns = [by_place[:, place].to_list() for place in places]
    else:
        rows = source.tolist() if isinstance(source, np.ndarray | Tensor) else source
        if not isinstance(rows, Iterable):
            raise InputError(f"got {source!r}, expected a name, a path, a frame, or rows of (head, relation, tail)")
        columns, notes = _transposed(list(rows), wanted)
    return _columns("frame", columns, notes)


def _columns(where: str, columns: Iterable[list[Any]], notes: Sequence[str]) -> Columns:
    """Return columns of names, made of columns of values."""
    found = []
    for role, values in zip(ROLES, columns, strict=True):
        try:
            found.append([str(value) if type(value) in PLAIN else name_of(value) for value in values])
        except (TypeError, UnicodeDecodeError):
            row, value = next((row, value) for row, value in enumerate(values, start=1) if not _is_named(value))
            seen = "is not UTF-8" if isinstance(value, bytes) else f"is of type {type(value).__name__}"
            raise InputError(f"{where}, row {row}: the {role} {seen}, expected a name: text or a number") from None
        whole = next((each for each in values[:SAMPLE] if isinstance(each, float) and each.is_integer()), None)
        if whole is not None:  # as pandas makes of whole numbers where one is missing
            notes = [*notes, f"the {role}s are decimal numbers: {whole} is another name than {whole:.0f}"]
    return named(where, found, notes)


def _transposed(rows: list[Any], wanted: Sequence[str] | None) -> tuple[list[list[Any]], list[str]]:
    """Return the three columns of rows, and what the user should know of the choice."""
    width = len(rows[0]) if wanted and rows and _is_row(rows[0]) else 3
    expected = "three values (head, relation, tail)" if width == 3 else f"{width} values, as the first row has"
    for row in rows:
        if not _is_row(row) or len(row) != width:
            remedy = "; to choose among more columns, give columns=(1, 2, 3)" if width == 3 and _is_row(row) else ""
            raise InputError(f"a row {row!r}, expected {expected}{remedy}")
    places, notes = choose(numbered(width), wanted, "rows")
    in_order = [row if type(row) in (tuple, list) else list(row) for row in rows]
    return [[row[place] for row in in_order] for place in places], notes


def _is_row(row: Any) -> bool:
    """Say whether this has values in an order: a set has none, and a mapping is not asked for its keys."""
    return type(row) in (tuple, list) or (hasattr(row, "__len__") and not isinstance(row, str | bytes | Mapping | Set))


def name_of(value: Any) -> str:
    """Return a value as a name, a missing one as none; what holds several values is a TypeError."""
    if isinstance(value, Tensor):
        value = value.item() if value.ndim == 0 else value.tolist()
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list | Mapping | Set | np.ndarray):
        raise TypeError
    # NaN and NaT differ from themselves; of NA, pandas does not say whether it does.
    missing = value is None or type(value).__name__ == "NAType" or value != value
    return "" if missing else str(value)


def _is_named(value: Any) -> bool:
    try:
        name_of(value)
    except (TypeError, UnicodeDecodeError):
        return False
    return True
