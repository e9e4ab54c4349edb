"""Draw the pictures of README and docs, for light and dark pages; points come from benchmarks/results/*.json.

python benchmarks/pictures.py    write docs/pictures/*.svg

`python scripts/check_results.py` compares them with what this draws.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from xml.sax.saxutils import escape

import torch

import result_files
from procrustes_kge.bench.paper import DATASETS
from procrustes_kge.bench.table import read_line, table_rows
from procrustes_kge.figures.reliability import Ink, curves_of, reliability_diagram
from procrustes_kge.linalg import nearest_orthogonal
from procrustes_kge.models.ranking import figure
from procrustes_kge.training.recipes import OWN

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
BOLD = ' font-weight="600"'
FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif"


@dataclass(frozen=True)
class Colours:
    """What stands out on a page, and what stays behind."""

    ours: str
    other: str
    text: str
    quiet: str
    grid: str


PAGES = {
    "light": Colours("#c2410c", "#57606a", "#1f2328", "#656d76", "#d8dee4"),
    "dark": Colours("#fb923c", "#9da7b3", "#e6edf3", "#9198a1", "#30363d"),
}
OURS = {"accurate": "ours, accurate", "fast": "ours, fast"}


@dataclass(frozen=True)
class Box:
    """A rectangle that something takes."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Box) -> float:
        """Return the area that two boxes share."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(wide, 0.0) * max(high, 0.0)

    def outside(self, room: Box) -> float:
        """Return by how much it sticks out of a room."""
        sides = (room.left - self.left, self.right - room.right, room.top - self.top, self.bottom - room.bottom)
        return sum(max(side, 0.0) for side in sides)


@dataclass(frozen=True)
class Point:
    """A model of the table: when its training ended, and how well it ranks."""

    label: str
    seconds: float
    mrr: float
    ours: bool


def points(dataset: str) -> list[Point]:
    """Return our two recipes and the thirteen baselines, each by the recipe of its own name."""
    found = []
    for row in table_rows([dataset]):
        ours = row.recipe in OWN
        if row.recipe in OURS if ours else row.recipe == row.model:
            figures = read_line(row, result_files.RESULTS).figures
            if figures is None:
                raise SystemExit(f"{row.name}: not trained; benchmarks/baselines.py {row.name} trains it")
            found.append(Point(OURS.get(row.recipe, row.title), figures.seconds, figures.mrr, ours))
    return found


def text(x: float, y: float, words: str, colour: str, size: float = 12, anchor: str = "start", more: str = "") -> str:
    """Return words at a place."""
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" fill="{colour}"'
    return f"<text {place}{more}>{escape(words)}</text>"


def line(x1: float, y1: float, x2: float, y2: float, colour: str, more: str = "") -> str:
    """Return a straight line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{more}/>'


def picture(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """Return a picture as the text of an SVG file, one part to a line."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="{FONT}">'
    )
    return "\n".join([head, f"<title>{escape(title)}</title>", *parts, "</svg>", ""])


class Panel:
    """Accuracy against seconds on one dataset, in a room of its own; the fewest seconds are on the left."""

    size = 12.0  # of labels

    def __init__(self, dataset: str, room: Box, lowest: float, highest: float, colours: Colours) -> None:
        self.dataset, self.room, self.colours = dataset, room, colours
        self.lowest, self.highest = lowest, highest

    def x(self, seconds: float) -> float:
        """Return where so many seconds are: tenfold is everywhere equally far, from 0.1 to 1,000."""
        return self.room.left + (self.room.right - self.room.left) * (math.log10(seconds) + 1) / 4

    def y(self, mrr: float) -> float:
        """Return where an MRR is; one below the panel lies on its lower edge."""
        share = (max(mrr, self.lowest) - self.lowest) / (self.highest - self.lowest)
        return self.room.bottom - (self.room.bottom - self.room.top) * share

    def parts(self) -> list[str]:
        """Return all that is drawn."""
        found = points(self.dataset)
        return [*self.frame(), *self.labels(found), *(self.mark(point) for point in found)]

    def frame(self) -> list[str]:
        """Return the grid, and what its lines stand for."""
        room, quiet = self.room, self.colours.quiet
        drawn = [
            text(room.left, room.top - 16, DATASETS[self.dataset], self.colours.text, 15, more=' font-weight="600"')
        ]
        for step in range(math.ceil(50 * self.lowest - 1e-9), math.floor(50 * self.highest + 1e-9) + 1):
            y = self.y(step / 50)
            drawn.append(line(room.left, y, room.right, y, self.colours.grid))
            drawn.append(text(room.left - 8, y + 4, figure(step / 50).rstrip("0"), quiet, anchor="end"))
        for seconds, words in ((0.1, "0.1 s"), (1, "1 s"), (10, "10 s"), (100, "100 s"), (1000, "1,000 s")):
            x = self.x(seconds)
            drawn.append(line(x, room.bottom, x, room.bottom + 5, quiet))
            drawn.append(text(x, room.bottom + 20, words, quiet, anchor="end" if seconds == 1000 else "middle"))
        return drawn

    def mark(self, point: Point) -> str:
        """Return a point: a disc, or a triangle that points down where it lies further below."""
        x, y = self.x(point.seconds), self.y(point.mrr)
        colour = self.colours.ours if point.ours else self.colours.other
        if point.mrr < self.lowest:
            return f'<path d="M{x - 5:.1f} {y - 8:.1f}h10l-5 8z" fill="{colour}"/>'
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{6 if point.ours else 4}" fill="{colour}"/>'

    def labels(self, found: Sequence[Point]) -> list[str]:
        """Return the names of points, each where it covers least of what is there already."""
        marks = [(self.x(point.seconds), self.y(point.mrr)) for point in found]
        taken = [_around(x, y) for x, y in marks]
        drawn = []
        # Ours first: they take the best places.
        for point, (x, y) in sorted(zip(found, marks, strict=True), key=lambda each: not each[0].ours):
            size, gap = (self.size + 2, 10) if point.ours else (self.size, 8)
            words = f"{point.label} {figure(point.mrr)}" if point.ours or point.mrr < self.lowest else point.label
            colour = self.colours.ours if point.ours else self.colours.text
            others = [box for box in taken if box != _around(x, y)]
            side, box = self.free(x, y, gap, 0.56 * size * len(words), size, others)
            taken.append(box)
            edge = box.left if side == "start" else box.right
            down = (box.top + box.bottom) / 2 + 0.35 * size
            drawn.append(text(edge, down, words, colour, size, side, BOLD if point.ours else ""))
        return drawn

    def free(self, x: float, y: float, gap: float, wide: float, high: float, others: Sequence[Box]) -> tuple[str, Box]:
        """Return on which side of a point words of this size have most room, and the box that they take there."""
        places = []
        for down in (0, -7, 7, -13, 13, -19, 19):
            for side, left in (("start", x + gap), ("end", x - gap - wide)):
                places.append((side, Box(left, y + down - high / 2, left + wide, y + down + high / 2)))
        costs = [sum(map(box.overlap, others)) + 100 * box.outside(self.room) for _, box in places]
        return min(enumerate(places), key=lambda each: costs[each[0]] + 0.2 * each[0])[1]


def _around(x: float, y: float) -> Box:
    return Box(x - 6, y - 6, x + 6, y + 6)


def accuracy_and_time(colours: Colours) -> str:
    """Return how well each model ranks, against how long it trains, on both benchmarks."""
    panels = (
        Panel("wn18rr", Box(44, 62, 412, 372), 0.42, 0.51, colours),
        Panel("fb15k-237", Box(474, 62, 842, 372), 0.28, 0.37, colours),
    )
    parts = [part for panel in panels for part in panel.parts()]
    parts.append(text(8, 20, "test MRR (higher is better)", colours.quiet, 12))
    parts.append(text(428, 416, "seconds of training on one GPU (further left is faster)", colours.quiet, 12, "middle"))
    title = "Test MRR against seconds of training: ours and thirteen other models, all trained here on one H200 GPU"
    return picture(860, 428, title, parts)


def heads_onto_tails(colours: Colours) -> str:
    """Return one segment of one relation: heads and tails, and the heads turned onto the tails by the closed form."""
    # Angles in degrees: tails are heads turned by 105, and then a little off, as in a graph that is not perfect.
    angles = [12.0, 34.0, 61.0, 83.0, 118.0, 151.0]
    off = [6.0, -8.0, 4.0, -5.0, 9.0, -6.0]
    heads = _on_circle(angles)
    tails = _on_circle([angle + 105 + more for angle, more in zip(angles, off, strict=True)])
    turned = heads @ nearest_orthogonal(heads.T @ tails)
    words = ("heads and tails of a relation", "Hᵀ T = U Σ Vᵀ ,  Q = U Vᵀ", "heads, rotated by Q")
    parts, radius = [], 100.0
    for place, (title, ends) in enumerate(((words[0], heads), (words[2], turned))):
        across, down = 150 + 560 * place, 160
        parts.append(f'<circle cx="{across}" cy="{down}" r="{radius:g}" fill="none" stroke="{colours.grid}"/>')
        for (x1, y1), (x2, y2) in zip(ends.tolist(), tails.tolist(), strict=True):
            start = (across + radius * x1, down - radius * y1)
            end = (across + radius * x2, down - radius * y2)
            parts.append(line(*start, *end, colours.quiet, ' stroke-dasharray="3 3"'))
            parts.append(f'<circle cx="{start[0]:.1f}" cy="{start[1]:.1f}" r="6" fill="{colours.ours}"/>')
            ring = f'r="6" fill="none" stroke="{colours.text}" stroke-width="2"'
            parts.append(f'<circle cx="{end[0]:.1f}" cy="{end[1]:.1f}" {ring}/>')
        parts.append(text(across, 296, title, colours.text, 14, "middle"))
    parts.append(line(320, 160, 534, 160, colours.quiet, ' stroke-width="2"'))
    parts.append(f'<path d="M540 160l-12 -6v12z" fill="{colours.quiet}"/>')
    parts.append(text(430, 146, words[1], colours.text, 15, "middle"))
    parts.append(text(430, 184, "one small SVD, no gradient", colours.quiet, 13, "middle"))
    parts.append(f'<circle cx="378" cy="226" r="6" fill="{colours.ours}"/>{text(392, 230, "head", colours.quiet)}')
    ring = f'r="6" fill="none" stroke="{colours.text}" stroke-width="2"'
    parts.append(f'<circle cx="448" cy="226" {ring}/>{text(462, 230, "tail", colours.quiet)}')
    return picture(860, 316, "The orthogonal matrix Q = U Vᵀ of M = Hᵀ T rotates heads onto tails", parts)


def _on_circle(angles: Sequence[float]) -> torch.Tensor:
    turns = torch.tensor(angles, dtype=torch.float64).deg2rad()
    return torch.stack([turns.cos(), turns.sin()], dim=1)


def reliability(colours: Colours) -> str:
    """Return how far probabilities are to be trusted, on three graphs."""
    names = {"wordnet-mini": "wordnet-mini", **DATASETS}
    found = {
        title: curves_of(json.loads((result_files.RESULTS / f"calibration-{name}.json").read_text(encoding="utf-8")))
        for name, title in names.items()
    }
    ink = Ink(colours.ours, colours.other, colours.text, colours.quiet, colours.grid)
    return reliability_diagram(found, ink) + "\n"


def evidence(colours: Colours) -> str:
    """Return how many answers fall when their named evidence is taken away, and when random triples are."""
    parts = [text(8, 20, "share of queries whose answer ranks lower after training again", colours.quiet)]
    for place, (name, title) in enumerate(DATASETS.items()):
        content = json.loads((result_files.RESULTS / f"evidence-{name}.json").read_text(encoding="utf-8"))
        left, top, wide = 44 + 420 * place, 64, 250
        parts.append(text(left, top - 14, title, colours.text, 15, more=BOLD))
        rows = {
            "named": (f"without the {content['taken']} named triples", colours.ours),
            "random": (f"without {content['taken']} random triples of the same entities", colours.other),
        }
        for row, (which, (words, colour)) in enumerate(rows.items()):
            shares = [each[which]["lower"] for each in content["results"]]
            down = top + 62 * row
            parts.append(text(left, down + 12, words, colours.text))
            size = f'width="{wide * mean(shares):.1f}" height="22" fill="{colour}"'
            parts.append(f'<rect x="{left}" y="{down + 20}" {size}/>')
            parts.append(text(left + wide * max(shares) + 10, down + 36, figure(mean(shares)), colours.text, 14))
            for share in shares:  # one seed each
                parts.append(line(left + wide * share, down + 17, left + wide * share, down + 45, colours.text))
    return picture(
        860, 196, "Answers fall further without the evidence that is named than without random triples", parts
    )


DRAWN: dict[str, Callable[[Colours], str]] = {
    "evidence": evidence,
    "reliability": reliability,
    "accuracy-and-time": accuracy_and_time,
    "heads-onto-tails": heads_onto_tails,
}


def pictures() -> dict[Path, str]:
    """Return the text of every picture, by its file."""
    return {
        PICTURES / f"{name}-{page}.svg": draw(colours)
        for name, draw in DRAWN.items()
        for page, colours in PAGES.items()
    }


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    for file, content in pictures().items():
        file.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
