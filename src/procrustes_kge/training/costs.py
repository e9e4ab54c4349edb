"""What a training takes on this machine: a little of each phase is run and timed, and thrown away.

start · pilot's epochs and validations · other parts' epochs · finish · ranking
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import repeat
from math import ceil
from typing import Any

import torch

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.models.ranking import FEWEST_RANKED, rank
from procrustes_kge.system.devices import timed
from procrustes_kge.system.threads import cores, threads
from procrustes_kge.training.contrastive import Contrastive, ContrastiveTrainer, joined
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch import FullBatch, SegmentsTrainer
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.loop import at_work
from procrustes_kge.training.recipes import OwnSettings
from procrustes_kge.training.restoring import restore_relations
from procrustes_kge.training.supervised import Supervised, SupervisedTrainer
from procrustes_kge.training.supervised_settings import TrainSettings

# Of its most epochs, `turn` usually trains a third, and more where vectors are short: 18 to 39 of 60 on eight graphs.
USUAL, USUAL_OF_A_NUMBER = 1 / 3, 10
TOGETHER = 10  # segments that are timed together on a GPU
WARM_UP, WARM_UP_CUDA = 4, 12  # calls; a rotation moves at every fourth step, and a GPU records both kinds of step
MOST_CALLS = 20  # that are timed
CLEARLY_FASTER = 1.1  # times: more threads than one must be worth it
MOST_NUMBERS = 2**26  # of a model that is ranked for its time alone


@dataclass(frozen=True)
class Costs:
    """Seconds that a training takes in each phase, and ranking after it."""

    start: float = 0.0  # before the first epoch, of all parts
    pilot: float = 0.0  # an epoch of the part that validation looks at
    others: float = 0.0  # an epoch of all other parts
    look: float = 0.0  # a validation
    finish: float = 0.0  # after the last epoch
    triple: float = 0.0  # to rank a triple from both sides
    workers: int = 0  # threads with which a step was timed; 0: as many as the settings say

    def learning(self, graph: Graph, settings: OwnSettings, epochs: int) -> float:
        """Return the seconds of a training whose validation chooses so many epochs."""
        tried = min(settings.epochs, epochs + settings.patience * settings.validate_every)
        tried = tried if chooses(graph, settings) else epochs
        looks = ceil(tried / settings.validate_every) if settings.validate_every and _validates(graph, settings) else 0
        return self.start + tried * self.pilot + epochs * self.others + looks * self.look + self.finish

    def towards(self, other: Costs, share: float) -> Costs:
        """Return the costs at a share of the way to others, in a straight line."""
        mixed = {
            each.name: (1 - share) * getattr(self, each.name) + share * getattr(other, each.name)
            for each in fields(self)
            if each.name != "workers"
        }
        return replace(self, **mixed, workers=(other if share > 1 / 2 else self).workers)


def usual_epochs(graph: Graph, settings: OwnSettings) -> int:
    """Return how many epochs a training will probably have."""
    by_turns = isinstance(settings, FitSettings) and settings.optimiser == "turn"
    share = min(1.0, USUAL + USUAL_OF_A_NUMBER / settings.dim) if by_turns and chooses(graph, settings) else 1.0
    return ceil(share * settings.epochs)


def chooses(graph: Graph, settings: OwnSettings) -> bool:
    """Say whether validation chooses the number of epochs."""
    return bool(settings.patience and settings.validate_every) and _validates(graph, settings)


def _validates(graph: Graph, settings: OwnSettings) -> bool:
    # For `fit`, training triples stand in where there are none for validation.
    return len(graph.valid) > 0 or (isinstance(settings, FitSettings) and settings.patience > 0)


def measured(graph: Graph, settings: OwnSettings, patience: float) -> Costs:
    """Return what a training takes here; each measurement ends when it has taken about `patience` seconds."""
    with at_work(graph, settings) as device:
        clock = _Clock(device, patience)
        if isinstance(settings, ContrastSettings):
            return _contrastive(graph, settings, clock)
        return _full_batch(graph, settings, clock)


def pace(graph: Graph, settings: TrainSettings, patience: float) -> tuple[float, int]:
    """Return about how many seconds an epoch of a baseline takes on the CPU, and how many threads it is to have."""
    with at_work(graph, settings) as device, torch.enable_grad():
        trainer = Supervised(graph, settings, device).trainer(0)
        step, workers = _step(trainer, settings.workers, _Clock(device, patience))
        return step * trainer.steps_an_epoch, workers


class _Clock:
    """Times work on a device, and has limited patience."""

    def __init__(self, device: torch.device, patience: float) -> None:
        self.device, self.patience = device, patience

    def once(self, work: Callable[[], Any]) -> tuple[Any, float]:
        """Return the result of one call, and its seconds."""
        return timed(work, self.device)

    def each(self, work: Callable[[], Any]) -> float:
        """Return the seconds of one call, after a few that are not counted."""
        self.repeated(work, WARM_UP if self.device.type == "cpu" else WARM_UP_CUDA)
        return self.repeated(work, MOST_CALLS)

    def repeated(self, work: Callable[[], Any], most: int) -> float:
        """Return the seconds of one of at most so many calls."""
        taken, calls = 0.0, 0
        while calls < most and taken < self.patience / 2:
            taken, calls = taken + self.once(work)[1], calls + 1
        return taken / calls

    def ranking(self, model: Procrustes, graph: Graph) -> float:
        """Return the seconds in which a triple is ranked from both sides."""
        triples = next(split for split in (graph.valid, graph.test, graph.train) if len(split))
        few = triples[:FEWEST_RANKED]
        rank(model, graph, few)  # known answers are collected by the first call
        pace = self.once(lambda: rank(model, graph, few))[1] / len(few)
        most = int(self.patience / max(pace, 1e-9))
        if most > len(few) and len(triples) > len(few):
            some = triples[:most][:1000]
            pace = self.once(lambda: rank(model, graph, some))[1] / len(some)
        return pace


def _contrastive(graph: Graph, settings: ContrastSettings, clock: _Clock) -> Costs:
    warm = 0.0
    if settings.warm_start:
        alike = {name: getattr(settings, name) for name in ("dim", "segment", "translate", "device")}
        short = FitSettings(**alike, epochs=settings.warm_start, patience=0, validate_every=0)
        warm = measured(graph, short, clock.patience).learning(graph, short, short.epochs)
    training, arranging = clock.once(lambda: Contrastive(graph, replace(settings, warm_start=0), clock.device))
    trainer, start = clock.once(lambda: training.trainer(0))
    step, workers = _step(trainer, settings.workers, clock)
    model, joining = clock.once(trainer.model)
    triple = clock.ranking(model, graph)
    epoch = step * trainer.steps_an_epoch
    return Costs(
        start=warm + arranging + settings.groups * start,
        pilot=epoch,
        others=(settings.groups - 1) * epoch,
        look=joining + min(len(graph.valid), settings.validation_triples) * triple,
        finish=settings.groups * joining,
        triple=settings.groups * triple,
        workers=workers,
    )


def _step(trainer: ContrastiveTrainer | SupervisedTrainer, workers: int, clock: _Clock) -> tuple[float, int]:
    """Return the seconds of a step, and with how many threads: all, or one where that is as fast."""
    steps = (None for _ in repeat(None) for _ in trainer.steps())

    def on(count: int) -> float:
        with threads(count):
            return clock.each(lambda: next(steps))

    if workers or clock.device.type != "cpu" or cores() == 1:
        return on(trainer.workers), trainer.workers if clock.device.type == "cpu" else 0
    alone, together = on(1), on(cores())
    return (together, cores()) if alone > CLEARLY_FASTER * together else (alone, 1)


def _full_batch(graph: Graph, settings: FitSettings, clock: _Clock) -> Costs:
    # A core trains one segment at a time, a GPU many: some of them, timed together.
    training, arranging = clock.once(lambda: FullBatch(graph, settings, clock.device))
    at_once = min(training.workers or TOGETHER, settings.segments)
    trainer, start = clock.once(lambda: SegmentsTrainer(training, range(at_once)))
    epoch = clock.each(trainer.epoch)
    alone = epoch
    # Of a small graph, bringing work to the cores takes as long as the work. It is less where a core has several
    # segments, and hardly anything behind the pilot, where a core trains a segment through all its epochs.
    rounds = min(TOGETHER, settings.segments // at_once, int(clock.patience / (MOST_CALLS * epoch)))
    if rounds > 1:
        several = SegmentsTrainer(training, range(rounds * at_once))
        epoch = clock.each(several.epoch) / rounds
        through = clock.once(lambda: [*several.over_blocks(lambda block: [block.epoch() for _ in range(MOST_CALLS)])])
        alone = through[1] / (MOST_CALLS * rounds)
    model, solving = clock.once(trainer.model)
    long = _longer(model, min(settings.dim, max(model.dim, MOST_NUMBERS // len(graph.entities))))
    triple = clock.ranking(long, graph) / long.dim
    once, twice = (_restoring(graph, settings, _longer(model, many * model.dim), clock) for many in (1, 2))

    segments = settings.segments
    pilot = min(segments, max(1, settings.pilot // settings.segment)) if _validates(graph, settings) else 0
    stands_in = len(graph.valid) == 0  # then the pilot's segments are trained again, on all triples
    others = segments if stands_in else segments - pilot
    validated = min(len(graph.valid) or len(graph.train) // 20, settings.validation_triples)
    return Costs(
        start=arranging * (2 if stands_in else 1) + _rounds(pilot + others, at_once) * start,
        pilot=_rounds(pilot, at_once) * epoch,
        others=_rounds(others, at_once) * alone,
        look=_rounds(pilot, at_once) * solving + validated * pilot * settings.segment * triple,
        finish=once + (_rounds(segments, at_once) - 1) * max(0.0, twice - once),
        triple=settings.dim * triple,
    )


def _rounds(segments: int, at_once: int) -> int:
    return ceil(segments / at_once)


def _longer(model: Procrustes, dim: int) -> Procrustes:
    """Return a model of longer vectors, of the same segments again and again."""
    return joined([model] * max(1, dim // model.dim))


def _restoring(graph: Graph, settings: FitSettings, model: Procrustes, clock: _Clock) -> float:
    return clock.once(lambda: restore_relations(model.vectors, graph, settings.translate, settings.workers))[1]
