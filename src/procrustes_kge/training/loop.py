"""The one training loop: epochs, validation, stopping, divergence, memory and interrupts, for every method alike.

    method(graph, settings) ─parts→ pilot: train, validate ─epochs→ other parts: train as long ─add→ model

A method cuts its work into parts, each trained through all its epochs before the next begins: blocks of segments (full
batch), groups of numbers (contrastive), or the whole model (baselines). The first part is the pilot: it alone is ranked
on validation triples, and it chooses the number of epochs for all. After an epoch, what is needed to go on from there
may be kept; a training that goes on ends where one that was never stopped ends, to the last bit.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from itertools import takewhile
from typing import Any, Generic, NoReturn, TypeVar

import torch
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
from procrustes_kge.training.checkpoints import Added, Checkpoints, Facts, InTraining, Stopped
from procrustes_kge.training.schedule import Schedule
from procrustes_kge.training.state import State, check_fits, copied, merged, part_of
from procrustes_kge.training.timekeeping import Change, Timekeeper, spoken_changes
from procrustes_kge.training.trainer import Chosen, Learned, Point, Progress, Report, Trainer, Training
from procrustes_kge.words import counted

CLEAR_GAIN = 1.005  # what a pilot must gain to move the stop: a part of a model peaks later than the whole
HOPELESS = 2.0  # times the loss before the first step: no training recovers from there

Model = TypeVar("Model", bound=LinkPredictor)
Learnable = TypeVar("Learnable", bound=Schedule)


def run(
    method: Callable[[Graph, Learnable, torch.device], Training[Model]],
    graph: Graph,
    settings: Learnable,
    report: Report | None = None,
    checkpoints: Checkpoints | None = None,
) -> Learned[Model]:
    """Train with a method on the graph's training triples, and return the model and how it was trained.

    Unless `patience` is 0, the weights of the best epoch by validation are kept. `report` is called with a `Progress`
    after every epoch of every part, by one thread at a time. `checkpoints` keep what is needed to go on; what they have
    kept of this training, with these settings, is where it goes on.
    """
    check_trainable(graph)
    with at_work(graph, settings) as device:
        clock = Timekeeper(settings)  # before anything is set up, which takes time too
        return _Loop(method(graph, settings, device), graph, settings, clock, report, checkpoints).run()


def choose_epochs(
    method: Callable[[Graph, Learnable, torch.device], Training[Any]],
    graph: Graph,
    settings: Learnable,
    report: Report | None = None,
    checkpoints: Checkpoints | None = None,
) -> Chosen:
    """Return the number of epochs that the pilot chooses, and its learning curve; train no other part."""
    with at_work(graph, settings) as device:
        clock = Timekeeper(settings)
        loop = _Loop(method(graph, settings, device), graph, settings, clock, report, checkpoints, "choosing")
        if not loop.over:
            try:
                loop.pilot()
            except DivergedError as error:  # nothing of it is kept
                raise InputError(str(error)) from None
            loop.checkpoints.note("choosing", loop.facts() | {"over": True})
        return Chosen(loop.epochs, tuple(loop.curve), clock.spent())


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
        self,
        training: Training[Model],
        graph: Graph,
        schedule: Schedule,
        clock: Timekeeper,
        report: Report | None = None,
        checkpoints: Checkpoints | None = None,
        stage: str = "training",
    ) -> None:
        self.training, self.graph, self.schedule, self.clock, self.report = training, graph, schedule, clock, report
        self.checkpoints, self.stage = checkpoints or Checkpoints(), stage
        self.epochs, self.done, self.added, self.over = schedule.epochs, 0, 0, False
        self.curve = list[Point]()
        self.loss: float | None = None
        self.valid_mrr: float | None = None
        self.lock, self.keeping = threading.Lock(), threading.Lock()
        self.stopped, self.late = threading.Event(), threading.Event()
        self.kept = self.checkpoints.kept(stage, graph, schedule)
        if self.kept is not None:
            self.go_on(self.kept.facts)
        self.kept_until = self.added  # parts: what these have added is kept

    def run(self) -> Learned[Model]:
        """Train all parts and join them."""
        try:
            for first, last, state in self.kept.added if self.kept is not None else ():
                self.training.restore(first, last, state())
            parts = _UntilDiverged(self.trained(), self.added)
            for trainer in parts:
                self.training.add(trainer)
                del trainer  # before the next is trained
                self.added += 1
            model = self.training.model()
        finally:
            self.stopped.set()  # an interrupted training does not wait for its workers to finish
        if parts.problem:
            raise DivergedError(parts.problem, model)
        repeats = replace(self.training.of_parts(parts.count), time=0.0, replay=spoken_changes(self.clock.changes))
        return Learned(model, self.epochs, tuple(self.curve), repeats)

    def trained(self) -> Iterator[Trainer[Model]]:
        """Yield the trainer of each part when it is done; the last parts are left out where there is no time."""
        workers, others = self.training.workers, range(max(1, self.added), len(self.training.sizes))
        if self.added == 0:
            yield self.pilot()
            give_back()  # the pilot needed more memory than the other parts will
        found = over_cores(self.follow, others, workers, self.stopped.set) if workers else map(self.follow, others)
        yield from takewhile(lambda trainer: trainer is not None, found)

    def pilot(self) -> Trainer[Model]:
        """Train the first part, and let validation choose the epochs; the trainer goes back to the best."""
        schedule, best = self.schedule, _Best()
        chooses = schedule.patience > 0 and len(self.graph.valid) > 0
        # A part of a model peaks later than the whole, so it must gain something to move the stop.
        margin = CLEAR_GAIN if len(self.training.sizes) > 1 else 1.0
        trainer, epoch = self.started(0, best)
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
            self.keep(0, epoch, trainer, best)
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
        started, nothing = self.clock.now(), _Best()
        trainer, had = self.started(part)
        for epoch in range(had + 1, self.epochs + 1):
            if self.stopped.is_set():
                break
            self.checked(trainer.epoch(), trainer, epoch, nothing, epoch == self.epochs)
            if change := self.clock.changes.get(epoch):
                trainer.adjust(change)
            self.tell(part, epoch)
            if self.clock.left() < 0 and epoch < self.epochs:
                self.late.set()
                return None
            self.keep(part, epoch, trainer)
        self.clock.part_done(self.clock.now() - started)
        return trainer

    def started(self, part: int, best: _Best | None = None) -> tuple[Trainer[Model], int]:
        """Return the trainer of a part, and the epochs that it has had; the pilot's best so far is restored too."""
        trainer = self.training.trainer(part)
        if self.kept is None or part not in self.kept.parts:
            return trainer, 0
        epoch, load = self.kept.parts[part]
        state = load()
        check_fits(part_of(state, "trainer"), trainer.state())
        trainer.restore(part_of(state, "trainer"))
        workers = [change.workers for after, change in self.clock.changes.items() if after <= epoch and change.workers]
        if workers:
            trainer.adjust(Change(workers=workers[-1]))
        if best is not None:
            best.state, known = part_of(state, "best"), self.kept.facts["best"]
            best.mrr, best.epoch, best.waited = known["mrr"], known["epoch"], known["waited"]
        self.tell(part, epoch, times=epoch)
        return trainer, epoch

    def keep(self, part: int, epoch: int, trainer: Trainer[Model], best: _Best | None = None) -> None:
        """Keep what is needed to go on after an epoch of a part, if it is time to; stop there, if that is asked for."""
        if not self.checkpoints.due(part, epoch):
            return
        with self.keeping:
            last = self.added  # before what was added is asked for: meanwhile another part may be
            first, added = self.kept_until, None
            if last > first:
                added = Added(first, last, lambda: self.training.added(first, last))
            now = InTraining(epoch, lambda: merged(trainer=trainer.state(), best=best.state if best else {}))
            self.checkpoints.put(self.stage, self.facts(best) | {"added": last}, part, now, added)
            self.kept_until = last
        if self.checkpoints.stopping:
            raise Stopped

    def facts(self, best: _Best | None = None) -> Facts:
        """Return what is known of all parts; of the best epoch, while the pilot trains."""
        known = {"mrr": best.mrr, "epoch": best.epoch, "waited": best.waited} if best else None
        return {
            "epochs": self.epochs,
            "loss": self.loss,
            "valid_mrr": self.valid_mrr,
            "curve": [asdict(point) for point in self.curve],
            "changes": spoken_changes(self.clock.changes),
            "seconds": self.clock.spent(),
            "sizes": list(self.training.sizes),
            "added": self.added,
            "best": known,
            "over": False,
        }

    def go_on(self, facts: Facts) -> None:
        """Go on from the facts that were kept."""
        if facts["sizes"] != list(self.training.sizes):
            raise InputError("this training was begun on another device, which has other parts; go on where it began")
        self.epochs, self.loss, self.valid_mrr = facts["epochs"], facts["loss"], facts["valid_mrr"]
        self.curve = [Point(**point) for point in facts["curve"]]
        self.added, self.over = facts["added"], facts["over"]
        self.clock.go_on(facts["changes"], facts["seconds"])
        self.done = self.epochs * sum(self.training.sizes[: self.added])

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
    """The trainers of parts, counted; where one diverges, it is the last, as it was last good, if it was."""

    def __init__(self, trainers: Iterator[Trainer[Any]], count: int = 0) -> None:
        self.trainers, self.count, self.problem = trainers, count, ""

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
