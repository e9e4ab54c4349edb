"""Whether entities store the relations: a model is kept without its relations, which are computed again, and ranked.

Four models of the same entity vectors: as trained; restored from a run folder without relations; with rotations by
Eq. 3 from the training triples alone, no scale and, with negatives, no translation either; and without rotations.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch

from procrustes_kge.bench.studies.study import MACHINE, Bench, Figures, Findings, Place, Row, Study, expected, gap_notes
from procrustes_kge.errors import InputError
from procrustes_kge.figures.plots import Dots, dot_rows, noted
from procrustes_kge.figures.style import LOOKS, in_our_style, panels
from procrustes_kge.models.procrustes import Procrustes, both_ways
from procrustes_kge.models.ranking import evaluate, figure as shown
from procrustes_kge.runs.experiment import device_name
from procrustes_kge.runs.store import load, save
from procrustes_kge.system.devices import choose_device
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import Settings, learned, recipe, values_of
from procrustes_kge.training.restoring import restore_relations

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECIPES = ("accurate", "paper+ns+tb", "fast", "paper")
BRIEF = {"dim": 40, "segment": 10, "epochs": 10, "patience": 0, "validate_every": 0}
WAYS = {"trained": "as trained", "restored": "restored", "eq3": "rotations by Eq. 3 alone", "none": "no rotations"}


def plan(place: Place) -> list[Row]:
    """Return a row for each recipe of ours."""
    rows = []
    for name in RECIPES:
        settings = recipe(name, place.graph, place.device, **(BRIEF if place.quick else {}))
        values = {each: value for each, value in values_of(settings).items() if each not in MACHINE}
        about = {"recipe": name, "settings": values}
        rows.append(Row(name, about, partial(measured, settings), expected(place.graph, settings)))
    return rows


def measured(settings: Settings, bench: Bench) -> Figures:
    """Train once; rank the test triples with the relations that were trained, and with others of the same entities."""
    graph, device = bench.place.graph, choose_device(bench.place.device)
    began = time.perf_counter()
    model = learned(graph, settings, lambda progress: bench.tell(0.7 * progress.done / max(1, progress.total))).model
    if not isinstance(model, Procrustes):
        raise InputError("a model without rotations, expected one of our own recipes")
    seconds, figures = time.perf_counter() - began, Figures()
    for place, (way, other, taken) in enumerate(_others(model, bench, settings), start=1):
        metrics = evaluate(other.to(device), graph, "test").as_dict()
        figures[way] = {**{each: metrics[each] for each in ("mrr", "hits@1", "hits@10")}, "seconds": taken}
        if way == "restored":
            figures["alike"] = likeness(model, other)
        bench.tell(0.7 + 0.3 * place / len(WAYS))
    return {"mrr": figures["trained"]["mrr"], "seconds": seconds, **figures, "device": device_name(device)}


def _others(model: Procrustes, bench: Bench, settings: Settings) -> Iterator[tuple[str, Procrustes, float]]:
    """Yield the models of the same entity vectors, each with the seconds that its relations took."""
    graph, vectors = bench.place.graph, model.vectors
    yield "trained", model, 0.0
    with TemporaryDirectory() as scratch:
        folder = Path(scratch, "run")
        save(model, folder, graph, settings, relations=False)
        began = time.perf_counter()
        restored: Any = load(folder)
        yield "restored", restored, time.perf_counter() - began
    began = time.perf_counter()
    translate = isinstance(settings, FitSettings) and settings.translate
    rotations, translations = restore_relations(vectors, graph, translate)
    plain = replace(model, rotations=rotations, translations=translations, scales=None)
    yield "eq3", plain, time.perf_counter() - began
    eye = torch.eye(vectors.shape[2]).to(vectors).expand_as(rotations).contiguous()
    kept = both_ways(eye, translations[: len(eye)]) if translations is not None else None
    yield "none", replace(plain, rotations=eye, translations=kept), 0.0


def likeness(model: Procrustes, other: Procrustes) -> float:
    """Return the mean cosine of the rotations of two models: tr(Q Q'ᵀ) / d_s."""
    products = (model.rotations * other.rotations.to(model.rotations.device)).sum(dim=(-2, -1))
    return float(products.mean() / model.rotations.shape[-1])


@in_our_style
def draw(found: Findings) -> dict[str, Figure]:
    """Draw the test MRR of each recipe, a dot for each way to its relations."""
    rows = [row for row in found.rows if row.figures is not None]
    drawn = []
    for row in rows:
        for (way, words), look in zip(WAYS.items(), LOOKS, strict=False):
            drawn.append(Dots(f"{row['recipe']}, {words}", [(row[way]["mrr"], look)], way == "trained"))
    figure, (axis,) = panels(found.title, height=0.9 + 0.3 * max(3, len(drawn)))
    dot_rows(axis, drawn, shown)
    axis.set_xlabel("test MRR")
    alike = [
        f"{row['recipe']}: restored in {row['restored']['seconds']:.1f} s, cosine of rotations {row['alike']:.3f}. "
        for row in rows
    ]
    noted(figure, ["".join(alike).strip(), *gap_notes(found)] if alike else gap_notes(found))
    return {"": figure}


STUDY = Study("restored", plan, draw)
