"""What a study is: rows planned for a graph, each measured on its own, and figures of what was found.

    plan ─rows→ measured one by one ─written at once→ FOLDER/NAME-GRAPH.json ─draw→ FOLDER/NAME-GRAPH.svg and .png

A row that fails keeps its reason, and is a gap in the figure. How rows are kept is in `kept`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from procrustes_kge.bench.table import trained
from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.ranking import figure
from procrustes_kge.runs.experiment import Watcher
from procrustes_kge.system.devices import choose_device
from procrustes_kge.training.checkpoints import Checkpoints
from procrustes_kge.training.recipes import Settings, learned, recipe, values_of
from procrustes_kge.training.trainer import Learned, Progress
from procrustes_kge.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Figures = dict[str, Any]  # of a row: plain values, as JSON has them
KEPT = ("mrr", "hits@1", "hits@3", "hits@10")
COST = ("seconds", "kwh", "g_co2", "peak_memory_mb", "gpu_peak_memory_mb")
MOST_NOTES = 4
GLIMPSE = {"train": 1000, "valid": 100, "test": 100}  # triples of a graph that a glance looks at
MACHINE = ("device", "workers")  # settings that say where a training runs, not what it is


@dataclass(frozen=True)
class Place:
    """What a study is of: a graph, a device, and whether a glance is enough."""

    graph: Graph
    device: str = "auto"
    quick: bool = False
    anew: bool = False  # results that come with the package are not taken

    def __post_init__(self) -> None:
        """Refuse a graph whose accuracy nothing can say; a glance is at a part of it."""
        for split in ("train", "test"):
            if not len(self.graph.split(split)):
                has = f"the graph {self.graph.name} has no {split} triples, expected at least 1"
                raise InputError(f"{has}: a study trains and ranks; see `procrustes train --help` for splitting a file")
        if self.quick:
            object.__setattr__(self, "graph", glimpse(self.graph))

    @property
    def on_gpu(self) -> bool:
        """Whether it is measured on a GPU."""
        return choose_device(self.device).type == "cuda"


def glimpse(graph: Graph) -> Graph:
    """Return a graph with some of its triples, the same ones every time: enough to see that everything works."""
    generator, splits = torch.Generator().manual_seed(0), {}
    for split, most in GLIMPSE.items():
        triples = graph.split(split)
        splits[split] = triples[torch.randperm(len(triples), generator=generator)[:most].sort().values]
    return replace(graph, **splits)


@dataclass(frozen=True)
class Bench:
    """What a row measures with: the place, and whom to tell which share of the row is done."""

    place: Place
    tell: Callable[[float], None] = lambda share: None

    def warm_up(self, settings: Settings) -> None:
        """Train an epoch that does not count: what is loaded or compiled only once. A glance measures no speed."""
        if not self.place.quick:
            learned(self.place.graph, replace(settings, epochs=1, validate_every=0))

    def train(self, settings: Settings, name: str) -> Figures:
        """Train and rank; return accuracy and cost."""
        graph = self.place.graph
        self.warm_up(settings)
        report = trained(graph, settings, name, watcher=_Telling(self.tell))
        metrics = report["metrics"]
        test = metrics["test"]
        return {
            **{each: test[each] for each in KEPT},
            **{f"{side}_mrr": test[side]["mrr"] for side in ("tail", "head")},
            "valid_mrr": metrics["valid"]["mrr"] if "valid" in metrics else None,
            "epochs": report["epochs"],
            **{each: report["footprint"][each] for each in COST},
            "device": report["device"],
        }


class _Telling(Watcher):
    """Tells how far a training has come."""

    def __init__(self, tell: Callable[[float], None]) -> None:
        self.tell = tell

    def learn(self, graph: Graph, settings: Settings, checkpoints: Checkpoints | None = None) -> Learned[Any]:
        def show(progress: Progress) -> None:
            self.tell(min(1.0, progress.done / max(1, progress.total)))

        return learned(graph, settings, show, checkpoints)


@dataclass(frozen=True)
class Row:
    """A row that is planned: what it is about, how it is measured, and how long that takes beside other rows."""

    name: str  # of its own within the study
    about: Mapping[str, Any]  # what tells it from a row of the same name of another study: plain values
    measure: Callable[[Bench], Figures]
    cost: float = 1.0


@dataclass(frozen=True)
class Result:
    """A row that was measured, or failed."""

    name: str
    about: Mapping[str, Any]
    figures: Figures | None = None
    problem: str | None = None

    def __getitem__(self, key: str) -> Any:
        """Return a figure, or what the row is about; nothing where it failed."""
        return {**self.about, **(self.figures or {})}.get(key)

    def __str__(self) -> str:
        if self.figures is None:
            return f"{self.name:<36}not measured: {self.problem}"
        return f"{self.name:<36}{'   '.join(spoken_figures(self.figures))}"


@dataclass(frozen=True)
class Findings:
    """All that a study has found, in the order of its plan, as its file holds it."""

    study: str
    graph: str
    quick: bool
    device: str
    planned: int
    rows: Sequence[Result] = field(default_factory=tuple)

    def where(self, **about: Any) -> list[Result]:
        """Return the rows that are about this."""
        return [row for row in self.rows if all(row.about.get(name) == value for name, value in about.items())]

    @property
    def gaps(self) -> list[Result]:
        """The rows that failed."""
        return [row for row in self.rows if row.figures is None]

    def on(self, device: str) -> Findings:
        """Return the same findings, measured on another device."""
        return replace(self, device=device)

    @property
    def title(self) -> str:
        """What stands above a figure: the graph, where it was measured, and what is missing."""
        quick = ", a glance: some triples, small vectors, few epochs" if self.quick else ""
        some = "" if len(self.rows) == self.planned else f", {len(self.rows)} of {counted(self.planned, 'row')} so far"
        return f"{self.graph} · {self.device}{quick}{some}"


@dataclass(frozen=True)
class Study:
    """A study: its name, the rows that it plans for a place, and how what was found is drawn.

    `draw` returns figures by what is added to the name of the file, "" for the first.
    """

    name: str
    plan: Callable[[Place], list[Row]]
    draw: Callable[[Findings], dict[str, Figure]]


def gap_notes(found: Findings) -> list[str]:
    """Return a sentence for each row that failed, for below a figure; of many, of the first."""
    said = [f"Missing: {row.name} ({row.problem})" for row in found.gaps]
    return said if len(said) <= MOST_NOTES else [*said[:MOST_NOTES], f"and {len(said) - MOST_NOTES} more rows"]


def spoken_figures(figures: Figures) -> list[str]:
    """Return the figures of a row that a line has room for, in words.

    >>> spoken_figures({"mrr": 0.4637, "seconds": 3.21, "epochs": 60, "device": "a GPU"})
    ['MRR .464', '3.21 s', '60 epochs']
    """
    ways: dict[str, Callable[[Any], str]] = {
        "mrr": lambda value: f"MRR {figure(value)}",
        "triples_per_second": lambda value: f"{value:,.0f} triples a second",
        "seconds": lambda value: f"{value:,.3g} s" if value < 1000 else f"{value:,.0f} s",
        "g_co2": lambda value: f"{value:.2g} g CO2",
        "epochs": lambda value: counted(round(value), "epoch"),
        "spread": lambda value: f"spread {value:.2g}",
    }
    return [ways[name](figures[name]) for name in ways if figures.get(name) is not None]


def training_row(
    place: Place, name: str, recipe_name: str, about: Mapping[str, Any], cost: float | None = None, **changes: Any
) -> Row:
    """Return a row that trains a recipe with some changes and ranks; its settings are a part of what it is about."""
    settings = recipe(recipe_name, place.graph, place.device, **changes)
    values = {each: value for each, value in values_of(settings).items() if each not in MACHINE}
    known = {**about, "recipe": recipe_name, "settings": values}
    return Row(name, known, lambda bench: bench.train(settings, recipe_name), cost or expected(place.graph, settings))


def expected(graph: Graph, settings: Settings) -> float:
    """Return about how long a training takes beside others: the products of its epochs, and what ranking takes."""
    compared: Any = getattr(settings, "negatives", "none")
    many = {"all": len(graph.entities), "kvsall": len(graph.entities), "none": 0}.get(compared, compared)
    # With patience, validation ends most trainings early.
    epochs = settings.epochs * (0.5 if settings.patience and settings.validate_every else 1.0)
    numbers = float(len(graph.train)) * settings.dim
    ranking = 0.05 * numbers * len(graph.entities)
    return epochs * numbers * (3.0 * getattr(settings, "segment", 1) + 0.1 * many) + ranking


def free_memory() -> None:
    """Let the next row find as much memory as the first."""
    import gc

    gc.collect()
    torch.cuda.empty_cache()
