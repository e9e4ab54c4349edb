"""The way back from entity vectors to relations, so that a saved model may leave its rotations out."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.layouts.batches import QueryBatches
from procrustes_kge.layouts.relational import RelationalMatrices, Relations, padded_rows
from procrustes_kge.linalg import nearest_orthogonal, procrustes_step
from procrustes_kge.models.procrustes import both_ways
from procrustes_kge.system.threads import over_cores
from procrustes_kge.training.learner import Learner, Objective
from procrustes_kge.training.optimisers import Adagrad

ROUNDS = 40
CONVERGED = 1e-4  # share of the loss that a round must gain for another to follow
QUESTIONS_AT_ONCE = 2**10
SCORES_AT_ONCE = 2**26
NUMBERS_AT_ONCE = 2**27  # of vectors and sums of answers, on a GPU
MANY, DRAWN = 4096, 2048  # entities: a CPU compares with some of them where there are many


def restore_relations(
    vectors: Float[Tensor, "entities segments width"],
    graph: Graph,
    translate: bool = True,
    workers: int = 0,
    *,
    contrasted: bool = False,
    groups: int = 1,
    translations: Float[Tensor, "directions segments width"] | None = None,
    scales: Float[Tensor, "directions segments width"] | None = None,
) -> tuple[Float[Tensor, "relations segments width width"], Float[Tensor, "directions segments width"] | None]:
    """Return the rotations and translations that training gave to these entity vectors.

    For a model of `fit`, by Eq. 3 alone: the same again, solved in float64 so that rotations are orthogonal to the last
    digit of float32; `translate` is as it was in training. For a `contrasted` model, by Eq. 3 and then by Procrustes
    steps up the likelihood of the training triples until it rises no more, each of its `groups` alone; its own
    translations and scales, small tables, are given and kept.
    """
    if vectors.ndim != 3:
        raise InputError(f"vectors of shape {tuple(vectors.shape)}, expected [entities, segments, width]")
    if len(vectors) != len(graph.entities):
        raise InputError(
            f"vectors of {len(vectors):,} entities, but the graph {graph.name} has {len(graph.entities):,}"
        )
    own = scales is not None or translations is not None
    rotations, solved = _solve(vectors, graph, translate and not (own or contrasted), workers)
    if contrasted:
        sides = [(None,) * groups if side is None else side.chunk(groups, dim=1) for side in (translations, scales)]
        parts = zip(rotations.chunk(groups, dim=1), vectors.chunk(groups, dim=1), *sides, strict=True)
        rotations = torch.cat([_ascend(turns, part, graph, *side) for turns, part, *side in parts], dim=1)
    return rotations, translations if solved is None else both_ways(rotations, solved)


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
        return arranged[len(points)].solve(points, nearest_orthogonal, translate)

    rotations = vectors.new_empty(len(graph.relations), segments, width, width)
    translations = vectors.new_empty(len(graph.relations), segments, width) if translate else None
    starts = range(0, segments, together)
    found = map(solved, starts) if vectors.is_cuda else over_cores(solved, starts, workers)
    for first, relations in zip(starts, found, strict=True):
        rotations[:, first : first + together] = relations.rotations.transpose(0, 1)
        if translations is not None and relations.translations is not None:
            translations[:, first : first + together] = relations.translations.transpose(0, 1)
    return rotations, translations


def _segments_at_once(vectors: Tensor, triples: int, relations: int) -> int:
    """Return one for a core; for a GPU as many as there is room for, since one alone takes it as long."""
    if not vectors.is_cuda:
        return 1
    (entities, _, width), (rows, tiles) = vectors.shape, padded_rows(triples, relations)
    return max(1, NUMBERS_AT_ONCE // (width * (entities + rows) + width**2 * (tiles + 4 * relations)))


def _ascend(
    rotations: Tensor, vectors: Tensor, graph: Graph, translations: Tensor | None, scales: Tensor | None
) -> Float[Tensor, "relations segments width width"]:
    """Return rotations from which no Procrustes step gains much, relation by relation.

    Relations share no parameter here, so each has its own bound, which grows until its loss does not rise: at the
    latest when it reaches the curvature, where the loss cannot.
    """
    negatives = DRAWN if len(vectors) > MANY and not vectors.is_cuda else None
    likelihood = Likelihood(vectors, graph, translations, scales, negatives)
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
    return nearest_orthogonal(rotations.double()).to(vectors.dtype)


class Likelihood:
    """The loss of the training triples by softmax over all entities, as a function of the rotations.

    With a number of negatives, the softmax is over so many, the same ones each time: another function, as smooth.
    """

    def __init__(
        self,
        vectors: Tensor,
        graph: Graph,
        translations: Tensor | None = None,
        scales: Tensor | None = None,
        negatives: int | None = None,
    ) -> None:
        entities, relations = len(graph.entities), len(graph.relations)
        self.questions = QueryBatches.of(graph.train.to(vectors.device), entities, relations)
        objective = Objective(negatives=negatives, sigmoid=None, smoothing=0.0, decay=0.0, dropout=0.0, crowd=1.0)
        self.learner = Learner(self.questions, vectors, relations, objective, Adagrad, torch.Generator(vectors.device))
        self.nothing = self.learner.sums()
        if negatives is not None:
            self.learner.deck.shuffle(torch.Generator(vectors.device).manual_seed(0))
        self.at_once = max(1, min(QUESTIONS_AT_ONCE, SCORES_AT_ONCE // entities))
        self.learner.translations, self.learner.scales = translations, scales
        self.learner.table = self.learner.vectors  # in full precision: a small rise must not drown in rounding

    @torch.no_grad()
    def at(
        self, rotations: Float[Tensor, "relations segments width width"]
    ) -> tuple[Float[Tensor, " relations"], Float[Tensor, "relations segments width width"]]:
        """Return the loss of each relation's triples, both directions, and its gradient."""
        learner = self.learner
        learner.forget(self.nothing)
        learner.turn_to(rotations)
        learner.deck.next = 0
        for batch in self.questions.epoch(self.at_once):
            learner.gather(batch)
        tails, heads = learner.losses.clone().chunk(2)
        return tails + heads, learner.folded()

    @torch.no_grad()
    def curvature(self) -> Float[Tensor, "relations segments"]:
        """Return L such that the loss lies below its tangent plus (L/2)‖Q − Q₀‖², for all segments at once.

        The second derivative of a question's loss along Δ is the variance, over entities e, of Σ_s (x_s Δ_s) · y_es
        with y = c ∘ (e − mean). By Cauchy–Schwarz it is at most max_e ‖y_e‖² · Σ_s ‖x_s Δ_s‖², and the sum of
        ‖x_s Δ_s‖² over questions of n answers each is at most λmax(Σ n x_sᵀ x_s) ‖Δ_s‖².
        """
        learner, vectors = self.learner, self.learner.vectors
        spread = (vectors - vectors.mean(dim=0)).view(len(vectors), learner.segments, learner.width)
        directions = 2 * len(learner.rotations)
        scales = learner.scales if learner.scales is not None else vectors.new_ones(directions, 1, 1)
        reach = torch.stack([(spread * each).square().sum(dim=(1, 2)).amax() for each in scales])
        moments = torch.zeros_like(learner.turning)
        for batch in self.questions.epoch(self.at_once):
            asked = learner.tiled(vectors[batch.asked], batch)
            counts = batch.counts.to(vectors.dtype).view(len(batch.tiles), 1, -1, 1)
            moments.index_add_(0, batch.tiles, asked.mT @ (counts * asked))
        tails, heads = (torch.linalg.eigvalsh(moments)[..., -1] * reach[:, None]).chunk(2)
        return tails + heads
