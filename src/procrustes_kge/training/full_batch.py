"""fit(): PROCRUSTES in full batch, segment by segment, without negatives and without autograd.

    raw ─spherise→ X ─answer sums→ M ─nearest orthogonal→ Q ─pull→ gradient ─step→ raw

Segments never meet in training: each is its own problem of N × d_s numbers. A pilot of a few segments is ranked on
validation triples while it trains, and so chooses how many epochs all of them get.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from procrustes_kge.graphs.graph import Graph, split_graph
from procrustes_kge.kernels import can_fuse
from procrustes_kge.layouts.arranged import ArrangedTriples
from procrustes_kge.layouts.relational import Relations, padded_rows
from procrustes_kge.linalg import spherise
from procrustes_kge.models.procrustes import Procrustes, both_ways
from procrustes_kge.system.threads import Result, cores, over_cores
from procrustes_kge.training.blocks import FusedBlock, PlainBlock, start_vectors
from procrustes_kge.training.checkpoints import Checkpoints
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.loop import check_trainable, choose_epochs, run
from procrustes_kge.training.polars import polar
from procrustes_kge.training.restoring import restore_relations
from procrustes_kge.training.state import State, merged, part_of
from procrustes_kge.training.timekeeping import NO_TIME, Change
from procrustes_kge.training.trainer import Learned, Report

if TYPE_CHECKING:
    from procrustes_kge.kernels.full_batch import Scratch

STAND_IN = 0.05  # share of the training triples that choose the epochs where nothing else does
MOST_AT_ONCE = 2**16 - 1  # segments: the largest grid of programs on a GPU


def fit(
    graph: Graph,
    settings: FitSettings | None = None,
    report: Report | None = None,
    checkpoints: Checkpoints | None = None,
) -> Procrustes:
    """Train PROCRUSTES on the graph's training triples, full batch and without negatives, and return the model.

    Unless `patience` is 0, validation chooses the number of epochs. If there are no validation triples, some training
    triples are set aside to choose it; the model is then trained on all of them. `report` is called with a `Progress`
    after every epoch, by one thread at a time.
    """
    return learn_full_batch(graph, settings or FitSettings(), report, checkpoints).model


def learn_full_batch(
    graph: Graph,
    settings: FitSettings,
    report: Report | None = None,
    checkpoints: Checkpoints | None = None,
    start: Procrustes | None = None,
) -> Learned[Procrustes]:
    """Do what `fit` does, from the vectors of a model if one is given, and return the learning curve with the model."""
    check_trainable(graph)
    if start is not None:
        return run(partial(FullBatch, start=start), graph, settings, report, checkpoints)
    if settings.patience and settings.validate_every and len(graph.valid) == 0:
        drawn = split_graph(graph, valid=STAND_IN, test=0, seed=settings.seed)
        if len(drawn.valid):
            chosen = choose_epochs(FullBatch, drawn, settings, report, checkpoints)
            left = max(settings.time - chosen.seconds, NO_TIME) if settings.time else 0.0
            rest = replace(settings, patience=0, epochs=chosen.epochs, time=left, replay="")
            return replace(run(FullBatch, graph, rest, report, checkpoints), curve=chosen.curve)
        settings = replace(settings, patience=0)
    return run(FullBatch, graph, settings, report, checkpoints)


class FullBatch:
    """A full-batch training: the pilot's segments, then the others in blocks.

    On a CPU a block is one segment, to stay in a core's cache; on a GPU as many as fill a quarter of its memory.
    """

    def __init__(
        self, graph: Graph, settings: FitSettings, device: torch.device, start: Procrustes | None = None
    ) -> None:
        self.graph, self.settings, self.device, self.given = graph, settings, device, start
        # The largest table first: if there is too little memory, the error comes before anything is trained.
        self.vectors = torch.empty(len(graph.entities), settings.segments, settings.segment, device=device)
        self.triples = ArrangedTriples.of(graph.train.to(device), len(graph.entities), len(graph.relations))
        self.fuses = can_fuse(device, settings.segment, len(graph.entities))
        self.workers = (settings.workers or cores()) if device.type == "cpu" else 0
        looks = settings.validate_every > 0 and len(graph.valid) > 0
        pilot = min(settings.segments, max(1, settings.pilot // settings.segment)) if looks else 0
        at_once, others = self.segments_at_once(), range(pilot, settings.segments)
        cut = [others[start : start + at_once] for start in range(0, len(others), at_once)]
        self.parts = [range(pilot), *cut] if pilot else cut
        self.sizes, self.done = [len(part) for part in self.parts], 0  # segments that were added
        self.spare: list[Tensor] = []
        self.scratch: Scratch | None = None

    def segments_at_once(self) -> int:
        """Return how many segments make a block."""
        if self.device.type == "cpu":
            return 1
        # Of all memory, not of what is free: the same blocks every time, and so the same sums.
        room = torch.cuda.get_device_properties(self.device).total_memory // 4
        width, tables = self.settings.segment, 8 * self.settings.segment * len(self.graph.entities)
        if self.fuses:
            from procrustes_kge.kernels.full_batch import Scratch

            return max(1, min(MOST_AT_ONCE, room // (4 * (tables + Scratch.numbers(self.triples.fused, width)))))
        rows, tiles = padded_rows(len(self.graph.train), len(self.graph.relations))
        numbers = tables + 4 * width * rows + width**2 * (tiles + 4 * len(self.graph.relations))
        return max(1, room // (4 * numbers + 32 * rows))

    def of_parts(self, parts: int) -> FitSettings:
        """Return the settings of a training that has the first parts alone."""
        return replace(self.settings, dim=sum(self.sizes[:parts]) * self.settings.segment)

    def trainer(self, part: int) -> SegmentsTrainer:
        """Return an untrained trainer of a part."""
        return SegmentsTrainer(self, self.parts[part])

    def start(self, numbers: Sequence[int]) -> PlainBlock | FusedBlock:
        """Return an untrained block of segments."""
        settings, entities = self.settings, len(self.graph.entities)
        if self.given is None:
            vectors = start_vectors(numbers, entities, settings.segment, settings.seed, self.device)
        else:
            vectors = self.given.vectors[:, list(numbers)].transpose(0, 1).to(self.device).contiguous()
        if not self.fuses:
            return PlainBlock(self.triples.in_order(vectors), settings, self.triples.matrices(len(numbers)), self.spare)
        from procrustes_kge.kernels.full_batch import FusedSegments

        scratch = self.scratch_for(len(numbers))
        return FusedBlock(FusedSegments(self.triples.in_order(vectors), self.triples.fused, scratch), settings)

    def scratch_for(self, segments: int) -> Scratch:
        """Return memory that fused blocks of at most so many segments use in turn: enough for those of any part."""
        from procrustes_kge.kernels.full_batch import Scratch

        if self.scratch is None or self.scratch.segments < segments:
            most = max(segments, *(min(self.segments_at_once(), size) for size in self.sizes))
            self.scratch = Scratch(self.triples.fused, most, self.settings.segment, self.device)
        return self.scratch

    def add(self, trainer: SegmentsTrainer) -> None:
        """Take over the vectors of the next segments."""
        for block in trainer.blocks:
            last = self.done + len(block.vectors)
            self.vectors[:, self.done : last] = self.triples.in_graph_order(spherise(block.vectors))
            self.done = last

    def added(self, first: int, last: int) -> State:
        """Return the vectors of the segments of some parts."""
        return {"vectors": self.vectors[:, sum(self.sizes[:first]) : sum(self.sizes[:last])]}

    def restore(self, first: int, last: int, state: State) -> None:
        """Take over such vectors."""
        self.done = sum(self.sizes[:last])
        self.vectors[:, sum(self.sizes[:first]) : self.done] = state["vectors"]

    def model(self) -> Procrustes:
        """Return one model of all segments, its relations solved once more, in float64."""
        settings, graph, vectors = self.settings, self.graph, self.vectors[:, : self.done]
        rotations, translations = restore_relations(vectors, graph, settings.translate, settings.workers)
        return Procrustes(graph.entities, graph.relations, vectors, rotations, translations)


class SegmentsTrainer:
    """Trains some segments: the pilot's, or one block of others."""

    workers = None  # a core each, whatever else runs

    def __init__(self, training: FullBatch, numbers: range) -> None:
        self.training = training
        at_once = training.segments_at_once()
        self.blocks = [training.start(numbers[first : first + at_once]) for first in range(0, len(numbers), at_once)]
        self.start_loss: float | Tensor | None = None

    def epoch(self) -> float | Float[Tensor, ""]:
        """Train all blocks for an epoch and return the mean loss of a segment."""
        losses = list(self.over_blocks(lambda block: block.epoch()))
        loss = (torch.cat(losses) if len(losses) > 1 else losses[0]).mean()
        found = loss if loss.is_cuda else loss.item()
        self.start_loss = found if self.start_loss is None else self.start_loss
        return found

    def adjust(self, change: Change) -> None:
        """Change nothing: no rate falls with the epochs."""

    def model(self) -> Procrustes:
        """Return a model of these segments alone."""
        triples, translate, graph = self.training.triples, self.training.settings.translate, self.training.graph

        def solved(block: PlainBlock | FusedBlock) -> tuple[Tensor, Relations]:
            points = spherise(block.vectors)
            return triples.in_graph_order(points), triples.matrices(len(points)).solve(points, polar, translate)

        points, relations = zip(*self.over_blocks(solved), strict=True)
        rotations = torch.cat([each.rotations for each in relations]).transpose(0, 1)
        shifts = [each.translations for each in relations if each.translations is not None]
        translations = both_ways(rotations, torch.cat(shifts).transpose(0, 1)) if shifts else None
        return Procrustes(graph.entities, graph.relations, torch.cat(points, dim=1), rotations, translations)

    def over_blocks(self, work: Callable[[PlainBlock | FusedBlock], Result]) -> Iterator[Result]:
        """Yield work(block) in order, a block per core where there are several of both."""
        workers = self.training.workers if len(self.blocks) > 1 else 0
        return over_cores(work, self.blocks, workers) if workers else map(work, self.blocks)

    def state(self) -> State:
        """Return all that the next epoch depends on."""
        blocks = merged(**{str(number): block.state() for number, block in enumerate(self.blocks)})
        return blocks if self.start_loss is None else {**blocks, "start_loss": torch.as_tensor(self.start_loss)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        for number, block in enumerate(self.blocks):
            block.restore(part_of(state, str(number)))
        self.start_loss = float(state["start_loss"]) if "start_loss" in state else None
