"""Charts as SVG within a page: drawn here, so that no page needs a library, or a network.

Colours and type are those of the page, by classes `s0`, `s1` …; series differ in dashes too, so that grey paper tells
them apart. Every chart has a title that is read out, and every number in it stands in a table beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from procrustes_kge.figures.markup import Content, Markup, element

SERIES = 6  # colours
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 4", "10 4")
LONGEST_LABEL = 34  # characters
MOST_DOTS = 60  # of a line: more hide it


@dataclass(frozen=True)
class Series:
    """Points that belong together."""

    name: str
    points: Sequence[tuple[float, float]]
    number: int = 0  # of its colour

    @property
    def shown(self) -> list[tuple[float, float]]:
        """The points that are numbers."""
        return [(x, y) for x, y in self.points if math.isfinite(x) and math.isfinite(y)]


@dataclass(frozen=True)
class Frame:
    """The room of a chart, and what its sides stand for."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: int = 420
    height: int = 240
    left: int = 48
    bottom: int = 36

    def across(self, value: float) -> float:
        """Return where a value lies from left to right."""
        low, high = self.x
        return self.left + (value - low) / (high - low or 1) * (self.width - self.left - 12)

    def up(self, value: float) -> float:
        """Return where a value lies from the top down."""
        low, high = self.y
        return self.height - self.bottom - (value - low) / (high - low or 1) * (self.height - self.bottom - 12)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers from low to high.

    >>> ticks(0, 1), ticks(0, 43)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 10.0, 20.0, 30.0, 40.0])
    """
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return [low]
    rough = span / most
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * each for each in (1, 2, 5, 10) if size * each >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(float(number * step), 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def picture(title: str, width: int, height: int, *parts: Content, class_: str = "chart") -> Markup:
    """Return a chart; its title is what a screen reader says."""
    box = f"0 0 {width} {height}"
    return element(
        "svg", element("title", title), *parts, viewBox=box, role="img", aria_label=title, class_=class_, width=width
    )


def text(x: float, y: float, words: str, anchor: str = "middle", class_: str | None = None) -> Markup:
    """Return words at a place."""
    return element("text", words, x=round(x, 1), y=round(y, 1), text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """Return a straight line."""
    return element("line", x1=round(x1, 1), y1=round(y1, 1), x2=round(x2, 1), y2=round(y2, 1), class_=class_)


def axes(frame: Frame, x_label: str, y_label: str, written: Callable[[float], str] = "{:g}".format) -> list[Markup]:
    """Return both axes with a grid, round numbers and words."""
    parts = []
    for value in ticks(*frame.y, most=5):
        y = frame.up(value)
        parts += [line(frame.left, y, frame.width - 12, y, "grid"), text(frame.left - 6, y + 4, written(value), "end")]
    for value in ticks(*frame.x):
        parts.append(text(frame.across(value), frame.height - frame.bottom + 16, f"{value:g}"))
    parts.append(text((frame.left + frame.width) / 2, frame.height - 4, x_label, class_="axis"))
    return [*parts, text(4, 10, y_label, "start", class_="axis")]


def line_chart(title: str, series: Sequence[Series], x_label: str, y_label: str) -> Markup | None:
    """Return lines through points; None without a point."""
    shown = [each for each in series if each.shown]
    if not shown:
        return None
    xs, ys = zip(*(point for each in shown for point in each.shown), strict=True)
    low, high = min(ys), max(ys)
    room = (high - low) * 0.05 or abs(high) * 0.1 or 1.0
    bottom = low - room if low < 0 or low > 2 * room else 0.0
    frame = Frame((min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1), (bottom, high + room))
    parts = axes(frame, x_label, y_label)
    for each in shown:
        places = [(frame.across(x), frame.up(y)) for x, y in sorted(each.shown)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        dashes = DASHES[each.number % len(DASHES)] or None
        class_ = f"line s{each.number % SERIES}"
        parts.append(element("polyline", points=path, class_=class_, stroke_dasharray=dashes))
        if len(places) <= MOST_DOTS:
            said = [f"{each.name}: {y:.4g} at {x:g}" for x, y in sorted(each.shown)]
            parts += [_dot(x, y, 2.2, each.number, words) for (x, y), words in zip(places, said, strict=True)]
    return picture(title, frame.width, frame.height, parts)


def _dot(x: float, y: float, radius: float, number: int, words: str) -> Markup:
    title = element("title", words) if words else None
    colour = f"dot s{number % SERIES}" if number >= 0 else "dot other"
    return element("circle", title, cx=round(x, 1), cy=round(y, 1), r=radius, class_=colour)


def columns(title: str, values: Sequence[tuple[str, float]], x_label: str, y_label: str) -> Markup:
    """Return columns side by side, each with its number above it."""
    frame = Frame((0, len(values)), (0, max((value for _, value in values), default=0) * 1.1 or 1), left=12)
    room = (frame.width - frame.left - 12) / max(1, len(values))
    parts = [line(frame.left, frame.up(0), frame.width - 12, frame.up(0), "grid")]
    for place, (label, value) in enumerate(values):
        x, y = frame.left + room * (place + 0.1), frame.up(value)
        size = {"width": round(room * 0.8, 1), "height": round(max(frame.up(0) - y, 0.5 if value else 0), 1)}
        said = element("title", f"{label}: {value:,}")
        parts.append(element("rect", said, x=round(x, 1), y=round(y, 1), class_="bar s0", **size))
        parts.append(text(x + room * 0.4, frame.up(0) + 14, label, class_="small"))
        parts.append(text(x + room * 0.4, y - 3, _short(value), class_="small"))
    parts.append(text(frame.width / 2, frame.height - 4, x_label, class_="axis"))
    return picture(title, frame.width, frame.height, parts, text(4, 10, y_label, "start", class_="axis"))


def _short(value: float) -> str:
    """Return a count in few characters: 950, 12k, 3.4M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= 10 * size or (letter == "M" and value >= size):
            return f"{value / size:.3g}{letter}"
    return f"{value:,.0f}"


def bars(title: str, values: Sequence[tuple[str, float, str]], highest: float = 1.0, number: int = 0) -> Markup:
    """Return a bar for each label, one below the other, with its value in words."""
    left, width, row = 230, 420, 20
    parts: list[Markup] = []
    for place, (label, value, words) in enumerate(values):
        y = place * row + 4
        long = max(0.0, min(1.0, value / highest)) * (width - left - 44)
        shown = label if len(label) <= LONGEST_LABEL else f"…{label[1 - LONGEST_LABEL :]}"
        parts += [
            element("g", element("title", f"{label}: {words}"), text(left - 6, y + 11, shown, "end", class_="small")),
            element("rect", x=left, y=y, width=round(long, 1), height=row - 6, class_=f"bar s{number % SERIES}"),
            text(left + long + 5, y + 11, words, "start", class_="small"),
        ]
    return picture(title, width, max(1, len(values)) * row + 6, parts)


def scatter(
    title: str,
    points: Sequence[Sequence[float]],
    kinds: Sequence[int],
    names: Sequence[str],
    marks: Sequence[tuple[str, float, float]] = (),
    size: int = 420,
) -> Markup:
    """Return points in a square, coloured by kind (−1: none), with words at places.

    Each point says its name where a mouse rests on it.
    """
    sides = [(min(values), max(values)) for values in zip(*points, strict=True)] or [(-1.0, 1.0)] * 2
    reach = max(high - low for low, high in sides) / 2 * 1.04 or 1.0  # alike for both, so that nothing is stretched
    (left, right), (bottom, top) = sides
    half, radius = size / 2, 2.0 if len(points) > 500 else 4.0

    def place(x: float, y: float) -> tuple[float, float]:
        return half + (x - (left + right) / 2) / reach * half, half - (y - (bottom + top) / 2) / reach * half

    dots = [_dot(*place(*point), radius, kind, words) for point, kind, words in zip(points, kinds, names, strict=True)]
    words = [text(place(x, y)[0], place(x, y)[1] + 4, word, class_="mark") for word, x, y in marks]
    return picture(title, size, size, dots, words, class_="chart cloud")


def legend(names: Sequence[tuple[str, int]], lines: bool = True) -> Markup:
    """Return what the colours, and the dashes of lines, stand for, as a list."""
    items = [element("li", key(number, lines), " ", element("bdi", name)) for name, number in names]
    return element("ul", items, class_="legend")


def key(number: int, lines: bool = True) -> Markup:
    """Return a sample of a colour, with its line if it has one."""
    width, colour = (26 if lines else 10), number % SERIES
    dashes = DASHES[number % len(DASHES)] or None
    line = element("line", x1=0, y1=6, x2=width, y2=6, class_=f"line s{colour}", stroke_dasharray=dashes)
    dot = element("circle", cx=width // 2, cy=6, r=4, class_=f"dot s{colour}")
    box = f"0 0 {width} 12"
    return element("svg", line if lines else None, dot, viewBox=box, width=width, height=12, aria_hidden="true")
