"""The one training loop: epochs, validation, stopping, divergence, memory and interrupts, for every method alike.

    method(graph, settings) ─parts→ pilot: train, validate ─epochs→ other parts: train as long ─trainers→ join → model

A method cuts its work into parts, each trained through all its epochs before the next begins: blocks of segments (full
batch), groups of numbers (contrastive), or the whole model (baselines). The first part is the pilot: it alone is ranked
on validation triples, and it chooses the number of epochs for all.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Generic, NoReturn, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from procrustes_kge.errors import DivergedError, InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.predictor import LinkPredictor
from procrustes_kge.models.ranking import rank
from procrustes_kge.system.devices import choose_device
from procrustes_kge.system.memory import explain_out_of_memory
from procrustes_kge.system.precision import deterministic_algorithms
from procrustes_kge.system.process import give_back
from procrustes_kge.system.threads import over_cores
from procrustes_kge.training.schedule import Schedule
from procrustes_kge.training.state import State, copied
from procrustes_kge.training.timekeeping import Change, Timekeeper, spoken_changes
from procrustes_kge.words import counted

CLEAR_GAIN = 1.005  # what a pilot must gain to move the stop: a part of a model peaks later than the whole
HOPELESS = 2.0  # times the loss before the first step: no training recovers from there

Model = TypeVar("Model", bound=LinkPredictor)
PartModel = TypeVar("PartModel", bound=LinkPredictor, covariant=True)
LearnedModel = TypeVar("LearnedModel", bound=LinkPredictor, covariant=True)
Learnable = TypeVar("Learnable", bound=Schedule)


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

    def join(self, trainers: Iterator[Any]) -> PartModel:
        """Return one model of parts that are trained when they are asked for; perhaps not of all."""

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
class Progress:
    """The progress of training: `done` of at most `total` units of work; a unit is one epoch of a part of size 1."""

    done: int
    total: int
    epoch: int
    epochs: int  # most epochs while the pilot trains, then the epochs it chose
    loss: float | None = None
    valid_mrr: float | None = None


Report = Callable[[Progress], None]


def run(
    method: Callable[[Graph, Learnable, torch.device], Training[Model]],
    graph: Graph,
    settings: Learnable,
    report: Report | None = None,
) -> Learned[Model]:
    """Train with a method on the graph's training triples, and return the model and how it was trained.

    Unless `patience` is 0, the weights of the best epoch by validation are kept. `report` is called with a `Progress`
    after every epoch of every part, by one thread at a time.
    """
    check_trainable(graph)
    with at_work(graph, settings) as device:
        clock = Timekeeper(settings)  # before anything is set up, which takes time too
        return _Loop(method(graph, settings, device), graph, settings, clock, report).run()


def choose_epochs(
    method: Callable[[Graph, Learnable, torch.device], Training[Any]],
    graph: Graph,
    settings: Learnable,
    report: Report | None = None,
) -> tuple[int, tuple[Point, ...]]:
    """Return the number of epochs that the pilot chooses, and its learning curve; train no other part."""
    with at_work(graph, settings) as device:
        clock = Timekeeper(settings)
        loop = _Loop(method(graph, settings, device), graph, settings, clock, report)
        try:
            loop.pilot()
        except DivergedError as error:  # nothing of it is kept
            raise InputError(str(error)) from None
        return loop.epochs, tuple(loop.curve)


@contextmanager
def at_work(graph: Graph, schedule: Schedule) -> Iterator[torch.device]:
    """Yield the device, with PyTorch set up for training; running out of memory becomes a one-sentence error."""
    device = choose_device(schedule.device)
    with (
        torch.cuda.device(device) if device.type == "cuda" else nullcontext(),
        deterministic_algorithms(schedule.deterministic),
        explain_out_of_memory(
            f"training on {counted(len(graph.entities), 'entity')} of {graph.name}", schedule.smaller
        ),
        torch.no_grad(),
    ):
        yield device


def check_trainable(graph: Graph) -> None:
    """Refuse a graph that nothing can be learned from."""
    if not isinstance(graph, Graph):
        raise InputError(f"got a {type(graph).__name__}, expected a Graph; make one with read_graph")
    if len(graph.train) == 0:
        raise InputError(f"the graph {graph.name} has no training triples, expected at least 1")


def validation_mrr(model: LinkPredictor, graph: Graph, schedule: Schedule) -> float:
    """Return the two-sided MRR on a sample of the validation triples, the same one every time for a seed."""
    generator = torch.Generator().manual_seed(schedule.seed % 2**63)
    sample = torch.randperm(len(graph.valid), generator=generator)[: schedule.validation_triples]
    return (1 / rank(model, graph, graph.valid[sample]).realistic).mean().item()


class _Loop(Generic[Model]):
    """One call of `run`: how far it has come, and what was best."""

    def __init__(
        self, training: Training[Model], graph: Graph, schedule: Schedule, clock: Timekeeper, report: Report | None
    ) -> None:
        self.training, self.graph, self.schedule, self.clock, self.report = training, graph, schedule, clock, report
        self.epochs, self.done = schedule.epochs, 0
        self.curve = list[Point]()
        self.loss: float | None = None
        self.valid_mrr: float | None = None
        self.lock, self.stopped, self.late = threading.Lock(), threading.Event(), threading.Event()

    def run(self) -> Learned[Model]:
        """Train all parts and join them."""
        try:
            parts = _UntilDiverged(self.trained())
            model = self.training.join(parts)
        finally:
            self.stopped.set()  # an interrupted training does not wait for its workers to finish
        if parts.problem:
            raise DivergedError(parts.problem, model)
        repeats = replace(self.training.of_parts(parts.count), time=0.0, replay=spoken_changes(self.clock.changes))
        return Learned(model, self.epochs, tuple(self.curve), repeats)

    def trained(self) -> Iterator[Trainer[Model]]:
        """Yield the trainer of each part when it is done; the last parts are left out where there is no time."""
        workers, others = self.training.workers, range(1, len(self.training.sizes))
        yield self.pilot()
        give_back()  # the pilot needed more memory than the other parts will
        found = over_cores(self.follow, others, workers, self.stopped.set) if workers else map(self.follow, others)
        yield from takewhile(lambda trainer: trainer is not None, found)

    def pilot(self) -> Trainer[Model]:
        """Train the first part, and let validation choose the epochs; the trainer goes back to the best."""
        trainer, schedule, best = self.training.trainer(0), self.schedule, _Best()
        chooses = schedule.patience > 0 and len(self.graph.valid) > 0
        # A part of a model peaks later than the whole, so it must gain something to move the stop.
        margin, epoch = CLEAR_GAIN if len(self.training.sizes) > 1 else 1.0, 0
        self.clock.begin(len(self.training.sizes))
        while epoch < self.epochs:
            epoch += 1
            self.clock.epoch_begins()
            seen = trainer.epoch()
            if change := self.clock.after(epoch, self.epochs, trainer.workers):
                self.epochs = change.epochs or self.epochs
                trainer.adjust(change)
            looks, mrr = self.looks(epoch), None
            loss = self.checked(seen, trainer, epoch, best, looks or epoch == self.epochs)
            if looks and len(self.graph.valid):
                mrr = self.valid_mrr = validation_mrr(trainer.model(), self.graph, schedule)
            if loss is not None:
                self.curve.append(Point(epoch, loss, mrr))
            if looks:
                best.look(trainer, epoch, mrr if chooses else None, margin)
            self.tell(0, epoch)
            if chooses and best.waited == schedule.patience:
                break
        if chooses and best.state:
            trainer.restore(best.state)
            self.epochs, self.valid_mrr, self.done = best.epoch, best.mrr, 0
            self.tell(0, self.epochs, times=self.epochs)
        return trainer

    def looks(self, epoch: int) -> bool:
        """Say whether an epoch is followed by a validation."""
        every = self.schedule.validate_every
        return every > 0 and (epoch % every == 0 or epoch == self.epochs)

    def follow(self, part: int) -> Trainer[Model] | None:
        """Train another part for as many epochs as the pilot chose; nothing where there is no time left for it."""
        if self.late.is_set() or not self.clock.another_part_fits():
            self.late.set()
            return None
        started = self.clock.now()
        trainer, nothing = self.training.trainer(part), _Best()
        for epoch in range(1, self.epochs + 1):
            if self.stopped.is_set():
                break
            self.checked(trainer.epoch(), trainer, epoch, nothing, epoch == self.epochs)
            if change := self.clock.changes.get(epoch):
                trainer.adjust(change)
            self.tell(part, epoch)
            if self.clock.left() < 0 and epoch < self.epochs:
                self.late.set()
                return None
        self.clock.part_done(self.clock.now() - started)
        return trainer

    def checked(
        self, loss: float | Tensor, trainer: Trainer[Model], epoch: int, best: _Best, read: bool
    ) -> float | None:
        """Return the loss of an epoch, if it is read, after seeing that training has not diverged."""
        if not read and not isinstance(loss, float):  # a GPU would have to stop and wait for the number
            return None
        self.loss = float(loss)
        if not self.loss <= HOPELESS * max(1.0, float(trainer.start_loss or 0)):
            self.stop(trainer, epoch, best, self.loss)
        if read and not all(table.isfinite().all() for table in trainer.state().values() if table.is_floating_point()):
            self.stop(trainer, epoch, best, math.nan)  # in the epoch's last step
        return self.loss

    def stop(self, trainer: Trainer[Model], epoch: int, best: _Best, loss: float) -> NoReturn:
        """Say that training diverged, with the trainer as it was last good, if it was."""
        tried = self.schedule.learning_rate
        problem = (
            f"training diverged in epoch {epoch} of {self.schedule.epochs} (loss {loss:.4g}) with learning rate "
            f"{tried:g}; try --learning-rate {tried / 4:.3g}"
        )
        if best.state:
            trainer.restore(best.state)
        raise DivergedError(problem, trainer if best.state else None)

    def tell(self, part: int, epoch: int, times: int = 1) -> None:
        """Report that a part has been trained for an epoch, or several, more."""
        with self.lock:
            self.done += times * self.training.sizes[part]
            if self.report is not None:
                total = self.epochs * sum(self.training.sizes)
                self.report(Progress(self.done, total, epoch, self.epochs, self.loss, self.valid_mrr))


class _Best:
    """The state that is kept: the best by validation, or the last one looked at where validation does not choose."""

    def __init__(self) -> None:
        self.state: State = {}
        self.mrr, self.epoch, self.waited = -1.0, 0, 0

    def look(self, trainer: Trainer[Any], epoch: int, mrr: float | None, margin: float) -> None:
        """Keep the state if it is better by a margin; without an MRR, keep it always."""
        self.waited += 1
        if mrr is None or mrr > self.mrr * margin:
            self.mrr, self.epoch, self.waited = mrr or 0.0, epoch, 0
            self.state = copied(trainer.state())


class _UntilDiverged(Iterator[Trainer[Any]]):
    """The trainers of the parts; where one diverges, it is the last, as it was last good, if it was."""

    def __init__(self, trainers: Iterator[Trainer[Any]]) -> None:
        self.trainers, self.count, self.problem = trainers, 0, ""

    def __next__(self) -> Trainer[Any]:
        if self.problem:
            raise StopIteration
        try:
            trainer = next(self.trainers)
        except DivergedError as error:
            self.problem, trainer = str(error), error.model
            if trainer is None:
                raise StopIteration if self.count else InputError(self.problem) from None
        self.count += 1
        return trainer
