"""Relations that are new: their rotations by Eq. 3 from the vectors of the entities they link, which stay.

For unit segments that is all: Q = U Vᵀ of Hᵀ T = U Σ Vᵀ, and b from the mean head to the mean tail. For free lengths
the rotation goes on from there by Procrustes steps up the likelihood, in turn with scales and translations, in which
the likelihood is concave.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from procrustes_kge.explore.updates.comparing import Compared, Questions
from procrustes_kge.explore.updates.minimising import minimised
from procrustes_kge.explore.updates.scorers import Points, Rows, scorer_of
from procrustes_kge.graphs.graph import Graph, Vocabulary
from procrustes_kge.graphs.queries import group_by_query
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.recipes import Settings
from procrustes_kge.training.restoring import restore_contrasted_relations, restore_relations
from procrustes_kge.training.rotations import of_directions

TURNS = 3  # of rotations, then scales and translations


class NewRelations:
    """Relations of a model that nothing has been learned of, and their triples."""

    def __init__(
        self, numbers: Int[Tensor, " new"], triples: Int[Tensor, "n 3"], relations: int, settings: Settings | None
    ) -> None:
        self.numbers, self.settings, self.relations = numbers, settings, relations
        place = torch.full((relations,), -1, device=numbers.device)
        place[numbers] = torch.arange(len(numbers), device=numbers.device)
        ours = triples[place[triples[:, 1]] >= 0]
        self.triples = torch.stack([ours[:, 0], place[ours[:, 1]], ours[:, 2]], dim=1)
        self.ready = place < 0  # those that have a rotation

    def of_few(self, small: Int[Tensor, " entities"]) -> NewRelations:
        """Return the same relations between entities of other numbers."""
        heads, relations, tails = self.triples.unbind(dim=1)
        found = NewRelations(self.numbers, self.triples[:0], self.relations, self.settings)
        found.triples = torch.stack([small[heads], relations, small[tails]], dim=1)
        return found

    def solved(self, model: Procrustes, placed: Bool[Tensor, " entities"], unit: bool = True) -> Procrustes:
        """Return the model with those of its new relations that link entities which are placed."""
        pairs = self.triples[placed[self.triples[:, 0]] & placed[self.triples[:, 2]]]
        found = pairs[:, 1].unique()
        if not len(found):
            return model
        numbers = self.numbers[found]
        names = Vocabulary(map(str, range(len(found))), "relation")
        train = torch.stack([pairs[:, 0], torch.searchsorted(found, pairs[:, 1].contiguous()), pairs[:, 2]], dim=1)
        graph = Graph("update", Vocabulary(map(str, range(len(placed))), "entity"), names, train, train[:0], train[:0])
        solve = _solved_by_eq_3 if unit else _solved_by_likelihood
        few = solve(replace(model, relations=names, **_own(model, numbers)), graph, self.settings)
        self.ready[numbers] = True
        return replace(model, **_put(model, numbers, few))


def _both(numbers: Int[Tensor, " some"], relations: int) -> Int[Tensor, " directions"]:
    return torch.cat([numbers, numbers + relations])


def _own(model: Procrustes, numbers: Int[Tensor, " some"]) -> dict[str, Any]:
    """Return the tables of some relations."""
    both = _both(numbers, len(model.relations))
    tables = {"rotations": model.rotations[both if model.inverses else numbers]}
    sides = {"translations": model.translations, "scales": model.scales}
    return tables | {name: table[both] for name, table in sides.items() if table is not None}


def _put(model: Procrustes, numbers: Int[Tensor, " some"], few: Procrustes) -> dict[str, Any]:
    """Return the tables of the model with those of some relations in their place."""
    both, found = _both(numbers, len(model.relations)), dict[str, Any]()
    for name, table in few.tables().items():
        if name != "vectors":
            own = numbers if name == "rotations" and not model.inverses else both
            found[name] = getattr(model, name).index_copy(0, own, table.to(getattr(model, name).dtype))
    return found


def _solved_by_eq_3(few: Procrustes, graph: Graph, settings: Settings | None) -> Procrustes:
    rotations, translations = restore_relations(few.vectors, graph, few.translations is not None)
    count = 2 * len(rotations) if few.inverses else len(rotations)
    scales = None if few.scales is None else torch.ones_like(few.scales)
    return replace(few, rotations=of_directions(rotations, count), translations=translations, scales=scales)


def _solved_by_likelihood(few: Procrustes, graph: Graph, settings: Settings | None) -> Procrustes:
    inverses = few.inverses
    for _ in range(TURNS if few.scales is not None or few.translations is not None else 1):
        rotations = restore_contrasted_relations(
            few.vectors, graph, translations=few.translations, scales=few.scales, inverses=inverses
        )
        few = replace(few, rotations=rotations)
        few = _with_sides(few, graph, settings)
    return few


def _with_sides(few: Procrustes, graph: Graph, settings: Settings | None) -> Procrustes:
    """Return the model with the scales and translations that are most likely, given its rotations."""
    sides = {"scales": few.scales, "translations": few.translations}
    known = {name: table for name, table in sides.items() if table is not None}
    if not known:
        return few
    parts, shape = list(known), few.vectors.shape[1:]
    start = torch.cat([table.flatten(1) for table in known.values()], dim=1)
    loss = _LossOfSides(few, graph, settings, parts)
    rows = minimised(loss, start, float(start.norm(dim=1).mean()) or 1.0)
    tables: dict[str, Any] = {
        name: table.unflatten(1, shape) for name, table in zip(parts, rows.chunk(len(parts), dim=1), strict=True)
    }
    return replace(few, **tables)


class _LossOfSides:
    """The loss of the directions of some relations as a function of their scales and translations."""

    def __init__(self, few: Procrustes, graph: Graph, settings: Settings | None, parts: list[str]) -> None:
        self.scorer, self.parts = scorer_of(few, settings), parts
        known = settings if isinstance(settings, ContrastSettings) else ContrastSettings()
        self.of_scales = known.scale_regularisation
        self.compared, device = Compared(self.scorer, torch.Generator().manual_seed(0)), few.vectors.device
        queries = group_by_query(graph.train.to(device), len(graph.entities), len(graph.relations))
        self.questions = Questions.of(queries, torch.arange(len(queries), device=device))
        plain = replace(few, scales=None, translations=None)
        self.rotated = plain.query(plain, self.questions.entities, self.questions.directions)

    def __call__(self, rows: Rows) -> Float[Tensor, " directions"]:
        """Return the loss of each direction, and add its gradient to that of the rows."""
        total, first = torch.zeros(len(rows), dtype=rows.dtype, device=rows.device), 0
        for some in self.questions.parts(self.compared.at_once):
            losses = self.of(rows, some, self.rotated[first : first + len(some.entities)])
            first += len(some.entities)
            losses.sum().backward()
            total.index_add_(0, some.directions, losses.detach())
        return total

    def of(self, rows: Rows, some: Questions, points: Points) -> Float[Tensor, " queries"]:
        """Return the losses of some queries, given what they are rotated to."""
        scorer = self.scorer
        sides = dict(zip(self.parts, rows[some.directions].chunk(len(self.parts), dim=1), strict=True))
        points = points * sides["scales"] if "scales" in sides else points
        points = points + sides["translations"] if "translations" in sides else points
        candidates = scorer.table[self.compared.candidates]
        logs, reached = self.compared.log_sums(points, some, scorer.table[some.answers], candidates)
        mean = torch.zeros_like(logs).index_add(0, some.places, reached) / some.counts
        losses = logs - (1 - scorer.smoothing) * mean + scorer.held.query * scorer.held.of(points)
        if "scales" in sides and self.of_scales:
            losses = losses + self.of_scales * scorer.held.of(sides["scales"])
        return some.counts.to(losses.dtype) ** scorer.crowd * losses
