"""How much accuracy a second and a gram of CO2 give: Fig. 2 of the paper, and accuracy against time for all models.

On the paper's two benchmarks, rows are the results that come with the package, or those of a table that was trained
here, unless they are to be trained anew; on any other graph every model is trained by its recipe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from procrustes_kge.bench.paper import DATASETS, NAMES, PAPER
from procrustes_kge.bench.studies.study import (
    Bench,
    Figures,
    Findings,
    Place,
    Result,
    Row,
    Study,
    gap_notes,
    training_row,
)
from procrustes_kge.bench.table import Row as TableRow, shipped_line
from procrustes_kge.figures.plots import Dots, Point, dot_rows, frontier, logarithmic, noted, points
from procrustes_kge.figures.style import OTHER, OURS, Look, in_our_style, panels
from procrustes_kge.training.benchmarks import kind_of_graph
from procrustes_kge.training.recipes import OWN, baseline_recipes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The paper's own figures, on its GPU, and ours: hollow and filled, round and square.
THEIRS_OURS, THEIRS = Look(OURS.colour, "o", hollow=True), Look(OTHER.colour, "s", hollow=True)
GPU_OF_THE_PAPER = "GTX 1080 Ti"
BRIEF = {"epochs": 1, "patience": 0, "validate_every": 0}
BRIEF_DIM = 40


def plan(place: Place) -> list[Row]:
    """Return a row for each recipe of ours, and for each of the thirteen by the recipe of its own name."""
    baselines = [name for name in NAMES if name in baseline_recipes(name)]
    return [_row(place, name) for name in (*(name for name in OWN if name in NAMES), *baselines)]


def _row(place: Place, name: str) -> Row:
    about = {"name": name, "title": NAMES[name], "ours": name in OWN}
    kind = kind_of_graph(place.graph)
    if kind in DATASETS and not place.anew and not place.quick:
        taken = shipped_line(TableRow(name, kind)).figures
        if taken is not None:
            about |= {"source": "the results that come with procrustes-kge"}
            return Row(name, about, partial(_taken, asdict(taken)), 1e-9)
    changes: dict[str, Any] = {**BRIEF, "dim": BRIEF_DIM, **({"segment": 10} if name in OWN else {})}
    return training_row(place, name, name, about, **(changes if place.quick else {}))


def _taken(known: dict[str, Any], bench: Bench) -> Figures:
    return {name.replace("_at_", "@"): value for name, value in known.items()}


@in_our_style
def draw(found: Findings) -> dict[str, Figure]:
    """Draw what a second and a gram give, and the plane of accuracy against time."""
    return {"": _bars(found), "-plane": _plane(found)}


def _bars(found: Findings) -> Figure:
    """Draw MRR per second and per gram, the best model first; the paper's own figures are hollow."""
    rows = sorted((row for row in found.rows if row.figures), key=lambda row: -row["mrr"] / max(row["seconds"], 1e-9))
    figure, axes = panels(_title(found, rows), columns=2, height=0.6 + 0.24 * max(4, len(rows)))
    ways: list[tuple[str, Callable[[Result], float], Callable[[Any], float]]] = [
        ("MRR per second of training", lambda row: row["seconds"], lambda theirs: 60.0 * theirs.minutes),
        ("MRR per gram of CO2", lambda row: row["g_co2"], lambda theirs: float(theirs.g_co2)),
    ]
    for axis, (title, cost, printed_cost) in zip(axes, ways, strict=True):
        drawn = []
        for row in rows:
            values = [(row["mrr"] / cost(row), OURS if row["ours"] else OTHER)] if cost(row) else []
            if theirs := _printed(found, row):
                values.append((theirs.mrr / printed_cost(theirs), THEIRS_OURS if row["ours"] else THEIRS))
            drawn.append(Dots(row["title"], values, row["ours"]))
        dot_rows(axis, drawn)
        logarithmic(axis, "x")
        axis.set_title(title)
    axes[1].tick_params(labelleft=False)
    noted(figure, _notes(found))
    return figure


def _plane(found: Findings) -> Figure:
    """Draw accuracy against time, the frontier of what was measured, and the paper's own figures as hollow marks."""
    rows = [row for row in found.rows if row.figures]
    figure, (axis,) = panels(_title(found, rows), height=4.8)
    ours = [
        Point(row["title"], row["seconds"], row["mrr"], OURS if row["ours"] else OTHER, row["ours"]) for row in rows
    ]
    theirs = []
    for row in rows:
        if printed := _printed(found, row):
            look = THEIRS_OURS if row["ours"] else THEIRS
            theirs.append(Point(row["title"], 60.0 * printed.minutes, printed.mrr, look))
    logarithmic(axis, "x", "s")
    every = [*ours, *theirs]
    if every:
        axis.plot([each.x for each in every], [each.y for each in every], linestyle="none")  # finds the limits
        axis.margins(x=0.12, y=0.06)
        logarithmic(axis, "x", "s")
    frontier(axis, [(each.x, each.y) for each in ours])
    points(axis, every)
    axis.set_xlabel("seconds of training (further left is faster)")
    axis.set_ylabel("test MRR")
    noted(figure, _notes(found))
    return figure


def _printed(found: Findings, row: Result) -> Any:
    """Return what the paper prints of a model, on its benchmarks."""
    return (
        PAPER[row["name"]][list(DATASETS).index(found.graph)] if _is_benchmark(found) and row["name"] in PAPER else None
    )


def _is_benchmark(found: Findings) -> bool:
    return found.graph in DATASETS and not found.quick


def _title(found: Findings, rows: list[Result]) -> str:
    """Return the title, with the devices that the rows were measured on."""
    devices = sorted({row["device"] for row in rows})
    return found.title if not devices else found.on(" and ".join(devices)).title


def _notes(found: Findings) -> list[str]:
    said = (
        "Filled: measured here; ours are round."
        if not _is_benchmark(found)
        else (f"Filled: measured; ours are round. Hollow: as the paper prints it, on a {GPU_OF_THE_PAPER}.")
    )
    return [said, *gap_notes(found)]


STUDY = Study("efficiency", plan, draw)
