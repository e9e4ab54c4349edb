"""Weights of paths, learned from training triples whose own edge is hidden.

Asked (x, ρ), the paths alone answer y with probability exp s(y) / Σ exp s, where s(y) = Σ_p w_p (1 + 0.3 log walks_p)
and 0 for an entity that no path leads to. Their weights minimise

    Σ −log P(y | x, ρ)  +  λ Σ (w − w⁰)²        w⁰_p = 0.3 log(1 + 1000 · confidence_p)

The loss is convex, and directions do not meet in it. Other training answers of a query are left out, as ranking does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from procrustes_kge.graphs.known_answers import KnownAnswers
from procrustes_kge.linalg import bag_sum, run_sum, starts
from procrustes_kge.models.paths import Found, Paths, strength
from procrustes_kge.models.predictor import Ids

PULL = 0.5  # λ: as much as half a query
DOUBT = 5  # walks that led to no answer, added to those that were seen: what was seen twice is not certain
STARTS_AT, FLOOR = 0.3, 1e-3  # of w⁰: several paths often say the same, so each begins with a part of what it says
STEPS = 40  # of L-BFGS: the loss moves no more in the fourth digit
QUERIES_AT_ONCE = 128


@dataclass(frozen=True)
class Examples:
    """Queries with an answer each, and which paths lead from them to the answer or to entities that are none."""

    found: Found
    many: int  # queries
    entities: int
    cells: Int[Tensor, " cells"]  # each pair of query and entity that a path joins, as row · N + entity
    offsets: Int[Tensor, " cells_and_one"]
    answers: Int[Tensor, " answered"]  # the cells that are the answer of their query

    @classmethod
    def of(cls, paths: Paths, edges: KnownAnswers, heads: Ids, directions: Ids, answers: Ids) -> Examples:
        """Walk the paths of each query, with the edge to its answer hidden."""
        parts = []
        for some in torch.arange(len(heads), device=heads.device).split(QUERIES_AT_ONCE):
            found = paths.found(edges, heads[some], directions[some], hidden=answers[some])
            rows = some[found.rows]
            known = edges.hold(heads[rows], directions[rows], found.entities[:, None])[:, 0]
            left = torch.nonzero(~known | (found.entities == answers[rows])).flatten()
            parts.append(Found(rows[left], *(each[left] for each in found[1:])))
        found = Found(*(torch.cat(each) for each in zip(*parts, strict=True)))
        cells, offsets = found.cells(edges.entities)
        hits = cells % edges.entities == answers[cells // edges.entities]
        return cls(found, len(heads), edges.entities, cells, offsets, torch.nonzero(hits).flatten())

    def confidences(self, paths: int) -> tuple[Float[Tensor, " paths"], Int[Tensor, " paths"]]:
        """Return hits / (pairs + 5) of each path: pairs of query and entity that it joins, and hits, the true ones."""
        true = torch.zeros(len(self.cells), dtype=torch.bool, device=self.cells.device)
        true[self.answers] = True
        true = true.repeat_interleave(self.offsets.diff())
        pairs = torch.bincount(self.found.paths, minlength=paths)
        hits = torch.bincount(self.found.paths[true], minlength=paths)
        return hits / (pairs + DOUBT), hits


def first_weights(confidences: Float[Tensor, " paths"]) -> Float[Tensor, " paths"]:
    """Return w⁰ = 0.3 log(1 + 1000 · confidence)."""
    return STARTS_AT * (confidences / FLOOR).log1p()


def learned_weights(examples: Examples, begin: Float[Tensor, " paths"]) -> Float[Tensor, " paths"]:
    """Return the weights of least loss."""
    loss = _Loss(examples, begin)
    weights = begin.clone().requires_grad_()
    optimiser = torch.optim.LBFGS([weights], max_iter=STEPS, line_search_fn="strong_wolfe")

    def closure() -> float:
        value, weights.grad = loss(weights.detach())
        return value

    optimiser.step(closure)
    return weights.detach()


class _Loss:
    """The loss of weights, divided by the queries, and its gradient."""

    def __init__(self, examples: Examples, begin: Float[Tensor, " paths"]) -> None:
        self.examples, self.begin = examples, begin
        self.strengths = strength(examples.found.counts)
        rows = examples.cells // examples.entities
        self.queries, sizes = rows.unique_consecutive(return_counts=True)
        self.query_starts, self.of_query = (
            starts(sizes),
            torch.arange(len(sizes), device=rows.device).repeat_interleave(sizes),
        )
        # By path as well, for the gradient: sums in a fixed order repeat on a GPU too.
        self.by_path = examples.found.paths.argsort(stable=True)
        self.path_starts = starts(torch.bincount(examples.found.paths, minlength=len(begin)))
        self.of_cell = torch.arange(len(examples.cells), device=rows.device).repeat_interleave(examples.offsets.diff())

    def __call__(self, weights: Float[Tensor, " paths"]) -> tuple[float, Float[Tensor, " paths"]]:
        examples = self.examples
        scores = run_sum((weights[examples.found.paths] * self.strengths)[:, None], examples.offsets)[:, 0]
        # Entities without a path have score 0, and so has every entity of a query that no path leaves.
        others = examples.entities - self.query_starts.diff()
        top = torch.segment_reduce(scores, "max", offsets=self.query_starts, initial=0.0)
        shares = (scores - top[self.of_query]).exp()
        total = run_sum(shares[:, None], self.query_starts)[:, 0] + others * (-top).exp()
        shares /= total[self.of_query]
        loss = (total.log() + top).double().sum() - scores[examples.answers].double().sum()
        shares[examples.answers] -= 1
        gradient = bag_sum((shares[self.of_cell] * self.strengths)[:, None], self.by_path, self.path_starts)[:, 0]
        pulled = weights - self.begin
        loss = loss + PULL * pulled.double().square().sum()
        return float(loss) / examples.many, (gradient + 2 * PULL * pulled) / examples.many
