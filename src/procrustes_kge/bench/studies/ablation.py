"""What the parts of the method are worth, each left out or exchanged while the rest stays.

- Batches and negatives: full batch or mini-batches × no, sampled or all negatives, each by the recipe that trains so.
- The norm of the loss: unsquared as in the paper, or squared, for `paper` and for `fast`.
- Centring and length normalisation: without them vectors collapse. No setting offers that, nor what follows.
- Rotations in closed form, or by gradient steps at several rates, made orthogonal after each. Both are in `plain`.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from procrustes_kge.bench.studies.plain import PlainTraining, Variant, curve
from procrustes_kge.bench.studies.study import Bench, Figures, Findings, Place, Row, Study, gap_notes, training_row
from procrustes_kge.figures.plots import Dots, Series, dot_rows, lines, logarithmic, named_ends, noted
from procrustes_kge.figures.style import LOOKS, in_our_style, panels
from procrustes_kge.models.ranking import figure as shown
from procrustes_kge.runs.experiment import device_name
from procrustes_kge.system.devices import choose_device
from procrustes_kge.training.loop import at_work, validation_mrr
from procrustes_kge.training.schedule import Schedule

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FULL_EPOCHS = 300  # of full batch with all negatives: a step an epoch, as many as `paper+ns` has
# What is trained how: batches and negatives, the recipe, and its changes.
GRID: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
    ("full batch", "no negatives"): ("paper", {}),
    ("full batch", "sampled negatives"): ("paper+ns", {}),
    ("full batch", "all negatives"): ("accurate", {"batch": "full", "epochs": FULL_EPOCHS, "negatives": "all"}),
    ("mini-batches", "no negatives"): ("paper+tb", {}),
    ("mini-batches", "sampled negatives"): ("paper+ns+tb", {}),
    ("mini-batches", "all negatives"): ("accurate", {"negatives": "all"}),
}
LOSSES = (("paper", "squared"), ("fast", "squared"), ("fast", "norm"))  # the paper's norm is in the grid
SPHERISING = {  # whether vectors are centred, and scaled to length one
    (True, True): "centred, of length one",
    (False, True): "of length one",
    (True, False): "centred",
    (False, False): "neither",
}
RATES = (0.1, 0.01, 0.001)  # of rotations that take gradient steps
DIM, EPOCHS, EVERY = 200, 120, 6  # of the plain variants
BRIEF = {"dim": 40, "segment": 10, "epochs": 3, "validate_every": 0, "patience": 0}
BRIEF_VARIANT: dict[str, Any] = {"dim": 20, "segment": 10}


def plan(place: Place) -> list[Row]:
    """Return the rows of the four parts."""
    brief = BRIEF if place.quick else {}
    rows = []
    for (batch, negatives), (name, changes) in GRID.items():
        grid: dict[str, Any] = {"part": "grid", "batch": batch, "negatives": negatives}
        rows.append(training_row(place, f"{batch}, {negatives}", name, grid, **{**changes, **brief}))
    for name, loss in LOSSES:
        about: dict[str, Any] = {"part": "loss", "name": name, "loss": loss}
        rows.append(training_row(place, f"{name}, {loss}", name, about, loss=loss, **brief))
    size = BRIEF_VARIANT if place.quick else {"dim": DIM}
    for (centre, normalise), name in SPHERISING.items():
        about = {"part": "spherise", "centre": centre, "normalise": normalise}
        rows.append(_variant_row(place, name, about, Variant(centre=centre, normalise=normalise, **size)))
    for rate in RATES:
        variant = Variant(rotation_learning_rate=rate, **size)
        rows.append(
            _variant_row(place, f"rotations by gradient, rate {rate:g}", {"part": "rotations", "rate": rate}, variant)
        )
    return rows


def _variant_row(place: Place, name: str, about: dict[str, Any], variant: Variant) -> Row:
    epochs = EPOCHS // 10 if place.quick else EPOCHS
    cost = float(len(place.graph.train)) * variant.dim * epochs * 20 * variant.segment
    known = {**about, "variant": vars(variant), "epochs": epochs}
    return Row(name, known, partial(measured, variant, epochs), cost)


def measured(variant: Variant, epochs: int, bench: Bench) -> Figures:
    """Train a variant; return points of epoch, spread and validation MRR, and its seconds without validation."""
    graph, device = bench.place.graph, choose_device(bench.place.device)
    judge, points, spent = Schedule(seed=variant.seed, validation_triples=1000), [], 0.0
    with at_work(graph, Schedule(device=bench.place.device)):
        began = time.perf_counter()
        for epoch, training in curve(PlainTraining(graph, variant, device), epochs, max(1, epochs * EVERY // EPOCHS)):
            spread = training.spread()  # waits for a GPU
            spent += time.perf_counter() - began
            mrr = validation_mrr(training.model(), graph, judge) if len(graph.valid) else None
            points.append([epoch, spread, mrr])
            bench.tell(epoch / epochs)
            began = time.perf_counter()
    return {
        "points": points,
        "spread": points[-1][1],
        "valid_mrr": points[-1][2],
        "seconds": spent,
        "epochs": epochs,
        "device": device_name(device),
    }


@in_our_style
def draw(found: Findings) -> dict[str, Figure]:
    """Draw the four parts."""
    figure, axes = panels(found.title, columns=2, rows=2, height=3.2)
    grid, losses, spread, rotations = axes
    _grid(grid, found)
    _losses(losses, found)
    spreading = _curves(spread, found, "spherise", 1)
    spread.set_title("Distance of entities from their centre")
    if spreading:
        logarithmic(spread, "y")
    rotating = _curves(rotations, found, "rotations", 2)
    rotations.set_title("Rotations: closed form or gradient")
    rotations.set_ylabel("validation MRR")
    noted(figure, gap_notes(found))
    named_ends(spread, spreading)  # when all else has its place
    named_ends(rotations, rotating)
    return {"": figure}


def _grid(axis: Axes, found: Findings) -> None:
    drawn = []
    for batch, negatives in GRID:
        rows = found.where(part="grid", batch=batch, negatives=negatives)
        values = [(row["mrr"], LOOKS[0 if batch == "full batch" else 1]) for row in rows if row.figures]
        drawn.append(Dots(f"{batch}, {negatives.removesuffix(' negatives')}", values))
    axis.set_title("Batches and negatives")
    dot_rows(axis, drawn, shown)
    axis.set_xlabel("test MRR")


def _losses(axis: Axes, found: Findings) -> None:
    rows = {
        "paper, norm": found.where(part="grid", batch="full batch", negatives="no negatives"),
        **{f"{name}, {loss}": found.where(part="loss", name=name, loss=loss) for name, loss in LOSSES},
    }
    looks = {"norm": LOOKS[2], "squared": LOOKS[3]}
    drawn = [
        Dots(name, [(row["mrr"], looks[name.split(", ")[1]]) for row in found_rows if row.figures])
        for name, found_rows in rows.items()
    ]
    axis.set_title("The loss, full batch")
    dot_rows(axis, drawn, shown)
    axis.set_xlabel("test MRR")


def _curves(axis: Axes, found: Findings, part: str, which: int) -> list[Series]:
    """Draw a curve of each variant of a part; rotations by gradient stand beside the closed form."""
    rows = found.where(part=part)
    if part == "rotations":
        rows = [*found.where(part="spherise", centre=True, normalise=True), *rows]
    every = []
    for number, row in enumerate(rows):
        name = row.name
        if part == "rotations":
            name = f"gradient, rate {row['rate']:g}" if row["rate"] else "closed form"
        if row.figures:
            points = row["points"]
            values = [point[which] for point in points]
            every.append(Series(name, [point[0] for point in points], values, LOOKS[number]))
    lines(axis, every, marked=False)
    axis.set_xlabel("epochs")
    return every


STUDY = Study("ablation", plan, draw)
