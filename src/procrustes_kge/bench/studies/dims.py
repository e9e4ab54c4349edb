"""What the dimension and the size of segments do to accuracy and time: Fig. 3 of the paper, for three recipes.

Full batch (`paper` as published, `fast`) varies the dimension at segments of 20, and segments at dimension 2,000.
`accurate` varies both from what the recipe has for this graph and device, and its rows say which segment that is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from procrustes_kge.bench.studies.study import Findings, Place, Row, Study, gap_notes, training_row
from procrustes_kge.figures.plots import Series, lines, logarithmic, named_ends, noted
from procrustes_kge.figures.style import KNOWN, in_our_style, panels
from procrustes_kge.training.recipes import OwnSettings, recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECIPES = ("accurate", "fast", "paper")
DIMS: tuple[int, ...] = (100, 200, 500, 1000, 1500, 2000)
SEGMENTS: tuple[int, ...] = (2, 5, 10, 20, 25, 50, 100)
SEGMENT, DIM = 20, 2000  # the paper's
BRIEF_DIMS, BRIEF_SEGMENTS, BRIEF_SEGMENT = (20, 40, 100), (2, 10, 50), 10
BRIEF = {"epochs": 4, "patience": 0, "validate_every": 0}


def plan(place: Place) -> list[Row]:
    """Return a row for each dimension and each segment of each recipe; none is trained twice."""
    rows = dict[str, Row]()
    for name in RECIPES:
        usual = recipe(name, place.graph, place.device)
        assert isinstance(usual, OwnSettings)
        dim, segment = (usual.dim, usual.segment) if name == "accurate" else (DIM, SEGMENT)
        dims, segments = (BRIEF_DIMS, BRIEF_SEGMENTS) if place.quick else (DIMS, SEGMENTS)
        if place.quick:
            dim, segment = max(BRIEF_DIMS), BRIEF_SEGMENT
        wanted = [(each, segment) for each in (*(each for each in dims if each < dim), dim)]
        wanted += [(dim, each) for each in segments if dim % each == 0]
        for width, part in wanted:
            row_name = f"{name}, d {width:,}, segment {part}"
            if width % part == 0 and row_name not in rows:
                about = {"name": name, "dim": width, "segment": part, "from": [dim, segment]}
                changes = BRIEF if place.quick else {}
                rows[row_name] = training_row(place, row_name, name, about, dim=width, segment=part, **changes)
    return list(rows.values())


@in_our_style
def draw(found: Findings) -> dict[str, Figure]:
    """Draw accuracy and seconds against the dimension, and against the segment."""
    figure, axes = panels(found.title, columns=2, rows=2, height=2.9)
    named = []
    titles = ("Accuracy and dimension", "Accuracy and segment", "Time and dimension", "Time and segment")
    for panel, axis in enumerate(axes):
        by, what = ("dim", "segment")[panel % 2], ("mrr", "seconds")[panel // 2]
        every = [_series(found, name, by, what) for name in RECIPES]
        every = [each for each in every if each.last]
        lines(axis, every)
        axis.set_title(titles[panel])
        logarithmic(axis, "x")
        ticks = sorted({row.about[by] for row in found.rows if row.about[by] in (*DIMS, *SEGMENTS, *BRIEF_DIMS)})
        ticks = [tick for tick in ticks if by == "segment" or tick not in (1500, 200)]
        axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        if what == "seconds":
            logarithmic(axis, "y", "s")
        axis.set_xlabel("numbers in an entity's vector" if by == "dim" else "numbers in a segment")
        axis.set_ylabel("test MRR" if what == "mrr" else "")
        named.append((axis, every))
    noted(figure, notes(found))
    for axis, every in named:  # when all else has its place
        named_ends(axis, every)
    return {"": figure}


def notes(found: Findings) -> list[str]:
    """Return what a reader should know: from where each recipe varies, and what is missing."""
    starts = {row.about["name"]: row.about["from"] for row in found.rows}
    said = [
        f"{name}: segments of {part} at the left, {dim:,} numbers at the right" for name, (dim, part) in starts.items()
    ]
    return [". ".join(said) + "." if said else "", *gap_notes(found)]


def _series(found: Findings, name: str, by: str, what: str) -> Series:
    """Return a recipe's line; rows that failed are gaps."""
    other = {"dim": "segment", "segment": "dim"}[by]
    kept = {"dim": 0, "segment": 1}[other]
    rows = [row for row in found.where(name=name) if row.about[other] == row.about["from"][kept]]
    rows.sort(key=lambda row: row.about[by])
    return Series(name, [row.about[by] for row in rows], [row[what] for row in rows], KNOWN[name])


STUDY = Study("dims", plan, draw)
