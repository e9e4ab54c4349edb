"""Predicted triples as RDF that says of each how likely it is, without claiming that it holds.

Turtle says `<< h r t >> <urn:procrustes:probability> 0.9`, which readers of RDF-star and of RDF 1.2 both understand.
N-Triples is that of RDF 1.2: a blank node that reifies the triple, and has the probability.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Vocabulary
from procrustes_kge.graphs.rdf import LABEL
from procrustes_kge.runs.exchange.content import Content, text_of

BASE = "urn:procrustes:"  # of names that are no IRI
REIFIES = "http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies"
DOUBLE = "http://www.w3.org/2001/XMLSchema#double"
# An IRI has a scheme, and none of the characters that RDF leaves out of it.
IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]+")
NODE = re.compile(r"_:[A-Za-z0-9][A-Za-z0-9_-]*")
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r", "\t": r"\t"})


def write_turtle(scratch: Path, name: str, content: Content) -> list[Path]:
    """Write triples within triples, as Turtle has them."""

    def statement(number: int, triple: str, facts: Sequence[tuple[str, str]]) -> str:
        return f"<< {triple} >> " + " ; ".join(f"<{BASE}{fact}> {value}" for fact, value in facts) + " .\n"

    return _write(scratch / name, content, statement)


def write_ntriples(scratch: Path, name: str, content: Content) -> list[Path]:
    """Write a blank node for each triple, as N-Triples has them."""
    node = "_:predicted"
    while any(each.startswith(node) for each in content.names):  # one that no entity has
        node += "x"

    def statement(number: int, triple: str, facts: Sequence[tuple[str, str]]) -> str:
        lines = [f"{node}{number} <{REIFIES}> <<( {triple} )>> .\n"]
        return "".join(lines + [f"{node}{number} <{BASE}{fact}> {value} .\n" for fact, value in facts])

    return _write(scratch / name, content, statement)


def _write(path: Path, content: Content, statement: Callable[[int, str, Sequence[tuple[str, str]]], str]) -> list[Path]:
    if not content.predictions:
        raise InputError("RDF holds predicted triples, and there are none; ask for some, as by --predictions 1000")
    ends, kinds = iris(content.names), iris(content.relations)
    with path.open("w", encoding="utf-8", newline="") as file:
        for number, each in enumerate(content.predictions, start=1):
            facts = [("score", _double(each.score))]
            if each.probability is not None:
                facts.insert(0, ("probability", _double(each.probability)))
            file.write(statement(number, f"{ends[each.head]} {kinds[each.relation]} {ends[each.tail]}", facts))
        used = {each.head for each in content.predictions} | {each.tail for each in content.predictions}
        file.writelines(_labels(content.names, ends, sorted(used)))
        file.writelines(_labels(content.relations, kinds, sorted({each.relation for each in content.predictions})))
    return [path]


def _double(number: float) -> str:
    return f'"{number:.9g}"^^<{DOUBLE}>'


def _labels(names: Vocabulary, terms: Sequence[str], rows: Sequence[int]) -> Iterator[str]:
    """Yield a label for each that has one, or whose name is no IRI: so that it is read back as it was."""
    for row in rows:
        label = names.label(row)
        if terms[row] not in (f"<{label}>", label):
            yield f'{terms[row]} <{LABEL}> "{text_of(label, "RDF").translate(ESCAPES)}" .\n'


def iris(names: Vocabulary) -> list[str]:
    """Return a term for each name: an IRI or a blank node as it is, of any other name an IRI made of it.

    >>> iris(Vocabulary(["http://e.org/a", "_:b", "new york"], "entity"))
    ['<http://e.org/a>', '_:b', '<urn:procrustes:entity:new%20york>']
    """
    terms, taken = list[str](), dict[str, str]()
    for name in names:
        if NODE.fullmatch(name) and names.kind == "entity":
            term = name
        elif IRI.fullmatch(name):
            term = f"<{text_of(name, 'RDF')}>"
        else:
            term = f"<{BASE}{names.kind}:{quote(text_of(name, 'RDF'), safe='/')}>"
        if term in taken:
            seen = f"the names {taken[term][:40]!r} and {name[:40]!r} both become {term[:80]}"
            raise InputError(f"{seen} in RDF; rename one, or use --format neo4j")
        taken[term] = name
        terms.append(term)
    return terms
