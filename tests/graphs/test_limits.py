"""Files of a shape or size that would take for ever, or all memory, are refused before they do."""

import gzip
import io
import os
import struct
import sys
import zlib
from pathlib import Path

import pytest

from laws import refused, slow_but
from procrustes_kge.graphs import contents, limits
from procrustes_kge.graphs.formats import read_columns
from procrustes_kge.graphs.labels import read_labels
from procrustes_kge.graphs.reading import read_graph

zstd = pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
LINE = b"a\tr\tb\n"
PACKERS = {".gz": gzip.compress, ".zst": zstd.compress}


def skippable(content):
    return struct.pack("<II", 0x184D2A50, len(content)) + content


# What is packed in parts.


@pytest.mark.parametrize(
    ("packing", "part"),
    [
        (".gz", gzip.compress(b"", mtime=0)),  # a part is the name of its test, which must not change with the time
        pytest.param(".zst", zstd.compress(b""), marks=pytest.mark.slow),
        (".zst", skippable(b"")),
    ],
)
def test_a_file_of_very_many_empty_parts_is_refused(packing, part):
    path, first = Path(f"g.tsv{packing}"), PACKERS[packing](LINE)
    assert len(read_columns(path, data=first + part * (limits.MEMBERS - 1)).heads) == 1
    refused(
        lambda: read_columns(path, data=first + part * limits.MEMBERS),
        setting=path,
        seen=f"more than {limits.MEMBERS:,} parts",
        remedy="pack it again as a whole",
    )


@pytest.mark.parametrize("packing", PACKERS)
def test_a_file_of_very_many_parts_is_read_where_they_hold_something(packing, monkeypatch):
    monkeypatch.setattr(limits, "MEMBERS", 10)
    part = PACKERS[packing](LINE * 200)
    assert len(read_columns(Path(f"g.tsv{packing}"), data=part * 50).heads) == 10_000


def test_skippable_frames_are_skipped(tmp_path):
    path = tmp_path / "g.tsv.zst"
    data = skippable(b"anything") + zstd.compress(LINE * 3) + skippable(b"") + zstd.compress(LINE)
    path.write_bytes(data)
    assert len(read_columns(path).heads) == 4


def test_zeros_behind_the_parts_of_gzip_are_skipped_at_once(monkeypatch):
    begun, begin = [], zlib.decompressobj
    monkeypatch.setattr(contents.zlib, "decompressobj", lambda bits: begun.append(bits) or begin(bits))
    data = gzip.compress(LINE) + bytes(1_000_000) + gzip.compress(LINE) + bytes(3)
    assert len(read_columns(Path("g.tsv.gz"), data=data).heads) == 2
    assert len(begun) == 2


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("behind", [b"junk", b"\0\0junk", b"\x1f", b"\x28\xb5"])
def test_what_stands_behind_the_parts_is_one_or_is_refused(packing, behind):
    path, data = Path(f"g.tsv{packing}"), PACKERS[packing](LINE) + behind
    refused(lambda: read_columns(path, data=data), setting=path, seen="broken or truncated", remedy="compress it again")


def test_a_file_name_in_gzip_that_never_ends_is_unpacked_piece_by_piece(monkeypatch):
    head, calls, begin = b"\x1f\x8b\x08\x08" + bytes(5) + b"\x03", [], zlib.decompressobj

    class Counting:
        def __init__(self, bits):
            self.inner = begin(bits)

        def decompress(self, piece, most):
            calls.append(len(piece))
            return self.inner.decompress(piece, most)

        def __getattr__(self, name):
            return getattr(self.inner, name)

    monkeypatch.setattr(contents.zlib, "decompressobj", Counting)
    path, name = Path("g.tsv.gz"), b"n" * 5_000_000
    refused(lambda: read_columns(path, data=head + name), setting=path, seen="truncated", remedy="download")
    assert len(calls) <= len(name) // limits.PIECE + 3
    assert len(read_columns(path, data=head + name + b"\0" + gzip.compress(LINE)[10:]).heads) == 1


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_pieces_of_any_size_unpack_to_the_same(packing, chunk, monkeypatch):
    monkeypatch.setattr(limits, "CHUNK", chunk)
    monkeypatch.setattr(limits, "PIECE", chunk)
    lines = b"".join(b"e%d\tr\te%d\n" % (number, number * 7 % 50) for number in range(300))
    data = PACKERS[packing](lines) + PACKERS[packing](LINE * 500)
    assert contents.unpacked(data, "g", packing) == lines + LINE * 500


# What is larger than memory.

SIZE = 200_000


@pytest.mark.parametrize("suffix", [".tsv", ".parquet", ".gz", ".zst", ".nt", ".json"])
def test_a_file_that_is_larger_than_memory_is_not_read(suffix, tmp_path, monkeypatch):
    path = tmp_path / f"g{suffix}"
    path.write_bytes(bytes(4_000_001))
    monkeypatch.setattr(contents, "available_memory", lambda: 8_000_000)
    monkeypatch.setattr(contents.os, "open", None)
    for read in (read_graph, read_labels):
        refused(lambda read=read: read(path), setting=path, seen="has 4 MB, and 8 MB of memory", remedy="a part of it")


@pytest.mark.parametrize("kind", [io.BytesIO, lambda data: io.StringIO(data.decode())])
def test_an_open_file_is_read_no_further_than_memory_goes(kind, monkeypatch):
    monkeypatch.setattr(contents, "available_memory", lambda: 2 * SIZE)
    monkeypatch.setattr(contents, "CHUNK", 1000)
    stream = kind(LINE * SIZE)
    refused(lambda: read_graph(stream), setting="stream", seen="more than 0 MB", remedy="give a part of it")
    assert SIZE < stream.tell() <= SIZE + 1000
    assert len(read_graph(kind(b"".join(b"a%d\tr\tb\n" % row for row in range(3000)))).entities) == 3001


@pytest.mark.parametrize("packing", PACKERS)
def test_a_packed_file_is_unpacked_no_further_than_memory_goes(packing, monkeypatch):
    path, data = Path(f"g.tsv{packing}"), PACKERS[packing](LINE * SIZE)
    for memory, rows in ((2 * SIZE, 0), (20 * SIZE, SIZE)):
        monkeypatch.setattr(limits, "available_memory", lambda memory=memory: memory)
        read = lambda: read_columns(path, data=data, max_unpacked=10**12)  # noqa: E731
        if rows:
            assert len(read().heads) == rows
        else:
            refused(read, setting=path, seen="unpacks to more than", remedy="give a part of it")


def test_what_memory_runs_out_for_is_refused_in_a_sentence(tmp_path, monkeypatch):
    def fails(*_, **__):
        raise MemoryError

    path = tmp_path / "g.tsv"
    path.write_bytes(LINE)
    for module, place in (("contents", "os.fdopen"), ("formats", "parse_delimited"), ("reading", "_encode")):
        with monkeypatch.context() as patched:
            patched.setattr(f"procrustes_kge.graphs.{module}.{place}", fails)
            refused(lambda: read_graph(path), setting=path, seen="more memory", remedy="free memory")
    with monkeypatch.context() as patched:
        patched.setattr(contents.os, "fdopen", fails)
        refused(lambda: read_graph(LINE, labels=path), setting=path, seen="more memory", remedy="free memory")
    stream = io.BytesIO(LINE)
    stream.read = fails
    refused(lambda: read_graph(stream), setting="the triples", seen="more memory", remedy="free memory")


def test_memory_that_is_not_known_refuses_nothing(tmp_path, monkeypatch):
    def absent(*_, **__):
        raise OSError

    assert 10**6 < limits.available_memory() < 10**14
    monkeypatch.setattr(Path, "read_text", absent)
    assert limits.available_memory() > 10**6
    monkeypatch.delattr(limits.os, "sysconf")
    assert limits.available_memory() == float("inf")
    path = tmp_path / "g.tsv"
    path.write_bytes(LINE)
    assert len(read_columns(path).heads) == 1


# Lines of very many columns.


@pytest.mark.parametrize(("separator", "name"), [("\t", ""), (",", ""), (" ", "a"), (";", "a"), ("|", "")])
@pytest.mark.parametrize("before", slow_but([0, 20_000], [0, 1, 20_000]))
@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("guessed", [False, True])
def test_a_line_of_too_many_columns_is_refused_before_it_is_cut(separator, name, before, quote, guessed):
    path, line = Path("g.txt"), separator.join(["a", "r", f"{quote}b{quote}\n"])
    data = (line * before + (name + separator) * 300_000 + "a\n" + line).encode()
    read = lambda: read_columns(path, None if guessed else separator, data=data)  # noqa: E731
    seen = "1 column," if guessed and separator in ";|" else f"line {before + 1}: 300,001 columns, expected 10,000"
    refused(read, setting=path, seen=seen, remedy="the")


def test_lines_are_as_wide_as_they_may_be_or_as_long(tmp_path, monkeypatch):
    monkeypatch.setattr("procrustes_kge.graphs.delimited.MOST_COLUMNS", 20)
    wide = "\t".join(f"{number}" for number in range(20)) + "\n"
    assert len(read_columns(Path("g.tsv"), wanted=["1", "2", "20"], data=wide.encode() * 3).heads) == 3
    refused(
        lambda: read_columns(Path("g.tsv"), wanted=["1", "2", "20"], data=b"x\t" + wide.encode()),
        setting="g.tsv, line 1",
        seen="21 columns, expected 20 at most",
        remedy="keep the columns that are needed",
    )
    assert len(read_columns(Path("g.txt"), data=("a" + " " * 50 + "r b\n").encode()).heads) == 1
    labels = tmp_path / "labels.tsv"
    labels.write_text("a\t" * 29)
    refused(lambda: read_labels(labels), setting=labels, seen="30 columns", remedy="keep")


# What is no file, or no open file.


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="only Linux shows it")
def test_what_the_system_makes_up_is_no_file():
    refused(lambda: read_graph("/proc/cpuinfo"), setting="/proc/cpuinfo", seen="is made up", remedy="copy it to a file")


def test_a_link_that_leads_nowhere_is_no_dataset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("one").symlink_to("other")
    refused(lambda: read_graph("one"), setting="one: cannot be read", seen="No such file", remedy="check its name")
    Path("other").symlink_to("one")
    refused(lambda: read_graph("one"), setting="one: cannot be read", seen="symbolic links", remedy="check its name")


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_pipe_in_the_place_of_a_split_is_told(split, tmp_path):
    (tmp_path / "train").mkdir()  # folders are not looked at
    (tmp_path / "train.txt").write_bytes(LINE)
    (tmp_path / f"{split}.txt").unlink(missing_ok=True)
    os.mkfifo(tmp_path / f"{split}.txt")
    refused(lambda: read_graph(tmp_path), setting=f"{split}.txt", seen="is a pipe", remedy="write it to a file")


@pytest.mark.parametrize("found", [None, 3, ["a\tr\tb"]])
def test_an_open_file_that_gives_no_text_is_refused(found):
    stream = io.BytesIO()
    stream.read = lambda size: found
    refused(lambda: read_graph(stream), setting="stream: read()", seen=repr(found), remedy="expected bytes or text")
