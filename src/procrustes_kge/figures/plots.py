"""The plots that figures are made of: lines named where they end, points named beside them, dots in rows, strips.

Each draws on given axes, in our style. A missing value is a gap. What is named returns its texts: none overlap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from procrustes_kge.figures.labels import FAR, box_of, placed, spread
from procrustes_kge.figures.style import INK, PAPER, QUIET, SMALL, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

Value = float | None
HALF = 7.0  # pixels: half of the room that a mark takes


@dataclass(frozen=True)
class Series:
    """A line: its name, its points, how it looks; None is a gap."""

    name: str
    xs: Sequence[float]
    ys: Sequence[Value]
    look: Look

    @property
    def last(self) -> tuple[float, float] | None:
        """The last point that there is."""
        there = [(x, y) for x, y in zip(self.xs, self.ys, strict=True) if y is not None and math.isfinite(y)]
        return there[-1] if there else None


@dataclass(frozen=True)
class Point:
    """A point of a plane, with a name beside it; the important ones take the best places."""

    name: str
    x: float
    y: float
    look: Look
    important: bool = False


@dataclass(frozen=True)
class Dots:
    """A row of dots beside a name: values, each with how it looks."""

    name: str
    values: Sequence[tuple[float, Look]]
    important: bool = False


def lines(axes: Axes, every: Iterable[Series], marked: bool = True) -> None:
    """Draw lines; `named_ends` writes their names where they end."""
    for each in every:
        ys = [math.nan if y is None else y for y in each.ys]
        (line,) = axes.plot(each.xs, ys, color=each.look.colour, linestyle=each.look.line)
        if marked:
            line.set_marker(each.look.marker)
            line.set_markerfacecolor(each.look.face)


def mark(axes: Axes, x: float, y: float, look: Look, size: float) -> None:
    """Draw one mark."""
    (drawn,) = axes.plot([x], [y], look.marker, color=look.colour, markersize=size, zorder=3)
    drawn.set_markerfacecolor(look.face)


def named_ends(axes: Axes, every: Iterable[Series]) -> list[Annotation]:
    """Write the names of lines right of the panel, each as near as possible to where its line ends.

    Titles, notes and all else that takes room come before: names are placed in the panel as it is.
    """
    from matplotlib.transforms import blended_transform_factory, offset_copy

    ends = [(each, each.last) for each in every if each.last is not None]
    ends.sort(key=lambda each: each[1][1])
    edge = blended_transform_factory(axes.transAxes, axes.transData)
    beside = offset_copy(edge, figure_of(axes), x=10, y=0, units="points")
    texts = [_beside(axes, each, end, beside) for each, end in ends]
    if texts:
        figure_of(axes).draw_without_rendering()  # finds the room that names take
        room, heights = axes.get_window_extent(), [box_of(text).height * 1.05 for text in texts]
        wanted = [float(axes.transData.transform(end)[1]) for _, end in ends]
        for text, place in zip(texts, spread(wanted, heights, room.y0, room.y1), strict=True):
            text.set_position((1.0, float(axes.transData.inverted().transform((room.x0, place))[1])))
    return texts


def _beside(axes: Axes, each: Series, end: tuple[float, float], beside: Any) -> Annotation:
    leader = {"arrowstyle": "-", "color": each.look.colour, "linewidth": 0.7, "alpha": 0.7}
    return axes.annotate(
        each.name,
        end,
        xytext=(1.0, end[1]),
        textcoords=beside,
        va="center",
        color=each.look.colour,
        fontsize=SMALL,
        annotation_clip=False,
        arrowprops={**leader, "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 4},
    )


def points(axes: Axes, every: Sequence[Point], avoid: Sequence[tuple[float, float]] = ()) -> list[Annotation]:
    """Draw points, and write their names beside them where they cover least of what is there already.

    `avoid` are corners of a line of steps, which names avoid too. Titles, notes and all else that takes room come before.
    """
    for each in every:
        mark(axes, each.x, each.y, each.look, 9.0 if each.important else 6.5)
    figure = figure_of(axes)
    figure.draw_without_rendering()
    extent = axes.get_window_extent()
    room = extent.x0, extent.y0, extent.x1, extent.y1
    marks = [axes.transData.transform((each.x, each.y)).tolist() for each in every]
    corners = [axes.transData.transform(corner).tolist() for corner in avoid]
    steps = [step for (a, b), (c, d) in pairwise(corners) for step in ((a, b - 1, c, b + 1), (c - 1, b, c + 1, d))]
    texts = [_name(axes, each) for each in every]
    sizes = [(box_of(text).width, box_of(text).height) for text in texts]
    order = sorted(range(len(every)), key=lambda index: not every[index].important)
    for index, (right, up) in enumerate(placed(marks, sizes, order, HALF, steps, room)):
        inch, (wide, high) = 72 / figure.dpi, sizes[index]
        texts[index].set_position((right * inch, up * inch))
        if max(up, -up - high) > (FAR - 0.5) * high - 1:
            start = min(max(0.0, right), right + wide) * inch, (up if up > 0 else up + high) * inch
            _leader(axes, every[index], start)
    return texts


def _leader(axes: Axes, each: Point, start: tuple[float, float]) -> None:
    """Draw a thin line from the name of a point to the point; `start` is in points from there."""
    line = {"arrowstyle": "-", "color": QUIET, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
    axes.annotate("", (each.x, each.y), xytext=start, textcoords="offset points", arrowprops=line)


def _name(axes: Axes, each: Point) -> Annotation:
    """Write the name of a point; where, is found out afterwards."""
    return axes.annotate(
        each.name,
        (each.x, each.y),
        xytext=(0, 0),
        textcoords="offset points",
        fontsize=SMALL,
        fontweight="bold" if each.important else "normal",
        color=each.look.colour if each.important or each.look.hollow else INK,
        bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.3},  # above lines, below marks
        zorder=2.5,
    )


def frontier(axes: Axes, every: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Draw and return the frontier: points than which none has at most their x and more y, from left to right."""
    best: list[tuple[float, float]] = []
    for x, y in sorted(every, key=lambda each: (each[0], -each[1])):
        if not best or y > best[-1][1]:
            best.append((x, y))
    if best:
        axes.plot(*zip(*best, strict=True), drawstyle="steps-post", color=QUIET, linewidth=1.2, zorder=1)
    return best


def dot_rows(axes: Axes, rows: Sequence[Dots], show: Callable[[float], str] | None = None) -> None:
    """Draw a row of dots for each name, the first on top; names are at the left, and values in words above dots."""
    for place, row in enumerate(reversed(rows)):
        for value, look in row.values:
            mark(axes, value, place, look, 7.5 if row.important else 6.0)
            if show is not None:
                above(axes, show(value), value, place, 6)
    _rows_named(axes, [row.name for row in rows])
    for label, row in zip(axes.get_yticklabels(), reversed(rows), strict=True):
        label.set_fontweight("bold" if row.important else "normal")


def strips(axes: Axes, groups: Sequence[tuple[str, Sequence[float], Look]], show: Callable[[float], str]) -> None:
    """Draw the values of each group as dots in a row, with their mean and standard deviation above, in words too."""
    for place, (_, values, look) in enumerate(reversed(groups)):
        for value in values:
            mark(axes, value, place, Look(look.colour, look.marker, hollow=True), 6.5)
        if not values:
            continue
        middle, words = mean(values), show(mean(values))
        if len(values) > 1:
            apart = stdev(values)
            words += f" ± {show(apart)}"
            axes.plot([middle - apart, middle + apart], [place + 0.3] * 2, color=look.colour, linewidth=3)
        axes.plot([middle], [place + 0.3], "|", color=INK, markersize=12, markeredgewidth=2)
        above(axes, words, middle, place + 0.3, 9)
    _rows_named(axes, [name for name, *_ in groups])
    axes.margins(x=0.12)


def above(axes: Axes, words: str, x: float, y: float, points: float) -> None:
    """Write words above a place, by so many points."""
    axes.annotate(words, (x, y), xytext=(0, points), textcoords="offset points", ha="center", fontsize=SMALL, color=INK)


def _rows_named(axes: Axes, names: Sequence[str]) -> None:
    """Write the names of rows at the left, the first on top."""
    axes.set_yticks(range(len(names)), list(reversed(names)))
    axes.set_ylim(-0.6, len(names) - 0.2)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelcolor=INK)


def noted(drawn: Figure, notes: Sequence[str]) -> None:
    """Write notes below the panels, each on lines of its own: what is missing, and why."""
    import textwrap

    if notes:
        text = "\n".join(textwrap.fill(note, 110) for note in notes)
        drawn.supxlabel(text, x=0.01, ha="left", fontsize=SMALL, color=QUIET)


def logarithmic(axes: Axes, which: str, unit: str = "", most: int = 6) -> None:
    """Make an axis of a panel logarithmic, after all is drawn, with at most so many numbers on it, none as a power."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    getattr(axes, f"set_{which}scale")("log")
    axis: Any = getattr(axes, f"{which}axis")
    low, high = sorted(getattr(axes, f"get_{which}lim")())
    axis.set_major_locator(FixedLocator(ticks(low, high, most)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain(value) + (f" {unit}" if unit else "")))


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers between two that are above 0: powers of ten, fewer or more of them as there is room.

    >>> ticks(0.3, 2000, 6), ticks(0.3, 2000, 2), ticks(3, 60, 4), ticks(300, 310, 6)
    ([1.0, 10.0, 100.0, 1000.0], [1.0, 100.0], [5.0, 10.0, 20.0, 50.0], [])
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = [float(f"{digit}e{power}") for power in range(first, last + 1) for digit in (1, 2, 5)]
    found = [step for step in steps if low <= step <= high]
    if len(found) > most:
        tens = [step for step in found if f"{step:e}"[0] == "1"]
        found = tens[:: -(-len(tens) // most)] if len(tens) > 1 else found[:: -(-len(found) // most)]
    return found


def plain(value: float) -> str:
    """Return a number as people write it.

    >>> plain(0.01), plain(0.00001), plain(20), plain(1e4), plain(2e6), plain(1e9)
    ('0.01', '0.00001', '20', '10,000', '2 million', '1,000 million')
    """
    if value >= 1e6:
        return f"{value / 1e6:,.12g} million"
    return f"{value:,.12f}".rstrip("0").rstrip(".")


def figure_of(axes: Axes) -> Figure:
    """Return the figure that a panel belongs to."""
    found: Any = axes.get_figure(root=True)
    return found
