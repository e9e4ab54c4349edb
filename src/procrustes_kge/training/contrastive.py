"""contrast(): PROCRUSTES with negatives and mini-batches; relations stay orthogonal and are solved, not descended.

    batches ─rotate, scale, translate→ queries ─against candidates→ gradients ─step→ vectors, scales, translations
                                                                      └─procrustes_step, or Eq. 3→ rotations

A GPU replays steps that were recorded, several times as fast where a step is short.

One trainer over two axes: how many queries a step sees, and which entities an answer is contrasted with. Scores are
linear in the rotation, so with negatives too the best next rotation under a quadratic bound is a Procrustes problem.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.layouts.batches import QUERIES_PER_TILE, Batch, QueryBatches
from procrustes_kge.linalg import spherise_
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.system.cuda_graphs import RecordedStep
from procrustes_kge.system.memory import shrinking
from procrustes_kge.system.threads import cores, threads
from procrustes_kge.training.checkpoints import Checkpoints
from procrustes_kge.training.contrastive_settings import ContrastSettings, check_fit
from procrustes_kge.training.full_batch import fit
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.gradients import Tables, add_covariances
from procrustes_kge.training.learner import Learner
from procrustes_kge.training.loop import run
from procrustes_kge.training.optimisers import OPTIMISERS
from procrustes_kge.training.polars import exact_polar, polar
from procrustes_kge.training.rotations import StepSizes, of_directions
from procrustes_kge.training.state import Remembering, State, copied, merged, part_of
from procrustes_kge.training.timekeeping import Change
from procrustes_kge.training.trainer import Report
from procrustes_kge.words import counted

WARM_UP = 50  # steps over which the rate rises: Adagrad's first steps are otherwise as long as all later ones
WARM_LENGTH = 0.12  # length of a segment that `fit` has trained: unit length would make the softmax overconfident
SMALL = 10**8  # multiplications in a chunk's scores
CHUNK_NUMBERS, CHUNK_NUMBERS_CUDA = 2**25, 2**28  # scores and queries that are held at once


def contrast(
    graph: Graph,
    settings: ContrastSettings | None = None,
    report: Report | None = None,
    checkpoints: Checkpoints | None = None,
) -> Procrustes:
    """Train PROCRUSTES on the graph's training triples, with negatives or in mini-batches, and return the model.

    The learning rate falls to zero over the epochs. With `patience`, validation may stop earlier. `report` is called
    with a `Progress` after every epoch.
    """
    return run(Contrastive, graph, settings or ContrastSettings(), report, checkpoints).model


class Contrastive:
    """A contrastive training: groups of numbers, one after another."""

    workers = 0

    def __init__(
        self, graph: Graph, settings: ContrastSettings, device: torch.device, start: Procrustes | None = None
    ) -> None:
        check_fit(graph, settings)
        self.graph, self.settings, self.device, self.given = graph, settings, device, start
        self.sizes = (settings.segments // settings.groups,) * settings.groups
        self.batches = QueryBatches.of(graph.train.to(device), len(graph.entities), len(graph.relations))
        self.groups = list[Procrustes]()  # that were added
        self.spare: ContrastiveTrainer | None = None  # of the last of them: what it has recorded serves the next too

    def trainer(self, part: int) -> ContrastiveTrainer:
        """Return an untrained trainer of a group: of its share of the numbers, with a seed of its own."""
        settings, seed = self.settings, self.settings.seed + part * 0x9E3779B97F4A
        group = replace(settings, dim=settings.dim // settings.groups, groups=1, seed=seed)
        given = None if self.given is None else parts_of(self.given, settings.groups)[part].to(self.device)
        if self.spare is None:
            return ContrastiveTrainer(self.graph, self.batches, group, self.device, given)
        trainer, self.spare = self.spare, None
        trainer.restart(group, given)
        return trainer

    def of_parts(self, parts: int) -> ContrastSettings:
        """Return the settings of a training that has the first groups alone."""
        settings = self.settings
        return replace(settings, dim=settings.dim // settings.groups * parts, groups=parts)

    def add(self, trainer: ContrastiveTrainer) -> None:
        """Take over the model of the next group."""
        model = trainer.model()
        if trainer.recorded.recorded and len(self.groups) + 1 < len(self.sizes):
            self.spare = trainer
            tables: dict[str, Any] = copied(model.tables())
            model = replace(model, **tables)
        self.groups.append(model)

    def added(self, first: int, last: int) -> State:
        """Return the tables of some groups."""
        return merged(**{str(group): self.groups[group].tables() for group in range(first, last)})

    def restore(self, first: int, last: int, state: State) -> None:
        """Take over such tables."""
        for group in range(first, last):
            tables = {name: table.to(self.device) for name, table in part_of(state, str(group)).items()}
            self.groups.append(Procrustes(self.graph.entities, self.graph.relations, **tables))

    def model(self) -> Procrustes:
        """Return one model whose vectors are those of the groups side by side: its scores are the sum of theirs."""
        return joined(self.groups)


class ContrastiveTrainer(Remembering):
    """Trains one group: the learner, the batches it is given, and how far each step goes."""

    remembered = ("learner", "start_loss", "falls_from", "falls_at", "falls_to", "chunk")

    def __init__(
        self,
        graph: Graph,
        batches: QueryBatches,
        settings: ContrastSettings,
        device: torch.device,
        given: Procrustes | None = None,
    ) -> None:
        self.graph, self.batches, self.settings, self.device, self.given = graph, batches, settings, device, given
        generator = torch.Generator(device).manual_seed(settings.seed % 2**63)
        tables = self.start(generator)
        self.learner = Learner(
            tables, settings.objective, OPTIMISERS[settings.optimiser], generator, settings.lengths == "unit"
        )
        rows = len(batches.tiles) * batches.height
        wanted = rows if settings.batch == "full" else min(settings.batch, rows)
        self.batch = -(-wanted // batches.height) * batches.height
        self.steps_an_epoch = batches.steps(self.batch)
        self.shape = batches.padded_tiles(self.batch), batches.height  # of padded batches
        # The learner's method, which does not hold the trainer: its memory is to be free as soon as nobody needs it.
        step = partial(self.learner.learn, shape=self.shape, steps_an_epoch=self.steps_an_epoch)
        self.recorded, self.fit = RecordedStep(step, [generator], warm_up=1), set[int]()
        self.pads = device.type == "cuda"
        self.begin()

    def begin(self) -> None:
        """Begin at the first step, with the learner's tables."""
        settings, height = self.settings, self.batches.height
        if settings.relations == "positives":
            self.solve_all()
        at_once = queries_at_once(settings, len(self.graph.entities), self.device)
        self.chunk = max(height, min(self.batch, at_once) // height * height)
        self.start_loss = math.nan
        # The rates fall in a straight line from a share of the largest, at a step, to nothing at another.
        self.falls_from, self.falls_at, self.falls_to = 1.0, 0, settings.epochs * self.steps_an_epoch
        self.workers = settings.workers or self.usual_workers()

    def restart(self, settings: ContrastSettings, given: Procrustes | None = None) -> None:
        """Train a group of the same size from its start, in the same place: steps that were recorded are of use."""
        self.settings, self.given = settings, given
        self.learner.restart(self.start(self.learner.generator.manual_seed(settings.seed % 2**63)))
        self.begin()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        super().restore(state)
        self.recorded.forget()

    def start(self, generator: torch.Generator) -> Tables:
        """Return the tables to start from: random, those of a short `fit`, or those that are given."""
        settings, relations = self.settings, len(self.graph.relations)
        if self.given is not None:
            given = copied(self.given.tables())
            given |= {
                "vectors": given["vectors"].flatten(1),
                "rotations": of_directions(given["rotations"], 2 * relations),
            }
            return Tables(**given)
        shape = (2 * relations, settings.segments, settings.segment)
        warm = self.short_fit() if settings.warm_start else {"vectors": self.drawn_vectors(generator)}
        rotations = warm.get("rotations")
        if rotations is None:
            rotations = polar(torch.randn(relations, *shape[1:], shape[2], device=self.device, generator=generator))
        vectors = warm["vectors"]
        translations = warm.get("translations", vectors.new_zeros(shape)) if settings.translate else None
        scales = vectors.new_ones(shape) if settings.scale else None
        if scales is not None and settings.init_scale < 1:
            scales.normal_(std=settings.init_scale, generator=generator)
        return Tables(vectors.flatten(1), of_directions(rotations, shape[0]), translations, scales)

    def short_fit(self) -> dict[str, Tensor]:
        """Return the tables of a short `fit`; where lengths are free, all made shorter alike, which ranks the same."""
        settings = self.settings
        alike = {name: getattr(settings, name) for name in ("dim", "segment", "translate", "seed")}
        short = FitSettings(**alike, epochs=settings.warm_start, patience=0, validate_every=0, device=str(self.device))
        tables = fit(self.graph, short).tables()
        length = 1.0 if settings.lengths == "unit" else WARM_LENGTH
        return {name: table if name == "rotations" else table * length for name, table in tables.items()}

    def drawn_vectors(self, generator: torch.Generator) -> Tensor:
        """Return small random vectors, or unit ones."""
        settings, entities = self.settings, len(self.graph.entities)
        shape = (entities, settings.segments, settings.segment)
        vectors = torch.randn(shape, device=self.device, generator=generator)
        if settings.lengths == "unit":
            spherise_(vectors.transpose(0, 1))
            return vectors
        return vectors.mul_(settings.init_std)

    def solve_all(self) -> None:
        """Solve the first rotations by Eq. 3 from all triples; their covariances are kept for the next time."""
        learner = self.learner
        for batch in self.batches.epoch(2**13):
            add_covariances(learner.gathered.rotations, learner.tables, batch)
        learner.rotate_to(learner.rotations.solved(learner.gathered, keep=1.0))

    def usual_workers(self) -> int:
        """Return how many threads to use on the CPU: for small products, more mostly wait for one another."""
        compared = self.settings.compared(len(self.graph.entities))
        small = self.chunk * max(compared, self.settings.segment) * self.settings.dim < SMALL
        return 1 if small else cores()

    def adjust(self, change: Change) -> None:
        """Let the rates reach nothing after other epochs than was planned, or go on with other threads."""
        self.workers = change.workers or self.workers
        if change.epochs is not None:
            self.falls_from = self.share_left()
            self.falls_at, self.falls_to = self.learner.taken, change.epochs * self.steps_an_epoch

    def share_left(self, ahead: int = 0) -> float:
        """Return which share of the largest rates the next step has, or one further ahead."""
        length = max(1, self.falls_to - self.falls_at)
        return self.falls_from * max(1 / length, 1 - (self.learner.taken + ahead - self.falls_at) / length)

    def epoch(self) -> float:
        """Train on every query once and return the mean loss of an answer."""
        with threads(self.workers):
            for _ in self.steps():
                pass
        # Where the first step was the whole epoch, its loss has been asked for already.
        return self.learner.mean_loss() if self.learner.taken > 1 else self.start_loss

    def steps(self) -> Iterator[None]:
        """Take the steps of an epoch one at a time."""
        learner = self.learner
        if learner.objective.negatives:
            learner.deck.shuffle(learner.generator)
        # Which way depends on nothing but the state: a training that goes on from one takes the same.
        for _ in self.padded_steps() if self.pads and self.chunk >= self.batch else self.plain_steps():
            if learner.taken == 1:
                self.start_loss = learner.mean_loss()
            yield

    def plain_steps(self) -> Iterator[None]:
        """Take steps on batches as they come."""
        for batch in self.batches.epoch(self.batch, self.learner.generator):
            self.take_step(batch, self.step_sizes())
            yield

    def padded_steps(self) -> Iterator[None]:
        """Take steps on batches of one shape: the first of a shape shows that it fits into memory, others are recorded.

        What pads a batch adds zeros to sums, so that nothing else is learned.
        """
        learner, steps = self.learner, self.steps_an_epoch
        dealt = self.batches.padded_epoch(self.batch, learner.generator)
        rates = torch.tensor([self.step_sizes(ahead)[:2] for ahead in range(steps)], device=self.device)
        for numbers, rate in zip(dealt, rates, strict=True):
            if self.recorded.records and self.chunk >= self.batch and len(numbers) in self.fit:
                self.recorded(numbers, rate, rotates=learner.rotates_next(steps))
                learner.taken += 1
            else:
                self.take_step(Batch.unpacked(numbers, *self.shape), StepSizes(rate[0], rate[1], steps))
                self.fit.add(len(numbers))
            yield

    def take_step(self, batch: Batch, sizes: StepSizes) -> None:
        """Learn from a batch, as much of it at once as fits into memory, and move."""
        learner, running = self.learner, list[Tensor]()
        if learner.sees_few and self.chunk >= self.batch:
            learner.step_on_rows(batch, sizes)
            return

        def gather(chunk: int) -> None:
            if running:  # a larger chunk has been tried, and may have left something
                learner.forget(running)
            else:
                running.extend(learner.running_sums())
            # A padded batch has a tile more than was asked for.
            for part in batch.split(chunk) if chunk < self.batch else [batch]:
                learner.gather(part)

        _, chunk = shrinking(gather, self.chunk, self.batches.height)
        if chunk < self.chunk:
            going_on = f"out of memory: training continues with {counted(chunk, 'query')} at a time"
            warnings.warn(going_on, RuntimeWarning, stacklevel=2)
            self.chunk = chunk
        learner.step(sizes)

    def step_sizes(self, ahead: int = 0) -> StepSizes:
        """Return how far the next step goes, or one further ahead: rates rise at first, then fall to nothing."""
        total, taken = self.settings.epochs * self.steps_an_epoch, self.learner.taken + ahead
        share = min(1.0, (taken + 1) / min(WARM_UP, 1 + total // 10)) * self.share_left(ahead)
        rates = self.settings.learning_rate, self.settings.rotation_learning_rate
        return StepSizes(share * rates[0], share * rates[1], self.steps_an_epoch)

    def model(self) -> Procrustes:
        """Return the model, with rotations orthogonal to the last digit."""
        vectors, rotations, translations, scales = self.learner.tables
        own = len(rotations) if self.settings.inverses else len(self.graph.relations)
        rotations = exact_polar(rotations[:own].double()).float()
        vectors = vectors.view(len(vectors), self.settings.segments, self.settings.segment)
        return Procrustes(self.graph.entities, self.graph.relations, vectors, rotations, translations, scales)


def joined(parts: Sequence[Procrustes]) -> Procrustes:
    """Return one model whose vectors are those of the parts side by side: its scores are the sum of theirs."""
    if len(parts) == 1:
        return parts[0]
    tables = {name: torch.cat([part.tables()[name] for part in parts], dim=1) for name in parts[0].tables()}
    return Procrustes(parts[0].entities, parts[0].relations, **tables)


def parts_of(model: Procrustes, count: int) -> list[Procrustes]:
    """Return the models that `joined` makes one of, as many of equal size."""
    tables = {name: table.chunk(count, dim=1) for name, table in model.tables().items()}
    each = [{name: parts[part].contiguous() for name, parts in tables.items()} for part in range(count)]
    return [Procrustes(model.entities, model.relations, **own) for own in each]


def queries_at_once(settings: ContrastSettings, entities: int, device: torch.device) -> int:
    """Return how many queries to compare at once, by the memory that this takes."""
    room = CHUNK_NUMBERS if device.type == "cpu" else CHUNK_NUMBERS_CUDA
    compared = settings.compared(entities)
    across = 8 * settings.dim + (entities if settings.negatives == "all" else 4 * compared)
    return max(QUERIES_PER_TILE, min(settings.chunk or room, room // across))
