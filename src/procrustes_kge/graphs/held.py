"""Graphs that other libraries hold in memory: networkx, rdflib, PyTorch Geometric.

They are known by the modules of their classes, so none of these libraries is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.columns import ROLE_WORDS, ROLES, Columns, choose, named
from procrustes_kge.graphs.rdf import LABEL, Statements
from procrustes_kge.graphs.values import columns_of_values
from procrustes_kge.words import counted

Wanted = Sequence[str] | None
Edge = tuple[Any, Any, Any, Mapping[Any, Any]]  # source, target, key, attributes
MASKS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}  # of the edges of PyTorch Geometric
PARTS = {"train": "train_edge", "valid": "valid_edge", "test": "test_edge"}


def columns_held(source: Any, wanted: Wanted = None) -> tuple[str, dict[str, Columns]] | None:
    """Return the name of a graph that another library holds and its triples by split; None for anything else."""
    for base in type(source).__mro__:
        library = base.__module__.partition(".")[0]
        if library in READERS and any(hasattr(source, sign) for sign in READERS[library][0]):
            return library, READERS[library][1](source, wanted)
    return None


# networkx.


def _networkx(graph: Any, wanted: Wanted) -> dict[str, Columns]:
    """Return edges as rows of a table: source, the attributes of edges, the key of a multigraph, target."""
    where = "networkx graph"
    edges = list(graph.edges(keys=True, data=True)) if graph.is_multigraph() else _without_keys(graph)
    attributes = dict.fromkeys(name for *_, about in edges for name in about)
    table: list[tuple[str, Callable[[Edge], Any]]] = [("source", itemgetter(0))]
    table += [(str(name), partial(_attribute, name)) for name in attributes]
    if any(not isinstance(key, int) for _, _, key, _ in edges):  # they are numbers where nobody gave one
        known = wanted or any(str(name).lower() in ROLE_WORDS[1] for name in attributes)
        table.append(("key" if known else "relation", itemgetter(2)))
    table.append(("target", itemgetter(1)))
    if len(table) < len(ROLES) and edges:
        remedy = "give each edge a key, or an attribute such as relation"
        raise InputError(f"{where}: its edges have no relation, neither as key nor as attribute; {remedy}")
    places, notes = choose([name for name, _ in table], wanted, where) if edges else ([0, 0, 0], [])
    if not graph.is_directed():
        notes.append("the graph is undirected: each edge is read in one direction, as it is stored")
    columns = [[table[place][1](edge) for edge in edges] for place in places]
    labels = {str(node): label for node, label in graph.nodes(data="label") if isinstance(label, str)}
    return {"train": replace(columns_of_values(where, columns, notes), labels=_stripped(labels))}


def _without_keys(graph: Any) -> list[Edge]:
    return [(source, target, 0, about) for source, target, about in graph.edges(data=True)]


def _attribute(name: Any, edge: Edge) -> Any:
    return edge[3].get(name)


def _stripped(labels: Mapping[str, str]) -> dict[str, str]:
    return {name.strip(): label.strip() for name, label in labels.items() if label.strip()}


# rdflib.


def _rdflib(graph: Any, wanted: Wanted) -> dict[str, Columns]:
    """Return the statements between IRIs and blank nodes, and labels, as of a file of RDF."""
    where = "rdflib graph"
    if wanted:
        raise InputError(f"{where}: RDF has no columns to choose {', '.join(wanted)} from; leave columns out")
    found, in_graphs = Statements(), False
    for subject, predicate, value, context in _quads(graph):
        in_graphs |= context is not None
        kinds = [_kind(term) for term in (subject, predicate, value)]
        if kinds[:2] in (["URIRef", "URIRef"], ["BNode", "URIRef"]) and kinds[2] in ("URIRef", "BNode"):
            found.link(_term(subject), str(predicate), _term(value))
        elif kinds[2] == "Literal" and str(predicate) == LABEL:
            found.label(_term(subject), str(value), getattr(value, "language", None))
        else:
            found.leave_out("literal values" if kinds[2] == "Literal" else "other terms than IRIs and blank nodes")
    columns = (found.names[role::3] for role in range(len(ROLES)))
    return {"train": named(where, columns, found.notes(in_graphs), labels=found.labels)}


def _quads(graph: Any) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Yield statements, with the named graph of each that is in one."""
    if not hasattr(graph, "quads"):
        yield from ((*triple, None) for triple in graph.triples((None, None, None)))
        return
    default = getattr(getattr(graph, "default_graph", None), "identifier", None)
    for subject, predicate, value, context in graph.quads((None, None, None, None)):
        name = getattr(context, "identifier", context)
        yield subject, predicate, value, None if name == default else name


def _kind(term: Any) -> str:
    return next((base.__name__ for base in type(term).__mro__ if base.__name__ in ("URIRef", "BNode", "Literal")), "")


def _term(term: Any) -> str:
    return f"_:{term}" if _kind(term) == "BNode" else str(term) or "<>"


# PyTorch Geometric.


def _geometric(data: Any, wanted: Wanted) -> dict[str, Columns]:
    """Return edges by their types, in splits where the data say so; names are the numbers of nodes and types."""
    if wanted:
        raise InputError(f"torch_geometric data have no columns to choose {', '.join(wanted)} from; leave columns out")
    if hasattr(data, "edge_types"):
        return {"train": _heterogeneous(data)}
    if all(hasattr(data, f"{PARTS['train']}_{part}") for part in ("index", "type")):
        parts = {
            split: [getattr(data, f"{name}_{part}", None) for part in ("index", "type")]
            for split, name in PARTS.items()
        }
        return {split: _rows(*part) for split, part in parts.items() if part[0] is not None}
    edges, kinds = getattr(data, "edge_index", None), getattr(data, "edge_type", None)
    whole = _rows(edges, kinds)
    masks = {split: getattr(data, name, None) for split, name in MASKS.items()}
    count = len(whole.heads)
    if getattr(data, "num_nodes", None) == count or not all(_is_mask(mask, count) for mask in masks.values()):
        return {"train": whole}
    found = {split: _masked(whole, mask) for split, mask in masks.items()}
    return {split: part for split, part in found.items() if part.heads}


def _rows(edges: Any, kinds: Any) -> Columns:
    """Return edge_index and edge_type as columns."""
    where = "torch_geometric data"
    if kinds is None or edges is None:
        missing = "edge_index" if edges is None else "edge_type"
        raise InputError(f"{where}: no {missing}, expected edge_index and edge_type, the relation of each edge")
    heads, tails = _ends(where, edges)
    types = _numbers(where, "edge_type", kinds)
    if len(types) != len(heads):
        seen = f"{counted(len(types), 'edge type')} for {counted(len(heads), 'edge')}"
        raise InputError(f"{where}: {seen}; expected one for each")
    return named(where, ([str(number) for number in each] for each in (heads, types, tails)))


def _heterogeneous(data: Any) -> Columns:
    """Return the edges of all types; a node is called by its type and number where there are several types."""
    where, types = "torch_geometric data", [tuple(kind) for kind in data.edge_types]
    ends = {end for head, _, tail in types for end in (head, tail)}
    between = [relation for _, relation, _ in types]
    columns: tuple[list[str], list[str], list[str]] = [], [], []
    for kind in types:
        head, relation, tail = kind
        edges = getattr(data[kind], "edge_index", None)
        if edges is None:
            raise InputError(f"{where}: {' '.join(kind)} has no edge_index; expected one for each type of edge")
        name = relation if between.count(relation) == 1 else "/".join(kind)
        for column, each, numbers in zip((0, 2), (head, tail), _ends(where, edges), strict=True):
            columns[column].extend(str(number) if len(ends) == 1 else f"{each}/{number}" for number in numbers)
        columns[1].extend([name] * (len(columns[0]) - len(columns[1])))
    return named(where, columns)


def _ends(where: str, edges: Any) -> tuple[list[int], list[int]]:
    if getattr(edges, "ndim", 0) != 2 or edges.shape[0] != 2:
        seen = tuple(getattr(edges, "shape", ())) or type(edges).__name__
        raise InputError(f"{where}: edge_index {seen}, expected two rows: where each edge begins and ends")
    return _numbers(where, "edge_index", edges[0]), _numbers(where, "edge_index", edges[1])


def _numbers(where: str, name: str, numbers: Any) -> list[int]:
    found: list[Any] = numbers.reshape(-1).tolist() if hasattr(numbers, "reshape") else list(numbers)
    if not all(type(each) is int and each >= 0 for each in found):
        strange = next(each for each in found if type(each) is not int or each < 0)
        raise InputError(f"{where}: {name} has {strange!r}, expected whole numbers from 0")
    return found


def _is_mask(mask: Any, count: int) -> bool:
    return getattr(mask, "ndim", 0) == 1 and len(mask) == count and "bool" in str(mask.dtype)


def _masked(columns: Columns, mask: Any) -> Columns:
    chosen, roles = mask.tolist(), (columns.heads, columns.relations, columns.tails)
    heads, relations, tails = ([name for name, keep in zip(role, chosen, strict=True) if keep] for role in roles)
    return Columns(heads, relations, tails)


# By library: what its graphs have, one of which is enough, and their reader.
READERS: dict[str, tuple[tuple[str, ...], Callable[[Any, Wanted], dict[str, Columns]]]] = {
    "networkx": (("is_multigraph",), _networkx),
    "rdflib": (("triples", "quads"), _rdflib),
    "torch_geometric": (("edge_index", "edge_types"), _geometric),
}
