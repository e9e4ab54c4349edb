"""Reliability diagrams: what was said, against what was right; on the diagonal, probabilities are true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any
from xml.sax.saxutils import escape

from procrustes_kge.models.ranking import figure

SIDE, LEFT, TOP, GAP = 220.0, 48.0, 58.0, 46.0
LARGEST = 8.0  # radius of the point of a bin that has them all
WORDS = {"answers": "ten best answers", "even": "even odds"}
FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif"


@dataclass(frozen=True)
class Ink:
    """Colours: of the ten best answers, of even odds, of words, of what stays behind."""

    answers: str = "#c2410c"
    even: str = "#57606a"
    text: str = "#1f2328"
    quiet: str = "#656d76"
    grid: str = "#d8dee4"


def reliability_diagram(measured: Mapping[str, Mapping[str, Any]], ink: Ink | None = None) -> str:
    """Return a picture as SVG: a panel for each title, of what `explore.calibration.reliability` returned."""
    ink = ink or Ink()
    width, height = LEFT + len(measured) * (SIDE + GAP), TOP + SIDE + 56
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" font-family="{FONT}">',
        "<title>Share of answers that are right, against the probability that was said</title>",
    ]
    for place, (title, test) in enumerate(measured.items()):
        parts += _panel(LEFT + place * (SIDE + GAP), title, test, ink, place == 0)
    middle = (LEFT + width - GAP) / 2
    parts.append(_text(middle, height - 8, "probability that was said", ink.quiet, anchor="middle"))
    parts.append(_text(6, TOP - 42, "share that was right; in colour, the calibration error", ink.quiet))
    return "\n".join([*parts, "</svg>", ""])


def _panel(left: float, title: str, test: Mapping[str, Any], ink: Ink, first: bool) -> list[str]:
    parts = [_text(left, TOP - 12, title, ink.text, 14, more=' font-weight="600"')]
    for step in range(5):
        share = step / 4
        across, down = left + SIDE * share, TOP + SIDE * (1 - share)
        parts.append(_line([(left, down), (left + SIDE, down)], ink.grid))
        parts.append(_line([(across, TOP), (across, TOP + SIDE)], ink.grid))
        parts.append(_text(across, TOP + SIDE + 18, f"{share:g}".lstrip("0") or "0", ink.quiet, anchor="middle"))
        if first:
            parts.append(_text(left - 8, down + 4, f"{share:g}".lstrip("0") or "0", ink.quiet, anchor="end"))
    parts.append(_line([(left, TOP + SIDE), (left + SIDE, TOP)], ink.quiet, ' stroke-dasharray="4 4"'))
    for row, name in enumerate(WORDS):
        bins, colour = test[name]["bins"], getattr(ink, name)
        total = sum(each["weight"] for each in bins)
        points = [(left + SIDE * each["probability"], TOP + SIDE * (1 - each["right"])) for each in bins]
        parts.append(_line(points, colour, ' stroke-width="1.5"'))
        for (across, down), each in zip(points, bins, strict=True):
            radius = 2 + (LARGEST - 2) * sqrt(each["weight"] / total)
            parts.append(f'<circle cx="{across:.1f}" cy="{down:.1f}" r="{radius:.1f}" fill="{colour}"/>')
        words = f"{WORDS[name]} {figure(test[name]['error'])}"
        parts.append(_text(left + SIDE - 8, TOP + SIDE - 27 + 17 * row, words, colour, anchor="end"))
    return parts


def _text(x: float, y: float, words: str, colour: str, size: float = 12, anchor: str = "start", more: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" fill="{colour}"'
    return f"<text {place}{more}>{escape(words)}</text>"


def _line(points: Sequence[tuple[float, float]], colour: str, more: str = "") -> str:
    through = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{through}" fill="none" stroke="{colour}"{more}/>'
