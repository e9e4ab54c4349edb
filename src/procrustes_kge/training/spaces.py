"""What a search may choose: for settings of each kind, the values that each setting may take.

A baseline keeps the way in which its recipe trains it, such as drawn negatives and a loss; what matters in that way may
change, and what the model's own options are.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from procrustes_kge.models.baselines import baseline
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import OwnSettings, Settings, values_of
from procrustes_kge.training.supervised_settings import TrainSettings, option_names


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
        different = tuple(dict.fromkeys(self.values))
        if value not in different:
            return draw.choice(different)
        place = different.index(value)
        return draw.choice(different[max(0, place - 1) : place] + different[place + 1 : place + 2])

    def including(self, value: Any) -> Choice:
        """Return a choice that has this value too; numbers are in their order.

        >>> Choice((2, 10)).including(4)
        Choice(values=(2, 4, 10))
        """
        if value in self.values:
            return self
        wider = (*self.values, value)
        return Choice(tuple(sorted(wider)) if all(isinstance(each, int | float) for each in wider) else wider)


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

    def including(self, value: float) -> Choice | Range:
        """Return a range that has this value too; of 0, to which no ratio leads, a choice.

        >>> Range(0.1, 1.0).including(2.0)
        Range(least=0.1, most=2.0)
        """
        if value > 0:
            return Range(min(self.least, value), max(self.most, value))
        return Choice((value, *(self.at(step / 4) for step in range(5))))


Space = Mapping[str, Choice | Range]

SPACES: dict[type[OwnSettings], Space] = {
    ContrastSettings: {
        "regularisation": Range(0.001, 0.3),
        "learning_rate": Range(0.04, 0.5),
        "crowd": Choice((0.0, 0.5, 1.0)),
        "dropout": Choice((0.0, 0.1, 0.2, 0.3, 0.5)),
        "label_smoothing": Choice((0.0, 0.1, 0.2)),
        "segment": Choice((2, 4, 10, 20)),
        "epochs": Choice((15, 30, 60)),
        "batch": Choice((256, 512, 1024, 2048, 4096)),
        "scale": Choice((True, False)),
        "translate": Choice((True, False)),
        "relations": Choice(("step", "positives")),
        # Switched on in one trial of two or three: each costs time, or helps on some graphs alone.
        "inverses": Choice((False, False, True)),
        "relation_weight": Choice((0.0, 0.0, 1.0, 4.0)),
        "regulariser_power": Choice((2.0, 2.25, 3.0)),
        "query_regularisation": Choice((1.0, 3.0, 9.0)),
        "scale_regularisation": Choice((0.0, 0.0, 0.001, 0.01)),
    },
    FitSettings: {
        "learning_rate": Range(0.02, 0.2),
        "segment": Choice((4, 10, 20, 50)),
        "translate": Choice((True, False)),
        "loss": Choice(("squared", "norm")),
    },
}


# Of the baselines: options of a model by their names, if it has them.
OPTIONS: Space = {
    **{
        f"{place}_dropout": Choice((0.0, 0.1, 0.2, 0.3, 0.4, 0.5))
        for place in ("input", "query", "feature", "relation", "graph", "edge")
    },
    "margin": Range(1.5, 24.0),
    "norm": Choice((1, 2)),
    "group": Choice((2, 4, 10, 20)),
    "init_std": Choice((0.001, 0.01, 0.1)),
    "inverses": Choice((True, False)),
    "kernel": Choice((3, 5, 7, 9)),
    "layers": Choice((1, 2)),
    "max_neighbours": Choice((16, 32, 64)),
    "permutations": Choice((1, 2, 4)),
    "relation_dim": Choice((30, 100, 200)),
}
RATES = {"adam": Range(0.0001, 0.01), "adagrad": Range(0.02, 0.5)}  # of learning, by optimiser


def space_of(settings: Settings) -> Space:
    """Return what a search that starts from some settings may choose; their own values are among it."""
    if not isinstance(settings, TrainSettings):
        return next((space for kind, space in SPACES.items() if isinstance(settings, kind)), {})
    drawn, epochs = isinstance(settings.negatives, int), settings.epochs
    space: dict[str, Choice | Range] = {
        "learning_rate": RATES[settings.optimiser],
        "learning_rate_decay": Choice((0.9, 0.95, 0.98, 0.99, 1.0)),
        "batch": Choice((256, 512, 1024, 2048, 4096)),
        "dim": _parts(settings.dim),
        "epochs": Choice((max(1, epochs // 2), epochs, 2 * epochs)),
    }
    if isinstance(settings.negatives, int):  # a small graph may have no more
        space |= {"negatives": _parts(settings.negatives), "subsampling": Choice((True, False))}
    else:
        space["label_smoothing"] = Choice((0.0, 0.1, 0.2, 0.3))
    if not drawn and not baseline(settings.model).sees_answers:  # and so could not be trained by KvsAll
        space["negatives"] = Choice(("all", "kvsall"))
    if drawn and settings.loss == "sigmoid":
        space["adversarial_temperature"] = Choice((0.0, 0.5, 1.0, 2.0))
    if settings.loss == "margin":
        space["loss_margin"] = Range(0.5, 24.0)
    if settings.regulariser != "none":
        space |= {"regularisation": Range(0.0003, 0.3), "regulariser": Choice(("n2", "n3", "dura"))}
    own = set(option_names(settings.model)) - ({"margin"} if settings.loss == "softmax" else set())
    space |= {name: values for name, values in OPTIONS.items() if name in own}
    wider = around(space, values_of(settings))
    return {name: values for name, values in wider.items() if isinstance(values, Range) or len(set(values.values)) > 1}


def _parts(whole: int) -> Choice:
    """Return a choice of a number, its half, and its quarter."""
    return Choice(tuple(sorted({max(1, whole // 4), max(1, whole // 2), whole})))


def around(space: Space, values: Mapping[str, Any]) -> Space:
    """Return a space that has these values too."""
    return {name: each.including(values[name]) if name in values else each for name, each in space.items()}
