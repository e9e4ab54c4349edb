"""Columns that have names, and rows: frames of pandas and polars, arrays and lists."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.columns import Columns, choose, numbered, shortened
from procrustes_kge.graphs.values import columns_of_values
from procrustes_kge.words import counted


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
    return columns_of_values("frame", columns, notes)


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
