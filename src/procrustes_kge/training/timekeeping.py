"""How a training keeps to its time: fewer epochs, other threads, fewer parts; and how that is written down.

A clock decides, so two runs may decide otherwise. What was decided is kept as changes, such as ``5:workers=1
9:epochs=14``: "after epoch 5 go on with one thread; after epoch 9 take it that there are 14 in all". A training that is
given them, and no time, repeats the first one to the last bit.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from procrustes_kge.errors import InputError
from procrustes_kge.system.threads import cores

if TYPE_CHECKING:
    from procrustes_kge.training.schedule import Schedule

NO_TIME = 1e-3  # seconds: none is left, which is not the same as any time
SLACK = 1.1  # the next epochs may take this much longer than the last ones did
MORE_SLACK = 1.4  # before epochs are added again: the plan is not to change with every breath
LAST = 3  # epochs that tell how long the next ones take
PILOT_SHARE = 0.5  # of the time, for a pilot: the parts behind it may become fewer, but the pilot chooses the epochs
OTHER_PACE = 1.3  # times longer or shorter than usual: something else began, or ceased, to use the cores
NOISE = 0.1  # seconds: of shorter epochs nothing can be told


@dataclass(frozen=True)
class Change:
    """What changes after an epoch: how many epochs there are in all, and on how many threads they run."""

    epochs: int | None = None
    workers: int | None = None

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in vars(self).items() if value is not None)


Changes = Mapping[int, Change]


def parse_changes(text: str) -> dict[int, Change]:
    """Return what is to change after which epoch.

    >>> parse_changes("5:workers=1 9:epochs=14")[9]
    Change(epochs=14, workers=None)
    """
    found = dict[int, Change]()
    for word in text.split():
        if not re.fullmatch(r"\d+:(epochs|workers)=\d+(,(epochs|workers)=\d+)?", word):
            example = "'5:workers=1 9:epochs=14'"
            raise InputError(f"replay {text!r}, expected EPOCH:epochs=NUMBER or EPOCH:workers=NUMBER, as in {example}")
        epoch, values = word.split(":")
        pairs = (pair.split("=") for pair in values.split(","))
        found[int(epoch)] = Change(**{name: int(value) for name, value in pairs})
    return found


def spoken_changes(changes: Changes) -> str:
    """Return changes as text that `parse_changes` reads."""
    return " ".join(f"{epoch}:{change}" for epoch, change in changes.items())


def ended_by_the_clock(schedule: Schedule, epochs: int) -> bool:
    """Say whether a training of so many epochs, which settings repeat, had fewer than planned for want of time."""
    planned = [change.epochs for change in parse_changes(schedule.replay).values() if change.epochs]
    return bool(planned) and epochs == planned[-1] < schedule.epochs


class Timekeeper:
    """The clock of one training, and what it has changed so far."""

    def __init__(self, schedule: Schedule) -> None:
        self.started, self.seconds = self.now(), schedule.time
        self.given, self.changes = parse_changes(schedule.replay), dict[int, Change]()
        self.threads, self.most = _Threads(), schedule.epochs
        self.longest = 0.0  # seconds of a part behind the pilot

    def now(self) -> float:
        """Return the seconds of a clock."""
        return time.perf_counter()

    def left(self) -> float:
        """Return the seconds that are left; infinity where time does not matter."""
        return self.started + self.seconds - self.now() if self.seconds else float("inf")

    def spent(self) -> float:
        """Return the seconds since the training began, those before it was stopped included."""
        return self.now() - self.started

    def go_on(self, changes: str, spent: float) -> None:
        """Go on after a stop: with what was changed, and so many seconds after the beginning."""
        self.started, self.changes = self.now() - spent, parse_changes(changes)

    def begin(self, parts: int) -> None:
        """Start the clock of the first epoch of a training of so many parts, when everything is set up."""
        self.begun = self.epoch_started = self.now()
        self.in_epochs, self.timed, self.paces = 0.0, 0, deque[float](maxlen=LAST)
        self.pilot_ends = self.started + self.seconds * (PILOT_SHARE if parts > 1 else 1)

    def epoch_begins(self) -> None:
        """Start to time an epoch; what lies between epochs is validation."""
        self.epoch_started = self.now()

    def after(self, epoch: int, epochs: int, workers: int | None) -> Change | None:
        """Return what to change after an epoch of the pilot, if anything."""
        change = self.given.get(epoch) if not self.seconds else self._decided(epoch, epochs, workers)
        if change is not None:
            self.changes[epoch] = change
        return change

    def _decided(self, epoch: int, epochs: int, workers: int | None) -> Change | None:
        now = self.now()
        taken = max(now - self.epoch_started, 1e-9)
        self.in_epochs, self.timed = self.in_epochs + taken, self.timed + 1
        self.paces.append(taken)
        between = (now - self.begun - self.in_epochs) / self.timed
        pace = max(self.paces) + max(0.0, between)  # the slowest: where others use the cores, the next may be as slow
        fewer, more = (
            min(self.most, epoch + max(0, int((self.pilot_ends - now) / (slack * pace))))
            for slack in (SLACK, MORE_SLACK)
        )
        change = Change(
            epochs=fewer if fewer < epochs else more if more > epochs else None,
            workers=self.threads.next(taken, workers) if workers else None,
        )
        return change if str(change) else None

    def part_done(self, seconds: float) -> None:
        """Remember how long a part behind the pilot took."""
        self.longest = max(self.longest, seconds)

    def another_part_fits(self) -> bool:
        """Say whether there is time for one more part."""
        return self.left() > SLACK * self.longest


class _Threads:
    """Tries another number of threads where the pace has changed, and keeps the faster."""

    def __init__(self) -> None:
        self.usual, self.before = 0.0, 0.0  # seconds of an epoch: at this pace, and before the trial that runs

    def next(self, taken: float, workers: int) -> int | None:
        """Return the number of threads for the next epoch where it is to change."""
        other = 1 if workers > 1 else cores()
        if self.before:  # the epoch was a trial
            slower, self.usual, self.before = taken > self.before, min(taken, self.before), 0.0
            return other if slower else None
        self.usual = self.usual or taken
        same_pace = self.usual / OTHER_PACE <= taken <= self.usual * OTHER_PACE
        if other == workers or same_pace or taken < NOISE:
            return None
        self.before = taken
        return other
