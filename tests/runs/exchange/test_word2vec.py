"""Laws of word2vec: gensim loads both kinds, both are read back, and no header is believed."""

import struct
import warnings

import numpy as np
import pytest
from hypothesis import given, strategies as st

from folders import model_of
from laws import refused
from procrustes_kge.errors import InputError
from procrustes_kge.runs.exchange.vectors import read_vectors
from procrustes_kge.runs.exchange.word2vec import is_binary, read_binary, read_text
from procrustes_kge.runs.export import export

KINDS = ("word2vec", "word2vec-binary")
NAMES = ["Zürich", "new york", "1", "e-3", "☃"]


@pytest.fixture
def named():
    return model_of(NAMES, width=5)


@pytest.mark.parametrize("kind", KINDS)
def test_gensim_loads_it(kind, named, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what gensim imports
        models = pytest.importorskip("gensim.models", reason="gensim is not installed")
    (file,) = export(named, tmp_path / "v", kind)
    loaded = models.KeyedVectors.load_word2vec_format(str(file), binary=kind == "word2vec-binary")
    assert loaded.index_to_key == [name.replace(" ", "_") for name in NAMES]
    assert np.array_equal(loaded.vectors, named.table.numpy())
    loaded.save_word2vec_format(str(tmp_path / "again"), binary=kind == "word2vec-binary")  # without line breaks
    found = read_vectors(tmp_path / "again")
    # gensim orders words by how often they occur, where it knows.
    assert sorted(found.names) == sorted(loaded.index_to_key)
    rows = [found.names.index(word) for word in loaded.index_to_key]
    assert np.allclose(found.table[rows], loaded.vectors, atol=1e-7)


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 2**31))
def test_both_kinds_are_told_apart_and_read_back(rows, dim, seed):
    table = np.random.default_rng(seed).normal(size=(rows, dim)).astype("f4")
    names = [f"w{row}" for row in range(rows)]
    packed = f"{rows} {dim}\n".encode() + b"".join(
        name.encode() + b" " + vector.tobytes() + b"\n" * (seed % 2) for name, vector in zip(names, table, strict=True)
    )
    text = f"{rows} {dim}\n" + "".join(
        f"{name} {' '.join(map(repr, vector.tolist()))}\n" for name, vector in zip(names, table, strict=True)
    )
    assert not is_binary(text.encode())
    for found, vectors in (read_binary(packed, "v"), read_text(text.encode(), "v")):
        assert found == names
        assert np.array_equal(vectors, table)


def test_glove_has_no_header_and_words_may_have_blanks():
    assert read_text(b"\xef\xbb\xbfthe 1 2\r\na 3 4", "v")[0] == ["the", "a"]
    assert read_text(b"the 1e-3 2\nat name 0.5 -1\n", "v")[0] == ["the", "at name"]
    assert read_text(b"2 2\nat name 0.5 -1\nthe 1 2\n", "v")[0] == ["at name", "the"]
    with pytest.raises(InputError, match=r"line 2: 2 numbers behind 'the', expected 3|'name' is no number"):
        read_text(b"at name 0.5 -1\nthe 1 2\n", "v")  # the first line says how many there are


@pytest.mark.parametrize(
    ("data", "seen", "remedy"),
    [
        (b"9000000000 300\na 1 2\n", "9,000,000,000 words", "download or write it again"),
        (b"3 2\na 1 2\nb 1 2\n", "3 words, but 2 lines follow", "write it again"),
        (b"2 900000000\na 1\nb 2\n", "900,000,000 numbers", "again"),
        (b"2 2\na 1 2\nb 1\n", "line 3: 1 number behind 'b'", "whole?"),
        (b"2 2\na 1 2\nb 1 x\n", "line 3: 'x' is no number", "expected 2"),
        (b"0 5\n", "0 words", "expected some"),
        (b"a\n", "line 1: 'a'", "a word and its numbers"),
        (b"", "is empty", "a word and its numbers"),
        (b"a \xff 1\n", "not UTF-8", "iconv"),
    ],
)
def test_broken_text_is_refused(data, seen, remedy, tmp_path):
    (tmp_path / "v.vec").write_bytes(data)
    refused(lambda: read_vectors(tmp_path / "v.vec"), setting="v.vec", seen=seen, remedy=remedy)


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (b"4000000000 300\na " + struct.pack("<3f", 1, 2, 3), "4,000,000,000 words of 300 numbers, and is too short"),
        (b"1 900000000\na \0\0\0\0", "900,000,000 numbers, and is too short"),
        (b"2 1\na " + struct.pack("<f", 1) + b"b" * 30 + b"\0", "word 2 of 2 is cut off"),
        (b"1 1\n\xff " + struct.pack("<f", 1) + b"\0", "word 1 is not UTF-8"),
        (b"1 1\na " + struct.pack("<f", 1) + b"\0\0", "2 bytes behind the last of 1 word"),
    ],
)
def test_broken_binaries_are_refused(data, seen, tmp_path):
    (tmp_path / "v.bin").write_bytes(data)
    refused(lambda: read_vectors(tmp_path / "v.bin"), setting="v.bin", seen=seen, remedy="")


def test_relations_have_no_place(named, tmp_path):
    for kind in (*KINDS, "projector", "pgvector", "postgresql"):
        with pytest.raises(InputError, match=r"one vector per name, .* more \(rotation\); use parquet"):
            export(named, tmp_path / "r", kind, what="relations")
