"""Reliability diagrams: what was said, against what was right; on the diagonal, probabilities are true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from procrustes_kge.figures.markup import Markup, element
from procrustes_kge.figures.report_run import number
from procrustes_kge.models.ranking import figure

SIDE, LEFT, TOP, GAP = 220.0, 48.0, 58.0, 46.0
LARGEST = 8.0  # radius of the point of a bin that has them all
WORDS = {"answers": "ten best answers", "even": "even odds"}
FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif"
TITLE = "Share of answers that are right, against the probability that was said"


@dataclass(frozen=True)
class Ink:
    """Colours: of the ten best answers, of even odds, of words, of what stays behind."""

    answers: str
    even: str
    text: str
    quiet: str
    grid: str


class Bin(NamedTuple):
    """Answers of about one probability: its mean, the share that was right, and how many."""

    said: float
    right: float
    weight: float


class Curve(NamedTuple):
    """What was measured one way: the bins, and the expected calibration error if it is known."""

    name: str  # of WORDS
    bins: Sequence[Bin]
    error: float | None

    @property
    def words(self) -> str:
        """Its name in words, with the error."""
        return WORDS[self.name] if self.error is None else f"{WORDS[self.name]} {figure(self.error)}"


def curves_of(measured: object) -> list[Curve]:
    """Return the curves of what `explore.calibration.reliability` returned, as a report has it: none of what is not."""
    found = []
    for name in WORDS:
        each = measured.get(name) if isinstance(measured, Mapping) else None
        bins = each.get("bins") if isinstance(each, Mapping) else None
        kept = [bin_ for bin_ in map(_bin, bins if isinstance(bins, list) else ()) if bin_ is not None]
        if kept and isinstance(each, Mapping):
            found.append(Curve(name, kept, number(each.get("error"))))
    return found


def _bin(measured: object) -> Bin | None:
    if not isinstance(measured, Mapping):
        return None
    said, right, weight = (number(measured.get(key)) for key in ("probability", "right", "weight"))
    if said is None or right is None or weight is None or weight <= 0:
        return None
    return Bin(said, right, weight)


def reliability_diagram(panels: Mapping[str, Sequence[Curve]], ink: Ink, class_: str | None = None) -> Markup:
    """Return a picture as SVG, of a file or within a page: a panel for each title."""
    width, height = LEFT + len(panels) * (SIDE + GAP), TOP + SIDE + 56
    parts = [element("title", TITLE)]
    for place, (title, curves) in enumerate(panels.items()):
        parts += _panel(LEFT + place * (SIDE + GAP), title, curves, ink, place == 0)
    middle = (LEFT + width - GAP) / 2
    parts.append(_text(middle, height - 8, "probability that was said", ink.quiet, anchor="middle"))
    parts.append(_text(6, TOP - 42, "share that was right; in colour, the calibration error", ink.quiet))
    lines = [part for each in parts for part in (Markup("\n"), each)]
    return element(
        "svg",
        *lines,
        Markup("\n"),
        xmlns="http://www.w3.org/2000/svg",  # a file of its own needs it
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
        aria_label=TITLE,
        font_family=FONT,
        class_=class_,
    )


def _panel(left: float, title: str, curves: Sequence[Curve], ink: Ink, first: bool) -> list[Markup]:
    parts = [_text(left, TOP - 12, title, ink.text, 14, weight="600")]
    for step in range(5):
        share = step / 4
        across, down = left + SIDE * share, TOP + SIDE * (1 - share)
        parts.append(_line([(left, down), (left + SIDE, down)], ink.grid))
        parts.append(_line([(across, TOP), (across, TOP + SIDE)], ink.grid))
        parts.append(_text(across, TOP + SIDE + 18, f"{share:g}".lstrip("0") or "0", ink.quiet, anchor="middle"))
        if first:
            parts.append(_text(left - 8, down + 4, f"{share:g}".lstrip("0") or "0", ink.quiet, anchor="end"))
    parts.append(_line([(left, TOP + SIDE), (left + SIDE, TOP)], ink.quiet, dashes="4 4"))
    for row, curve in enumerate(curves):
        colour, total = getattr(ink, curve.name), sum(each.weight for each in curve.bins)
        points = [(left + SIDE * each.said, TOP + SIDE * (1 - each.right)) for each in curve.bins]
        parts.append(_line(points, colour, width=1.5))
        for (across, down), each in zip(points, curve.bins, strict=True):
            said = element("title", f"{each.weight:,.0f} said {each.said:.2f}, {each.right:.2f} right")
            radius = round(2 + (LARGEST - 2) * sqrt(each.weight / total), 1)
            parts.append(element("circle", said, cx=round(across, 1), cy=round(down, 1), r=radius, fill=colour))
        parts.append(_text(left + SIDE - 8, TOP + SIDE - 27 + 17 * row, curve.words, colour, anchor="end"))
    return parts


def _text(
    x: float, y: float, words: str, colour: str, size: int = 12, anchor: str = "start", weight: str | None = None
) -> Markup:
    x, y = round(x, 1), round(y, 1)
    return element("text", words, x=x, y=y, text_anchor=anchor, font_size=size, font_weight=weight, fill=colour)


def _line(
    points: Sequence[tuple[float, float]], colour: str, width: float | None = None, dashes: str | None = None
) -> Markup:
    through = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return element("polyline", points=through, fill="none", stroke=colour, stroke_width=width, stroke_dasharray=dashes)
