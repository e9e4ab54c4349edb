"""What the triples say of a property: how many triples of a relation another way leads to as well."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.known_answers import KnownAnswers

SAMPLE = 2000  # triples of a relation that are looked at
WALKED_AT_ONCE = 64


class TripleChecks:
    """The training triples, asked whether they say what the matrices say.

    Directions are numbered as everywhere: r leads from heads to tails, r + R back.
    """

    def __init__(self, graph: Graph, seed: int = 0) -> None:
        self.relations, self.train = len(graph.relations), graph.train
        self.known = KnownAnswers.of(graph, splits=("train",))
        self.seed = seed

    def share(self, relation: int, steps: Sequence[int], exchanged: bool = False) -> float | None:
        """Return the share of a relation's triples whose head the steps lead to the tail as well; None without triples.

        With `exchanged`, tails are exchanged among the triples: the share that chance gives.
        """
        heads, tails = self._sample(relation, exchanged)
        return float(self._leads(heads, steps, tails).double().mean()) if len(heads) else None

    def upwards(self, relation: int, exchanged: bool = False) -> float | None:
        """Return the share of a relation's triples that lie on no way from an entity back to itself.

        Entities that nothing leads to, or from, are taken away again and again; what remains goes in circles, or lies
        between two of them.
        """
        heads, tails = self._pairs(relation)
        if not len(heads):
            return None
        if exchanged:
            tails = tails[torch.randperm(len(tails), generator=torch.Generator().manual_seed(self.seed))]
        left = torch.ones(len(heads), dtype=torch.bool)
        for _ in range(len(heads)):
            from_somewhere = torch.isin(heads, tails[left])
            to_somewhere = torch.isin(tails, heads[left])
            still = left & from_somewhere & to_somewhere
            if still.equal(left):
                break
            left = still
        return 1 - float(left.double().mean())

    def ends(self, relation: int) -> tuple[int, int]:
        """Return how many heads and how many tails a relation has."""
        heads, tails = self._pairs(relation)
        return len(heads.unique()), len(tails.unique())

    def count(self, relation: int) -> int:
        """Return how many training triples a relation has."""
        return int((self.train[:, 1] == relation).sum())

    def _pairs(self, relation: int) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
        heads, _, tails = self.train[self.train[:, 1] == relation].T
        return heads, tails

    def _sample(self, relation: int, exchanged: bool) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
        heads, tails = self._pairs(relation)
        generator = torch.Generator().manual_seed(self.seed)
        order = torch.randperm(len(heads), generator=generator)
        some, others = order[:SAMPLE], order[torch.randperm(len(heads), generator=generator)][:SAMPLE]
        return heads[some], tails[others if exchanged else some]

    def _leads(self, heads: Int[Tensor, " n"], steps: Sequence[int], tails: Int[Tensor, " n"]) -> Bool[Tensor, " n"]:
        """Say of which heads the steps lead to the tails."""
        *before, last = steps
        if not before:
            return self.known.hold(heads, torch.full_like(heads, last), tails[:, None])[:, 0]
        found = torch.zeros(len(heads), dtype=torch.bool)
        for some in torch.arange(len(heads)).split(WALKED_AT_ONCE):
            rows, middles = self.known.look_up(heads[some], torch.full_like(some, before[0]))
            ends = tails[some][rows]
            reached = self.known.hold(middles, torch.full_like(middles, last), ends[:, None])[:, 0]
            found[some[rows[reached]]] = True
        return found
