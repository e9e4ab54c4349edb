"""Laws of graphs that other libraries hold: what is in memory reads as the same triples in a file do."""

import subprocess
import sys

import pytest
import torch

from laws import refused
from procrustes_kge.graphs.reading import read_graph

TRIPLES = [("ann", "knows", "bob"), ("bob", "knows", "cid"), ("ann", "likes", "tea"), ("ann", "likes", "bob")]


def names(graph, split="train"):
    """Return the triples of a split by name."""
    rows = graph.split(split).tolist()
    return [(graph.entities[head], graph.relations[relation], graph.entities[tail]) for head, relation, tail in rows]


def read(source, **options):
    return read_graph(source, valid=0, test=0, **options)


@pytest.mark.slow
def test_reading_a_graph_in_memory_imports_none_of_these_libraries():
    code = (
        "import sys, procrustes_kge.graphs.reading; print({'networkx', 'rdflib', 'torch_geometric'} & {*sys.modules})"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "set()\n"


# networkx.


@pytest.fixture(scope="module")
def networkx():
    return pytest.importorskip("networkx", reason="networkx is not installed")


def test_keys_and_attributes_of_edges_are_relations(networkx):
    keyed, attributed = networkx.MultiDiGraph(), networkx.MultiDiGraph()
    for head, relation, tail in TRIPLES:
        keyed.add_edge(head, tail, key=relation, weight=2.0)
        attributed.add_edge(head, tail, relation=relation)
    keyed.add_node("ann", label="Ann Example")
    # networkx gives edges by where they begin.
    assert sorted(names(read(keyed))) == sorted(names(read(attributed))) == sorted(TRIPLES)
    assert read(keyed).entities.labels == {"ann": "Ann Example"}
    assert read(keyed).notes == (
        "columns read as head, relation, tail: source, relation, target",
        "columns left out: weight",
    )
    assert read(keyed).name == "networkx"


def test_an_edge_list_of_pandas_is_the_same_graph(networkx):
    graph = networkx.MultiDiGraph([(head, tail, {"kind": relation}) for head, relation, tail in TRIPLES])
    frame = networkx.to_pandas_edgelist(graph)
    assert names(read(graph)) == names(read(frame, columns=("source", "kind", "target")))


def test_a_choice_among_attributes_is_the_users(networkx):
    graph = networkx.MultiDiGraph()
    graph.add_edge(1, 2, key="k", kind="a", colour="red")
    assert names(read(graph)) == [("1", "k", "2")]
    assert names(read(graph, columns=("source", "kind", "target"))) == [("1", "a", "2")]
    assert names(read(graph, columns=("target", "key", "source"))) == [("2", "k", "1")]


def test_undirected_edges_are_read_once_and_that_is_said(networkx):
    graph = networkx.Graph()
    graph.add_edge("a", "b", relation="r")
    assert names(read(graph)) == [("a", "r", "b")]
    assert "the graph is undirected: each edge is read in one direction, as it is stored" in read(graph).notes


def test_edges_without_a_relation_are_refused(networkx):
    bare, half = networkx.DiGraph([("a", "b")]), networkx.DiGraph([("a", "b", {"relation": "r"}), ("b", "c", {})])
    refused(lambda: read(bare), setting="networkx graph", seen="have no relation", remedy="give each edge a key")
    refused(lambda: read(half), setting="networkx graph, row 2", seen="the relation is empty", remedy="fill it in")
    refused(lambda: read(networkx.DiGraph()), setting="networkx graph", seen="no triples", remedy="expected a head")


# rdflib.

DATA = """
<http://e.org/a> <http://e.org/p> <http://e.org/b>, _:x ; <http://e.org/q> 1815 .
<http://e.org/a> <http://www.w3.org/2000/01/rdf-schema#label> "das A"@de, "the A"@en .
_:x <http://e.org/p> <http://e.org/b> .
"""


@pytest.fixture(scope="module")
def rdflib():
    return pytest.importorskip("rdflib", reason="rdflib is not installed")


def test_rdflib_reads_as_the_file_does(rdflib, tmp_path):
    (tmp_path / "data.ttl").write_text(DATA)
    held, file = read(rdflib.Graph().parse(data=DATA, format="turtle")), read(tmp_path / "data.ttl")
    assert sorted(held.relations) == sorted(file.relations)
    assert len(held.train) == len(file.train) == 3
    assert len(held.entities) == len(file.entities)
    assert held.entities.labels == file.entities.labels == {"http://e.org/a": "the A"}
    assert sorted(held.notes) == sorted(file.notes)


@pytest.mark.filterwarnings("ignore:Dataset:DeprecationWarning")  # of rdflib, about itself
def test_named_graphs_are_read_as_one(rdflib):
    held = rdflib.Dataset()
    first, link, second, third = map(rdflib.URIRef, ("e:a", "e:p", "e:b", "e:c"))
    held.graph("e:g").add((first, link, second))
    held.add((first, link, third))
    assert sorted(names(read(held))) == [("e:a", "e:p", "e:b"), ("e:a", "e:p", "e:c")]
    assert "named graphs ignored: all statements are read as one graph" in read(held).notes


def test_rdf_without_links_is_refused(rdflib):
    held = rdflib.Graph().parse(data="<e:a> <e:p> 3 .", format="turtle")
    refused(
        lambda: read(held), setting="rdflib graph", seen="1 statement with literal values", remedy="expected a head"
    )
    refused(lambda: read(held, columns=(1, 2, 3)), setting="columns", seen="1, 2, 3", remedy="leave columns out")


# PyTorch Geometric.

EDGES, TYPES = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), torch.tensor([0, 1, 1, 0])


@pytest.fixture(scope="module")
def geometric():
    return pytest.importorskip("torch_geometric.data", reason="torch_geometric is not installed")


def test_edges_of_geometric_data_are_triples_of_numbers(geometric):
    graph = read(geometric.Data(edge_index=EDGES, edge_type=TYPES, num_nodes=9))
    assert names(graph) == [("0", "0", "1"), ("1", "1", "2"), ("2", "1", "3"), ("3", "0", "0")]


def test_splits_of_geometric_data_are_kept(geometric):
    masks = {name: torch.arange(4) % 3 == place for place, name in enumerate(("train_mask", "val_mask", "test_mask"))}
    masked = geometric.Data(edge_index=EDGES, edge_type=TYPES, num_nodes=9, **masks)
    parts = {
        f"{split}_edge_{what}": table[..., masks[mask]]
        for split, mask in (("train", "train_mask"), ("valid", "val_mask"), ("test", "test_mask"))
        for what, table in (("index", EDGES), ("type", TYPES))
    }
    apart = geometric.Data(edge_index=EDGES, edge_type=TYPES, num_nodes=9, **parts)
    for data in (masked, apart):
        graph = read_graph(data)
        assert [len(graph.split(split)) for split in ("train", "valid", "test")] == [2, 1, 1]
        assert names(graph) == [("0", "0", "1"), ("3", "0", "0")]
    masked.num_nodes = 4  # masks may be of the nodes
    assert len(read(masked).train) == 4


def test_nodes_of_several_types_are_told_apart(geometric):
    data = geometric.HeteroData()
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 1], [1, 1]])
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0], [1]])
    data["author", "cites", "author"].edge_index = torch.tensor([[0], [1]])
    assert names(read(data)) == [
        *(("author/0", "writes", "paper/1"), ("author/1", "writes", "paper/1")),
        *(("paper/0", "paper/cites/paper", "paper/1"), ("author/0", "author/cites/author", "author/1")),
    ]
    one = geometric.HeteroData()
    one["item", "near", "item"].edge_index = torch.tensor([[0], [1]])
    assert names(read(one)) == [("0", "near", "1")]


def test_geometric_data_that_are_no_triples_are_refused(geometric):
    refusals = [
        (geometric.Data(edge_index=EDGES), "no edge_type", "expected edge_index and edge_type"),
        (geometric.Data(edge_index=EDGES, edge_type=TYPES[:2]), "2 edge types for 4 edges", "expected one for each"),
        (geometric.Data(edge_index=EDGES.T, edge_type=TYPES), "(4, 2)", "expected two rows"),
        (geometric.Data(edge_index=EDGES - 1, edge_type=TYPES), "edge_index has -1", "expected whole numbers"),
        (geometric.Data(edge_index=EDGES, edge_type=TYPES / 2), "edge_type has 0.0", "expected whole numbers"),
    ]
    for data, seen, remedy in refusals:
        refused(lambda data=data: read(data), setting="torch_geometric data", seen=seen, remedy=remedy)
