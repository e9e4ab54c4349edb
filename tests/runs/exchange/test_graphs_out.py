"""Laws of what goes to other programs as a graph: the projector, Neo4j, RDF."""

import csv
import json
import math
import re

import numpy as np
import pyoxigraph
import pytest
from hypothesis import given, strategies as st

from folders import graph_for, model_of
from laws import refused
from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Vocabulary
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.runs.exchange.content import Predicted
from procrustes_kge.runs.exchange.neo4j import import_command
from procrustes_kge.runs.exchange.rdf import BASE, iris
from procrustes_kge.runs.export import export

NAMES = ["http://e.org/Zürich", 'say "hi", you;', "new york", "_:b0", "/m/02", "☃"]
FOUND = [Predicted(0, 0, 1, 2.5, 0.75), Predicted(3, 1, 4, -1.25e-3, 1e-9)]


@pytest.fixture
def model():
    return model_of(NAMES, ("http://e.org/knows", "is a"), labels={"/m/02": "two\twords"}, width=5)


@pytest.fixture
def graph(model):
    return graph_for(model, [(0, 0, 2), (1, 1, 5)], valid=[(2, 1, 3)])


# The projector.


def test_the_projector_has_a_line_for_each_vector_and_a_name_for_each_line(model, tmp_path):
    vectors, about, config = export(model, tmp_path / "vectors.tsv", "projector")
    assert np.array_equal(np.loadtxt(vectors, delimiter="\t", dtype=np.float32), model.table.numpy())
    rows = [line.split("\t") for line in about.read_text(encoding="utf-8").splitlines()]
    assert rows[0] == ["name", "label"]
    assert [row[0] for row in rows[1:]] == NAMES
    assert rows[5] == ["/m/02", "two words"]
    assert config.name == "projector_config.pbtxt"
    told = dict(re.findall(r'  (\w+): (".*")', config.read_text()))
    assert json.loads(told["tensor_path"]) == vectors.name
    assert json.loads(told["metadata_path"]) == about.name


def test_names_alone_have_no_header(tmp_path):
    about = export(model_of("ab"), tmp_path / "vectors.tsv", "projector")[1]
    assert about.read_text() == "a\nb\n"
    refused(
        lambda: export(model_of("ab"), tmp_path / "projector_config.pbtxt", "projector"),
        **{"setting": "projector_config.pbtxt", "seen": "a file beside the vectors", "remedy": "name them vectors.tsv"},
    )


# Neo4j.


def test_neo4j_has_nodes_with_vectors_and_edges_with_their_splits(model, graph, tmp_path):
    nodes, edges = export(model, tmp_path / "nodes.csv", "neo4j", graph=graph, predictions=FOUND)
    with nodes.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["name:ID", "label:string", "vector:float[]", ":LABEL"]
    assert [row[0] for row in rows] == NAMES
    table = np.array([row[2].split(";") for row in rows], dtype=np.float32)
    assert np.array_equal(table, model.table.numpy())
    assert {row[3] for row in rows} == {"Entity"}
    with edges.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == [":START_ID", ":TYPE", ":END_ID", "split:string", "score:double", "probability:double"]
    assert rows[:3] == [
        [NAMES[0], "http://e.org/knows", NAMES[2], "train", "", ""],
        [NAMES[1], "is a", NAMES[5], "train", "", ""],
        [NAMES[2], "is a", NAMES[3], "valid", "", ""],
    ]
    assert rows[3] == [NAMES[0], "http://e.org/knows", NAMES[1], "predicted", "2.5", "0.75"]
    assert f"--nodes={nodes}" in import_command(nodes, edges)


def test_pandas_reads_the_nodes(model, graph, tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    nodes, edges = export(model, tmp_path / "nodes.csv", "neo4j", graph=graph)
    assert pandas.read_csv(nodes)["name:ID"].tolist() == NAMES
    frame = pandas.read_csv(edges).rename(columns={":START_ID": "head", ":TYPE": "relation", ":END_ID": "tail"})
    again = read_graph(frame[frame["split:string"] == "train"][["head", "relation", "tail"]], valid=0, test=0)
    assert len(again.train) == len(graph.train)


def test_what_neo4j_cannot_hold_is_refused(model, graph, tmp_path):
    target = tmp_path / "nodes.csv"
    refused(lambda: export(model, target, "neo4j"), setting="neo4j", seen="without its triples", remedy="parquet")
    what = {"what": "relations", "graph": graph}
    refused(lambda: export(model, target, "neo4j", **what), setting="neo4j", seen="not relations", remedy="--what")
    broken = model_of(["a\nb", "c"])
    small = graph_for(broken, [(0, 0, 1)])
    refused(lambda: export(broken, target, "neo4j", graph=small), setting="name", seen="line break", remedy="parquet")
    assert list(tmp_path.iterdir()) == []


# RDF.


def facts(path):
    """Return the predicted triples of a file, each with what is said of it, and the labels."""
    quads = list(pyoxigraph.parse(path=str(path)))
    reified = {quad.subject: quad.object for quad in quads if quad.predicate.value.endswith("reifies")}
    said = {node: {} for node in reified}
    labels = {}
    for quad in quads:
        if quad.subject in said and quad.predicate.value.startswith(BASE):
            said[quad.subject][quad.predicate.value.removeprefix(BASE)] = float(quad.object.value)
        elif quad.predicate.value.endswith("label"):
            labels[quad.subject.value] = quad.object.value
    return [(*reified[node], said[node]) for node in reified], labels


@pytest.mark.parametrize("suffix", ["ttl", "nt"])
def test_rdf_says_how_likely_each_triple_is_and_claims_none(suffix, model, tmp_path):
    (file,) = export(model, tmp_path / f"predicted.{suffix}", predictions=FOUND)
    found, labels = facts(file)
    assert len(found) == len(FOUND)
    subject, predicate, value, about = found[0]
    assert (subject.value, predicate.value) == ("http://e.org/Zürich", "http://e.org/knows")
    assert labels[value.value] == 'say "hi", you;'
    assert about == {"score": 2.5, "probability": 0.75}
    assert isinstance(found[1][0], pyoxigraph.BlankNode)
    assert math.isclose(found[1][3]["probability"], 1e-9)
    assert labels[found[1][2].value] == "two\twords"
    with pytest.raises(InputError, match=r"quoted triples left out|literal values"):
        read_graph(file)  # nothing is claimed that a graph could hold


def test_without_calibration_there_is_only_a_score(model, tmp_path):
    (file,) = export(model, tmp_path / "predicted.nt", predictions=[Predicted(0, 0, 1, 2.5)])
    assert facts(file)[0][0][3] == {"score": 2.5}
    refused(lambda: export(model, tmp_path / "x.nt"), setting="RDF", seen="there are none", remedy="--predictions")


def test_the_nodes_that_carry_probabilities_are_no_entities(tmp_path):
    odd = model_of(["_:predicted1", "_:predictedx1"])
    (file,) = export(odd, tmp_path / "p.nt", predictions=[Predicted(0, 0, 1, 1.0)])
    assert file.read_text().startswith("_:predictedxx1 ")


@given(st.lists(st.text(min_size=1), min_size=1, max_size=6, unique=True))
def test_every_name_becomes_an_iri_of_its_own(names):
    names = [name for name in names if name.isprintable()] or ["a"]
    terms = iris(Vocabulary(names, "entity"))
    assert len(set(terms)) == len(names)
    lines = "".join(f"{term} <e:p> <e:o> .\n" for term in terms)
    assert len(list(pyoxigraph.parse(lines, pyoxigraph.RdfFormat.N_TRIPLES))) == len(names)


def test_names_that_would_meet_are_refused():
    met = Vocabulary(["new york", f"{BASE}entity:new%20york"], "entity")
    refused(lambda: iris(met), setting="names 'new york'", seen="both become", remedy="neo4j")
