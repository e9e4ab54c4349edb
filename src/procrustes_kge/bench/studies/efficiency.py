"""How much accuracy a second and a gram of CO2 give: Fig. 2 of the paper, and accuracy against time for all models.

On the paper's two benchmarks, rows are the results that come with the package, or those of a table that was trained
here, unless they are to be trained anew; on any other graph every model is trained by its recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from statistics import quantiles
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
from procrustes_kge.models.ranking import figure as shown
from procrustes_kge.training.benchmarks import kind_of_graph
from procrustes_kge.training.recipes import OWN, baseline_recipes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The paper's own figures, on its GPU, and ours: hollow and filled, round and square.
THEIRS_OURS, THEIRS = Look(OURS.colour, "o", hollow=True), Look(OTHER.colour, "s", hollow=True)
GPU_OF_THE_PAPER = "GTX 1080 Ti"
BRIEF = {"epochs": 1, "patience": 0, "validate_every": 0}
BRIEF_DIM, BRIEF_DIMS = 40, {"rgcn": 100, "conve": 96, "interacte": 96}  # what those are cut into divides no less
FEW, FAR = 6, 1.5  # values, and times the middle half of them, from which on one is far away


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
    changes: dict[str, Any] = {
        **BRIEF,
        "dim": BRIEF_DIMS.get(name, BRIEF_DIM),
        **({"segment": 10} if name in OWN else {}),
    }
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
        logarithmic(axis, "x", most=5)
        axis.set_title(title)
    axes[1].tick_params(labelleft=False)
    noted(figure, _notes(found))
    return figure


def _plane(found: Findings) -> Figure:
    """Draw accuracy against time, the frontier of what was measured, and the paper's own figures as hollow marks."""
    rows = [row for row in found.rows if row.figures]
    figure, (axis,) = panels(_title(found, rows), height=5.2)
    names = {row["name"]: row["name"] if row["ours"] else row["title"] for row in rows}
    measured, printed = [], []
    for row in rows:
        look = OURS if row["ours"] else OTHER
        measured.append(Point(names[row["name"]], row["seconds"], row["mrr"], look, row["ours"]))
        if theirs := _printed(found, row):
            look = THEIRS_OURS if row["ours"] else THEIRS
            printed.append(Point(names[row["name"]], 60.0 * theirs.minutes, theirs.mrr, look))
    lowest = floor([each.y for each in (*measured, *printed)])
    every = [_lifted(each, lowest) for each in (*measured, *printed)]
    axis.scatter([each.x for each in every], [each.y for each in every], s=0)  # finds the limits
    axis.margins(x=0.1, y=0.06)
    logarithmic(axis, "x", "s", most=8)
    axis.set_xlabel("seconds of training (further left is faster)")
    axis.set_ylabel("test MRR")
    low = (
        ["Triangles lie below the scale: their numbers say where."]
        if any(each.look.marker == "v" for each in every)
        else []
    )
    noted(figure, [f"{_notes(found)[0]} The line is the frontier of what was measured.", *low, *gap_notes(found)])
    points(axis, every, frontier(axis, [(each.x, each.y) for each in measured]))  # when all else has its place
    return figure


def floor(values: Sequence[float]) -> float:
    """Return where a scale may begin: what lies far below the others would squeeze them together.

    >>> floor([0.2, 0.43, 0.44, 0.45, 0.45, 0.46, 0.46, 0.47, 0.48, 0.5]), floor([0.2, 0.5])
    (0.39, 0.2)
    """
    if len(values) < FEW:
        return min(values, default=0.0)
    low, _, high = quantiles(values, n=4)
    return max(min(values), round(low - FAR * (high - low), 2))


def _lifted(point: Point, lowest: float) -> Point:
    """Return a point that is too low for the scale as one at its edge, with its value in words."""
    if point.y >= lowest:
        return point
    look = replace(point.look, marker="v")
    return replace(point, name=f"{point.name} {shown(point.y)}", y=lowest, look=look)


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
        "Ours are round."
        if not _is_benchmark(found)
        else (f"Filled: measured; ours are round. Hollow: as the paper prints it, on a {GPU_OF_THE_PAPER}.")
    )
    return [said, *gap_notes(found)]


STUDY = Study("efficiency", plan, draw)
