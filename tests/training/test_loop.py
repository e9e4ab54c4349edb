"""Laws of the one training loop: what holds for every method, and what a planted trainer must be made of."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from methods import METHODS, NOISY
from procrustes_kge.errors import DivergedError, InputError
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.training.full_batch import FullBatch
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.loop import run, validation_mrr
from procrustes_kge.training.recipes import learned
from procrustes_kge.training.schedule import Schedule
from procrustes_kge.training.state import copied
from procrustes_kge.training.trainer import Progress
from toys import random_graph, rotated_graph, same

every_method = pytest.mark.parametrize(("method", "settings"), METHODS.values(), ids=METHODS)


def told(graph, method, settings):
    """Return what is learned, and all that was reported on the way."""
    log = []
    return run(method, graph, settings, log.append), log


# Every method.


@pytest.mark.slow
@every_method
def test_the_curve_has_every_epoch_and_the_mrr_of_those_that_are_validated(method, settings):
    found, log = told(NOISY, method, replace(settings, epochs=7, validate_every=3, patience=0))
    assert [point.epoch for point in found.curve] == [*range(1, 8)]
    assert all(math.isfinite(point.loss) for point in found.curve)
    assert [point.epoch for point in found.curve if point.valid_mrr is not None] == [3, 6, 7]
    assert found.epochs == 7
    assert log[-1].done == log[-1].total


@pytest.mark.slow
@every_method
def test_without_patience_validation_changes_nothing(method, settings):
    looked, blind = (learned(NOISY, replace(settings, epochs=5, validate_every=every, patience=0)) for every in (2, 0))
    assert same(looked.model, blind.model)
    assert [point.valid_mrr for point in blind.curve] == [None] * 5


@every_method
def test_the_best_epoch_is_kept_and_training_stops_after_it(method, settings):
    settings = replace(settings, epochs=40, validate_every=2, patience=3)
    found, log = told(NOISY, method, settings)
    validated = {point.epoch: point.valid_mrr for point in found.curve if point.valid_mrr is not None}
    last = max(validated)
    assert last == 40 or last == found.epochs + settings.patience * settings.validate_every
    assert log[-1].valid_mrr == validated[found.epochs]
    if len(method(NOISY, settings, torch.device("cpu")).sizes) == 1:  # the pilot of several must gain clearly
        assert validated[found.epochs] == max(validated.values())
        mrr = validation_mrr(found.model, NOISY, settings)
        # Relations of full batch are solved anew in float64: a near tie may fall otherwise.
        assert mrr == pytest.approx(validated[found.epochs], abs=0.01 if method is FullBatch else 1e-9)


@every_method
def test_a_seed_repeats_and_what_is_validated_is_what_would_be_trained_without(method, settings):
    settings = replace(settings, epochs=12, validate_every=2, patience=1)
    found, again = (run(method, NOISY, settings) for _ in range(2))
    assert found.epochs == again.epochs
    assert same(found.model, again.model)
    if method is FullBatch:  # elsewhere the learning rate follows from the epochs that were planned
        assert same(found.model, run(method, NOISY, replace(settings, patience=0, epochs=found.epochs)).model)


@every_method
def test_a_trainer_goes_on_from_a_state_as_if_it_had_never_stopped(method, settings):
    settings = replace(settings, epochs=6, validate_every=2)
    with torch.no_grad():
        for part in range(len(method(NOISY, settings, torch.device("cpu")).sizes)):
            one = method(NOISY, settings, torch.device("cpu")).trainer(part)
            losses = [float(one.epoch()) for _ in range(3)]
            state = copied(one.state())
            rest = [float(one.epoch()) for _ in range(3)]
            other = method(NOISY, replace(settings, seed=99), torch.device("cpu")).trainer(part)
            other.restore(state)
            assert [float(other.epoch()) for _ in range(3)] == rest
            assert same(one.model(), other.model())
            if method is FullBatch:
                assert losses[0] == float(other.start_loss)


@every_method
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_a_report_raises_stops_training_and_leaves_the_process_as_it_was(method, settings, error):
    before, calls = torch.get_num_threads(), []

    def report(progress):
        calls.append(progress)
        if len(calls) >= 5:
            raise error("enough")

    torch.set_num_threads(2)
    try:
        with pytest.raises(error, match="enough"):
            run(method, NOISY, replace(settings, epochs=500, deterministic=True), report)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert len(calls) < 10
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.is_grad_enabled()


@every_method
def test_shares_that_are_reported_grow_to_one_even_where_validation_stops_early(method, settings):
    _, log = told(NOISY, method, replace(settings, epochs=40, validate_every=2, patience=1))
    shares = [progress.done / progress.total for progress in log]
    assert all(earlier <= later for earlier, later in pairwise(shares))
    assert shares[-1] == 1
    assert all(progress.epoch <= progress.epochs or progress.valid_mrr is not None for progress in log)


@every_method
def test_a_learning_rate_that_is_too_large_is_named_with_a_smaller_one(method, settings):
    if method is FullBatch:
        pytest.skip("vectors are brought back to length one in every epoch: nothing can run away")
    with pytest.raises((InputError, DivergedError), match=r"diverged in epoch \d+ .* learning rate 900; try .* 225"):
        run(method, rotated_graph(), replace(settings, learning_rate=900.0, epochs=30))


@every_method
def test_a_graph_without_validation_triples_is_trained_to_the_end(method, settings):
    bare = replace(NOISY, valid=torch.empty(0, 3, dtype=torch.int64))
    found = run(method, bare, replace(settings, epochs=4, patience=2, validate_every=1))
    assert found.epochs == 4
    assert {point.valid_mrr for point in found.curve} == {None}


@every_method
def test_a_graph_without_training_triples_is_refused(method, settings):
    with pytest.raises(InputError, match="the graph random has no training triples"):
        run(method, replace(NOISY, train=torch.empty(0, 3, dtype=torch.int64)), settings)


@every_method
@pytest.mark.parametrize("where", ["trainer", "add", "model"])
def test_out_of_memory_is_a_sentence_with_a_remedy_wherever_it_happens(method, settings, where, monkeypatch):
    def full(*_):
        raise MemoryError("tried to allocate")

    monkeypatch.setattr(method, where, full)
    with pytest.raises(InputError, match=r"out of memory while training on 40 entities of random; try a smaller --dim"):
        run(method, NOISY, replace(settings, epochs=1))


@pytest.mark.parametrize("device", ["banana", "", "cuda:x", "gpu", "meta"])
def test_a_device_that_training_does_not_know_is_refused(device):
    with pytest.raises(InputError, match=f"device '{device}'.*expected cpu, cuda, cuda:N or auto"):
        learned(NOISY, FitSettings(device=device))


# Planted trainers: a number that epochs make better or worse, so that what the loop keeps can be seen.


class Number:
    """A model of rotated_graph that ranks better, the nearer its number is to the best one."""

    def __init__(self, graph, number, best=5):
        self.graph, self.number, self.best = graph, number, best

    def encode(self, graph=None):
        return None

    def query(self, encoded, heads, relations):
        return torch.stack([heads, relations], dim=1).double()

    def scores(self, encoded, queries, candidates=None):
        count, relations = len(self.graph.entities), len(self.graph.relations)
        scores = torch.rand(len(queries), count, generator=torch.Generator().manual_seed(0))
        known = torch.cat([self.graph.valid, self.graph.valid[:, [2, 1, 0]] + torch.tensor([0, relations, 0])])
        for row, (entity, direction) in enumerate(queries.long().tolist()):
            answers = known[(known[:, 0] == entity) & (known[:, 1] == direction), 2]
            scores[row, answers] = 1 - abs(float(self.number) - self.best) / 8
        return scores


class Counter:
    """A trainer whose epochs count up; its losses are planned."""

    def __init__(self, graph, losses):
        self.graph, self.losses, self.start_loss = graph, losses, 1.0
        self.number, self.workers, self.adjusted = torch.zeros(()), None, []

    def epoch(self):
        self.number += 1
        return self.losses[int(self.number) - 1] if self.losses else 1.0

    def adjust(self, change):
        self.adjusted.append(change)

    def model(self):
        return Number(self.graph, self.number.clone())

    def state(self):
        return {"number": self.number}

    def restore(self, state):
        self.number.copy_(state["number"])


class Joined(Number):
    """A model that keeps those it was joined from."""

    def __init__(self, graph, parts):
        super().__init__(graph, 0)
        self.parts = parts


class Counting:
    """A training of such parts."""

    def __init__(self, sizes=(1,), losses=None, workers=0):
        self.sizes, self.losses, self.workers = sizes, losses or {}, workers

    def __call__(self, graph, settings, device):
        self.graph, self.settings, self.parts = graph, settings, []
        return self

    def of_parts(self, parts):
        return self.settings

    def trainer(self, part):
        return Counter(self.graph, self.losses.get(part))

    def add(self, trainer):
        self.parts.append(trainer.model())

    def added(self, first, last):
        return {str(part): self.parts[part].number for part in range(first, last)}

    def restore(self, first, last, state):
        self.parts += [Number(self.graph, state[str(part)]) for part in range(first, last)]

    def model(self):
        return Joined(self.graph, self.parts)


def numbers(model):
    return [float(part.number) for part in model.parts]


@pytest.mark.parametrize(("every", "chosen"), [(1, 5), (2, 4), (3, 6)])
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_the_pilot_chooses_the_epochs_of_all_parts(every, chosen, workers):
    schedule = Schedule(epochs=50, patience=3, validate_every=every, device="cpu")
    found = run(Counting((2, 1, 1, 1), workers=workers), rotated_graph(), schedule)
    assert found.epochs == chosen
    assert numbers(found.model) == [chosen] * 4
    assert max(point.epoch for point in found.curve) == chosen + 3 * every


def test_without_patience_all_parts_train_to_the_end():
    found = run(Counting((2, 1)), rotated_graph(), Schedule(epochs=9, patience=0, validate_every=2, device="cpu"))
    assert numbers(found.model) == [9, 9]
    assert [point.epoch for point in found.curve if point.valid_mrr is not None] == [2, 4, 6, 8, 9]


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1000.0])
@pytest.mark.parametrize("patience", [0, 3])
def test_a_pilot_that_diverges_leaves_its_last_good_model(bad, patience):
    losses = {0: [1.0] * 6 + [bad] * 50}
    schedule = Schedule(epochs=50, patience=patience, validate_every=2, learning_rate=0.4, device="cpu")
    with pytest.raises(DivergedError, match=r"epoch 7 of 50 .* learning rate 0.4; try --learning-rate 0.1") as caught:
        run(Counting((1, 1), losses), rotated_graph(), schedule)
    assert numbers(caught.value.model) == [4 if patience else 6]


def test_a_part_that_diverges_leaves_the_parts_before_it():
    schedule = Schedule(epochs=4, patience=0, device="cpu")
    with pytest.raises(DivergedError, match="epoch 2 of 4") as caught:
        run(Counting((1, 1, 1), {1: [1.0, math.nan]}), rotated_graph(), schedule)
    assert numbers(caught.value.model) == [4]


def test_a_training_that_was_never_good_is_refused_without_a_model():
    with pytest.raises(InputError, match="diverged in epoch 1") as caught:
        run(Counting(losses={0: [math.nan]}), rotated_graph(), Schedule(epochs=4, device="cpu"))
    assert not isinstance(caught.value, DivergedError)


def test_numbers_that_run_away_in_the_last_step_are_seen():
    class Late(Counter):
        def epoch(self):
            loss = super().epoch()
            if self.number == 4:
                self.number.fill_(math.inf)
            return loss

    class Lately(Counting):
        def trainer(self, part):
            return Late(self.graph, None)

    with pytest.raises(DivergedError, match=r"epoch 4 of 4 \(loss nan\)") as caught:
        run(Lately(), rotated_graph(), Schedule(epochs=4, patience=0, validate_every=2, device="cpu"))
    assert numbers(caught.value.model) == [2]


def test_losses_near_nothing_may_rise():
    # A loss is hopeless by what it was before the first step, or by one, whichever is more.
    found = run(Counting(losses={0: [0.001, 1.9, 0.5]}), rotated_graph(), Schedule(epochs=3, patience=0, device="cpu"))
    assert [point.loss for point in found.curve] == [0.001, 1.9, 0.5]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_every_epoch_of_every_part_is_reported_once_and_by_one_thread_at_a_time(workers):
    log, inside, overlaps = [], [], []

    def report(progress):
        overlaps.append(len(inside))
        inside.append(progress)
        torch.randn(1000).sort()
        inside.pop()
        log.append(progress)

    run(Counting((3, 1, 1), workers=workers), rotated_graph(), Schedule(epochs=4, patience=0, device="cpu"), report)
    assert [progress.done for progress in log] == [3, 6, 9, 12, *range(13, 21)]
    assert {progress.total for progress in log} == {20}
    assert set(overlaps) == {0}
    assert log[-1] == Progress(20, 20, 4, 4, 1.0, log[-1].valid_mrr)


def test_what_one_report_raises_stops_the_other_workers_too():
    calls = []

    def report(progress):
        calls.append(progress)
        if len(calls) == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Counting((1,) * 9, workers=3), rotated_graph(), Schedule(epochs=5, patience=0, device="cpu"), report)
    assert len(calls) < 25


def test_a_sample_of_validation_triples_is_drawn_by_the_seed_alone():
    graph = random_graph(entities=60, relations=9, triples=9000, seed=1)
    model = learned(graph, FitSettings(dim=8, segment=4, epochs=2, validate_every=0, device="cpu")).model
    assert len(graph.valid) > 1000
    first, again, other = (validation_mrr(model, graph, Schedule(seed=seed)) for seed in (0, 0, 1))
    assert first == again != other
    assert first == pytest.approx(evaluate(model, graph, "valid").mrr, abs=0.02)
