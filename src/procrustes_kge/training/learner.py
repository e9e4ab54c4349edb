"""Learner: tables in contrastive training, the gradients collected for their next step, and that step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from procrustes_kge.kernels import can_move
from procrustes_kge.layouts.batches import Batch
from procrustes_kge.linalg import (
    completed,
    nearest_orthogonal,
    nearest_orthogonal_by_long_products,
    nearest_orthogonal_by_products,
    nearest_orthogonal_of_pairs,
    procrustes_step,
    spherise_,
)
from procrustes_kge.training.gradients import Gradients, Objective, Tables, add_gradients, of_directions, of_rotations
from procrustes_kge.training.objective import Draw, rounded
from procrustes_kge.training.optimisers import Adagrad, Optimiser
from procrustes_kge.training.state import Remembering, State, copy_into, merged, part_of

BATCHED = 32  # the largest matrices whose SVDs a GPU takes together; of larger ones it takes 50 in a second
ROTATE_EVERY = 4  # steps whose gradients a rotation collects before it moves: moving at every step gains nothing


class StepSizes(NamedTuple):
    """How far a step goes: numbers, or tensors that a recorded step reads."""

    vectors: float | Tensor
    rotations: float | Tensor
    steps_an_epoch: int


class Deck(Remembering):
    """All entities in random order, to draw negatives from: no draw has one twice, and all come equally often."""

    remembered = ("next",)

    def __init__(self, entities: int, device: torch.device) -> None:
        self.cards = torch.arange(entities, device=device)
        self.place = self.cards.clone()  # of each entity in the deck
        self.next = torch.zeros((), dtype=torch.int64, device=device)

    def shuffle(self, generator: torch.Generator) -> None:
        """Bring all entities into a new random order."""
        # In place, as all that a step reads: a recorded step finds it where it was.
        self.cards.copy_(torch.randperm(len(self.cards), device=self.cards.device, generator=generator))
        self.place.copy_(self.cards.argsort())

    def deal(self, batch: Batch, count: int) -> Draw:
        """Draw `count` entities for each group of about `count` queries."""
        tile, size = len(batch.asked) // len(batch.tiles), len(self.cards)
        height = min(max(1, count // tile) * tile, len(batch.asked))
        groups = -(-len(batch.asked) // height)
        starts = (self.next + count * torch.arange(groups, device=self.cards.device)) % size
        self.next.add_(count * groups).remainder_(size)
        drawn = self.cards[(starts[:, None] + torch.arange(count, device=starts.device)) % size]
        return Draw(size, height, drawn, (self.place[batch.answers] - starts[batch.rows // height]) % size)


class Rotations(Remembering):
    """How rotations move: by Procrustes steps up the likelihood, or by Eq. 3 from the answers alone.

    A relation has one, which heads use backwards; with `inverses` one for each of its two directions.
    """

    remembered = ("squares",)

    def __init__(
        self, rotations: Float[Tensor, "directions segments width width"], positives: bool, inverses: bool = False
    ) -> None:
        self.positives = positives
        count = len(rotations) if inverses else len(rotations) // 2
        self.squares = rotations.new_zeros(count, rotations.shape[1])  # Σ ‖gradient‖² so far

    def moved(
        self, tables: Tables, gathered: Gradients, sizes: StepSizes
    ) -> Float[Tensor, "directions segments width width"]:
        """Return the next rotations, and use up what was gathered."""
        if self.positives:
            return self.solved(gathered, keep=max(0.0, 1 - ROTATE_EVERY / sizes.steps_an_epoch))
        moved = self.stepped(tables, gathered, sizes.rotations)
        gathered.rotations.zero_()
        gathered.rotations_weight.zero_()
        return of_directions(moved, len(tables.rotations))

    def stepped(
        self, tables: Tables, gathered: Gradients, learning_rate: float | Tensor
    ) -> Float[Tensor, "rotations segments width width"]:
        """Return rotations after a Procrustes step whose bound grows with the gradients seen, as Adagrad's does."""
        gradient = of_rotations(gathered.rotations, len(self.squares)) / gathered.rotations_weight
        self.squares += gradient.square().sum(dim=(-2, -1))
        bound = (self.squares / gradient.shape[-1]).sqrt() / learning_rate
        tiny = torch.finfo(bound.dtype).tiny ** 0.5  # a relation without any gradient stays as it is
        return procrustes_step(tables.rotations[: len(gradient)], gradient, bound.clamp(tiny, 1 / tiny), polar)

    def solved(self, gathered: Gradients, keep: float) -> Float[Tensor, "directions segments width width"]:
        """Return rotations by Eq. 3 from the covariances, of which a share is kept for the next time."""
        found = polar(completed(of_rotations(gathered.rotations, len(self.squares))))
        gathered.rotations.mul_(keep)
        return of_directions(found, len(gathered.rotations))


class Learner(Remembering):
    """Tables of numbers on one device, and how they learn from batches of queries."""

    remembered = ("optimise", "gathered", "rotations", "deck", "generator", "taken")

    def __init__(
        self,
        tables: Tables,
        objective: Objective,
        optimiser: type[Optimiser],
        generator: torch.Generator,
        unit: bool = False,
    ) -> None:
        self.tables, self.objective, self.generator, self.unit = tables, objective, generator, unit
        self.optimise = optimiser(tables.vectors)
        sides = {"translations": tables.translations, "scales": tables.scales}
        self.optimise_sides = {name: Adagrad(table) for name, table in sides.items() if table is not None}
        self.gathered = Gradients.zeros(tables._replace(vectors=tables.vectors[:0]))  # of all but the vectors
        self.rotations = Rotations(tables.rotations, objective.positives, objective.inverses)
        self.deck = Deck(len(tables.vectors), tables.vectors.device)
        self.taken = 0
        self.compared = self.in_precision_of_scores()
        self.fuses = isinstance(self.optimise, Adagrad) and not unit and can_move(tables.vectors)

    @cached_property
    def gradients(self) -> Gradients:
        """The gradients collected, those of the vectors too; not made where steps are taken on rows."""
        return replace(self.gathered, vectors=torch.zeros_like(self.tables.vectors))

    @property
    def sees_few(self) -> bool:
        """Whether a step sees so few entities that it is done on a copy of their rows.

        Not on a GPU, which would have to stop and count them, and not where all are centred after every step.
        """
        on_a_cpu = self.tables.vectors.device.type == "cpu"
        return on_a_cpu and bool(self.objective.negatives) and not self.unit and self.optimise.moves_rows

    def in_precision_of_scores(self, before: Tensor | None = None) -> Float[Tensor, "n_padded d_padded"]:
        """Return the vectors in bfloat16 where a GPU compares with all of them, else as they are."""
        if self.tables.vectors.is_cuda and self.objective.negatives is None:
            return rounded(self.tables.vectors, before)
        return self.tables.vectors

    def mean_loss(self) -> float:
        """Return the mean loss of an answer since the last call."""
        losses, weight = self.gathered.losses, self.gathered.losses_weight
        loss = (losses.sum() / weight).item()
        losses.zero_()
        weight.zero_()
        return loss

    def running_sums(self) -> list[Tensor]:
        """Return copies of the sums that are collected over several steps."""
        return [sums.clone() for sums in self.gathered.of_several]

    def forget(self, running: list[Tensor]) -> None:
        """Drop what has been collected since the last step, and go back to the running sums from before it."""
        for sums in self.gradients.of_a_step:
            sums.zero_()
        for sums, before in zip(self.gathered.of_several, running, strict=True):
            sums.copy_(before)

    def gather(self, batch: Batch) -> None:
        """Add a batch's gradients to those collected for the next step."""
        draw = self.deck.deal(batch, self.objective.negatives) if self.objective.negatives else None
        add_gradients(self.gradients, self.tables, batch, self.objective, draw, self.compared, self.generator)

    def step(self, sizes: StepSizes) -> None:
        """Move all tables by the gradients collected since the last step."""
        self.move(sizes, self.rotates_next(sizes.steps_an_epoch))
        self.taken += 1

    def rotates_next(self, steps_an_epoch: int) -> bool:
        """Say whether the next step moves rotations."""
        return (self.taken + 1) % min(ROTATE_EVERY, steps_an_epoch) == 0

    def learn(
        self, numbers: Tensor, rates: Tensor, *, shape: tuple[int, int], steps_an_epoch: int, rotates: bool
    ) -> Tensor:
        """Learn from a batch and move, as `gather` and `step` do, but count no step: this one may be recorded."""
        self.gather(Batch.unpacked(numbers, *shape))
        self.move(StepSizes(rates[0], rates[1], steps_an_epoch), rotates)
        return self.gathered.losses_weight

    def move(self, sizes: StepSizes, rotates: bool) -> None:
        """Move all tables by the gradients collected; rotations, if it is their turn."""
        vectors, gradients = self.tables.vectors, self.gradients
        if self.fuses and isinstance(self.optimise, Adagrad):
            from procrustes_kge.kernels.adagrad import move_

            rate = sizes.vectors
            rate = rate if isinstance(rate, Tensor) else vectors.new_full((), rate)
            compared = None if self.compared is vectors else self.compared
            move_(vectors, self.optimise.square, gradients.vectors, gradients.weight, rate, compared)
            gradients = self.gathered  # those of the vectors are cleared
        else:
            self.optimise(vectors, gradients.vectors.div_(gradients.weight), sizes.vectors)
            if self.unit:
                spherise_(vectors.view(len(vectors), *self.tables.rotations.shape[1:3]).transpose(0, 1))
            self.compared = self.in_precision_of_scores(self.compared)
        self.move_relations(gradients, sizes, rotates)

    def step_on_rows(self, batch: Batch, sizes: StepSizes) -> None:
        """Learn from one batch and move, touching only the rows of entities it sees: as `gather` and `step` do."""
        draw = self.deck.deal(batch, self.objective.negatives or 0)
        seen, place = torch.cat([batch.asked, batch.answers, draw.drawn.flatten()]).unique(return_inverse=True)
        asked, answers, drawn = place.split([len(batch.asked), len(batch.answers), draw.drawn.numel()])
        rows = self.tables.vectors[seen]
        gradients = replace(self.gathered, vectors=torch.zeros_like(rows))
        tables, batch = self.tables._replace(vectors=rows), replace(batch, asked=asked, answers=answers)
        draw = draw._replace(drawn=drawn.view_as(draw.drawn))
        add_gradients(gradients, tables, batch, self.objective, draw, generator=self.generator)
        self.optimise.move_rows(seen, rows, gradients.vectors.div_(gradients.weight), sizes.vectors)
        self.tables.vectors[seen] = rows
        self.move_relations(gradients, sizes, self.rotates_next(sizes.steps_an_epoch))
        self.taken += 1

    def move_relations(self, gradients: Gradients, sizes: StepSizes, rotates: bool) -> None:
        """Move scales and translations at every step, rotations at some; clear the gradients."""
        for name, optimise in self.optimise_sides.items():
            optimise(getattr(self.tables, name), getattr(gradients, name).div_(gradients.weight), sizes.vectors)
        for sums in gradients.of_a_step:
            sums.zero_()
        if rotates:
            self.rotate_to(self.rotations.moved(self.tables, self.gathered, sizes))

    def rotate_to(self, rotations: Float[Tensor, "directions segments width width"]) -> None:
        """Take new rotations."""
        self.tables.rotations.copy_(rotations)

    def restart(self, tables: Tables) -> None:
        """Begin again from other tables, with a generator that the caller has seeded; all that is held stays in place.

        All that is remembered of steps is zero before the first.
        """
        for sums in (*self.state().values(), *self.gathered.of_several):
            sums.zero_()
        self.taken = 0
        for held, table in zip(self.tables, tables, strict=True):
            if held is not None and table is not None:
                held.copy_(table)
        self.compared = self.in_precision_of_scores(self.compared)

    def state(self) -> State:
        """Return all that the next epoch depends on."""
        tables = {name: table for name, table in self.tables._asdict().items() if table is not None}
        sides = merged(**{name: each.state() for name, each in self.optimise_sides.items()})
        return super().state() | merged(tables=tables, sides=sides)

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        super().restore(state)
        tables, sides = part_of(state, "tables"), part_of(state, "sides")
        copy_into({name: getattr(self.tables, name) for name in tables}, tables)
        for name, each in self.optimise_sides.items():
            each.restore(part_of(sides, name))
        self.compared = self.in_precision_of_scores(self.compared)


def polar(matrices: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch d d"]:
    """Return the nearest orthogonal matrices, by the way that is fast on this device."""
    if not matrices.is_cuda:
        return nearest_orthogonal(matrices)
    return (nearest_orthogonal_of_pairs if matrices.shape[-1] == 2 else nearest_orthogonal_by_products)(matrices)


def exact_polar(matrices: Float[Tensor, "*batch d d"]) -> Float[Tensor, "*batch d d"]:
    """Return the nearest orthogonal matrices to the last digit, by the way that does not take for ever here."""
    long = matrices.is_cuda and matrices.shape[-1] > BATCHED
    return (nearest_orthogonal_by_long_products if long else nearest_orthogonal)(matrices)
