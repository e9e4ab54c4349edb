"""How far ten seeds lie apart: what a difference between two figures of this project means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from procrustes_kge.bench.studies.study import Findings, Place, Row, Study, gap_notes, training_row
from procrustes_kge.figures.plots import noted, strips
from procrustes_kge.figures.style import KNOWN, in_our_style, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECIPES, SEEDS = ("accurate", "fast", "paper"), 10
BRIEF = {"dim": 40, "segment": 10, "epochs": 3, "patience": 0, "validate_every": 0}


def plan(place: Place) -> list[Row]:
    """Return a row for each seed of each recipe."""
    changes = BRIEF if place.quick else {}
    return [
        training_row(place, f"{name}, seed {seed}", name, {"name": name, "seed": seed}, seed=seed, **changes)
        for name in RECIPES
        for seed in range(SEEDS)
    ]


@in_our_style
def draw(found: Findings) -> dict[str, Figure]:
    """Draw the test MRR of every seed, and each recipe's mean and standard deviation."""
    figure, axes = panels(found.title, columns=len(RECIPES), height=2.2)
    for axis, name in zip(axes, RECIPES, strict=True):
        rows = [row for row in found.where(name=name) if row.figures is not None]
        strips(axis, [("", [row["mrr"] for row in rows], KNOWN[name])], digits)
        axis.set_title(f"{name}, {len(rows)} seeds")
        axis.set_xlabel("test MRR")
        axis.locator_params(axis="x", nbins=4)
    noted(figure, gap_notes(found))
    return {"": figure}


def digits(value: float) -> str:
    """Return an MRR, or what MRRs differ by, with as many digits as tell seeds apart.

    >>> digits(0.46371), digits(0.00082)
    ('.4637', '.0008')
    """
    return f"{value:.4f}".removeprefix("0")


STUDY = Study("seeds", plan, draw)
