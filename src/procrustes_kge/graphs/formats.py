"""From a file to three columns of names: delimited text, Parquet or RDF, plain or packed.

Nothing here knows of ids, graphs or splits. Delimited text and gzip need the standard library alone; the
packages for the other formats are imported where they are used.
"""

import codecs
import csv
import gzip
import importlib
import io
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path
from typing import Any
from xml.parsers import expat

from procrustes_kge.errors import InputError

TEXT_SUFFIXES = (".tsv", ".txt", ".csv", ".tab", ".del")
RDF_SYNTAXES = {".nt": "N_TRIPLES", ".ttl": "TURTLE", ".trig": "TRIG", ".nq": "N_QUADS"}
RDF_SYNTAXES |= {".rdf": "RDF_XML", ".owl": "RDF_XML", ".xml": "RDF_XML"}
PACKINGS = (".gz", ".zst")
SUFFIXES = (*TEXT_SUFFIXES, ".parquet", *RDF_SYNTAXES, *PACKINGS)

SEPARATORS = {"tab": "\t", "\\t": "\t", "comma": ",", "space": " ", "semicolon": ";", "pipe": "|"}
# Spreadsheets quote names in comma and semicolon files; elsewhere a quotation mark is part of the name.
QUOTING_SEPARATORS = (",", ";")
SAMPLE_ROWS = 20  # enough to outvote a stray comma in a name, few enough to cost nothing
SAMPLE_CHARACTERS = 65_536  # room for those rows

ROLES = ("head", "relation", "tail")
COLUMN_WORDS = (
    {"head", "subject", "subj", "source", "src", "from", "start", "node1", "entity1", "s", "h"},
    {"relation", "relationship", "rel", "predicate", "property", "edge", "link", "label", "type", "p", "r"},
    {"tail", "object", "obj", "target", "dst", "to", "end", "node2", "entity2", "o", "t"},
)


@dataclass(frozen=True)
class Columns:
    """The names of all triples, row by row, and what reading left out or assumed, in words for the user."""

    heads: list[str]
    relations: list[str]
    tails: list[str]
    notes: tuple[str, ...] = ()


def read_columns(path: Path, separator: str | None = None, header: bool | None = None) -> Columns:
    """Read a file in the format that its suffix names; with an unknown suffix, as delimited text.

    `separator` and `header` matter to delimited text only: None means that they are guessed.
    """
    suffix, packing = _suffixes(path)
    data = _unpacked(path, packing)
    if suffix == ".parquet":
        return _parse_parquet(data, str(path))
    if suffix in RDF_SYNTAXES:
        return _parse_rdf(data, str(path), RDF_SYNTAXES[suffix])
    return parse_delimited(data, str(path), separator, header)


def is_triples_file(path: Path) -> bool:
    """Say from the name alone whether a file is likely to hold triples: a suffix of `SUFFIXES`, or none."""
    return not path.name.startswith(".") and _suffixes(path)[0] in ("", *SUFFIXES)


def _suffixes(path: Path) -> tuple[str, str]:
    """Return the suffix of the format and the suffix of the packing, lower-cased: ('.tsv', '.gz')."""
    packing = path.suffix.lower() if path.suffix.lower() in PACKINGS else ""
    return Path(path.name[: len(path.name) - len(packing)]).suffix.lower(), packing


def _unpacked(path: Path, packing: str) -> bytes:
    """Return the content of a file, unpacked."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder, expected a file of triples; name a file in it")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check its name and folder") from None
    faults: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error)
    try:
        if packing == ".zst":
            zstd = _package("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd", path)
            faults = (zstd.ZstdError,)
            return bytes(zstd.decompress(data))
        return gzip.decompress(data) if packing else data
    except faults as error:
        raise InputError(f"{path}: broken or truncated ({error}); download or pack it again") from None


def _package(name: str, where: str | Path) -> Any:
    """Import a package that only some formats need."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InputError(f"{where}: its format needs {name}, not found here; pip install {name}") from None


def _decode(data: bytes, where: str) -> str:
    """Return UTF-8 text without its byte order mark."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{where}: is UTF-16 text, expected UTF-8; convert it with iconv -f utf-16 -t utf-8")
    data = data.removeprefix(codecs.BOM_UTF8)
    formats = " ".join(SUFFIXES)
    binary = InputError(f"{where}: looks binary, expected text; name the file by its format, one of {formats}")
    if b"\0" in data:
        raise binary
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if re.search(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]", data[:4096]):
            raise binary from None
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise InputError(
            f"{where}, line {line}: byte {column} of the line (0x{data[error.start]:02x}) is not UTF-8; "
            "if the file is Latin-1, convert it with iconv -f latin1 -t utf-8"
        ) from None


def parse_delimited(data: bytes, where: str, separator: str | None = None, header: bool | None = None) -> Columns:
    """Return the columns of delimited text; `where` names it in errors.

    A header is recognised by its three words; they may also say that the columns stand in another order.
    """
    text = _decode(data, where)
    sample = text[:SAMPLE_CHARACTERS]
    if separator is None:
        separator = _guess_separator(sample)
    separator = SEPARATORS.get(separator.lower(), separator)
    if separator not in SEPARATORS.values():
        raise InputError(f"separator {separator!r} is not known; use tab, comma, space, ';' or '|'")
    _, first = next(_numbered_rows(sample, separator, where), (0, []))
    order = column_order(first) if len(first) == 3 else None
    if header is None:
        # One-letter words in another order ('t r s') are more likely a triple of a toy graph.
        header = order is not None and (order == [0, 1, 2] or min(map(len, first)) > 1)
    names = _names(text, separator, where, skip=int(header))
    notes = [f"1 header line skipped ({', '.join(map(str.strip, first))})"] if header else []
    if not header or order is None:
        order = [0, 1, 2]
    elif order != [0, 1, 2]:
        notes.append("columns put in the order head, relation, tail, as the header names them")
    return _columns(where, (names[place::3] for place in order), notes)


def _columns(where: str, columns: Iterable[list[str]], notes: Sequence[str]) -> Columns:
    """Return the columns unless there are no triples in them."""
    heads, relations, tails = columns
    if not heads:
        seen = f" ({'; '.join(notes)})" if notes else ""
        raise InputError(f"{where}: holds no triples{seen}; expected a head, a relation and a tail on each line")
    return Columns(heads, relations, tails, tuple(notes))


def column_order(words: Sequence[str]) -> list[int] | None:
    """Return where head, relation and tail stand among the words, or None unless all three are named."""
    lowered = [word.strip().lower() for word in words]
    places = [[i for i, word in enumerate(lowered) if word in known] for known in COLUMN_WORDS]
    return [found[0] for found in places] if all(places) else None


def _names(text: str, separator: str, where: str, skip: int) -> list[str]:
    """Return the names of all lines after the first `skip`, in file order, three to a line."""
    # Lines are cut all at once; only a fault is looked for line by line.
    names, widths = list[str](), set[int]()
    if separator in QUOTING_SEPARATORS and '"' in text:
        for _, row in islice(_numbered_rows(text, separator, where), skip, None):
            names += row
            widths.add(len(row))
    else:
        if separator == " " and "  " in text:
            text = re.sub(" {2,}", " ", text)
        # Not splitlines: it also breaks lines at \x0b, U+2028 and others, which may be part of a name.
        lines = list(filter(None, map(str.strip, text.split("\n"), repeat(" \r"))))[skip:]
        names = separator.join(lines).split(separator) if lines else []
        widths = {separators + 1 for separators in set(map(str.count, lines, repeat(separator)))}
    names = list(map(str.strip, names))  # 'Paris' and 'Paris ' are one entity to a reader of the file
    if not widths <= {3} or "" in names:
        raise _fault(text, separator, where, skip)
    return names


def _numbered_rows(text: str, separator: str, where: str = "") -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the names, not yet stripped, of every line that is not blank."""
    lines = io.StringIO(text)  # ends lines at \n alone
    if separator not in QUOTING_SEPARATORS or '"' not in text:
        for number, line in enumerate(lines, start=1):
            if stripped := line.strip(" \r\n"):
                # Columns are often aligned with several spaces.
                yield number, re.split(" +", stripped) if separator == " " else stripped.split(separator)
        return
    # Strict, or an open quotation mark would swallow the rest of the file into one name.
    reader, number = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True), 1
    try:
        for row in reader:
            if len(row) > 1 or any(row):
                yield number, row
            number = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{where}, line {number}: cannot be cut into columns ({error}); "
            'quote whole names and double the marks inside them: "the ""Iron"" Lady"'
        ) from None


def _share_of_triples(text: str, separator: str, limit: int | None = None) -> float:
    """Return which share of the first `limit` lines has three columns when cut at the separator."""
    try:
        widths = [len(row) for _, row in islice(_numbered_rows(text, separator), limit)]
    except InputError:
        return 0.0
    return widths.count(3) / max(len(widths), 1)


def _guess_separator(text: str) -> str:
    """Return a tab or a comma if the first lines have one, else a space."""
    if any("\t" in line for line in islice(io.StringIO(text), SAMPLE_ROWS)):
        return "\t"
    # Names may have commas too, so spaces win where they alone make every line a triple; but
    # 'Paris, capital_of, France' is one either way, and there the comma is meant.
    commas, spaces = (_share_of_triples(text, separator, SAMPLE_ROWS) for separator in (",", " "))
    return " " if "," not in text or commas < spaces == 1.0 else ","


def _fault(text: str, separator: str, where: str, skip: int) -> InputError:
    """Return the error for the first line, after the first `skip`, that does not hold three names."""
    rows = islice(_numbered_rows(text, separator, where), skip, None)
    stripped = ((number, [name.strip() for name in row]) for number, row in rows)
    number, row = next((number, row) for number, row in stripped if len(row) != 3 or "" in row)
    if len(row) == 3:
        return _empty_name(f"{where}, line {number}", ROLES[row.index("")])
    advice, seen = _advice(text, text.split("\n")[number - 1], separator, len(row)), counted(len(row), "column")
    return InputError(f"{where}, line {number}: {seen}, expected 3 (head, relation, tail); {advice}")


def counted(count: int, noun: str) -> str:
    """Return '1 column', '2 columns', and so on."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _empty_name(place: str, role: str) -> InputError:
    """Return the error for a column without a name in it."""
    return InputError(f"{place}: the {role} is empty, expected a name; fill it in or leave the triple out")


def _advice(text: str, line: str, separator: str, columns: int) -> str:
    """Return what to do about a line with too few or too many columns."""
    for word, other in SEPARATORS.items():
        # Semicolons and pipes are rare as separators: one line alone does not speak for them.
        tested = text if other in ";|" else line
        if other != separator and other in line and _share_of_triples(tested, other) == 1.0:
            shown = "tab" if other == "\t" else repr(other)
            return f"is the separator a {word}? try --separator {shown}"
    if (columns == 1 and len(line.split()) > 3) or (columns > 3 and separator == " "):
        return "names with spaces in them need tabs between the columns"
    if columns < 3:
        return "complete the line or remove it"
    if separator in QUOTING_SEPARATORS:
        return f"put names with {separator!r} in them in quotation marks, or remove the other columns"
    return "keep only the columns of head, relation and tail, for example with cut -f1-3"


def _parse_parquet(data: bytes, where: str) -> Columns:
    """Return the columns that are named as head, relation and tail, or else the first three."""
    # Names stay as they are stored, blanks included: a typed file says exactly what its writer meant.
    polars = _package("polars", where)
    try:
        stored = list(polars.read_parquet_schema(io.BytesIO(data)))
        if len(stored) < 3:
            raise InputError(f"{where}: {counted(len(stored), 'column')}, expected 3 (head, relation, tail)")
        order = column_order(stored)
        chosen = [stored[place] for place in order or (0, 1, 2)]
        frame = polars.read_parquet(io.BytesIO(data), columns=chosen).cast(polars.String)
    except polars.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{where}: not a Parquet file of names ({reason}); write or download it again") from None
    columns = [frame[name].to_list() for name in chosen]
    for role, column in zip(ROLES, columns, strict=True):
        for missing in (None, ""):
            if missing in column:
                raise _empty_name(f"{where}, row {column.index(missing) + 1}", role)
    notes = [] if order else [f"columns taken as head, relation, tail: {', '.join(chosen)}"]
    if others := [name for name in stored if name not in chosen]:
        notes.append(f"columns left out: {', '.join(others)}")
    return _columns(where, columns, notes)


def _parse_rdf(data: bytes, where: str, syntax: str) -> Columns:
    """Return the statements between IRIs and blank nodes; a note says how many others were left out."""
    oxigraph = _package("pyoxigraph", where)
    rdf_format = getattr(oxigraph.RdfFormat, syntax)
    text = _decode(data, where)
    names, blank_nodes = list[str](), dict[str, str]()  # blank nodes in order of appearance

    def name(term: Any) -> str:
        value: str = term.value
        return value if isinstance(term, oxigraph.NamedNode) else blank_nodes.setdefault(value, f"_:{value}")

    named_graphs, left_out = False, {"literal values": 0, "quoted triples": 0}
    for quad in _statements(oxigraph, text, rdf_format, where):
        subject, value = quad.subject, quad.object
        if isinstance(value, oxigraph.Literal):
            left_out["literal values"] += 1
        elif isinstance(value, oxigraph.Triple) or isinstance(subject, oxigraph.Triple):
            left_out["quoted triples"] += 1
        else:
            names += name(subject), quad.predicate.value, name(value)
        if rdf_format.supports_datasets and not named_graphs:
            named_graphs = not isinstance(quad.graph_name, oxigraph.DefaultGraph)
    notes = [f"{counted(n, 'statement')} with {what} left out" for what, n in left_out.items() if n]
    if named_graphs:
        notes.append("named graphs ignored: all statements are read as one graph")
    if blank_nodes:
        names = _with_lasting_labels(names, blank_nodes, text)
    return _columns(where, (names[role::3] for role in range(3)), notes)


def _with_lasting_labels(names: list[str], labels: Iterable[str], text: str) -> list[str]:
    """Rename the blank nodes that have no label in the text: the parser draws one anew on every reading."""
    # They are numbered as they appear, behind a checksum: readings repeat, and nodes of two files stay apart.
    written = set(re.findall(r"\w{24,}", text))
    drawn = [label for label in labels if re.fullmatch("[0-9a-f]{24,32}", label) and label not in written]
    checksum = zlib.crc32(text.encode())
    lasting = {f"_:{label}": f"_:{checksum:08x}n{number}" for number, label in enumerate(drawn, start=1)}
    return [lasting.get(name, name) for name in names]


def _statements(oxigraph: Any, text: str, rdf_format: Any, where: str) -> Iterator[Any]:
    """Yield the statements of RDF text one by one."""
    try:
        if rdf_format == oxigraph.RdfFormat.RDF_XML and text:
            # The RDF parser gives no line numbers in XML and accepts a truncated file.
            expat.ParserCreate().Parse(text, True)
        # Lenient: published files are full of IRIs that break a rule or two, and here they are only names.
        yield from oxigraph.parse(text, rdf_format, lenient=True)
    except (SyntaxError, expat.ExpatError) as error:
        place = f"{where}, line {error.lineno}" if error.lineno else where
        seen = f"not valid {rdf_format.name} ({re.sub('^Parser error at [^:]*: ', '', str(error.args[0]))})"
        raise InputError(f"{place}: {seen}; mend it, or name the file by its true format") from None
