"""fit(): PROCRUSTES in full batch, segment by segment, without negatives and without autograd.

    raw ─spherise→ X ─answer sums→ M ─nearest orthogonal→ Q ─pull→ gradient ─step→ raw

Segments never meet in training: each is its own problem of N × d_s numbers. A pilot of a few segments is ranked on
validation triples while it trains, and so chooses how many epochs all of them get.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph, split_graph
from procrustes_kge.graphs.known_answers import KnownAnswers
from procrustes_kge.kernels import can_fuse
from procrustes_kge.layouts.arranged import ArrangedTriples
from procrustes_kge.layouts.fused import FusedLayout
from procrustes_kge.layouts.relational import RelationalMatrices, Relations, padded_rows
from procrustes_kge.linalg import nearest_orthogonal, nearest_orthogonal_by_products, spherise, spherise_
from procrustes_kge.models.procrustes import Procrustes, both_ways
from procrustes_kge.models.ranking import rank
from procrustes_kge.system.allocator import give_back, kept_memory
from procrustes_kge.system.devices import choose_device, deterministic_algorithms
from procrustes_kge.system.threads import Result, over_cores
from procrustes_kge.training.optimisers import Adam
from procrustes_kge.training.restoring import restore_relations
from procrustes_kge.validation import check_choices, check_range, check_segments, check_whole

if TYPE_CHECKING:
    from procrustes_kge.kernels.full_batch import FusedSegments, Scratch

VALIDATION_TRIPLES = 1000  # enough to tell epochs apart; ranking more would cost more than training
STAND_IN = 0.05  # share of the training triples that choose the epochs where nothing else does
CLEAR_GAIN = 1.005  # what a pilot must gain to move the stop: few segments peak later than many
MOST_AT_ONCE = 2**16 - 1  # segments: what a grid of programs may count to
NEARLY_THERE = 0.03  # radians: entities this close to where their triples want them turn less


@dataclass(frozen=True)
class FitSettings:
    """What `fit` does, and how long. The defaults are the recipe `fast`."""

    dim: Annotated[int, "numbers in an entity's vector"] = 2000  # 500 lose about .01 MRR
    segment: Annotated[int, "numbers in a segment, each turned by a matrix of its own"] = 20  # as in the paper
    epochs: Annotated[int, "most epochs to train; validation may choose fewer"] = 60
    step: Annotated[Literal["turn", "adam"], "turn: every entity by the same angle; adam: by Adam on its gradient"] = (
        "turn"  # no moments, a tenth of Adam's epochs, and better where many answers are right
    )
    learning_rate: Annotated[float, "size of a step: radians for turn, Adam's rate for adam"] = 0.06
    loss: Annotated[Literal["squared", "norm"], "squared: triples count equally; norm: relations do"] = "squared"
    translate: Annotated[bool, "let each relation shift as well as turn: h Q + b"] = True  # lifts both benchmarks
    pilot: Annotated[int, "numbers of a vector that choose the epochs, by validation"] = 500
    patience: Annotated[int, "validations without a better MRR before stopping; 0: train all epochs"] = 3
    validate_every: Annotated[int, "epochs between validations"] = 3
    seed: Annotated[int, "the same seed on the same machine gives the same result"] = 0
    device: Annotated[str, "cpu, cuda, cuda:1, or auto: the GPU where there is one"] = "auto"
    workers: Annotated[int, "segments trained at once on the CPU; 0: one per core"] = 0
    deterministic: Annotated[bool, "refuse GPU algorithms that may round differently from run to run"] = False

    def __post_init__(self) -> None:
        """Refuse what cannot be trained, before anything is read or written."""
        check_choices(self)
        check_whole(self, ("dim", "segment", "epochs", "pilot", "validate_every"), least=1)
        check_whole(self, ("patience", "workers"), least=0)
        check_segments(self.dim, self.segment)
        check_range(self, "learning_rate", 1000, above=True, example=0.05)

    @property
    def segments(self) -> int:
        """How many segments a vector has."""
        return self.dim // self.segment


@dataclass(frozen=True)
class Progress:
    """How far training has come: `done` of at most `total` segment-epochs."""

    done: int
    total: int
    epoch: int
    epochs: int  # most epochs while the pilot trains, then the epochs it chose
    loss: float | None = None
    valid_mrr: float | None = None


Report = Callable[[Progress], None]


@dataclass
class Segments:
    """Some segments in training: which they are, where they are, and the loss of their last epoch."""

    numbers: Sequence[int]
    vectors: Float[Tensor, "segments entities width"]
    loss: Float[Tensor, " segments"]
    epoch: int = 0
    fused: FusedSegments | None = None  # where the kernels train them

    @classmethod
    def start(cls, numbers: Sequence[int], entities: int, width: int, seed: int, device: torch.device) -> Segments:
        """Draw each segment by its own number, so that it starts the same whatever it is trained beside."""
        vectors = torch.empty(len(numbers), entities, width, device=device)
        for row, number in enumerate(numbers):
            # Multiplied by large odd constants so that neighbouring seeds and numbers share no stream.
            mixed = (seed * 0x9E3779B97F4A7C15 + number * 0xBF58476D1CE4E5B9 + 1) % 2**63
            vectors[row].normal_(generator=torch.Generator(device).manual_seed(mixed))
        return cls(numbers, vectors, vectors.new_zeros(len(numbers)))

    def fuse(self, layout: FusedLayout, scratch: Scratch) -> None:
        """Have the kernels train these segments, in place."""
        from procrustes_kge.kernels.full_batch import FusedSegments

        self.fused = FusedSegments(self.vectors, layout, scratch)

    @cached_property
    def adam(self) -> Adam:
        """Adam and what it remembers; not made for the other step."""
        return Adam(self.vectors)

    def turn_(self, wanted: Float[Tensor, "segments entities width"], angle: float) -> None:
        """Turn every vector by `angle` towards where its triples want it, in place."""
        towards = wanted - (wanted * self.vectors).sum(dim=-1, keepdim=True) * self.vectors
        length = torch.linalg.vector_norm(towards, dim=-1, keepdim=True)
        self.vectors.addcdiv_(towards, length.add_(NEARLY_THERE), value=angle)


def train_epoch(
    segments: Segments, matrices: RelationalMatrices, settings: FitSettings, buffer: Tensor | None = None
) -> None:
    """Train one epoch in place; `segments.loss` is then the loss that the epoch started from."""
    vectors = spherise_(segments.vectors)
    # Q minimises this same loss, so its own gradient is zero: holding it fixed is exact.
    relations = matrices.solve(vectors, _polar(vectors), settings.translate)
    if settings.loss == "squared":
        weights, mass = None, matrices.degrees.to(vectors.dtype)[:, None]
        segments.loss = relations.residuals.sum(dim=1) / 2
    else:
        weights = _inverse_norms(relations, matrices)
        mass = matrices.mass(weights)
        segments.loss = relations.residuals.sqrt().sum(dim=1)
    pull = matrices.pull(vectors, relations, weights, buffer)
    if settings.step == "adam":
        segments.adam(vectors, mass * vectors - pull, settings.learning_rate)
    else:
        segments.turn_(pull.div_(mass.clamp_min(torch.finfo(mass.dtype).tiny)), settings.learning_rate)
    segments.epoch += 1


def train_epoch_fused(segments: Segments, settings: FitSettings) -> None:
    """Do the same by the kernels that the segments were fused for."""
    assert segments.fused is not None
    segments.loss = segments.fused.train_epoch(
        settings.learning_rate,
        translate=settings.translate,
        by_norm=settings.loss == "norm",
        adam=settings.step == "adam",
        near=NEARLY_THERE,
    )
    segments.epoch += 1


def _polar(vectors: Tensor) -> Callable[[Tensor], Tensor]:
    return nearest_orthogonal_by_products if vectors.is_cuda else nearest_orthogonal


def _inverse_norms(relations: Relations, matrices: RelationalMatrices) -> Float[Tensor, "segments relations"]:
    """Return 1/‖D‖, the weights that ∂‖D‖ = D/‖D‖ gives; where the norm is rounding noise, its direction is too: 0."""
    precision = torch.finfo(relations.residuals.dtype).eps
    noise = 10 * precision * matrices.triples.clamp_min(1)
    return torch.where(relations.residuals > noise, relations.residuals.clamp_min(precision).rsqrt(), 0)


def fit(graph: Graph, settings: FitSettings | None = None, report: Report | None = None) -> Procrustes:
    """Return the model that full-batch PROCRUSTES learns from the graph's training triples.

    The validation triples choose the number of epochs, unless `patience` is 0. Where there are none, some training
    triples stand in for them, and are trained on like the rest once they have chosen. `report` is called with a
    `Progress` after every epoch, by one thread at a time.
    """
    settings = settings or FitSettings()
    check_trainable(graph)
    device = choose_device(settings.device)
    with kept_memory(), deterministic_algorithms(settings.deterministic), torch.no_grad():
        if settings.patience and len(graph.valid) == 0:
            drawn = split_graph(graph, valid=STAND_IN, test=0, seed=settings.seed)
            epochs = (
                FullBatch(drawn, settings, device, report).train_pilot()[0] if len(drawn.valid) else settings.epochs
            )
            settings = replace(settings, patience=0, epochs=epochs)
        vectors = FullBatch(graph, settings, device, report).run()
        rotations, translations = restore_relations(vectors, graph, settings.translate, settings.workers)
    return Procrustes(graph.entities, graph.relations, vectors, rotations, translations)


def check_trainable(graph: Graph) -> None:
    """Refuse what nothing can be learned from."""
    if not isinstance(graph, Graph):
        raise InputError(f"a {type(graph).__name__} given, expected a Graph; read_graph makes one of it")
    if len(graph.train) == 0:
        raise InputError(f"the graph {graph.name} has no training triples")


class FullBatch:
    """One call of `fit`: the arranged triples, the blocks of segments, and how far they have come."""

    def __init__(self, graph: Graph, settings: FitSettings, device: torch.device, report: Report | None) -> None:
        self.graph, self.settings, self.device, self.report = graph, settings, device, report
        self.arranged = ArrangedTriples.of(graph.train.to(device), len(graph.entities), len(graph.relations))
        self.buffers: list[Tensor] = []  # one for each core: new memory is slow, since the system clears it first
        self.pilot = min(settings.segments, max(1, settings.pilot // settings.segment))
        self.epochs, self.done = settings.epochs, 0
        self.loss: float | None = None
        self.valid_mrr: float | None = None
        self.lock, self.stopped = threading.Lock(), threading.Event()

    def run(self) -> Float[Tensor, "entities segments width"]:
        """Return the trained and spherised vectors of all segments."""
        settings, shape = self.settings, (len(self.graph.entities), self.settings.segment)
        try:
            vectors = torch.empty(shape[0], settings.segments, shape[1], device=self.device)
        except (RuntimeError, MemoryError):
            size = f"{4 * shape[0] * settings.dim / 1e9:,.1f} GB"
            raise InputError(
                f"no room for {shape[0]:,} vectors of {settings.dim:,} numbers ({size}); try a smaller --dim"
            ) from None
        first = 0
        try:
            if settings.patience and len(self.graph.valid):
                self.epochs, chosen = self.train_pilot()
                vectors[:, : self.pilot] = chosen
                first = self.pilot
                del chosen
                give_back()
            starts = (self.start(numbers) for numbers in self.blocks(range(first, settings.segments)))
            for block in self.over_blocks(partial(self.advance, goal=self.epochs), starts):
                vectors[:, list(block.numbers)] = self.arranged.in_graph_order(spherise(block.vectors))
        finally:
            self.stopped.set()  # an interrupted training does not wait for its workers to finish
        self.tell(self.epochs * settings.segments - self.done, self.epochs)
        return vectors

    def train_pilot(self) -> tuple[int, Float[Tensor, "entities pilot width"]]:
        """Return how many epochs serve the pilot best on validation triples, and its vectors then."""
        settings, best, waited = self.settings, -1.0, 0
        margin = CLEAR_GAIN if self.pilot < settings.segments else 1.0
        blocks = [self.start(numbers) for numbers in self.blocks(range(self.pilot))]
        for done in range(0, settings.epochs, settings.validate_every):
            goal = min(done + settings.validate_every, settings.epochs)
            blocks = list(self.over_blocks(partial(self.advance, goal=goal), blocks))
            model = self.pilot_model(blocks)
            self.valid_mrr = self.validate(model)
            self.loss = torch.cat([block.loss for block in blocks]).mean().item()
            waited += 1
            if self.valid_mrr > best * margin:
                best, chosen, vectors, waited = self.valid_mrr, goal, model.vectors, 0
            if waited == settings.patience:
                break
        self.valid_mrr = best
        self.done = self.pilot * chosen
        return chosen, vectors

    def pilot_model(self, blocks: Iterable[Segments]) -> Procrustes:
        """Return a model of the pilot's segments alone, as they are now."""

        names = self.graph.entities, self.graph.relations
        vectors = torch.empty(len(names[0]), self.pilot, self.settings.segment, device=self.device)

        def solved(block: Segments) -> Relations:
            matrices, points = self.arranged.matrices(len(block.numbers)), spherise(block.vectors)
            vectors[:, list(block.numbers)] = self.arranged.in_graph_order(points)
            return matrices.solve(points, _polar(points), self.settings.translate)

        parts = list(self.over_blocks(solved, blocks))
        rotations = torch.cat([relations.rotations for relations in parts]).transpose(0, 1)
        shifts = [relations.translations for relations in parts if relations.translations is not None]
        return Procrustes(
            *(*names, vectors, rotations),
            both_ways(rotations, torch.cat(shifts).transpose(0, 1)) if shifts else None,
        )

    @cached_property
    def known(self) -> KnownAnswers:
        """The answers to leave out when the pilot is ranked."""
        return KnownAnswers.of(self.graph, device=self.device)

    def validate(self, model: Procrustes) -> float:
        """Return the two-sided MRR on a fixed sample of the validation triples."""
        generator = torch.Generator().manual_seed(self.settings.seed % 2**63)
        sample = torch.randperm(len(self.graph.valid), generator=generator)[:VALIDATION_TRIPLES]
        ranks = rank(model, self.graph, self.graph.valid[sample], self.known, workers=self.settings.workers)
        return (1 / ranks.realistic).mean().item()

    def start(self, numbers: Sequence[int]) -> Segments:
        """Return untrained segments."""
        settings = self.settings
        block = Segments.start(numbers, len(self.graph.entities), settings.segment, settings.seed, self.device)
        block.vectors = self.arranged.in_order(block.vectors)
        if self.layout is not None and self.scratch is not None:
            block.fuse(self.layout, self.scratch)
        return block

    def train_epoch(self, block: Segments) -> None:
        """Train one epoch in place."""
        if block.fused is not None:
            train_epoch_fused(block, self.settings)
            return
        matrices = self.arranged.matrices(len(block.numbers))
        try:
            buffer = self.buffers.pop()
        except IndexError:
            buffer = matrices.buffer(block.vectors)
        train_epoch(block, matrices, self.settings, buffer)
        if self.device.type == "cpu":
            self.buffers.append(buffer)

    def advance(self, block: Segments, goal: int) -> Segments:
        """Train a block up to the goal's epoch, in place."""
        try:
            while block.epoch < goal and not self.stopped.is_set():
                self.train_epoch(block)
                if self.device.type == "cpu":  # a GPU would have to stop and wait for the number
                    self.loss = block.loss.mean().item()
                self.tell(len(block.numbers), block.epoch)
        except BaseException:
            self.stopped.set()  # the blocks before it need not finish for this to be raised
            raise
        return block

    def tell(self, trained: int, epoch: int) -> None:
        """Report that so many segments have trained one more epoch."""
        with self.lock:
            self.done += trained
            if self.report is not None:
                total = self.epochs * self.settings.segments
                self.report(Progress(self.done, total, epoch, self.epochs, self.loss, self.valid_mrr))

    def blocks(self, numbers: range) -> Iterator[range]:
        """Cut segment numbers into blocks that are trained together."""
        size = self.block_size()
        return (numbers[start : start + size] for start in range(0, len(numbers), size))

    def block_size(self) -> int:
        """Return one segment for a CPU core, to stay in its cache; for a GPU as many as fill a quarter of it."""
        if self.device.type == "cpu":
            return 1
        # Of all memory, not of what is free: the same blocks every time, and so the same sums.
        room = torch.cuda.get_device_properties(self.device).total_memory // 4
        width, tables = self.settings.segment, 8 * self.settings.segment * len(self.graph.entities)
        if self.layout is not None:
            from procrustes_kge.kernels.full_batch import Scratch

            return max(1, min(MOST_AT_ONCE, room // (4 * (tables + Scratch.numbers(self.layout, width)))))
        rows, tiles = padded_rows(len(self.graph.train), len(self.graph.relations))
        numbers = tables + 4 * width * rows + width**2 * (tiles + 4 * len(self.graph.relations))
        return max(1, room // (4 * numbers + 32 * rows))

    @cached_property
    def layout(self) -> FusedLayout | None:
        """The triples arranged for the fused kernels, where those run."""
        fuses = can_fuse(self.device, self.settings.segment, len(self.graph.entities))
        return self.arranged.fused if fuses else None

    @cached_property
    def scratch(self) -> Scratch | None:
        """Room that the blocks share on their turn, where kernels train them."""
        if self.layout is None:
            return None
        from procrustes_kge.kernels.full_batch import Scratch

        most = min(self.block_size(), self.settings.segments)
        return Scratch(self.layout, most, self.settings.segment, self.device)

    def over_blocks(self, work: Callable[[Segments], Result], blocks: Iterable[Segments]) -> Iterator[Result]:
        """Yield work(block) in order: on the CPU a block per core, on the GPU one after another."""
        if self.device.type != "cpu":
            return map(work, blocks)
        return over_cores(work, blocks, self.settings.workers, self.stopped.set)
