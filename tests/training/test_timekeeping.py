"""Laws of keeping to a time, on a clock that is planted: no test waits, and none depends on the machine."""

from dataclasses import replace
from itertools import count, pairwise

import pytest
import torch
from hypothesis import given, strategies as st

from laws import refused
from methods import METHODS, NOISY
from procrustes_kge.training import timekeeping
from procrustes_kge.training.contrastive import Contrastive
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch import FullBatch
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.loop import run
from procrustes_kge.training.schedule import Schedule
from procrustes_kge.training.timekeeping import (
    SLACK,
    Change,
    Timekeeper,
    ended_by_the_clock,
    parse_changes,
    spoken_changes,
)
from toys import same

every_method = pytest.mark.parametrize(("method", "settings"), METHODS.values(), ids=METHODS)


@pytest.fixture
def ticking(monkeypatch):
    """Plant a clock that is a second further on whenever it is looked at."""
    ticks = count()
    monkeypatch.setattr(Timekeeper, "now", lambda self: float(next(ticks)))


@pytest.fixture
def frozen(monkeypatch):
    """Plant a clock that is set by hand."""
    hand = [0.0]
    monkeypatch.setattr(Timekeeper, "now", lambda self: hand[0])
    return hand


changes = st.builds(Change, epochs=st.integers(1, 99), workers=st.none() | st.integers(1, 64))


@given(st.dictionaries(st.integers(1, 999), changes, max_size=5))
def test_changes_are_read_as_they_are_written(found):
    assert parse_changes(spoken_changes(found)) == found


@pytest.mark.parametrize("text", ["5", "5:", "5:epochs", "5:epochs=x", "x:epochs=5", "5:dim=3", "5:epochs=-1"])
def test_other_words_are_refused_with_an_example(text):
    refused(lambda: Schedule(replay=text), setting="replay", seen=repr(text), remedy="5:workers=1 9:epochs=14")


@every_method
@pytest.mark.parametrize("seconds", [3.0, pytest.param(7.0, marks=pytest.mark.slow), 12.0, 1000.0])
def test_what_was_cut_short_is_repeated_to_the_last_bit_without_a_clock(method, settings, seconds, ticking):
    settings = replace(settings, epochs=12, validate_every=2, patience=2, time=seconds)
    found = run(method, NOISY, settings)
    again = run(method, NOISY, found.settings)
    assert found.settings.time == 0
    assert same(found.model, again.model)
    assert (found.epochs, found.curve) == (again.epochs, again.curve)


@pytest.mark.slow
@every_method
def test_time_to_spare_changes_nothing(method, settings, frozen):
    settings = replace(settings, epochs=4, patience=0)
    free, timed = run(method, NOISY, settings), run(method, NOISY, replace(settings, time=1e6))
    assert same(free.model, timed.model)
    assert free.settings == timed.settings == settings


@pytest.mark.parametrize("method", ["contrastive", "rotate"])
def test_epochs_that_there_is_no_time_for_are_not_trained(method, ticking):
    method, settings = METHODS[method]
    found = run(method, NOISY, replace(settings, epochs=500, patience=0, validate_every=0, time=20.0))
    assert 5 < found.epochs < 20


def test_a_vector_has_the_segments_that_there_was_time_for(ticking):
    settings = FitSettings(dim=400, segment=4, pilot=20, epochs=3, patience=0, device="cpu", workers=1, time=60.0)
    found = run(FullBatch, NOISY, settings)
    assert 20 < found.model.dim < 400
    assert found.settings == replace(settings, dim=found.model.dim, time=0.0)


@pytest.mark.parametrize("workers", [1, 3])
def test_where_the_time_is_over_the_pilot_remains(workers, ticking):
    settings = FitSettings(dim=80, segment=4, pilot=20, epochs=9, device="cpu", workers=workers, time=1e-3)
    found = run(FullBatch, NOISY, settings)
    assert found.model.dim == 20
    assert found.epochs == 1


def test_rates_reach_nothing_at_the_end_whenever_that_is(frozen):
    settings = ContrastSettings(dim=8, segment=4, batch=128, epochs=20, device="cpu")
    with torch.no_grad():
        trainer = Contrastive(NOISY, settings, torch.device("cpu")).trainer(0)
        shares = []

        def noted():
            shares.append(trainer.share_left())
            trainer.epoch()

        for _ in range(8):
            noted()
        trainer.adjust(Change(epochs=12))
        for _ in range(4):
            noted()
    steps = [earlier - later for earlier, later in pairwise(shares)]
    assert all(step == pytest.approx(1 / 20) for step in steps[:8])
    assert all(step == pytest.approx(0.6 / 4) for step in steps[8:])  # 0.6 is left after 8 of 20, for 4 epochs
    assert trainer.share_left() == pytest.approx(0.6 / 4 / trainer.steps_an_epoch)  # of a step after the last


def decisions(hand, epochs, seconds_of, workers, seconds=1e6):
    """Return what a clock changes when an epoch takes so long on so many threads."""
    clock, found = Timekeeper(Schedule(time=seconds)), []
    clock.begin(parts=1)
    for epoch in range(1, epochs + 1):
        clock.epoch_begins()
        hand[0] += seconds_of(epoch, workers)
        change = clock.after(epoch, epochs, workers)
        workers = (change and change.workers) or workers
        found.append(workers)
    return found


@pytest.mark.parametrize(
    ("replay", "epochs", "ended"),
    [
        ("", 5, False),
        ("2:workers=1", 5, False),
        ("3:epochs=7", 7, True),
        ("3:epochs=7", 5, False),
        ("3:epochs=20", 20, False),
    ],
    ids=["no clock", "threads alone", "the clock", "validation before it", "more were added again"],
)
def test_it_is_known_whether_the_clock_ended_a_training(replay, epochs, ended):
    assert ended_by_the_clock(Schedule(epochs=20, replay=replay), epochs) == ended


def test_where_epochs_differ_the_slowest_tells_how_many_fit(frozen):
    clock = Timekeeper(Schedule(time=20.0, epochs=20))
    clock.begin(parts=1)
    for epoch, seconds in enumerate((1.0, 3.0, 1.0), start=1):
        clock.epoch_begins()
        frozen[0] += seconds
        change = clock.after(epoch, 20, None)
    assert change.epochs == 3 + int(15 / (SLACK * 3))


def test_threads_stay_as_they_are_on_an_idle_machine(frozen, monkeypatch):
    monkeypatch.setattr(timekeeping, "cores", lambda: 4)
    assert decisions(frozen, 20, lambda epoch, workers: 1.0 / workers, 4) == [4] * 20


def test_one_thread_goes_on_where_others_use_the_cores(frozen, monkeypatch):
    monkeypatch.setattr(timekeeping, "cores", lambda: 4)
    used = decisions(frozen, 20, lambda epoch, workers: 1.0 if epoch < 8 else (9.0 if workers > 1 else 3.0), 4)
    assert used[:7] == [4] * 7
    assert used[8:] == [1] * 12


def test_all_threads_come_back_where_one_is_slower(frozen, monkeypatch):
    monkeypatch.setattr(timekeeping, "cores", lambda: 4)
    used = decisions(frozen, 20, lambda epoch, workers: 1.0 if epoch < 8 else (2.0 if workers > 1 else 5.0), 4)
    assert used[9:] == [4] * 11


def test_threads_are_tried_again_when_the_others_cease(frozen, monkeypatch):
    monkeypatch.setattr(timekeeping, "cores", lambda: 4)
    busy = range(8, 14)
    used = decisions(
        frozen, 20, lambda epoch, workers: (9.0 if workers > 1 else 6.0) if epoch in busy else 4.0 / workers, 4
    )
    assert used[8:13] == [1] * 5
    assert used[14:] == [4] * 6


def paced(hand, clock, seconds_of, epochs, looks=lambda epoch: 0.0):
    """Return how many epochs a clock says there are in all, after each that takes so many seconds."""
    found, total, epoch = [], epochs, 0
    clock.begin(parts=1)
    while epoch < total:
        epoch += 1
        clock.epoch_begins()
        hand[0] += seconds_of(epoch)
        change = clock.after(epoch, total, None)
        total = (change and change.epochs) or total
        hand[0] += looks(epoch)
        found.append(total)
    return found


def test_an_even_pace_within_the_time_changes_nothing(frozen):
    clock = Timekeeper(Schedule(epochs=15, time=100.0))
    assert paced(frozen, clock, lambda epoch: 5.0, 15) == [15] * 15
    assert not clock.changes


def test_a_busy_hour_shortens_the_training_which_ends_in_time(frozen):
    clock = Timekeeper(Schedule(epochs=15, time=100.0))
    totals = paced(frozen, clock, lambda epoch: 5.0 if epoch < 4 else 20.0, 15)
    assert totals[2] == 15
    assert len(totals) == totals[-1] < 15
    assert frozen[0] <= 100


def test_epochs_are_regained_when_a_busy_moment_is_over(frozen):
    clock = Timekeeper(Schedule(epochs=20, time=100.0))
    totals = paced(frozen, clock, lambda epoch: 15.0 if epoch == 2 else 3.0, 20)
    assert min(totals) < 20
    assert totals[-1] == 20
    assert frozen[0] <= 100


@given(st.lists(st.floats(0.1, 9), min_size=60, max_size=60), st.integers(1, 60), st.floats(20, 200))
def test_at_any_pace_at_most_the_last_epoch_is_late(paces, epochs, seconds):
    hand = [0.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Timekeeper, "now", lambda self: hand[0])
        clock = Timekeeper(Schedule(epochs=epochs, time=seconds))
        totals = paced(hand, clock, lambda epoch: paces[epoch - 1], epochs)
    assert hand[0] - paces[len(totals) - 1] <= seconds
    assert len(totals) <= epochs


def test_validations_are_counted_but_are_no_slow_epochs(frozen):
    def trained(seconds):
        clock, begun = Timekeeper(Schedule(epochs=30, time=seconds)), frozen[0]
        totals = paced(frozen, clock, lambda epoch: 1.0, 30, looks=lambda epoch: 6.0 if epoch % 3 == 0 else 0.0)
        assert frozen[0] - begun <= seconds + 6  # a last validation may be late
        return totals[-1]

    assert trained(100.0) == 30  # 3 s an epoch, with its share of a validation
    assert 15 <= trained(60.0) <= 22
