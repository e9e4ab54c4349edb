"""What a person sees in the terminal while the command works."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from procrustes_kge.cli.clock import elapsed
from procrustes_kge.cli.printing import print_json as print_json, warnings_as_notes as warnings_as_notes
from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.models.ranking import Evaluation, evaluate, figure
from procrustes_kge.models.with_paths import Embedding
from procrustes_kge.runs.experiment import Model, Watcher
from procrustes_kge.system.footprint import Footprint
from procrustes_kge.training.budget import spoken_time
from procrustes_kge.training.checkpoints import Checkpoints
from procrustes_kge.training.paths import WithEvidence, with_paths
from procrustes_kge.training.recipes import Settings, learned
from procrustes_kge.training.timekeeping import ended_by_the_clock
from procrustes_kge.training.trainer import Learned, Progress as TrainingProgress
from procrustes_kge.training.tuned import Tuned, Tuning, TuningProgress
from procrustes_kge.training.tuning import Search
from procrustes_kge.validation import spoken
from procrustes_kge.words import counted, listed


def say_unless(quiet: bool) -> Callable[[str], None]:
    """Return a function that prints lines without delay, or with `quiet` one that prints nothing."""
    return (lambda _: None) if quiet else partial(print, flush=True)


def read_with_bar(source: str, **options: Any) -> Graph:
    """Read a graph, from standard input if the source is `-`, with a progress bar during downloads."""
    bar = progress_bar(TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    tasks: dict[str, Any] = {}

    def show(file: str, done: int, total: int | None) -> None:
        if file not in tasks:
            tasks[file] = bar.add_task(file, total=total)
        bar.update(tasks[file], completed=done)

    if source == "-" and sys.stdin is None:
        raise InputError("standard input is closed; pipe triples into it, or give the path of a file")
    with bar:
        return read_graph(sys.stdin.buffer if source == "-" else source, progress=show, **options)


def progress_bar(*columns: Any) -> Progress:
    """Return a progress bar on standard error, silent when that is not a terminal."""
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def tuning_bar(seconds: float | None) -> Iterator[Callable[[TuningProgress], None]]:
    """Give a function that shows how far a search of so many seconds, or of a number of trials, has come."""
    columns = TextColumn("tuning"), BarColumn(), TextColumn("{task.fields[words]}")
    with progress_bar(*columns) as bar:
        task = bar.add_task("", total=None, words="")

        def show(progress: TuningProgress) -> None:
            words = [counted(progress.done, "trial")]
            words += [f"best valid MRR {figure(progress.best)}"] if progress.best is not None else []
            words += [f"{spoken_time(progress.left)} left"] if progress.left is not None else []
            total, done = float(progress.most or 1), float(progress.done)
            if progress.left is not None and seconds:
                total, done = seconds, seconds - progress.left
            bar.update(task, completed=done, total=total, words="   ".join(words))

        yield show


class TimeLeft(ProgressColumn):
    """Shows how much time is left, as soon as that is known."""

    def render(self, task: Task) -> Text:
        """Return the time in words."""
        return Text("" if task.time_remaining is None else f"{spoken_time(task.time_remaining)} left")


class TerminalWatcher(Watcher):
    """Shows progress bars while an experiment trains and ranks, and prints the results."""

    def __init__(self, say: Callable[[str], None] | None = None, ends: float | None = None) -> None:
        self.say = say or say_unless(quiet=True)
        self.ends = ends  # by when, in seconds since the command began, what was learned is ranked too
        self.searched = False

    def tune(self, graph: Graph, settings: Settings, tuning: Tuning, checkpoints: Checkpoints | None = None) -> Tuned:
        """Search, with a bar that shows trials, the best so far, and the time left."""
        with tuning_bar(tuning.seconds) as show:
            return Search(graph, settings, tuning, show, checkpoints).run()

    def on_tuned(self, found: Tuned) -> None:
        """Print what was found, and the settings that were changed."""
        self.searched = True
        tried = f"tuned  {counted(len(found.trials), 'trial')} in {found.seconds:.1f} s: "
        self.say(f"{tried if found.trials else ''}{found.said}")
        if found.chosen is not None:
            self.say(f"       {listed(f'{spoken(name)} {value}' for name, value in found.chosen.changes.items())}")
        if found.plan is not None:
            self.say(f"       {found.plan}")

    def learn(self, graph: Graph, settings: Settings, checkpoints: Checkpoints | None = None) -> Learned[Embedding]:
        """Train, with a bar that shows epochs, loss, validation MRR and the time left."""
        words = TextColumn("epoch {task.fields[epoch]} of {task.fields[epochs]}   {task.fields[figures]}")
        columns = TextColumn("fitting"), BarColumn(), words, TimeLeft()
        with progress_bar(*columns) as bar:
            task = bar.add_task("", total=None, epoch=0, epochs=settings.epochs, figures="")

            def show(progress: TrainingProgress) -> None:
                figures = [f"loss {progress.loss:.5g}"] if progress.loss is not None else []
                figures += [f"valid MRR {figure(progress.valid_mrr)}"] if progress.valid_mrr is not None else []
                bar.update(
                    task,
                    completed=progress.done,
                    total=progress.total,
                    epoch=progress.done * progress.epochs // progress.total,  # of all parts on average, as the bar is
                    epochs=progress.epochs,
                    figures="   ".join(figures),
                )

            return learned(graph, settings, show, checkpoints)

    def weigh(self, model: Embedding, graph: Graph, seed: int, between: Callable[[], None]) -> WithEvidence:
        """Put paths as evidence beside a model, in most of the time that is left, with a bar."""
        columns = TextColumn("weighing paths"), BarColumn(), MofNCompleteColumn(), TextColumn("relations"), TimeLeft()
        with progress_bar(*columns) as bar:
            task = bar.add_task("", total=len(graph.relations))
            seconds = None if self.ends is None else 0.7 * max(0.0, self.ends - elapsed())

            def show(done: int, _: int) -> None:
                bar.update(task, completed=done)
                between()

            return with_paths(model, graph, None, seed, seconds, show)

    def rank(self, model: Model, graph: Graph, split: str, seconds: float | None = None) -> Evaluation:
        """Rank a split, or as much of it as there is time for, with a bar."""
        columns = TextColumn(f"ranking {split}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        with progress_bar(*columns) as bar:
            task = bar.add_task("", total=None)

            def show(done: int, total: int) -> None:
                bar.update(task, completed=done, total=total)

            return evaluate(model, graph, split, show, seconds)

    def on_learned(self, found: Learned[Any], footprint: Footprint) -> None:
        """Print what the training cost."""
        memory = f"peak {footprint.peak_memory_mb:,.0f} MB"
        if footprint.gpu_peak_memory_mb:
            memory += f" + {footprint.gpu_peak_memory_mb:,.0f} MB GPU"
        grid = f"{footprint.grid_g_per_kwh:g} g/kWh" if footprint.grid == "given" else footprint.grid
        known = "estimated" if footprint.estimated else "measured"
        energy = f"{footprint.kwh * 1000:.2g} Wh   {footprint.g_co2:.2g} g CO2 ({known}, {grid})"
        epochs = counted(found.epochs, "epoch")
        if ended_by_the_clock(found.settings, found.epochs):
            epochs = f"{found.epochs} of {counted(found.settings.epochs, 'epoch')}, as many as the time allowed,"
        taken = f"{footprint.seconds:.1f} s{', the search included' if self.searched else ''}"
        self.say(f"fitted {epochs} in {taken}   {memory}   {energy}")

    def on_weighed(self, about: dict[str, Any]) -> None:
        """Print how many paths there are, and what they gain on validation."""
        gain = "no validation triples say what they are worth, so it is the usual" if about["worth"] else "none is used"
        if valid := about["valid"]:
            gain = f"valid MRR {figure(valid['without'])} without, {figure(valid['without'] + valid['gain'])} with"
            gain += "" if about["worth"] else ": no certain gain, so they are not used"
        self.say(f"weighed {counted(about['paths'], 'path')} in {about['seconds']:.1f} s   {gain}")

    def on_ranked(self, split: str, evaluation: Evaluation) -> None:
        """Print the metrics of a split."""
        triples = counted(evaluation.triples, "triple")
        if evaluation.ranked < evaluation.triples:
            triples = f"{evaluation.ranked:,} of {triples}, drawn at random"
        self.say(f"{split:<6} {evaluation}   {triples}")
