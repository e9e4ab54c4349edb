"""How many triples a second training processes: ours and the strongest baselines, by their recipes and at one size.

A triple is processed when all of its vectors' numbers have learned from it once, from both sides. The time is that of
whole epochs, after one that is not counted; validation and setting up are left out.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from procrustes_kge.bench.paper import NAMES
from procrustes_kge.bench.speed import best_of, started_training
from procrustes_kge.bench.studies.study import MACHINE, Bench, Figures, Findings, Place, Row, Study, expected, gap_notes
from procrustes_kge.figures.plots import Dots, dot_rows, logarithmic, noted
from procrustes_kge.figures.style import OTHER, OURS, Look, in_our_style, panels
from procrustes_kge.runs.experiment import device_name
from procrustes_kge.system.devices import choose_device
from procrustes_kge.training.contrastive import Contrastive
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.loop import at_work
from procrustes_kge.training.recipes import OWN, Settings, recipe, values_of
from procrustes_kge.training.supervised import Supervised

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECIPES = (
    "paper",
    "fast",
    "paper+tb",
    "paper+ns",
    "accurate",
    "transe",
    "distmult",
    "complex",
    "rotate",
    "quate",
    "roth",
    "tucker",
)
DIM, BRIEF_DIM = 500, 40  # that every recipe has beside its own; its segments, and TuckER's core, fit into memory
TIMES = 3  # epochs, of which the fastest counts
ALIKE = Look(OURS.colour, "o", hollow=True), Look(OTHER.colour, "s", hollow=True)


def plan(place: Place) -> list[Row]:
    """Return two rows for each recipe: as it is, and at a size that all have alike."""
    rows = []
    for name in RECIPES:
        own = recipe(name, place.graph, place.device)
        sizes = [("alike", BRIEF_DIM if place.quick else DIM)]
        if not place.quick:
            sizes.append(("recipe", own.dim))
        for size, dim in sizes:
            brief = {"segment": 10} if place.quick and name in OWN else {}
            settings = recipe(name, place.graph, place.device, dim=dim, **brief)
            values = {each: value for each, value in values_of(settings).items() if each not in MACHINE}
            about = {"name": name, "title": NAMES[name], "ours": name in OWN, "size": size, "settings": values}
            cost = expected(place.graph, settings) / settings.epochs
            rows.append(Row(f"{name}, d {dim:,}, {size}", about, partial(measured, settings), cost))
    return rows


def measured(settings: Settings, bench: Bench) -> Figures:
    """Return the seconds of an epoch, and how many triples a second that is."""
    graph, device = bench.place.graph, choose_device(bench.place.device)
    with at_work(graph, settings):
        seconds = epoch_seconds(graph, settings, device, 1 if bench.place.quick else TIMES)
    return {
        "seconds": seconds,
        "triples_per_second": len(graph.train) / seconds,
        "dim": settings.dim,
        "device": device_name(device),
    }


def epoch_seconds(graph: Any, settings: Settings, device: torch.device, times: int = TIMES) -> float:
    """Return the seconds of the fastest of some epochs of the whole model, after one that is not counted."""
    if isinstance(settings, FitSettings):
        epochs = started_training(graph, settings)
        return best_of(lambda: epochs(1), device, times)
    if isinstance(settings, ContrastSettings):
        return settings.groups * best_of(Contrastive(graph, settings, device).trainer(0).epoch, device, times)
    return best_of(Supervised(graph, settings, device).trainer(0).epoch, device, times)


@in_our_style
def draw(found: Findings) -> dict[str, Figure]:
    """Draw triples a second, the fastest recipe first: filled as recipes are, hollow at one size."""
    names = list(dict.fromkeys(row.about["name"] for row in found.rows))
    best = {name: max((row["triples_per_second"] or 0 for row in found.where(name=name)), default=0) for name in names}
    drawn = []
    for name in sorted(names, key=lambda name: -best[name]):
        rows = [row for row in found.where(name=name) if row.figures]
        if rows:
            ours = bool(rows[0]["ours"])
            looks = {"recipe": OURS if ours else OTHER, "alike": ALIKE[not ours]}
            values = [(row["triples_per_second"], looks[row["size"]]) for row in rows]
            drawn.append(Dots(rows[0]["title"], values, ours))
    figure, (axis,) = panels(found.title, height=0.9 + 0.27 * max(3, len(drawn)))
    dot_rows(axis, drawn)
    logarithmic(axis, "x")
    axis.set_xlabel("training triples processed in a second")
    size = {row.about["settings"]["dim"] for row in found.rows if row.about["size"] == "alike"}
    alike = f"Hollow: all with vectors of {max(size, default=0):,} numbers. "
    filled = (
        "Filled: each with the size of its recipe. " if any(row.about["size"] == "recipe" for row in found.rows) else ""
    )
    noted(figure, [f"{filled}{alike}Ours are round.", *gap_notes(found)])
    return {"": figure}


STUDY = Study("bandwidth", plan, draw)
