"""From entity vectors back to relations, so that a model can be saved without its rotations."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.layouts.batches import QueryBatches
from procrustes_kge.layouts.relational import RelationalMatrices, Relations, padded_rows
from procrustes_kge.linalg import procrustes_step
from procrustes_kge.models.procrustes import both_ways
from procrustes_kge.system.threads import over_cores
from procrustes_kge.training.deck import Deck
from procrustes_kge.training.gradients import Gradients, Objective, Tables, add_gradients
from procrustes_kge.training.polars import exact_polar
from procrustes_kge.training.rotations import of_directions, of_rotations
from procrustes_kge.words import counted

ROUNDS = 40
CONVERGED = 1e-4  # share of the loss that a round must gain, or it is the last
QUERIES_AT_ONCE = 2**10
RESTORED_SCORES_AT_ONCE = 2**26
NUMBERS_AT_ONCE = 2**27  # of vectors and sums of answers, on a GPU
MANY, DRAWN = 4096, 2048  # entities: a CPU compares with some of them where there are many

Side = Float[Tensor, "directions segments width"] | None


def restore_relations(
    vectors: Float[Tensor, "entities segments width"], graph: Graph, translate: bool = True, workers: int = 0
) -> tuple[Float[Tensor, "relations segments width width"], Side]:
    """Return the rotations and translations that `fit` finds for these entity vectors, by Eq. 3 alone.

    They are solved as in training, but in float64, so that rotations are orthogonal to the last digit of float32.
    `translate` must be what it was in training.
    """
    _check_vectors(vectors, graph)
    rotations, translations = _solve(vectors, graph, translate, workers)
    return rotations, None if translations is None else both_ways(rotations, translations)


def restore_contrasted_relations(
    vectors: Float[Tensor, "entities segments width"],
    graph: Graph,
    groups: int = 1,
    translations: Side = None,
    scales: Side = None,
    inverses: bool = False,
    workers: int = 0,
) -> Float[Tensor, "rotations segments width width"]:
    """Return rotations like those that `contrast` finds for these entity vectors, given translations and scales.

    Each group is solved by Eq. 3, then improved by Procrustes steps until the likelihood of the training triples stops
    rising. With `inverses`, heads have rotations of their own.
    """
    _check_vectors(vectors, graph)
    rotations, _ = _solve(vectors, graph, False, workers)
    rotations = of_directions(rotations, 2 * len(rotations)) if inverses else rotations
    sides = [(None,) * groups if side is None else side.chunk(groups, dim=1) for side in (translations, scales)]
    parts = zip(rotations.chunk(groups, dim=1), vectors.chunk(groups, dim=1), *sides, strict=True)
    return torch.cat([_ascend(rotated, part, graph, *side) for rotated, part, *side in parts], dim=1)


def _check_vectors(vectors: Tensor, graph: Graph) -> None:
    if vectors.ndim != 3:
        raise InputError(f"vectors of shape {tuple(vectors.shape)}, expected [entities, segments, width]")
    if len(vectors) != len(graph.entities):
        has = f"the graph {graph.name} has {len(graph.entities):,}; give the graph they were trained on"
        raise InputError(f"vectors of {counted(len(vectors), 'entity')}, but {has}")


def _solve(
    vectors: Tensor, graph: Graph, translate: bool, workers: int
) -> tuple[Float[Tensor, "relations segments width width"], Float[Tensor, "relations segments width"] | None]:
    """Return rotations, and translations for tails, by Eq. 3."""
    entities, segments, width = vectors.shape
    triples, sizes = graph.train.to(vectors.device), (entities, len(graph.relations))
    together = min(segments, _segments_at_once(vectors, len(triples), len(graph.relations)))
    arranged = {many: RelationalMatrices.of(triples, *sizes, many) for many in {together, segments % together} if many}

    def solved(first: int) -> Relations:
        points = vectors[:, first : first + together].double().transpose(0, 1).contiguous()
        return arranged[len(points)].solve(points, exact_polar, translate)

    rotations = vectors.new_empty(len(graph.relations), segments, width, width)
    translations = vectors.new_empty(rotations.shape[:3]) if translate else None
    starts = range(0, segments, together)
    found = map(solved, starts) if vectors.is_cuda else over_cores(solved, starts, workers)
    for first, relations in zip(starts, found, strict=True):
        for table, part in ((rotations, relations.rotations), (translations, relations.translations)):
            if table is not None and part is not None:
                table[:, first : first + together] = part.transpose(0, 1)
    return rotations, translations


def _segments_at_once(vectors: Tensor, triples: int, relations: int) -> int:
    """Return one for a core; for a GPU as many as fit into memory, since it takes as long for one."""
    if not vectors.is_cuda:
        return 1
    (entities, _, width), (rows, tiles) = vectors.shape, padded_rows(triples, relations)
    return max(1, NUMBERS_AT_ONCE // (width * (entities + rows) + width**2 * (tiles + 4 * relations)))


def _ascend(
    rotations: Tensor, vectors: Tensor, graph: Graph, translations: Tensor | None, scales: Tensor | None
) -> Float[Tensor, "rotations segments width width"]:
    """Return rotations from which no Procrustes step gains much, one by one.

    Rotations share no parameter here, so each has its own bound, which grows until its loss does not rise: at the
    latest when it reaches the curvature, where the loss cannot.
    """
    negatives = DRAWN if len(vectors) > MANY and not vectors.is_cuda else None
    likelihood = Likelihood(vectors, graph, translations, scales, negatives, len(rotations))
    losses, gradient = likelihood.at(rotations)
    width = vectors.shape[-1]
    bound = torch.linalg.matrix_norm(gradient) / width**0.5  # a first step of about the size of a rotation
    tiny = torch.finfo(bound.dtype).tiny ** 0.5  # relations without triples keep the rotation that they have
    safe = likelihood.curvature().clamp_min(tiny)
    bound = torch.minimum(bound.clamp_min(tiny), safe)
    for _ in range(ROUNDS):
        tried = procrustes_step(rotations, gradient, bound)
        new_losses, new_gradient = likelihood.at(tried)
        better = new_losses <= losses
        gained = (losses - new_losses)[better].sum()
        rotations = torch.where(better[:, None, None, None], tried, rotations)
        gradient = torch.where(better[:, None, None, None], new_gradient, gradient)
        losses = torch.where(better, new_losses, losses)
        bound = torch.minimum(bound * torch.where(better, 0.7, 4.0)[:, None], safe)
        if bool(better.all()) and gained < CONVERGED * losses.sum():
            break
    return exact_polar(rotations.double()).to(vectors.dtype)


class Likelihood:
    """The loss of the training triples by softmax over all entities, as a function of the rotations.

    With a number of negatives, the softmax is over as many drawn entities, the same every time: another function, as
    smooth.
    """

    def __init__(
        self,
        vectors: Float[Tensor, "entities segments width"],
        graph: Graph,
        translations: Side = None,
        scales: Side = None,
        negatives: int | None = None,
        rotations: int | None = None,
    ) -> None:
        entities, relations = len(graph.entities), len(graph.relations)
        self.rotations = rotations or relations  # as many as these, or as directions
        self.vectors, self.translations, self.scales, self.directions = vectors, translations, scales, 2 * relations
        self.batches = QueryBatches.of(graph.train.to(vectors.device), entities, relations)
        self.objective, self.deck = Objective(negatives=negatives), Deck(entities, vectors.device)
        if negatives is not None:
            self.deck.shuffle(torch.Generator(vectors.device).manual_seed(0))
        self.at_once = max(1, min(QUERIES_AT_ONCE, RESTORED_SCORES_AT_ONCE // entities))

    def tables(self, rotations: Float[Tensor, "rotations segments width width"]) -> Tables:
        """Return the tables of a model with these rotations."""
        return Tables(
            self.vectors.flatten(1), of_directions(rotations, self.directions), self.translations, self.scales
        )

    def added(self, values: Float[Tensor, "directions ..."]) -> Float[Tensor, "rotations ..."]:
        """Return the values of directions, added up where they share a rotation."""
        return values.view(-1, self.rotations, *values.shape[1:]).sum(dim=0)

    @torch.no_grad()
    def at(
        self, rotations: Float[Tensor, "rotations segments width width"]
    ) -> tuple[Float[Tensor, " rotations"], Float[Tensor, "rotations segments width width"]]:
        """Return the loss of each rotation's triples, of all directions that it serves, and its gradient."""
        tables, negatives = self.tables(rotations), self.objective.negatives
        sums = Gradients.zeros(tables._replace(translations=None, scales=None))
        self.deck.next.zero_()
        for batch in self.batches.epoch(self.at_once):
            draw = self.deck.deal(batch, negatives) if negatives else None
            add_gradients(sums, tables, batch, self.objective, draw)
        return self.added(sums.losses), of_rotations(sums.rotations, self.rotations)

    @torch.no_grad()
    def curvature(self) -> Float[Tensor, "rotations segments"]:
        """Return L such that the loss lies below its tangent plus (L/2)‖Q − Q₀‖², for all segments at once.

        The second derivative of a query's loss along Δ is the variance, over entities e, of Σ_s (x_s Δ_s) · y_es
        with y = c ∘ (e − mean). By Cauchy–Schwarz it is at most max_e ‖y_e‖² · Σ_s ‖x_s Δ_s‖², and the sum of
        ‖x_s Δ_s‖² over queries of n answers each is at most λmax(Σ n x_sᵀ x_s) ‖Δ_s‖².
        """
        vectors, directions = self.vectors, self.directions
        spread = vectors - vectors.mean(dim=0)
        scales = self.scales if self.scales is not None else vectors.new_ones(directions, 1, 1)
        reach = torch.stack([(spread * each).square().sum(dim=(1, 2)).amax() for each in scales])
        width = vectors.shape[-1]
        tables = self.tables(torch.eye(width).to(vectors).expand(self.rotations, vectors.shape[1], width, width))
        moments = torch.zeros_like(tables.rotations)
        for batch in self.batches.epoch(self.at_once):
            asked = tables.tiled(tables.vectors[batch.asked], batch)
            counts = batch.counts.to(vectors.dtype).view(len(batch.tiles), 1, -1, 1)
            moments.index_add_(0, batch.tiles, asked.mT @ (counts * asked))
        return self.added(torch.linalg.eigvalsh(moments)[..., -1] * reach[:, None])
