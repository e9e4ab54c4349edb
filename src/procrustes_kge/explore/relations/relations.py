"""What relations are, read off their matrices: symmetric, inverse to each other, composed, near the identity, uphill.

Each property has a score, what chance gives, and what the training triples say of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.explore.relations import chance
from procrustes_kge.explore.relations.chance import NONE, Chance
from procrustes_kge.explore.relations.checks import TripleChecks
from procrustes_kge.explore.relations.compositions import ALMOST, best_compositions
from procrustes_kge.explore.relations.maps import relation_maps
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.predictor import Answering
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.models.with_paths import WithPaths
from procrustes_kge.words import counted

KINDS = {
    "symmetric": "it leads back the way it came",
    "inverse": "one leads back what the other leads there",
    "duplicate": "both lead to the same place",
    "identity": "it hardly moves what it is asked about",
    "composed": "one step, then the other, lead where it leads",
    "hierarchical": "it leads to another level",
}
MOST, MOST_COMPOSED = 2000, 300  # relations: those with most triples, where there are more
KEPT = 100  # pairs, or compositions
LEVELS = 0.02  # how far levels scatter at least


@dataclass(frozen=True)
class Property:
    """Something that a relation is by itself, a pair is together, or the first is of the two others."""

    kind: str
    relations: tuple[str, ...]  # by name; a step that is made backwards has ⁻¹
    score: float  # a cosine of two maps; of `hierarchical` a share
    chance: float  # what it is without a reason
    deviations: float  # by how many the score lies above that
    found: bool  # above all that chance gives among so many
    in_train: float | None = None  # share of training triples that say so
    exchanged: float | None = None  # the same share when tails are exchanged

    def __str__(self) -> str:
        """Return the property as a formula."""
        first, *others = self.relations
        back = "⁻¹" if self.kind == "inverse" else ""
        return f"{first} = {' then '.join(others)}{back}" if others else first


@dataclass(frozen=True)
class RelationProperties:
    """The properties of a model's relations by kind, best first, and what one should know of them."""

    by_kind: dict[str, tuple[Property, ...]]
    chance: dict[str, Chance]  # what two relations of this model have in common, and two random rotations
    notes: tuple[str, ...]

    def found(self, kind: str) -> list[Property]:
        """Return those of a kind that are above chance."""
        return [each for each in self.by_kind[kind] if each.found]

    def as_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        kinds = {kind: [asdict(each) for each in found] for kind, found in self.by_kind.items()}
        return {**kinds, "chance": {name: each._asdict() for name, each in self.chance.items()}, "notes": self.notes}


def relation_properties(model: Answering, graph: Graph | None = None, seed: int = 0) -> RelationProperties:
    """Read off a model's matrices what its relations are; with a graph, say which share of its triples agree."""
    if graph is not None and graph.relations.names != model.relations.names:
        raise InputError(f"the graph {graph.name} has other relations than the model; give the one it was trained on")
    with torch.no_grad():
        return _Reader(model, graph, seed).read()


class _Reader:
    """A model whose relations are being read. Relations are numbered as in the model, r + R is r backwards."""

    def __init__(self, model: Answering, graph: Graph | None, seed: int) -> None:
        self.model, self.names, self.seed = model, model.relations, seed
        self.checks = TripleChecks(graph, seed) if graph is not None else None
        self.all_maps = relation_maps(model)
        self.rows = self._largest(MOST)
        self.maps = self.all_maps.only(self.rows)
        self.alike = self.maps.alike()
        self.random = chance.of_random_rotations(model, seed) or {}
        self.pairs = chance.of_other_pairs(self.maps, self.alike)
        self.free = self._free()

    def _free(self) -> set[int]:
        """Return the relations with fewer heads or tails than a segment has numbers.

        Their triples leave rotations free in some directions, where Q is completed alike for all, and symmetrically.
        """
        if self.checks is None or not isinstance(self.model, Procrustes | WithPaths):
            return set()
        width = self.maps.matrices.shape[-1]
        return {r for r in self.rows.tolist() if min(self.checks.ends(r)) < width}

    def read(self) -> RelationProperties:
        """Return all properties."""
        found = {
            **{"symmetric": self._symmetric(), "identity": self._near_identity()},
            **{"inverse": self._pairs("inverse"), "duplicate": self._pairs("duplicate")},
            **{"composed": self._composed(), "hierarchical": self._levels()},
        }
        seen = {"relations of this model": self.pairs}
        seen |= {"random rotations": self.random["pairs"]} if self.random else {}
        return RelationProperties({kind: tuple(found[kind]) for kind in KINDS}, seen, tuple(self._notes()))

    def _largest(self, most: int) -> Int[Tensor, " some"]:
        """Return the relations with most triples, in the order of the model."""
        rows = torch.arange(len(self.names))
        if self.checks is not None and len(rows) > most:
            counts = torch.bincount(self.checks.train[:, 1], minlength=len(rows))
            rows = counts.argsort(descending=True, stable=True)[:most].sort().values
        return rows[:most]

    def _symmetric(self) -> list[Property]:
        """Return how alike the queries for tails and for heads are."""
        if self._symmetric_by_make:
            return []
        usual = self.pairs.beside(self.random.get("symmetric", NONE))
        scores = zip(self.rows.tolist(), self.alike.diagonal(len(self.rows)).tolist(), strict=True)
        return _best_first(
            self._property("symmetric", (r,), score, usual, len(self.rows), (r + len(self.names),))
            for r, score in scores
        )

    def _near_identity(self) -> list[Property]:
        """Return how alike a relation and staying where one is are."""
        usual = self.pairs.beside(self.random.get("identity", NONE))
        scores = zip(self.rows.tolist(), self.maps.identity()[: len(self.rows)].tolist(), strict=True)
        return _best_first(
            self._property("identity", (r,), score, usual, len(self.rows), (r, r)) for r, score in scores
        )

    def _pairs(self, kind: str) -> list[Property]:
        """Return the pairs of which one leads back what the other leads there, or there as well, in both directions."""
        count = len(self.rows)
        first, second = torch.triu_indices(count, count, 1)
        same, crossed = self.alike[:count, :count] + self.alike[count:, count:], self.alike[:count, count:]
        same, crossed = (each[first, second] / 2 for each in (same, crossed + crossed.T))
        ours, theirs = (crossed, same) if kind == "inverse" else (same, crossed)
        scores = ours.where((ours > theirs) | ((ours == theirs) & (kind == "duplicate")), -torch.inf)
        best = scores.topk(min(KEPT, int(scores.isfinite().sum()))).indices
        usual = self.pairs.beside(self.random.get("pairs", NONE))
        found = []
        for r, s, score in zip(first[best], second[best], scores[best].tolist(), strict=True):
            pair = self.rows[torch.stack([r, s])].tolist()
            steps = (pair[1] + len(self.names) * (kind == "inverse"),)
            found.append(self._property(kind, pair, score, usual, len(scores), steps))
        return found

    def _composed(self) -> list[Property]:
        """Return the best of all pairs of steps; a step that is the same backwards counts as forwards."""
        rows = self._largest(MOST_COMPOSED)
        maps, count = self.all_maps.only(rows), len(rows)
        alike = maps.alike()
        usual = chance.of_compositions(maps, self.seed).beside(self.random.get("pairs", NONE))
        turned = [
            step - count if step >= count and alike[step, step - count] > ALMOST else step for step in range(2 * count)
        ]
        best = best_compositions(maps, alike)
        found: dict[tuple[int, ...], Property] = {}
        for target, first, then, score in zip(*(each.tolist() for each in best[:4]), strict=True):
            key = (target, turned[first], turned[then])
            if key not in found and len(found) < KEPT:
                steps = [int(rows[step % count]) + len(self.names) * (step >= count) for step in key[1:]]
                shown = (int(rows[target]), *steps)
                found[key] = self._property("composed", shown, score, usual, 4 * count**3, steps)
        return list(found.values())

    def _levels(self) -> list[Property]:
        """Return how far apart heads and tails lie.

        The mean of n heads lies off that of all entities by 1/n of their spread, by chance alone; of tails likewise.
        """
        if self.maps.rotates_only:
            return []
        found = []
        for r, score in zip(self.rows.tolist(), self.maps.levels().tolist(), strict=True):
            noise = 2 * sum(1 / max(1, count) for count in self.checks.ends(r)) if self.checks else 0.0
            usual = Chance(min(noise, 1.0), max(LEVELS, noise))
            shares = [self.checks.upwards(r, exchanged) if self.checks else None for exchanged in (False, True)]
            found.append(self._property("hierarchical", (r,), score, usual, len(self.rows), (), shares))
        return _best_first(found)

    def _property(
        self,
        kind: str,
        directions: Iterable[int],
        score: float,
        chance: Chance,
        tried: int,
        steps: Iterable[int],
        shares: list[float | None] | None = None,
    ) -> Property:
        """Return a property, with the shares of training triples that the steps lead along as well."""
        directions, steps = tuple(directions), tuple(steps)
        names = tuple(self._name(each) for each in directions)
        if shares is None and self.checks is not None:
            asked = directions[0]
            if kind in ("inverse", "duplicate") and self.checks.count(directions[1]) < self.checks.count(asked):
                asked, steps = directions[1], (asked + len(self.names) * (kind == "inverse"),)
            shares = [self.checks.share(asked, steps, exchanged) for exchanged in (False, True)]
        in_train, exchanged = shares or (None, None)
        settled = kind == "hierarchical" or not self.free & {each % len(self.names) for each in directions}
        found = settled and chance.exceeded(score, tried)
        return Property(kind, names, score, chance.centre, chance.deviations(score), found, in_train, exchanged)

    def _name(self, direction: int) -> str:
        backwards, relation = divmod(direction, len(self.names))
        return self.names[relation] + ("⁻¹" if backwards else "")

    @property
    def _symmetric_by_make(self) -> bool:
        """Whether the model can be nothing but symmetric, as DistMult without inverses of their own."""
        if not isinstance(self.model, TrainedBaseline):
            return False
        tails, heads = self.all_maps.matrices.chunk(2)
        return self.all_maps.matrices.shape[-1] == 1 and tails.equal(heads)

    def _notes(self) -> Iterable[str]:
        """Return what this model, or so many relations, do not let one see."""
        read, of_steps = len(self.rows), len(self._largest(MOST_COMPOSED))
        if read < len(self.names):
            yield f"only the {read:,} relations with most triples are read, of {len(self.names):,}"
        if of_steps < read:
            yield f"compositions are looked for among the {of_steps:,} relations with most triples"
        if self._symmetric_by_make:
            yield "this model takes every relation for symmetric, so its matrices do not say which ones are"
        if self.all_maps.moves_only and len(self.names) > 1:
            yield "relations of this model only translate: one that is symmetric can only be near the identity"
        elif self.all_maps.matrices.shape[-1] == 1:
            yield "relations of this model only scale numbers: whether steps come in one order or the other is not seen"
        if self.all_maps.rotates_only:
            yield "relations of this model only rotate, which keeps everything at its level: hierarchies are not seen"
        if self.free:
            few = f"{counted(len(self.free), 'relation')} with fewer heads or tails than a segment has numbers"
            yield f"of {few} the rotations are in part arbitrary, so that no star stands beside them"
        if self.checks is None:
            yield "saved without its triples, so nothing is compared with them"


def _best_first(found: Iterable[Property]) -> list[Property]:
    return sorted(found, key=lambda each: -each.score)
