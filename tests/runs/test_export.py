"""Laws of exported vectors: read back to the last digit, written whole or not at all."""

import os
import stat
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars
import pytest
import torch
from hypothesis import given, strategies as st

from folders import files_in, graph_for, model_of
from procrustes_kge.errors import InputError
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.runs.exchange.content import Predicted
from procrustes_kge.runs.export import EXPORTS, export
from procrustes_kge.runs.store import save
from procrustes_models import drawn
from toys import random_graph, small_baseline


def read_word2vec(path):
    """Return names and vectors as any reader of the format would."""
    lines = path.read_bytes().decode().split("\n")
    assert lines.pop() == ""
    count, dim = map(int, lines.pop(0).split(" "))
    rows = [line.split() for line in lines]
    assert len(rows) == count
    assert {len(row) for row in rows} == {dim + 1}
    return [row[0] for row in rows], np.array([row[1:] for row in rows], dtype=np.float32)


def exported(model, path, kind=None, **options):
    """Export in any format, with a graph and a prediction for those that hold such."""
    graph = graph_for(model, [(0, 0, 1)])
    return export(model, path, kind, graph=graph, predictions=[Predicted(1, 0, 0, 2.5, 0.75)], **options)


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
            with pytest.raises(InputError, match="which allows no spaces; use --format parquet or npy"):
                export(model, Path(folder, "vectors"), "word2vec")
            assert list(Path(folder).iterdir()) == []


def test_names_that_would_meet_are_named(tmp_path):
    with pytest.raises(InputError) as caught:
        export(model_of(["new york", "paris", "new_york"]), tmp_path / "vectors", "word2vec")
    assert str(caught.value).startswith("the names 'new york' and 'new_york' both become 'new_york' in word2vec")


def test_an_export_replaces_an_earlier_one(named, tmp_path):
    for kind in EXPORTS:
        exported(model_of("ab"), tmp_path / f"{kind}.{kind}", kind)
        before = {file: file.read_bytes() for file in tmp_path.glob(f"{kind}.*")}
        exported(named, tmp_path / f"{kind}.{kind}", kind)
        assert all(file.read_bytes() != content for file, content in before.items())


def test_exports_that_cannot_be_are_refused_and_nothing_is_touched(named, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "train.txt").write_text("a\tr\tb\n")
    before = files_in(tmp_path)
    refusals = [
        (tmp_path / "x.bin", "pickle", "unknown format 'pickle'. Known: npy, npz, parquet, safetensors, word2vec"),
        (tmp_path / "nowhere" / "x.npy", "npy", "nowhere: no such folder to write x.npy into"),
        (tmp_path / "train.txt" / "x.npy", "npy", r"train\.txt: no such folder to write x\.npy into"),
        (tmp_path / "folder", "parquet", "folder: is a folder, expected the name of a file; try .*vectors"),
        (
            tmp_path / "x.txt",
            "npy",
            r"x\.txt: the names go into a \.txt file .*; give the vectors a name that ends in \.npy",
        ),
        (tmp_path / "train.npy", "npy", r"train\.txt: goes with train\.npy, but is there already"),
        (tmp_path / ("x" * 300), "npy", r"cannot be written \(File name too long\)"),
    ]
    for path, kind, message in refusals:
        with pytest.raises(InputError, match=message):
            exported(named, path, kind)
        assert files_in(tmp_path) == before


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt("stop")], ids=str)
@pytest.mark.parametrize("kind", EXPORTS)
def test_a_failed_export_leaves_nothing_behind_and_an_earlier_one_as_it_was(kind, error, named, tmp_path, monkeypatch):
    exported(model_of("ab"), tmp_path / "old", kind)
    before = files_in(tmp_path)
    real = EXPORTS[kind]

    def broken(scratch, *rest):
        real(scratch, *rest)
        raise error

    monkeypatch.setitem(EXPORTS, kind, broken)
    for name in ("old", "new"):
        with pytest.raises(type(error), match=str(error)):
            exported(named, tmp_path / name, kind)
        assert files_in(tmp_path) == before


def test_parquet_without_polars_is_said(named, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(InputError, match=r"writing Parquet needs polars: pip install 'procrustes-kge\[parquet\]'"):
        export(named, tmp_path / "x.parquet", "parquet")
    assert files_in(tmp_path) == {}


# What is there already.


def test_what_export_did_not_write_is_replaced_only_by_force(named, tmp_path):
    for kind in EXPORTS:
        mine = tmp_path / f"mine.{kind}"
        mine.write_text("precious")
        before = files_in(tmp_path)
        with pytest.raises(InputError, match=r"is there already and was not written by procrustes; .*--force"):
            exported(named, mine, kind)
        assert files_in(tmp_path) == before
        exported(named, mine, kind, force=True)
        assert mine.read_bytes() != b"precious"
        exported(model_of("ab"), mine, kind)  # it is an export now


@pytest.mark.parametrize("kind", EXPORTS)
def test_a_file_that_was_changed_is_the_users(kind, named, tmp_path):
    for edited in range(1 + (kind == "npy")):
        file = exported(named, tmp_path / f"{edited}.{kind}", kind)[edited]
        file.write_bytes(file.read_bytes() + b"more")
        before = files_in(tmp_path)
        with pytest.raises(InputError, match=rf"{file.name}: .*was changed since procrustes wrote it; choose another"):
            exported(named, tmp_path / f"{edited}.{kind}", kind)
        assert files_in(tmp_path) == before


def test_names_belong_to_their_vectors(named, tmp_path):
    export(named, tmp_path / "e.npy")
    before = files_in(tmp_path)
    with pytest.raises(InputError, match=r"e\.txt: belongs to e\.npy, which was written with it; choose another name"):
        export(named, tmp_path / "e.txt")
    assert files_in(tmp_path) == before
    (tmp_path / "e.npy").unlink()
    assert export(named, tmp_path / "e.txt") == [tmp_path / "e.txt"]
    with pytest.raises(InputError, match=r"e\.txt: goes with e\.npy, but belongs to e\.txt"):
        export(named, tmp_path / "e.npy")


# Relations.


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("translate", [False, True])
def test_exported_relations_answer_as_the_model_does(scale, translate, tmp_path):
    model, graph = drawn(scale=scale, translate=translate)
    files = export(model, tmp_path / "r.npy", what="relations")
    frame = polars.read_parquet(export(model, tmp_path / "r.parquet", what="relations")[0])
    assert frame["name"].to_list() == files[1].read_text().splitlines() == list(model.relations)
    tables = {file.stem.removeprefix("r-").replace("-", "_"): np.load(file) for file in files if file.suffix == ".npy"}
    tables["rotation"] = tables.pop("r")
    assert tables.keys() | {"name"} == set(frame.columns)
    assert all(np.array_equal(table, frame[name].to_numpy()) for name, table in tables.items())
    ids = torch.arange(len(graph.relations))
    asked = model.vectors[ids].numpy()[:, :, None]  # as many entities as relations, each asked for one
    for inverse in ("", "inverse_"):
        turned = tables["rotation"].swapaxes(-1, -2) if inverse else tables["rotation"]
        point = (asked @ turned)[:, :, 0] * tables.get(f"{inverse}scale", 1) + tables.get(f"{inverse}translation", 0)
        expected = model.query(model, ids, ids + (len(ids) if inverse else 0))
        assert np.allclose(point.reshape(len(ids), -1), expected.numpy(), atol=1e-5)


@pytest.mark.parametrize("name", BASELINES)
def test_relations_of_a_baseline_are_vectors_for_both_directions(name, tmp_path):
    graph = random_graph(entities=6, relations=2, triples=20)
    module = small_baseline(name, graph)
    model = TrainedBaseline(name, BASELINES[name].Options(), graph.entities, graph.relations, module)
    files = export(model, tmp_path / "r.npy", what="relations")
    assert [file.name for file in files] == ["r.npy", "r.txt", "r-inverse-vector.npy"]
    tails, heads = np.load(files[0]), np.load(files[2])
    assert np.array_equal(np.concatenate([tails, heads]), module.encode().relations.detach().numpy())
    assert len(tails) == len(heads) == len(graph.relations)


def test_word2vec_has_no_place_for_matrices(named, tmp_path):
    with pytest.raises(InputError, match=r"word2vec holds one vector per name, .* more \(rotation\); use parquet"):
        export(named, tmp_path / "r.vec", what="relations")
    with pytest.raises(InputError, match=r"'rotations'. Did you mean relations\? Known: entities, relations"):
        export(named, tmp_path / "r.npy", what="rotations")


def test_nothing_of_an_earlier_export_stays_beside_a_new_one(named, tmp_path):
    scaled = replace(named, scales=torch.ones(2, 2, 5))
    files = export(scaled, tmp_path / "r.npy", what="relations")
    assert [file.name for file in files[2:]] == ["r-scale.npy", "r-inverse-scale.npy"]
    files[3].write_text("mine")
    export(named, tmp_path / "r.npy", what="relations")
    assert [file.exists() for file in files] == [True, True, False, True]


@pytest.mark.parametrize("kind", EXPORTS)
def test_what_is_no_file_is_never_replaced(kind, named, tmp_path):
    pipe = tmp_path / "pipe.vec"
    os.mkfifo(pipe)
    link = tmp_path / "link.vec"
    link.symlink_to(os.devnull)
    for place in (pipe, link):
        with pytest.raises(InputError, match="is a device or a pipe, not a file; choose another name"):
            exported(named, place, kind, force=True)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert link.readlink() == Path(os.devnull)
    (tmp_path / "names.txt").mkdir()
    with pytest.raises(InputError, match=r"names.txt: goes with names.npy, but is a folder; choose another name"):
        exported(named, tmp_path / "names.npy", force=True)
    with pytest.raises(InputError, match="not standard output"):
        exported(named, "-", kind)


def test_no_export_destroys_a_run(named, tmp_path):
    save(named, tmp_path / "run")
    before = files_in(tmp_path / "run")
    for name in ("entities.txt", "model.safetensors", "settings.json", "entities.npy"):
        with pytest.raises(InputError, match=r"belongs to the run .*; choose another name"):
            export(named, tmp_path / "run" / name, "npy" if name[-3:] != "txt" else "word2vec", force=True)
    assert files_in(tmp_path / "run") == before
    assert [file.name for file in export(named, tmp_path / "run" / "vectors.npy")] == ["vectors.npy", "vectors.txt"]
