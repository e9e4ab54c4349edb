"""train(): the baselines, in mini-batches, by gradient.

    questions ─encode, query→ queries ─scores→ scores ─loss→ gradient ─Adam or Adagrad→ weights

A question is an entity and a direction: r asks for tails, r + R for heads. Labels, filters and negatives are made on
the device; nothing is loaded while training goes on.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NoReturn

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from procrustes_kge.errors import DivergedError, InputError
from procrustes_kge.graphs.graph import Graph, Vocabulary
from procrustes_kge.graphs.known_answers import KnownAnswers
from procrustes_kge.models.answers import Answering
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.baselines.embedded import rows, sees_answers
from procrustes_kge.models.ranking import rank
from procrustes_kge.system.cuda_graphs import Captured
from procrustes_kge.system.devices import (
    choose_device,
    deterministic_algorithms,
    exact_products,
    rough_products,
    told_of_no_room,
)
from procrustes_kge.training.full_batch import Progress, Report, check_trainable
from procrustes_kge.training.losses import LOSSES, of_labels
from procrustes_kge.training.supervised_settings import TrainSettings

VALIDATION_TRIPLES = 2000
SCORES_AT_ONCE = 2**27  # of a batch; what is computed from them takes several times as much
FAR = -1e6  # a score that no loss counts


@dataclass(frozen=True)
class Trained(Answering):
    """A baseline that has learned, with the names of what it knows."""

    settings: TrainSettings
    entities: Vocabulary
    relations: Vocabulary
    module: nn.Module

    @property
    def name(self) -> str:
        """Which baseline it is."""
        return self.settings.model

    @property
    def table(self) -> Float[Tensor, "entities d"]:
        """The vectors of entities, as questions see them."""
        return self.encode().entities.detach()

    def to(self, device: torch.device | str) -> Trained:
        """Return the same model on another device."""
        return replace(self, module=copy.deepcopy(self.module).to(device))

    def encode(self, graph: Graph | None = None) -> Any:
        """Return the tables that questions are asked of."""
        return self.module.encode(graph)  # type: ignore[operator]

    def query(self, encoded: Any, heads: Int[Tensor, " b"], relations: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
        """Return the point where the answer to each question should lie."""
        return self.module.query(encoded, heads, relations)  # type: ignore[operator]

    def scores(
        self, encoded: Any, queries: Float[Tensor, "b d"], candidates: Int[Tensor, "b k"] | None = None
    ) -> Float[Tensor, "b n"]:
        """Return how well each entity, or each given candidate, answers each query."""
        return self.module.scores(encoded, queries, candidates)  # type: ignore[operator]


def train(graph: Graph, settings: TrainSettings | None = None, report: Report | None = None) -> Trained:
    """Return the baseline that these settings learn from the graph's training triples.

    The validation triples choose the epoch whose weights are kept, unless `patience` is 0 or there are none.
    """
    settings = settings or TrainSettings()
    check_trainable(graph)
    if len(graph.entities) < 2:
        raise InputError(f"the graph {graph.name} has one entity: there is nothing to tell it from")
    check_negatives(graph, settings)
    device = choose_device(settings.device)
    fewer = "a smaller --dim or --batch" + (", fewer --against, or --shared" if settings.against != "all" else "")
    with (
        torch.cuda.device(device) if device.type == "cuda" else nullcontext(),  # where steps are recorded
        deterministic_algorithms(settings.deterministic),
        _seeded(settings.seed, device),
        rough_products() if settings.tf32 else exact_products(),
        told_of_no_room(f"{settings.dim:,} numbers of each entity and what a step computes", fewer),
        torch.enable_grad(),
    ):
        training = _Training(graph, settings, device)
        try:
            training.run(report)
        finally:
            training.let_go()
    return training.learned


def check_negatives(graph: Graph, settings: TrainSettings) -> None:
    """Refuse more negatives than a graph has entities to draw."""
    count = len(graph.entities)
    if isinstance(settings.against, int) and settings.against >= count > 1:
        have = f"the graph {graph.name} has {count:,} entities"
        raise InputError(f"{settings.against} negatives, but {have}; try at most {count - 1}")


def built(graph: Graph, settings: TrainSettings) -> nn.Module:
    """Return an untrained model of a graph: it gets those settings that it names."""
    kind = BASELINES[settings.model]
    wanted = inspect.signature(kind).parameters
    known = {"entities": len(graph.entities), "relations": len(graph.relations), "edges": graph.train}
    for name in wanted:
        if name not in known and not hasattr(settings, name):
            raise InputError(f"{settings.model} is built with {name}, which is no setting; add it to TrainSettings")
    return kind(**{name: known[name] if name in known else getattr(settings, name) for name in wanted})


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Draw from a seed, and leave PyTorch's own generators as they were: torch.manual_seed would reach every GPU."""
    on_a_gpu = device.type == "cuda"
    with torch.random.fork_rng([device] if on_a_gpu else []):
        torch.default_generator.manual_seed(seed % 2**63)
        if on_a_gpu:
            torch.cuda.manual_seed(seed % 2**63)
        yield


class _Training:
    """One call of `train`: the questions, the model, and what has been best so far."""

    def __init__(self, graph: Graph, settings: TrainSettings, device: torch.device) -> None:
        self.graph, self.settings, self.device = graph, settings, device
        module, on_a_gpu = built(graph, settings).to(device), device.type == "cuda"
        self.model = Trained(settings, graph.entities, graph.relations, module)
        self.learned = replace(self.model, module=copy.deepcopy(module)) if settings.average else self.model
        self.step: torch.optim.Optimizer
        if settings.step == "adam" and on_a_gpu:  # a recorded step reads its rate where it lies
            rate = torch.tensor(settings.learning_rate, dtype=torch.float32, device=device)
            self.step = torch.optim.Adam(module.parameters(), rate, fused=True, capturable=True)
        else:
            kind = torch.optim.Adam if settings.step == "adam" else torch.optim.Adagrad
            self.step = kind(module.parameters(), settings.learning_rate)
        head, relation, tail = graph.train.to(device).unbind(dim=1)
        self.asked, self.answers = torch.cat([head, tail]), torch.cat([tail, head])
        self.directions = torch.cat([relation, relation + len(graph.relations)])
        self.labels = KnownAnswers.of(graph, ["train"], device)
        answers = self.labels.count(self.asked, self.directions) + 3  # an only one counts as four
        self.counts = answers.view(2, -1).sum(dim=0).repeat(2).float()  # of both questions of a triple
        self.sees_answers = sees_answers(type(module))
        self.known = KnownAnswers.of(graph, device=device) if settings.patience and len(graph.valid) else None
        # A recorded step is told the last of its answers over and over, which a penalty would count.
        counts_answers = settings.against == "labels" and settings.penalty != "none"
        self.captured = Captured(self.take) if on_a_gpu and not counts_answers else None

    def run(self, report: Report | None) -> None:
        """Train all epochs, or until validation says that it is enough, and keep the best weights."""
        settings, module = self.settings, self.learned.module
        best, waited, weights, mrr = -1.0, 0, None, None
        for epoch in range(1, settings.epochs + 1):
            loss = self.train_epoch()
            if not torch.isfinite(loss):
                self.give_up(f"the loss is no number after {epoch} epochs; try a smaller --learning-rate", weights)
            self.average(epoch)
            if self.known is not None and (epoch % settings.validate_every == 0 or epoch == settings.epochs):
                mrr, waited = self.validate(self.known), waited + 1
                if mrr > best:
                    best, waited, weights = mrr, 0, {name: each.clone() for name, each in module.state_dict().items()}
            if report is not None:
                report(Progress(epoch, settings.epochs, epoch, settings.epochs, loss.item(), mrr))
            if settings.patience and waited == settings.patience:
                break
            self.slow_down()
        if weights is not None:
            module.load_state_dict(weights)
        module.eval()

    @torch.no_grad()
    def average(self, epoch: int) -> None:
        """Draw the mean of the weights, where that is what is learned, towards those after this epoch."""
        if self.learned is self.model:
            return
        share = max(1 - self.settings.average, 1 / epoch)  # of the first ones all count alike
        means, weights = (each.module.state_dict().values() for each in (self.learned, self.model))
        for mean, last in zip(means, weights, strict=True):
            if mean.is_floating_point():
                mean.lerp_(last, share)

    def slow_down(self) -> None:
        """Lower the rate, as after every epoch; a recorded step that has it as a number is recorded again."""
        (group,) = self.step.param_groups
        group["lr"] *= self.settings.rate_decay
        if self.captured is not None and self.settings.rate_decay != 1 and not torch.is_tensor(group["lr"]):
            self.captured.forget()

    def let_go(self) -> None:
        """Free what training alone needed: recorded steps, which hold it and are held by it, and gradients."""
        self.captured = None
        self.model.module.zero_grad(set_to_none=True)

    def give_up(self, problem: str, weights: dict[str, Tensor] | None) -> NoReturn:
        """Say that training diverged, with the best weights where there were any."""
        if weights is None:
            raise InputError(problem)
        self.learned.module.load_state_dict(weights)
        self.learned.module.eval()
        raise DivergedError(problem, self.learned)

    def train_epoch(self) -> Float[Tensor, ""]:
        """Go through all questions once, in random order, and return the mean loss."""
        self.model.module.train()
        take = self.captured or self.take
        return torch.stack([take(*batch) for batch in self.batches()]).mean()

    def batches(self) -> Iterable[tuple[Tensor, ...]]:
        """Yield questions of all triples; with labels, those that differ, and all their answers."""
        dealt = self.dealt()
        if self.settings.against != "labels":
            yield from ((mine,) for mine in dealt)
            return
        places, answers = self.labels.look_up(*self.asking(torch.cat(dealt)))
        firsts = list(accumulate(map(len, dealt), initial=0))
        bounds = torch.searchsorted(places, torch.tensor(firsts, device=self.device)).tolist()
        most = max(last - first for first, last in pairwise(bounds))
        for mine, first, (start, end) in zip(dealt, firsts, pairwise(bounds), strict=False):
            room = 2 ** math.ceil(math.log2(most)) if self.captured else end - start
            # A step that is replayed needs as many answers each time: the last one is told over and over.
            shown = torch.arange(start, start + room, device=self.device).clamp(max=end - 1)
            yield mine, places[shown] - first, answers[shown]

    def asking(self, mine: Int[Tensor, " b"]) -> tuple[Int[Tensor, " b"], Int[Tensor, " b"]]:
        """Return entity and direction of questions that differ."""
        return self.labels.queries.entities[mine], self.labels.queries.directions[mine]

    def dealt(self) -> tuple[Tensor, ...]:
        """Return random batches of nearly equal size, none of one question, which has no spread to normalise by."""
        settings = self.settings
        questions = len(self.labels.queries if settings.against == "labels" else self.asked)
        compared = settings.against if isinstance(settings.against, int) else len(self.graph.entities)
        wanted = questions if settings.batch == "full" else settings.batch
        size = max(1, min(wanted, SCORES_AT_ONCE // compared))
        return torch.randperm(questions, device=self.device).tensor_split(min(-(-questions // size), questions // 2))

    def take(self, *batch: Tensor) -> Float[Tensor, ""]:
        """Move the weights down the gradient of the loss of some questions, and return it."""
        loss = (self.by_labels if self.settings.against == "labels" else self.by_triples)(*batch)
        self.step.zero_grad(set_to_none=True)
        loss.backward()
        self.step.step()
        return loss.detach()

    def by_triples(self, mine: Int[Tensor, " b"]) -> Float[Tensor, ""]:
        """Return the loss of questions with one answer each."""
        settings, model = self.settings, self.model
        asked, directions, answers = self.asked[mine], self.directions[mine], self.answers[mine]
        encoded = model.encode(self.graph)
        # A model that looks at neighbours must not see the answer among them.
        hidden = {"answers": answers} if self.sees_answers else {}
        queries = model.module.query(encoded, asked, directions, **hidden)  # type: ignore[operator]
        if isinstance(settings.against, int):
            reached = model.scores(encoded, queries, answers[:, None])[:, 0]
            drawn = self.drawn(encoded, queries, asked, directions, settings.against)
            losses = LOSSES[settings.loss](reached, drawn, settings)
        else:
            scores = model.scores(encoded, queries)
            losses = cross_entropy(scores, answers, label_smoothing=settings.smoothing, reduction="none")
        if settings.even:
            shares = self.counts[mine].rsqrt()
            losses = losses * shares / shares.mean()
        return losses.mean() + self.penalised(encoded, queries, asked, directions, answers)

    def drawn(
        self, encoded: Any, queries: Tensor, asked: Tensor, directions: Tensor, count: int
    ) -> Float[Tensor, "b k"]:
        """Return the scores of drawn entities; one that is an answer too counts as if it were far away."""
        model, alike = self.model, self.settings.shared
        shape = (count,) if alike else (len(asked), count)
        candidates = torch.randint(len(self.graph.entities), shape, device=self.device)
        scores = (
            model.scores(encoded.only(candidates), queries) if alike else model.scores(encoded, queries, candidates)
        )
        return scores.masked_fill(self.labels.hold(asked, directions, candidates), FAR)

    def by_labels(
        self, mine: Int[Tensor, " b"], places: Int[Tensor, " told"], answers: Int[Tensor, " told"]
    ) -> Float[Tensor, ""]:
        """Return the loss of questions with all their answers: which question each one is for."""
        settings, model = self.settings, self.model
        asked, directions = self.asking(mine)
        encoded = model.encode(self.graph)
        queries = model.query(encoded, asked, directions)
        scores = model.scores(encoded, queries)
        labels = torch.zeros_like(scores, memory_format=torch.contiguous_format)
        labels.view(-1).index_fill_(0, places * labels.shape[1] + answers, 1.0)
        loss = of_labels(scores, labels, settings)
        return loss + self.penalised(encoded, queries, asked[places], directions[places], answers)

    def penalised(
        self, encoded: Any, queries: Tensor, asked: Tensor, directions: Tensor, answers: Tensor
    ) -> Float[Tensor, ""] | float:
        """Return the penalty of a batch, per triple."""
        settings = self.settings
        if settings.penalty == "none" or not settings.decay:
            return 0.0
        if settings.penalty == "dura":
            # Of a query its numbers alone: some models add what else a comparison needs.
            parts = [queries[:, : encoded.entities.shape[1]].square(), rows(encoded.entities, answers).square()]
        else:
            power = {"n2": 2, "n3": 3}[settings.penalty]
            parts = [part.abs() ** power for part in self.model.module.factors(encoded, asked, directions, answers)]  # type: ignore[operator]
        return settings.decay * sum(part.sum() / len(part) for part in parts)

    @torch.no_grad()
    def validate(self, known: KnownAnswers) -> float:
        """Return the two-sided MRR on a fixed sample of the validation triples."""
        self.learned.module.eval()
        generator = torch.Generator().manual_seed(self.settings.seed % 2**63)
        sample = torch.randperm(len(self.graph.valid), generator=generator)[:VALIDATION_TRIPLES]
        return (1 / rank(self.learned, self.graph, self.graph.valid[sample], known).realistic).mean().item()
