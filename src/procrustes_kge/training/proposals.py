"""What a search tries next: a portfolio first, then mixtures of the best, with a change or two."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import Any

from procrustes_kge.errors import InputError
from procrustes_kge.training.recipes import Settings, values_of
from procrustes_kge.training.spaces import Space
from procrustes_kge.training.trials import Trial

PARENTS = 4  # of the best trials
ATTEMPTS = 50  # at something that was not tried, and is allowed
ANOTHER = "recipe"  # the change that takes other settings altogether

Changes = dict[str, Any]


class Proposals:
    """The changes of some settings that a search tries, the same ones wherever and however often it runs."""

    def __init__(
        self,
        base: Settings,
        space: Space,
        kept: Collection[str],
        portfolio: Sequence[Mapping[str, Any]],
        make: Callable[[Changes], Settings],
    ) -> None:
        """`make` returns the settings with some changes, or refuses them; those that are kept are never changed."""
        self.values, self.make, self.seed = values_of(base), make, base.seed
        self.space = {name: values for name, values in space.items() if name not in kept}
        free = ({name: value for name, value in each.items() if name not in kept} for each in portfolio)
        self.first = [{}, *map(self.differing, free)]

    def next(self, trials: Sequence[Trial], count: int, first: bool = True) -> list[Changes]:
        """Return at most so many changes that were not tried, fewer where all that there is has been.

        The portfolio comes first; without `first`, there are only mixtures of these trials.
        """
        draw = random.Random(f"{self.seed} {len(trials)}")
        found, known = list[Changes](), [each.changes for each in trials]
        mixtures = (self.mixed(trials, draw) for _ in range(ATTEMPTS if trials else 0))
        for changes in chain(self.first if first else (), mixtures):
            possible = self.allowed(changes) if len(found) < count else None
            if possible is not None and possible not in [*known, *found]:
                found.append(possible)
        return found

    def mixed(self, trials: Sequence[Trial], draw: random.Random) -> Changes:
        """Return each setting of one or the other of two good trials, and one or two of them changed a little."""
        own = [each for each in trials if ANOTHER not in each.changes and each.valid_mrr is not None]
        best = sorted(own, key=lambda each: -each.score)[:PARENTS] or [Trial({})]
        parents = draw.choices(best, weights=range(len(best), 0, -1), k=2)
        one, other = ({**self.values, **each.changes} for each in parents)
        changes = {name: draw.choice((one, other))[name] for name in self.space}
        for name in draw.sample(sorted(self.space), k=min(len(self.space), draw.choice((1, 2)))):
            changes[name] = self.space[name].near(changes[name], draw)
        return self.differing(changes)

    def differing(self, changes: Mapping[str, Any]) -> Changes:
        """Return the changes that change something."""
        return {name: value for name, value in changes.items() if self.values.get(name) != value}

    def allowed(self, changes: Changes) -> Changes | None:
        """Return the changes, without one of them where settings would refuse it beside the others."""
        for left_out in (None, *changes):
            fewer = {name: value for name, value in changes.items() if name != left_out}
            try:
                self.make(fewer)
            except InputError:
                continue
            return fewer
        return None
