"""What bytes hold that no suffix tells: standard input, and files that are named otherwise than they are."""

import re

from procrustes_kge.errors import InputError

PACKED = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}
FOREIGN = {  # the first bytes of what is not read, and what to do with it
    b"PK\x03\x04": "is a zip archive or a spreadsheet; name it .zip if it holds triples, or save the sheet as CSV",
    b"BZh": "is packed with bzip2; unpack it, or pack it with gzip",
    b"\xfd7zXZ": "is packed with xz; unpack it, or pack it with gzip",
    b"ARROW1": "is an Arrow file; write it as Parquet",
    b"<!DOCTYPE html": "is a web page, as a failed download may leave; download the file again",
    b"<html": "is a web page, as a failed download may leave; download the file again",
}
JSON = (".json", ".jsonl", ".ndjson", ".jsonld")
JSON_START = re.compile(rb"\s*(\{|\[\s*[\[{])\s*\"")
TAR = (257, b"ustar")  # where the word stands in the first block
# Nothing in these is tried in two ways: a line made for it would take for ever.
_IRI, _NODE = rb"<[^<>\"]*+>", rb"_:(?:[^\s<>\".]|\.(?=[^\s<>\".]))++"
_LITERAL = rb"\"(?:[^\"\\]|\\.)*+\"(?:@[\w-]++|\^\^%b)?+" % _IRI
_LINKED = rb"(?:%b|%b)" % (_IRI, _NODE)
# A line of N-Triples or N-Quads ends in a dot, which a line of three columns has no room for.
STATEMENT = re.compile(
    rb"%b\s*+%b\s*+(?:%b|%b)\s*+%b?+\s*+\.\s*+(?:#.*)?" % (_LINKED, _IRI, _LINKED, _LITERAL, _LINKED)
)
DIRECTIVE = re.compile(rb"@prefix\s|@base\s|prefix\s+\S*:\s*<|base\s*<", re.IGNORECASE)
XML = re.compile(rb"<\?xml\s|<rdf:RDF\s")
SPOKEN = {".parquet": "Parquet", ".nq": "N-Triples", ".trig": "Turtle", ".rdf": "RDF/XML"}


def packing_of(data: bytes) -> str:
    """Return the suffix of what bytes are packed with, '' where they are not."""
    return next((suffix for start, suffix in PACKED.items() if data.startswith(start)), "")


def format_of(data: bytes) -> str:
    """Return the suffix of the format that the first line speaks of, '' for anything else.

    N-Quads hold N-Triples, and TriG holds Turtle.
    """
    if data.startswith(b"PAR1"):
        return ".parquet"
    lines = (line.strip() for line in data[:65_536].removeprefix(b"\xef\xbb\xbf").splitlines())
    first = next((line for line in lines if line and not line.startswith(b"#")), b"")
    spoken = {".nq": STATEMENT.fullmatch(first), ".trig": DIRECTIVE.match(first), ".rdf": XML.match(first)}
    return next((suffix for suffix, found in spoken.items() if found), "")


def refuse_foreign(data: bytes, where: str, suffix: str) -> None:
    """Refuse formats that are not read."""
    start = data[:64].lstrip()
    for mark, seen in FOREIGN.items():
        if start[: len(mark)].lower() == mark.lower():
            raise InputError(f"{where}: {seen}")
    place, mark = TAR
    if data[place : place + len(mark)] == mark:
        raise InputError(f"{where}: is a tar archive; unpack it, and name the folder or the file of triples in it")
    if suffix in JSON or JSON_START.match(data.removeprefix(b"\xef\xbb\xbf")):
        raise InputError(f"{where}: JSON is not read; write a line for each triple, with tabs between the names")
