"""How many answers of a test need no model: another relation, or the relation itself backwards, says them in train.

A rule s⁻¹ ⇒ r holds where most pairs of s, turned around, are triples of r in train; s ⇒ r likewise. A test triple
(h, r, t) follows if train has (t, s, h), or (h, s, t). Pairs are sorted numbers, so this is one search for each triple.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.queries import check_keys
from procrustes_kge.linalg import numbered

CONFIDENCE = 0.5  # share of a rule's cases that have to be right
SUPPORT = 2  # cases at least: one is chance
WAYS = ("inverse", "duplicate", "itself")


@dataclass(frozen=True)
class Followed:
    """How many of some triples follow from train, and by which way; a triple may follow by several."""

    triples: int
    inverse: int  # from another relation, backwards
    duplicate: int  # from another relation
    by_another: int  # by either of these
    itself: int  # from the relation itself, backwards: it is symmetric
    any: int
    linked: int  # both ends are linked in train by something, whether that says anything or not


@dataclass(frozen=True)
class Rule:
    """A relation that says what another one says, forwards or backwards."""

    relation: str
    says: str
    backwards: bool
    cases: int  # distinct pairs of `relation` in train
    right: int  # those that `says` has too

    def __str__(self) -> str:
        """Return the rule as a formula."""
        return f"{self.relation}{'⁻¹' if self.backwards else ''} ⇒ {self.says}"


@dataclass(frozen=True)
class Leakage:
    """What follows from train of a split: in all and by relation, and the rules by which it does."""

    split: str
    whole: Followed
    relations: dict[str, Followed] = field(repr=False)
    rules: tuple[Rule, ...] = field(repr=False)  # those with most right cases first

    def as_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        relations = {name: asdict(each) for name, each in self.relations.items()}
        rules = [asdict(each) for each in self.rules]
        return {"split": self.split, **asdict(self.whole), "relations": relations, "rules": rules}


def leakage(graph: Graph, split: str = "test", confidence: float = CONFIDENCE) -> Leakage:
    """Return how many triples of a split follow from an inverse or a duplicate relation in train."""
    if not 0 < confidence <= 1:
        raise InputError(f"confidence {confidence}, expected a number above 0, at most 1")
    check_keys(len(graph.entities), len(graph.entities), "entity")
    pairs, rules = _Pairs.of(graph), dict[bool, Int[Tensor, "rules 2"]]()
    stated = list[Rule]()
    for backwards in (False, True):
        rules[backwards], cases, right = pairs.rules(backwards, confidence)
        for (relation, says), count, hits in zip(
            rules[backwards].tolist(), cases.tolist(), right.tolist(), strict=True
        ):
            stated.append(Rule(graph.relations[relation], graph.relations[says], backwards, count, hits))
    triples = graph.split(split)
    ways = pairs.followed(triples, rules)
    whole = _followed(ways, torch.ones(len(triples), dtype=torch.bool))
    present = triples[:, 1].unique().tolist()
    relations = {graph.relations[r]: _followed(ways, triples[:, 1] == r) for r in present}
    return Leakage(split, whole, relations, tuple(sorted(stated, key=lambda rule: -rule.right)))


def _followed(ways: dict[str, Bool[Tensor, " n"]], chosen: Bool[Tensor, " n"]) -> Followed:
    found = {name: each[chosen] for name, each in ways.items()}
    found["by_another"] = found["inverse"] | found["duplicate"]
    found["any"] = found["by_another"] | found["itself"]
    return Followed(triples=int(chosen.sum()), **{name: int(each.sum()) for name, each in found.items()})


@dataclass(frozen=True)
class _Pairs:
    """The training triples as numbers of their pairs, ascending, each with its relation."""

    entities: int
    relations: int
    keys: Int[Tensor, " n"]
    kinds: Int[Tensor, " n"]

    @classmethod
    def of(cls, graph: Graph) -> _Pairs:
        entities, relations = len(graph.entities), len(graph.relations)
        heads, kinds, tails = graph.train.unique(dim=0).T if len(graph.train) else graph.train.T
        keys, order = (heads * entities + tails).sort(stable=True)
        return cls(entities, relations, keys, kinds[order])

    def links(
        self, heads: Int[Tensor, " m"], tails: Int[Tensor, " m"]
    ) -> tuple[Int[Tensor, " found"], Int[Tensor, " found"]]:
        """Return (row, relation) for every relation that leads from a head to its tail."""
        keys = heads * self.entities + tails
        start = torch.searchsorted(self.keys, keys)
        counts = torch.searchsorted(self.keys, keys, right=True) - start
        rows, within = numbered(counts)
        return rows, self.kinds[start[rows] + within]

    def rules(
        self, backwards: bool, confidence: float
    ) -> tuple[Int[Tensor, "rules 2"], Int[Tensor, " rules"], Int[Tensor, " rules"]]:
        """Return (relation, what it says), how many pairs the relation has, and how many of them are right."""
        heads, tails = self.keys // self.entities, self.keys % self.entities
        rows, says = self.links(tails, heads) if backwards else self.links(heads, tails)
        which = self.kinds[rows]
        if not backwards:  # that a relation says what it says is no rule
            which, says = which[which != says], says[which != says]
        codes, right = (which * self.relations + says).unique(return_counts=True)
        which, says = codes // self.relations, codes % self.relations
        cases = torch.bincount(self.kinds, minlength=self.relations)[which]
        good = (right >= confidence * cases) & (right >= SUPPORT)
        return torch.stack([which, says], dim=1)[good], cases[good], right[good]

    def followed(
        self, triples: Int[Tensor, "m 3"], rules: dict[bool, Int[Tensor, "rules 2"]]
    ) -> dict[str, Bool[Tensor, " m"]]:
        """Say of each triple whether it follows, by each of the ways, and whether its ends are linked at all."""
        found = {name: torch.zeros(len(triples), dtype=torch.bool) for name in (*WAYS, "linked")}
        for backwards in (False, True):
            heads, says, tails = triples.T
            rows, which = self.links(tails, heads) if backwards else self.links(heads, tails)
            found["linked"][rows] = True
            known = (rules[backwards] * torch.tensor([self.relations, 1])).sum(dim=1)
            rows, which = (each[torch.isin(which * self.relations + says[rows], known)] for each in (rows, which))
            own = which == says[rows]
            found["inverse" if backwards else "duplicate"][rows[~own]] = True
            found["itself"][rows[own & backwards]] = True
        return found
