"""What a search is asked for, what it tells meanwhile, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from procrustes_kge.errors import InputError
from procrustes_kge.training.budget import Plan, spoken_time
from procrustes_kge.training.recipes import Settings
from procrustes_kge.training.trials import Trial
from procrustes_kge.words import counted

LEAST = 4  # trials: with fewer there is no search


@dataclass(frozen=True)
class Tuning:
    """How long to search, and what may not be changed."""

    kept: tuple[str, ...] = ()  # settings that stay as they are
    seconds: float | None = None  # for the search, for training after it, and for ranking
    trials: int | None = None  # in place of a time: the search is then the same on every machine
    memory: float | None = None  # bytes that training may take
    enough: bool = False  # search no further: the best of the trials that were kept will do

    def __post_init__(self) -> None:
        """Refuse a search without an end, or with two."""
        if (self.seconds is None) == (self.trials is None):
            raise InputError("a search takes a time or a number of trials, and not both; leave one out")
        if self.trials is not None and (type(self.trials) is not int or self.trials < LEAST):
            raise InputError(f"trials {self.trials}, expected a whole number of at least {LEAST}")

    def describe(self) -> str:
        """Return in words how long the search is."""
        if self.seconds is None:
            return f"in {counted(self.trials or 0, 'trial')}"
        return f"and trained within {spoken_time(self.seconds)}"


@dataclass(frozen=True)
class TuningProgress:
    """How far a search has come."""

    done: int
    most: int | None  # trials; None: as many as there is time for
    best: float | None  # validation MRR
    left: float | None  # seconds


@dataclass(frozen=True)
class Tuned:
    """What a search found: settings to train with, the trials that led there, and that in a sentence."""

    settings: Settings
    trials: tuple[Trial, ...]
    chosen: Trial | None  # None: what the search started from
    said: str
    seconds: float
    plan: Plan | None = None  # where the settings were fitted to a time, or to a memory

    def as_dict(self) -> dict[str, Any]:
        """Return what a report says of it."""
        chosen = self.chosen.changes if self.chosen else {}
        trials = [each.as_dict() for each in self.trials]
        return {"said": self.said, "seconds": self.seconds, "chosen": chosen, "trials": trials}
