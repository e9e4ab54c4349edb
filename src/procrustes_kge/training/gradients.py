"""The gradients of a batch of queries, in closed form: nothing is differentiated by autograd.

A query about entity x in direction ρ is the vector q = c_ρ ∘ (x Q_ρ) + b_ρ. Given the gradient g of q, those of its
parts are

    ∂b = g,   ∂c = g ∘ (x Q),   ∂Q = xᵀ (c ∘ g),   ∂x = (c ∘ g) Qᵀ.

Where relations are predicted too, its A has the columns of Q scaled by c, and the gradient ∂A gives ∂Q_ij = ∂A_ij c_j
and ∂c_j = Σ_i ∂A_ij Q_ij.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from procrustes_kge.layouts.batches import Batch
from procrustes_kge.linalg import cross_covariance
from procrustes_kge.training.objective import (
    Answers,
    Draw,
    Sigmoid,
    against_all,
    against_none,
    against_some,
    padded_zeros,
    rounded,
)
from procrustes_kge.training.relation_prediction import Pairs, against_directions
from procrustes_kge.training.state import Remembering

# Given queries in bfloat16, what answers weigh, and where those of a row end (or None): losses, and the gradient of the
# queries. That of the entities is added to sums. Queries, both gradients and the table are padded alike.
AgainstAll = Callable[[Tensor, Tensor, Batch, Tensor, Tensor | None, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Objective:
    """What a step improves."""

    negatives: int | None = None  # how many; None: all entities; 0: none
    sigmoid: Sigmoid | None = None  # None: softmax
    label_smoothing: float = 0.0
    regularisation: float = 0.0
    power: float = 2.0  # of the lengths of segments that are regularised
    query_regularisation: float = 1.0  # of queries, relative to that of entities
    scale_regularisation: float = 0.0
    dropout: float = 0.0
    crowd: float = 1.0
    positives: bool = False  # rotations by Eq. 3: Hᵀ T is collected in place of their gradient
    inverses: bool = False  # each direction has a rotation of its own
    relation_weight: float = 0.0  # of predicting the direction of each pair, beside 1 for its answer

    @property
    def decay(self) -> float:
        """What multiplies ‖x_s‖^(p − 2) x_s in the gradient of an entity."""
        return self.power * self.regularisation

    @property
    def query_decay(self) -> float:
        """The same of a query."""
        return self.decay * self.query_regularisation


class Tables(NamedTuple):
    """What is learned. Directions are relations asked for tails, then for heads.

    Heads rotate by the transpose, unless inverses are learned too.
    """

    vectors: Float[Tensor, "entities d"]
    rotations: Float[Tensor, "directions segments width width"]
    translations: Float[Tensor, "directions segments width"] | None = None
    scales: Float[Tensor, "directions segments width"] | None = None

    def tiled(self, rows: Float[Tensor, "rows d"], batch: Batch) -> Float[Tensor, "tiles segments height width"]:
        """Return rows of queries tile by tile and segment by segment."""
        return rows.view(len(batch.tiles), -1, *self.rotations.shape[1:3]).transpose(1, 2)


@dataclass(frozen=True)
class Gradients(Remembering):
    """Sums that batches add to. Those of rotations and of losses may run on over several steps."""

    remembered = ("rotations", "rotations_weight")

    vectors: Float[Tensor, "n d"]
    translations: Float[Tensor, "directions segments width"] | None
    scales: Float[Tensor, "directions segments width"] | None
    weight: Float[Tensor, ""]  # of the answers that the sums above come from
    rotations: Float[Tensor, "directions segments width width"]
    rotations_weight: Float[Tensor, ""]
    losses: Float[Tensor, " directions"]
    losses_weight: Float[Tensor, ""]
    # How short each entity is to be held, where a kernel adds that to the sums of the vectors as it moves them.
    held: Float[Tensor, " n"] | None = None
    # What `vectors` are the first rows and columns of, where a GPU adds products that are padded.
    padded: Float[Tensor, "n_padded d_padded"] | None = None

    @classmethod
    def zeros(cls, tables: Tables) -> Gradients:
        """Return empty sums."""
        rotations = tables.rotations
        return cls(
            vectors=torch.zeros_like(tables.vectors),
            translations=None if tables.translations is None else torch.zeros_like(tables.translations),
            scales=None if tables.scales is None else torch.zeros_like(tables.scales),
            weight=rotations.new_zeros(()),
            rotations=torch.zeros_like(rotations),
            rotations_weight=rotations.new_zeros(()),
            losses=rotations.new_zeros(len(rotations)),
            losses_weight=rotations.new_zeros(()),
        )

    def with_vectors(self, vectors: Float[Tensor, "n d"], pads: bool = False, holds: bool = False) -> Gradients:
        """Return these sums, and empty ones of the vectors."""
        whole = padded_zeros(vectors) if pads else torch.zeros_like(vectors)
        return replace(
            self,
            vectors=whole[: len(vectors), : vectors.shape[1]],
            held=vectors.new_zeros(len(vectors)) if holds else None,
            padded=whole if pads else None,
        )

    @property
    def of_a_step(self) -> list[Tensor]:
        """The sums that each step clears."""
        every = (self.vectors, self.translations, self.scales, self.weight, self.held)
        return [sums for sums in every if sums is not None]

    @property
    def weights(self) -> tuple[Tensor, Tensor, Tensor]:
        """What the answers weigh that sums come from."""
        return self.weight, self.rotations_weight, self.losses_weight

    @property
    def of_several(self) -> list[Tensor]:
        """The sums that may run on."""
        return [self.rotations, self.rotations_weight, self.losses, self.losses_weight]


def add_gradients(
    into: Gradients,
    tables: Tables,
    batch: Batch,
    objective: Objective,
    draw: Draw | None = None,
    compared: Float[Tensor, "n_padded d_padded"] | None = None,
    generator: torch.Generator | None = None,
    against: AgainstAll | None = None,
) -> None:
    """Add the gradients of a batch to sums. Nothing else changes but the generator, which draws the dropout.

    `compared` is the vectors in the precision of scores, perhaps padded; `against` compares with all of them.
    """
    vectors, compared = tables.vectors, tables.vectors if compared is None else compared
    weights, mass = weights_of(batch, objective.crowd, vectors.dtype)
    asked = tables.tiled(vectors[batch.asked], batch)
    rotations = tables.rotations[batch.tiles]
    rotated = asked @ rotations
    scales = None if tables.scales is None else tables.scales[batch.tiles, :, None]
    queries = rotated if scales is None else rotated * scales
    if tables.translations is not None:
        queries = queries + tables.translations[batch.tiles, :, None]
    queries = queries.transpose(1, 2).reshape(len(batch.asked), -1)
    kept = _kept(queries, objective.dropout, generator)
    dropped = queries if kept is None else queries * kept
    if against is None:
        losses, gradient = _contrasted(dropped, compared, batch, weights, into.vectors, objective, draw)
    else:
        whole = into.vectors if into.padded is None else into.padded
        losses, gradient = against(rounded(dropped), compared, batch, weights, None, whole)
        gradient = gradient[:, : queries.shape[1]]
    gradient = gradient if kept is None else gradient.mul_(kept)
    width, power = rotations.shape[-1], objective.power
    if objective.decay:
        gradient.addcmul_(outward(queries, width, power), (objective.query_decay * mass)[:, None])
    hold(into, tables, batch, objective, weights, mass)
    gradient = tables.tiled(gradient, batch)
    if into.translations is not None:
        into.translations.index_add_(0, batch.tiles, gradient.sum(dim=2))
    if scales is not None:
        if into.scales is not None:
            into.scales.index_add_(0, batch.tiles, (gradient * rotated).sum(dim=2))
        gradient = gradient * scales
    if objective.positives:
        add_covariances(into.rotations, tables, batch)
    else:
        into.rotations.index_add_(0, batch.tiles, asked.mT @ gradient)
    moved = gradient @ rotations.mT
    into.vectors.index_add_(0, batch.asked, moved.transpose(1, 2).reshape(len(batch.asked), -1))
    if objective.relation_weight:
        add_of_directions(into, tables, batch, objective.relation_weight * weights, objective.positives, compared.dtype)
    add_losses(into, batch, losses)
    weight = mass.sum()
    for sums in into.weights:
        sums.add_(weight)


def weights_of(batch: Batch, crowd: float, dtype: torch.dtype) -> tuple[Float[Tensor, " rows"], Float[Tensor, " rows"]]:
    """Return what each answer of a row weighs, and what all of them do."""
    counts = batch.counts.to(dtype)
    weights = torch.where(batch.counts > 0, counts.clamp_min(1) ** (crowd - 1), 0)
    return weights, weights * counts


def hold(
    into: Gradients,
    tables: Tables,
    batch: Batch,
    objective: Objective,
    weights: Float[Tensor, " rows"],
    mass: Float[Tensor, " rows"],
) -> None:
    """Add the gradients that hold entities and scales short: λ Σ_s (‖x_s‖^p + ω ‖q_s‖^p + 2 ‖answer_s‖^p), per answer.

    That of queries goes through what they are made of, and is not added here.
    """
    vectors, width, power = tables.vectors, tables.rotations.shape[-1], objective.power
    if decay := objective.decay:
        held = vectors.new_zeros(len(vectors)) if into.held is None else into.held
        held.index_add_(0, batch.asked, mass)
        held.index_add_(0, batch.answers, 2 * weights[batch.rows])
        if into.held is None:
            into.vectors.addcmul_(outward(vectors, width, power), decay * held[:, None])
    if into.scales is not None and tables.scales is not None and objective.scale_regularisation:
        held = mass.new_zeros(len(tables.scales)).index_add_(0, batch.tiles, mass.view(len(batch.tiles), -1).sum(dim=1))
        lengths = outward(tables.scales.flatten(1), width, power).view_as(tables.scales)
        into.scales.addcmul_(lengths, (power * objective.scale_regularisation * held)[:, None, None])


def add_losses(into: Gradients, batch: Batch, losses: Float[Tensor, " rows"]) -> None:
    """Add the losses of a batch by direction."""
    into.losses.index_add_(0, batch.tiles, losses.view(len(batch.tiles), -1).sum(dim=1))


def outward(rows: Float[Tensor, "rows d"], width: int, power: float) -> Float[Tensor, "rows d"]:
    """Return ‖x_s‖^(p − 2) x_s for each segment: the gradient of Σ_s ‖x_s‖^p over p."""
    if power == 2:
        return rows
    segments = rows.view(len(rows), -1, width)
    lengths = torch.linalg.vector_norm(segments, dim=-1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)
    return (lengths.pow_(power - 2) * segments).view_as(rows)


def add_of_directions(
    into: Gradients,
    tables: Tables,
    batch: Batch,
    weights: Float[Tensor, " rows"],
    positives: bool,
    precision: torch.dtype,
) -> None:
    """Add the gradients of predicting the direction of each pair of a query and an answer, of a weight by query.

    An answer of a query without weight adds zeros. The losses are not added: they stay those of answers.
    """
    entities, height = batch.asked[batch.rows], len(batch.asked) // len(batch.tiles)
    asked, answers = (tables.vectors[each].view(-1, *tables.rotations.shape[1:3]) for each in (entities, batch.answers))
    scales = None if tables.scales is None else tables.scales[:, :, None]
    maps = tables.rotations if scales is None else tables.rotations * scales
    pairs = Pairs(asked, answers, batch.tiles[batch.rows // height], weights[batch.rows])
    pulls = against_directions(pairs, maps, tables.translations, precision)
    into.vectors.index_add_(0, entities, pulls.asked.flatten(1))
    into.vectors.index_add_(0, batch.answers, pulls.answers.flatten(1))
    if into.translations is not None and pulls.shifts is not None:
        into.translations.add_(pulls.shifts)
    if into.scales is not None:
        into.scales.add_((pulls.maps * tables.rotations).sum(dim=2))
    if not positives:
        into.rotations.add_(pulls.maps if scales is None else pulls.maps * scales)


def add_covariances(into: Float[Tensor, "directions segments width width"], tables: Tables, batch: Batch) -> None:
    """Add Hᵀ T of the batch's triples.

    Translations are not subtracted: with negatives, b points to where all entities are, and subtracting it from T makes
    Q worse (umls .66 → .62).
    """
    vectors = tables.vectors
    sums = vectors.new_zeros(len(batch.asked), vectors.shape[1]).index_add_(0, batch.rows, vectors[batch.answers])
    sums.mul_((batch.counts > 0)[:, None])  # rows that pad a batch may have been given answers
    asked = tables.tiled(vectors[batch.asked], batch)
    into.index_add_(0, batch.tiles, cross_covariance(asked, tables.tiled(sums, batch)))


def _kept(
    queries: Float[Tensor, "rows d"], dropout: float, generator: torch.Generator | None
) -> Float[Tensor, "rows d"] | None:
    """Return what to multiply queries by: zero where a number is left out at random, and more than one elsewhere."""
    keep = 1 - dropout
    return torch.empty_like(queries).bernoulli_(keep, generator=generator).div_(keep) if dropout else None


def _contrasted(
    queries: Float[Tensor, "rows d"],
    compared: Float[Tensor, "n_padded d_padded"],
    batch: Batch,
    weights: Float[Tensor, " rows"],
    into: Float[Tensor, "n d"],
    objective: Objective,
    draw: Draw | None,
) -> tuple[Float[Tensor, " rows"], Float[Tensor, "rows d"]]:
    """Return losses and the gradient of the queries against their negatives; add that of the entities."""
    found = Answers(batch.rows, batch.answers, weights, batch.counts.to(weights.dtype))
    if draw is None and objective.negatives is None:
        return against_all(queries, compared, found, into, objective.label_smoothing)
    if draw is None:
        return against_none(queries, compared, found, into)
    extra = -len(queries) % draw.height  # the last group is filled with queries that weigh nothing
    grouped = pad(queries, (0, 0, 0, extra)).view(-1, draw.height, queries.shape[1])
    found = found._replace(weights=pad(weights, (0, extra)), counts=pad(found.counts, (0, extra)))
    losses, gradient = against_some(grouped, compared, found, into, draw, objective.sigmoid)
    return losses[: len(queries)], gradient.flatten(0, 1)[: len(queries)]
