"""How long strong baselines need to be as accurate as ours: validation MRR against seconds of training.

The paper's experiment with RotH, for three baselines and three recipes of ours. Training is timed epoch by epoch;
validation is not in the time. A model in groups trains them side by side, and is judged whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

import torch

from procrustes_kge.bench.paper import NAMES
from procrustes_kge.bench.studies.study import MACHINE, Bench, Figures, Findings, Place, Row, Study, expected, gap_notes
from procrustes_kge.errors import InputError
from procrustes_kge.figures.plots import Point, Series, lines, logarithmic, noted, points
from procrustes_kge.figures.style import KNOWN, LOOKS, in_our_style, panels
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.predictor import LinkPredictor
from procrustes_kge.models.ranking import figure as shown
from procrustes_kge.runs.experiment import device_name
from procrustes_kge.system.devices import choose_device, timed
from procrustes_kge.training.budget import spoken_time
from procrustes_kge.training.contrastive import Contrastive, joined
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch import FullBatch
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.loop import at_work, validation_mrr
from procrustes_kge.training.recipes import OWN, Settings, recipe, values_of
from procrustes_kge.training.supervised import Supervised

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS, BASELINES = ("accurate", "fast", "paper"), ("roth", "rotate", "complex")
POINTS, JUDGED_BY = 25, 2000  # points of a curve at most, and validation triples that judge each
BRIEF = {"dim": 40, "epochs": 4, "patience": 0}


def plan(place: Place) -> list[Row]:
    """Return a row for each of ours and each baseline."""
    if not len(place.graph.valid):
        has = f"the graph {place.graph.name} has no validation triples, expected at least 1"
        raise InputError(f"{has}: they say how good a model is while it trains; the other studies do without")
    rows = []
    for name in (*OURS, *BASELINES):
        brief = {**BRIEF, **({"segment": 10} if name in OWN else {})} if place.quick else {}
        settings = recipe(name, place.graph, place.device, **brief)
        every = max(1, round(settings.epochs / POINTS))
        settings = replace(settings, validate_every=every, validation_triples=JUDGED_BY)
        values = {each: value for each, value in values_of(settings).items() if each not in MACHINE}
        about = {"name": name, "title": NAMES[name], "ours": name in OWN, "settings": values}
        rows.append(Row(name, about, partial(measured, settings), expected(place.graph, settings)))
    return rows


def measured(settings: Settings, bench: Bench) -> Figures:
    """Train with a recipe; return points of seconds, epoch and validation MRR."""
    graph, device = bench.place.graph, choose_device(bench.place.device)
    bench.warm_up(settings)
    points, best, waited = [[0.0, 0, None]], 0.0, 0
    with at_work(graph, settings):
        (epoch_of_all, model), spent = timed(partial(started, graph, settings, device), device)
        for epoch in range(1, settings.epochs + 1):
            loss, seconds = timed(epoch_of_all, device)
            spent += seconds
            if epoch % settings.validate_every and epoch != settings.epochs:
                continue
            if not isfinite(float(loss)):
                raise InputError(f"training diverged by epoch {epoch} of {settings.epochs}")
            mrr = validation_mrr(model(), graph, settings)
            points.append([spent, epoch, mrr])
            bench.tell(epoch / settings.epochs)
            waited = 0 if mrr > best else waited + 1
            best = max(best, mrr)
            if settings.patience and waited == settings.patience:
                break
    return {"points": points[1:], "valid_mrr": best, "seconds": spent, "epochs": epoch, "device": device_name(device)}


def started(
    graph: Graph, settings: Settings, device: torch.device
) -> tuple[Callable[[], Any], Callable[[], LinkPredictor]]:
    """Return what trains the whole model for an epoch, and what returns it."""
    if isinstance(settings, ContrastSettings):
        training = Contrastive(graph, settings, device)
        groups = [training.trainer(group) for group in range(settings.groups)]
        return lambda: sum(float(each.epoch()) for each in groups), lambda: joined([each.model() for each in groups])
    if isinstance(settings, FitSettings):
        whole = FullBatch(graph, replace(settings, pilot=settings.dim), device).trainer(0)
        return whole.epoch, whole.model
    trainer = Supervised(graph, settings, device).trainer(0)
    return trainer.epoch, trainer.model


def reached(points: Sequence[Sequence[float | None]], mrr: float) -> float | None:
    """Return the seconds after which a curve first reaches an MRR, if it does."""
    return next((seconds for seconds, _, found in points if found is not None and found >= mrr), None)


@in_our_style
def draw(found: Findings) -> dict[str, Figure]:
    """Draw validation MRR against seconds, and say below how long each baseline takes to where ours end."""
    figure, (axis,) = panels(found.title, height=4.4)
    rows = [row for row in found.rows if row.figures]
    spare = iter(LOOKS[3:])
    every = [
        Series(
            row["name"],
            [p[0] for p in row["points"]],
            [p[2] for p in row["points"]],
            KNOWN.get(row["name"]) or next(spare),
        )
        for row in rows
    ]
    lines(axis, every)
    if every:
        logarithmic(axis, "x", "s")
    for row, series in zip(rows, every, strict=True):
        if row["ours"]:
            axis.axhline(row["valid_mrr"], color=series.look.colour, linewidth=0.8, linestyle=(0, (1, 3)), zorder=0)
    axis.set_xlabel("seconds of training, validation left out")
    axis.set_ylabel("validation MRR")
    noted(figure, [*_races(found), *gap_notes(found)])
    ends = [(series, series.last, bool(row["ours"])) for row, series in zip(rows, every, strict=True)]
    points(axis, [Point(series.name, *end, series.look, ours) for series, end, ours in ends if end is not None])
    return {"": figure}


def _races(found: Findings) -> list[str]:
    """Return for each of ours how long the baselines take to be as accurate."""
    said = []
    for ours in (row for row in found.where(ours=True) if row.figures):
        target = ours["valid_mrr"]
        own = reached(ours["points"], target) or ours["seconds"]
        times = []
        for row in (row for row in found.where(ours=False) if row.figures):
            seconds = reached(row["points"], target)
            took = f"after {_seconds(seconds)}" if seconds is not None else f"not in {_seconds(row['seconds'])}"
            times.append(f"{row['title']} {took}")
        if times:
            said.append(f"{shown(target)} of {ours['name']} ({_seconds(own)}) is reached by {', '.join(times)}.")
    return said


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else spoken_time(seconds)


STUDY = Study("schedule", plan, draw)
