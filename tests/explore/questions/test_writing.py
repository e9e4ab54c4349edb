"""Laws of answers in files: every format holds the same, all of it or nothing."""

import csv
import json
from dataclasses import asdict
from pathlib import Path

import polars
import pytest

from laws import refused
from procrustes_kge.explore.questions.answers import Prediction
from procrustes_kge.explore.questions.writing import write_answers

ROWS = [
    Prediction(1, "a", "r", "b\tc", 1, "b\tc", 'a "label", quoted', 1.25, 0.5, "train"),
    Prediction(2, "a", "r", "d", 1, "d", "d", -3.0),
]


def read(path):
    if path.suffix == ".json":
        return json.loads(path.read_text())
    if path.suffix == ".parquet":
        return polars.read_parquet(path).to_dicts()
    with path.open(newline="") as file:
        lines = csv.reader(file) if path.suffix == ".csv" else (line.rstrip("\n").split("\t") for line in file)
        names, *rows = lines
    kinds = {"question": int, "rank": int, "score": float, "probability": float}
    return [
        {name: kinds.get(name, str)(cell) if cell else None for name, cell in zip(names, row, strict=True)}
        for row in rows
    ]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".json", ".parquet"])
def test_every_format_holds_the_rows(suffix, tmp_path):
    path = write_answers(tmp_path / f"found{suffix}", Prediction, iter(ROWS))
    expected = [asdict(row) for row in ROWS]
    if suffix == ".tsv":  # which has no way to write a tab within a name
        expected[0] |= {"tail": "b c", "answer": "b c"}
    assert read(path) == expected
    write_answers(path, Prediction, [])  # what was written so is replaced
    assert read(path) == []


def test_what_was_not_written_so_stays(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("mine")
    refused(
        lambda: write_answers(path, Prediction, ROWS), setting="mine.csv", seen="not written by", remedy="force=True"
    )
    assert path.read_text() == "mine"
    write_answers(path, Prediction, ROWS, force=True)
    assert len(read(path)) == 2


def test_nothing_is_half_written(tmp_path):
    def broken():
        yield ROWS[0]
        raise RuntimeError

    for suffix in (".csv", ".json", ".parquet"):
        with pytest.raises(RuntimeError):
            write_answers(tmp_path / f"found{suffix}", Prediction, broken())
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written_are_refused(tmp_path):
    refused(
        lambda: write_answers(tmp_path / "found.xls", Prediction, ROWS),
        setting="found.xls",
        seen="suffix",
        remedy=".csv",
    )
    refused(
        lambda: write_answers(Path(tmp_path, "no", "found.csv"), Prediction, ROWS),
        setting="found.csv",
        seen="no such folder",
        remedy="write found.csv into",
    )
