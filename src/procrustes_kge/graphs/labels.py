"""Readable labels given by the user, as a mapping or a file."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.columns import check_characters
from procrustes_kge.graphs.contents import RDF_SYNTAXES, decode, file_bytes, suffixes, unpacked
from procrustes_kge.graphs.delimited import numbered_rows
from procrustes_kge.graphs.rdf import rdf_labels
from procrustes_kge.graphs.recognising import packing_of
from procrustes_kge.graphs.values import name_of
from procrustes_kge.words import counted


def read_labels(source: str | Path | Mapping[str, Any], max_unpacked: int | None = None) -> dict[str, str]:
    """Read the label of each name that has one; if a name has several, the first counts.

    A file that ends in .json holds an object; RDF holds rdfs:label; any other file has a name and a label on each line,
    separated by a tab or, if the file has no tabs, by a comma. Any file may be compressed.
    """
    if isinstance(source, Mapping):
        return _clean(source.items())
    if not isinstance(source, str | os.PathLike):
        raise InputError(f"labels {source!r}, expected a mapping of names to labels, or the path of a file of them")
    path, where = Path(source), str(source)
    suffix, packing = suffixes(path)
    data = file_bytes(path, "a file of names and labels")
    data = unpacked(data, where, packing or packing_of(data), max_unpacked)
    if data.startswith(b"PAR1"):
        raise InputError(f"{where}: labels are not read from Parquet; write them as .csv, .tsv or .json")
    if suffix in RDF_SYNTAXES:
        return _clean(rdf_labels(data, where, RDF_SYNTAXES[suffix], max_unpacked).items(), where)
    text = decode(data, where)
    labels = _clean(_from_json(text, where) if suffix == ".json" else _from_lines(text, where), where)
    if not labels:
        raise InputError(f"{where}: holds no labels; expected a name and its label on each line")
    return labels


def _clean(pairs: Iterable[tuple[str, Any]], where: str = "labels") -> dict[str, str]:
    labels: dict[str, str] = {}
    for name, label in pairs:
        try:
            text = name_of(label).strip()
        except (TypeError, ValueError):
            raise InputError(f"{where}: the label of {name!r} is {label!r:.60}, expected text or a number") from None
        if text:
            labels.setdefault(str(name).strip(), text)
    check_characters(where, "name", [*labels])
    check_characters(where, "label", [*labels.values()])
    return labels


def _from_json(text: str, where: str) -> Iterable[tuple[str, str | None]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{where}: not valid JSON ({error}); fix it, or call it .tsv or .csv if it has a line for each name"
        ) from None
    if not isinstance(found, dict) or not all(isinstance(label, str | None) for label in found.values()):
        raise InputError(f'{where}: expected a JSON object of names and labels, such as {{"Q90": "Paris"}}')
    return found.items()


def _from_lines(text: str, where: str) -> Iterable[tuple[str, str]]:
    separator = "\t" if "\t" in text else ","
    for number, row in numbered_rows(text, separator, where):
        if len(row) != 2:
            seen = f"{where}, line {number}: {counted(len(row), 'column')}, expected 2 (name, label)"
            remedy = "put labels that contain ',' in quotation marks" if len(row) > 2 else "complete or remove the line"
            raise InputError(f"{seen}; {remedy if separator == ',' or len(row) < 2 else 'remove the other columns'}")
        yield row[0], row[1]
