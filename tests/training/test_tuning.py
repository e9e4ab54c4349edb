"""Laws of tuning: planted settings are found, a margin holds noise off, and a search that was stopped ends the same."""

import math
import random
from contextlib import suppress
from dataclasses import replace
from itertools import count
from zlib import crc32

import pytest
import torch
from hypothesis import given, strategies as st

from laws import refused
from procrustes_kge.runs.checkpoints import FolderCheckpoints
from procrustes_kge.training import trials, tuning
from procrustes_kge.training.checkpoints import Stopped
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.levels import Level, Prices, possible, usual, whole, work
from procrustes_kge.training.recipes import recipe
from procrustes_kge.training.spaces import space_of
from procrustes_kge.training.supervised_settings import baseline_settings
from procrustes_kge.training.trainer import Progress
from procrustes_kge.training.trials import ENOUGH, FEWEST, MOST_ASIDE, REAL, Judge, Trial, leader, winner
from procrustes_kge.training.tuned import Tuning
from procrustes_kge.training.tuning import Search, others, tune
from toys import random_graph

GRAPH = random_graph(entities=30, relations=2, triples=600)
BASE = ContrastSettings(dim=40, segment=20, groups=2, batch=64, epochs=4, device="cpu", workers=1)
BEST = 0.004  # regularisation, in what is planted


def planted(noise=0.0, worth=0.2, clock=None, takes=lambda settings: settings.epochs / 1e6):
    """Return a stand-in for training: the better, the nearer the regularisation is to what is best."""

    def try_out(judge, settings, changes, stage="", report=None):
        if report is not None:
            report(Progress(0, 1, 0, 1))
        apart = abs(math.log(max(getattr(settings, "regularisation", 1.0), 1e-6) / BEST))
        generator = torch.Generator().manual_seed(crc32(str(settings).encode()))
        drawn = noise * torch.randn(len(judge.sample), generator=generator, dtype=torch.float64)
        reciprocals = 0.6 - worth * min(apart, 3) / 3 + drawn
        seconds = takes(settings)
        if clock is not None:
            clock.now += seconds
        return Trial(changes, stage, reciprocals.mean().item(), seconds=seconds, reciprocals=reciprocals)

    return try_out


@pytest.fixture
def plant(monkeypatch):
    return lambda **options: monkeypatch.setattr(Judge, "try_out", planted(**options))


def test_what_is_planted_is_found(plant):
    plant()
    found = tune(GRAPH, BASE, trials=60)
    assert BEST / 1.5 < found.settings.regularisation < BEST * 1.5
    assert found.chosen in found.trials
    assert (found.settings.dim, found.settings.groups) == (BASE.dim, BASE.groups)


def test_a_margin_of_the_noise_keeps_noise_from_winning(plant, monkeypatch):
    plant(noise=0.3, worth=0.0)
    # More than the best of twenty draws; the usual margin lets noise through, which does no harm on average.
    monkeypatch.setattr(trials, "MARGIN", 4.0)
    assert all(tune(GRAPH, replace(BASE, seed=seed), trials=20).chosen is None for seed in range(10))


def test_a_search_by_trials_repeats_whatever_the_clock_says(plant):
    draw = random.Random(0)
    plant(noise=0.1, takes=lambda _: draw.random())
    one, other = (tune(GRAPH, BASE, trials=24) for _ in range(2))
    assert one.settings == other.settings
    assert [each.changes for each in one.trials] == [each.changes for each in other.trials]
    assert len(one.trials) <= 24


@pytest.mark.slow
@given(st.sets(st.sampled_from(["regularisation", "crowd", "segment", "epochs"]), max_size=2))
def test_what_is_kept_stays(kept):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Judge, "try_out", planted())
        found = tune(GRAPH, BASE, trials=20, kept=kept)
    assert all(getattr(found.settings, name) == getattr(BASE, name) for name in kept)


class Stopping(FolderCheckpoints):
    """Asks to stop after so many questions whether it does."""

    def __init__(self, folder, after):
        super().__init__(folder)
        self.left = count(after, -1)

    @property
    def stopping(self):
        return next(self.left) <= 0


@pytest.mark.parametrize("after", [1, 7, 20])
def test_a_stopped_search_ends_as_one_that_was_not(plant, tmp_path, after):
    plant(noise=0.1)
    wanted, found = tune(GRAPH, BASE, trials=24), None
    for _ in range(200):
        after += 1  # at least a generation more each time
        try:
            found = tune(GRAPH, BASE, trials=24, checkpoints=Stopping(tmp_path / "stopped", after))
            break
        except Stopped:
            pass
    assert found is not None
    assert (found.settings, found.said) == (wanted.settings, wanted.said)
    assert [each.as_dict() for each in found.trials] == [each.as_dict() for each in wanted.trials]


def test_a_search_that_is_over_is_not_made_again(plant, tmp_path, monkeypatch):
    plant()

    class Due(FolderCheckpoints):
        def due(self, part, epoch):
            return True

    first = tune(GRAPH, BASE, trials=12, checkpoints=Due(tmp_path / "over"))
    monkeypatch.setattr(Judge, "try_out", None)
    again = tune(GRAPH, BASE, trials=12, checkpoints=FolderCheckpoints(tmp_path / "over"))
    assert (again.settings, again.said, again.chosen) == (first.settings, first.said, first.chosen)


def kept_of_trials(change):
    return lambda facts: facts["trials"][1].update(changes=change)


DAMAGES = {
    "a setting that there is not": kept_of_trials({"reach": 1}),
    "a setting of another type": kept_of_trials({"crowd": [1]}),
    "another recipe that there is not": kept_of_trials({"recipe": "best"}),
    "a first trial judged by others": lambda facts: facts.update(start=[0.5]),
    "an end without settings": lambda facts: facts.update(over=True),
    "an end of no method": lambda facts: facts.update(over=True, method="guess"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_search_is_refused_in_a_sentence(plant, tmp_path, damage):
    plant()
    with pytest.raises(Stopped):
        tune(GRAPH, BASE, trials=24, checkpoints=Stopping(tmp_path / "some", 20))
    kept = FolderCheckpoints(tmp_path / "some")
    damage(kept.stages["tuning"])
    search = Search(GRAPH, BASE, Tuning(trials=24), checkpoints=kept)
    refused(search.run, setting="search", seen="damaged", remedy="delete that checkpoint")


def test_the_best_so_far_will_do(plant, tmp_path):
    plant()
    with pytest.raises(Stopped):
        tune(GRAPH, BASE, trials=40, checkpoints=Stopping(tmp_path / "some", 30))
    kept = FolderCheckpoints(tmp_path / "some")
    found = Search(GRAPH, BASE, Tuning(trials=40, enough=True), checkpoints=kept).run()
    assert found.chosen is not None
    assert 4 <= len(found.trials) < 40


@pytest.mark.slow
def test_what_the_recipe_leaves_out_on_a_device_no_settings_of_the_portfolio_bring_back():
    large = random_graph(entities=5000, relations=2, triples=6000)
    for graph in (GRAPH, large):
        usual = recipe("accurate", graph, "cpu")
        weights = {each["relation_weight"] for each in others(usual, graph)}
        assert (weights == {0.0}) == (usual.relation_weight == 0)


@pytest.mark.slow
def test_with_a_time_the_search_goes_on_around_the_winner_of_the_race(plant, monkeypatch):
    plant(noise=0.02)
    monkeypatch.setattr(Prices, "_timed", lambda *_: 0.01)
    found = tune(GRAPH, BASE, seconds=100)  # ends when nothing better has been found for long
    stages = [each.stage for each in found.trials]
    assert [*dict.fromkeys(stages)] == ["trial", "race", "around"]
    assert BEST / 2 < found.settings.regularisation < 2 * BEST
    around = [each for each in found.trials if each.stage == "around"]
    assert {(each.changes.get("dim"), each.changes.get("groups")) for each in around} == {(None, None)}


@pytest.mark.slow
def test_where_training_needs_all_the_time_trials_have_as_many_epochs(plant, monkeypatch):
    plant(noise=0.02)
    monkeypatch.setattr(Prices, "of", lambda self, level: 4.0 if level == self.levels[0] else 0.1)
    found = tune(GRAPH, BASE, seconds=8)
    own = [each for each in found.trials if "recipe" not in each.changes]
    assert len(own) > 1
    assert not any("epochs" in each.changes for each in own)
    assert {each.stage for each in found.trials} == {"trial"}


def test_a_later_trial_leads_by_a_margin_alone():
    some = [Trial({}, valid_mrr=0.4), Trial({"crowd": 0.0}, valid_mrr=0.43, error=0.02)]
    assert leader(some) is some[1]
    assert leader([*some, Trial({"crowd": 1.0}, valid_mrr=0.435, error=0.02)]) is some[1]
    assert leader([some[0], Trial({"crowd": 1.0}, valid_mrr=0.405, error=0.02)]) is some[0]


def test_the_cheapest_settings_race_first(plant, monkeypatch):
    monkeypatch.setattr(Prices, "_timed", lambda *_: 0.01)
    plant(noise=0.01, takes=lambda settings: crc32(repr(settings).encode()) % 1000 / 1e5)
    found = tune(GRAPH, BASE, seconds=100)
    seconds = {str(each.changes): each.seconds for each in found.trials if each.stage == "trial"}
    race = [each.changes for each in found.trials if each.stage == "race"]
    costs = [seconds[str(each)] for each in race[1:]]
    assert race[0] == {}
    assert costs == sorted(costs)
    by_score = sorted(race[1:], key=lambda each: -next(trial.score for trial in found.trials if trial.changes == each))
    assert race[1:] != by_score  # or this would show nothing


class Clock:
    """A clock that goes on when a planted trial does."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


@pytest.mark.parametrize("trial", [0.05, 0.6, 2.0])
def test_a_search_keeps_to_its_time_and_leaves_some_for_training(plant, monkeypatch, trial):
    clock = Clock()
    monkeypatch.setattr(tuning, "time", clock)
    monkeypatch.setattr(Prices, "_timed", lambda *_: trial)
    monkeypatch.setattr(Search, "fitted", lambda _, tuned: tuned)
    plant(noise=0.05, clock=clock, takes=lambda settings: trial * getattr(settings, "epochs", 4) / BASE.epochs)
    found = tune(GRAPH, replace(BASE, workers=1), seconds=60)
    assert len(found.trials) >= 4
    assert found.seconds == clock.now <= 0.9 * 60
    training = BASE.groups * trial
    assert found.seconds + training <= 60


@pytest.mark.slow
def test_a_search_that_was_stopped_after_its_race_ends_with_the_winner_of_the_race(plant, monkeypatch, tmp_path):
    monkeypatch.setattr(Prices, "_timed", lambda *_: 0.01)
    plant(noise=0.02)
    for after in range(40, 400, 20):
        kept = Stopping(tmp_path / str(after), after)
        with suppress(Stopped):
            tune(GRAPH, BASE, seconds=100, checkpoints=kept)
        if any(each["stage"] == "around" for each in kept.stages["tuning"]["trials"]):
            break
    raced = [Trial(**each) for each in kept.stages["tuning"]["trials"] if each["stage"] != "trial"]
    found = tune(GRAPH, BASE, seconds=100, checkpoints=FolderCheckpoints(tmp_path / str(after)))
    assert found.chosen == winner(raced)


@pytest.mark.parametrize("settings", [FitSettings(dim=40, device="cpu"), baseline_settings("distmult", dim=8)])
def test_every_kind_of_settings_is_judged_by_as_many_triples(settings):
    enough = random_graph(entities=300, relations=2, triples=7 * ENOUGH)
    assert len(Search(enough, settings, Tuning(trials=8)).judge.sample) == ENOUGH


def test_a_validation_triple_counts_more_than_one_that_was_set_aside():
    graph = replace(GRAPH, valid=GRAPH.valid[:4])
    judge = Judge.of(graph, 20)
    real = [any((each == one).all() for one in graph.valid) for each in judge.sample]
    counts = {bool(is_real): round(count.item(), 6) for is_real, count in zip(real, judge.counts, strict=True)}
    assert counts[True] == pytest.approx(REAL * counts[False])
    assert judge.counts.mean().item() == pytest.approx(1)


def test_what_is_kept_is_a_setting():
    refused(lambda: tune(GRAPH, BASE, trials=8, kept=("dimension",)), setting="keep", seen="dimension", remedy="dim")


def test_too_few_validation_triples_are_said():
    tiny = random_graph(entities=5, relations=1, triples=12)
    found = tune(tiny, replace(BASE, batch=4), trials=8)
    assert found.settings == replace(BASE, batch=4)
    assert str(FEWEST) in found.said


def test_what_a_search_finds_can_be_trained_on_a_graph_smaller_than_the_batches_it_may_choose(plant):
    plant(noise=0.3, worth=0.0)
    small = random_graph(entities=20, relations=2, triples=200)
    kept = set(space_of(BASE)) - {"batch"}
    found = tune(small, replace(BASE, batch=40), trials=12, kept=kept)
    batches = {each.changes.get("batch", 40) for each in found.trials}
    assert len(batches) > 1
    assert max(batches) <= 2 * len(small.train)


def test_trials_train_on_what_was_not_set_aside():
    small = random_graph(entities=20, relations=2, triples=200)
    settings = replace(BASE, batch=2 * len(small.train))
    judge = Judge.of(small, BASE.dim)
    assert judge.aside
    assert judge.try_out(replace(settings, epochs=1), {}).failed == ""


def test_training_triples_judge_where_validation_triples_are_few():
    judge = Judge.of(replace(GRAPH, valid=GRAPH.valid[:0]), 20)
    assert 0 < len(judge.graph.valid) <= MOST_ASIDE * len(GRAPH.train) + 1
    assert len(judge.graph.train) + judge.aside == len(GRAPH.train)
    enough = random_graph(entities=300, relations=2, triples=7 * ENOUGH)
    assert Judge.of(enough, 20).graph is enough
    assert len(Judge.of(enough, 20).sample) == ENOUGH


DRAWN = ContrastSettings(dim=400, negatives=20, device="cpu")


@pytest.mark.parametrize("settings", [BASE, DRAWN, FitSettings(dim=40, device="cpu")])
def test_levels_are_parts_of_the_training_and_become_cheaper(settings):
    assert whole(settings).of(settings).segment == settings.segment
    if isinstance(settings, ContrastSettings):
        shorter = [level.of(settings) for level in possible(settings)]
        assert shorter[0].dim == settings.dim // settings.groups
        costs = [work(trial, GRAPH) for trial in shorter]
        assert costs == sorted(costs, reverse=True)
    assert Level(1).of(settings).dim == settings.segment
    assert usual(settings).of(settings).dim <= settings.dim


@pytest.mark.parametrize("choice", [{}, {"seconds": 1.0, "trials": 8}, {"trials": 1}])
def test_a_search_has_one_end(choice):
    if len(choice) == 1:
        refused(lambda: Tuning(**choice), setting="trials", seen=1, remedy="at least")
    else:
        refused(lambda: Tuning(**choice), setting="search", seen="time or a number", remedy="leave one out")


@pytest.mark.slow
def test_a_real_graph_is_tuned_by_the_clock():
    from procrustes_kge import read_graph

    graph = read_graph("wordnet-mini")
    found = tune(graph, seconds=20)  # a slow machine has no time for trials, and says so
    assert bool(found.trials) != found.said.startswith("not tuned")
    assert found.settings.time > 0


@pytest.mark.slow
def test_real_trials_choose_real_settings():
    found = tune(GRAPH, BASE, trials=9)
    assert all(each.valid_mrr is not None for each in found.trials)
    assert [each.stage for each in found.trials[-2:]] == ["race", "race"]
