"""The map for print: each space from two sides, its clusters labelled in the picture and listed under it."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from procrustes_kge.errors import printable
from procrustes_kge.explore.space.space import Space
from procrustes_kge.figures.colours import Colour, cluster_colours
from procrustes_kge.system.extras import package

FORMATS = (".svg", ".png", ".pdf")
VIEWS = ((0, 1), (0, 2))  # components across and up
PLAIN = "#b9bbc2"
MOST_LISTED = 30
LONGEST = 28  # characters of a name
PANEL = 3.6  # inches
APART = (0.07, 0.035)  # of a picture, across and up: as near as this, one tag would hide another
LINE = 0.17
STYLE = {
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "procrustes",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
GLYPHS = "some names have letters that the picture's font lacks; the .html shows them, and so does the .svg"


def printed_map(spaces: Sequence[Space], suffix: str) -> bytes:
    """Return the picture of some spaces, a row for each, as a file of this suffix."""
    matplotlib = package("matplotlib", f"the map as {suffix[1:].upper()}")
    figure_class = import_module("matplotlib.figure").Figure
    with matplotlib.rc_context(STYLE), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        listed = [_listed(space) for space in spaces]
        heights = [height for lines in listed for height in (PANEL, LINE * (len(lines) + 1))]
        figure = figure_class(figsize=(2 * PANEL, sum(heights) + 0.3), layout="constrained")
        grid = figure.add_gridspec(2 * len(spaces), len(VIEWS), height_ratios=heights)
        for row, (space, lines) in enumerate(zip(spaces, listed, strict=True)):
            for column, view in enumerate(VIEWS):
                _draw(figure.add_subplot(grid[2 * row, column]), space, view)
            _write(figure.add_subplot(grid[2 * row + 1, :]), lines, cluster_colours(space.clusters)[:MOST_LISTED])
        content = io.BytesIO()
        # Without the date, a run gives the same file.
        date = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix)
        figure.savefig(content, format=suffix[1:], dpi=200, metadata=date)
    _pass_on(said, suffix)
    return content.getvalue()


def _draw(axes: Any, space: Space, view: tuple[int, int]) -> None:
    points = space.points[:, list(view)].numpy()
    colours = np.full((len(points), 3), [int(PLAIN[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    order = np.zeros(len(points), dtype=bool)
    for cluster, colour in zip(space.clusters, cluster_colours(space.clusters), strict=True):
        colours[cluster.rows.numpy()] = np.asarray(colour) / 255
        order[cluster.rows.numpy()] = True
    rank = np.argsort(order, kind="stable")  # clusters over the others
    size = float(np.clip(4000 / max(1, len(points)), 0.4, 18))
    # Tens of thousands of points are a picture in the picture; the words stay words.
    axes.scatter(*points[rank].T, s=size, c=colours[rank], linewidths=0, rasterized=len(points) > 2000)
    box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
    for middle, text in _tags(space, points):
        axes.text(*middle, text, fontsize=8, fontweight="bold", ha="center", va="center", bbox=box)
    name = "PC" if space.method == "pca" else space.method.upper()
    for which, put in zip(view, (axes.set_xlabel, axes.set_ylabel), strict=True):
        turned = not np.allclose(space.axes.numpy(), np.eye(3))
        share = f", {100 * space.shares[which]:.1f} % of the variance" if space.shares and not turned else ""
        put(f"{name} {which + 1}{' (turned)' if turned else ''}{share}")
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xticks([])
    axes.set_yticks([])


def _tags(space: Space, points: np.ndarray) -> list[tuple[np.ndarray, str]]:
    """Return the tags of a view, each at the middle of its cluster; clusters that lie in one place share a tag."""
    apart = np.asarray(APART) * float(np.ptp(points, axis=0).max(initial=1e-9))
    tags: list[tuple[np.ndarray, list[str]]] = []
    for cluster in space.clusters[:MOST_LISTED]:
        middle = np.median(points[cluster.rows.numpy()], axis=0)
        near = next((names for other, names in tags if (np.abs(middle - other) < apart).all()), None)
        if near is None:
            tags.append((middle, [cluster.name]))
        else:
            near.append(cluster.name)
    return [(middle, " ".join(names)) for middle, names in tags]


def _write(axes: Any, lines: Sequence[str], colours: Sequence[Colour]) -> None:
    """Write a heading and lines under it; the first of them begin with dots of these colours."""
    axes.axis("off")
    axes.set(xlim=(0, 1), ylim=(len(lines), 0))
    places = np.arange(1, len(colours) + 1) + 0.5
    axes.scatter(np.full(len(colours), 0.006), places, s=16, c=np.asarray(colours).reshape(-1, 3) / 255, clip_on=False)
    for place, line in enumerate(lines):
        look: dict[str, Any] = {"fontweight": "bold"} if place == 0 else {}
        x = 0.02 if 0 < place <= len(colours) else 0
        # Without mathematics: a name may hold dollar signs.
        axes.text(x, place + 0.5, line, va="center", fontsize=8, parse_math=False, **look)


def _listed(space: Space) -> list[str]:
    lines = [_short(f"{space.title}   {space.about}", 110)]
    for cluster, topic in list(zip(space.clusters, space.topics, strict=True))[:MOST_LISTED]:
        typical = ", ".join(_short(label) for label in space.typical(cluster, 3))
        said = f"   ({_short(str(topic), 2 * LONGEST)})" if topic else ""
        lines.append(f"{cluster.name}   {len(cluster.rows):,}   {typical}{said}")
    if not space.clusters:
        lines.append("no clusters: no direction stands out from chance")
    if (more := len(space.clusters) - MOST_LISTED) > 0:
        lines.append(f"and {more} more")
    return [*lines, *(_short(note, 130) for note in space.notes)]


def _short(text: str, most: int = LONGEST) -> str:
    text = printable(text)
    return text if len(text) <= most else text[: most - 1] + "…"


def _pass_on(said: Sequence[warnings.WarningMessage], suffix: str) -> None:
    """Say once what matplotlib says of each letter; other warnings as they are."""
    glyphs = [each for each in said if "Glyph" in str(each.message)]
    if glyphs and suffix != ".svg":
        warnings.warn(GLYPHS, stacklevel=3)
    for each in said:
        if each not in glyphs:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
