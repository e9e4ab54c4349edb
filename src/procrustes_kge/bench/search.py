"""The long search for settings: Optuna proposes, validation judges, and the learning curve ends hopeless trials early.

    recipe, portfolio ─TPE→ trials, pruned by the median ─race of the best and the start, another seed→ settings

It is the long form of `training.tuning`: each trial is a whole training, of any model, and all is kept in a file. One
trial runs at a time, so that with a number of trials the same ones are made however often the search was stopped.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import torch

from procrustes_kge.bench.study import PRUNED, REFUSED, REPEATED, TRIED, StudyFile
from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.system.process import give_back
from procrustes_kge.training.checkpoints import Stopped
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.loop import check_trainable
from procrustes_kge.training.portfolio import portfolio
from procrustes_kge.training.recipes import Settings, changed, check_fits, recipe, values_of
from procrustes_kge.training.spaces import around, space_of
from procrustes_kge.training.trainer import Progress
from procrustes_kge.training.trials import FEWEST, Judge, Trial, verdict, winner
from procrustes_kge.training.tuned import Tuned, TuningProgress
from procrustes_kge.training.tuning import FINALISTS, RACE, SPARE
from procrustes_kge.words import counted

FILE = "study.db"
POINTS = 10  # of a learning curve: a trial is compared with others that had the same share of their epochs
FEWEST_POINTS = 5
FRUITLESS = 100  # proposals in a row that are refused, or were tried before: there is nothing else

Changes = dict[str, Any]


class OutOfTimeError(Exception):
    """The time for the search is over, in the middle of a trial."""


class LongSearch:
    """A search in a folder: what it may try, how long, and how far it has come."""

    def __init__(
        self,
        graph: Graph,
        name: str,
        fixed: Mapping[str, Any],
        folder: Path,
        resume: bool = False,
        trials: int | None = None,
        left: Callable[[], float] = lambda: math.inf,
        report: Callable[[TuningProgress], None] | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """Search from a recipe, with some settings fixed, until there are so many trials or no seconds are left."""
        check_trainable(graph)
        self.graph, self.name, self.fixed = graph, name, dict(fixed)
        self.base = watched(recipe(name, graph, **fixed), self.fixed)
        self.most, self.left, self.report, self.stopping = trials, left, report, stopping
        self.reserved = 0.0  # seconds for the race
        self.judge = Judge.of(graph, self.base.dim, self.base.seed)
        if len(self.judge.sample) < FEWEST:
            has = f"{graph.name} has {counted(len(self.judge.sample), 'triple')} to judge settings by"
            raise InputError(f"{has}, expected at least {FEWEST}: differences would be noise; train it as it is")
        values = values_of(self.base)
        learned = portfolio() if isinstance(self.base, ContrastSettings) else []
        space = {each: allowed for each, allowed in space_of(self.base).items() if each not in self.fixed}
        if not space:
            raise InputError(f"{name} has no settings left to search; fix fewer of them, or choose another --recipe")
        for known in (values, *learned):
            space = dict(around(space, known))
        firsts = ({**values, **known} for known in ({}, *learned))
        self.firsts = [{each: known[each] for each in space} for known in firsts]
        about = {"graph": graph.checksum, "recipe": name, "settings": values}
        about["settings"] = {each: value for each, value in values.items() if each not in ("device", "workers")}
        self.study = StudyFile(folder / FILE, about, space, resume, len(self.judge.sample))

    @property
    def trials(self) -> list[Trial]:
        """The trials that were trained, to their end or not."""
        return [each for each in self.study.trials if each.stage in (TRIED, PRUNED)]

    def run(self) -> Tuned:
        """Search, race, and return what was found; `Stopped` where that is asked for."""
        began = time.perf_counter()
        race = list[Trial]()
        with suppress(OutOfTimeError):
            while self.goes_on():
                self.step()
        self.reserved = 0.0
        with suppress(OutOfTimeError):
            race = self.race()
        return replace(self.decided(race), seconds=time.perf_counter() - began)

    def goes_on(self) -> bool:
        """Say whether there is another trial."""
        fruitless = [each.stage in (REFUSED, REPEATED) for each in self.study.trials[-FRUITLESS:]]
        if sum(fruitless) == FRUITLESS or (self.most is not None and len(self.trials) >= self.most):
            return False
        self.reserved = SPARE * sum(each.seconds for each in self.racing())
        return self.left() > self.reserved

    def step(self) -> None:
        """Ask for a trial, train it, and tell what came of it."""
        if self.stopping():
            raise Stopped
        index = len(self.study.trials)
        given = self.firsts[index] if index < len(self.firsts) else None
        seed = random.Random(f"{self.base.seed} {index}").getrandbits(32)
        trial, values = self.study.ask(seed, given)
        try:
            outcome = self.outcome(trial, values)
        except BaseException:
            self.study.forget(trial)
            raise
        self.study.tell(trial, outcome)
        give_back()
        self.tell()

    def outcome(self, trial: optuna.Trial, values: Changes) -> Trial:
        """Return what comes of some values, trained if they are new and allowed."""
        start = values_of(self.base)
        changes = {name: value for name, value in values.items() if value != start[name]}
        for known in self.study.trials:
            if known.changes == changes:
                again = known.stage in (TRIED, REPEATED) and known.valid_mrr is not None
                return replace(known, stage=REPEATED if again else REFUSED, seconds=0.0)
        try:
            settings = self.settings_of(changes)
        except InputError as refusal:
            return Trial(changes, REFUSED, failed=str(refusal))
        curve = _Curve(self, trial, settings)
        try:
            found = self.judge.try_out(settings, changes, TRIED, curve)
        except optuna.TrialPruned:
            return Trial(changes, PRUNED, curve.mrr, seconds=curve.seconds)
        return found.beside(self.first) if self.study.trials else found

    @property
    def first(self) -> Trial:
        """The trial that the search started from, with the reciprocal ranks of its triples."""
        reciprocals = torch.tensor(self.study.start, dtype=torch.float64) if self.study.start else None
        return replace(self.study.trials[0], reciprocals=reciprocals)

    def settings_of(self, changes: Changes) -> Settings:
        """Return the settings of a trial, or refuse them: those that are fixed give way to nothing."""
        settings = watched(changed(self.base, **self.fixed, **changes), self.fixed)
        check_fits(self.graph, settings)
        return settings

    def racing(self) -> list[Trial]:
        """Return the trials that race: the start and the best; of a few trials, none do."""
        ended = [each for each in self.trials if each.stage == TRIED and each.valid_mrr is not None]
        if len(ended) < 2 * (FINALISTS + 1):
            return []
        best = sorted(ended, key=lambda each: -each.score)[:FINALISTS]
        return [self.trials[0], *(each for each in best if each.changes)]

    def race(self) -> list[Trial]:
        """Try the best again beside the start, from another seed and, where triples are set aside, on others."""
        racing = [each.changes for each in self.racing()]
        if len(racing) < 2 or [each.changes for each in self.study.race] == racing:
            return self.study.race if len(racing) > 1 else []
        seed, found = self.base.seed + 1, list[Trial]()
        judge = Judge.of(self.graph, self.base.dim, seed) if self.judge.aside else self.judge
        for changes in racing:
            settings = replace(self.settings_of(changes), seed=seed)
            each = judge.try_out(settings, changes, RACE, lambda _: self.check())
            found.append(each.beside(found[0]) if found else each)
            give_back()
        self.study.race = found
        return found

    def decided(self, race: list[Trial]) -> Tuned:
        """Return the winner of the race, or of all trials, where each has to lead those before it by a margin."""
        every = (*self.trials, *race)
        trained = [each for each in race or every if each.stage != PRUNED]
        if not trained:
            said = "the time was too short for one trial; try a longer --time, a smaller --dim, or fewer --epochs"
            return Tuned(self.base, every, None, said, 0.0)
        if all(each.valid_mrr is None for each in trained):
            return Tuned(self.base, every, None, f"no trial was trained to its end: {trained[0].failed}", 0.0)
        best = winner(trained)
        settings = self.settings_of(best.changes) if best else self.base
        return Tuned(settings, every, best, verdict(trained[0], best), 0.0)

    def check(self) -> None:
        """Stop where that is asked for, or where there is no time left but what is reserved for the race."""
        if self.stopping():
            raise Stopped
        if self.left() <= self.reserved:
            raise OutOfTimeError

    def tell(self) -> None:
        """Report how far the search has come."""
        if self.report is not None:
            ended = [each.score for each in self.trials if each.stage == TRIED and each.valid_mrr is not None]
            left = self.left()
            known = None if math.isinf(left) else max(0.0, left)
            self.report(TuningProgress(len(self.trials), self.most, max(ended, default=None), known))


class _Curve:
    """The learning curve of a trial, which Optuna compares with those of others."""

    def __init__(self, search: LongSearch, trial: optuna.Trial, settings: Settings) -> None:
        self.search, self.trial, self.settings = search, trial, settings
        self.point, self.mrr, self.began = 0, 0.0, time.perf_counter()

    def __call__(self, progress: Progress) -> None:
        """Take up a validation; raise `TrialPruned` where those before did better at this share of their epochs."""
        self.search.check()
        every, epochs = self.settings.validate_every, self.settings.epochs
        if progress.valid_mrr is None or not every or (progress.epoch % every and progress.epoch != epochs):
            return
        point = round(POINTS * progress.epoch / epochs)
        if point > self.point:  # the other parts of a model come later, and are not validated
            self.point, self.mrr = point, progress.valid_mrr
            if self.search.study.hopeless(self.trial, self.mrr, point):
                raise optuna.TrialPruned

    @property
    def seconds(self) -> float:
        """The seconds since the trial began."""
        return time.perf_counter() - self.began


def watched(settings: Settings, fixed: Mapping[str, Any]) -> Settings:
    """Return the same settings with enough validations for a learning curve, unless how often is fixed."""
    every = settings.validate_every
    if "validate_every" in fixed or (every and settings.epochs // every >= FEWEST_POINTS):
        return settings
    return replace(settings, validate_every=max(1, settings.epochs // POINTS))
