"""What a training needs to go on after it was stopped. The loop says what and when; another room where it is kept.

A training has one stage or two: where `fit` has no validation triples, it first chooses its epochs on some that are set
aside. Of a stage are kept its facts (epochs, learning curve, what the clock changed), what the parts that are done have
added to the model, and the state of each part in training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.training.state import State
from procrustes_kge.training.timekeeping import parse_changes
from procrustes_kge.validation import MOST, check_entries

Facts = dict[str, Any]  # numbers, words, and lists of them: they are written as JSON


_NUMBER = float | int
FACTS: dict[str, Any] = {
    **{"epochs": int, "added": int, "loss": _NUMBER | None, "valid_mrr": _NUMBER | None, "seconds": _NUMBER},
    **{"curve": list, "sizes": list, "changes": str, "best": dict | None, "over": bool},
}
POINT = {"epoch": int, "loss": _NUMBER, "valid_mrr": _NUMBER | None}
BEST = {"epoch": int, "mrr": _NUMBER, "waited": int}
TUNING = "tuning"  # the stage in which settings are searched for; it has trials, and no parts
OF_TUNING: dict[str, Any] = {
    **{"trials": list, "start": list, "level": list, "seconds": _NUMBER, "over": bool, "said": str},
    **{"chosen": int | None, "method": str, "settings": dict},
}
TRIAL: dict[str, Any] = {
    **{"changes": dict, "stage": str, "valid_mrr": _NUMBER | None, "error": _NUMBER, "seconds": _NUMBER},
    "failed": str,
}


def check_facts(stage: str, facts: Facts) -> None:
    """Refuse facts that no training has: ValueError."""
    if stage == TUNING:
        check_facts_of_tuning(facts)
        return
    check_entries(facts, FACTS, "a stage")
    for point in facts["curve"]:
        check_entries(point, POINT, "a point of the curve")
    counts = [facts["epochs"], facts["added"], facts["seconds"], *facts["sizes"]]
    counts += [point["epoch"] for point in facts["curve"]]
    if facts["best"] is not None:
        check_entries(facts["best"], BEST, "the best epoch")
        counts += [facts["best"]["epoch"], facts["best"]["waited"], facts["best"]["mrr"] + 1]  # −1: none was seen yet
    if not all(type(count) in (int, float) and 0 <= count <= MOST for count in counts):
        raise ValueError("a stage has counts that cannot be")
    parse_changes(facts["changes"])


def check_facts_of_tuning(facts: Facts) -> None:
    """Refuse facts that no search has: ValueError."""
    check_entries(facts, OF_TUNING, "the search")
    for trial in facts["trials"]:
        check_entries(trial, TRIAL, "a trial")
    numbers = [facts["seconds"], *facts["start"], *facts["level"]]
    for trial in facts["trials"]:
        numbers += [trial["error"], trial["seconds"], trial["valid_mrr"] or 0]
    if len(facts["level"]) != 2 or not all(type(each) in (int, float) and 0 <= each <= MOST for each in numbers):
        raise ValueError("a search has numbers that cannot be")
    if facts["chosen"] is not None and not 0 <= facts["chosen"] < len(facts["trials"]):
        raise ValueError("a search has chosen a trial that there is not")


class Stopped(KeyboardInterrupt):  # no error: it was asked for
    """A training was asked to stop, and what it needs to go on is kept."""


class Added(NamedTuple):
    """What parts have added to the model, from the first to before the last."""

    first: int
    last: int
    state: Callable[[], State]


class InTraining(NamedTuple):
    """A part in training: the epochs that it has had, and its state after them."""

    epoch: int
    state: Callable[[], State]


@dataclass
class Kept:
    """What is kept of a stage."""

    facts: Facts
    added: Sequence[Added] = ()
    parts: Mapping[int, InTraining] = field(default_factory=dict)


class Checkpoints:
    """Where a training keeps what it needs to go on. This one keeps nothing, and never asks to stop."""

    seconds = 0.0  # that the training had taken when it was stopped

    def kept(self, stage: str, graph: Graph, settings: Any) -> Kept | None:
        """Return what is kept of a stage, if anything; what is kept of another training is refused."""
        return None

    @property
    def stopping(self) -> bool:
        """Whether the training is to stop after the epoch that runs."""
        return False

    def due(self, part: int, epoch: int) -> bool:
        """Say, after an epoch of a part, whether it is time to put what is needed to go on from here."""
        return False

    def note(self, stage: str, facts: Facts) -> None:
        """Take it that a stage is over: of it, only these facts are needed to go on."""

    def put_facts(self, stage: str, facts: Facts) -> None:
        """Keep the facts of a stage that has no parts."""

    def put(self, stage: str, facts: Facts, part: int, training: InTraining, added: Added | None) -> None:
        """Keep the facts of a stage, a part in training, and what has been added since the last time."""
