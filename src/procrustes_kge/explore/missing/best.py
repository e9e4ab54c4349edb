"""The best K of many triples, as they are found: in one order whatever the order in which they come."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Best:
    """At most k triples, in the order of (−key, −score, relation, head, tail).

    The key is what relations are compared by: the score itself, or the probability that is made of it, in float64.
    """

    k: int
    keys: Float[Tensor, " n"]
    scores: Float[Tensor, " n"]
    triples: Int[Tensor, "n 3"]

    @classmethod
    def none(cls, k: int) -> Best:
        """Return none yet."""
        return cls(k, torch.empty(0, dtype=torch.float64), torch.empty(0), torch.empty(0, 3, dtype=torch.int64))

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def least(self) -> float:
        """The key of the last, which a further triple has to reach once there are k."""
        return float(self.keys[-1])

    def joined(self, keys: Float[Tensor, " m"], scores: Float[Tensor, " m"], triples: Int[Tensor, "m 3"]) -> Best:
        """Return the best of these and others."""
        if not len(scores):
            return self
        keys, scores = torch.cat([self.keys, keys]), torch.cat([self.scores, scores])
        triples = torch.cat([self.triples, triples])
        if len(scores) > 4 * self.k:  # most of them cannot be among the best, and need not be sorted
            kept = keys >= keys.topk(self.k, sorted=False).values.min()
            keys, scores, triples = keys[kept], scores[kept], triples[kept]
        order = torch.arange(len(scores))
        for column in (triples[:, 2], triples[:, 0], triples[:, 1], -scores, -keys):  # the last one counts most
            order = order[column[order].argsort(stable=True)]
        order = order[: self.k]
        return Best(self.k, keys[order], scores[order], triples[order])
