"""RDF in any of its syntaxes: statements between IRIs and blank nodes, and the labels of both."""

import codecs
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Any
from xml.parsers import expat

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.columns import Columns, named
from procrustes_kge.graphs.contents import decode
from procrustes_kge.graphs.limits import Allowance, Elements, check_quoted
from procrustes_kge.system.extras import package
from procrustes_kge.words import counted

# Python has others, of which some are slow, and some decode to half characters.
ENCODINGS = ("utf-8", "utf-16", "utf-32", "ascii", "iso", "cp", "mac", "koi8", "gb", "big5", "euc", "shift", "tis")
SPELLED = "its names, spelled out, take"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"


def parse_rdf(data: bytes, where: str, syntax: str, most: int | None = None) -> Columns:
    """Return the statements between IRIs and blank nodes, and labels; a note says how many others were left out.

    Names, written out, may take `most` bytes, or as much as `limits` says: prefixes and entities abbreviate them.
    """
    names, labels, notes = _contents(data, where, syntax, most)
    return named(where, (names[role::3] for role in range(3)), notes, labels=labels)


def rdf_labels(data: bytes, where: str, syntax: str, most: int | None = None) -> dict[str, str]:
    """Return the label of each name that has one: in English or in no language, else the first in any other."""
    return _contents(data, where, syntax, most)[1]


class Statements:
    """What is kept of RDF: statements between IRIs and blank nodes, and labels; all else is counted."""

    def __init__(self) -> None:
        self.names = list[str]()  # three to a statement
        self._labels = dict[str, tuple[bool, str]]()  # whether it is in English, or in no language that is said
        self._left_out = dict[str, int]()

    def link(self, head: str, relation: str, tail: str) -> None:
        """Keep a statement."""
        self.names += head, relation, tail

    def label(self, name: str, label: str, language: str | None) -> None:
        """Keep a label, unless there is a better one."""
        preferred = (language or "en").split("-")[0] == "en"
        if name not in self._labels or preferred > self._labels[name][0]:
            self._labels[name] = preferred, label

    def leave_out(self, what: str) -> None:
        """Count a statement that is not kept."""
        self._left_out[what] = self._left_out.get(what, 0) + 1

    @property
    def labels(self) -> dict[str, str]:
        """The label of each name that has one."""
        return {name: label for name, (_, label) in self._labels.items()}

    def notes(self, named_graphs: bool) -> list[str]:
        """Return what the user should know."""
        notes = [f"{counted(count, 'statement')} with {what} left out" for what, count in self._left_out.items()]
        if self._labels:
            notes.append(f"{counted(len(self._labels), 'label')} read (rdfs:label)")
        if named_graphs:
            notes.append("named graphs ignored: all statements are read as one graph")
        return notes


def _contents(data: bytes, where: str, syntax: str, most: int | None) -> tuple[list[str], dict[str, str], list[str]]:
    """Return the names, three to a statement, the labels, and notes on what was left out."""
    oxigraph = package("pyoxigraph", f"{where}: reading RDF")
    rdf_format = getattr(oxigraph.RdfFormat, syntax)
    text = _xml_text(data, where) if syntax == "RDF_XML" else decode(data, where)
    found, blank_nodes = Statements(), dict[str, str]()  # blank nodes in order of appearance

    def name(term: Any) -> str:
        value: str = term.value
        if isinstance(term, oxigraph.NamedNode):
            return value or "<>"  # the document itself, as Turtle writes it
        return blank_nodes.setdefault(value, f"_:{value}")

    named_graphs, allowance = False, Allowance(where, len(data), most)
    for quad in _statements(oxigraph, text, rdf_format, where):
        subject, value = quad.subject, quad.object
        if isinstance(value, oxigraph.Triple) or isinstance(subject, oxigraph.Triple):
            found.leave_out("quoted triples")
        elif not isinstance(value, oxigraph.Literal):
            head, relation, tail = name(subject), quad.predicate.value, name(value)
            allowance.spend(len(head) + len(relation) + len(tail), SPELLED)
            found.link(head, relation, tail)
        elif quad.predicate.value == LABEL:
            allowance.spend(len(key := name(subject)) + len(value.value), SPELLED)
            found.label(key, value.value, value.language)
        else:
            found.leave_out("literal values")
        if rdf_format.supports_datasets and not named_graphs:
            named_graphs = not isinstance(quad.graph_name, oxigraph.DefaultGraph)
    lasting, names = _lasting(blank_nodes, text) if blank_nodes else {}, found.names
    if lasting:
        names = [lasting.get(name, name) for name in names]
    return names, {lasting.get(key, key): label for key, label in found.labels.items()}, found.notes(named_graphs)


def _xml_text(data: bytes, where: str) -> str:
    """Return XML in the encoding that it declares, without the declaration: the parser knows UTF-8 alone."""
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"
    if declared := re.match(rb"<\?xml[^>]*?encoding\s*=\s*[\"']([\w.-]+)", data):
        encoding = declared[1].decode()
    try:
        if not codecs.lookup(encoding).name.startswith(ENCODINGS):
            raise LookupError("which is no encoding of XML")
        text = data.decode(encoding) if encoding.lower() not in ("utf-8", "utf8") else decode(data, where)
    except (LookupError, UnicodeDecodeError) as error:
        raise InputError(f"{where}: declares to be {encoding}, and is not ({error}); convert it to UTF-8") from None
    return re.sub(r"^<\?xml[^>]*\?>", "", text)


def _lasting(labels: Iterable[str], text: str) -> dict[str, str]:
    """Return new names of the blank nodes that have no label in the text: the parser draws one at every reading."""
    # They are numbered as they appear, behind a checksum: readings repeat, and nodes of two files stay apart.
    written = set(re.findall(r"\w{24,}", text))
    drawn = [label for label in labels if re.fullmatch("[0-9a-f]{24,32}", label) and label not in written]
    checksum = zlib.crc32(text.encode())
    return {f"_:{label}": f"_:{checksum:08x}n{number}" for number, label in enumerate(drawn, start=1)}


def _statements(oxigraph: Any, text: str, rdf_format: Any, where: str) -> Iterator[Any]:
    """Yield the statements of RDF text one by one."""
    try:
        if rdf_format == oxigraph.RdfFormat.RDF_XML and text:
            # The RDF parser gives no line numbers in XML and accepts a truncated file.
            parser = expat.ParserCreate()
            Elements(where, parser)
            parser.Parse(text, True)
        else:
            check_quoted(text, where)
        # Lenient: published files are full of IRIs that break a rule or two, and here they are only names.
        yield from oxigraph.parse(text, rdf_format, lenient=True)
    except (SyntaxError, expat.ExpatError) as error:
        place = f"{where}, line {error.lineno}" if error.lineno else where
        seen = f"not valid {rdf_format.name} ({re.sub('^Parser error at [^:]*: ', '', str(error.args[0]))})"
        raise InputError(f"{place}: {seen}; fix it, or give the file the suffix of its real format") from None
