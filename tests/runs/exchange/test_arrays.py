"""Laws of tables of numbers: whoever else reads the file finds the same names and numbers."""

import numpy as np
import polars
import pytest
import safetensors.numpy
import torch

from folders import model_of
from laws import refused
from procrustes_kge.errors import InputError
from procrustes_kge.runs.exchange.vectors import read_vectors
from procrustes_kge.runs.export import export, to_pykeen
from procrustes_models import drawn

NAMES = ["Zürich", "new york", "a\\b", "☃", "line\nbreak", "1"]


@pytest.fixture
def named():
    return model_of(NAMES, labels={"1": "one"}, width=5)


def test_npz_has_names_and_vectors_without_pickles(named, tmp_path):
    (file,) = export(named, tmp_path / "v.npz")
    found = np.load(file, allow_pickle=False)
    assert found.files == ["names", "vector"]
    assert found["names"].tolist() == NAMES
    assert np.array_equal(found["vector"], named.table.numpy())


def test_safetensors_has_vectors_and_names_beside_it(named, tmp_path):
    vectors, lines = export(named, tmp_path / "v.safetensors")
    found = safetensors.numpy.load_file(vectors)
    assert list(found) == ["vector"]
    assert np.array_equal(found["vector"], named.table.numpy())
    assert lines.name == "v.txt"
    assert read_vectors(vectors).names == NAMES


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_relations_have_all_their_tables(suffix, tmp_path):
    model, _ = drawn(scale=True, translate=True)
    file = export(model, tmp_path / f"r.{suffix}", what="relations")[0]
    found = dict(np.load(file)) if suffix == "npz" else safetensors.numpy.load_file(file)
    found.pop("names", None)
    assert found.keys() == {"rotation", "scale", "translation", "inverse_scale", "inverse_translation"}
    assert np.array_equal(found["rotation"], model.rotations.numpy())
    assert np.array_equal(found["inverse_scale"], model.scales[len(model.relations) :].numpy())


def test_very_long_names_are_no_reason_to_take_all_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("procrustes_kge.runs.exchange.arrays.WIDEST", 1000)
    long = model_of(["x" * 500, "b"])
    refused(lambda: export(long, tmp_path / "v.npz"), setting="v.npz", seen="500 characters", remedy="use npy")
    refused(
        lambda: export(model_of(["a\0", "b"]), tmp_path / "v.npz"), setting="name", seen="ends in NUL", remedy="npy"
    )


def test_names_that_are_no_text_go_where_they_can(tmp_path):
    half = model_of(["a\ud800", "b"])
    for suffix in ("parquet", "sql"):
        refused(
            lambda suffix=suffix: export(half, tmp_path / f"v.{suffix}"),
            **{"setting": "name", "seen": "half of a surrogate pair", "remedy": "use npy or word2vec"},
        )
    assert list(tmp_path.iterdir()) == []
    assert read_vectors(export(half, tmp_path / "v.npy")[0]).names == ["a\ud800", "b"]


# Read back.


@pytest.mark.parametrize("suffix", ["npy", "npz", "parquet", "safetensors", "vec"])
def test_what_is_exported_is_read_back_to_the_last_bit(suffix, named, tmp_path):
    found = read_vectors(export(named, tmp_path / f"v.{suffix}")[0])
    blank = [name.replace(" ", "_").replace("\n", "_") for name in NAMES]
    assert found.names == (blank if suffix == "vec" else NAMES)
    assert np.array_equal(found.table, named.table.numpy())


def test_arrays_of_any_plain_type_and_order_are_read(tmp_path):
    table = np.arange(12).reshape(4, 3)
    (tmp_path / "v.txt").write_text("a\nb\nc\nd")
    for kind in ("f2", ">f4", "f8", "i1", "u8", "c8"):
        for order in "CF":
            np.save(tmp_path / "v.npy", np.asarray(table, dtype=kind, order=order))
            found = read_vectors(tmp_path / "v.npy")
            assert found.names == list("abcd")
            real = np.repeat(table, 2, axis=1) * ([1, 0] * 3) if kind == "c8" else table
            assert np.array_equal(found.table, real.astype("f4"))
            assert found.segment == (2 if kind == "c8" else None)
    np.save(tmp_path / "v.npy", table.reshape(4, 1, 3))
    assert read_vectors(tmp_path / "v.npy").segment == 3


def test_parquet_of_others_is_read(tmp_path):
    table = np.random.default_rng(0).random((50, 4))
    names = [f"e{row}" for row in range(50)]
    frames = {
        "lists": polars.DataFrame({"word": names, "x": table.tolist()}),
        "columns": polars.DataFrame({"id": names, **{f"d{place}": table[:, place] for place in range(4)}}),
        "numbers": polars.DataFrame({"id": list(range(50)), "embedding": table.tolist(), "other": table.tolist()}),
    }
    for name, frame in frames.items():
        frame.write_parquet(tmp_path / f"{name}.parquet")
        found = read_vectors(tmp_path / f"{name}.parquet")
        assert found.names == (names if name != "numbers" else [str(row) for row in range(50)])
        assert np.array_equal(found.table, table.astype("f4"))


def test_the_table_is_the_users_choice_where_there_are_several(tmp_path):
    tables = {"one": np.ones((2, 3)), "two": np.zeros((2, 3))}
    np.savez(tmp_path / "v.npz", names=np.array(["a", "b"]), **tables)
    refused(
        lambda: read_vectors(tmp_path / "v.npz"), setting="v.npz", seen="one (2 × 3), two (2 × 3)", remedy="--table"
    )
    assert read_vectors(tmp_path / "v.npz", table="two").table.sum() == 0
    refused(lambda: read_vectors(tmp_path / "v.npz", table="x"), setting="v.npz", seen="'x'", remedy="there are")


# Damaged and hostile.


def npy(header, body=b""):
    text = header.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


@pytest.mark.parametrize(
    ("data", "seen", "remedy"),
    [
        (
            npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9000000000, 200), }"),
            "9,000,000,000",
            "is it whole?",
        ),
        (npy("{'descr': '<U0', 'fortran_order': False, 'shape': (9000000000,), }"), "type U0", "numbers or text"),
        (npy("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", b"cos\nsystem"), "objects", "never unpickled"),
        (npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }"), "no plain array", "save it as one"),
        (npy("{'descr': " + "[" * 100), "no plain array", "save it as one"),
        (b"\x93NUMPY\x01\x00\xff\xff", "does not begin", "write it again"),
        (b"\x93NUMPY\x09\x00\x10\x00" + b" " * 20, "header is damaged", "write it again"),
        (b"\x80\x04\x95.", "is a pickle", "numpy.savez"),
        (b"\x7fELF\0\0\0\0", "not a file of vectors", "expected .npy"),
    ],
)
def test_hostile_arrays_are_refused(data, seen, remedy, tmp_path):
    (tmp_path / "v.npy").write_bytes(data)
    (tmp_path / "v.txt").write_text("a\nb\n")
    refused(lambda: read_vectors(tmp_path / "v.npy"), setting="v.npy", seen=seen, remedy=remedy)


def test_a_file_of_pytorch_is_refused(tmp_path):
    torch.save({"vectors": torch.ones(2, 3)}, tmp_path / "v.pt")
    refused(lambda: read_vectors(tmp_path / "v.pt"), setting="v.pt", seen="unpickling", remedy="as safetensors")


def test_names_that_do_not_fit_are_refused(tmp_path):
    np.save(tmp_path / "v.npy", np.ones((3, 2)))
    file = tmp_path / "v.npy"
    refused(lambda: read_vectors(file), setting="v.npy", seen="v.txt beside it", remedy="--names")
    (tmp_path / "v.txt").write_text("a\nb\n")
    refused(lambda: read_vectors(file), setting="v.npy", seen="3 rows and 2 names", remedy="a name for each row")
    np.save(tmp_path / "v.npy", np.ones(3))
    refused(lambda: read_vectors(file), setting="v.npy", seen="vectors (3)", remedy="expected a row")
    (tmp_path / "v.vec").write_text("1 1\na 1\n")
    refused(
        lambda: read_vectors(tmp_path / "v.vec", names="x"), setting="v.vec", seen="names of its own", remedy="--names"
    )


@pytest.mark.parametrize("suffix", ["npz", "npy", "safetensors", "parquet"])
def test_truncated_files_are_refused(suffix, named, tmp_path):
    file = export(named, tmp_path / f"v.{suffix}")[0]
    whole = file.read_bytes()
    for end in range(0, len(whole) - 1, max(1, len(whole) // (4 if suffix == "parquet" else 40))):
        file.write_bytes(whole[:end])
        with pytest.raises(InputError, match=rf"v\.{suffix}"):
            read_vectors(file)


def test_a_package_that_is_missing_is_named(named, monkeypatch):
    monkeypatch.setattr("procrustes_kge.system.extras.find_spec", lambda name: None)
    remedy = "pip install 'procrustes-kge[exchange]'"
    refused(lambda: to_pykeen(named), setting="a PyKEEN model", seen="needs pykeen", remedy=remedy)
