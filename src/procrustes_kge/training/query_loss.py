"""The loss of a batch of queries, for autograd to differentiate."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.known_answers import KnownAnswers
from procrustes_kge.graphs.queries import both_queries
from procrustes_kge.models.baselines.embedded import Encoded, rows
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.training.losses import LOSSES, kvsall
from procrustes_kge.training.supervised_settings import TrainSettings

FAR = -1e6  # a score that no loss counts
COUNTED_BEFORE = 3  # an only answer counts as four


class QueryLoss:
    """The queries of a graph's training triples by number, and the loss of any of them.

    Where all answers of a query are learned at once (kvsall), queries are those that differ; else each triple asks two.
    """

    def __init__(self, graph: Graph, model: TrainedBaseline, settings: TrainSettings, random: torch.Generator) -> None:
        self.model, self.settings, self.random = model, settings, random
        triples = graph.train.to(random.device)
        self.known = KnownAnswers.of(graph, ["train"], random.device)
        self.asked, self.directions, self.answers = both_queries(triples, len(graph.relations))
        counts = self.known.count(self.asked, self.directions) + COUNTED_BEFORE
        self.answered = counts.view(2, -1).sum(dim=0).repeat(2).float()  # of both queries of a triple

    @property
    def count(self) -> int:
        """How many queries there are."""
        return len(self.known.queries) if self.settings.negatives == "kvsall" else len(self.asked)

    def answers_of(self, numbers: Int[Tensor, " b"]) -> tuple[Int[Tensor, " found"], Int[Tensor, " found"]]:
        """Return (place in the batch, answer) for every answer of queries that differ."""
        return self.known.look_up(*self.different(numbers))

    def different(self, numbers: Int[Tensor, " b"]) -> tuple[Int[Tensor, " b"], Int[Tensor, " b"]]:
        """Return entity and direction of queries that differ."""
        return self.known.queries.entities[numbers], self.known.queries.directions[numbers]

    def __call__(self, numbers: Int[Tensor, " b"], *answers: Int[Tensor, " found"]) -> Float[Tensor, ""]:
        """Return the loss of a batch."""
        return self.of_queries(numbers, *answers) if self.settings.negatives == "kvsall" else self.of_triples(numbers)

    def of_triples(self, numbers: Int[Tensor, " b"]) -> Float[Tensor, ""]:
        """Return the loss of queries with one answer each."""
        settings, model = self.settings, self.model
        asked, directions, answers = self.asked[numbers], self.directions[numbers], self.answers[numbers]
        encoded = model.encode()
        # A model that looks at neighbours must not see the answer among them.
        hidden = {"answers": answers} if model.module.sees_answers else {}
        queries = model.module.query(encoded, asked, directions, **hidden)
        if isinstance(settings.negatives, int):
            reached = model.scores(encoded, queries, answers[:, None])[:, 0]
            drawn = self.drawn_scores(encoded, queries, asked, directions, settings.negatives)
            losses = LOSSES[settings.loss](reached, drawn, settings)
        else:
            scores = model.scores(encoded, queries)
            losses = cross_entropy(scores, answers, label_smoothing=settings.label_smoothing, reduction="none")
        if settings.subsampling:
            shares = self.answered[numbers].rsqrt()
            losses = losses * shares / shares.mean()
        return losses.mean() + self.regularisation(encoded, queries, asked, directions, answers)

    def drawn_scores(
        self, encoded: Encoded, queries: Tensor, asked: Tensor, directions: Tensor, count: int
    ) -> Float[Tensor, "b k"]:
        """Return the scores of drawn entities; one that is an answer too counts as if it were far away."""
        model, alike = self.model, self.settings.shared_negatives
        shape = (count,) if alike else (len(asked), count)
        candidates = torch.randint(len(model.entities), shape, device=asked.device, generator=self.random)
        scores = (
            model.scores(encoded.only(candidates), queries) if alike else model.scores(encoded, queries, candidates)
        )
        return scores.masked_fill(self.known.hold(asked, directions, candidates), FAR)

    def of_queries(
        self, numbers: Int[Tensor, " b"], places: Int[Tensor, " found"], answers: Int[Tensor, " found"]
    ) -> Float[Tensor, ""]:
        """Return the loss of queries with all their answers, and the place of the query that each is for."""
        settings, model = self.settings, self.model
        asked, directions = self.different(numbers)
        encoded = model.encode()
        queries = model.query(encoded, asked, directions)
        scores = model.scores(encoded, queries)
        labels = torch.zeros_like(scores, memory_format=torch.contiguous_format)
        labels.view(-1).index_fill_(0, places * labels.shape[1] + answers, 1.0)
        loss = kvsall(scores, labels, settings)
        return loss + self.regularisation(encoded, queries, asked[places], directions[places], answers)

    def regularisation(
        self, encoded: Encoded, queries: Tensor, asked: Tensor, directions: Tensor, answers: Tensor
    ) -> Float[Tensor, ""] | float:
        """Return what the regulariser adds to the loss of a batch, per triple."""
        settings = self.settings
        if settings.regulariser == "none" or not settings.regularisation:
            return 0.0
        if settings.regulariser == "dura":
            # The vector of a query alone: some models append what else a comparison needs.
            entities = encoded.entities
            parts = [queries[:, : entities.shape[1]].square(), rows(entities, answers).square()]
        else:
            power = {"n2": 2, "n3": 3}[settings.regulariser]
            factors = self.model.module.factors(encoded, asked, directions, answers)
            parts = [part.abs() ** power for part in factors]
        return settings.regularisation * sum(part.sum() / len(part) for part in parts)
