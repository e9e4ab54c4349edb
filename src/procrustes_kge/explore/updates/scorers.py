"""Queries and scores of any model as functions of rows of its entity table, with what its training held short."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.models.baselines.bilinear import DistMult
from procrustes_kge.models.baselines.embedded import Encoded
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.models.with_paths import Embedding
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.recipes import Settings
from procrustes_kge.training.rotations import of_directions
from procrustes_kge.training.supervised_settings import TrainSettings

PRODUCTS_AT_ONCE = 2**23  # numbers of outer products

Rows = Float[Tensor, "_ numbers"]
Points = Float[Tensor, "_ d"]


@dataclass(frozen=True)
class Held:
    """How entities and queries are held short: weights of ‖x‖^p of what is asked, of the query, of the answer."""

    asked: float = 0.0
    query: float = 0.0
    answer: float = 0.0
    power: float = 2.0
    width: int = 1  # numbers of a part whose length counts
    apart: bool = False  # whether the numbers of a part lie apart: all first ones, then all second ones

    def of(self, rows: Rows) -> Float[Tensor, " rows"]:
        """Return Σ ‖x_s‖^p over the parts of each row."""
        if self.power == 2:
            return rows.square().sum(dim=1)
        parts = rows.unflatten(1, (self.width, -1) if self.apart else (-1, self.width))
        squares = parts.square().sum(dim=1 if self.apart else 2)
        return squares.clamp_min(torch.finfo(rows.dtype).tiny).pow(self.power / 2).sum(dim=1)


class Scorer(NamedTuple):
    """A model as a function of rows of its entity table, all else fixed."""

    table: Rows  # of all entities
    query: Callable[[Rows, Int[Tensor, " queries"]], Points]  # of asked rows and directions
    scores: Callable[[Points, Rows], Float[Tensor, "queries rows"]]  # of all pairs
    paired: Callable[[Points, Rows], Float[Tensor, " queries"]]  # of each query with one row
    held: Held = Held()
    crowd: float = 1.0
    smoothing: float = 0.0
    directions: Callable[[Rows, Rows], Float[Tensor, "pairs directions"]] | None = None  # of asked rows and answers
    relation_weight: float = 0.0
    pairs_at_once: int = 1


def scorer_of(model: Embedding, settings: Settings | None) -> Scorer:
    """Return the scorer of a model that was trained with these settings; where none are known, with the usual ones."""
    return _of_procrustes(model, settings) if isinstance(model, Procrustes) else _of_baseline(model, settings)


def _of_procrustes(model: Procrustes, settings: Settings | None) -> Scorer:
    shape = model.vectors.shape[1:]

    def query(rows: Rows, directions: Int[Tensor, " queries"]) -> Points:
        asked = replace(model, vectors=rows.unflatten(1, shape))
        return model.query(asked, torch.arange(len(rows), device=rows.device), directions)

    known = settings if isinstance(settings, ContrastSettings) else ContrastSettings()
    weight = known.regularisation
    held = Held(weight, weight * known.query_regularisation, 2 * weight, known.regulariser_power, shape[1])
    products = lambda points, rows: points @ rows.T  # noqa: E731
    each = lambda points, rows: (points * rows).sum(dim=1)  # noqa: E731
    scorer = Scorer(model.table, query, products, each, held, known.crowd, known.label_smoothing)
    if not known.relation_weight:
        return scorer
    at_once = max(1, PRODUCTS_AT_ONCE // (model.dim * shape[1]))
    return scorer._replace(directions=_directions(model), relation_weight=known.relation_weight, pairs_at_once=at_once)


def _directions(model: Procrustes) -> Callable[[Rows, Rows], Float[Tensor, "pairs directions"]]:
    """Return the scores of all directions of pairs: z_σ = y · (c_σ ∘ (x Q_σ) + b_σ) = ⟨x ⊗ y, A_σ⟩ + y · b_σ."""
    maps = of_directions(model.rotations, 2 * len(model.relations))
    maps = (maps if model.scales is None else maps * model.scales[:, :, None]).flatten(1)
    shifts = None if model.translations is None else model.translations.flatten(1)
    width = model.vectors.shape[2]

    def scores(asked: Rows, answers: Rows) -> Float[Tensor, "pairs directions"]:
        outer = asked.unflatten(1, (-1, width, 1)) * answers.unflatten(1, (-1, 1, width))
        found = outer.flatten(1) @ maps.T
        return found if shifts is None else found + answers @ shifts.T

    return scores


def _of_baseline(model: TrainedBaseline, settings: Settings | None) -> Scorer:
    with torch.no_grad():
        encoded = model.encode()
    dim, biased = encoded.entities.shape[1], encoded.biases is not None

    def of(rows: Rows) -> Encoded:
        return encoded._replace(entities=rows[:, :dim], biases=rows[:, dim] if biased else None)

    def each(rows: Rows) -> Int[Tensor, " rows"]:
        return torch.arange(len(rows), device=rows.device)

    columns = [encoded.entities] if encoded.biases is None else [encoded.entities, encoded.biases[:, None]]
    return Scorer(
        torch.cat(columns, dim=1),
        lambda rows, directions: model.query(of(rows), each(rows), directions),
        lambda points, rows: model.scores(of(rows), points),
        lambda points, rows: model.scores(of(rows), points, each(rows)[:, None])[:, 0],
        _held_of_baseline(model, settings),
        smoothing=settings.label_smoothing if isinstance(settings, TrainSettings) else 0.0,
    )


def _held_of_baseline(model: TrainedBaseline, settings: Settings | None) -> Held:
    """Return how a regulariser holds entities short: DURA answers and queries, the others both ends of a triple."""
    if not isinstance(settings, TrainSettings) or settings.regulariser == "none":
        return Held()
    weight = settings.regularisation
    if settings.regulariser == "dura":
        return Held(0.0, weight, weight)
    parts = model.module.parts if isinstance(model.module, DistMult) else 1
    return Held(weight, 0.0, weight, {"n2": 2.0, "n3": 3.0}[settings.regulariser], parts, apart=True)
