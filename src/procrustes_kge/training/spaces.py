"""What a search may choose: for settings of each kind, the values that each setting may take."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import OwnSettings, Settings


@dataclass(frozen=True)
class Choice:
    """One of these values."""

    values: tuple[Any, ...]

    def at(self, share: float) -> Any:
        """Return the value at a share of the way, 0 ≤ share < 1.

        >>> Choice((2, 4, 10)).at(0.5)
        4
        """
        return self.values[int(share * len(self.values))]

    def near(self, value: Any, draw: random.Random) -> Any:
        """Return a neighbour of a value; of one that is not among these, any."""
        if value not in self.values:
            return draw.choice(self.values)
        place = self.values.index(value)
        return draw.choice(self.values[max(0, place - 1) : place] + self.values[place + 1 : place + 2])


@dataclass(frozen=True)
class Range:
    """A number between two; ratios count, not differences."""

    least: float
    most: float

    def at(self, share: float) -> float:
        """Return the number at a share of the way, to three digits: nobody tells finer ones apart.

        >>> Range(0.001, 0.1).at(0.5)
        0.01
        """
        return float(f"{self.least * math.exp(share * math.log(self.most / self.least)):.3g}")

    def near(self, value: float, draw: random.Random) -> float:
        """Return a number up to a quarter of the way from one."""
        place = math.log(max(value, self.least) / self.least) / math.log(self.most / self.least)
        return self.at(min(1.0, max(0.0, place + draw.uniform(-0.25, 0.25))))


Space = Mapping[str, Choice | Range]

SPACES: dict[type[OwnSettings], Space] = {
    ContrastSettings: {
        "regularisation": Range(0.001, 0.3),
        "learning_rate": Range(0.04, 0.5),
        "crowd": Choice((0.0, 0.5, 1.0)),
        "dropout": Choice((0.0, 0.1, 0.2, 0.3, 0.5)),
        "label_smoothing": Choice((0.0, 0.1, 0.2)),
        "segment": Choice((2, 4, 10, 20, 50)),
        "epochs": Choice((15, 30, 60)),
        "batch": Choice((256, 512, 1024, 2048, 4096)),
        "scale": Choice((True, False)),
        "translate": Choice((True, False)),
        "relations": Choice(("step", "positives")),
    },
    FitSettings: {
        "learning_rate": Range(0.02, 0.2),
        "segment": Choice((4, 10, 20, 50)),
        "translate": Choice((True, False)),
        "loss": Choice(("squared", "norm")),
    },
}


def space_of(settings: Settings) -> Space:
    """Return what a search that starts from some settings may choose."""
    return next((space for kind, space in SPACES.items() if isinstance(settings, kind)), {})
