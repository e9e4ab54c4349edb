"""Learner: tables in contrastive training, the gradients collected for their next step, and that step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from procrustes_kge.kernels import can_step
from procrustes_kge.layouts.batches import Batch
from procrustes_kge.linalg import spherise_
from procrustes_kge.training.deck import Deck
from procrustes_kge.training.fused_gradients import add_gradients_fused, can_ask
from procrustes_kge.training.gradients import Gradients, Objective, Tables, add_gradients
from procrustes_kge.training.objective import rounded
from procrustes_kge.training.optimisers import Adagrad, Optimiser
from procrustes_kge.training.rotations import ROTATE_EVERY, Rotations, StepSizes
from procrustes_kge.training.state import Remembering, State, copy_into, merged, part_of


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
        self.fuses = can_step(tables.vectors)
        self.rotations = Rotations(tables.rotations, objective.positives, objective.inverses, self.fuses)
        self.deck = Deck(len(tables.vectors), tables.vectors.device)
        self.taken = 0
        self.compared = self.in_precision_of_scores()
        self.begun = False  # whether anything has been gathered since the last step

    @cached_property
    def gradients(self) -> Gradients:
        """The gradients collected, those of the vectors too; not made where steps are taken on rows."""
        holds = self.moves_at_once and self.objective.decay > 0 and self.objective.power == 2
        return self.gathered.with_vectors(self.tables.vectors, self.compares_at_once, holds)

    @property
    def moves_at_once(self) -> bool:
        """Whether a kernel moves the vectors."""
        return self.fuses and isinstance(self.optimise, Adagrad) and not self.unit

    @property
    def compares_at_once(self) -> bool:
        """Whether a kernel compares with all entities; what it finds first since a step is not added, but written."""
        return self.fuses and self.compared.dtype == torch.bfloat16

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
        self.begun = False

    def gather(self, batch: Batch) -> None:
        """Add a batch's gradients to those collected for the next step."""
        draw = self.deck.deal(batch, self.objective.negatives) if self.objective.negatives else None
        tables, objective, compared, random = self.tables, self.objective, self.compared, self.generator
        if not self.compares_at_once:
            add_gradients(self.gradients, tables, batch, objective, draw, compared, random)
        elif can_ask(tables):
            add_gradients_fused(self.gradients, tables, batch, objective, compared, random, self.against_all)
        else:
            add_gradients(self.gradients, tables, batch, objective, None, compared, random, self.against_all)
        self.begun = True

    def against_all(
        self, queries: Tensor, table: Tensor, batch: Batch, weights: Tensor, ends: Tensor | None, pull: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compare queries with all entities, by a kernel."""
        from procrustes_kge.kernels.softmax import against_all_fused

        smoothing = self.objective.label_smoothing
        return against_all_fused(
            *(queries, table, batch.answers, batch.counts, weights, pull, len(self.tables.vectors), smoothing),
            overwrites=not self.begun,
            ends=ends,
        )

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
        self.begun = False
        if self.moves_at_once and isinstance(self.optimise, Adagrad):
            self.move_at_once(
                *(vectors, self.optimise, gradients.vectors, gradients.weight, sizes.vectors),
                rounded_too=None if self.compared is vectors else self.compared,
                held=gradients.held,
                clears=not self.compares_at_once,
            )
            if gradients.held is not None:
                gradients.held.zero_()
        else:
            self.optimise(vectors, gradients.vectors.div_(gradients.weight), sizes.vectors)
            if self.unit:
                spherise_(vectors.view(len(vectors), *self.tables.rotations.shape[1:3]).transpose(0, 1))
            self.compared = self.in_precision_of_scores(self.compared)
            gradients.vectors.zero_()
        self.move_relations(gradients, sizes, rotates)

    def move_at_once(
        self,
        table: Tensor,
        optimise: Adagrad,
        gradient: Tensor,
        weight: Tensor,
        rate: float | Tensor,
        rounded_too: Tensor | None = None,
        held: Tensor | None = None,
        clears: bool = True,
    ) -> None:
        """Move a table by a kernel, which clears the gradient."""
        from procrustes_kge.kernels.adagrad import move_

        rate = rate if isinstance(rate, Tensor) else table.new_full((), rate)
        values, square, slope = (each.view(len(each), -1) for each in (table, optimise.square, gradient))
        move_(values, square, slope, weight, rate, rounded_too, held, self.objective.decay, clears)

    def step_on_rows(self, batch: Batch, sizes: StepSizes) -> None:
        """Learn from one batch and move, touching only the rows of entities it sees: as `gather` and `step` do."""
        draw = self.deck.deal(batch, self.objective.negatives or 0)
        seen, place = torch.cat([batch.asked, batch.answers, draw.drawn.flatten()]).unique(return_inverse=True)
        asked, answers, drawn = place.split([len(batch.asked), len(batch.answers), draw.drawn.numel()])
        rows = self.tables.vectors[seen]
        gradients = self.gathered.with_vectors(rows)
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
            table, gradient = getattr(self.tables, name), getattr(gradients, name)
            if self.fuses:
                self.move_at_once(table, optimise, gradient, gradients.weight, sizes.vectors)
            else:
                optimise(table, gradient.div_(gradients.weight), sizes.vectors)
                gradient.zero_()
        gradients.weight.zero_()
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
