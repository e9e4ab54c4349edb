"""What the one loop asks of a method, and what it reports and returns.

A method makes a `Training` of a graph and settings: parts, each with a `Trainer`. Validation, stopping, divergence,
memory, progress and checkpoints are the loop's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from procrustes_kge.models.predictor import LinkPredictor
from procrustes_kge.training.schedule import Schedule
from procrustes_kge.training.state import State
from procrustes_kge.training.timekeeping import Change

PartModel = TypeVar("PartModel", bound=LinkPredictor, covariant=True)
LearnedModel = TypeVar("LearnedModel", bound=LinkPredictor, covariant=True)


@runtime_checkable
class Trainer(Protocol[PartModel]):
    """Trains one part of a model."""

    @property
    def start_loss(self) -> float | Float[Tensor, ""] | None:
        """The loss before the first step, known after the first epoch: a loss far above it means divergence."""

    def epoch(self) -> float | Float[Tensor, ""]:
        """Train once and return the mean loss; a tensor where reading the number would make a GPU wait."""

    @property
    def workers(self) -> int | None:
        """How many threads an epoch uses; None where that cannot change."""

    def adjust(self, change: Change) -> None:
        """Take it that training ends after other epochs than was planned, or go on with other threads."""

    def model(self) -> PartModel:
        """Return what has been learned so far; it may share memory with the trainer."""

    def state(self) -> State:
        """Return all that the next epoch depends on, random generators included: the tensors themselves, no copies."""

    def restore(self, state: State) -> None:
        """Go back, or on, to a state of this trainer or of another one of the same part."""


@runtime_checkable
class Training(Protocol[PartModel]):
    """What a method makes of a graph and settings: parts to train, and how their models become one."""

    @property
    def sizes(self) -> Sequence[int]:
        """How much work each part is, the pilot first; for progress."""

    @property
    def workers(self) -> int:
        """How many of the parts after the pilot to train at once, a thread each; 0: one after another, in this one."""

    def trainer(self, part: int) -> Trainer[PartModel]:
        """Return an untrained trainer of a part."""

    def add(self, trainer: Any) -> None:
        """Take over what the next part has learned; its trainer is let go."""

    def added(self, first: int, last: int) -> State:
        """Return what parts have added, from the first to before the last; asked between parts."""

    def restore(self, first: int, last: int, state: State) -> None:
        """Take over what parts had added, as `added` returned it."""

    def model(self) -> PartModel:
        """Return one model of all that was added; perhaps not of all parts."""

    def of_parts(self, parts: int) -> Schedule:
        """Return the settings of a training that has the first parts alone."""


@dataclass(frozen=True)
class Point:
    """A point of the learning curve: the loss and validation MRR of the pilot after an epoch."""

    epoch: int
    loss: float
    valid_mrr: float | None = None


@dataclass(frozen=True)
class Learned(Generic[LearnedModel]):
    """A trained model, its epochs, its pilot's learning curve, and settings that repeat training without a clock."""

    model: LearnedModel
    epochs: int
    curve: tuple[Point, ...]
    settings: Any


@dataclass(frozen=True)
class Chosen:
    """The epochs that a pilot chose, its learning curve, and the seconds it took."""

    epochs: int
    curve: tuple[Point, ...]
    seconds: float


@dataclass(frozen=True)
class Progress:
    """The progress of training: `done` of at most `total` units of work; a unit is one epoch of a part of size 1."""

    done: int
    total: int
    epoch: int
    epochs: int  # most epochs while the pilot trains, then the epochs it chose
    loss: float | None = None
    valid_mrr: float | None = None


Report = Callable[[Progress], None]
