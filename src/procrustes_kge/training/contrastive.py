"""contrast(): PROCRUSTES with negatives and mini-batches; relations stay orthogonal and are solved, not descended.

    batches ─rotate, scale, translate→ queries ─against candidates→ gradients ─step→ vectors, scales, translations
                                                                      └─procrustes_step, or Eq. 3→ rotations

One trainer over two axes: how many queries a step sees, and which entities an answer is contrasted with. Scores are
linear in the rotation, so with negatives too the best next rotation under a quadratic bound is a Procrustes problem.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.layouts.batches import QUERIES_PER_TILE, Batch, QueryBatches
from procrustes_kge.linalg import nearest_orthogonal, spherise_
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.system.memory import shrinking
from procrustes_kge.system.threads import cores, threads
from procrustes_kge.training.full_batch import FitSettings, fit
from procrustes_kge.training.gradients import Objective, Tables, add_covariances, both_directions
from procrustes_kge.training.learner import Learner, StepSizes, polar
from procrustes_kge.training.loop import Report, run
from procrustes_kge.training.objective import Sigmoid
from procrustes_kge.training.optimisers import Adagrad, Adam
from procrustes_kge.training.schedule import Schedule
from procrustes_kge.training.state import State
from procrustes_kge.validation import check_choices, check_range, check_segments, check_whole

WARM_UP = 50  # steps over which the rate rises: Adagrad's first steps are otherwise as long as all later ones
START = 0.01  # size of a coordinate at the start, where lengths are free
WARM_LENGTH = 0.12  # length of a segment that `fit` hands over: unit length would begin overconfident
SMALL = 10**8  # multiplications in a chunk's scores
CHUNK_NUMBERS, CHUNK_NUMBERS_CUDA = 2**25, 2**28  # scores and queries that are held at once


@dataclass(frozen=True, kw_only=True)
class ContrastSettings(Schedule):
    """What `contrast` does, and how long."""

    smaller: ClassVar[str] = "a smaller --dim, more --groups"
    epochs: Annotated[int, "most epochs to train; validation may choose fewer"] = 30
    learning_rate: Annotated[float, "size of a step; of the largest, where it falls to nothing in the end"] = 0.2
    patience: Annotated[int, "validations without a better MRR before stopping; 0: train all epochs"] = (
        0  # the learning rate falls over all epochs, and the last are the best
    )
    dim: Annotated[int, "numbers in an entity's vector"] = 2000
    segment: Annotated[int, "numbers in a segment, each rotated by a matrix of its own"] = 20
    groups: Annotated[int, "equal parts of a vector that are trained one after another; scores add up"] = 1
    batch: Annotated[int | Literal["full"], "queries in a step; full: as many as there are, or fit into memory"] = 2048
    chunk: Annotated[int, "queries compared at once, to bound memory; 0: as many as a step has and fit"] = 0
    negatives: Annotated[
        int | Literal["none", "all"], "entities that an answer is contrasted with: so many, none, all"
    ] = "all"  # the best use of a GPU; so many are what a CPU can afford
    loss: Annotated[
        Literal["softmax", "sigmoid", "squared"],
        "softmax: which entity is the answer; sigmoid: is each one; squared: answers alone, no negatives",
    ] = "softmax"
    margin: Annotated[float, "sigmoid: where answers end, as a share of the distance of two random entities"] = 0.8
    sharpness: Annotated[float, "sigmoid: how fast it passes from answer to negative"] = 7.0
    adversarial_temperature: Annotated[
        float, "sigmoid loss: how much the nearest negatives count more (self-adversarial); 0: all alike"
    ] = 2.0
    lengths: Annotated[Literal["free", "unit"], "free: entities as long as they get; unit: centred, of length one"] = (
        "free"  # how well known an entity is shows in its length
    )
    relations: Annotated[
        Literal["step", "positives"], "step: rotations by procrustes_step; positives: by Eq. 3, answers alone"
    ] = "step"
    optimiser: Annotated[Literal["adagrad", "adam"], "how vectors move"] = "adagrad"
    rotation_learning_rate: Annotated[float, "size of a rotation's step"] = 1.0
    scale: Annotated[bool, "let each relation scale the coordinates that it has rotated"] = True
    translate: Annotated[bool, "let each relation translate as well as rotate: h Q + b"] = True
    regularisation: Annotated[float, "weight of what keeps vectors short"] = 0.05  # DURA, of entities and queries
    dropout: Annotated[float, "share of a query's numbers left out at random"] = 0.2
    label_smoothing: Annotated[float, "share of the certainty of answers that is given to all entities alike"] = 0.0
    crowd: Annotated[float, "a query with n answers counts n to this power"] = 1.0
    warm_start: Annotated[int, "epochs of `fit` to start from, full batch and without negatives"] = 0
    workers: Annotated[int, "threads on the CPU; 0: one per core, or one alone where steps are small"] = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be trained, before anything is read or written."""
        super().__post_init__()
        check_choices(self)
        check_whole(self, ("dim", "segment", "groups"), least=1)
        check_whole(self, ("warm_start", "chunk", "workers"), least=0)
        check_segments(self.dim, self.segment, self.groups)
        for name in ("rotation_learning_rate", "sharpness"):
            check_range(self, name, 1000, above=True)
        for name in ("regularisation", "adversarial_temperature", "margin"):
            check_range(self, name, 1000)
        for name in ("dropout", "label_smoothing"):
            check_range(self, name, 0.99)
        check_range(self, "crowd", 2)
        if (self.negatives == "none") != (self.loss == "squared"):
            raise InputError(
                f"{self.loss} loss with {self.negatives} negatives; the squared loss is the one that has none"
            )
        if self.negatives == "all" and self.loss == "sigmoid":
            raise InputError("sigmoid loss with all negatives; give --negatives a number such as 128")
        if self.loss == "sigmoid" and self.lengths == "free":
            raise InputError("sigmoid loss with free lengths: distances that products do not rank; try --lengths unit")
        if self.label_smoothing and self.negatives != "all":
            raise InputError(f"label smoothing with {self.negatives} negatives; it is for --negatives all")
        if self.negatives == "none" and self.lengths == "free":
            raise InputError("free lengths without negatives all shrink to nothing; try --lengths unit")

    @property
    def segments(self) -> int:
        """How many segments a vector has."""
        return self.dim // self.segment

    def compared(self, entities: int) -> int:
        """Return how many entities a query is compared with, out of so many."""
        return self.negatives if isinstance(self.negatives, int) else {"all": entities, "none": 0}[self.negatives]

    @property
    def objective(self) -> Objective:
        """What a step improves."""
        apart = (2 * self.segments) ** 0.5  # the distance of two random entities of unit segments
        sigmoid = Sigmoid(self.margin * apart, self.sharpness / apart, self.adversarial_temperature)
        return Objective(
            negatives=self.negatives if isinstance(self.negatives, int) else {"none": 0, "all": None}[self.negatives],
            sigmoid=sigmoid if self.loss == "sigmoid" else None,
            label_smoothing=self.label_smoothing,
            regularisation=self.regularisation,
            dropout=self.dropout,
            crowd=self.crowd,
            positives=self.relations == "positives",
        )


def contrast(graph: Graph, settings: ContrastSettings | None = None, report: Report | None = None) -> Procrustes:
    """Return the model that PROCRUSTES learns from the graph's training triples with negatives or mini-batches.

    The learning rate falls to nothing over the epochs, which are a setting like the others; with `patience`, validation
    triples may choose fewer. `report` is called with a `Progress` after every epoch.
    """
    return run(Contrastive, graph, settings or ContrastSettings(), report).model


class Contrastive:
    """A contrastive training: groups of numbers, one after another."""

    workers = 0

    def __init__(self, graph: Graph, settings: ContrastSettings, device: torch.device) -> None:
        _check_fit(graph, settings)
        self.graph, self.settings, self.device = graph, settings, device
        self.sizes = (settings.segments // settings.groups,) * settings.groups
        self.batches = QueryBatches.of(graph.train.to(device), len(graph.entities), len(graph.relations))

    def trainer(self, part: int) -> ContrastiveTrainer:
        """Return an untrained trainer of a group."""
        return ContrastiveTrainer(self.graph, self.batches, group_settings(self.settings, part), self.device)

    def join(self, models: Iterator[Procrustes]) -> Procrustes:
        """Return one model whose vectors are those of the groups side by side: its scores are the sum of theirs."""
        return joined(list(models))


def group_settings(settings: ContrastSettings, group: int) -> ContrastSettings:
    """Return the settings of one group: its share of the numbers, and a seed of its own."""
    seed = settings.seed + group * 0x9E3779B97F4A
    return replace(settings, dim=settings.dim // settings.groups, groups=1, seed=seed)


class ContrastiveTrainer:
    """Trains one group: the learner, the batches it is given, and how far each step goes."""

    def __init__(self, graph: Graph, batches: QueryBatches, settings: ContrastSettings, device: torch.device) -> None:
        self.graph, self.batches, self.settings, self.device = graph, batches, settings, device
        generator = torch.Generator(device).manual_seed(settings.seed % 2**63)
        optimiser = Adam if settings.optimiser == "adam" else Adagrad
        tables = self.start(generator)
        self.learner = Learner(tables, settings.objective, optimiser, generator, settings.lengths == "unit")
        if settings.relations == "positives":
            self.solve_all()
        rows = len(batches.tiles) * batches.height
        self.batch = rows if settings.batch == "full" else -(-min(settings.batch, rows) // batches.height) * batches.height
        at_once = queries_at_once(settings, len(graph.entities), device)
        self.chunk = max(batches.height, min(self.batch, at_once) // batches.height * batches.height)
        self.steps_an_epoch = batches.steps(self.batch)
        self.start_loss = math.nan

    def start(self, generator: torch.Generator) -> Tables:
        """Return the tables to start from: random, or those of a short `fit`."""
        settings, relations = self.settings, len(self.graph.relations)
        shape = (2 * relations, settings.segments, settings.segment)
        warm = self.short_fit() if settings.warm_start else {"vectors": self.drawn_vectors(generator)}
        rotations = warm.get("rotations")
        if rotations is None:
            drawn = torch.randn(relations, *shape[1:], shape[2], device=self.device, generator=generator)
            rotations = polar(drawn)
        vectors = warm["vectors"]
        translations = warm.get("translations", vectors.new_zeros(shape)) if settings.translate else None
        scales = vectors.new_ones(shape) if settings.scale else None
        return Tables(vectors.flatten(1), torch.cat([rotations, rotations.mT]), translations, scales)

    def short_fit(self) -> dict[str, Tensor]:
        """Return the tables of a short `fit`; where lengths are free, all made shorter alike, which ranks the same."""
        settings = self.settings
        short = FitSettings(
            dim=settings.dim,
            segment=settings.segment,
            epochs=settings.warm_start,
            translate=settings.translate,
            patience=0,
            validate_every=0,
            seed=settings.seed,
            device=str(self.device),
        )
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
        return vectors.mul_(START)

    def solve_all(self) -> None:
        """Solve the first rotations by Eq. 3 from all triples; their covariances are kept for the next time."""
        learner = self.learner
        for batch in self.batches.epoch(2**13):
            add_covariances(learner.gathered.rotations, learner.tables, batch)
        learner.rotate_to(learner.rotations.solved(learner.gathered, keep=1.0))

    @property
    def workers(self) -> int:
        """How many threads to use on the CPU: for small products, more would wait for one another most of the time."""
        compared = self.settings.compared(len(self.graph.entities))
        small = self.chunk * max(compared, self.settings.segment) * self.settings.dim < SMALL
        return self.settings.workers or (1 if small else cores())

    def epoch(self) -> float:
        """Train on every query once and return the mean loss of an answer."""
        with threads(self.workers):
            for _ in self.steps():
                pass
        # Where the first step was the whole epoch, its loss has been asked for already.
        return self.learner.mean_loss() if self.learner.taken > 1 else self.start_loss

    def steps(self) -> Iterator[None]:
        """Take the steps of an epoch, one whenever the next is asked for."""
        learner = self.learner
        if learner.objective.negatives:
            learner.deck.shuffle(learner.generator)
        for batch in self.batches.epoch(self.batch, learner.generator):
            self.take_step(batch)
            if learner.taken == 1:
                self.start_loss = learner.mean_loss()
            yield

    def take_step(self, batch: Batch) -> None:
        """Learn from a batch, as much of it at once as fits into memory, and move."""
        learner, running = self.learner, list[Tensor]()
        if learner.sees_few and self.chunk >= self.batch:
            learner.step_on_rows(batch, self.step_sizes())
            return

        def gather(chunk: int) -> None:
            if running:  # a larger chunk has been tried, and may have left something
                learner.forget(running)
            else:
                running.extend(learner.running_sums())
            for part in batch.split(chunk):
                learner.gather(part)

        _, chunk = shrinking(gather, self.chunk, self.batches.height)
        if chunk < self.chunk:
            going_on = f"out of memory; training goes on with {chunk:,} queries at once"
            warnings.warn(going_on, RuntimeWarning, stacklevel=2)
            self.chunk = chunk
        learner.step(self.step_sizes())

    def step_sizes(self) -> StepSizes:
        """Return how far the next step goes: further and further at first, then less and less."""
        total, taken = self.settings.epochs * self.steps_an_epoch, self.learner.taken
        share = min(1.0, (taken + 1) / min(WARM_UP, 1 + total // 10)) * max(1 / total, 1 - taken / total)
        rates = self.settings.learning_rate, self.settings.rotation_learning_rate
        return StepSizes(share * rates[0], share * rates[1], self.steps_an_epoch)

    def model(self) -> Procrustes:
        """Return the model, with rotations orthogonal to the last digit."""
        vectors, rotations, translations, scales = self.learner.tables
        rotations = nearest_orthogonal(rotations[: len(self.graph.relations)].double()).float()
        vectors = vectors.view(len(vectors), self.settings.segments, self.settings.segment)
        return Procrustes(self.graph.entities, self.graph.relations, vectors, rotations, translations, scales)

    def state(self) -> State:
        """Return all that the next epoch depends on."""
        return {**self.learner.state(), "start_loss": torch.tensor(self.start_loss)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        self.learner.restore(state)
        self.start_loss = float(state["start_loss"])


def joined(parts: Sequence[Procrustes]) -> Procrustes:
    """Return one model whose vectors are those of the parts side by side: its scores are the sum of theirs."""
    if len(parts) == 1:
        return parts[0]
    tables = {name: torch.cat([part.tables()[name] for part in parts], dim=1) for name in parts[0].tables()}
    return Procrustes(parts[0].entities, parts[0].relations, **tables)


def queries_at_once(settings: ContrastSettings, entities: int, device: torch.device) -> int:
    """Return how many queries to compare at once, by the memory that this takes."""
    room = CHUNK_NUMBERS if device.type == "cpu" else CHUNK_NUMBERS_CUDA
    compared = settings.compared(entities)
    across = 8 * settings.dim + (entities if settings.negatives == "all" else 4 * compared)
    return max(QUERIES_PER_TILE, min(settings.chunk or room, room // across))


def _check_fit(graph: Graph, settings: ContrastSettings) -> None:
    """Refuse settings that ask more than the graph has."""
    if isinstance(settings.negatives, int) and settings.negatives >= len(graph.entities):
        raise InputError(
            f"{settings.negatives:,} negatives asked for, but the graph {graph.name} has {len(graph.entities):,} "
            "entities; try a smaller number, or --negatives all"
        )
    if isinstance(settings.batch, int) and settings.batch > 2 * len(graph.train):
        raise InputError(
            f"batches of {settings.batch:,} queries asked for, but the graph {graph.name} has {len(graph.train):,} "
            "training triples, which ask two each; try a smaller number, or --batch full"
        )
