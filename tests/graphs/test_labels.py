"""Laws of labels: however they are given, they are shown beside names, found as names are, and saved with a run."""

import gzip
import json

import pandas
import pytest

from laws import refused
from procrustes_kge.errors import InputError
from procrustes_kge.graphs.labels import read_labels
from procrustes_kge.graphs.reading import read_graph

ROWS = [("Q1", "P1", "Q2"), ("Q2", "P1", "Q3"), ("Q3", "P2", "Q1")]
LABELS = {"Q1": "Ada, Countess of Lovelace", "Q2": "Zoë", "P1": "knows"}
RDFS = "<http://www.w3.org/2000/01/rdf-schema#label>"
FILES = {
    "labels.tsv": "".join(f"{name}\t{label}\n" for name, label in LABELS.items()),
    "labels.csv": "name,label\n" + "".join(f'{name},"{label}"\n' for name, label in LABELS.items()),
    "labels.json": json.dumps(LABELS),
    "labels.nt": "".join(f'<{name}> {RDFS} "{label}" .\n' for name, label in LABELS.items()),
}


@pytest.mark.parametrize("kind", ["a mapping", *FILES])
def test_labels_are_the_same_from_a_mapping_and_from_every_kind_of_file(kind, tmp_path):
    source = LABELS
    if kind in FILES:
        source = tmp_path / kind
        source.write_text(FILES[kind])
    graph = read_graph(ROWS, labels=source, valid=0, test=0)
    assert graph.entities.labels == {"Q1": LABELS["Q1"], "Q2": "Zoë"}
    assert graph.relations.labels == {"P1": "knows"}
    assert graph.notes == ("labels for 2 of 3 entities and 1 of 2 relations",)
    assert [graph.entities.shown(row) for row in range(3)] == [f"Q1 ({LABELS['Q1']})", "Q2 (Zoë)", "Q3"]
    assert (graph.entities.id("Zoe\u0308"), graph.relations.id("knows")) == (1, 0)


def test_names_of_labels_are_matched_however_they_are_spelled():
    graph = read_graph([("Zoë", "r", "http://e.org/a")], labels={"Zoe\u0308 ": "Zoe", "<http://e.org/a>": "A"})
    assert graph.entities.labels == {"Zoë": "Zoe", "http://e.org/a": "A"}


def test_of_several_labels_the_first_counts_and_empty_ones_do_not(tmp_path):
    path = tmp_path / "labels.tsv"
    path.write_text("a\t \na\tone\na\ttwo\n\nb\tbee\n")
    assert read_labels(path) == {"a": "one", "b": "bee"}


TURTLE = """
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix e: <http://e.org/> .
e:a e:knows e:b, e:c ; rdfs:label "der A"@de, "the A"@en, "le A"@fr .
e:b e:knows e:c ; rdfs:label "plain B", "the B"@en-GB ; e:age 7 .
e:c e:knows e:a ; rdfs:label "der C"@de, "le C"@fr .
e:knows rdfs:label "knows someone"@en .
"""


def test_rdf_labels_are_english_or_of_no_language_if_there_are_such(tmp_path):
    path = tmp_path / "graph.ttl"
    path.write_text(TURTLE)
    graph = read_graph(path, valid=0, test=0)
    found = {name.removeprefix("http://e.org/"): label for name, label in graph.entities.labels.items()}
    assert found == {"a": "the A", "b": "plain B", "c": "der C"}
    assert graph.relations.label(0) == "knows someone"
    assert graph.notes == ("1 statement with literal values left out", "4 labels read (rdfs:label)")
    own = read_graph(path, labels={"http://e.org/a": "mine"})
    assert (own.entities.label(0), own.entities.label(1)) == ("mine", "plain B")


@pytest.mark.parametrize(
    ("name", "text", "seen", "remedy"),
    [
        ("l.tsv", "Q1\tone\nQ2\n", "line 2: 1 column", "expected 2 (name, label)"),
        ("l.csv", "Q1,Ada, Countess\n", "line 1: 3 columns", "quotation marks"),
        ("l.tsv", "Q1\tone\tmore\n", "line 1: 3 columns", "remove the other columns"),
        ("l.json", "[1, 2]", "expected a JSON object", '{"Q90": "Paris"}'),
        ("l.json", '{"Q1": 7}', "expected a JSON object", '{"Q90": "Paris"}'),
        ("l.json", "{", "not valid JSON", "fix it"),
        ("l.tsv", "one\tQ1\n", "such as 'one'", "then its label"),
        ("l.tsv", "", "holds no labels", "expected a name and its label on each line"),
    ],
)
def test_mistakes_in_labels_are_told(tmp_path, name, text, seen, remedy):
    path = tmp_path / name
    path.write_text(text)
    refused(lambda: read_graph(ROWS, labels=path), setting="label", seen=seen, remedy=remedy)


def test_a_missing_file_of_labels_is_told_before_the_graph_is_read(tmp_path):
    with pytest.raises(InputError, match=r"gone\.tsv: cannot be read"):
        read_graph("no-such-graph", labels=tmp_path / "gone.tsv")


def test_labels_that_are_missing_are_no_labels(tmp_path):
    path = tmp_path / "labels.json"
    path.write_text('{"Q1": null, "Q2": "Zoë"}')
    series = pandas.Series({"Q1": None, "Q2": "Zoë", "Q3": float("nan")})
    for source in (path, series.to_dict(), {"Q1": None, "Q2": "Zoë"}):
        assert read_labels(source) == {"Q2": "Zoë"}


def test_labels_are_unpacked_whatever_the_file_is_called(tmp_path):
    path = tmp_path / "labels.tsv"
    path.write_bytes(gzip.compress(FILES["labels.tsv"].encode()))
    assert read_labels(path) == LABELS


def test_labels_in_parquet_are_refused(tmp_path):
    path = tmp_path / "labels.parquet"
    path.write_bytes(b"PAR1\0\0")
    refused(lambda: read_labels(path), setting=path, seen="not read from Parquet", remedy="write them as .csv")
