"""Laws of questions from files: a broken line spoils no other, and every format asks the same."""

import gzip
import io
from pathlib import Path

import pandas
import polars
import pytest

from laws import refused
from procrustes_kge.errors import InputError
from procrustes_kge.explore.questions.predicting import predict
from procrustes_kge.explore.questions.question_files import read_rows
from toys import planted_model

ROWS = [["a", "r", None], [None, "r", "b"], ["a", None, "b"], ["New York", "s, t", None]]


def rows_of(source, *roles):
    _, rows = read_rows(source, *([roles] if roles else []))
    return [row if isinstance(row, list) else str(row) for _, row in rows]


def written(path, separator, header=""):
    lines = [separator.join(part or "?" for part in row) for row in ROWS]
    if separator == ",":
        lines = [",".join(f'"{part or ""}"' for part in row) for row in ROWS]
    Path(path).write_text("\n".join([*filter(None, [header]), "", *lines]) + "\r\n")
    return path


@pytest.mark.parametrize(
    ("name", "separator", "header"),
    [
        ("plain.tsv", "\t", ""),
        ("header.tsv", "\t", "head\trelation\ttail"),
        ("quoted.csv", ",", ""),
        ("words.csv", ",", "subject,predicate,object"),
    ],
)
def test_every_text_asks_the_same(name, separator, header, tmp_path):
    path = written(tmp_path / name, separator, header)
    assert rows_of(path) == rows_of(str(path)) == ROWS
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert rows_of(packed) == ROWS
    assert rows_of(io.BytesIO(path.read_bytes())) == ROWS


def test_frames_parquet_and_rows_ask_the_same(tmp_path):
    columns = dict(zip(("tail", "head", "relation"), zip(*[(t, h, r) for h, r, t in ROWS], strict=True), strict=True))
    assert rows_of(pandas.DataFrame(columns)) == rows_of(polars.DataFrame(columns)) == ROWS
    polars.DataFrame(columns).write_parquet(tmp_path / "rows.parquet")
    assert rows_of(tmp_path / "rows.parquet") == ROWS
    assert rows_of(ROWS) == rows_of([tuple(row) for row in ROWS]) == ROWS
    assert rows_of([dict(zip(("head", "relation", "tail"), row, strict=True)) for row in ROWS]) == ROWS


def test_what_predict_wrote_can_be_asked_again(tmp_path):
    (tmp_path / "found.tsv").write_text("question\thead\trelation\ttail\trank\n1\ta\tr\tb\t1\n1\ta\tr\t\t2\n")
    assert rows_of(tmp_path / "found.tsv") == [["a", "r", "b"], ["a", "r", None]]


def test_a_broken_line_spoils_no_other(tmp_path):
    lines = [b"a\tr\t?", b"a\tr\tb\tc", b"\xff\tr\t?", b"", b"alone", b"b\tr", b"\t\t"]
    (tmp_path / "broken.tsv").write_bytes(b"\n".join(lines))
    _, rows = read_rows(tmp_path / "broken.tsv")
    found = {number: row if isinstance(row, list) else str(row) for number, row in rows}
    assert found[1] == ["a", "r", None]
    assert found[6] == ["b", "r", None]
    assert "4 columns, expected 3 (head, relation and tail)" in found[2]
    assert "byte 1 (0xff) is not UTF-8" in found[3]
    assert "1 column, expected 3" in found[5]
    assert found.keys() == {1, 2, 3, 5, 6}  # a line of nothing but white space is no question
    (tmp_path / "open.csv").write_text('a,r,?\n"a,r,?\n"b",r,?\n')
    assert rows_of(tmp_path / "open.csv")[::2] == [["a", "r", None], ["b", "r", None]]
    assert "cannot be cut into columns" in rows_of(tmp_path / "open.csv")[1]


def test_names_alone_need_no_columns(tmp_path):
    (tmp_path / "names.txt").write_text("entity\na, with a comma\nNew York\n")
    assert rows_of(tmp_path / "names.txt", "entity") == [["a, with a comma"], ["New York"]]
    assert rows_of(["a", "b"], "entity") == rows_of([["a"], ["b"]], "entity") == [["a"], ["b"]]
    (tmp_path / "three.tsv").write_text("b\ta\tc\n2\t1\t3\n")
    assert rows_of(tmp_path / "three.tsv", "a", "b", "c") == [["1", "2", "3"]]


def test_many_unknown_names_are_told_and_only_the_first_ones_with_suggestions():
    model, graph = planted_model()
    found = predict(model, questions=[("turn", "turn 2", None)] * 30 + [("turn 4", "turn 2", None)], k=1, graph=graph)
    assert [each.question for each in found.refused] == list(range(1, 31))
    assert "Did you mean" in found.refused[0].reason
    assert found.refused[-1].reason == "unknown entity 'turn'"
    assert [row.question for row in found] == [31]


def test_sources_that_hold_no_question_are_refused(tmp_path):
    model, _ = planted_model()
    empty, utf16, bad = tmp_path / "empty.tsv", tmp_path / "utf16.tsv", tmp_path / "bad.tsv"
    empty.write_text("\n\n")
    utf16.write_text("a\tr\t?", encoding="utf-16")
    bad.write_text("x\tturn 2\t?\ny\tturn 2\t?\n")
    for source, setting, seen, remedy in (
        (empty, "empty.tsv", "no questions", "one on each line"),
        ([], "the questions", "no questions", "one on each line"),
        (utf16, "utf16.tsv", "UTF-16", "iconv"),
        (bad, "bad.tsv", "2 questions, and none", "line 1: unknown entity 'x'"),
        (tmp_path / "gone.tsv", "gone.tsv", "cannot be read", "check its name"),
        (tmp_path, str(tmp_path), "is a folder", "name a file in it"),
        (pandas.DataFrame({"a": [1]}), "a frame", "the columns a", "3 (head, relation and tail)"),
        (7, "questions", "7", "a frame, or the path of a file"),
    ):
        refused(lambda source=source: predict(model, questions=source), setting=setting, seen=seen, remedy=remedy)


def test_rows_that_are_none_are_refused_one_by_one():
    for row in ("a r b", 3, {"head"}, ["a"], ["a", "r", "b", "c"], [["a"], {"r"}, None]):
        (found,) = [row for _, row in read_rows([row])[1]]
        assert isinstance(found, InputError)
        assert "expected" in str(found)
