"""The map: a page that turns points of entities in the hand, with names, search, clusters and colours."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from procrustes_kge.errors import InputError
from procrustes_kge.explore.space.columns import Column
from procrustes_kge.explore.space.space import Space
from procrustes_kge.figures.colours import cluster_colours
from procrustes_kge.figures.map_print import FORMATS, printed_map
from procrustes_kge.figures.page import bundled, page, put_file_in_place
from procrustes_kge.words import either

FULL = 32767  # the coordinate of the farthest point: 16 bits, finer than a screen
SUFFIXES = (".html", *FORMATS)


def write_map(spaces: Sequence[Space], path: str | Path, force: bool = False) -> Path:
    """Write the map of one space, or of several side by side, in the format of the path's suffix: a page, or a picture.

    A file that exists is replaced only if this package wrote it and it has not changed since; `force` replaces any.
    """
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{target}: its suffix does not say what to write; use {either(SUFFIXES)}")
    content = map_page(spaces).encode("utf-8") if suffix == ".html" else printed_map(spaces, suffix)
    return put_file_in_place(target, content, force)


def map_page(spaces: Sequence[Space]) -> str:
    """Return the page of one space, or of several side by side, which turn together."""
    title = f"Map of {' and '.join(space.title or 'entities' for space in spaces)}"
    data = {"data": {"pictures": map_data(spaces)}}
    return page(title, '<main id="map"></main>', [bundled("map.css")], [bundled("map.js")], data)


def map_data(spaces: Sequence[Space]) -> list[dict[str, Any]]:
    """Return what the page's script reads: a picture for each space; the names of one that equal the first's once."""
    pictures: list[dict[str, Any]] = []
    first: list[str] = []
    for space in spaces:
        names = [space.entities.names[row] for row in space.shown.tolist()]
        labels = [space.entities.labels.get(name) for name in names] if space.entities.labels else None
        same = bool(pictures) and names == first and labels == pictures[0]["labels"]
        first = first or names
        written = {"names": None, "labels": None} if same else {"names": names, "labels": labels}
        pictures.append({**_described(space), **written})
    return pictures


def _described(space: Space) -> dict[str, Any]:
    largest = float(space.points.norm(dim=1).max()) or 1.0
    cluster = np.full(len(space.shown), -1, dtype="<i2")
    for index, each in enumerate(space.clusters):
        cluster[each.rows.numpy()] = index
    return {
        "title": space.title,
        "about": space.about,
        "notes": list(space.notes),
        "points": _base64((space.points / largest * FULL).round().numpy().astype("<i2")),
        "axes": space.axes.tolist() if space.method == "pca" else [],
        "axis": space.method.upper().replace("PCA", "PC"),
        "shares": list(space.shares),
        "cluster": _base64(cluster),
        "clusters": [
            {
                "name": each.name,
                "size": len(each.rows),
                "typical": space.typical(each),
                "topic": str(topic).replace(" %", "\N{NO-BREAK SPACE}%") if topic else None,
                "colour": list(colour),
            }
            for each, topic, colour in zip(space.clusters, space.topics, cluster_colours(space.clusters), strict=True)
        ],
        "degrees": _base64(space.degrees.numpy().astype("<i4")),
        "slots": [{"name": slot.name, "members": _base64(gaps(slot.rows))} for slot in space.slots],
        "columns": [_column(column) for column in space.columns],
    }


def _column(column: Column) -> dict[str, Any]:
    if column.words:
        return {"name": column.name, "words": list(column.words), "values": _base64(np.asarray(column.codes, "<i2"))}
    return {"name": column.name, "values": _base64(np.asarray(column.numbers, "<f4"))}


def gaps(rows: torch.Tensor) -> np.ndarray:
    """Return rising ids as the gaps between them, seven bits to a byte; the eighth says that more follow.

    >>> gaps(torch.tensor([0, 1, 300])).tolist()
    [1, 1, 171, 2]
    """
    steps = np.diff(rows.numpy(), prepend=-1)
    length = np.maximum(1, -(-np.frexp(steps.astype(np.float64))[1] // 7))  # bytes of each
    place = np.repeat(np.cumsum(length) - length, length)
    index = np.arange(int(length.sum())) - place
    parts = (np.repeat(steps, length) >> (7 * index)) & 127
    more = index < np.repeat(length, length) - 1
    return (parts | (more << 7)).astype(np.uint8)


def _base64(numbers: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers).tobytes()).decode("ascii")
