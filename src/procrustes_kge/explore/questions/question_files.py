"""Questions from a file, a frame or a list, line by line: a broken line spoils no other.

Text has a question on each line, with a header or without; Parquet and frames have a column for each part.
"""

from __future__ import annotations

import codecs
import csv
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.columns import ROLES, recognised
from procrustes_kge.graphs.contents import decode, file_bytes, stream_bytes, suffixes, unpacked
from procrustes_kge.graphs.delimited import QUOTING_SEPARATORS, guess_separator
from procrustes_kge.graphs.parquet import MARK, parquet_columns
from procrustes_kge.graphs.recognising import packing_of
from procrustes_kge.graphs.values import name_of
from procrustes_kge.words import counted, listed

TRIPLE = ROLES
ASKED_FOR = ("", "?")  # what stands where the answer belongs
SAMPLE = 65_536  # bytes by which the separator is recognised
Parts = list[Any]  # of a question; None is what is asked for
Rows = Iterable[tuple[int, Parts | InputError]]


def read_rows(source: Any, roles: Sequence[str] = TRIPLE) -> tuple[str, Rows]:
    """Return where questions come from, and each with the number of its line, or row; or with what is wrong with it."""
    if isinstance(source, str | Path) or hasattr(source, "read"):
        return _of_file(source, roles)
    if hasattr(source, "columns") and hasattr(source, "to_numpy"):
        return "the frame", _of_frame(source, roles)
    if not isinstance(source, Iterable):
        raise InputError(f"questions {source!r:.60}, expected rows, a frame, or the path of a file")
    return "the questions", ((number, _of_row(row, roles)) for number, row in enumerate(source, start=1))


def _of_row(row: Any, roles: Sequence[str]) -> Parts | InputError:
    if isinstance(row, Mapping):
        row = [row.get(role) for role in roles]
    elif isinstance(row, str | int) and len(roles) == 1:
        row = [row]
    elif isinstance(row, str) or not isinstance(row, Sequence):
        return InputError(f"a row {row!r:.60}, expected {_expected(roles)}")
    return _fitting(list(row), roles)


def _fitting(parts: Parts, roles: Sequence[str]) -> Parts | InputError:
    """Return the parts of a question, None for what is asked for; a tail need not be there to be asked for."""
    if len(parts) == len(roles) - 1 and tuple(roles) == TRIPLE:
        parts = [*parts, None]
    if len(parts) != len(roles):
        return InputError(f"{counted(len(parts), 'column')}, expected {_expected(roles)}")
    try:
        return [_part(part) for part in parts]
    except (TypeError, ValueError):
        return InputError(f"a row {parts!r:.60}, expected names")


def _part(part: Any) -> Any:
    if isinstance(part, str):
        return None if part.strip() in ASKED_FOR else part.strip()
    if isinstance(part, int) or (isinstance(part, list | tuple) and part):  # a row; several relations
        return part
    return name_of(part) or None


def _expected(roles: Sequence[str]) -> str:
    return f"{len(roles)} ({listed(roles)})" if len(roles) > 1 else f"a name ({roles[0]})"


def _of_frame(frame: Any, roles: Sequence[str]) -> Rows:
    places = _places([str(name) for name in frame.columns], roles)
    if places is None:
        names = ", ".join(map(str, frame.columns))
        raise InputError(f"a frame with the columns {names}, expected {_expected(roles)}")
    by_place = getattr(frame, "iloc", frame)
    columns = [by_place[:, place].to_list() for place in places]
    for number, row in enumerate(zip(*columns, strict=True), start=1):
        yield number, _fitting([part if isinstance(part, str) else _name(part) for part in row], roles)


def _name(value: Any) -> Any:
    """Return a value of a frame: a whole number in it is a name, as in the graph that was read from such a frame."""
    return list(value) if isinstance(value, list | tuple) else name_of(value)


def _places(names: Sequence[str], roles: Sequence[str]) -> list[int] | None:
    """Return which columns hold the parts of a question, or None where their names do not say so."""
    lowered = [name.strip().lower() for name in names]
    if tuple(roles) == TRIPLE:
        found = recognised(lowered)
        if found is not None or not set(lowered) & set(roles):
            return found
    places = [lowered.index(role) if role in lowered else -1 for role in roles]
    return None if min(places) < 0 else places


def _of_file(source: Any, roles: Sequence[str]) -> tuple[str, Rows]:
    """Return the name of a file of questions, and its lines."""
    if source == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed; pipe questions into it, or give the path of a file")
        source = sys.stdin.buffer
    if hasattr(source, "read"):
        path, data = stream_bytes(source)
    else:
        path = Path(source)
        data = file_bytes(path, "a file of questions")
    where = str(path)
    suffix, packing = suffixes(path)
    data = unpacked(data, where, packing or packing_of(data))
    if suffix == ".parquet" or data.startswith(MARK):
        return where, _of_parquet(data, where, roles)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in data[:SAMPLE]:
        decode(data, where)  # says what is wrong with it
    return where, _of_text(data.removeprefix(codecs.BOM_UTF8), roles, suffix)


def _of_parquet(data: bytes, where: str, roles: Sequence[str]) -> Rows:
    if len(roles) != 3:
        raise InputError(f"{where}: Parquet has questions of three columns; write names as text, one on each line")
    columns, _ = parquet_columns(data, where, None if tuple(roles) == TRIPLE else roles)
    for number, row in enumerate(zip(*columns, strict=True), start=1):
        yield number, _fitting(list(row), roles)


def _of_text(data: bytes, roles: Sequence[str], suffix: str) -> Iterator[tuple[int, Parts | InputError]]:
    """Yield the questions of text; a header may name more columns, of which the others are passed over."""
    sample = data[:SAMPLE].decode("utf-8", "replace")
    separator = guess_separator(sample)
    alone = len(roles) == 1 and suffix != ".csv" and separator != "\t"  # a name on each line, whatever is in it
    places: list[int] | None = None
    width, first = len(roles), True
    for number, line in enumerate(data.split(b"\n"), start=1):
        try:
            text = line.decode("utf-8").strip(" \r\n")
        except UnicodeDecodeError as error:
            yield number, InputError(f"byte {error.start + 1} (0x{line[error.start]:02x}) is not UTF-8; convert it")
            continue
        if not text.strip():
            continue
        cells = [text] if alone else _cells(text, separator)
        if isinstance(cells, InputError):
            yield number, cells
            continue
        if first:
            first, places = False, _places(cells, roles)
            width = len(cells) if places else width
            if places:
                continue
        if places and len(cells) <= width:
            whole = [cell for cell, _ in zip_longest(cells, range(width), fillvalue="")]
            yield number, _fitting([whole[place] for place in places], roles)
        elif places:
            yield number, InputError(f"{counted(len(cells), 'column')}, expected {width} as in the header")
        else:
            yield number, _fitting(cells, roles)


def _cells(text: str, separator: str) -> list[Any] | InputError:
    """Return a line cut into cells; an open quotation mark is a mistake of this line alone."""
    if separator not in QUOTING_SEPARATORS or '"' not in text:
        return list(text.split(separator)) if separator != " " else list(text.split())
    try:
        (cells,) = csv.reader([text], delimiter=separator, skipinitialspace=True, strict=True)
    except (csv.Error, ValueError) as error:
        return InputError(f"cannot be cut into columns ({error}); put quotation marks around whole names")
    return list(cells)
