"""Answers in formats that other programs read: CSV, TSV, JSON and Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from procrustes_kge.errors import InputError
from procrustes_kge.explore.questions.answers import columns_of, polars_frame
from procrustes_kge.system.extras import require
from procrustes_kge.system.files import explain_write_errors, scratch_folder
from procrustes_kge.system.written import check_replaceable, put_in_place
from procrustes_kge.words import either

REMEDY = "choose another name, or add --force (in Python, force=True) to replace it"
DIGITS = 7  # of a number as text: as many as float32 has


def write_csv(kind: type, rows: Iterable[Any], file: Any) -> None:
    """Write rows with commas between their cells."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns_of(kind))
    writer.writerows(_cells(kind, row) for row in rows)


def write_tsv(kind: type, rows: Iterable[Any], file: Any) -> None:
    """Write rows with tabs between their cells; a tab or a line break within a name becomes a space."""
    file.write("\t".join(columns_of(kind)) + "\n")
    for row in rows:
        cells = (" ".join(cell.splitlines()).replace("\t", " ") for cell in _cells(kind, row))
        file.write("\t".join(cells) + "\n")


def write_json(kind: type, rows: Iterable[Any], file: Any) -> None:
    """Write a list of objects, one on each line."""
    start = "["
    for row in rows:
        file.write(start + "\n" + json.dumps(asdict(row), ensure_ascii=False))
        start = ","
    file.write("[]\n" if start == "[" else "\n]\n")


TEXT: Mapping[str, Callable[[type, Iterable[Any], Any], None]] = {
    "csv": write_csv,
    "tsv": write_tsv,
    "json": write_json,
}
FORMATS = (*TEXT, "parquet")


def _cells(kind: type, row: Any) -> list[str]:
    values = (getattr(row, name) for name in columns_of(kind))
    return [
        "" if value is None else f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value) for value in values
    ]


def format_of(path: str | Path, kind: str | None = None) -> str:
    """Return the format that is asked for, or that the suffix of a path says."""
    found = kind or Path(path).suffix.lower().removeprefix(".")
    if found not in FORMATS:
        raise InputError(
            f"{path}: its suffix does not say which format; end it with {either(f'.{each}' for each in FORMATS)}"
        )
    if found == "parquet":
        require("polars", f"{path}: writing Parquet")
    return found


def write_answers(path: str | Path, kind: type, rows: Iterable[Any], force: bool = False) -> Path:
    """Write rows to a file, by its suffix: all of them, or no file.

    A file that this did not write is replaced only with `force`.
    """
    target, found = check_target(path, force), format_of(path)
    with explain_write_errors(target), scratch_folder(target) as scratch:
        fresh = scratch / target.name
        if found == "parquet":
            _write_parquet(fresh, kind, rows)
        else:
            with fresh.open("w", encoding="utf-8", errors="surrogatepass", newline="") as file:
                TEXT[found](kind, rows, file)
        put_in_place({target: fresh}, scratch, REMEDY, force)
    return target


def check_target(path: str | Path, force: bool = False) -> Path:
    """Refuse a file that `write_answers` could not write, before any work is done."""
    target = Path(path)
    format_of(path)
    if not target.parent.is_dir():
        raise InputError(f"{target.parent}: no such folder to write {target.name} into")
    if not force:
        check_replaceable(target, REMEDY)
    with explain_write_errors(target), scratch_folder(target):  # permissions do not say all
        return target


def _write_parquet(path: Path, kind: type, rows: Iterable[Any]) -> None:
    columns: dict[str, list[Any]] = {name: [] for name in columns_of(kind)}
    for row in rows:
        for name, column in columns.items():
            column.append(getattr(row, name))
    polars_frame(kind, columns, "writing Parquet").write_parquet(path)


def as_records(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Return rows as mappings from columns to values."""
    return [asdict(row) for row in rows]
