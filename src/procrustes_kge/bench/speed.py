"""How fast training and ranking are on this machine, beside how fast they could be.

Bytes and operations are counted from the formulas. Copy bandwidth and the rate of matrix products are measured in the
same run. Together they give a floor: the least time for this work, done as the formulas say and in this precision.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from statistics import mean
from typing import Any, cast

import torch

from procrustes_kge.graphs.graph import Graph, Vocabulary
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.models.ranking import evaluate, figure
from procrustes_kge.system.devices import choose_device, timed
from procrustes_kge.system.threads import over_cores, threads
from procrustes_kge.training.contrastive import Contrastive
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch import FullBatch, SegmentsTrainer
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import OwnSettings, learn, recipe
from procrustes_kge.words import counted, listed

FLOAT = 4  # bytes
MOST_EPOCHS = 50  # timed together
SHORT = 20  # epochs of a short training with negatives
EPOCH, TRAINING, RANKING, PYKEEN_EPOCH = "epoch", "training", "ranking", "PyKEEN: one epoch"  # how timings begin
A_MILLION = 10**6


@dataclass(frozen=True)
class Timing:
    """A piece of work: how long it took, the bytes and operations it needs, and the least time that they take."""

    work: str
    seconds: float
    bytes: float = 0.0
    operations: float = 0.0
    floor: float = 0.0  # seconds; 0: not counted
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times longer than the floor it took."""
        return self.seconds / self.floor if self.floor else None

    @staticmethod
    def heading() -> str:
        """Return the heading of the columns of `str`."""
        return f"{'':<48}{'seconds':>10}{'GB':>9}{'GFLOP':>9}{'floor':>10}{'ratio':>7}"

    def __str__(self) -> str:
        counted = f"{self.bytes / 1e9:>9.3g}{self.operations / 1e9:>9.3g}{self.floor:>10.3g}{self.ratio or 0:>7.1f}"
        return f"{self.work:<48}{self.seconds:>10.3g}{counted if self.floor else ' ' * 35}   {self.note}".rstrip()

    def as_dict(self) -> dict[str, Any]:
        """Return everything, for a file."""
        return {**asdict(self), "ratio": self.ratio}


@dataclass(frozen=True)
class MachineRates:
    """What a machine can do in a second."""

    copy: float  # bytes read and written
    products: float  # float32 operations of large matrix products
    half_products: float  # the same in bfloat16 on a GPU; elsewhere those of float32

    def __str__(self) -> str:
        parts = [f"copies {self.copy / 1e9:,.0f} GB/s", f"multiplies {self.products / 1e9:,.0f} GFLOP/s"]
        if self.half_products != self.products:
            parts[-1] += f" (in bfloat16 {self.half_products / 1e9:,.0f})"
        return f"this machine {listed(parts)}"

    def timing(
        self, work: str, seconds: float, moved: float, operations: float = 0.0, half: bool = False, note: str = ""
    ) -> Timing:
        """Return a timing with its floor: whichever takes longer of moving and computing, which go on together."""
        floor = max(moved / self.copy, operations / (self.half_products if half else self.products))
        return Timing(work, seconds, moved, operations, floor, note)


def machine_rates(device: torch.device) -> MachineRates:
    """Measure the fastest of several copies and products that are too large for any cache."""
    gpu = device.type == "cuda"
    source = torch.rand((2**30 if gpu else 2**27) // FLOAT, device=device)
    target = torch.empty_like(source)
    size = 8192 if gpu else 2048
    left = torch.rand(size, size, device=device)
    copied = best_of(lambda: target.copy_(source), device)
    multiplied = best_of(lambda: left @ left, device)
    half = left.bfloat16()
    half_multiplied = best_of(lambda: half @ half, device) if gpu else multiplied
    operations = 2.0 * size**3
    return MachineRates(2.0 * FLOAT * source.numel() / copied, operations / multiplied, operations / half_multiplied)


def best_of(work: Callable[[], Any], device: torch.device, times: int = 5) -> float:
    """Return the seconds of the fastest of several calls, after one that is not counted."""
    _, *seconds = (timed(work, device)[1] for _ in range(times + 1))
    return min(seconds)


def full_batch_epoch(graph: Graph, settings: FitSettings, rates: MachineRates) -> Timing:
    """Time an epoch of `fit`, all segments of it."""
    device = choose_device(settings.device)
    epochs = started_training(graph, settings)
    # As many together as take about a second: a longer timing has more of what else runs on the machine in it.
    together = max(1, min(MOST_EPOCHS, round(1 / best_of(lambda: epochs(1), device, times=1))))
    each = best_of(lambda: epochs(together), device) / together
    # Vectors, and Adam's two moments, read and written once; H Q and two pulls, a product each.
    tables = 6.0 if settings.optimiser == "adam" else 2.0
    moved = tables * FLOAT * len(graph.entities) * settings.dim
    operations = 3 * 2.0 * len(graph.train) * settings.dim * settings.segment
    return rates.timing(f"{EPOCH}, full batch, {settings.optimiser}, dim {settings.dim:,}", each, moved, operations)


@torch.no_grad()
def started_training(graph: Graph, settings: FitSettings) -> Callable[[int], None]:
    """Return a function that trains all segments for more epochs."""
    training = FullBatch(graph, replace(settings, validate_every=0), choose_device(settings.device))
    trainers = [training.trainer(part) for part in range(len(training.sizes))]

    @torch.no_grad()
    def epochs(count: int) -> None:
        def train(trainer: SegmentsTrainer) -> None:
            for _ in range(count):
                trainer.epoch()

        list(over_cores(train, trainers, training.workers) if training.workers else map(train, trainers))

    return epochs


def softmax_epoch(graph: Graph, settings: ContrastSettings, rates: MachineRates) -> Timing:
    """Time an epoch of `contrast` with all its groups."""
    device = choose_device(settings.device)
    with torch.no_grad():
        trainer = Contrastive(graph, settings, device).trainer(0)
        each = settings.groups * best_of(trainer.epoch, device, times=4)  # a GPU records the first steps
    compared = settings.compared(len(graph.entities))
    # Scores, and the gradients of queries and of entities: three products. Vectors, gradients and what the step
    # remembers, read and written at every step: those of the entities that it sees.
    operations = 3 * 2.0 * len(trainer.batches) * compared * settings.dim
    seen = min(len(graph.entities), 2 * trainer.batch + compared) if compared else len(graph.entities)
    moved = 6.0 * FLOAT * trainer.steps_an_epoch * seen * settings.dim
    many = "all" if settings.negatives == "all" else f"{compared:,}"
    name = f"{EPOCH}, softmax over {many} entities, dim {settings.dim:,}"
    return rates.timing(name, each, moved, operations, half=True)


def trained(graph: Graph, settings: OwnSettings, name: str, seeds: int = 3) -> tuple[Timing, Procrustes]:
    """Time a whole training, as the mean over some seeds, and return the model of the last.

    One epoch is trained first and not timed: what a process loads or compiles only once does not count.
    """
    device, seconds, found = choose_device(settings.device), [], []
    learn(graph, replace(settings, epochs=1))
    for seed in range(seeds):
        model, taken = timed(partial(learn, graph, replace(settings, seed=seed)), device)
        seconds.append(taken)
        found.append(evaluate(model, graph).mrr)
    note = f"two-sided test MRR {figure(mean(found))}, lowest of {counted(seeds, 'seed')} {figure(min(found))}"
    return Timing(f"{TRAINING}, {name}, dim {settings.dim:,}", mean(seconds), note=note), model


def ranking(graph: Graph, model: Procrustes, rates: MachineRates) -> Timing:
    """Time the ranking of the test triples, filtering and metrics included."""
    ranked = best_of(lambda: evaluate(model, graph), model.vectors.device, times=2)
    operations = 2 * 2.0 * len(graph.test) * len(graph.entities) * model.dim
    moved = FLOAT * float(len(graph.entities)) * model.dim
    name = f"{RANKING} {counted(len(graph.test), 'test triple')}, dim {model.dim:,}"
    note = _per_triple(ranked, len(graph.test))
    return rates.timing(name, ranked, moved, operations, note=note)


def _per_triple(seconds: float, triples: int) -> str:
    return f"{1000 * seconds / triples:.3g} ms per triple"


def best_answers(device: torch.device, rates: MachineRates, dim: int = 500, entities: int = A_MILLION) -> Timing:
    """Time the ten best answers to one query among a million entities."""
    width = 20
    names = Vocabulary(map(str, range(entities)), "entity")
    vectors = torch.rand(entities, dim // width, width, device=device)
    rotations = torch.eye(width, device=device).expand(1, dim // width, width, width)
    model = Procrustes(names, Vocabulary(["r"], "relation"), vectors, rotations)
    seconds = best_of(lambda: model.tails("0", "r"), device)
    moved = FLOAT * float(entities) * dim / 2  # read, not written
    return rates.timing(f"ten best of {entities:,} entities, dim {dim:,}", seconds, moved)


def by_pykeen(graph: Graph, dim: int = 200, triples: int = 100) -> Iterator[Timing]:
    """Time one epoch of PyKEEN's RotatE with default settings, and its ranking of some test triples, on the CPU."""
    if find_spec("pykeen") is None:
        return
    logging.disable(logging.WARNING)
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.models import RotatE
    from pykeen.training import SLCWATrainingLoop
    from pykeen.triples import CoreTriplesFactory

    factory = CoreTriplesFactory(graph.train, num_entities=len(graph.entities), num_relations=len(graph.relations))
    epoch = ranking = float("inf")
    for count in (torch.get_num_threads(), 1):  # whichever serves it better on this machine
        with threads(count):
            model = RotatE(triples_factory=factory, embedding_dim=dim, random_seed=0)
            adam = torch.optim.Adam(model.parameters())
            loop = SLCWATrainingLoop(model=model, triples_factory=factory, optimizer=adam)
            started = time.perf_counter()
            loop.train(triples_factory=factory, num_epochs=1, use_tqdm=False)
            trained = time.perf_counter()
            RankBasedEvaluator().evaluate(
                model, graph.test[:triples], additional_filter_triples=[graph.train, graph.valid], use_tqdm=False
            )
            epoch, ranking = min(epoch, trained - started), min(ranking, time.perf_counter() - trained)
    logging.disable(logging.NOTSET)
    yield Timing(f"{PYKEEN_EPOCH}, RotatE, dim {dim:,}", epoch)
    yield Timing(f"PyKEEN: ranking {counted(triples, 'test triple')}", ranking, note=_per_triple(ranking, triples))


def speed(graph: Graph, device: str = "auto", pykeen: bool = True) -> tuple[MachineRates, Iterator[Timing]]:
    """Return the rates of this machine, and the timings, one after another."""
    place = choose_device(device)
    rates = machine_rates(place)

    def timings() -> Iterator[Timing]:
        long, short = (2000, 500) if place.type == "cuda" else (500, 200)
        paper, fast = (cast(FitSettings, recipe(name, graph, device, dim=long)) for name in ("paper", "fast"))
        accurate = cast(ContrastSettings, recipe("accurate", graph, device, dim=short, groups=1))
        yield full_batch_epoch(graph, paper, rates)
        yield full_batch_epoch(graph, fast, rates)
        yield softmax_epoch(graph, accurate, rates)
        timing, model = trained(graph, fast, "fast")
        yield timing
        yield ranking(graph, model, rates)
        if place.type == "cuda":
            yield trained(graph, replace(accurate, epochs=SHORT), f"accurate, {SHORT} epochs")[0]
        yield best_answers(place, rates)
        if pykeen and place.type == "cpu":
            yield from by_pykeen(graph)

    return rates, timings()


def verdict(graph: str, timings: Sequence[Timing]) -> str:
    """Return in one sentence what the timings mean.

    >>> verdict("wn18rr", [Timing("epoch, full batch", 0.2, floor=0.1), Timing("training, fast, dim 500", 24.0)])
    'On this machine fast learns wn18rr in 24 s and an epoch takes 2.0 times the least time that the hardware allows.'
    """
    clauses, whole = [], _first(timings, TRAINING)
    if whole:
        clauses.append(f"fast learns {graph} in {whole.seconds:.2g} s")
    if ranked := _first(timings, RANKING):
        clauses.append(f"its test triples are ranked in {ranked.seconds:.2g} s")
    if ratios := [each.ratio for each in timings if each.work.startswith(EPOCH) and each.ratio]:
        low, high = f"{min(ratios):.1f}", f"{max(ratios):.1f}"
        times = low if low == high else f"{low} to {high}"
        clauses.append(f"an epoch takes {times} times the least time that the hardware allows")
    if whole and (theirs := _first(timings, PYKEEN_EPOCH)):
        times = f"{theirs.seconds / whole.seconds:.2g}"
        clauses.append(f"a single epoch of RotatE in PyKEEN takes {times} times as long as the whole training")
    return f"On this machine {listed(clauses or ['nothing was timed'])}."


def _first(timings: Sequence[Timing], beginning: str) -> Timing | None:
    return next((each for each in timings if each.work.startswith(beginning)), None)
