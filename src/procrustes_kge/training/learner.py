"""Learner: the tables of a model in training, the gradients that gather in them, and the step that uses those up.

Nothing is differentiated by autograd. A question of entity x in direction ρ asks with q = c_ρ ∘ (x Q_ρ) + b_ρ; given
the gradient g of q, those of its parts are

    ∂b = g,   ∂c = g ∘ (x Q),   ∂Q = xᵀ (c ∘ g),   ∂x = (c ∘ g) Qᵀ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from procrustes_kge.layouts.batches import Batch, QueryBatches
from procrustes_kge.linalg import (
    completed,
    nearest_orthogonal,
    nearest_orthogonal_by_products,
    procrustes_step,
    spherise_,
)
from procrustes_kge.training.objective import Sigmoid, against_all, against_none, against_some, rounded
from procrustes_kge.training.optimisers import Adagrad, Adam, Step

TURN_EVERY = 4  # steps whose gradients a rotation collects before it moves: moving at every step gains nothing


@dataclass(frozen=True)
class Objective:
    """What a step improves."""

    negatives: int | None  # how many; None: all entities; 0: none
    sigmoid: Sigmoid | None  # None: softmax
    smoothing: float
    decay: float
    dropout: float
    crowd: float


class Rates(NamedTuple):
    """How far a step goes."""

    vectors: float
    rotations: float
    steps_an_epoch: int


class Tables(NamedTuple):
    """What has been learned."""

    vectors: Float[Tensor, "entities d"]
    rotations: Float[Tensor, "relations segments width width"]
    translations: Float[Tensor, "directions segments width"] | None
    scales: Float[Tensor, "directions segments width"] | None


class Draw(NamedTuple):
    """The negatives of a batch: groups of questions share what is drawn."""

    height: int  # questions in a group
    drawn: Int[Tensor, "groups k"]
    columns: Int[Tensor, " answers"]  # where each answer stands in its group's draw; k or more: nowhere


class Deck:
    """All entities in random order, dealt a hand at a time: no hand has one twice, and all come equally often."""

    def __init__(self, entities: int, device: torch.device) -> None:
        self.cards = torch.arange(entities, device=device)
        self.place = self.cards  # of each entity in the deck
        self.next = 0

    def shuffle(self, generator: torch.Generator) -> None:
        """Bring the cards into a new order."""
        self.cards = torch.randperm(len(self.cards), device=self.cards.device, generator=generator)
        self.place = self.cards.argsort()

    def deal(self, batch: Batch, count: int) -> Draw:
        """Deal each group of about `count` questions a hand of `count` entities."""
        tile, size = len(batch.asked) // len(batch.tiles), len(self.cards)
        height = min(max(1, count // tile) * tile, len(batch.asked))
        groups = -(-len(batch.asked) // height)
        starts = (self.next + count * torch.arange(groups, device=self.cards.device)) % size
        self.next = (self.next + count * groups) % size
        drawn = self.cards[(starts[:, None] + torch.arange(count, device=starts.device)) % size]
        return Draw(height, drawn, (self.place[batch.answers] - starts[batch.rows // height]) % size)


class Learner:
    """Tables of numbers on one device, and how they learn from batches of questions."""

    def __init__(
        self,
        questions: QueryBatches,
        vectors: Float[Tensor, "entities segments width"],
        relations: int,
        objective: Objective,
        step: type[Adam] | type[Adagrad],
        generator: torch.Generator,
        *,
        rotations: Float[Tensor, "relations segments width width"] | None = None,
        translations: Float[Tensor, "directions segments width"] | None = None,
        scale: bool = False,
        translate: bool = False,
        unit: bool = False,
        positives: bool = False,
    ) -> None:
        entities, self.segments, self.width = vectors.shape
        self.objective, self.generator, self.unit, self.positives = objective, generator, unit, positives
        self.vectors = vectors.flatten(1)
        shape = (2 * relations, self.segments, self.width)
        if rotations is None:
            drawn = torch.randn(relations, *shape[1:], self.width, device=vectors.device, generator=generator)
            rotations = self.polar(drawn.to(vectors.dtype))
        self.turn_to(rotations)
        self.scales = vectors.new_ones(shape) if scale else None
        started = vectors.new_zeros(shape) if translations is None else translations
        self.translations = started if translate else None
        self.move: Step = step(self.vectors)
        self.sides = {name: table for name in ("scales", "translations") if (table := getattr(self, name)) is not None}
        self.side_moves = {name: Adagrad(table) for name, table in self.sides.items()}
        self.side_pulls = {name: torch.zeros_like(table) for name, table in self.sides.items()}
        # Per direction: the gradient of the rotations, or the cross-covariance where positives alone decide.
        self.turning = vectors.new_zeros(*shape, self.width)
        self.turned = vectors.new_zeros(relations, self.segments)  # Σ ‖gradient‖² so far
        self.weight = vectors.new_zeros(())  # of the answers since the last step
        self.turning_weight = vectors.new_zeros(())  # of those since rotations moved
        self.losses = vectors.new_zeros(2 * relations)  # of each direction, since somebody last looked
        self.answered = vectors.new_zeros(())  # the weight of their answers
        self.deck = Deck(entities, vectors.device)
        self.taken = 0
        if positives:
            for batch in questions.epoch(2**13):
                self.covary(batch, self.vectors)
            self.solve(keep=1.0)
        self.table = self.compared()

    @cached_property
    def pull(self) -> Float[Tensor, "entities d"]:
        """The gradient of the vectors that has gathered; not made where steps are taken on copies."""
        return torch.zeros_like(self.vectors)

    @property
    def compact(self) -> bool:
        """Whether a step sees so few entities that it is done on a copy of their rows.

        Not on a GPU, which would have to stop and count them, and not where all are centred after every step.
        """
        return (
            bool(self.objective.negatives)
            and not self.unit
            and isinstance(self.move, Adagrad)
            and self.vectors.device.type == "cpu"
        )

    def polar(self, matrices: Tensor) -> Tensor:
        """Return the nearest orthogonal matrices, fast on this device."""
        return (nearest_orthogonal_by_products if matrices.is_cuda else nearest_orthogonal)(matrices)

    def compared(self, before: Tensor | None = None) -> Float[Tensor, "n_padded d_padded"]:
        """Return the vectors in the precision of scores: bfloat16 where a GPU compares with all of them."""
        if self.vectors.is_cuda and self.objective.negatives is None:
            return rounded(self.vectors, before)
        return self.vectors

    def turn_to(self, rotations: Float[Tensor, "relations segments width width"]) -> None:
        """Take new rotations: relations asked for heads turn by the transpose."""
        self.rotations, self.turns = rotations, torch.cat([rotations, rotations.mT])

    def tables(self, copied: bool = False) -> Tables:
        """Return what has been learned, as it is or as a copy that training leaves alone."""
        sides = self.translations, self.scales
        if not copied:
            return Tables(self.vectors, self.rotations, *sides)
        return Tables(self.vectors.clone(), self.rotations, *(None if side is None else side.clone() for side in sides))

    def mean_loss(self) -> float:
        """Return the mean loss of an answer since this was last asked."""
        loss = (self.losses.sum() / self.answered).item()
        self.losses.zero_()
        self.answered.zero_()
        return loss

    def sums(self) -> tuple[Tensor, ...]:
        """Return copies of what gathers over several steps."""
        return tuple(each.clone() for each in (self.turning, self.turning_weight, self.losses, self.answered))

    def forget(self, sums: tuple[Tensor, ...]) -> None:
        """Drop the gradients that have gathered since the last step, and go back to the sums that were before them."""
        for table in (self.pull, self.weight, *self.side_pulls.values()):
            table.zero_()
        for each, before in zip((self.turning, self.turning_weight, self.losses, self.answered), sums, strict=True):
            each.copy_(before)

    def gather(self, batch: Batch) -> None:
        """Add a batch's gradients to those that wait for the next step."""
        draw = self.deck.deal(batch, self.objective.negatives) if self.objective.negatives else None
        self.learn(batch, draw, self.vectors, self.table, self.pull)

    def learn(
        self,
        batch: Batch,
        draw: Draw | None,
        vectors: Float[Tensor, "n d"],
        table: Float[Tensor, "n_padded d_padded"],
        pull: Float[Tensor, "n d"],
    ) -> None:
        """Add the gradients of a batch to `pull` and to those of the relations.

        The table is the vectors in the precision of scores, perhaps padded.
        """
        counts = batch.counts.to(vectors.dtype)
        weights = torch.where(batch.counts > 0, counts.clamp_min(1) ** (self.objective.crowd - 1), 0)
        mass = weights * counts
        asked = self.tiled(vectors[batch.asked], batch)
        turned = asked @ self.turns[batch.tiles]
        scales = None if self.scales is None else self.scales[batch.tiles, :, None]
        queries = turned if scales is None else turned * scales
        if self.translations is not None:
            queries = queries + self.translations[batch.tiles, :, None]
        queries = queries.transpose(1, 2).reshape(len(batch.asked), -1)
        losses, gradient = self.dropped(queries, batch, weights, draw, table, pull)
        if decay := 2 * self.objective.decay:  # λ (‖x‖² + ‖q‖² + 2 ‖answer‖²), per answer
            gradient.addcmul_(queries, (decay * mass)[:, None])
            held = vectors.new_zeros(len(vectors)).index_add_(0, batch.asked, mass)
            held.index_add_(0, batch.answers, 2 * weights[batch.rows])
            pull.addcmul_(vectors, decay * held[:, None])
        gradient = self.tiled(gradient, batch)
        if "translations" in self.sides:
            self.side_pulls["translations"].index_add_(0, batch.tiles, gradient.sum(dim=2))
        if scales is not None:
            if "scales" in self.sides:
                self.side_pulls["scales"].index_add_(0, batch.tiles, (gradient * turned).sum(dim=2))
            gradient = gradient * scales
        if self.positives:
            self.covary(batch, vectors)
        else:
            self.turning.index_add_(0, batch.tiles, asked.mT @ gradient)
        moved = gradient @ self.turns[batch.tiles].mT
        pull.index_add_(0, batch.asked, moved.transpose(1, 2).reshape(len(batch.asked), -1))
        weight = mass.sum()
        self.weight += weight
        self.turning_weight += weight
        self.answered += weight
        self.losses.index_add_(0, batch.tiles, losses.view(len(batch.tiles), -1).sum(dim=1))

    def tiled(self, rows: Float[Tensor, "rows d"], batch: Batch) -> Float[Tensor, "tiles segments height width"]:
        """Return rows of questions, tile by tile and segment by segment."""
        return rows.view(len(batch.tiles), -1, self.segments, self.width).transpose(1, 2)

    def dropped(
        self, queries: Tensor, batch: Batch, weights: Tensor, draw: Draw | None, table: Tensor, pull: Tensor
    ) -> tuple[Float[Tensor, " rows"], Float[Tensor, "rows d"]]:
        """Return losses and the gradient of the queries, some of whose numbers are left out at random."""
        if not self.objective.dropout:
            return self.contrasted(queries, batch, weights, draw, table, pull)
        keep = 1 - self.objective.dropout
        kept = torch.empty_like(queries).bernoulli_(keep, generator=self.generator).div_(keep)
        losses, gradient = self.contrasted(queries * kept, batch, weights, draw, table, pull)
        return losses, gradient.mul_(kept)

    def contrasted(
        self, queries: Tensor, batch: Batch, weights: Tensor, draw: Draw | None, table: Tensor, pull: Tensor
    ) -> tuple[Float[Tensor, " rows"], Float[Tensor, "rows d"]]:
        """Return losses and the gradient of the queries against their negatives."""
        places = (batch.rows, batch.answers)
        if draw is None:
            if self.objective.negatives is None:
                return against_all(queries, table, *places, weights, pull, self.objective.smoothing)
            return against_none(queries, table, *places, weights, pull)
        extra = -len(queries) % draw.height  # the last group is filled with questions that weigh nothing
        grouped = pad(queries, (0, 0, 0, extra)).view(-1, draw.height, queries.shape[1])
        losses, gradient = against_some(
            *(grouped, table, *places, pad(weights, (0, extra)), pull),
            *(draw.drawn, draw.columns, len(self.vectors), self.objective.sigmoid),
        )
        return losses[: len(queries)], gradient.flatten(0, 1)[: len(queries)]

    def covary(self, batch: Batch, vectors: Tensor) -> None:
        """Add Hᵀ T of the batch's triples to the covariances.

        Of the vectors as they are, shifted or not: against negatives b is where the crowd is, and taking it off T
        made Q worse (umls .66 → .62).
        """
        sums = vectors.new_zeros(len(batch.asked), vectors.shape[1]).index_add_(0, batch.rows, vectors[batch.answers])
        asked = self.tiled(vectors[batch.asked], batch)
        self.turning.index_add_(0, batch.tiles, asked.mT @ self.tiled(sums, batch))

    def step(self, rates: Rates) -> None:
        """Move all tables by what has gathered since the last step."""
        self.move(self.vectors, self.pull.div_(self.weight), rates.vectors)
        if self.unit:
            spherise_(self.vectors.view(-1, self.segments, self.width).transpose(0, 1))
        self.pull.zero_()
        self.step_relations(rates)

    def step_on_copy(self, batch: Batch, rates: Rates) -> None:
        """Learn from one batch and move, touching only the rows of entities that it sees: the same as the two above."""
        assert isinstance(self.move, Adagrad)
        draw = self.deck.deal(batch, self.objective.negatives or 0)
        seen, place = torch.cat([batch.asked, batch.answers, draw.drawn.flatten()]).unique(return_inverse=True)
        asked, answers, drawn = place.split([len(batch.asked), len(batch.answers), draw.drawn.numel()])
        batch = replace(batch, asked=asked, answers=answers)
        draw = draw._replace(drawn=drawn.view_as(draw.drawn))
        rows = self.vectors[seen]
        pull = torch.zeros_like(rows)
        self.learn(batch, draw, rows, rows, pull)
        self.move.some(seen, rows, pull.div_(self.weight), rates.vectors)
        self.vectors[seen] = rows
        self.step_relations(rates)

    def step_relations(self, rates: Rates) -> None:
        """Move scales and translations at every step, rotations at some."""
        for name, table in self.sides.items():
            self.side_moves[name](table, self.side_pulls[name].div_(self.weight), rates.vectors)
            self.side_pulls[name].zero_()
        self.taken += 1
        self.table = self.compared(self.table)
        if self.taken % min(TURN_EVERY, rates.steps_an_epoch) == 0:
            if self.positives:
                self.solve(keep=max(0.0, 1 - TURN_EVERY / rates.steps_an_epoch))
            else:
                self.turn(rates.rotations)
        self.weight.zero_()

    def folded(self) -> Float[Tensor, "relations segments width width"]:
        """Return what both directions of each relation have gathered: heads turn by Qᵀ, so theirs is transposed."""
        tails, heads = self.turning.chunk(2)
        return tails + heads.mT

    def turn(self, rate: float) -> None:
        """Move rotations by a Procrustes step whose bound grows with the gradients seen, as Adagrad's does."""
        gradient = self.folded() / self.turning_weight
        self.turned += gradient.square().sum(dim=(-2, -1))
        bound = (self.turned / self.width).sqrt() / rate
        tiny = torch.finfo(bound.dtype).tiny ** 0.5  # a relation without any gradient stays as it is
        self.turn_to(procrustes_step(self.rotations, gradient, bound.clamp(tiny, 1 / tiny), self.polar))
        self.turning.zero_()
        self.turning_weight.zero_()

    def solve(self, keep: float) -> None:
        """Solve rotations by Eq. 3 from the covariances, of which a share is kept for the next time."""
        self.turn_to(self.polar(completed(self.folded())))
        self.turning *= keep
