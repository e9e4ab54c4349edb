"""Carrying out a job, for `train` and `resume` alike: learn, save, rank, and say so on the way."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from procrustes_kge.cli import interrupts
from procrustes_kge.cli.calibrate import keep_probabilities
from procrustes_kge.cli.clock import elapsed
from procrustes_kge.cli.repeating import repeating_command
from procrustes_kge.cli.terminal import TerminalWatcher, print_json
from procrustes_kge.errors import DivergedError, InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.ranking import figure
from procrustes_kge.runs.checkpoints import FolderCheckpoints, Interval, parse_interval
from procrustes_kge.runs.experiment import Model, Run, learned_run, ranked
from procrustes_kge.runs.jobs import Job, remove, unfinished, write_job
from procrustes_kge.runs.store import save, update_report
from procrustes_kge.system.files import read_json
from procrustes_kge.training.checkpoints import TUNING, Stopped
from procrustes_kge.training.recipes import changed
from procrustes_kge.words import counted

EVERY, NEVER = "5m", "never"
FOR_PROBABILITIES = 0.2  # of the time that is left after training; the rest is for ranking
_EVERY = f"Keep what is needed to resume after this time ({EVERY}) or number of epochs (3), or {NEVER}."
Every = Annotated[str | None, typer.Option("--checkpoint-every", help=_EVERY, show_default=EVERY)]


def interval(text: str | None) -> Interval | None:
    """Return how often checkpoints are made; None: only where the training is asked to stop."""
    return None if text == NEVER else parse_interval(EVERY if text is None else text)


def carry_out(
    job: Job,
    folder: Path,
    every: Interval | None,
    say: Callable[[str], None],
    ends: float | None = None,
    as_json: bool = False,
) -> None:
    """Learn, save, rank, and report; by `ends`, in seconds since the command began, the ranking is over too."""
    place = unfinished(folder)
    # A short job is not worth it: it is written with its first checkpoint.
    checkpoints = FolderCheckpoints(place, every, begin=lambda: write_job(job, place))
    try:
        with _saying_how_to_go_on(folder):
            run = _learned(job, folder, checkpoints, TerminalWatcher(say, ends))
            replaced = "   (in place of an earlier run)" if folder.exists() and any(folder.iterdir()) else ""
            settings = run.settings or job.settings
            repeat = repeating_command(job.source, job.graph, run.report["recipe"], settings, job.options)
            report = {**run.report, **({"planned": job.planned} if job.planned else {}), "repeat": repeat}
            # Saved before it is ranked: nothing that happens from here on loses what has been learned.
            save(run.model, folder, job.graph, run.settings, report, relations=job.relations)
        remove(place)
        say(f"saved  {folder}{replaced}")
        stopped = interrupts.release()
    finally:
        interrupts.release()
    metrics = _measured(run.model, job.graph, TerminalWatcher(say), ends, folder, stopped)
    update_report(folder, metrics=metrics, seconds=elapsed())
    if as_json:
        print_json(read_json(folder / "report.json"))
    since = "since it was resumed" if checkpoints.seconds else "in all"
    say(f"took {elapsed():.1f} s {since}\nrepeat: {repeat}")


def _learned(job: Job, folder: Path, checkpoints: FolderCheckpoints, watcher: TerminalWatcher) -> Run:
    """Train; a signal asks to stop, and weights that diverge are kept as they were last good."""
    interrupts.stop_first(checkpoints.stop)
    try:
        paths = bool(job.options.get("paths"))
        try:
            return learned_run(job.graph, job.settings, job.recipe, job.grid, watcher, checkpoints, job.tuning, paths)
        except Stopped:
            if job.tuning is None or not _best_will_do(checkpoints):
                raise
        interrupts.stop_first(checkpoints.stop)
        best = replace(job.tuning, enough=True)
        return learned_run(job.graph, job.settings, job.recipe, job.grid, watcher, checkpoints, best, paths)
    except DivergedError as error:
        remove(unfinished(folder))  # it would diverge again
        kept = folder.with_name(f"{folder.name}-diverged") if folder.exists() else folder  # a good run stays
        settings = changed(job.settings, dim=error.model.dim)  # of the parts that were trained
        save(error.model, kept, job.graph, settings, {"diverged": str(error)})
        raise InputError(f"{error}; the last good weights are in {kept}") from None


def _best_will_do(checkpoints: FolderCheckpoints) -> bool:
    """Ask, where a search was stopped and somebody can answer, whether to train with the best that it has found."""
    facts = checkpoints.stages.get(TUNING, {"over": True})
    asked = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    if facts["over"] or not facts["trials"] or not asked:
        return False
    number = interrupts.release()
    best = max(trial["valid_mrr"] or 0 for trial in facts["trials"])
    so_far = f"{counted(len(facts['trials']), 'trial')} so far, the best with a validation MRR of {figure(best)}"
    print(f"{so_far}; train with it? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        interrupts.interrupt(number)
    checkpoints.go_on()
    return True


@contextmanager
def _saying_how_to_go_on(folder: Path) -> Iterator[None]:
    """Let what stops a training, or saving it, say how to go on from what is kept of it."""
    place, resume = unfinished(folder), f"`procrustes resume {folder}` goes on"
    try:
        yield
    except Stopped:
        print(f"{place} holds what was learned; {resume}", file=sys.stderr)
        interrupts.interrupt(interrupts.release())
    except (KeyboardInterrupt, SystemExit):
        kept = (place / "job").exists()
        told = f"{place} holds an earlier moment; {resume} from there" if kept else "nothing is kept of this training"
        print(told, file=sys.stderr)
        raise
    except InputError as error:
        if not (place / "job").exists():  # nothing was kept, or it diverged
            raise
        raise InputError(f"{error}; {resume} from what was kept") from error


def _measured(
    model: Model, graph: Graph, watcher: TerminalWatcher, ends: float | None, folder: Path, stopped: int
) -> dict[str, Any]:
    """Calibrate and rank; where that is interrupted, or was before it began, say that nothing is lost."""
    try:
        if stopped:
            interrupts.interrupt(stopped)
        left = None if ends is None else max(0.0, ends - elapsed())
        try:
            keep_probabilities(model, graph, folder, left and FOR_PROBABILITIES * left)
        except InputError as error:
            watcher.say(f"no probabilities: {error}")
        return ranked(model, graph, watcher=watcher, seconds=None if ends is None else max(0.0, ends - elapsed()))
    except (KeyboardInterrupt, SystemExit):
        print(f"{folder} holds what was learned; `procrustes evaluate {folder}` ranks it", file=sys.stderr)
        raise
