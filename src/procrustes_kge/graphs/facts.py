"""What a graph holds, as numpy arrays: the known answers of a query with their splits, and what an entity is known as.

A direction is a relation asked for tails (r) or for heads (r + R). Nothing here loads PyTorch.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from procrustes_kge.graphs.vocabulary import SPLITS

Triples = Int[np.ndarray, "n 3"]
# The share of a relation's training triples that lead from an entity to itself, from which on an entity may answer a
# query about itself. Below that, leaving it out is wrong for fewer than one query in a hundred; left in, it often comes
# first, because a vector that is hardly rotated stays nearest to itself.
LOOPS = 0.01


class _Index(NamedTuple):
    keys: Int[np.ndarray, " twice_n"]  # direction · N + entity, ascending
    answers: Int[np.ndarray, " twice_n"]
    splits: Int[np.ndarray, " twice_n"]


class Facts:
    """The triples of all splits; a single question is answered by looking through them, many by an index."""

    def __init__(self, splits: Mapping[str, Triples], entities: int, relations: int) -> None:
        self.splits = {name: splits[name] for name in SPLITS if name in splits}
        self.entities, self.relations = entities, relations
        self._loops: dict[int, bool] = {}
        self._indexed = False

    def __len__(self) -> int:
        return sum(map(len, self.splits.values()))

    def prepare(self) -> None:
        """Make an index, which is worth its time before many questions."""
        self._indexed = True

    @cached_property
    def _index(self) -> _Index:
        keys, answers, splits = [], [], []
        for number, triples in enumerate(self.splits.values()):
            heads, relations, tails = triples.T
            keys += [relations * self.entities + heads, (relations + self.relations) * self.entities + tails]
            answers += [tails, heads]
            splits += [np.full(2 * len(triples), number)]
        joined = [np.concatenate(part) if part else np.empty(0, dtype=np.int64) for part in (keys, answers, splits)]
        order = np.argsort(joined[0], kind="stable")
        return _Index(*(part[order] for part in joined))

    def answers(self, entity: int, direction: int) -> dict[int, str]:
        """Return the answers that are known, each with the first split that holds it."""
        found: dict[int, str] = {}
        if self._indexed:
            key, names = direction * self.entities + entity, tuple(self.splits)
            first, end = np.searchsorted(self._index.keys, [key, key + 1])
            held = zip(self._index.answers[first:end].tolist(), self._index.splits[first:end].tolist(), strict=True)
            for answer, number in sorted(held, key=lambda each: each[1]):
                found.setdefault(answer, names[number])
            return found
        asks_head, relation = divmod(direction, self.relations)
        asked, wanted = (2, 0) if asks_head else (0, 2)
        for split, triples in self.splits.items():
            rows = (triples[:, 1] == relation) & (triples[:, asked] == entity)
            for answer in triples[rows, wanted].tolist():
                found.setdefault(answer, split)
        return found

    def relations_of(self, head: int, tail: int) -> dict[int, str]:
        """Return the relations that are known to lead from a head to a tail, each with its split."""
        found: dict[int, str] = {}
        for split, triples in self.splits.items():
            rows = (triples[:, 0] == head) & (triples[:, 2] == tail)
            for relation in triples[rows, 1].tolist():
                found.setdefault(relation, split)
        return found

    def along(self, entity: int, path: Sequence[int]) -> dict[int, str]:
        """Return where a path of directions leads to, step by known step; the split is that of its latest step."""
        found = {entity: SPLITS[0]}
        for direction in path:
            reached: dict[int, str] = {}
            for place, before in found.items():
                for answer, split in self.answers(place, direction).items():
                    later = max(before, split, key=SPLITS.index)
                    reached[answer] = min(reached.get(answer, later), later, key=SPLITS.index)
            found = reached
        return found

    def may_answer_itself(self, entity: int, direction: int) -> bool:
        """Say whether an entity may be related to itself: this very triple is known, or training has enough like it."""
        relation = direction % self.relations
        if relation not in self._loops:
            triples = self.splits.get(SPLITS[0], np.empty((0, 3), dtype=np.int64))
            ends = triples[triples[:, 1] == relation]
            self._loops[relation] = bool((ends[:, 0] == ends[:, 2]).sum() >= LOOPS * len(ends))
        return self._loops[relation] or entity in self.answers(entity, relation)
