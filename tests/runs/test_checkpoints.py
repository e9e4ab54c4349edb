"""Laws of checkpoints: a training that was stopped ends where one that was not ends, to the last bit."""

import threading
from dataclasses import replace
from functools import cache
from itertools import count

import pytest
import torch

from laws import refused, slow_but
from methods import METHODS, NOISY
from procrustes_kge.errors import InputError
from procrustes_kge.runs.checkpoints import FolderCheckpoints, Interval, parse_interval
from procrustes_kge.training import loop
from procrustes_kge.training.checkpoints import Stopped
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import learned
from toys import same

BARE = replace(NOISY, valid=torch.empty(0, 3, dtype=torch.int64))
SETTINGS = {name: replace(settings, epochs=6, validate_every=2) for name, (_, settings) in METHODS.items()}
SETTINGS["full batch, one core"] = replace(SETTINGS["full batch"], workers=1, patience=1, epochs=12)
SETTINGS["full batch, one segment"] = FitSettings(dim=8, segment=8, device="cpu", epochs=6)
every_method = pytest.mark.parametrize("name", SETTINGS)


def more_often_slow(quick, slow):
    """Return each method with each number; other numbers than the quick one are for groups of segments alone."""
    some = [(name, number) for name in SETTINGS for number in (quick, *slow)]
    often = ("contrastive, drawn, in groups", "full batch, one core")
    marks = {pair: [] if pair[1] == quick or pair[0] in often else [pytest.mark.slow] for pair in some}
    return [pytest.param(*pair, marks=marks[pair]) for pair in some]


class Stopping(FolderCheckpoints):
    """Stop after so many epochs, of all parts together."""

    def __init__(self, folder, every=None, after=None):
        super().__init__(folder, every)
        self.left, self.counting = count(after or 10**9, -1), threading.Lock()

    def due(self, part, epoch):
        with self.counting:
            if next(self.left) == 1:
                self.stop()
        return super().due(part, epoch)


def stopped_again_and_again(graph, settings, folder, after, every=None):
    """Train with stops after every so many epochs; return what is learned, and how often it was stopped."""
    for stops in range(500):
        try:
            return learned(graph, settings, checkpoints=Stopping(folder, every, after)), stops
        except Stopped:
            pass
    raise AssertionError


@cache
def never_stopped(name):
    """Return what a training gives that nothing disturbs."""
    return learned(NOISY, SETTINGS[name])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "after"), more_often_slow(1, (2, 3, 7)))
def test_a_training_that_goes_on_ends_as_if_it_had_never_stopped(name, after, tmp_path):
    whole = never_stopped(name)
    found, stops = stopped_again_and_again(NOISY, SETTINGS[name], tmp_path / "kept", after)
    assert stops > 0 or after > 6
    assert same(found.model, whole.model)
    assert (found.epochs, found.curve, found.settings) == (whole.epochs, whole.curve, whole.settings)


@pytest.mark.gpu
@every_method
@pytest.mark.parametrize("after", [1, 4])
def test_a_training_on_a_gpu_goes_on_as_if_it_had_never_stopped(name, after, tmp_path):
    settings = replace(SETTINGS[name], device="cuda", deterministic=True)
    found, stops = stopped_again_and_again(NOISY, settings, tmp_path / "kept", after)
    assert stops > 0 or after > 6
    assert same(found.model, learned(NOISY, settings).model)


@pytest.mark.parametrize("after", slow_but([3], [1, 3, 8]))
def test_epochs_that_were_chosen_on_training_triples_are_not_chosen_again(after, tmp_path):
    settings = replace(SETTINGS["full batch"], patience=1, epochs=12)
    whole = learned(BARE, settings)
    found, stops = stopped_again_and_again(BARE, settings, tmp_path / "kept", after)
    assert stops > 0
    assert same(found.model, whole.model)
    assert (found.epochs, found.curve) == (whole.epochs, whole.curve)


@pytest.mark.slow
@every_method
def test_checkpoints_change_nothing_and_the_last_two_are_kept(name, tmp_path):
    found = learned(NOISY, SETTINGS[name], checkpoints=FolderCheckpoints(tmp_path / "kept", "1"))
    assert same(found.model, never_stopped(name).model)
    assert len([*(tmp_path / "kept").iterdir()]) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "back"), more_often_slow(1, (2,)))
def test_a_crash_goes_on_from_the_last_checkpoint_or_the_one_before(name, back, tmp_path):
    class CrashError(Exception):
        pass

    calls = count(1)

    def crash(progress):
        if next(calls) == 5:
            raise CrashError

    with pytest.raises(CrashError):
        learned(NOISY, SETTINGS[name], crash, FolderCheckpoints(tmp_path, "1"))
    *_, before, last = sorted(tmp_path.iterdir())
    if back == 2:
        (last / "facts.json").write_text("{}")
        with pytest.warns(UserWarning, match="damaged .* and so not used"):
            checkpoints = FolderCheckpoints(tmp_path, "1")
        assert checkpoints.current == before
    else:
        checkpoints = FolderCheckpoints(tmp_path, "1")
        assert checkpoints.current == last
    found = learned(NOISY, SETTINGS[name], checkpoints=checkpoints)
    assert same(found.model, never_stopped(name).model)


def test_a_part_that_is_added_while_a_checkpoint_is_written_is_not_lost(tmp_path, monkeypatch):
    settings = SETTINGS["full batch, one core"]
    whole, facts = learned(NOISY, settings), loop._Loop.facts

    def later(self, *given):
        self.added += 1  # by the thread that joins the parts, just now
        try:
            return facts(self, *given)
        finally:
            self.added -= 1

    with monkeypatch.context() as patch:
        patch.setattr(loop._Loop, "facts", later)
        found, stops = stopped_again_and_again(NOISY, settings, tmp_path, 7)
    assert stops > 0
    assert same(found.model, whole.model)


def test_the_checkpoints_of_another_training_are_refused(tmp_path):
    settings = SETTINGS["contrastive"]
    with pytest.raises(Stopped):
        learned(NOISY, settings, checkpoints=Stopping(tmp_path, after=1))
    for graph, other, seen in (
        (NOISY, replace(settings, seed=5), "setting seed"),
        (BARE, settings, "the graph"),
        (NOISY, SETTINGS["rotate"], "setting"),
    ):
        told = {"setting": str(tmp_path), "seen": seen, "remedy": "delete it"}
        refused(lambda graph=graph, other=other: learned(graph, other, None, FolderCheckpoints(tmp_path)), **told)


@pytest.mark.slow
def test_a_time_goes_on_where_it_was(tmp_path):
    settings = replace(SETTINGS["contrastive"], epochs=10**6, time=0.5)
    with pytest.raises(Stopped):
        learned(NOISY, settings, checkpoints=Stopping(tmp_path, after=3))
    found = learned(NOISY, replace(settings, time=0.6), checkpoints=FolderCheckpoints(tmp_path))
    assert found.epochs < 10**6
    assert same(found.model, learned(NOISY, found.settings).model)


def test_an_interval_is_a_time_or_epochs():
    assert parse_interval("90s") == Interval(seconds=90)
    assert parse_interval(" 12 ") == Interval(epochs=12)
    assert FolderCheckpoints("kept", every=12).every == Interval(epochs=12)
    for text in ("0", "", "often", "-3", "5 weeks"):
        refused(
            lambda text=text: parse_interval(text), setting="checkpoint-every", seen=repr(text), remedy="such as 5m"
        )


def test_nothing_is_written_before_it_is_time(tmp_path):
    learned(NOISY, SETTINGS["contrastive"], checkpoints=FolderCheckpoints(tmp_path / "kept", "1h"))
    learned(NOISY, SETTINGS["contrastive"], checkpoints=FolderCheckpoints(tmp_path / "kept"))
    assert not (tmp_path / "kept").exists()


def test_a_checkpoint_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file.*: cannot be written"):
        learned(NOISY, SETTINGS["contrastive"], None, FolderCheckpoints(tmp_path / "file" / "kept", "1"))
