"""Where entities lie among others that stay: the solution of the training objective with all else held fixed.

For an entity x, with n the answers of a query and v = n^(crowd − 1) what each weighs, it is

    f(x) = Σ v (n log Z(q_x) − Σ q_x · a)                of the queries about x
         + Σ v (n log(1 + e^{q·x} / Z_q) − q · x)        of those that x answers
         + Σ v n log(1 + e^{q·x} / Z_q)                  of all others: drawn ones stand for them
         + λ Σ v n (‖x‖^p + ω ‖q_x‖^p) + 2 λ Σ v ‖x‖^p   which holds it short
         − μ Σ v log p(direction | x, y)                 where training predicts relations too

Scores are linear in x, so f is convex. The mean of where neighbours want x has its direction, roughly, and not its
length, which says how sure a softmax is. Several entities that know each other move at once, the others as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus

from procrustes_kge.explore.updates.comparing import NUMBERS_AT_ONCE, Compared, Questions, drawn
from procrustes_kge.explore.updates.scorers import Points, Rows, Scorer
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.queries import group_by_query

OTHERS = 2**12  # queries about others that an entity is held away from, where there are more


class _Losses(NamedTuple):
    """Parts of the objective, and in which of them each mover takes part."""

    values: Float[Tensor, " parts"]
    parts: Int[Tensor, " takers"]
    movers: Int[Tensor, " takers"]


class _Fixed(NamedTuple):
    """Queries about entities that stay: as points, with log Z without those that move."""

    points: Points
    logs: Float[Tensor, " queries"]
    mass: Float[Tensor, " queries"]


class Placing:
    """The objective of some entities of a graph, the movers, given all others."""

    def __init__(self, scorer: Scorer, graph: Graph, movers: Int[Tensor, " movers"], seed: int = 0) -> None:
        self.scorer, device, self.entities = scorer, scorer.table.device, len(graph.entities)
        self.movers = movers.to(device)
        self.place = torch.full((self.entities,), -1, device=device)
        self.place[self.movers] = torch.arange(len(movers), device=device)
        generator = torch.Generator().manual_seed(seed)
        self.compared = Compared(scorer, generator)
        self.staying = scorer.table[self.place < 0].sum(dim=0, keepdim=True)
        self.at_once = self.compared.at_once
        queries = group_by_query(graph.train.to(device), self.entities, len(graph.relations))
        moves = self.place[queries.entities] >= 0
        self.asked = Questions.of(queries, torch.nonzero(moves).flatten())
        rest = torch.nonzero(~moves).flatten()
        everything = Questions.of(queries, rest)
        answered = torch.zeros(len(rest), dtype=torch.bool, device=device)
        answered[everything.places[self.place[everything.answers] >= 0]] = True
        self.answered, self.known = self.fixed(Questions.of(queries, rest[answered]))
        numbers = rest[drawn(len(rest), OTHERS, generator).to(device)]
        self.others, self.drawn = self.fixed(Questions.of(queries, numbers))
        share = self.mass(queries.counts[rest]).sum() / self.drawn.mass.sum().clamp_min(1)
        self.drawn = self.drawn._replace(mass=share * self.drawn.mass)

    def mass(self, counts: Int[Tensor, " queries"]) -> Float[Tensor, " queries"]:
        """Return what all answers of queries weigh together: v n = n^crowd."""
        return counts.to(self.scorer.table.dtype) ** self.scorer.crowd

    def fixed(self, questions: Questions) -> tuple[Questions, _Fixed]:
        """Compare queries about entities that stay with candidates, and with their own answers that stay."""
        scorer = self.scorer
        points, logs = [scorer.table[:0]], [scorer.table.new_empty(0)]
        for some in questions.parts(self.at_once):
            points.append(scorer.query(scorer.table[some.entities], some.directions))
            logs.append(self.log_sums(points[-1], some)[0])
        points = points[1:] or points
        return questions, _Fixed(torch.cat(points), torch.cat(logs), self.mass(questions.counts))

    def rows_of(self, entities: Int[Tensor, " some"], moved: Rows | None) -> Rows:
        """Return the rows of entities, those that move as they are now."""
        rows = self.scorer.table[entities]
        if moved is None:
            return rows
        places = self.place[entities]
        return torch.where((places >= 0)[:, None], moved[places.clamp_min(0)], rows)

    def log_sums(self, points: Points, some: Questions, moved: Rows | None = None) -> tuple[Tensor, Tensor]:
        """Return log Z of queries, and the scores of their answers; without `moved`, movers are left out of Z."""
        candidates = self.rows_of(self.compared.candidates, moved)
        counts = self.place < 0 if moved is None else None
        return self.compared.log_sums(points, some, self.rows_of(some.answers, moved), candidates, counts)

    def loss(self, moved: Rows) -> Float[Tensor, " movers"]:
        """Return f of each mover, and add its gradient to that of `moved`."""
        total = torch.zeros(len(moved), dtype=moved.dtype, device=moved.device)
        for values, parts, takers in self.terms(moved):
            values.sum().backward()
            total.index_add_(0, takers, values.detach()[parts])
        return total

    def terms(self, moved: Rows) -> Iterator[_Losses]:
        """Yield the parts of f, few enough at a time to be held."""
        everybody = torch.arange(len(moved), device=moved.device)
        for some in self.asked.parts(self.at_once):
            yield self.of_asked(moved, some)
        if len(self.answered.entities):
            yield self.of_answered(moved)
        numbers = torch.arange(len(self.others.entities), device=moved.device)
        for part in numbers.split(self.queries_at_once(moved)):
            yield _Losses(self.of_others(moved, part), everybody, everybody)
        if self.scorer.directions is not None:
            yield from self.of_pairs(moved)

    def of_asked(self, moved: Rows, some: Questions) -> _Losses:
        """Return the part of f that queries about movers have."""
        scorer, held, mass = self.scorer, self.scorer.held, self.mass(some.counts)
        rows = self.rows_of(some.entities, moved)
        points = scorer.query(rows, some.directions)
        logs, reached = self.log_sums(points, some, moved)
        mean = torch.zeros_like(logs).index_add(0, some.places, reached) / some.counts
        if scorer.smoothing:
            usual = (self.staying + moved.sum(dim=0)) / self.entities
            smooth = scorer.paired(points, usual.expand(len(points), -1))
            mean = (1 - scorer.smoothing) * mean + scorer.smoothing * smooth
        losses = mass * (logs - mean)
        if held.asked:
            losses = losses + held.asked * mass * held.of(rows)
        if held.query:
            losses = losses + held.query * mass * held.of(points[:, : rows.shape[1]])
        asked, answer = self.place[some.entities], self.place[some.answers]
        moves = torch.nonzero((answer >= 0) & (answer != asked[some.places])).flatten()
        numbers = torch.arange(len(asked), device=asked.device)
        return _Losses(losses, torch.cat([numbers, some.places[moves]]), torch.cat([asked, answer[moves]]))

    def of_answered(self, moved: Rows) -> _Losses:
        """Return the part of f that queries about others have which movers answer."""
        ours = self.place[self.answered.answers] >= 0
        places, movers = self.answered.places[ours], self.place[self.answered.answers[ours]]
        rows, mass, held = moved[movers], self.known.mass[places], self.scorer.held
        weight = mass / self.answered.counts[places]
        scores = self.scorer.paired(self.known.points[places], rows)
        others = self.others_of(moved, self.known, places, movers, scores.detach())
        smoothing = self.scorer.smoothing
        target = (1 - smoothing) * weight + smoothing / self.entities * mass
        losses = mass * softplus(scores - others) - target * scores
        if held.answer:
            losses = losses + held.answer * weight * held.of(rows)
        return _Losses(losses, torch.arange(len(losses), device=losses.device), movers)

    def others_of(
        self, moved: Rows, fixed: _Fixed, places: Tensor, movers: Tensor, scores: Tensor
    ) -> Float[Tensor, " pairs"]:
        """Return log Z of queries without one mover each, the others as they are now."""
        with torch.no_grad():
            sums = [fixed.logs[:0]]
            for part in torch.arange(len(fixed.logs), device=moved.device).split(self.queries_at_once(moved)):
                all_scores = self.scorer.scores(fixed.points[part], moved)
                sums.append(torch.logaddexp(fixed.logs[part], all_scores.logsumexp(dim=1)))
            whole, known = torch.cat(sums)[places], fixed.logs[places]
            # log(Z − e^s), at least what those that stay have.
            return torch.maximum(whole + torch.log1p(-(scores - whole).exp().clamp(max=1 - 1e-6)), known)

    def queries_at_once(self, moved: Rows) -> int:
        """Return how many queries to compare with all movers at once."""
        return max(1, NUMBERS_AT_ONCE // len(moved))

    def of_others(self, moved: Rows, part: Int[Tensor, " part"]) -> Float[Tensor, " movers"]:
        """Return the part of f that drawn queries have, some of them, where movers do not answer them."""
        logs, mass = self.drawn.logs[part, None], self.drawn.mass[part, None]
        scores = self.scorer.scores(self.drawn.points[part], moved)
        with torch.no_grad():  # the other movers are negatives too, as they are now
            top = torch.maximum(logs, scores.amax(dim=1, keepdim=True))
            each, known = (scores - top).exp(), (logs - top).exp().clamp_min(torch.finfo(scores.dtype).tiny)
            others = top + (each.sum(dim=1, keepdim=True) + known - each).clamp_min(known).log()
        losses = mass * softplus(scores - others)
        if self.scorer.smoothing:
            losses = losses - self.scorer.smoothing / self.entities * mass * scores
        return losses.masked_fill(self.own(part, len(moved)), 0).sum(dim=0)

    def own(self, part: Int[Tensor, " part"], movers: int) -> Bool[Tensor, "part movers"]:
        """Say which movers answer which of some drawn queries, which follow each other."""
        ends = torch.stack([part[0], part[-1] + 1])
        mine = slice(*torch.searchsorted(self.others.places, ends).tolist())
        places, answers = self.others.places[mine] - part[0], self.place[self.others.answers[mine]]
        found = torch.zeros(len(part), movers, dtype=torch.bool, device=part.device)
        found[places[answers >= 0], answers[answers >= 0]] = True
        return found

    def of_pairs(self, moved: Rows) -> Iterator[_Losses]:
        """Yield the part of f that predicting relations has."""
        assert self.scorer.directions is not None
        for questions in (self.asked, self.answered):
            weights = self.mass(questions.counts) / questions.counts
            ours = (self.place[questions.entities] >= 0)[questions.places] | (self.place[questions.answers] >= 0)
            for some in torch.nonzero(ours).flatten().split(self.scorer.pairs_at_once):
                places, answers = questions.places[some], questions.answers[some]
                asked = questions.entities[places]
                scores = self.scorer.directions(self.rows_of(asked, moved), self.rows_of(answers, moved))
                losses = cross_entropy(scores, questions.directions[places], reduction="none")
                losses = self.scorer.relation_weight * weights[places] * losses
                ends = torch.stack([self.place[asked], torch.where(asked == answers, -1, self.place[answers])])
                numbers = torch.arange(len(losses), device=losses.device).expand_as(ends)
                yield _Losses(losses, numbers[ends >= 0], ends[ends >= 0])
