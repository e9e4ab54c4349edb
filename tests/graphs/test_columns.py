"""Laws that hold for every format alike: which columns are read, what a name is, and what is told of it."""

import csv
import datetime
import io
import tempfile
from pathlib import Path

import numpy as np
import pandas
import polars
import pytest
import torch
from hypothesis import given, strategies as st

from laws import refused
from procrustes_kge.graphs.columns import ROLE_WORDS, ROLES, recognised
from procrustes_kge.graphs.graph import SPLITS
from procrustes_kge.graphs.reading import read_graph

pytestmark = pytest.mark.usefixtures("parquet_here")
ROWS = [(f"p{i}", f"r{i % 2}", f"p{(i * i + 1) % 20}") for i in range(20)]


def named(graph, split="train"):
    """Return the triples of a split by their names, in order."""
    ids = graph.split(split).tolist()
    return [(graph.entities[head], graph.relations[relation], graph.entities[tail]) for head, relation, tail in ids]


def delimited(folder, names, rows, suffix, separator):
    path = Path(folder) / f"graph{suffix}"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=separator, lineterminator="\n").writerows([names, *rows])
    return path


def parquet(folder, names, rows):
    path = Path(folder) / "graph.parquet"
    polars.DataFrame(rows, schema=list(names), orient="row").write_parquet(path)
    return path


TABLES = {  # how a table with names over its columns is handed over
    "tsv": lambda folder, names, rows: delimited(folder, names, rows, ".tsv", "\t"),
    "csv": lambda folder, names, rows: delimited(folder, names, rows, ".csv", ","),
    "parquet": parquet,
    "pandas": lambda folder, names, rows: pandas.DataFrame(rows, columns=list(names)),
    "polars": lambda folder, names, rows: polars.DataFrame(rows, schema=list(names), orient="row"),
}
every_table = pytest.mark.parametrize("kind", TABLES)
WEIGHED = [(0.5, *row) for row in ROWS]


def whole(source, **options):
    return read_graph(source, valid=0, test=0, **options)


# Columns.


@every_table
def test_columns_are_found_by_known_names_among_others_and_the_user_is_told(kind, tmp_path):
    rows = [(tail, 0.5, head, relation) for head, relation, tail in ROWS]
    graph = whole(TABLES[kind](tmp_path, ["Object", "weight", "subject", "predicate"], rows))
    assert named(graph) == ROWS
    told = ("columns read as head, relation, tail: subject, predicate, Object", "columns left out: weight")
    assert graph.notes[-2:] == told


@every_table
def test_a_fourth_column_with_unknown_names_is_refused_with_the_names_and_a_way_out(kind, tmp_path):
    source = TABLES[kind](tmp_path, ["w", "package", "relation", "target"], WEIGHED)
    said = refused(
        lambda: whole(source),
        setting="expected 3 (head, relation, tail)",
        seen="4 columns (w, package, relation, target)",
        remedy="say which with --columns",
    )
    assert "columns=(" in said


@every_table
@pytest.mark.parametrize("columns", ["package,relation,target", ("package", "relation", "target"), (2, 3, 4), "2,3,4"])
def test_columns_are_chosen_by_name_or_number(kind, columns, tmp_path):
    source = TABLES[kind](tmp_path, ["w", "package", "relation", "target"], WEIGHED)
    graph = whole(source, columns=columns, header=True)
    assert named(graph) == ROWS
    assert "columns read as head, relation, tail: package, relation, target" in graph.notes
    swapped = whole(source, columns=("target", 3, "package"), header=True)
    assert named(swapped) == [row[::-1] for row in ROWS]


@every_table
def test_three_columns_are_not_read_against_their_names(kind, tmp_path):
    rows = [row[::-1] for row in ROWS]
    source = TABLES[kind](tmp_path, ["target", "relation", "package"], rows)
    said = "'target', which sounds like the tail, would be the head"
    refused(lambda: whole(source, header=True), setting="target, relation, package", seen=said, remedy="--columns")
    for columns in ("package,relation,target", "3,2,1"):
        assert named(whole(source, columns=columns, header=True)) == ROWS


def test_columns_without_names_are_chosen_by_number(tmp_path):
    path = delimited(tmp_path, WEIGHED[0], WEIGHED[1:], ".tsv", "\t")
    assert {tuple(named(whole(source, columns="2,3,4"))) for source in (path, WEIGHED, pandas.DataFrame(WEIGHED))} == {
        tuple(ROWS)
    }


def test_chosen_names_announce_a_header_that_is_not_known(tmp_path):
    path = delimited(tmp_path, ["w", "package", "dep", "target"], WEIGHED, ".csv", ",")
    assert named(whole(path, columns="package,dep,target")) == ROWS


@every_table
def test_a_column_that_is_left_out_may_be_empty(kind, tmp_path):
    source = TABLES[kind](tmp_path, [*ROLES, "weight"], [(*row, None) for row in ROWS])
    assert named(whole(source)) == ROWS


@pytest.mark.parametrize(
    ("columns", "seen", "remedy"),
    [
        ("pkg,relation,target", "unknown column 'pkg'", "package, relation, target"),
        ("1,2,9", "unknown column '9'", "numbers counted from 1"),
        ("0,1,2", "unknown column '0'", "numbers counted from 1"),
        ("package,relation", "'package,relation'", "try head,relation,tail"),
        ("package,relation,package", "three different columns", "1,2,3"),
        ((1, 2), "(1, 2)", "1,2,3"),
    ],
)
@every_table
def test_columns_that_are_not_there_are_told(kind, columns, seen, remedy, tmp_path):
    source = TABLES[kind](tmp_path, ["package", "relation", "target"], ROWS)
    refused(lambda: whole(source, columns=columns), setting="column", seen=seen, remedy=remedy)


def test_of_two_columns_of_one_name_a_number_chooses():
    frame = pandas.DataFrame(WEIGHED, columns=["x", "x", "r", "t"])
    refused(lambda: whole(frame, columns="x,r,t"), setting="columns", seen="'x'", remedy="give the number")
    assert named(whole(frame, columns="2,3,4")) == ROWS


def test_rdf_has_no_columns_to_choose(tmp_path):
    (tmp_path / "graph.nt").write_text("<e:a> <e:p> <e:b> .\n")
    refused(lambda: whole(tmp_path / "graph.nt", columns="1,2,3"), setting="RDF", seen="1, 2, 3", remedy="--columns")


@given(st.data())
def test_whatever_the_order_the_plainest_word_of_each_role_is_meant(data):
    best = [data.draw(st.integers(0, len(words) - 1)) for words in ROLE_WORDS]
    drawn = [words[place:] for words, place in zip(ROLE_WORDS, best, strict=True)]
    names = data.draw(st.permutations([word for words in drawn for word in words] + ["weight"]))
    assert [names[place] for place in recognised(names)] == [words[0] for words in drawn]


# White space.

padding = st.text(" \u00a0\u2003", max_size=2)


@given(st.data())
def test_white_space_around_names_is_stripped_in_every_format_and_kept_inside(data):
    rows = [("two  words", "of r", "b"), ("b", "of r", "a\u00a0c"), ("a\u00a0c", "s", "two  words")]
    padded = [tuple(data.draw(padding) + name + data.draw(padding) for name in row) for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        sources = [each(folder, ROLES, padded) for each in TABLES.values()]
        triples = Path(folder) / "graph.nt"
        triples.write_text("".join(" ".join(f"<{name}>" for name in row) + " .\n" for row in padded))
        assert [named(whole(source)) for source in [*sources, triples, padded]] == [rows] * 7


def test_names_that_look_alike_stay_apart_and_are_told():
    rows = [("Zoë", "r", "a"), ("Zoe\u0308", "r", "http://e.org/b"), ("a", "r", "<http://e.org/b>"), ("<c>", "r", "Ü")]
    graph = whole(rows)
    assert named(graph) == rows
    (note,) = graph.notes
    assert note.startswith("2 entities spelled in another way too, such as 'Zoe\\u0308' beside 'Zo\\xeb'")
    assert whole([rows[0], rows[3]]).notes == ()


@every_table
def test_a_name_of_nothing_but_white_space_is_empty(kind, tmp_path):
    source = TABLES[kind](tmp_path, ROLES, [*ROWS, ("a", "\u00a0", "b")])
    refused(lambda: whole(source), setting="the relation", seen="is empty", remedy="fill it in")


# Values that are no text: one rule makes names of them, wherever they stand.

VALUES = {
    "text": ["a", "b"],
    "numbers": [1, 20_000_000_000],
    "truth": [True, False],
    "decimals": [0.5, 1.25],
    "days": [datetime.date(2020, 1, 2), datetime.date(2021, 1, 2)],
    "moments": [datetime.datetime(2020, 1, 2, 3, 4), datetime.datetime(2021, 1, 2)],
    "bytes": [b"a", "Zoë".encode()],
    "categories": ["a", "b"],
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_become_the_same_names_in_frames_parquet_and_rows(kind, tmp_path):
    rows = list(zip(VALUES[kind], ["r", "r"], [7, 8], strict=True))
    frame = polars.DataFrame(rows, schema=ROLES, orient="row")
    other = pandas.DataFrame(rows, columns=ROLES)
    if kind == "categories":
        frame, other = frame.with_columns(polars.col("head").cast(polars.Categorical)), other.astype("category")
    frame.write_parquet(tmp_path / "graph.parquet")
    other.index = [5, 5]  # an index of a frame is no part of it
    found = [named(whole(source)) for source in (rows, frame, frame.lazy(), other, tmp_path / "graph.parquet")]
    assert found == [found[0]] * 5
    assert all(isinstance(name, str) and not name.startswith("b'") for row in found[0] for name in row)


@pytest.mark.parametrize("value", [["a"], {"a": 1}, {"a"}, np.zeros(2), torch.zeros(2), b"\xff"])
def test_what_is_no_name_is_told_with_its_row_and_its_type(value):
    remedy = "expected a name: text or a number"
    said = refused(lambda: whole([("a", "r", "b"), ("a", "r", value)]), setting="row 2", seen="the tail", remedy=remedy)
    assert "UTF-8" in said or f"is of type {type(value).__name__}" in said


def test_numbers_of_pytorch_are_numbers():
    ids = torch.tensor([[0, 0, 1], [1, 0, 2]])
    assert named(whole([tuple(row) for row in ids])) == named(whole(ids)) == [("0", "0", "1"), ("1", "0", "2")]


def test_whole_numbers_that_pandas_made_decimal_are_told():
    frame = pandas.DataFrame({"head": [1, None, 2], "relation": "r", "tail": [1, 2, 3]}).dropna()
    graph = whole(frame)
    assert named(graph) == [("1.0", "r", "1"), ("2.0", "r", "3")]
    assert graph.notes == ("the heads are decimal numbers: 1.0 is another name than 1",)


def test_an_index_that_has_a_name_is_asked_for():
    frame = pandas.DataFrame(ROWS, columns=ROLES).set_index("head")
    refused(
        lambda: whole(frame), setting="frame", seen="2 columns (relation, tail) and an index", remedy="reset_index()"
    )
    assert named(whole(frame.reset_index())) == ROWS


@pytest.mark.parametrize("row", [{"head": "a", "relation": "r", "tail": "b"}, {"a", "r", "b"}, "abc", b"abc", 7])
def test_a_row_without_an_order_is_refused(row):
    refused(lambda: whole([row]), setting="a row", seen=repr(row), remedy="three values (head, relation, tail)")


# Headers.


@pytest.mark.parametrize("columns", [None, "1,2,3"])
def test_a_header_that_is_not_known_is_no_triple(columns, tmp_path):
    path = delimited(tmp_path, ["package", "dependency", "needed"], ROWS, ".csv", ",")
    seen = "line 1 (package, dependency, needed): no other line has any of these names"
    refused(lambda: whole(path, columns=columns), setting=path, seen=seen, remedy="--header")
    assert named(whole(path, header=True, columns=columns)) == ROWS
    kept = whole(path, header=False, columns=columns)
    assert named(kept) == [("package", "dependency", "needed"), *ROWS]
    assert kept.notes == ()


@pytest.mark.parametrize("first", [("x", "r1", "z"), ("p3", "y", "z"), ("x", "y", "p3")])
def test_a_first_line_that_shares_a_name_is_a_triple(first, tmp_path):
    graph = whole(delimited(tmp_path, first, ROWS, ".csv", ","))
    assert (named(graph), graph.notes) == ([first, *ROWS], ())


def test_in_a_graph_of_a_few_lines_a_lone_first_one_gets_a_note(tmp_path):
    graph = whole(delimited(tmp_path, ("x", "y", "z"), ROWS[:3], ".csv", ","))
    assert named(graph) == [("x", "y", "z"), *ROWS[:3]]
    assert ["--header skips it" in note for note in graph.notes] == [True]
    alone = whole(delimited(tmp_path, ("x", "y", "z"), [], ".csv", ","))
    assert (named(alone), alone.notes) == ([("x", "y", "z")], ())


def test_the_files_of_a_folder_are_looked_at_together(tmp_path):
    for split, rows in {"train": ROWS[:16], "valid": ROWS[16:18], "test": ROWS[18:]}.items():
        delimited(tmp_path, ["package", "dep", "needed"], rows, ".csv", ",").rename(tmp_path / f"{split}.csv")
    refused(lambda: read_graph(tmp_path), setting="train.csv", seen="line 1 (package, dep, needed)", remedy="--header")
    graph = read_graph(tmp_path, header=True)
    assert [row for split in SPLITS for row in named(graph, split)] == ROWS
    for file in tmp_path.glob("*.csv"):  # a test triple of new names that train knows is no header
        file.write_text(file.read_text().partition("\n")[2])
    assert read_graph(tmp_path).notes == ()


def test_the_only_line_of_a_file_is_no_header(tmp_path):
    delimited(tmp_path, ROWS[0], ROWS[1:], ".csv", ",").rename(tmp_path / "train.csv")
    delimited(tmp_path, ("x", "y", "z"), [], ".csv", ",").rename(tmp_path / "test.csv")
    graph = read_graph(tmp_path)
    assert named(graph, "test") == [("x", "y", "z")]
    assert ["test.csv, line 1" in note and "--header skips it" in note for note in graph.notes] == [True]


# The same graph, whatever the format.

characters = st.characters(categories=["L", "M", "N"]) | st.sampled_from(" -_.,;'()")
iris = st.text(characters, min_size=1, max_size=5).map(str.strip).filter(bool).map("http://e.org/{}".format)


def turtle(rows):
    return "@prefix e: <http://e.org/> .\n" + "".join(" ".join(f"<{name}>" for name in row) + " .\n" for row in rows)


def open_file(folder, rows):
    stream = io.BytesIO("".join("\t".join(row) + "\n" for row in rows).encode())
    stream.name = "<stdin>"
    return stream


def text_file(name, written):
    def write(folder, rows):
        path = Path(folder) / name
        path.write_text(written(rows), encoding="utf-8")
        return path

    return write


FORMATS = {
    **{kind: lambda folder, rows, table=table: table(folder, ROLES, rows) for kind, table in TABLES.items()},
    "n-triples": text_file("graph.nt", lambda rows: turtle(rows).partition("\n")[2]),
    "turtle": text_file("graph.ttl", turtle),
    "standard input": open_file,
    "rows": lambda folder, rows: rows,
}


@pytest.mark.slow
@given(st.lists(st.tuples(iris, iris, iris), min_size=1, max_size=12))
def test_the_same_graph_in_every_format_gives_the_same_ids(rows):
    with tempfile.TemporaryDirectory() as folder:
        graphs = {kind: read_graph(write(folder, rows), header=None) for kind, write in FORMATS.items()}
    first = graphs.pop("rows")
    for kind, graph in graphs.items():
        assert graph.entities.names == first.entities.names, kind
        assert graph.relations.names == first.relations.names, kind
        assert [graph.split(split).tolist() for split in SPLITS] == [first.split(split).tolist() for split in SPLITS]
        assert graph.checksum == first.checksum, kind
    assert graphs["standard input"].name == "stdin"
