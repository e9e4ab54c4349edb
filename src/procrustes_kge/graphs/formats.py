"""From a file to three columns of names, in the format that its suffix or its content names, plain or packed.

Nothing here knows of ids, graphs or splits. Delimited text and gzip need the standard library alone; the
packages for the other formats are imported where they are used.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.columns import Columns
from procrustes_kge.graphs.contents import RDF_SYNTAXES, SUFFIXES as SUFFIXES, file_bytes, suffixes, unpacked
from procrustes_kge.graphs.delimited import parse_delimited
from procrustes_kge.graphs.parquet import parse_parquet
from procrustes_kge.graphs.rdf import parse_rdf
from procrustes_kge.graphs.recognising import SPOKEN, format_of, packing_of, refuse_foreign


def read_columns(
    path: Path,
    separator: str | None = None,
    header: bool | None = None,
    wanted: Sequence[str] | None = None,
    data: bytes | None = None,
    max_unpacked: int | None = None,
) -> Columns:
    """Read a file in the format that its suffix names, or else its content; as delimited text where neither does.

    `separator` and `header` matter to delimited text only: None means that they are guessed. `wanted` are the columns
    of head, relation and tail, by name or number. `data` are the bytes where they have been read already. More than
    `max_unpacked` bytes are not unpacked; None: as many as `limits` allows.
    """
    (suffix, packing), where = suffixes(path), str(path)
    if data is None:
        data = file_bytes(path)
        packing = packing or packing_of(data)
    else:
        packing = packing_of(data)  # an open file is often unpacked as it is read, whatever its name
    data, notes = unpacked(data, where, packing, max_unpacked), tuple[str, ...]()
    if suffix != ".parquet" and suffix not in RDF_SYNTAXES:
        refuse_foreign(data, where, suffix)
        suffix = format_of(data) if separator is None else ""
        notes = (f"read as {SPOKEN[suffix]}, by its content",) if suffix else ()
    if suffix == ".parquet":
        columns = parse_parquet(data, where, wanted, max_unpacked)
    elif suffix not in RDF_SYNTAXES:
        columns = parse_delimited(data, where, separator, header, wanted)
    elif wanted:
        raise InputError(f"{where}: RDF has no columns to choose {', '.join(wanted)} from; leave --columns out")
    else:
        columns = parse_rdf(data, where, RDF_SYNTAXES[suffix], max_unpacked)
    return replace(columns, notes=(*notes, *columns.notes))


def is_triples_file(path: PurePath) -> bool:
    """Say from the name alone whether a file is likely to hold triples: a suffix of `SUFFIXES`, or none."""
    return not path.name.startswith(".") and suffixes(path)[0] in ("", *SUFFIXES)
