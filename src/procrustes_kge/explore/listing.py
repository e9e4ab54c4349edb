"""Rows of an answer in a file: TSV, CSV, JSON or Parquet, by its suffix."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from procrustes_kge.errors import InputError
from procrustes_kge.system.extras import package
from procrustes_kge.system.files import explain_write_errors, nearest_folder, scratch_folder, write_json
from procrustes_kge.system.written import check_replaceable, put_in_place
from procrustes_kge.words import either

SUFFIXES = (".tsv", ".csv", ".json", ".parquet")
REMEDY = "choose another name, or delete it"


def check_listing(path: Path) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: its suffix does not say which format; expected {either(SUFFIXES)}")
    with explain_write_errors(path):
        if not path.parent.is_dir():
            raise InputError(f"{path.parent}: no such folder to write {path.name} into")
        if path.is_dir():
            raise InputError(f"{path}: is a folder, expected the name of a file")
        check_replaceable(path, REMEDY)
        if path.suffix.lower() == ".parquet":
            package("polars", f"{path.name}: writing Parquet")
        with scratch_folder(path):  # permissions do not say all
            pass


def write_listing(path: Path, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write rows under the names of their columns; the file is there whole or not at all.

    A file is replaced only if it was written so, and has not changed since.
    """
    check_listing(path)
    with explain_write_errors(path), scratch_folder(nearest_folder(path) / path.name) as scratch:
        fresh, kind = scratch / path.name, path.suffix.lower()
        if kind == ".json":
            write_json(fresh, {"rows": [dict(zip(columns, row, strict=True)) for row in rows]})
        elif kind == ".parquet":
            polars = package("polars", f"{path.name}: writing Parquet")
            polars.DataFrame(list(map(list, rows)), schema=list(columns), orient="row").write_parquet(fresh)
        else:
            with fresh.open("w", encoding="utf-8", errors="surrogatepass", newline="") as file:
                writer = csv.writer(file, delimiter="\t" if kind == ".tsv" else ",", lineterminator="\n")
                writer.writerows([columns, *rows])
        put_in_place({path: fresh}, scratch, REMEDY)
