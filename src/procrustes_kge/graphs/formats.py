"""From a file to three columns of names, in the format that its suffix names, plain or packed.

Nothing here knows of ids, graphs or splits. Delimited text and gzip need the standard library alone; the
packages for the other formats are imported where they are used.
"""

from collections.abc import Sequence
from pathlib import Path

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.columns import Columns
from procrustes_kge.graphs.contents import RDF_SYNTAXES, SUFFIXES as SUFFIXES, file_bytes, suffixes, unpacked
from procrustes_kge.graphs.delimited import parse_delimited
from procrustes_kge.graphs.rdf import parse_rdf
from procrustes_kge.graphs.tables import parse_parquet


def read_columns(
    path: Path,
    separator: str | None = None,
    header: bool | None = None,
    wanted: Sequence[str] | None = None,
    data: bytes | None = None,
) -> Columns:
    """Read a file in the format that its suffix names; with an unknown suffix, as delimited text.

    `separator` and `header` matter to delimited text only: None means that they are guessed. `wanted` are the columns
    of head, relation and tail, by name or number. `data` are the bytes where they have been read already.
    """
    suffix, packing = suffixes(path)
    data, where = unpacked(file_bytes(path) if data is None else data, str(path), packing), str(path)
    if suffix == ".parquet":
        return parse_parquet(data, where, wanted)
    if suffix in RDF_SYNTAXES:
        if wanted:
            raise InputError(f"{where}: RDF has no columns to choose {', '.join(wanted)} from; leave --columns out")
        return parse_rdf(data, where, RDF_SYNTAXES[suffix])
    return parse_delimited(data, where, separator, header, wanted)


def is_triples_file(path: Path) -> bool:
    """Say from the name alone whether a file is likely to hold triples: a suffix of `SUFFIXES`, or none."""
    return not path.name.startswith(".") and suffixes(path)[0] in ("", *SUFFIXES)
