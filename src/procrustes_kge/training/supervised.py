"""train(): the baselines, in mini-batches, by gradient.

    batches ─encode, query→ queries ─scores→ scores ─loss→ gradient ─Adam or Adagrad→ weights

A query is an entity and a direction: r asks for tails, r + R for heads. Labels, filters and negatives are made on the
device; nothing is loaded during training.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.baselines import build
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.system.cuda_graphs import RecordedStep
from procrustes_kge.system.precision import exact_products, rough_products
from procrustes_kge.system.threads import cores, threads
from procrustes_kge.training.checkpoints import Checkpoints
from procrustes_kge.training.loop import run
from procrustes_kge.training.query_loss import QueryLoss
from procrustes_kge.training.state import Remembering, State, copied, copy_into, merged, part_of
from procrustes_kge.training.supervised_settings import TrainSettings
from procrustes_kge.training.timekeeping import Change
from procrustes_kge.training.trainer import Report
from procrustes_kge.words import counted

BATCH_SCORES = 2**27  # of a batch; what is computed from them takes several times as much


def train(
    graph: Graph,
    settings: TrainSettings | None = None,
    report: Report | None = None,
    checkpoints: Checkpoints | None = None,
) -> TrainedBaseline:
    """Train a baseline on the graph's training triples and return the model.

    The weights of the epoch with the best validation MRR are kept, unless `patience` is 0 or there are no validation
    triples. `report` is called with a `Progress` after every epoch.
    """
    return run(Supervised, graph, settings or TrainSettings(), report, checkpoints).model


def check_negatives(graph: Graph, settings: TrainSettings) -> None:
    """Refuse more negatives than a graph has other entities."""
    count = len(graph.entities)
    if isinstance(settings.negatives, int) and settings.negatives >= count > 1:
        have = f"the graph {graph.name} has {counted(count, 'entity')}"
        raise InputError(f"{counted(settings.negatives, 'negative')}, but {have}; try at most {count - 1}")


class Supervised:
    """A supervised training: one part, the whole model."""

    sizes, workers = (1,), 0

    def __init__(
        self, graph: Graph, settings: TrainSettings, device: torch.device, start: TrainedBaseline | None = None
    ) -> None:
        if len(graph.entities) < 2:
            raise InputError(
                f"the graph {graph.name} has 1 entity, expected at least 2: there is nothing to compare it with"
            )
        check_negatives(graph, settings)
        self.graph, self.settings, self.device, self.given = graph, settings, device, start

    def trainer(self, part: int) -> SupervisedTrainer:
        """Return an untrained trainer."""
        return SupervisedTrainer(self.graph, self.settings, self.device, self.given)

    def of_parts(self, parts: int) -> TrainSettings:
        """Return the settings: there is one part."""
        return self.settings

    def add(self, trainer: SupervisedTrainer) -> None:
        """Take over the one model, without its gradients."""
        self.learned = trainer.model()
        self.learned.module.zero_grad(set_to_none=True)

    def added(self, first: int, last: int) -> State:
        """Return nothing: there is one part, and so no moment between parts."""
        return {}

    def restore(self, first: int, last: int, state: State) -> None:
        """Take over nothing."""

    def model(self) -> TrainedBaseline:
        """Return the one model."""
        return self.learned


class SupervisedTrainer(Remembering):
    """The batches, the model and the optimiser."""

    remembered = ("epochs", "start_loss")

    def __init__(
        self, graph: Graph, settings: TrainSettings, device: torch.device, given: TrainedBaseline | None = None
    ) -> None:
        self.settings, self.device, on_a_gpu = settings, device, device.type == "cuda"
        self.workers = settings.workers or cores()
        module = build(settings.model, graph, settings.options, settings.seed).to(device)
        if given is not None:
            module.load_state_dict(given.module.state_dict())
        self.current = TrainedBaseline(settings.model, settings.options, graph.entities, graph.relations, module)
        averages = settings.weight_average > 0
        self.learned = replace(self.current, module=copy.deepcopy(module)) if averages else self.current
        self.random = module.random.on(device)
        self.losses = QueryLoss(graph, self.current, settings, self.random)
        self.optimiser: torch.optim.Optimizer
        if settings.optimiser == "adam" and on_a_gpu:  # a recorded step reads its learning rate where it lies
            rate = torch.tensor(settings.learning_rate, dtype=torch.float32, device=device)
            self.optimiser = torch.optim.Adam(module.parameters(), rate, fused=True, capturable=True)
        else:
            kind = {"adam": torch.optim.Adam, "adagrad": torch.optim.Adagrad}[settings.optimiser]
            self.optimiser = kind(module.parameters(), settings.learning_rate)
        # Not a method, which would hold the trainer: its memory is to be free as soon as nobody needs it.
        self.step = partial(take_step, self.losses, self.optimiser)
        # A recorded step repeats the last of its answers, which a regulariser would count.
        counts_answers = settings.negatives == "kvsall" and settings.regulariser != "none"
        self.recorded = RecordedStep(self.step, [self.random]) if on_a_gpu and not counts_answers else None
        self.epochs, self.start_loss = 0, math.nan

    def epoch(self) -> float:
        """Go through all queries once, in random order, and return the mean loss."""
        self.current.module.train()
        products = rough_products() if self.settings.tf32 else exact_products()
        with products, torch.enable_grad(), threads(self.workers):
            losses = torch.stack(list(self.steps()))
        self.epochs += 1
        if self.epochs == 1:
            self.start_loss = losses[0].item()
        self.average()
        self.decay_learning_rate()
        return losses.mean().item()

    def steps(self) -> Iterator[Float[Tensor, ""]]:
        """Take the steps of an epoch one at a time, and yield their losses."""
        step = self.recorded or self.step
        yield from (step(*batch) for batch in self.batches())

    def batches(self) -> Iterable[tuple[Tensor, ...]]:
        """Yield the numbers of queries; for kvsall, of those that differ, with all their answers."""
        shuffled = self.shuffled()
        if self.settings.negatives != "kvsall":
            yield from ((numbers,) for numbers in shuffled)
            return
        places, answers = self.losses.answers_of(torch.cat(shuffled))
        firsts = list(accumulate(map(len, shuffled), initial=0))
        bounds = torch.searchsorted(places, torch.tensor(firsts, device=self.device)).tolist()
        most = max(last - first for first, last in pairwise(bounds))
        for numbers, first, (start, end) in zip(shuffled, firsts, pairwise(bounds), strict=False):
            length = 2 ** math.ceil(math.log2(most)) if self.recorded else end - start
            # A step that is replayed needs as many answers each time: the last one is repeated.
            shown = torch.arange(start, start + length, device=self.device).clamp(max=end - 1)
            yield numbers, places[shown] - first, answers[shown]

    @property
    def steps_an_epoch(self) -> int:
        """Into how many batches the queries are cut: none has one query, which batch normalisation cannot use."""
        settings, queries = self.settings, self.losses.count
        compared = settings.negatives if isinstance(settings.negatives, int) else len(self.current.entities)
        wanted = queries if settings.batch == "full" else settings.batch
        size = max(1, min(wanted, BATCH_SCORES // compared))
        return min(-(-queries // size), queries // 2)

    def shuffled(self) -> tuple[Tensor, ...]:
        """Return random batches of nearly equal size."""
        order = torch.randperm(self.losses.count, device=self.device, generator=self.random)
        return order.tensor_split(self.steps_an_epoch)

    def average(self) -> None:
        """Move the mean of the weights, where that is what is learned, towards the weights after this epoch."""
        if self.learned is self.current:
            return
        share = max(1 - self.settings.weight_average, 1 / self.epochs)  # the first ones all count alike
        means, weights = (each.module.state_dict().values() for each in (self.learned, self.current))
        for mean, last in zip(means, weights, strict=True):
            if mean.is_floating_point():
                mean.lerp_(last, share)

    def decay_learning_rate(self) -> None:
        """Lower the learning rate; a recorded step that has it as a number is recorded again."""
        (group,) = self.optimiser.param_groups
        group["lr"] *= self.settings.learning_rate_decay
        if self.recorded is not None and self.settings.learning_rate_decay != 1 and not torch.is_tensor(group["lr"]):
            self.recorded.forget()

    def adjust(self, change: Change) -> None:
        """Go on with other threads; no rate falls with the number of epochs."""
        self.workers = change.workers or self.workers

    def model(self) -> TrainedBaseline:
        """Return the model, no longer in training."""
        self.learned.module.eval()
        return self.learned

    def state(self) -> State:
        """Return all that the next epoch depends on."""
        (group,) = self.optimiser.param_groups
        moments = self.optimiser.state_dict()["state"]
        rate = torch.as_tensor(group["lr"], dtype=torch.float64)
        return merged(
            current=self.current.module.state_dict(),
            learned={} if self.learned is self.current else self.learned.module.state_dict(),
            optimiser=merged(**{str(number): each for number, each in moments.items()}),
            random=self.current.module.random.state(),
        ) | {**super().state(), "learning_rate": rate}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state."""
        copy_into(self.current.module.state_dict(), part_of(state, "current"))
        if self.learned is not self.current:
            copy_into(self.learned.module.state_dict(), part_of(state, "learned"))
        self.current.module.random.restore(part_of(state, "random"))
        super().restore(state)
        whole, moments = self.optimiser.state_dict(), part_of(state, "optimiser")
        numbers = sorted({int(name.split(".")[0]) for name in moments})
        # Copied: the optimiser would go on in the state's own tables.
        whole["state"] = {number: copied(part_of(moments, str(number))) for number in numbers}
        (group,), rate = whole["param_groups"], state["learning_rate"]
        group["lr"] = rate.to(self.device, torch.float32) if torch.is_tensor(group["lr"]) else float(rate)
        self.optimiser.load_state_dict(whole)
        if self.recorded is not None:
            # It moves the tables that the optimiser had before; what an optimiser makes first is not recorded either.
            self.recorded = RecordedStep(self.recorded.step, self.recorded.generators)


def take_step(losses: QueryLoss, optimiser: torch.optim.Optimizer, *batch: Tensor) -> Float[Tensor, ""]:
    """Move the weights down the gradient of the loss of some queries, and return it."""
    loss = losses(*batch)
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()
    return loss.detach()
