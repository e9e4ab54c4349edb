"""A table of PostgreSQL, as SQL that `psql -f` loads: in one transaction, so that it is there whole or not at all.

With pgvector the column is vector(d), which the server compares; without it real[], which every server has.
"""

from __future__ import annotations

from pathlib import Path

from procrustes_kge.errors import InputError
from procrustes_kge.runs.exchange.content import Content, cell, text_of

MOST_NUMBERS, MOST_INDEXED = 16_000, 2_000  # that pgvector stores in a vector, and has an index for
LONGEST_IDENTIFIER = 63  # bytes; the server cuts off the rest
ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r", "\b": r"\b", "\f": r"\f", "\v": r"\v"})


def write_pgvector(scratch: Path, name: str, content: Content) -> list[Path]:
    """Write SQL that makes a table with a column of pgvector."""
    table = content.vectors("pgvector")
    if table.shape[1] > MOST_NUMBERS:
        seen = f"vectors of {table.shape[1]:,} numbers, and pgvector stores {MOST_NUMBERS:,} at most"
        raise InputError(f"{seen}; use --format postgresql, which has them as real[]")
    indexed = table.shape[1] <= MOST_INDEXED
    hint = (
        ["-- For fast approximate search: CREATE INDEX ON {table} USING hnsw (vector vector_ip_ops);"]
        if indexed
        else []
    )
    return _write(
        scratch / name, content, f"vector({table.shape[1]})", "[]", ["CREATE EXTENSION IF NOT EXISTS vector;"], hint
    )


def write_plain(scratch: Path, name: str, content: Content) -> list[Path]:
    """Write SQL that makes a table with a column of real numbers, for a server without pgvector."""
    return _write(scratch / name, content, "real[]", "{}", [], [])


def _write(path: Path, content: Content, type: str, brackets: str, before: list[str], hint: list[str]) -> list[Path]:
    vectors, names, table = content.vectors("PostgreSQL"), content.names, _identifier(path.stem)
    label = "label text, " if names.labels else ""
    columns = f"id integer PRIMARY KEY, name text NOT NULL, {label}vector {type} NOT NULL"
    head = ["BEGIN;", "SET LOCAL client_encoding = 'UTF8';", *before, f"CREATE TABLE {table} ({columns});"]
    copied = "id, name, label, vector" if names.labels else "id, name, vector"
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"{line}\n" for line in [*head, f"COPY {table} ({copied}) FROM stdin;"])
        for row, (each, vector) in enumerate(zip(names, vectors, strict=True)):
            texts = [_escaped(each), *([_escaped(names.label(row))] if names.labels else [])]
            numbers = brackets[0] + ",".join(map(cell, vector.tolist())) + brackets[1]
            file.write("\t".join([str(row), *texts, numbers]) + "\n")
        # A hash has room for names of any length, a tree has not.
        last = ["\\.", f"CREATE INDEX ON {table} USING hash (name);", "COMMIT;", *hint]
        file.writelines(f"{line.format(table=table)}\n" if line.startswith("--") else f"{line}\n" for line in last)
    return [path]


def _identifier(name: str) -> str:
    """Return a name as an identifier, in quotation marks.

    >>> _identifier('my "best" run')
    '"my ""best"" run"'
    """
    cut = text_of(name, "PostgreSQL").encode()[:LONGEST_IDENTIFIER].decode(errors="ignore")
    return '"' + cut.replace('"', '""') + '"'


def _escaped(name: str) -> str:
    if "\0" in name:
        raise InputError(f"the name {name[:40]!a} has a NUL character in it, which PostgreSQL cannot hold; use npy")
    return text_of(name, "PostgreSQL").translate(ESCAPES)
