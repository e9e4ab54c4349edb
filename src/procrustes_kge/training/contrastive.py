"""contrast(): PROCRUSTES with negatives and mini-batches; relations stay orthogonal and are solved, not descended.

    questions ─turn, scale, shift→ queries ─against candidates→ gradients ─step→ vectors, scales, shifts
                                                                  └─procrustes_step, or Eq. 3→ rotations

One trainer over two axes: how many questions a step sees, and which entities an answer is contrasted with. Scores are
linear in the rotation, so with negatives too the best next rotation under a quadratic bound is a Procrustes problem.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Annotated, Literal, NoReturn

import torch
from torch import Tensor

from procrustes_kge.errors import DivergedError, InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.layouts.batches import QUERIES_PER_TILE, Batch, QueryBatches
from procrustes_kge.linalg import nearest_orthogonal, spherise_
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.system.allocator import kept_memory
from procrustes_kge.system.devices import choose_device, deterministic_algorithms, told_of_no_room
from procrustes_kge.system.threads import cores, threads
from procrustes_kge.training.full_batch import FitSettings, Progress, Report, check_trainable, fit
from procrustes_kge.training.learner import Learner, Objective, Rates, Tables
from procrustes_kge.training.objective import Sigmoid
from procrustes_kge.training.optimisers import Adagrad, Adam
from procrustes_kge.validation import check_choices, check_range, check_segments, check_whole

WARM_UP = 50  # steps over which the rate rises: Adagrad's first steps are otherwise as long as all later ones
START = 0.01  # size of a coordinate at the start, where lengths are free
WARM_LENGTH = 0.12  # length of a segment that `fit` hands over: unit length would begin overconfident
HOPELESS = 2.0  # times the loss before the first step: no training comes back from there
SMALL = 10**8  # multiplications in a chunk's scores
SCORES_AT_ONCE = 2**25  # numbers on the CPU
SCORES_AT_ONCE_CUDA = 2**28


@dataclass(frozen=True)
class ContrastSettings:
    """What `contrast` does, and how long."""

    dim: Annotated[int, "numbers in an entity's vector"] = 2000
    segment: Annotated[int, "numbers in a segment, each turned by a matrix of its own"] = 20
    groups: Annotated[int, "equal parts of a vector that are trained one after another; scores add up"] = 1
    epochs: Annotated[int, "epochs to train"] = 30
    batch: Annotated[int | Literal["full"], "questions in a step; full: all of them"] = 2048
    chunk: Annotated[int, "questions compared at once, to bound memory; 0: as many as a step has and fit"] = 0
    negatives: Annotated[
        int | Literal["none", "all"], "entities that an answer is contrasted with: so many, none, all"
    ] = "all"  # the best use of a GPU; so many are what a CPU can afford
    loss: Annotated[
        Literal["softmax", "sigmoid", "squared"],
        "softmax: which entity is the answer; sigmoid: is each one; squared: answers alone, no negatives",
    ] = "softmax"
    margin: Annotated[float, "sigmoid: where answers end, as a share of the distance of two random entities"] = 0.8
    sharpness: Annotated[float, "sigmoid: how fast it passes from answer to negative"] = 7.0
    focus: Annotated[float, "sigmoid: how much the nearest negatives count more; 0: all alike"] = 2.0
    lengths: Annotated[Literal["free", "unit"], "free: entities as long as they get; unit: centred, of length one"] = (
        "free"  # how well known an entity is shows in its length
    )
    relations: Annotated[
        Literal["step", "positives"], "step: rotations by procrustes_step; positives: by Eq. 3, answers alone"
    ] = "step"
    step: Annotated[Literal["adagrad", "adam"], "how entities move"] = "adagrad"
    learning_rate: Annotated[float, "size of the largest step; it falls to nothing in the end"] = 0.2
    turning_rate: Annotated[float, "size of a rotation's step"] = 1.0
    scale: Annotated[bool, "let each relation stretch the coordinates that it has turned"] = True
    translate: Annotated[bool, "let each relation shift as well as turn: h Q + b"] = True
    decay: Annotated[float, "weight that keeps entities and queries short (DURA)"] = 0.05
    dropout: Annotated[float, "share of a query's numbers left out at random"] = 0.2
    smoothing: Annotated[float, "share of the certainty of answers that is given to all entities alike"] = 0.0
    crowd: Annotated[float, "a question with n answers counts n to this power"] = 1.0
    warm_start: Annotated[int, "epochs of `fit` to start from, full batch and without negatives"] = 0
    seed: Annotated[int, "the same seed on the same machine gives the same result"] = 0
    device: Annotated[str, "cpu, cuda, cuda:1, or auto: the GPU where there is one"] = "auto"
    workers: Annotated[int, "threads on the CPU; 0: one per core, or one alone where steps are small"] = 0
    deterministic: Annotated[bool, "refuse GPU algorithms that may round differently from run to run"] = False

    def __post_init__(self) -> None:
        """Refuse what cannot be trained, before anything is read or written."""
        check_choices(self)
        check_whole(self, ("dim", "segment", "groups", "epochs"), least=1)
        check_whole(self, ("warm_start", "chunk", "workers"), least=0)
        check_segments(self.dim, self.segment, self.groups)
        for name in ("learning_rate", "turning_rate", "sharpness"):
            check_range(self, name, 1000, above=True)
        for name in ("decay", "focus", "margin"):
            check_range(self, name, 1000)
        for name in ("dropout", "smoothing"):
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
        if self.smoothing and self.negatives != "all":
            raise InputError(f"smoothing with {self.negatives} negatives; it is for --negatives all")
        if self.negatives == "none" and self.lengths == "free":
            raise InputError("free lengths without negatives all shrink to nothing; try --lengths unit")

    @property
    def segments(self) -> int:
        """How many segments a vector has."""
        return self.dim // self.segment

    def compared(self, entities: int) -> int:
        """Return how many entities a question is compared with, out of so many."""
        return self.negatives if isinstance(self.negatives, int) else {"all": entities, "none": 0}[self.negatives]


def contrast(graph: Graph, settings: ContrastSettings | None = None, report: Report | None = None) -> Procrustes:
    """Return the model that PROCRUSTES learns from the graph's training triples with negatives or mini-batches.

    Validation triples are not looked at: the learning rate falls to nothing over the epochs, which are settings like
    the others. `report` is called with a `Progress` after every epoch.
    """
    settings = settings or ContrastSettings()
    device = choose_device(settings.device)
    parts: list[Procrustes] = []
    with kept_memory(), deterministic_algorithms(settings.deterministic), torch.no_grad():
        for group in range(settings.groups):
            try:
                parts.append(_trained(graph, group_settings(settings, group), device, _later(report, group, settings)))
            except DivergedError as error:
                error.model = joined([*parts, error.model])
                raise
    return joined(parts)


def _trained(graph: Graph, settings: ContrastSettings, device: torch.device, report: Report | None) -> Procrustes:
    """Return the model of one group; what its training took is free again."""
    with room_for(settings.dim):
        training = Training(graph, settings, device)
        with threads(training.workers):
            return training.run(report)


def room_for(dim: int) -> AbstractContextManager[None]:
    """Say in a sentence where memory is not enough for training vectors of so many numbers."""
    return told_of_no_room(f"{dim:,} numbers of each entity and their gradients", "a smaller --dim, more --groups")


def group_settings(settings: ContrastSettings, group: int) -> ContrastSettings:
    """Return the settings of one group: its share of the numbers, and a seed of its own."""
    seed = settings.seed + group * 0x9E3779B97F4A
    return replace(settings, dim=settings.dim // settings.groups, groups=1, seed=seed)


def _later(report: Report | None, group: int, settings: ContrastSettings) -> Report | None:
    """Return a report that counts the groups which have been trained before."""
    if report is None:
        return None
    total = settings.epochs * settings.segments
    before = group * total // settings.groups
    return lambda progress: report(replace(progress, done=before + progress.done, total=total))


def joined(parts: Sequence[Procrustes]) -> Procrustes:
    """Return one model whose vectors are those of the parts side by side, so that its scores are the sum of theirs."""
    if len(parts) == 1:
        return parts[0]
    tables = {name: torch.cat([part.tables()[name] for part in parts], dim=1) for name in parts[0].tables()}
    return Procrustes(parts[0].entities, parts[0].relations, **tables)


def _check_fit(graph: Graph, settings: ContrastSettings) -> None:
    """Refuse settings that ask more than the graph has."""
    if isinstance(settings.negatives, int) and settings.negatives >= len(graph.entities):
        raise InputError(
            f"{settings.negatives:,} negatives asked for, but the graph {graph.name} has {len(graph.entities):,} "
            "entities; try a smaller number, or --negatives all"
        )
    if isinstance(settings.batch, int) and settings.batch > 2 * len(graph.train):
        raise InputError(
            f"batches of {settings.batch:,} questions asked for, but the graph {graph.name} has {len(graph.train):,} "
            "training triples, which ask two each; try a smaller number, or --batch full"
        )


def questions_at_once(settings: ContrastSettings, entities: int, device: torch.device) -> int:
    """Return for how many questions there is room to compare them at once."""
    room = SCORES_AT_ONCE if device.type == "cpu" else SCORES_AT_ONCE_CUDA
    compared = settings.compared(entities)
    across = 8 * settings.dim + (entities if settings.negatives == "all" else 4 * compared)
    return max(QUERIES_PER_TILE, min(settings.chunk or room, room // across))


class Training:
    """One call of `contrast`: the learner, the batches it is given, and what to do when something goes wrong."""

    def __init__(self, graph: Graph, settings: ContrastSettings, device: torch.device) -> None:
        check_trainable(graph)
        _check_fit(graph, settings)
        self.graph, self.settings, self.device = graph, settings, device
        entities, relations = len(graph.entities), len(graph.relations)
        self.generator = torch.Generator(device).manual_seed(settings.seed % 2**63)
        self.questions = QueryBatches.of(graph.train.to(device), entities, relations)
        warm = self.short_fit() if settings.warm_start else {"vectors": self.drawn_vectors()}
        self.learner = Learner(
            self.questions,
            warm["vectors"],
            relations,
            _objective(settings),
            Adam if settings.step == "adam" else Adagrad,
            self.generator,
            rotations=warm.get("rotations"),
            translations=warm.get("translations"),
            scale=settings.scale,
            translate=settings.translate,
            unit=settings.lengths == "unit",
            positives=settings.relations == "positives",
        )
        rows = len(self.questions.tiles) * QUERIES_PER_TILE
        self.batch = (
            rows
            if settings.batch == "full"
            else -(-min(int(settings.batch), rows) // QUERIES_PER_TILE) * QUERIES_PER_TILE
        )
        self.chunk = max(
            QUERIES_PER_TILE,
            min(self.batch, questions_at_once(settings, entities, device)) // QUERIES_PER_TILE * QUERIES_PER_TILE,
        )
        self.steps_an_epoch = self.questions.steps(self.batch)
        self.first_loss = math.nan  # before the first step

    def short_fit(self) -> dict[str, Tensor]:
        """Return the tables of a short `fit`; where lengths are free, all made shorter alike, which ranks the same."""
        settings = self.settings
        short = FitSettings(
            *(settings.dim, settings.segment, settings.warm_start),
            translate=settings.translate,
            patience=0,
            seed=settings.seed,
            device=str(self.device),
        )
        tables = fit(self.graph, short).tables()
        length = 1.0 if settings.lengths == "unit" else WARM_LENGTH
        return {name: table if name == "rotations" else table * length for name, table in tables.items()}

    def drawn_vectors(self) -> Tensor:
        """Return small random vectors, or unit ones."""
        settings, entities = self.settings, len(self.graph.entities)
        try:
            vectors = torch.randn(
                *(entities, settings.segments, settings.segment), device=self.device, generator=self.generator
            )
        except (RuntimeError, MemoryError):
            size = f"{4 * entities * settings.dim / 1e9:,.1f} GB"
            raise InputError(
                f"no room for {entities:,} vectors of {settings.dim:,} numbers ({size}); try a smaller --dim"
            ) from None
        if settings.lengths == "unit":
            spherise_(vectors.transpose(0, 1))
            return vectors
        return vectors.mul_(START)

    @property
    def workers(self) -> int:
        """How many threads to use on the CPU: for small products, more would wait for one another most of the time."""
        compared = self.settings.compared(len(self.graph.entities))
        small = self.chunk * max(compared, self.settings.segment) * self.settings.dim < SMALL
        return self.settings.workers or (1 if small else cores())

    def run(self, report: Report | None = None) -> Procrustes:
        """Train all epochs and return the model."""
        epochs, good, since_good = self.settings.epochs, self.learner.tables(copied=True), 0
        for epoch in range(epochs):
            loss = self.train_epoch()
            if not loss <= HOPELESS * max(1.0, self.first_loss) or not self.learner.vectors.isfinite().all():
                self.stop_diverged(epoch + 1, loss, good)
            since_good += self.steps_an_epoch
            if since_good >= 16 and epoch + 1 < epochs:  # a copy costs little against so many steps
                good, since_good = self.learner.tables(copied=True), 0
            if report is not None:
                segments = self.settings.segments
                report(Progress((epoch + 1) * segments, epochs * segments, epoch + 1, epochs, loss))
        return self.model(self.learner.tables())

    def train_epoch(self) -> float:
        """Train on every question once and return the mean loss of an answer."""
        for _ in self.epoch_steps():
            pass
        return self.learner.mean_loss() if self.learner.taken > 1 else self.first_loss

    def epoch_steps(self) -> Iterator[None]:
        """Take the steps of an epoch, one whenever the next is asked for."""
        learner = self.learner
        if learner.objective.negatives:
            learner.deck.shuffle(self.generator)
        for batch in self.questions.epoch(self.batch, self.generator):
            self.take_step(batch)
            if learner.taken == 1:
                self.first_loss = learner.mean_loss()
            yield

    def take_step(self, batch: Batch) -> None:
        """Learn from a batch, as much of it at once as there is room for, and move."""
        learner = self.learner
        if learner.compact and self.chunk >= self.batch:
            learner.step_on_copy(batch, self.rates())
            return
        before = learner.sums()
        while not self.gathered(batch):  # outside of `except`, whose traceback holds what had no room
            self.chunk = max(QUERIES_PER_TILE, self.chunk // 2 // QUERIES_PER_TILE * QUERIES_PER_TILE)
            going_on = f"the GPU ran out of memory; going on with {self.chunk:,} questions at once"
            warnings.warn(going_on, RuntimeWarning, stacklevel=2)
            learner.forget(before)
            torch.cuda.empty_cache()
        learner.step(self.rates())

    def gathered(self, batch: Batch) -> bool:
        """Gather a batch's gradients and say whether there was room; raise where there cannot be less at once."""
        try:
            for part in batch.split(self.chunk):
                self.learner.gather(part)
        except torch.OutOfMemoryError:
            if self.chunk <= QUERIES_PER_TILE:
                raise
            return False
        return True

    def rates(self) -> Rates:
        """Return how far the next step goes: further and further at first, then less and less."""
        total, taken = self.settings.epochs * self.steps_an_epoch, self.learner.taken
        share = min(1.0, (taken + 1) / min(WARM_UP, 1 + total // 10)) * max(1 / total, 1 - taken / total)
        return Rates(self.settings.learning_rate * share, self.settings.turning_rate * share, self.steps_an_epoch)

    def stop_diverged(self, epoch: int, loss: float, good: Tables) -> NoReturn:
        """Stop, keeping the tables that were last good."""
        tried = self.settings.learning_rate
        raise DivergedError(
            f"training diverged in epoch {epoch} of {self.settings.epochs} (loss {loss:.4g}) with learning rate "
            f"{tried:g}; try --learning-rate {tried / 4:.3g}",
            self.model(good),
        )

    def model(self, tables: Tables) -> Procrustes:
        """Return the model of these tables, with rotations orthogonal to the last digit."""
        vectors = tables.vectors.view(len(tables.vectors), self.settings.segments, self.settings.segment)
        rotations = nearest_orthogonal(tables.rotations.double()).float()
        names = (self.graph.entities, self.graph.relations)
        return Procrustes(*names, vectors, rotations, tables.translations, tables.scales)


_WORDS = {"none": 0, "all": None}


def _objective(settings: ContrastSettings) -> Objective:
    apart = (2 * settings.segments) ** 0.5  # the distance of two random entities of unit segments
    sigmoid = Sigmoid(settings.margin * apart, settings.sharpness / apart, settings.focus)
    return Objective(
        negatives=settings.negatives if isinstance(settings.negatives, int) else _WORDS[settings.negatives],
        sigmoid=sigmoid if settings.loss == "sigmoid" else None,
        smoothing=settings.smoothing,
        decay=settings.decay,
        dropout=settings.dropout,
        crowd=settings.crowd,
    )
