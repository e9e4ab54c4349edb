"""Self-tuning: the settings that validation likes best, found within a time or a number of trials.

    portfolio ─short trials→ mixtures ─race of the best, longer vectors, another seed→ search around it ─→ settings

A trial trains one short part of a model, since groups of numbers are trained apart: what is best for short vectors is
nearly best for long ones. The race checks that, and that the winner was not lucky. Where training the winner leaves
time, the search goes on around it, as the race was run. What leads takes the place of what led before, or of what the
search started from, only by a margin of the noise of the validation triples.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import astuple, replace
from math import ceil
from typing import Any

import torch

from procrustes_kge.errors import InputError, in_one_line
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.system.devices import choose_device
from procrustes_kge.system.threads import cores, over_cores
from procrustes_kge.training.budget import AIM, plan, spoken_time
from procrustes_kge.training.checkpoints import TUNING, Checkpoints, Facts, Stopped
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.levels import Level, Prices, usual, whole, work
from procrustes_kge.training.loop import check_trainable
from procrustes_kge.training.portfolio import portfolio
from procrustes_kge.training.proposals import ANOTHER, Changes, Proposals
from procrustes_kge.training.recipes import (
    DEFAULT,
    FASTEST,
    Settings,
    changed,
    check_fits,
    has_setting,
    method_name,
    recipe,
    settings_of,
    values_of,
)
from procrustes_kge.training.spaces import space_of
from procrustes_kge.training.supervised_settings import TrainSettings
from procrustes_kge.training.timekeeping import NO_TIME
from procrustes_kge.training.trainer import Progress
from procrustes_kge.training.trials import FEWEST, Judge, Trial, leader, verdict, winner
from procrustes_kge.training.tuned import LEAST, Tuned, Tuning, TuningProgress
from procrustes_kge.words import counted, unknown

GENERATION = 4  # trials that are proposed together, whatever the machine is
FINALISTS = 3  # that race what the search started from
WANTED = 10  # trials: a level of trials has room for so many, if any has; about as many as the portfolio has
PATIENCE = 32  # trials without a better one
SEARCHING, STARVED = 0.6, 0.25  # of the time, at most: where training needs little of it, and where it needs it all
SPARE = 2.0  # times the seconds that training is expected to take are left to it: what wins may be dearer
NEEDED = 1.3  # times, where it is known what wins
RACING = 0.4  # of the time for trials
LATE = 3.0  # times as long as expected: then a trial has fewer epochs
LOADING = 0.1  # of the time may go on what a trial needs for the first time, such as kernels, before it is late
TRIAL, RACE, AROUND = "trial", "race", "around"  # stages


def tune(
    graph: Graph,
    settings: Settings | None = None,
    seconds: float | None = None,
    trials: int | None = None,
    kept: Collection[str] = (),
    memory: float | None = None,
    report: Callable[[TuningProgress], None] | None = None,
    checkpoints: Checkpoints | None = None,
) -> Tuned:
    """Return the settings that validation likes best, starting from some (the recipe `accurate`).

    `seconds` are for the search, for training after it, and for ranking; with a number of `trials` in their place, the
    search is the same on every machine. `kept` names the settings that stay as they are.
    """
    wanted = Tuning(tuple(kept), seconds, trials, memory)
    return Search(graph, settings or recipe(DEFAULT, graph), wanted, report, checkpoints).run()


def others(base: ContrastSettings, graph: Graph) -> list[dict[str, Any]]:
    """Return the portfolio, without its first settings where a search starts from those, as they fit the device."""
    first, *more = portfolio()
    usual = recipe(DEFAULT, graph, base.device)
    chosen = more if all(getattr(base, name) == getattr(usual, name) for name in first) else [first, *more]
    # What the recipe leaves out here, since it takes too long, the others leave out too.
    left_out = {name: getattr(usual, name) for name in ("relation_weight",) if not getattr(usual, name)}
    return [{**each, **left_out} for each in chosen]


class Search:
    """A search: what it may try, how long, and how far it has come."""

    def __init__(
        self,
        graph: Graph,
        base: Settings,
        tuning: Tuning,
        report: Callable[[TuningProgress], None] | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        check_trainable(graph)
        for name in tuning.kept:
            if not has_setting(base, name):
                raise InputError(unknown("setting to keep", name, sorted(values_of(base))))
        self.graph, self.base, self.tuning = graph, base, tuning
        self.seconds, self.most = tuning.seconds, tuning.trials
        self.report, self.checkpoints = report, checkpoints or Checkpoints()
        self.started, self.trials, self.level = time.perf_counter(), list[Trial](), usual(base)
        self.groups = base.groups if isinstance(base, ContrastSettings) else 1
        self.raced, self.race_level = list[Trial](), whole(base)  # in the race and after it
        on_a_cpu = choose_device(base.device).type == "cpu"
        self.judge = Judge.of(graph, min(whole(base).dim, base.dim), base.seed, ample=not on_a_cpu)
        self.workers = (base.workers or cores()) if on_a_cpu else 1  # trials at once, with a thread each
        self.threads = 1 if on_a_cpu else 0
        self.trials_end, self.race_ends, self.pace, self.races = float("inf"), float("inf"), 0.0, True
        self.proposals = self.proposing(set())

    def proposing(self, more_kept: set[str]) -> Proposals:
        """Return what proposes changes: of all that is not kept."""
        base, kept = self.base, {*self.tuning.kept, *more_kept}
        first = [*others(base, self.graph), {ANOTHER: FASTEST}] if isinstance(base, ContrastSettings) else []
        return Proposals(base, space_of(base), kept, first, self.settings_of)

    def settings_of(self, changes: Changes) -> Settings:
        """Return the settings with some changes; another recipe keeps what is to be kept.

        Refused are those that the graph is too small or too large for, and a recipe that cannot keep that.
        """
        if ANOTHER not in changes:
            settings = changed(self.base, **changes)
            check_fits(self.graph, settings)
            return settings
        same = {name: getattr(self.base, name) for name in {*self.tuning.kept, "seed", "device"}}
        return recipe(changes[ANOTHER], self.graph, **same)

    def run(self) -> Tuned:
        """Search, race, and return what was found."""
        known = self.checkpoints.kept(TUNING, self.graph, self.base)
        if known is not None:
            try:
                self.go_on(known.facts)
                if known.facts["over"]:
                    return self.over(known.facts)
            except (KeyError, TypeError, ValueError) as error:
                reason = f"the search in the newest checkpoint is damaged ({in_one_line(error)})"
                raise InputError(f"{reason}; delete that checkpoint to go on from the one before") from error
        try:
            tuned = self.fitted(self.found())
        except Stopped:
            self.checkpoints.put_facts(TUNING, self.facts())
            raise
        facts = self.facts(tuned)
        (self.checkpoints.put_facts if self.checkpoints.due(0, len(tuned.trials)) else self.checkpoints.note)(
            TUNING, facts
        )
        return tuned

    def found(self) -> Tuned:
        """Search and race, and return what was best."""
        if self.tuning.enough or self.raced:  # a race that was stopped halfway is run anew, one that was not counts
            return self.decided()
        if impossible := self.impossible():
            return self.ended(impossible)
        self.search()
        self.race()
        self.search_around()
        return self.decided()

    def fitted(self, tuned: Tuned) -> Tuned:
        """Fit the settings to the time that is left, and to the memory."""
        if isinstance(tuned.settings, TrainSettings) or (self.seconds or self.tuning.memory) is None:
            return tuned
        left = None if self.seconds is None else max(NO_TIME, self.seconds - self.now())
        planned = plan(self.graph, tuned.settings, left, self.tuning.memory, self.tuning.kept)
        settings = planned.settings
        if self.seconds is not None:
            settings = replace(settings, time=max(NO_TIME, planned.for_epochs(self.seconds - self.now())))
        return replace(tuned, settings=settings, plan=planned)

    def impossible(self) -> str:
        """Return why settings cannot be told apart, or not in this time; else choose the level of the trials."""
        if len(self.judge.sample) < FEWEST:
            has = counted(len(self.judge.sample), "triple")
            return f"not tuned: {has} for validation; it takes {FEWEST} to tell settings apart"
        if self.seconds is None:
            return ""
        if not isinstance(self.base, ContrastSettings):
            return "not tuned: of this recipe, a search takes a number of trials, such as --trials 20"
        self.prices = Prices(self.judge, self.base, self.seconds)
        training = SPARE * self.groups * self.prices.of(self.prices.levels[0])
        share = min(SEARCHING, max(STARVED, 1 - training / self.seconds)) * self.seconds
        left, level = share - self.now(), None
        if training / self.seconds > 1 - STARVED:
            # Then the time decides how many epochs there are: to compare others would be to compare times.
            self.proposals = self.proposing({"epochs"})
        else:
            level = self.prices.dearest((1 - RACING) * left, WANTED)
        self.races = level is not None
        level = level or self.prices.dearest(left, WANTED) or self.prices.dearest(left, LEAST)
        if level is None and not self.trials:
            return self.no_time()
        if level is not None and (not self.trials or self.level not in self.prices.levels):
            self.level = level
        self.trials_end, self.race_ends = share - self.races * RACING * left, share
        self.pace = self.prices.of(self.level)
        return ""

    def no_time(self) -> str:
        """Return in a sentence that there is no time for trials, and how much would do."""
        takes = self.prices.of(self.prices.levels[-1])
        enough = ceil(LEAST * takes / self.workers / STARVED / 10 + 1) * 10
        has = f"a short trial takes about {spoken_time(takes)}, and there is no time for {LEAST}"
        return f"not tuned: {has}; try --time {enough}s"

    def now(self) -> float:
        """Return the seconds since the search began, those before a stop included."""
        return time.perf_counter() - self.started

    def search(self) -> None:
        """Try generation after generation, until there is no more time, or nothing better has been found for long."""
        while waited(self.trials) < PATIENCE:
            most = GENERATION if self.most is None else min(GENERATION, self.most - self.racers - len(self.trials))
            proposed = self.proposals.next(self.trials, most) if most > 0 else []
            found = self.tried(proposed, self.level, TRIAL, self.trials_end)
            self.trials += [each.beside((self.trials or found)[0]) for each in found]
            if self.seconds is not None and self.trials:
                self.pace = max(self.pace, self.trials[0].seconds)  # several at once are slower than one
            if len(found) < max(1, len(proposed)):
                return
            if self.checkpoints.due(0, len(self.trials)):
                self.checkpoints.put_facts(TUNING, self.facts())

    @property
    def racers(self) -> int:
        """How many of a number of trials the race takes; of a few, it takes none."""
        return FINALISTS + 1 if self.most is None or self.most > 2 * (FINALISTS + 1) else 0

    def race(self) -> None:
        """Try the best again beside what the search started from: longer, from another seed, on another split."""
        best = sorted((each for each in self.trials if each.valid_mrr), key=lambda each: -each.score)[:FINALISTS]
        # The cheapest first: what is dearer has to lead it. Without a time, the clock is to decide nothing.
        best = sorted((each for each in best if each.changes), key=self.cost)
        racing = [{}, *(each.changes for each in best)]
        if not (self.races and self.racers) or len(racing) == 1:
            return
        level = whole(self.base)
        if self.seconds is not None:
            # In units of what the search started from: some settings are far cheaper than products alone tell.
            together = sum(each.seconds for each in (self.trials[0], *best)) / self.pace
            dearer = self.prices.levels[: self.prices.levels.index(self.level)]
            level = self.prices.dearest(self.race_ends - self.now(), together, dearer) or self.level
            self.pace *= self.prices.of(level) / self.prices.of(self.level)
        self.race_level, seed = level, self.base.seed + 1
        if self.judge.aside:
            self.judge = Judge.of(self.graph, min(level.dim, self.base.dim), seed, self.judge.ample)
        found = self.tried(racing, level, RACE, float("inf"), seed)
        self.raced = [each.beside(found[0]) for each in found]

    def search_around(self) -> None:
        """Search around what leads the race, as the race was run, while training that leaves time."""
        while self.seconds is not None and self.raced and waited(self.raced) < PATIENCE:
            best = leader(self.raced)
            if ANOTHER in best.changes:
                return
            longer = self.prices.of(whole(self.base)) / self.prices.of(self.race_level)
            training = self.groups * longer * best.seconds
            self.race_ends = AIM * self.seconds - NEEDED * training
            proposed = self.proposals.next(self.raced, GENERATION, first=False)
            found = self.tried(proposed, self.race_level, AROUND, self.race_ends, self.base.seed + 1)
            self.raced += [each.beside(self.raced[0]) for each in found]
            if len(found) < max(1, len(proposed)):
                return

    def tried(
        self, proposed: Sequence[Changes], level: Level, stage: str, until: float, seed: int | None = None
    ) -> list[Trial]:
        """Return the trials of some settings, of as many of them as there is time for."""

        def watch(_: Progress) -> None:
            if self.checkpoints.stopping:
                raise Stopped

        def one(changes: Changes) -> Trial | None:
            if self.checkpoints.stopping:
                raise Stopped
            settings = level.of(self.settings_of(changes), self.threads)
            settings = replace(settings, seed=self.base.seed if seed is None else seed)
            if self.seconds is not None:
                takes = self.pace * self.share_of(changes, level)
                if self.now() + takes > until:
                    return None
                late = LATE * takes + LOADING * self.seconds
                if ANOTHER in changes and not self.threads:  # another method loads more on a GPU than it trains
                    late = max(late, min(until, self.race_ends) - self.now())
                settings = replace(settings, time=min(late, self.seconds))
            return self.judge.try_out(settings, changes, stage, watch)

        found = list[Trial]()
        for each in over_cores(one, proposed, self.workers) if self.workers > 1 else map(one, proposed):
            found += [each] if each is not None else []
            if self.report is not None:
                every = [*self.trials, *self.raced, *found]
                alike = [other for other in every if (other.stage == TRIAL) == (stage == TRIAL)]
                best = max((other.valid_mrr for other in alike if other.valid_mrr), default=None)
                left = None if self.seconds is None else max(0.0, self.race_ends - self.now())
                self.report(TuningProgress(len(every), self.most, best, left))
        return found

    def share_of(self, changes: Changes, level: Level) -> float:
        """Return about how many times as long a trial takes as one of what the search started from."""
        if ANOTHER in changes:
            return 1.0
        usual, other = (work(level.of(each), self.graph) for each in (self.base, self.settings_of(changes)))
        return other / usual

    def cost(self, trial: Trial) -> float:
        """Return what a trial took, in seconds or, where there is no time to keep to, in work."""
        return trial.seconds if self.seconds is not None else self.share_of(trial.changes, whole(self.base))

    def decided(self) -> Tuned:
        """Return the winner of the race and after it, or of all trials, if it leads by a margin."""
        compared = self.raced or self.trials or [Trial({}, failed="there was no time for a trial")]
        every = [*self.trials, *self.raced]
        if all(each.valid_mrr is None for each in compared):
            return self.ended(f"not tuned: {compared[0].failed}", every)
        best = winner(compared)
        return self.ended(verdict(compared[0], best), every, best)

    def ended(self, said: str, trials: Sequence[Trial] = (), chosen: Trial | None = None) -> Tuned:
        """Return what was found, after so many seconds."""
        settings = self.settings_of(chosen.changes if chosen else {})
        return Tuned(settings, tuple(trials), chosen, said, self.now())

    def facts(self, tuned: Tuned | None = None) -> Facts:
        """Return what is needed to go on, or what was found where the search is over."""
        start = self.trials[0].reciprocals if self.trials else None
        return {
            "trials": [each.as_dict() for each in (tuned.trials if tuned else [*self.trials, *self.raced])],
            "start": [] if start is None else start.tolist(),
            "level": list(astuple(self.level)),
            "seconds": self.now(),
            "over": tuned is not None,
            "said": tuned.said if tuned else "",
            "chosen": None if tuned is None or tuned.chosen is None else tuned.trials.index(tuned.chosen),
            "method": method_name(tuned.settings) if tuned else "",
            "settings": values_of(tuned.settings) if tuned else {},
        }

    def go_on(self, facts: Facts) -> None:
        """Go on from facts that were kept; those that no search has are refused."""
        every = [Trial(**each) for each in facts["trials"]]
        for each in every:
            self.settings_of(each.changes)
        self.trials = [each for each in every if each.stage == TRIAL]
        self.raced = [each for each in every if each.stage != TRIAL]
        if self.trials and facts["start"]:
            if len(facts["start"]) != len(self.judge.sample):
                raise ValueError(f"its first trial is judged by {len(facts['start'])} triples")
            start = torch.tensor(facts["start"], dtype=torch.float64)
            self.trials[0] = replace(self.trials[0], reciprocals=start)
        self.level = Level(*facts["level"])
        self.started -= facts["seconds"]

    def over(self, facts: Facts) -> Tuned:
        """Return what was found before a stop."""
        every = (*self.trials, *self.raced)
        chosen = None if facts["chosen"] is None else every[facts["chosen"]]
        settings = settings_of(facts["method"], facts["settings"])
        return Tuned(settings, every, chosen, facts["said"], facts["seconds"])


def waited(trials: Sequence[Trial]) -> int:
    """Return how many trials there were since the best one."""
    scores = [each.score for each in trials]
    return len(scores) - 1 - scores.index(max(scores)) if scores else 0
