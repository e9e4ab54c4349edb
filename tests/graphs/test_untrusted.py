"""Files that nobody vouches for: whatever is in them, reading ends soon, in names or in a sentence."""

import gzip
import io
import os
import random
import re
import resource
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from laws import refused
from procrustes_kge.errors import InputError
from procrustes_kge.graphs import contents, parquet
from procrustes_kge.graphs.formats import read_columns
from procrustes_kge.graphs.labels import read_labels
from procrustes_kge.graphs.limits import DEEPEST_ELEMENT, DEEPEST_TRIPLE, MOST_ATTRIBUTES, RATIO
from procrustes_kge.graphs.reading import read_graph

polars = pytest.importorskip("polars")
zstd = pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
FINDINGS = Path(__file__).parents[1] / "findings"
LINE = b"a\tr\tb\n"
REMEDY = "--max-unpacked"


def names(columns):
    return list(zip(columns.heads, columns.relations, columns.tails, strict=True))


def outcome(path, data):
    """Return how many rows are read, or what is said instead."""
    try:
        return len(read_columns(path, data=data).heads), ""
    except InputError as error:
        return 0, str(error)


# Parquet is read in another process.


@pytest.fixture(scope="module")
def table():
    out = io.BytesIO()
    rows = [(f"e{row}", f"r{row % 3}", f"e{row * 7 % 50}") for row in range(50)]
    polars.DataFrame(rows, schema=["head", "relation", "tail"], orient="row").write_parquet(out)
    return out.getvalue()


def test_parquet_that_asks_for_two_exabytes_is_refused():
    path = FINDINGS / "parquet" / "asks-for-two-exabytes.graph.parquet"
    refused(lambda: read_columns(path), setting=path, seen="not a Parquet file of names", remedy="download it again")


@pytest.mark.parametrize("seed", range(6))
def test_damaged_parquet_is_read_or_refused_in_a_sentence(table, seed):
    draw, damaged = random.Random(seed), bytearray(table)
    for _ in range(draw.choice([1, 2, 4])):
        damaged[draw.randrange(4, len(damaged) - 8)] = draw.randrange(256)
    rows, said = outcome(Path("g.parquet"), bytes(damaged))
    assert rows == 50 or re.fullmatch("g.parquet[:,].+", said)


def test_parquet_that_is_cut_off_anywhere_needs_no_process(table, monkeypatch):
    monkeypatch.setattr(subprocess, "run", None)
    for end in [*range(0, len(table), 97), len(table) - 1]:
        refused(
            lambda end=end: parquet.parse_parquet(table[:end], "g.parquet"),
            setting="g.parquet",
            seen="cut off",
            remedy="download it again",
        )


def test_what_reads_parquet_may_be_killed_or_not_start(table, monkeypatch, tmp_path):
    killer = tmp_path / "polars.py"
    killer.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    with monkeypatch.context() as patched:
        patched.syspath_prepend(tmp_path)
        seen = "reading it failed, or needs more than 541 MB or 5 s"
        refused(lambda: read_columns(Path("g.parquet"), data=table), setting="g.parquet", seen=seen, remedy=REMEDY)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    seen = "does not start (No such file or directory)"
    refused(lambda: read_columns(Path("g.parquet"), data=table), setting="g.parquet", seen=seen, remedy="process")


@pytest.mark.slow
def test_parquet_that_unpacks_to_too_much_is_refused():
    out = io.BytesIO()
    polars.DataFrame({"h": ["a" * 300] * 4_000_000, "r": ["r"] * 4_000_000, "t": ["b"] * 4_000_000}).write_parquet(out)
    path = Path("g.parquet")
    refused(lambda: read_columns(path, data=out.getvalue(), max_unpacked=1), setting=path, seen="MB", remedy=REMEDY)


def test_parquet_is_read_in_threads_and_where_the_working_folder_has_modules_of_its_own(table, tmp_path, monkeypatch):
    (tmp_path / "polars.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: names(read_columns(Path("g.parquet"), data=table)), range(4)))
    assert all(each == found[0] and len(each) == 50 for each in found)


def test_names_of_parquet_come_through_as_they_are():
    rows = [("line\nbreak", "ü\u2028ü", 'quote"'), ("\ufeff", "🙂", "\\0")] * 3
    out = io.BytesIO()
    polars.DataFrame(rows, schema=["h", "r", "t"], orient="row").write_parquet(out)
    assert names(read_columns(Path("g.parquet"), data=out.getvalue())) == rows


# RDF.

XMLNS = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e.org/"'
START, INSIDE, ENDS = "<e:a> <e:p> ", "<<( <e:a> <e:p> ", " )>>"


def quoted(depth, inside=INSIDE):
    return START + inside * depth + "<e:b>" + ENDS * depth + " .\n"


def nested_xml(depth):
    half = depth // 2
    body = "<rdf:Description>\n<e:p>" * half + "<rdf:Description/>" + "</e:p></rdf:Description>" * half
    return f"<rdf:RDF {XMLNS}>{body}</rdf:RDF>"


@pytest.mark.parametrize("suffix", [".nt", ".nq", ".ttl", ".trig"])
@pytest.mark.parametrize("depth", [DEEPEST_TRIPLE + 1, 20_000])
def test_triples_within_triples_are_refused_by_line_before_they_are_too_many(suffix, depth):
    path, text = Path(f"g{suffix}"), "<e:a> <e:p> <e:b> .\n" * 3 + quoted(DEEPEST_TRIPLE)
    assert len(read_columns(path, data=text.encode()).heads) == 3
    seen = f"line 5: triples within triples, more than {DEEPEST_TRIPLE} deep"
    refused(
        lambda: read_columns(path, data=(text + quoted(depth)).encode()), setting=path, seen=seen, remedy="damaged?"
    )


@pytest.mark.parametrize(
    "inside",
    ["<<(\n<e:a> # )>>\n <e:p> ", "<<(<e:a#)> <e:p>", '<<( <e:a"<b> <e:p> ', "<<( e:a\\' e:p\\\" ", "<<( [] _:b\n"],
)
def test_nothing_between_them_hides_triples_within_triples(inside):
    text = quoted(20_000, inside)
    with pytest.raises(InputError, match="triples within triples"):
        read_columns(Path("g.ttl"), data=text.encode())


def test_many_triples_within_triples_are_fine_where_they_are_not_deep():
    text = 'e:a e:p <<( e:a e:p "a # b" )>> .\n' * 300 + quoted(3) * 300 + "<<e:a e:p 'x'>> e:q e:b .\n" * 300
    columns = read_columns(Path("g.ttl"), data=f"@prefix e: <e:> .\n{text}".encode())
    assert len(columns.heads) == 300


def test_elements_within_elements_are_refused_by_line_before_they_are_too_many():
    assert len(read_columns(Path("g.rdf"), data=nested_xml(DEEPEST_ELEMENT - 2).encode()).heads) == 99
    for depth in (DEEPEST_ELEMENT, 20_000):
        seen = f"line {DEEPEST_ELEMENT // 2 + 1}: elements within elements, more than {DEEPEST_ELEMENT} deep"
        refused(
            lambda depth=depth: read_columns(Path("g.rdf"), data=nested_xml(depth).encode()),
            setting="g.rdf",
            seen=seen,
            remedy="write it with fewer",
        )


def test_an_element_of_many_attributes_is_refused():
    attributes = " ".join(f'e:p{number}="x"' for number in range(MOST_ATTRIBUTES + 1))
    text = f"<rdf:RDF {XMLNS}>\n<rdf:Description {attributes}/></rdf:RDF>"
    read = lambda: read_columns(Path("g.rdf"), data=text.encode())  # noqa: E731
    refused(read, setting="g.rdf, line 2", seen="1,001 attributes", remedy="elements of their own")


LONG = "x" * 60_000
ENTITIES = f'<!DOCTYPE rdf:RDF [<!ENTITY a "{LONG}">]><rdf:RDF {XMLNS}>'
ABBREVIATED = {
    ".ttl": f"@prefix n: <http://e.org/{LONG}/> .\n" + "n:a n:p n:b .\n" * 100,
    ".trig": f"@base <http://e.org/{LONG}/> .\n" + "<a> <p> <b> .\n" * 100,
    ".rdf": ENTITIES
    + '<rdf:Description rdf:about="http://&a;"><e:p rdf:resource="http://&a;"/></rdf:Description>' * 60
    + "</rdf:RDF>",
}


@pytest.mark.parametrize("suffix", ABBREVIATED)
def test_abbreviations_that_grow_too_much_are_refused_unless_the_user_allows_it(suffix, monkeypatch):
    monkeypatch.setattr("procrustes_kge.graphs.limits.FREE", 2**21)
    monkeypatch.setattr("procrustes_kge.graphs.limits.RATIO", 10)
    path, data = Path(f"g{suffix}"), ABBREVIATED[suffix].encode()
    refused(lambda: read_columns(path, data=data), setting=path, seen="names, spelled out, take", remedy=REMEDY)
    assert len(read_columns(path, data=data, max_unpacked=2**30).heads) >= 60


def test_entities_of_entities_of_entities_are_refused():
    entities = "".join(f'<!ENTITY a{level} "{f"&a{level - 1};" * 10}">' for level in range(1, 10))
    text = f'<!DOCTYPE rdf:RDF [<!ENTITY a0 "lol">{entities}]><rdf:RDF {XMLNS}><e:A rdf:about="&a9;"/></rdf:RDF>'
    with pytest.raises(InputError, match=r"g\.rdf, line 1: not valid RDF/XML \(limit on input amplification"):
        read_columns(Path("g.rdf"), data=text.encode())


FIRST_LINES = (
    "_:<a>",
    "<a>_:",
    "_:a",
    "_:a<b>",
    ' "',
    '"x',
    "<a>",
    "<a> ",
    " .",
    "<",
    "\\",
    "<<",
    "<< <",
    "[",
    "# ",
    "prefix :",
)


@pytest.mark.parametrize("start", ["", "_:", '<a><b>"', "<a> <b> ", "prefix "])
@pytest.mark.parametrize("again", FIRST_LINES)
def test_no_line_takes_for_ever_to_recognise(start, again):
    text = (start + again * 15_000).encode()
    for suffix in ("", ".ttl"):
        rows, said = outcome(Path(f"g{suffix}"), text)
        assert rows or said


# What is packed.


@pytest.mark.parametrize(("packing", "pack"), [(".gz", gzip.compress), (".zst", zstd.compress)])
def test_a_packed_file_is_unpacked_no_further_than_it_may(packing, pack, tmp_path, monkeypatch):
    path = tmp_path / f"g.tsv{packing}"
    path.write_bytes(pack(bytes(100_000_000)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(lambda: read_columns(path), setting=path, seen="unpacks to more than", remedy=REMEDY)
    refused(lambda: read_labels(path), setting=path, seen=f"{RATIO} times its size", remedy="max_unpacked")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000  # kilobytes

    path.write_bytes(pack(LINE * 1000))
    assert len(read_columns(path, max_unpacked=6000).heads) == 1000
    refused(lambda: read_columns(path, max_unpacked=5999), setting=path, seen="--max-unpacked allows", remedy="allow")
    monkeypatch.setattr("procrustes_kge.graphs.limits.FREE", 10)
    monkeypatch.setattr("procrustes_kge.graphs.limits.RATIO", 2)
    refused(lambda: read_graph(path), setting=path, seen="unpacks to more than", remedy=REMEDY)
    assert len(read_graph(path, max_unpacked=6000, valid=0, test=0).train) == 1


@pytest.mark.parametrize(("packing", "pack"), [(".gz", gzip.compress), (".zst", zstd.compress)])
def test_packed_parts_that_were_joined_are_one(packing, pack):
    assert len(read_columns(Path(f"g.tsv{packing}"), data=pack(LINE) + pack(LINE)).heads) == 2


# Names.

ROWS = [("a", "r", "b"), ("x" * 300, "r", "b")]
BAD = {"a\0b": "a NUL character", "a\ud800": "half of a surrogate pair", "\udc80": "half of a surrogate pair"}


def test_a_long_name_is_a_name(tmp_path):
    path = tmp_path / "g.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in ROWS))
    assert names(read_columns(path)) == ROWS


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("place", range(3))
def test_names_that_no_text_can_hold_are_refused_by_row(bad, place):
    row = [*ROWS[0]]
    row[place] = bad
    kinds = {"rows": [*ROWS, row], "array": np.array([*ROWS, row], dtype=object)}
    if "\0" in bad:
        kinds["polars"] = polars.DataFrame([*ROWS, row], orient="row")
    for source in kinds.values():
        role = ("head", "relation", "tail")[place]
        refused(lambda source=source: read_graph(source), setting=f"row 3: the {role}", seen=BAD[bad], remedy="rename")


def test_parquet_with_a_nul_in_a_name_is_refused_by_row(monkeypatch):
    out = io.BytesIO()
    polars.DataFrame({"h": ["a"] * 150_000 + ["b\0c"], "r": ["r"] * 150_001, "t": ["t"] * 150_001}).write_parquet(out)
    read = lambda: read_columns(Path("g.parquet"), data=out.getvalue())  # noqa: E731
    refused(read, setting="g.parquet, row 150001: the head", seen="a NUL character", remedy="rename it")


@pytest.mark.parametrize("labels", [{"a": "b\0"}, {"a": "\ud800"}, {"\ud800": "a"}])
def test_labels_that_no_text_can_hold_are_refused(labels):
    refused(lambda: read_labels(labels), setting="labels, row 1", seen="in it", remedy="rename it")


@pytest.mark.parametrize("label", [["a", "b"], {"a": "b"}, b"\xff"])
def test_labels_that_are_no_text_are_refused(label):
    refused(lambda: read_labels({"e": label}), setting="the label of 'e'", seen=repr(label), remedy="expected text")


@pytest.mark.parametrize("size", [0, -1, True])
def test_a_size_that_is_none_is_refused(size):
    refused(
        lambda: read_graph(ROWS, max_unpacked=size), setting="max_unpacked", seen=repr(size), remedy="4_000_000_000"
    )


@given(st.text(max_size=20), st.integers(0, 3000))
def test_what_a_file_puts_into_a_message_is_one_line_that_can_be_printed(text, length):
    said = str(InputError(f"g.tsv: {text}{'x' * length}"))
    assert said.isprintable()
    assert len(said) < 1100
    assert str(InputError(said)) == said


def test_json_nested_too_deep_is_refused(tmp_path):
    path = tmp_path / "labels.json"
    path.write_text('{"a":' * 100_000)
    refused(lambda: read_labels(path), setting=path, seen="not valid JSON", remedy="fix it")


def test_half_characters_of_a_stream_are_refused():
    stream = io.StringIO("a\tr\tb\ud800\n")
    refused(lambda: read_graph(stream), setting="stream", seen="half of a surrogate pair", remedy="encoding")


# What is no file, and files that change.


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_what_is_no_plain_file_is_refused_at_once(tmp_path):
    pipe, plug, link = tmp_path / "pipe.tsv", tmp_path / "socket.tsv", tmp_path / "link.tsv"
    os.mkfifo(pipe)
    link.symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(plug))
        for path, seen in {pipe: "a pipe", plug: "a socket", link: "a device", tmp_path: "a folder"}.items():
            for read in (read_columns, read_labels):
                refused(lambda path=path, read=read: read(path), setting=path, seen=f"is {seen}", remedy="file")
        refused(lambda: read_graph(pipe), setting=pipe, seen="is a pipe", remedy="pipe it in as `-`")


def test_a_link_to_a_file_is_a_file(tmp_path):
    (tmp_path / "g.tsv").write_bytes(LINE)
    (tmp_path / "link.tsv").symlink_to(tmp_path / "g.tsv")
    assert names(read_columns(tmp_path / "link.tsv")) == ROWS[:1]


def grow(path):
    with path.open("ab") as file:
        file.write(LINE)


def shrink(path):
    os.truncate(path, 6)


def swap(path):
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


@pytest.mark.parametrize("change", [grow, shrink, swap, Path.unlink])
@pytest.mark.parametrize("moment", ["open", "fdopen"])
def test_a_file_that_changes_while_it_is_read_is_told(change, moment, tmp_path, monkeypatch):
    path, whole = tmp_path / "g.tsv", getattr(os, moment)
    path.write_bytes(LINE * 3)

    def changing(*arguments):
        opened = whole(*arguments)
        monkeypatch.setattr(os, moment, whole)
        change(path)
        return opened

    monkeypatch.setattr(contents.os, moment, changing)
    with pytest.raises(InputError, match=r"g\.tsv: (was changed or replaced while it was read; wait|cannot be read)"):
        read_columns(path)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    for suffix in (".tsv", ".nt", ".ttl", ".rdf", ".gz", ".zst"):
        rows, said = outcome(Path(f"g{suffix}"), data)
        assert rows or re.fullmatch(rf"g{suffix}[:,].+", said)
