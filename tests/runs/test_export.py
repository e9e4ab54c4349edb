"""Laws of exported vectors: read back to the last digit, written whole or not at all."""

import sys
import tempfile
from pathlib import Path

import numpy as np
import polars
import pytest
from hypothesis import given, strategies as st

from folders import files_in, model_of
from procrustes_kge.errors import InputError
from procrustes_kge.runs.export import EXPORTS, export


def read_word2vec(path):
    """Return names and vectors as any reader of the format would."""
    lines = path.read_bytes().decode().split("\n")
    assert lines.pop() == ""
    count, dim = map(int, lines.pop(0).split(" "))
    rows = [line.split() for line in lines]
    assert len(rows) == count
    assert {len(row) for row in rows} == {dim + 1}
    return [row[0] for row in rows], np.array([row[1:] for row in rows], dtype=np.float32)


@pytest.fixture
def named():
    """A model with labels, whose numbers need all their digits."""
    return model_of(["Zürich", "1", "e-3", "☃"], labels={"1": "one"}, width=5)


def test_npy_is_a_matrix_with_its_names_beside_it(named, tmp_path):
    files = export(named, tmp_path / "my.vectors.npy", "npy")
    assert files == [tmp_path / "my.vectors.npy", tmp_path / "my.vectors.txt"]
    table = np.load(files[0], allow_pickle=False)
    assert table.dtype == np.float32
    assert np.array_equal(table, named.vectors.flatten(1).numpy())
    assert files[1].read_text(encoding="utf-8").splitlines() == list(named.entities)


def test_parquet_has_names_and_vectors(named, tmp_path):
    assert export(named, tmp_path / "vectors.parquet", "parquet") == [tmp_path / "vectors.parquet"]
    frame = polars.read_parquet(tmp_path / "vectors.parquet")
    assert frame.columns == ["name", "label", "vector"]
    assert frame["name"].to_list() == list(named.entities)
    assert frame["label"].to_list() == ["Zürich", "one", "e-3", "☃"]
    assert frame["vector"].dtype == polars.Array(polars.Float32, 10)
    assert np.array_equal(frame["vector"].to_numpy(), named.vectors.flatten(1).numpy())
    export(model_of("ab"), tmp_path / "vectors.parquet", "parquet")
    assert polars.read_parquet(tmp_path / "vectors.parquet").columns == ["name", "vector"]


def test_word2vec_is_read_back_to_the_last_digit(named, tmp_path):
    assert export(named, tmp_path / "vectors.vec", "word2vec") == [tmp_path / "vectors.vec"]
    names, table = read_word2vec(tmp_path / "vectors.vec")
    assert names == list(named.entities)
    assert np.array_equal(table, named.vectors.flatten(1).numpy())


@given(st.lists(st.text(st.sampled_from("ab_ \t\n\u2003\x85"), max_size=3), min_size=1, max_size=8, unique=True))
def test_blanks_in_word2vec_names_are_replaced_unless_two_names_would_meet(names):
    model = model_of(names)
    words = ["_" if name == "" else "".join("_" if letter.isspace() else letter for letter in name) for name in names]
    with tempfile.TemporaryDirectory() as folder:
        if len(set(words)) == len(words):
            export(model, Path(folder, "vectors"), "word2vec")
            assert read_word2vec(Path(folder, "vectors"))[0] == words
        else:
            with pytest.raises(InputError, match="which allows no blanks; use --format parquet or npy"):
                export(model, Path(folder, "vectors"), "word2vec")
            assert list(Path(folder).iterdir()) == []


def test_names_that_would_meet_are_named(tmp_path):
    with pytest.raises(InputError) as caught:
        export(model_of(["new york", "paris", "new_york"]), tmp_path / "vectors", "word2vec")
    assert str(caught.value).startswith("the names 'new york' and 'new_york' are both 'new_york' in word2vec")


def test_an_export_replaces_an_earlier_one(named, tmp_path):
    for kind in EXPORTS:
        export(model_of("ab"), tmp_path / f"{kind}.{kind}", kind)
        before = {file: file.read_bytes() for file in tmp_path.glob(f"{kind}.*")}
        export(named, tmp_path / f"{kind}.{kind}", kind)
        assert all(file.read_bytes() != content for file, content in before.items())


def test_exports_that_cannot_be_are_refused_and_nothing_is_touched(named, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "train.txt").write_text("a\tr\tb\n")
    before = files_in(tmp_path)
    refusals = [
        (tmp_path / "x.bin", "pickle", "unknown format 'pickle', expected npy, parquet, word2vec"),
        (tmp_path / "nowhere" / "x.npy", "npy", "nowhere: no such folder to write x.npy into"),
        (tmp_path / "train.txt" / "x.npy", "npy", r"train\.txt: no such folder to write x\.npy into"),
        (tmp_path / "folder", "parquet", "folder: is a folder, expected the name of a file; try .*vectors"),
        (tmp_path / "x.txt", "npy", r"x\.txt: the names go into a \.txt file .*; end the vectors' file in \.npy"),
        (tmp_path / "train.npy", "npy", r"train\.txt: is there already, and the names would go there; choose another"),
        (tmp_path / ("x" * 300), "npy", r"cannot be written \(File name too long\)"),
    ]
    for path, kind, message in refusals:
        with pytest.raises(InputError, match=message):
            export(named, path, kind)
        assert files_in(tmp_path) == before


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt("stop")], ids=str)
@pytest.mark.parametrize("kind", EXPORTS)
def test_a_failed_export_leaves_nothing_behind_and_an_earlier_one_as_it_was(kind, error, named, tmp_path, monkeypatch):
    export(model_of("ab"), tmp_path / "old", kind)
    before = files_in(tmp_path)
    real = EXPORTS[kind]

    def broken(scratch, *rest):
        real(scratch, *rest)
        raise error

    monkeypatch.setitem(EXPORTS, kind, broken)
    for name in ("old", "new"):
        with pytest.raises(type(error), match=str(error)):
            export(named, tmp_path / name, kind)
        assert files_in(tmp_path) == before


def test_parquet_without_polars_is_said(named, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(InputError, match="writing Parquet needs the package polars; pip install polars"):
        export(named, tmp_path / "x.parquet", "parquet")
    assert files_in(tmp_path) == {}
