"""Laws of zip archives: what is in one reads as it does in a folder; nothing in one takes memory, time or files."""

import contextlib
import io
import struct
import zipfile
from pathlib import Path

import pytest

from laws import refused
from procrustes_kge.errors import InputError
from procrustes_kge.graphs.reading import read_graph

TRAIN, VALID, TEST = "a\tr\tb\nb\tr\tc\nc\ts\ta\n", "a\ts\tc\n", "b\ts\ta\n"


def archive(files, method=zipfile.ZIP_DEFLATED):
    """Return the bytes of an archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as packed:
        for name, text in files:
            packed.writestr(name, text)
    return out.getvalue()


def graph_of(tmp_path, *files, **options):
    (tmp_path / "graph.zip").write_bytes(archive(files))
    return read_graph(tmp_path / "graph.zip", **options)


def test_splits_are_read_as_those_of_a_folder(tmp_path):
    folder = tmp_path / "graph"
    folder.mkdir()
    for name, text in (("train.txt", TRAIN), ("valid.txt", VALID), ("test.txt", TEST)):
        (folder / name).write_text(text)
    nested = [("data/v1/test.txt", TEST), ("data/v1/train.txt", TRAIN), ("data/v1/dev.txt", VALID)]
    beside = [
        ("data/README.md", "read me"),
        ("__MACOSX/data/v1/._train.txt", "\0"),
        ("data/.DS_Store", "x"),
        ("a/", ""),
    ]
    assert graph_of(tmp_path, *nested, *beside).checksum == read_graph(folder).checksum


def test_one_table_is_split_here(tmp_path):
    lines = "".join(f"e{row}\tr\te{(row + step) % 50}\n" for row in range(50) for step in (1, 2))
    (tmp_path / "plain.tsv").write_text(lines)
    plain = read_graph(tmp_path / "plain.tsv", seed=3)
    assert graph_of(tmp_path, ("deep/er/edges.tsv", lines), ("LICENSE", "mine"), seed=3).checksum == plain.checksum
    with (tmp_path / "graph.zip").open("rb") as file:
        assert read_graph(file, seed=3).checksum == plain.checksum
    assert graph_of(tmp_path, ("edges.csv", "head,relation,tail\na,r,b\n"), valid=0, test=0).entities.names == (
        "a",
        "b",
    )


def test_names_in_an_archive_lead_nowhere(tmp_path):
    (tmp_path / "inside").mkdir()
    before = sorted(Path(tmp_path).rglob("*"))
    graph = graph_of(tmp_path / "inside", ("../../etc/edges.tsv", TRAIN), valid=0, test=0)
    assert len(graph.train) == 3
    assert sorted(Path(tmp_path).rglob("*")) == sorted([*before, tmp_path / "inside" / "graph.zip"])


@pytest.mark.parametrize(
    ("files", "seen", "remedy"),
    [
        ([("a.tsv", TRAIN), ("b.tsv", TEST)], "2 files in it (a.tsv, b.tsv)", "unpack it and name one"),
        ([("x/train.txt", TRAIN), ("y/train.txt", TRAIN)], "both train.txt and train.txt hold", "keep one"),
        ([("README.md", "x")], "no triples in it, found README.md", "expected a table"),
        ([], "no triples in it, found nothing", "expected a table"),
        ([("[Content_Types].xml", "<x/>"), ("xl/sheet1.xml", "<x/>")], "is a spreadsheet", "save the sheet as CSV"),
        ([("inner.tsv", archive([("a.tsv", TRAIN)]))], "is packed once more", "unpack the archive"),
        ([("train.txt", "a b\n")], "graph.zip/train.txt, line 1: 2 columns", "complete the line"),
    ],
)
def test_what_is_no_graph_is_refused(files, seen, remedy, tmp_path):
    refused(lambda: graph_of(tmp_path, *files), setting="graph.zip", seen=seen, remedy=remedy)


@pytest.mark.slow
def test_a_bomb_is_refused_before_it_takes_memory(tmp_path):
    bomb = archive([("edges.tsv", b"a\tr\tb\n" * 2_000_000)])
    (tmp_path / "bomb.zip").write_bytes(bomb)
    said = refused(
        lambda: read_graph(tmp_path / "bomb.zip"), setting="bomb.zip", seen="unpacks to", remedy="--max-unpacked"
    )
    assert "4 MB" in said
    assert len(read_graph(tmp_path / "bomb.zip", max_unpacked=20_000_000).train) == 1
    # Splits share what is allowed.
    parts = archive([(f"{split}.txt", b"a\tr\tb\n" * 400_000) for split in ("train", "valid", "test")])
    (tmp_path / "bomb.zip").write_bytes(parts)
    refused(lambda: read_graph(tmp_path / "bomb.zip"), setting="bomb.zip", seen="unpacks to", remedy="--max-unpacked")


def test_an_archive_of_very_many_files_is_refused_before_it_is_opened(tmp_path, monkeypatch):
    monkeypatch.setattr("procrustes_kge.graphs.archives.MOST_MEMBERS", 20)
    files = [(f"{number}.tsv", TRAIN) for number in range(21)]
    refused(lambda: graph_of(tmp_path, *files), setting="graph.zip", seen="more than 20 files", remedy="unpack it")


def test_encrypted_and_rare_packings_are_refused(tmp_path):
    whole = bytearray(archive([("train.txt", TRAIN)]))
    for place in (whole.index(b"PK\x03\x04") + 6, whole.index(b"PK\x01\x02") + 8):
        whole[place] |= 1
    (tmp_path / "locked.zip").write_bytes(whole)
    refused(lambda: read_graph(tmp_path / "locked.zip"), setting="train.txt", seen="is encrypted", remedy="password")
    for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        (tmp_path / "rare.zip").write_bytes(archive([("train.txt", TRAIN)], method))
        refused(lambda: read_graph(tmp_path / "rare.zip"), setting="train.txt", seen="not read", remedy="zip it again")


def test_damaged_archives_are_refused(tmp_path):
    whole = archive([("train.txt", TRAIN), ("test.txt", TEST)])
    place = tmp_path / "bad.zip"
    for end in range(0, len(whole) - 1, 7):
        place.write_bytes(whole[:end])
        with pytest.raises(InputError, match=r"bad\.zip"):
            read_graph(place)
    for at in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[at] ^= 0x41
        place.write_bytes(damaged)
        with contextlib.suppress(InputError):  # anything else is a defect
            read_graph(place)
    claimed = bytearray(whole)
    struct.pack_into("<I", claimed, whole.index(b"PK\x01\x02") + 24, 2**31)  # the size that it says it has
    place.write_bytes(claimed)
    assert len(read_graph(place).train) == 3  # nobody believes it


def test_a_zip_by_another_name_is_told_how_to_be_read(tmp_path):
    (tmp_path / "edges.tsv").write_bytes(archive([("train.txt", TRAIN)]))
    refused(lambda: read_graph(tmp_path / "edges.tsv"), setting="edges.tsv", seen="zip archive", remedy="name it .zip")
    refused(
        lambda: read_graph(tmp_path / "none.zip"), setting="none.zip", seen="no such file", remedy="procrustes data"
    )
