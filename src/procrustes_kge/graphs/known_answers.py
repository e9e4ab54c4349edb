"""Known answers of queries: ranking filters them, and they are never used as negatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from procrustes_kge.graphs.graph import SPLITS, Graph
from procrustes_kge.graphs.queries import LARGEST, Queries, group_by_query
from procrustes_kge.linalg import numbered

PerQuery = Int[Tensor, " b"]  # for each query of a batch
_made: WeakKeyDictionary[Graph, KnownAnswers] = WeakKeyDictionary()
_lock = Lock()


def known_answers(graph: Graph, device: torch.device | str = "cpu") -> KnownAnswers:
    """Return the known answers from all splits, computed once per graph and kept on the last device used."""
    with _lock:
        found = _made.get(graph)
        if found is None or found.queries.answers.device != torch.empty(0, device=device).device:
            found = _made[graph] = KnownAnswers.of(graph, device=device)
        return found


@dataclass(frozen=True)
class KnownAnswers:
    """Every true answer of every query (entity, direction), once each; direction r + R asks for heads."""

    entities: int
    queries: Queries

    @classmethod
    def of(cls, graph: Graph, splits: Sequence[str] = SPLITS, device: torch.device | str = "cpu") -> KnownAnswers:
        """Collect the answers that the given splits hold."""
        triples = torch.cat([graph.split(split) for split in splits]).to(device)
        return cls(len(graph.entities), group_by_query(triples, len(graph.entities), len(graph.relations)))

    def to(self, device: torch.device) -> KnownAnswers:
        """Return the same answers on another device."""
        return KnownAnswers(self.entities, self.queries.to(device))

    @cached_property
    def _keys(self) -> Int[Tensor, " queries_and_one"]:
        """Each query as one number, ascending; the last is larger than any, so that every search finds one."""
        return _closed(self.queries.directions * self.entities + self.queries.entities)

    @cached_property
    def _pairs(self) -> Int[Tensor, " answers_and_one"]:
        """The number of a query and its answer as one number, ascending, with a last one likewise."""
        numbers = torch.arange(len(self.queries), device=self._keys.device)
        return _closed(numbers.repeat_interleave(self.queries.counts) * self.entities + self.queries.answers)

    @cached_property
    def _counts(self) -> Int[Tensor, " queries_and_one"]:
        """How many answers each query has; the last stands for all that have none."""
        return torch.cat([self.queries.counts, self.queries.offsets.new_zeros(1)])

    def _numbers(self, entities: PerQuery, directions: PerQuery) -> PerQuery:
        """Return the place of each query among those with answers, or how many those are where it has none."""
        keys = directions * self.entities + entities
        numbers = torch.searchsorted(self._keys, keys)
        return torch.where(self._keys[numbers] == keys, numbers, len(self.queries))

    def look_up(self, entities: PerQuery, directions: PerQuery) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
        """Return (row, answer) for every known answer of every query in the batch, rows ascending."""
        numbers = self._numbers(entities, directions)
        rows, within = numbered(self._counts[numbers])
        return rows, self.queries.answers[self.queries.offsets[numbers][rows] + within]

    def count(self, entities: PerQuery, directions: PerQuery) -> PerQuery:
        """Return how many answers of each query are known."""
        return self._counts[self._numbers(entities, directions)]

    def hold(self, entities: PerQuery, directions: PerQuery, candidates: Int[Tensor, "*b k"]) -> Bool[Tensor, "b k"]:
        """Return which candidates are answers; the candidates are given for each query, or shared by all."""
        pairs = self._numbers(entities, directions)[:, None] * self.entities + candidates
        return self._pairs[torch.searchsorted(self._pairs, pairs)] == pairs


def _closed(keys: Int[Tensor, " keys"]) -> Int[Tensor, " keys_and_one"]:
    return torch.cat([keys, keys.new_full((1,), LARGEST)])
