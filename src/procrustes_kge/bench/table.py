"""The paper's Table 2 with our results: every recipe on two benchmarks, a JSON file per row.

    rows ─filled→ folder/RECIPE-DATASET.json ─read_line→ lines ─as_text, as_markdown→ table

A row that has a file is not trained again, so a table that was interrupted continues where it stopped. `results.json`
holds the results that come with the package, which `scripts/check_results.py` keeps in step with benchmarks/results.
"""

import gc
import json
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from importlib import resources
from itertools import groupby
from math import isfinite
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from procrustes_kge.bench.paper import DATASETS, NAMES, PAPER, Printed
from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.models.ranking import figure
from procrustes_kge.runs.experiment import Watcher, experiment
from procrustes_kge.runs.several import Several
from procrustes_kge.system.devices import choose_device
from procrustes_kge.system.files import read_json, scratch_folder, write_json_atomically
from procrustes_kge.system.memory import is_out_of_memory
from procrustes_kge.training.baseline_recipes import PUBLISHED
from procrustes_kge.training.benchmarks import OTHER
from procrustes_kge.training.checkpoints import Checkpoints
from procrustes_kge.training.recipes import OWN, Settings, recipe
from procrustes_kge.words import counted, either, listed, unknown

SEEDS = 3  # of our own recipes; a baseline has one
NEAR = 0.01  # how far an MRR may be from the paper's without a mark
MARK, MISSING = "*", "–"
PROTOCOLS = {"paper": "paper's protocol"}  # recipes of a model beside the one of its own name
SHIPPED = resources.files("procrustes_kge.bench") / "results.json"
COLUMNS = ("MRR", "H@1", "H@3", "H@10", "seconds", "g CO2", "paper: MRR", "minutes", "g CO2")


@dataclass(frozen=True)
class Row:
    """A recipe on a dataset."""

    recipe: str
    dataset: str

    @property
    def name(self) -> str:
        """The name of its file, without the suffix."""
        return f"{self.recipe.replace('+', '-')}-{self.dataset}"

    @property
    def model(self) -> str:
        """The baseline that the recipe trains, or the recipe itself for our own model."""
        return self.recipe if self.recipe in OWN else PUBLISHED[self.recipe][OTHER].model

    @property
    def title(self) -> str:
        """Its name in the table."""
        name = NAMES.get(self.model, self.model)
        protocol = self.recipe.removeprefix(self.model).lstrip("-")
        return ", ".join([name, *([PROTOCOLS.get(protocol, protocol)] if protocol else [])])

    @property
    def printed(self) -> Printed | None:
        """The paper's figures for the model, whichever recipe this is."""
        return PAPER[self.model][list(DATASETS).index(self.dataset)] if self.model in PAPER else None

    def is_meant(self, word: str) -> bool:
        """Say whether a word names this row: its recipe, its dataset, or both."""
        return word.lower() in (self.recipe, self.dataset, self.name, f"{self.recipe}-{self.dataset}")

    def file(self, folder: Path) -> Path:
        """Return the path of its results."""
        return folder / f"{self.name}.json"


@dataclass(frozen=True)
class Figures:
    """The results of a row: means over its seeds, for both sides of the test triples."""

    mrr: float
    hits_at_1: float
    hits_at_3: float
    hits_at_10: float
    seconds: float
    g_co2: float
    epochs: float
    seeds: int
    device: str

    @classmethod
    def of(cls, runs: Sequence[dict[str, Any]]) -> "Figures":
        """Summarise the reports of trainings that differ only in their seed."""
        every = [{**run["metrics"]["test"], **run["footprint"], "epochs": run["epochs"]} for run in runs]
        keys = ("mrr", "hits@1", "hits@3", "hits@10", "seconds", "g_co2", "epochs")
        found = {key.replace("@", "_at_"): mean(each[key] for each in every) for key in keys}
        if not all(map(isfinite, found.values())):
            raise ValueError("one of them is not a number")
        return cls(**found, seeds=len(runs), device=str(runs[0]["device"]))


@dataclass(frozen=True)
class Line:
    """A row with its results, or without them if it has not been trained or training failed."""

    row: Row
    figures: Figures | None = None
    problem: str | None = None

    @property
    def differs(self) -> bool:
        """Whether our MRR, as the table shows it, is far from the paper's, above or below."""
        if self.figures is None or self.row.printed is None:
            return False
        return round(abs(round(self.figures.mrr, 3) - self.row.printed.mrr), 3) > NEAR

    def cells(self) -> list[str]:
        """Return what the table shows in each column."""
        ours, printed = [MISSING] * 6, self.row.printed
        theirs = [figure(printed.mrr), f"{printed.minutes:,}", f"{printed.g_co2:,}"] if printed else [""] * 3
        if found := self.figures:
            ours = [figure(share) for share in (found.mrr, found.hits_at_1, found.hits_at_3, found.hits_at_10)]
            ours[0] += MARK if self.differs else ""
            ours += [f"{found.seconds:,.1f}", grams(found.g_co2)]
        return [self.row.title, *ours, *theirs]

    def as_dict(self) -> dict[str, Any]:
        """Return everything, for programs."""
        printed = self.row.printed
        return {
            **asdict(self.row),
            "title": self.row.title,
            "figures": asdict(self.figures) if self.figures else None,
            "paper": printed._asdict() if printed else None,
            "differs": self.differs,
            "problem": self.problem,
        }

    def __str__(self) -> str:
        found = self.figures
        if found is None:
            return f"{self.row.name:<24}{f'not trained: {self.problem}' if self.problem else 'not trained'}"
        many = f"{counted(found.seeds, 'seed')}, " if found.seeds > 1 else ""
        cost = f"{counted(round(found.epochs), 'epoch')} in {found.seconds:,.1f} s   {grams(found.g_co2)} g CO2"
        return f"{self.row.name:<24}MRR {figure(found.mrr)}   {many}{cost}"


def grams(amount: float) -> str:
    """Return grams with two significant digits, or as a whole number from ten up.

    >>> grams(0.0123), grams(3.456), grams(1234.5)
    ('0.012', '3.5', '1,234')
    """
    return f"{amount:.2g}" if amount < 10 else f"{amount:,.0f}"


def table_rows(only: Sequence[str] = ()) -> list[Row]:
    """Return the rows of the table in the paper's order, or only those that a word of `only` names."""
    models = list(dict.fromkeys(settings[OTHER].model for settings in PUBLISHED.values()))
    baselines = sorted(PUBLISHED, key=lambda name: models.index(PUBLISHED[name][OTHER].model))
    names = [*baselines, *(name for name in NAMES if name in OWN)]
    rows = [Row(name, dataset) for dataset in DATASETS for name in names]
    for word in only:
        if not any(row.is_meant(word) for row in rows):
            raise InputError(f"{unknown('row', word, [*DATASETS, *names])}, or both together, such as {rows[0].name}")
    return [row for row in rows if not only or any(map(row.is_meant, only))]


def missing(rows: Iterable[Row], folder: Path) -> list[Row]:
    """Return the rows that have no file."""
    return [row for row in rows if not row.file(folder).exists()]


def read_line(row: Row, folder: Path) -> Line:
    """Return a row with the results in its file, or without results if there is no file."""
    file = row.file(folder)
    if not file.exists():
        return Line(row)
    try:
        runs = read_json(file)["runs"]
        found = sorted({f"{run['recipe']} on {run['dataset']}" for run in runs})
        if found != [f"{row.recipe} on {row.dataset}"]:
            raise ValueError(f"it is of {listed(found or ['nothing'])}")
        return Line(row, Figures.of(runs))
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise InputError(f"{file}: has no results of this row ({error}); delete it to train the row again") from error


def shipped_line(row: Row) -> Line:
    """Return a row with the results that come with the package."""
    found = _shipped().get(row.name)
    return Line(row, Figures(**found) if found else None)


@cache
def _shipped() -> dict[str, dict[str, Any]]:
    content: dict[str, dict[str, Any]] = json.loads(SHIPPED.read_text(encoding="utf-8"))
    return content


def filled(
    rows: Iterable[Row],
    folder: Path,
    device: str = "auto",
    commit: str | None = None,
    read: Callable[[str], Graph] = read_graph,
    watcher: Watcher | None = None,
    several: Several | None = None,
) -> Iterator[Line]:
    """Train rows one after another, write and yield each when done; failed rows are reported, the rest continue."""
    choose_device(device)
    with scratch_folder(folder / "row"):  # a folder that cannot be written is an error before anything is trained
        pass
    read = cache(read)
    for row in rows:
        try:
            seeds = SEEDS if row.recipe in OWN else 1
            runs = repeated(read(row.dataset), row.recipe, seeds, device, watcher, several)
        except (InputError, RuntimeError, MemoryError) as error:
            if not isinstance(error, InputError) and not is_out_of_memory(error):
                raise
            line = Line(row, problem=str(error) if isinstance(error, InputError) else "out of memory")
        else:
            write_json_atomically(row.file(folder), {"commit": commit, "runs": runs})
            line = Line(row, Figures.of(runs))
        gc.collect()  # the next row finds as much memory as the first
        torch.cuda.empty_cache()
        yield line


def repeated(
    graph: Graph,
    name: str,
    seeds: int,
    device: str = "auto",
    watcher: Watcher | None = None,
    several: Several | None = None,
    **changes: Any,
) -> list[dict[str, Any]]:
    """Train a recipe with some seeds and return their reports.

    One epoch is trained first and not timed: what a process loads or compiles only once does not count.
    """
    settings = recipe(name, graph, device, **changes)
    (watcher or Watcher()).learn(graph, replace(settings, epochs=1))

    def one(seed: int, checkpoints: Checkpoints | None = None) -> dict[str, Any]:
        return trained(graph, replace(settings, seed=seed), name, watcher=watcher, checkpoints=checkpoints)

    if several is None:
        return list(map(one, range(seeds)))
    return [several.report(f"{name}-{graph.name}-{seed}", partial(one, seed)) for seed in range(seeds)]


def trained(
    graph: Graph,
    settings: Settings,
    recipe: str,
    splits: Iterable[str] = ("valid", "test"),
    watcher: Watcher | None = None,
    checkpoints: Checkpoints | None = None,
) -> dict[str, Any]:
    """Train once, rank some splits, and return the part of the report that a result file keeps."""
    report = experiment(graph, settings, recipe, splits, watcher=watcher, checkpoints=checkpoints).report
    for figures in report["metrics"].values():
        del figures["relations"]  # long, and not what a table shows
    del report["notes"], report["curve"]  # of the files of this machine, and long
    return report


def commit() -> str | None:
    """Return the commit that this package is checked out from, and whether it was changed since, if there is one."""
    git = ["git", "-C", str(Path(__file__).parents[1])]
    ask = partial(subprocess.check_output, text=True, stderr=subprocess.DEVNULL)
    try:
        # Asked for this very file too: the package may be installed inside a checkout of something else.
        found = ask([*git, "rev-parse", "HEAD:./__init__.py", "HEAD"])
        changes = ask([*git, "status", "--porcelain", "--", "."])
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    return found.split()[-1] + (" and changes" if changes else "")


def as_text(lines: Iterable[Line]) -> str:
    """Return the table with aligned columns, a part for each dataset."""
    return _parts(lines, _aligned, MARK)


def as_markdown(lines: Iterable[Line]) -> str:
    """Return the table in Markdown, a part for each dataset."""
    return _parts(lines, _in_pipes, f"\\{MARK}")


def _parts(lines: Iterable[Line], shown: Callable[[list[list[str]]], Iterable[str]], mark: str) -> str:
    """Return a part for each dataset, its heading first, and what a reader of these lines should know."""
    lines, notes = list(lines), list[str]()
    if any(line.differs for line in lines):
        notes.append(f"{mark} differs from the paper's MRR by more than {f'{NEAR:g}'.removeprefix('0')}.")
    if any(line.figures is None for line in lines):
        notes.append(f"{MISSING} not trained yet.")
    if devices := sorted({line.figures.device for line in lines if line.figures}):
        notes.append(f"Trained on {either(devices)}; the paper's minutes and grams are for a GTX 1080 Ti.")
    parts = [
        shown([[DATASETS[dataset], *COLUMNS], *(line.cells() for line in some)])
        for dataset, some in groupby(lines, key=lambda line: line.row.dataset)
    ]
    return "\n\n".join("\n".join(part) for part in [*parts, notes]).rstrip()


def _aligned(rows: list[list[str]]) -> Iterator[str]:
    """Yield lines with words, and the MRR with its mark, to the left, and numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, "<<" + ">" * len(COLUMNS[1:]), strict=True)
        yield "  ".join(f"{cell:{side}{width}}" for cell, width, side in cells).rstrip()


def _in_pipes(rows: list[list[str]]) -> Iterator[str]:
    for row in (rows[0], ["---"] * len(rows[0]), *rows[1:]):
        yield f"| {' | '.join(row)} |"
