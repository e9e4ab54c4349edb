"""Neo4j: files of nodes and relationships, with the headers that `neo4j-admin database import` reads."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import SPLITS
from procrustes_kge.runs.exchange.content import Content, cell, text_of

LABEL = "Entity"  # of every node


def write_neo4j(scratch: Path, name: str, content: Content) -> list[Path]:
    """Write nodes with their vectors, and beside them the triples of the graph and those that are predicted."""
    graph, names = content.graph, content.names
    if content.what != "entities":
        raise InputError(f"neo4j holds entities and the triples between them, not {content.what}; leave --what out")
    if graph is None:
        raise InputError("the run was saved without its triples, which neo4j is to have; use --format parquet")
    beside = scratch / f"{Path(name).stem}-relationships.csv"
    if beside.name == name:
        raise InputError(f"{name}: is the name of a file beside the nodes; name them nodes.csv")
    vectors, labels = content.vectors("neo4j"), bool(names.labels)
    header = ["name:ID", *(["label:string"] if labels else []), "vector:float[]", ":LABEL"]
    rows = (
        [_text(each), *([_text(names.label(row))] if labels else []), ";".join(map(cell, vector.tolist())), LABEL]
        for row, (each, vector) in enumerate(zip(names, vectors, strict=True))
    )
    _write(scratch / name, header, rows)
    _write(
        beside, [":START_ID", ":TYPE", ":END_ID", "split:string", "score:double", "probability:double"], _edges(content)
    )
    return [scratch / name, beside]


def import_command(nodes: Path, relationships: Path) -> str:
    """Return the command that loads both files."""
    return f"neo4j-admin database import full --nodes={nodes} --relationships={relationships} neo4j"


def _edges(content: Content) -> Iterator[list[str]]:
    """Yield a row for each triple of the graph, with its split, then for each that is predicted, with its score."""
    assert content.graph is not None
    ends, kinds = ([_text(each) for each in names] for names in (content.names, content.relations))
    for split in SPLITS:
        for head, relation, tail in content.graph.split(split).tolist():
            yield [ends[head], kinds[relation], ends[tail], split, "", ""]
    for each in content.predictions:
        probability = "" if each.probability is None else f"{each.probability:.6g}"
        yield [ends[each.head], kinds[each.relation], ends[each.tail], "predicted", cell(each.score), probability]


def _write(path: Path, header: list[str], rows: Iterator[list[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        written: Any = csv.writer(file, lineterminator="\n")
        written.writerow(header)
        written.writerows(rows)


def _text(name: str) -> str:
    """Return a name that stays in its line, as the import expects unless it is told otherwise."""
    if any(end in name for end in "\n\r"):
        seen = f"the name {name[:40]!r} has a line break in it, which neo4j-admin does not expect in a field"
        raise InputError(f"{seen}; use --format parquet")
    return text_of(name, "neo4j")
