"""Reading files: what is written comes back, and every mistake is told with its line."""

import bz2
import csv
import gzip
import io
import lzma
import string
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.delimited import parse_delimited
from procrustes_kge.graphs.formats import is_triples_file, read_columns

polars = pytest.importorskip("polars")
zstd = pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")

pytestmark = pytest.mark.usefixtures("parquet_here")
TRIPLES = [("Paris", "capital of", "France"), ("Bonn", "city in", "Germany"), ("007", "1.50", "1e3")]

# Every letter, mark, number and sign, and blanks inside; no control or line characters.
printable = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]) | st.just(" "), min_size=1)
names = printable.map(str.strip).filter(bool)
triples_of = lambda name: st.lists(st.tuples(name, name, name), min_size=1)  # noqa: E731


def triples(columns):
    return list(zip(columns.heads, columns.relations, columns.tails, strict=True))


def parsed(text, **options):
    data = text if isinstance(text, bytes) else text.encode()
    return parse_delimited(data, "graph.tsv", **options)


def failure(text, **options):
    with pytest.raises(InputError) as caught:
        parsed(text, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def as_csv(rows, **options):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n", **options).writerows(rows)
    return out.getvalue()


# What is written comes back.


@given(triples_of(names))
def test_tab_separated_names_survive_as_written_quotes_included(rows):
    text = "".join("\t".join(row) + "\n" for row in rows)
    assert triples(parsed(text, header=False)) == rows
    assert triples(parsed(text.replace("\n", "\r\n"), header=False)) == rows
    assert triples(parsed(b"\xef\xbb\xbf" + text.encode(), header=False)) == rows


@given(triples_of(names), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_comma_separated_names_survive_commas_and_quotes(rows, quoting):
    text = as_csv(rows, quoting=quoting)
    assert triples(parsed(text, separator=",", header=False)) == rows
    assert triples(parsed(text.replace("\n", "\r\n"), separator="comma", header=False)) == rows


@given(triples_of(names.filter(lambda name: not set(name) & set(' ,"'))), st.integers(1, 3))
def test_space_separated_names_survive_and_runs_of_spaces_count_once(rows, width):
    text = "\n".join((" " * width).join(row) for row in rows)
    assert triples(parsed(text, header=False)) == rows
    assert triples(parsed(text, separator="space", header=False)) == rows


@pytest.mark.parametrize(("separator", "word"), [(";", "semicolon"), ("|", "pipe"), ("\t", r"\t"), ("\t", "TAB")])
def test_other_separators_are_taken_by_character_or_word(separator, word):
    text = "\n".join(separator.join(row) for row in TRIPLES)
    assert triples(parsed(text, separator=separator)) == triples(parsed(text, separator=word)) == TRIPLES


def test_quoted_names_keep_separators_and_line_breaks():
    rows = [("Smith, John", 'the "best"', "two\nlines"), ("a", "b", "c")]
    assert triples(parsed(as_csv(rows))) == rows
    assert triples(parsed(as_csv(rows, delimiter=";"), separator=";")) == rows
    assert triples(parsed('"Smith, John", knows, "Doe, Jane"\n')) == [("Smith, John", "knows", "Doe, Jane")]


def test_numbers_stay_as_written():
    assert triples(parsed("007\t1.50\t1e3\n0\t-0\t+1\n")) == [("007", "1.50", "1e3"), ("0", "-0", "+1")]


def test_blank_lines_and_blanks_around_names_are_dropped():
    assert triples(parsed("\n  \na \t r\tb c \n\r\n\n")) == [("a", "r", "b c")]
    assert triples(parsed("\na , r,  b c\n \n")) == [("a", "r", "b c")]


@pytest.mark.parametrize("character", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_only_a_newline_ends_a_line(character):
    name = f"a{character}b"
    assert triples(parsed(f"{name}\tr\tc\n")) == [(name, "r", "c")]
    assert triples(parsed(f'{name},r,"c"\n')) == [(name, "r", "c")]


def test_a_long_file_is_read_to_its_end():
    rows = [(f"entity {i}", f"relation {i % 7}", f"entity {i * i}") for i in range(20_000)]
    assert triples(parsed("\n".join(map("\t".join, rows)))) == rows
    assert triples(parsed(as_csv(rows))) == rows
    assert triples(parsed(as_csv(rows, quoting=csv.QUOTE_ALL))) == rows


# The separator and the header are found out.


def test_separator_is_guessed():
    assert triples(parsed("a, b\tr\tc d\n")) == [("a, b", "r", "c d")]
    assert triples(parsed("Paris, capital_of, France\n")) == [("Paris", "capital_of", "France")]
    assert triples(parsed("New York,part of,USA\n")) == [("New York", "part of", "USA")]
    assert triples(parsed("Paris,France is_in Europe\nBonn is_in Europe\n"))[0] == (
        "Paris,France",
        "is_in",
        "Europe",
    )


@pytest.mark.parametrize("words", ["head relation tail", "Subject Predicate Object", "source rel target", "s p o"])
@pytest.mark.parametrize("separator", ["\t", ",", " "])
def test_known_words_are_a_header(words, separator):
    columns = parsed(words.replace(" ", separator) + separator.join(["\na", "r", "b\n"]))
    assert triples(columns) == [("a", "r", "b")]
    assert columns.notes == (f"1 header line skipped ({words.replace(' ', ', ')})",)


def test_other_words_are_a_triple_unless_forced():
    assert triples(parsed("mother\trelation\tchild\n")) == [("mother", "relation", "child")]
    assert triples(parsed("x\ty\tz\na\tr\tb\n", header=True)) == [("a", "r", "b")]
    assert triples(parsed("# a comment\na\tr\tb\n", separator="tab", header=True)) == [("a", "r", "b")]
    assert triples(parsed("s\tp\to\n", header=False)) == [("s", "p", "o")]
    assert triples(parsed("t\tr\ts\n")) == [("t", "r", "s")]


def test_a_header_may_name_the_columns_in_another_order():
    columns = parsed("source,target,label\na,b,r\n")
    assert triples(columns) == [("a", "r", "b")]
    assert columns.notes == (
        "1 header line skipped (source, target, label)",
        "columns read as head, relation, tail: source, label, target",
    )


@pytest.mark.parametrize("separator", [" ", "\t", ","])
def test_a_line_longer_than_what_is_looked_at_is_whole(separator):
    row = ("a", "r" * 100_000, "b")
    assert triples(parsed(separator.join(row))) == [row]


# Mistakes.


def test_wrong_column_count_names_the_line_and_a_separator_that_works():
    good = "a\tr\tb\n" * 18_202 + "\n"
    expected = "graph.tsv, line 18204: 2 columns, expected 3 (head, relation, tail)"
    assert failure(good + "a\tr b c\n") == expected + "; is the separator a space? try --separator ' '"
    assert failure(good + "a\tb\n") == expected + "; complete the line or remove it"
    assert "is the separator a tab? try --separator tab" in failure("a\tr\tb\n", separator=",")
    assert "is the separator a comma? try --separator ','" in failure("a,r,b\n", separator="space")


@pytest.mark.parametrize(("separator", "word"), [(";", "semicolon"), ("|", "pipe")])
def test_semicolons_and_pipes_are_suggested_when_every_line_has_two(separator, word):
    text = separator.join(["New York", "in", "USA\nBonn", "in", "Germany\n"])
    assert f"line 1: 2 columns, expected 3 (head, relation, tail); is the separator a {word}?" in failure(text)
    assert "is the separator" not in failure(text + "one more line\tof\tanother\tkind\n")
    assert f"is the separator a {word}?" in failure(text.replace("\n", f"{separator}a note\n"))


def test_four_columns_are_told_what_to_do():
    assert "line 2: 4 columns" in failure("a\tr\tb\na\tr\tb\t0.5\n")
    assert "line 1: 4 columns (a, r, b, 0.5), expected 3" in failure("a\tr\tb\t0.5\n")
    assert "such as --columns 1,2,3 (in Python, columns=(1, 2, 3))" in failure("a\tr\tb\t0.5\n")
    assert "quotation marks" not in failure("a,r,b,0.5\nb,r,c,0.5\n")
    uneven = failure("a\tr\tb\t1\nc\tr\td\n", wanted=["1", "2", "3"])
    assert "line 2: 3 columns, expected 4 as in the lines above" in uneven
    assert "need tabs" in failure("New York in USA\n")
    assert "quotation marks" in failure("Smith, John,knows,Jane\n")


def test_line_numbers_count_blank_lines_headers_and_line_breaks_in_names():
    assert "line 4: 1 column," in failure("head\trelation\ttail\n\na\tr\tb\nx\n")
    assert "line 5: 2 columns," in failure('"a\nb",r,c\n\na,r,b\nx,y\n')


def test_empty_names_are_told():
    assert failure("a\tr\tb\na\t \tb\n").startswith("graph.tsv, line 2: the relation is empty")
    assert failure("\tr\tb\n").startswith("graph.tsv, line 1: the head is empty")
    assert failure('a,r,b\n\na,r,""\n').startswith("graph.tsv, line 3: the tail is empty")
    assert failure("a,r,b\n,,\n").startswith("graph.tsv, line 2: the head is empty")


def test_an_open_quotation_mark_does_not_swallow_the_file():
    assert failure('a,r,b\na,r,"b\n' + "a,r,b\n" * 9).startswith("graph.tsv, line 2: cannot be split into columns")
    assert failure('a,r,b\na,r,"b\n' + "a,r,b\n" * 99_999).startswith("graph.tsv, line 2: cannot be split")
    assert failure('a,r,b\na,r,"b"c\n').startswith("graph.tsv, line 2: cannot be split into columns")


@pytest.mark.parametrize("separator", ["::", "x", ""])
def test_unknown_separators_are_refused(separator):
    assert f"separator {separator!r} is not known; use tab, comma" in failure("a\tr\tb\n", separator=separator)


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff", "head\trelation\ttail\n"])
def test_a_file_without_triples_is_refused(text):
    assert failure(text).startswith("graph.tsv: holds no triples")


def test_binary_and_foreign_text_is_refused():
    assert "looks binary" in failure(b"PAR1\x00\x15")
    assert ".parquet" in failure(b"PAR1\x00\x15")
    assert "looks binary" in failure(b"\x1f\x8b\x08\xff\xff")
    assert "iconv -f utf-16 -t utf-8" in failure("a\tr\tb\n".encode("utf-16"))
    message = failure(b"\xef\xbb\xbfa\tr\tb\nCaf\xe9\tr\tb\n")
    assert message.startswith("graph.tsv, line 2: byte 4 of the line (0xe9) is not UTF-8")
    assert "iconv -f latin1 -t utf-8" in message


# Files.


def write(path, data):
    data = data if isinstance(data, bytes) else data.encode()
    pack = {".gz": gzip.compress, ".zst": zstd.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(data))
    return path


@pytest.mark.parametrize("suffix", [".tsv", ".txt", ".tab", ".del", ".anything", "", ".TSV"])
@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
def test_text_reads_the_same_by_any_name_packed_or_not(tmp_path, suffix, packing):
    path = write(tmp_path / f"graph{suffix}{packing}", "".join("\t".join(row) + "\n" for row in TRIPLES))
    assert triples(read_columns(path)) == TRIPLES


def test_options_reach_the_text(tmp_path):
    path = write(tmp_path / "graph.csv.gz", "s;p;o\na;r;b\n")
    assert triples(read_columns(path, separator=";", header=False)) == [("s", "p", "o"), ("a", "r", "b")]


def test_is_triples_file_goes_by_the_name(tmp_path):
    for name in ("train.txt", "a.b.tsv", "g.nt.gz", "G.PARQUET", "g.csv.zst", "g.owl", "train", "train.gz"):
        assert is_triples_file(tmp_path / name), name
    for name in ("README.md", "graph.zip", "notes.json.gz", "graph.png", ".hidden"):
        assert not is_triples_file(tmp_path / name), name


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"absent\.tsv: cannot be read \(No such file"):
        read_columns(tmp_path / "absent.tsv")
    with pytest.raises(InputError, match="is a folder"):
        read_columns(tmp_path)


@pytest.mark.parametrize("packing", [".gz", ".zst"])
def test_broken_and_truncated_packing_is_told(tmp_path, packing):
    path = write(tmp_path / f"graph.tsv{packing}", "a\tr\tb\n" * 1000)
    whole = path.read_bytes()
    for broken in (whole[:-5], b"not packed at all", b"x" + whole[1:]):
        path.write_bytes(broken)
        with pytest.raises(InputError, match="broken or truncated"):
            read_columns(path)


@pytest.mark.parametrize(
    ("package", "suffix", "extra"),
    [
        ("polars", ".parquet", "parquet"),
        ("pyoxigraph", ".nt", "rdf"),
        ("pyoxigraph", ".ttl.gz", "rdf"),
        (zstd.__name__, ".tsv.zst", "zstd"),
        (zstd.__name__, ".nt.zst", "zstd"),
    ],
)
def test_a_format_whose_package_is_missing_names_the_file_the_package_and_its_extra(
    tmp_path, monkeypatch, package, suffix, extra
):
    path = write(tmp_path / f"graph{suffix}", "a\tr\tb\n")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError) as refused:
        read_columns(path)
    said = str(refused.value)
    assert said.startswith(f"{path}: reading "), said
    assert said.endswith(f" needs {package}: pip install 'procrustes-kge[{extra}]'"), said


def test_text_needs_none_of_the_packages(tmp_path):
    path = write(tmp_path / "graph.tsv.gz", "a\tr\tb\n")
    code = (
        "import sys, pathlib; from procrustes_kge.graphs.formats import read_columns;"
        "read_columns(pathlib.Path(sys.argv[1]));"
        "assert not {'polars', 'pyoxigraph', 'backports.zstd'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True)


# Parquet.


def parquet(path, **columns):
    polars.DataFrame(columns).write_parquet(path)
    return path


def test_parquet_finds_columns_by_name_or_takes_the_only_three(tmp_path):
    named = parquet(tmp_path / "named.parquet", Object=["c"], weight=[0.5], Subject=["a"], predicate=["b"])
    assert triples(read_columns(named)) == [("a", "b", "c")]
    assert read_columns(named).notes == (
        "columns read as head, relation, tail: Subject, predicate, Object",
        "columns left out: weight",
    )
    unnamed = parquet(tmp_path / "unnamed.parquet", x=["a"], y=["b"], z=["c"])
    assert triples(read_columns(unnamed)) == [("a", "b", "c")]
    assert read_columns(unnamed).notes == ("columns read as head, relation, tail: x, y, z",)


def test_parquet_numbers_become_plain_text(tmp_path):
    path = parquet(tmp_path / "graph.parquet", h=[1, 1_000_000], r=["007", "8"], t=[2, -3])
    assert triples(read_columns(path)) == [("1", "007", "2"), ("1000000", "8", "-3")]


@pytest.mark.parametrize("missing", [None, ""])
def test_parquet_mistakes(tmp_path, missing):
    path = parquet(tmp_path / "graph.parquet", h=["a", "b"], r=["r", missing], t=["c", "d"])
    with pytest.raises(InputError, match="row 2: the relation is empty"):
        read_columns(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="not a Parquet file of names"):
        read_columns(path)
    with pytest.raises(InputError, match="2 columns, expected 3"):
        read_columns(parquet(path, h=["a"], r=["r"]))
    with pytest.raises(InputError, match="row 1: the head is of type list, expected a name"):
        read_columns(parquet(path, h=[["a"]], r=["r"], t=["t"]))
    with pytest.raises(InputError, match="row 2: the tail is not UTF-8"):
        read_columns(parquet(path, h=["a", "b"], r=["r", "r"], t=[b"t", b"\xff"]))
    with pytest.raises(InputError, match="holds no triples"):
        read_columns(parquet(path, h=[], r=[], t=[]))


# RDF.

RDF = {
    ".nt": """
        <http://e.org/a> <http://e.org/p> <http://e.org/b> .
        <http://e.org/a> <http://e.org/p> "1815"^^<http://www.w3.org/2001/XMLSchema#integer> .
        <http://e.org/a> <http://e.org/p> "two words" .
        <http://e.org/b> <http://e.org/q> _:x .""",
    ".ttl": """
        @prefix e: <http://e.org/> .
        e:a e:p e:b, 1815, "two words" .
        e:b e:q _:x .""",
    ".rdf": """
        <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e.org/">
          <rdf:Description rdf:about="http://e.org/a">
            <e:p rdf:resource="http://e.org/b"/> <e:p>1815</e:p> <e:p>two words</e:p>
          </rdf:Description>
          <rdf:Description rdf:about="http://e.org/b"><e:q rdf:nodeID="x"/></rdf:Description>
        </rdf:RDF>""".strip(),
}
RDF |= {".nq": RDF[".nt"], ".trig": RDF[".ttl"], ".owl": RDF[".rdf"], ".xml": RDF[".rdf"]}


@pytest.mark.parametrize("suffix", RDF)
@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
def test_every_rdf_syntax_gives_the_same_triples(tmp_path, suffix, packing):
    columns = read_columns(write(tmp_path / f"graph{suffix}{packing}", "\ufeff" + RDF[suffix]))
    iri = "http://e.org/"
    assert triples(columns) == [(iri + "a", iri + "p", iri + "b"), (iri + "b", iri + "q", "_:x")]
    assert columns.notes == ("2 statements with literal values left out",)


@given(triples_of(st.text(string.ascii_letters + string.digits + "/#-_.é ", min_size=1).map(str.strip).filter(bool)))
def test_any_names_survive_n_triples(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "names.nt"
    write(path, "".join(" ".join(f"<{name}>" for name in row) + " .\n" for row in rows))
    assert triples(read_columns(path)) == rows


def test_named_graphs_are_ignored_and_told(tmp_path):
    quads = write(tmp_path / "graph.nq", "<e:a> <e:p> <e:b> .\n<e:a> <e:p> <e:c> <e:g> .\n")
    trig = write(tmp_path / "graph.trig", "<e:a> <e:p> <e:b> . <e:g> { <e:a> <e:p> <e:c> }")
    for path in (quads, trig):
        assert triples(read_columns(path)) == [("e:a", "e:p", "e:b"), ("e:a", "e:p", "e:c")]
        assert read_columns(path).notes == ("named graphs ignored: all statements are read as one graph",)


def test_quoted_triples_are_left_out_and_counted(tmp_path):
    text = "<e:a> <e:p> <e:b> .\n<e:a> <e:says> <<( <e:a> <e:p> <e:b> )>> .\n"
    columns = read_columns(write(tmp_path / "graph.ttl", text))
    assert triples(columns) == [("e:a", "e:p", "e:b")]
    assert columns.notes == ("1 statement with quoted triples left out",)


def test_unlabelled_blank_nodes_repeat_and_stay_apart(tmp_path):
    label = "f" * 32
    text = f"_:{label} <e:p> _:b . [] <e:p> [ <e:q> <e:a> ] ."
    one, two = (write(tmp_path / f"{name}.ttl", text + f"# {name}") for name in ("one", "two"))
    assert triples(read_columns(one)) == triples(read_columns(one))
    nodes = [{name for row in triples(read_columns(path)) for name in row if name[:2] == "_:"} for path in (one, two)]
    assert nodes[0] & nodes[1] == {f"_:{label}", "_:b"}
    assert len(nodes[0] | nodes[1]) == 6


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("graph.nt", "<e:a> <e:p> <e:b> .\na\tr\tb\n", "line 2: not valid N-Triples"),
        ("graph.nt", "<e:a> <e:p> <e:b> .\n<e:a> <e:p> <e:b", "line 2: not valid N-Triples"),
        ("graph.ttl", "<e:a> <e:p>\n\nx:b .", "line 3: not valid Turtle .*prefix x: "),
        ("graph.rdf", RDF[".rdf"][:300], "line [0-9]+: not valid RDF/XML"),
        ("graph.rdf", "<a/>", "not valid RDF/XML|holds no triples"),
        ("graph.rdf", "", "holds no triples"),
        ("graph.nt", "", "holds no triples"),
        ("graph.nt", '<e:a> <e:p> "x" .', r"holds no triples \(1 statement with literal values left out\)"),
        ("graph.nt", b"<e:a> <e:p> <e:\xe9> .", "line 1: byte 16 of the line"),
        ("graph.nt", b"\x00\x01", "looks binary"),
    ],
)
def test_rdf_mistakes(tmp_path, name, text, message):
    with pytest.raises(InputError, match=message):
        read_columns(write(tmp_path / name, text))


# What a file holds, whatever it is called.


def parquet_bytes():
    out = io.BytesIO()
    polars.DataFrame({"head": ["a"], "relation": ["r"], "tail": ["b"]}).write_parquet(out)
    return out.getvalue()


CONTENTS = {
    "Parquet": (parquet_bytes(), ".parquet"),
    "N-Triples": (b"# a comment\n\n<e:a> <e:p> <e:b> .\n<e:b> <e:p> <e:a> .\n", ".nt"),
    "N-Quads": (b'\xef\xbb\xbf_:a <e:p> "x y"@en <e:g>.\n<e:b> <e:p> <e:a> <e:g> .\n', ".nq"),
    "Turtle": (RDF[".ttl"].encode(), ".ttl"),
    "Turtle as in SPARQL": (b"PREFIX e: <http://e.org/>\r\ne:a e:p e:b .\r\n", ".ttl"),
    "RDF/XML": (b'<?xml version="1.0"?>\n' + RDF[".rdf"].encode(), ".rdf"),
    "text": (b"<e:a>\t<e:p>\tJohn Jr.\n[[b]]\t<e:p>\t<e:a>\n", ".tsv"),
}


@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd.compress], ids=["plain", "gzip", "zstd"])
@pytest.mark.parametrize("misnamed", ["stdin", "graph.tsv", "graph.txt"])
def test_content_is_read_as_what_it_is_whatever_it_is_called(kind, pack, misnamed, tmp_path):
    data, suffix = CONTENTS[kind]
    expected = read_columns(write(tmp_path / f"graph{suffix}", data))
    path = tmp_path / misnamed
    path.write_bytes(pack(data))
    for columns in (read_columns(path), read_columns(Path(misnamed), data=pack(data))):
        assert triples(columns) == triples(expected)
        assert ["by its content" in note for note in columns.notes[:1]] == ([True] if kind != "text" else [])


def test_an_open_file_that_is_unpacked_as_it_is_read_keeps_its_name():
    assert triples(read_columns(Path("graph.tsv.gz"), data=b"a\tr\tb\n")) == [("a", "r", "b")]


FOREIGN = {
    "zip": (b"PK\x03\x04\x14\0\0", "save the sheet as CSV"),
    "bzip2": (bz2.compress(b"a\tr\tb\n"), "unpack it"),
    "xz": (lzma.compress(b"a\tr\tb\n"), "unpack it"),
    "a web page": (b"\n<!doctype HTML>\n<html>", "download the file again"),
    "JSON": (b'\xef\xbb\xbf[\n  {"head": "a"}]', "write a line for each triple"),
    "lines of JSON": (b'{"head": "a", "relation": "r", "tail": "b"}\n', "write a line for each triple"),
}


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("name", ["stdin", "graph.tsv", "graph.json"])
def test_what_is_not_read_is_named_and_has_a_remedy(kind, name):
    data, remedy = FOREIGN[kind]
    with pytest.raises(InputError) as refused:
        read_columns(Path(name), data=data)
    assert str(refused.value).startswith(f"{name}: ")
    assert remedy in str(refused.value)


def test_an_archive_of_files_is_no_file(tmp_path):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("train.txt"))
    with pytest.raises(InputError, match=r"graph\.tar\.gz: is a tar archive; unpack it"):
        read_columns(Path("graph.tar.gz"), data=out.getvalue())


@pytest.mark.parametrize("encoding", ["latin1", "UTF-16", "utf-8", "UTF8", "windows-1252"])
def test_xml_is_read_in_the_encoding_that_it_declares(encoding):
    text = f"<?xml version='1.0' encoding='{encoding}'?>\n" + RDF[".rdf"].replace("http://e.org/b", "http://e.org/Zoë")
    columns = read_columns(Path("graph.rdf"), data=text.encode(encoding))
    assert triples(columns)[0] == ("http://e.org/a", "http://e.org/p", "http://e.org/Zoë")
    with pytest.raises(InputError, match=r"declares to be (ascii|nonsense), and is not .*; convert it to UTF-8"):
        read_columns(Path("g.rdf"), data=text.replace(encoding, "ascii" if "8" in encoding else "nonsense").encode())


@pytest.mark.parametrize("encoding", ["unicode_escape", "utf-7", "punycode", "undefined", "hex", "idna", "rot13"])
def test_xml_is_not_read_in_what_is_no_encoding_of_it(encoding):
    text = f"<?xml version='1.0' encoding='{encoding}'?>\n" + RDF[".rdf"].replace("e.org/b", r"\ud800")
    with pytest.raises(InputError, match=f"declares to be {encoding}, and is not"):
        read_columns(Path("graph.rdf"), data=text.encode())


# Files that were joined, and others that have been through many hands.


@given(triples_of(st.text("abc", min_size=1)), st.data())
def test_headers_and_byte_order_marks_of_joined_files_are_no_names(rows, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    parts = [rows[start:end] for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    joined = "".join("\ufeff" + as_csv([("head", "relation", "tail"), *part]) for part in parts)
    columns = parsed(joined)
    assert triples(columns) == rows
    (note,) = columns.notes
    assert note.startswith(f"{len(parts)} header line{'s' if len(parts) > 1 else ''} skipped")
    with pytest.raises(InputError, match=f"line {len(rows) + len(parts) + 1}: the relation is empty"):
        parsed(joined + "a,,b\n")


def test_carriage_returns_alone_end_lines_where_there_is_no_newline():
    assert triples(parsed("a\tr\tb\rc\tr\td\r")) == [("a", "r", "b"), ("c", "r", "d")]
    assert triples(parsed("head,relation,tail\ra,r,b")) == [("a", "r", "b")]


@pytest.mark.parametrize("line", ["# my own graph, of 2020", "% sym unweighted"])
def test_a_comment_is_no_triple_and_a_first_one_can_be_skipped(line):
    assert "--header skips one in the first line" in failure(f"{line}\na\tr\tb\n")
    assert triples(parsed(f"{line}\na\tr\tb\n", header=True)) == [("a", "r", "b")]


def test_a_header_does_not_colour_the_terminal():
    columns = parsed("\x1b[31mx\thead\trelation\ttail\n0\ta\tr\tb\n")
    assert columns.notes[0] == r"1 header line skipped (\x1b[31mx, head, relation, tail)"


def test_a_column_without_a_name_is_shown_as_such():
    columns = parsed(",head,relation,tail\n0,a,r,b\n")  # as pandas writes the index of a frame
    assert triples(columns) == [("a", "r", "b")]
    assert columns.notes == ("1 header line skipped ('', head, relation, tail)", "columns left out: ''")
