"""Laws of budgets: words become numbers, settings fit a time and a memory, and nothing changes without need."""

import math
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise

import pytest
import torch
from hypothesis import assume, given, settings as example_count, strategies as st

from laws import refused
from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph, Vocabulary
from procrustes_kge.layouts.batches import QUERIES_PER_TILE
from procrustes_kge.training import budget
from procrustes_kge.training.budget import (
    AIM,
    FEWEST,
    FEWEST_OF_GROUPS,
    PROGRAM,
    RANKING,
    SHORTEST,
    Plan,
    memory_needed,
    parse_size,
    parse_time,
    plan,
)
from procrustes_kge.training.contrastive import queries_at_once
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.costs import Costs, usual_epochs
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import OWN, changed, learn, recipe
from procrustes_kge.words import counted
from toys import random_graph, rotated_graph

CPU = torch.device("cpu")
DIM = 600
EVERY = {
    "fit": FitSettings(dim=DIM, device="cpu"),
    "all": ContrastSettings(dim=DIM, batch=512, device="cpu"),
    "full": ContrastSettings(dim=DIM, batch="full", device="cpu"),
    "some": ContrastSettings(dim=DIM, batch=512, negatives=50, optimiser="adam", device="cpu"),
    "none": ContrastSettings(dim=DIM, batch=512, negatives="none", loss="squared", lengths="unit", device="cpu"),
    "groups": ContrastSettings(dim=DIM, groups=5, batch=512, device="cpu"),
}
every_method = pytest.mark.parametrize("method", EVERY)


@cache
def graph_of(entities, triples=2000):
    """Return a graph of so many entities."""
    rows = torch.arange(triples)
    return Graph(
        "sized",
        Vocabulary(map(str, range(entities)), "entity"),
        Vocabulary(["r", "s"], "relation"),
        torch.stack([rows % entities, rows % 2, rows * 7 % entities], dim=1),
        *(torch.empty(0, 3, dtype=torch.int64),) * 2,
    )


def planned(graph, settings, seconds=None, memory=None, pace=1e-3, keep=(), **costs):
    """Return the plan of a machine that takes `pace` seconds per number of a vector in an epoch: no clock is asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "measured", lambda graph, settings, patience: Costs(pilot=pace * settings.dim, **costs))
        return plan(graph, settings, seconds, memory, keep)


def fewest_epochs(graph, settings):
    """Return how many epochs at least are worth training."""
    usual = usual_epochs(graph, settings)
    groups = getattr(settings, "groups", 1)
    many = groups > 1 and settings.dim // groups * (groups - 1) >= SHORTEST[ContrastSettings]
    share = FEWEST_OF_GROUPS if many else FEWEST
    return usual if usual < settings.epochs else math.ceil(share * settings.epochs)


def shortened(settings, made):
    """Return settings with the vectors and the groups of others."""
    groups = {"groups": made.groups} if isinstance(settings, ContrastSettings) else {}
    return replace(settings, dim=made.dim, **groups)


def least(settings, dim=None):
    """Return the settings with a vector this short, or of one segment, and with one tile at once."""
    spare = {"chunk": QUERIES_PER_TILE} if isinstance(settings, ContrastSettings) else {}
    return changed(settings, dim=dim or settings.segment, **spare)


# Words.

TIMES = {"s": 1, "sec": 1, "": 1, "m": 60, "min": 60, "h": 3600}
SIZES = {"": 1, "b": 1, "k": 1e3, "kb": 1e3, "m": 1e6, "mb": 1e6, "g": 1e9, "gb": 1e9, "t": 1e12, "tb": 1e12}


@given(st.integers(1, 10**6), st.sampled_from([*TIMES]), st.sampled_from(["", " ", "  "]))
def test_a_time_is_a_number_of_its_unit(number, unit, space):
    for text in (f"{number}{space}{unit}", f" {number}{space}{unit.upper()} "):
        assert parse_time(text) == number * TIMES[unit]


@given(st.integers(1, 10**6), st.sampled_from([*SIZES]), st.sampled_from(["", " ", "  "]))
def test_a_size_is_a_number_of_its_unit(number, unit, space):
    for text in (f"{number}{space}{unit}", f" {number}{space}{unit.upper()} "):
        if unit or number >= 1e6:
            assert parse_size(text) == number * SIZES[unit]
            continue
        meant = f"did you mean {number}{'GB' if number < 1000 else 'MB'}?"
        seen = f"{counted(number, 'byte')};"
        assert seen in refused(partial(parse_size, text), setting="memory", seen=repr(text), remedy=meant)


@given(st.integers(0, 1000), st.integers(1, 99))
def test_numbers_may_have_a_fraction(number, hundredths):
    text = f"{number}.{hundredths:02}"
    assert parse_time(f"{text}m") == pytest.approx(60 * (number + hundredths / 100))
    assert parse_size(f"{text}GB") == pytest.approx(1e9 * (number + hundredths / 100))
    assert parse_time(f".{hundredths:02}h") == pytest.approx(36 * hundredths)


NONSENSE = ["", " ", "m", "GB", "-5m", "+5m", "1e3", "1,000", "5.", "1.2.3", "0", "0.0m", "ten", "nan", "inf", "5 m m"]


@pytest.mark.parametrize("text", [*NONSENSE, "5d", "5MB", "5 hours"])
def test_a_time_that_is_none_is_refused(text):
    refused(lambda: parse_time(text), setting="time", seen=repr(text), remedy="such as 60s, 10m or 1h")


@pytest.mark.parametrize("text", [*NONSENSE, "5s", "5h", "4GiB", "5 MB/s"])
def test_a_size_that_is_none_is_refused(text):
    refused(lambda: parse_size(text), setting="memory", seen=repr(text), remedy="such as 4GB or 500MB")


# Memory.


@every_method
def test_more_numbers_entities_and_triples_take_more_memory(method):
    settings = EVERY[method]
    by_dim = [memory_needed(rotated_graph(), replace(settings, dim=dim)) for dim in (100, 200, 1000, 2000)]
    by_entities = [memory_needed(graph_of(entities), settings) for entities in (60, 100, 1000, 10_000)]
    by_triples = [memory_needed(graph_of(100, triples), settings) for triples in (300, 2000, 100_000)]
    for sizes in (by_dim, by_entities, by_triples):
        assert all(earlier < later for earlier, later in pairwise(sizes))
        assert min(sizes) > PROGRAM


def test_more_queries_at_once_take_more_memory_until_a_batch_is_one():
    graph = graph_of(100)
    for method in ("all", "full", "some", "none"):
        sizes = [memory_needed(graph, replace(EVERY[method], chunk=chunk)) for chunk in (16, 32, 256, 512)]
        assert sizes == sorted(set(sizes))
    sizes = [memory_needed(graph, replace(EVERY["all"], chunk=chunk)) for chunk in (512, 1024, 10**6, 0)]
    assert len(set(sizes)) == 1


def test_adam_remembers_more_than_adagrad():
    graph = graph_of(1000)
    adagrad, adam = (memory_needed(graph, replace(EVERY["all"], optimiser=name)) for name in ("adagrad", "adam"))
    assert adam - adagrad == pytest.approx(4 * 1000 * DIM)


def test_the_table_and_its_gradient_are_counted():
    graph = graph_of(20_000)
    for settings in EVERY.values():
        assert memory_needed(graph, settings) > PROGRAM + 2 * 4 * 20_000 * DIM


def test_longer_vectors_take_more_memory_where_many_negatives_are_drawn_for_a_full_batch():
    graph = graph_of(500, 50_000)
    settings = ContrastSettings(negatives=400, batch="full", device="cpu")
    sizes = [memory_needed(graph, replace(settings, dim=dim)) for dim in (20, 40, 80, 160)]
    assert sizes == sorted(sizes)


@given(
    st.sampled_from([*EVERY]),
    st.sampled_from([60, 1000, 20_000]),
    st.sampled_from([100, 400, DIM]),
    st.floats(0.28, 1.0),
    st.sampled_from([0, 16, 100, 4096]),
    st.one_of(st.none(), st.floats(0.01, 100)),
)
def test_a_plan_stays_within_its_memory_and_never_grows(method, entities, dim, gigabytes, chunk, seconds):
    graph, settings = graph_of(entities), replace(EVERY[method], dim=dim)
    if isinstance(settings, ContrastSettings):
        settings = replace(settings, chunk=chunk)
    try:
        made = planned(graph, settings, seconds=seconds, memory=gigabytes * 1e9)
    except InputError:
        assert memory_needed(graph, least(settings)) > gigabytes * 1e9
        return
    assert made.memory == memory_needed(graph, made.settings) <= gigabytes * 1e9
    assert made.settings.dim <= dim
    assert made.settings.dim % settings.segment == 0
    if chunk and isinstance(settings, ContrastSettings):
        assert made.settings.chunk <= chunk


@every_method
def test_a_plan_takes_the_longest_vectors_that_its_memory_holds(method):
    graph, settings = graph_of(20_000), EVERY[method]
    needed = {dim: memory_needed(graph, least(settings, dim)) for dim in range(settings.segment, DIM + 1, 20)}
    for dim in (200, 480, 500):
        for memory in (needed[dim], needed[dim] - 1):
            longest = max(each for each in needed if needed[each] <= memory)
            assert planned(graph, settings, memory=memory).settings.dim == longest


@every_method
def test_more_memory_never_gives_shorter_vectors_or_fewer_queries_at_once(method):
    graph, settings = graph_of(20_000), EVERY[method]
    fewest, most = memory_needed(graph, least(settings)), memory_needed(graph, settings)
    sizes = [fewest + share * (most - fewest) for share in (0, 0.1, 0.3, 0.7, 0.99, 1, 2)]
    plans = [planned(graph, settings, memory=memory).settings for memory in sizes]
    dims = [made.dim for made in plans]
    assert dims == sorted(dims)
    assert dims[0] < dims[-1] == DIM
    if isinstance(settings, ContrastSettings):
        whole_vectors = [made.chunk or 10**9 for made in plans if made.dim == DIM]  # 0: as many as there are
        assert whole_vectors == sorted(whole_vectors)


@every_method
def test_a_memory_that_cannot_be_is_refused_with_what_would_be_needed(method):
    graph, settings = graph_of(20_000), EVERY[method]
    needed = memory_needed(graph, least(settings))
    for memory in (0.0, needed - 1):
        said = refused(
            lambda memory=memory: planned(graph, settings, memory=memory),
            setting="memory asked for",
            seen=f"{memory / 1e9:.3g} GB",
            remedy="try a larger --memory",
        )
        assert f"sized takes {needed / 1e9:.3g} GB even with vectors of {settings.segment} numbers" in said
    assert planned(graph, settings, memory=needed).settings.dim == settings.segment


def test_a_memory_beyond_all_numbers_is_refused():
    with pytest.raises(InputError, match="expected a number above 0 and a unit"):
        parse_size("9" * 400)


# Time.


@pytest.mark.slow
@every_method
@example_count(max_examples=12)
@given(st.floats(1e-6, 1e4), st.sampled_from([100, 400, DIM]), st.integers(1, 200), st.floats(1e-6, 1))
def test_a_plan_keeps_its_time_or_is_the_smallest_that_is_worth_training(method, seconds, dim, epochs, pace):
    graph, settings = rotated_graph(), replace(EVERY[method], dim=dim, epochs=epochs)
    made = planned(graph, settings, seconds=seconds, pace=pace)
    shortest = min(dim, SHORTEST[type(settings)])
    if made.seconds > AIM * seconds:
        assert made.settings.dim == shortest
        assert usual_epochs(graph, made.settings) == fewest_epochs(graph, shortened(settings, made.settings))
    assert fewest_epochs(graph, shortened(settings, made.settings)) <= made.settings.epochs <= epochs
    assert shortest <= made.settings.dim <= dim
    assert made.settings == replace(shortened(settings, made.settings), epochs=made.settings.epochs)


@every_method
def test_fewer_epochs_are_tried_before_shorter_vectors(method):
    settings = replace(EVERY[method], epochs=100, patience=0)
    fewest = fewest_epochs(rotated_graph(), settings)
    each, saving = 1e-3 * settings.dim, planned(rotated_graph(), settings).saving
    enough = planned(rotated_graph(), settings, seconds=(fewest * each + saving + 1e-6) / AIM).settings
    assert (enough.dim, enough.epochs) == (settings.dim, fewest)
    shorter = planned(rotated_graph(), settings, seconds=(fewest - 0.5) * each / AIM).settings
    assert shorter.dim < settings.dim
    assert shorter.epochs >= fewest


@every_method
def test_more_time_never_gives_shorter_vectors(method):
    settings = replace(EVERY[method], epochs=100)
    times = (1e-3, 0.1, 1, 3, 10, 20, 40, 100, 999)
    plans = [planned(rotated_graph(), settings, seconds=seconds).settings for seconds in times]
    dims = [made.dim for made in plans]
    assert dims == sorted(dims)
    assert (dims[0], dims[-1]) == (SHORTEST[type(settings)], DIM)
    assert plans[-1] == settings


def test_groups_are_dropped_before_epochs_are_few():
    settings = replace(ContrastSettings(device="cpu"), dim=2000, groups=4, epochs=30)
    for share, groups, epochs in ((1, 4, 30), (0.7, 4, 21), (0.6, 3, 24), (0.35, 2, 21), (0.25, 1, 30), (0.1, 1, 12)):
        plenty = 1.001 * share * 30 * 1e-3 * settings.dim + planned(rotated_graph(), settings).saving
        made = planned(rotated_graph(), settings, seconds=plenty / AIM).settings
        assert (made.groups, made.dim // made.groups) == (groups, 500)
        assert abs(made.epochs - epochs) <= 2
    kept = planned(rotated_graph(), settings, seconds=20, keep=("dim",)).settings
    assert (kept.dim, kept.groups) == (2000, 4)


@pytest.mark.parametrize("segment", [100, 120, 200, 400])
@pytest.mark.parametrize("method", ["fit", "all"])
def test_wide_segments_are_left_whole(method, segment):
    settings = replace(EVERY[method], dim=2 * segment, segment=segment)
    assert planned(rotated_graph(), settings, seconds=1e-3).settings.dim == segment


@every_method
def test_what_was_asked_for_is_kept(method):
    settings = replace(EVERY[method], epochs=100)
    for seconds in (1e-3, 1.0, 10.0):
        dims = {planned(rotated_graph(), settings, seconds=seconds, keep=["dim"]).settings.dim}
        epochs = {planned(rotated_graph(), settings, seconds=seconds, keep=["epochs"]).settings.epochs}
        assert (dims, epochs) == ({DIM}, {100})
        both = planned(rotated_graph(), settings, seconds=seconds, keep=["epochs", "dim", "seed"])
        assert both.settings == settings
        assert both.seconds > seconds


def test_ranking_takes_its_share_of_the_time_and_no_more():
    graph, settings = rotated_graph(), EVERY["all"]
    free = planned(graph, settings, triple=1.0)
    assert free.ranking == len(graph.valid) + len(graph.test)
    assert planned(graph, settings, seconds=200.0, triple=1.0).ranking == pytest.approx(RANKING * 200)
    assert planned(graph, settings, seconds=200.0, triple=0.01).ranking == pytest.approx(free.ranking / 100)


def test_all_that_a_run_takes_is_counted():
    graph, settings = rotated_graph(), replace(EVERY["all"], epochs=10, validate_every=3)
    free = planned(graph, settings, pace=0.0)
    costs = {"start": 1.0, "others": 2.0, "look": 3.0, "finish": 4.0}
    made = planned(graph, settings, pace=0.0, **costs)
    assert made.learning - free.learning == pytest.approx(1 + 10 * 2 + 4 * 3 + 4)  # after epochs 3, 6, 9 and 10
    assert made.seconds == pytest.approx(made.learning + made.saving + made.ranking)
    assert made.for_epochs(100.0) == pytest.approx(100 - made.finish - made.saving - made.ranking)


@given(st.floats(0, 1), st.floats(0, 10), st.floats(0, 10))
def test_costs_between_two_that_were_timed_lie_on_a_line(share, low, high):
    mixed = Costs(pilot=low, workers=1).towards(Costs(pilot=high, workers=2), share)
    assert mixed.pilot == pytest.approx((1 - share) * low + share * high)
    assert mixed.workers == (2 if share > 0.5 else 1)


def test_a_plan_takes_the_threads_that_were_faster():
    settings = EVERY["all"]
    assert planned(rotated_graph(), settings, workers=3).settings.workers == 3
    assert planned(rotated_graph(), settings).settings.workers == settings.workers


def test_validation_is_expected_to_choose_before_the_last_epoch():
    with_valid, without = rotated_graph(), replace(rotated_graph(), valid=torch.empty(0, 3, dtype=torch.int64))
    by_turns, by_adam = FitSettings(device="cpu"), FitSettings(device="cpu", optimiser="adam")
    for graph in (with_valid, without):  # training triples stand in
        assert usual_epochs(graph, by_turns) < by_turns.epochs
        assert usual_epochs(graph, replace(by_turns, patience=0)) == by_turns.epochs
        assert usual_epochs(graph, by_adam) == by_adam.epochs
    short = replace(by_turns, dim=40)
    assert usual_epochs(with_valid, by_turns) < usual_epochs(with_valid, short) < short.epochs


# Both, or neither.


@every_method
def test_without_budgets_nothing_changes(method):
    settings = EVERY[method]
    made = planned(rotated_graph(), settings)
    assert made.settings == settings
    epochs = usual_epochs(rotated_graph(), settings)
    tried = epochs if epochs == settings.epochs else epochs + settings.patience * settings.validate_every
    assert made.learning == pytest.approx(1e-3 * DIM * tried)
    assert made.memory == memory_needed(rotated_graph(), settings)


@every_method
@pytest.mark.parametrize("memory", [1e10, 1e15])
def test_a_generous_budget_changes_nothing_that_training_does(method, memory):
    graph, settings = graph_of(1000), EVERY[method]
    made = planned(graph, settings, seconds=1e9, memory=memory)
    if isinstance(settings, ContrastSettings):  # a bound that does not bind
        assert queries_at_once(made.settings, 1000, CPU) == queries_at_once(settings, 1000, CPU)
        made = replace(made, settings=replace(made.settings, chunk=settings.chunk))
    assert made.settings == settings
    assert made.memory == memory_needed(graph, settings)


@example_count(max_examples=12)
@given(st.sampled_from([*EVERY]), st.floats(0.3, 1.0), st.floats(1e-4, 1), st.sampled_from([4, 20]))
def test_what_is_planned_can_be_trained(method, gigabytes, seconds, segment):
    settings = replace(EVERY[method], segment=segment, dim=200)
    try:
        made = planned(rotated_graph(), settings, seconds, gigabytes * 1e9)
    except InputError:
        assume(False)
    model = learn(rotated_graph(), replace(made.settings, epochs=1, workers=1))
    assert model.dim == made.settings.dim
    assert bool(model.vectors.isfinite().all())


@pytest.mark.slow
@every_method
def test_planning_leaves_the_machine_and_the_training_as_they_were(method):
    graph, before = random_graph(60, 3, 400), torch.get_num_threads()
    settings = replace(EVERY[method], dim=100, workers=1)
    settings = replace(settings, batch=128) if isinstance(settings, ContrastSettings) else settings
    model = learn(graph, replace(settings, epochs=2))
    torch.set_num_threads(3)
    try:
        made = plan(graph, settings)  # by trying, on a clock
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert made.settings == settings
    assert 0 < made.learning < math.inf
    assert 0 < made.ranking < math.inf
    assert torch.is_grad_enabled()
    assert learn(graph, replace(made.settings, epochs=2)).vectors.equal(model.vectors)


def test_a_warm_start_is_not_tried():
    settings = replace(EVERY["all"], dim=40, batch=128, warm_start=10**9, workers=1)
    assert plan(rotated_graph(), settings).settings == settings


@pytest.mark.parametrize(("batch", "epochs"), [(128, 1), ("full", 10)])
def test_a_short_training_can_be_planned(batch, epochs):
    settings = replace(EVERY["all"], dim=40, batch=batch, epochs=epochs, workers=1)
    assert plan(rotated_graph(), settings).settings == settings


@pytest.mark.parametrize("name", OWN)
def test_every_recipe_of_our_own_can_be_planned(name):
    graph = rotated_graph()
    settings = recipe(name, graph, "cpu")
    made = planned(graph, settings, seconds=100.0, memory=0.5e9)
    assert made.memory <= 0.5e9
    assert made.seconds <= 100
    assert made.settings.device == "cpu"


# What a plan says.


def test_a_plan_says_what_will_be_trained_and_what_it_takes():
    fast = Plan(replace(EVERY["fit"], dim=2000, epochs=1200), 3725.4, 1.26e9)
    assert str(fast) == "2,000 numbers in segments of 20, up to 1,200 epochs: about 1 h 2 min in all and 1.3 GB"
    accurate = Plan(replace(EVERY["all"], dim=400), 50.6, 0.46e9, saving=1.0, ranking=10.0)
    takes = "400 numbers in segments of 20, 30 epochs, batch 512, all negatives: about {} s in all and 0.5 GB"
    assert str(accurate) == takes.format(62)
    assert accurate.describe(before=5.0) == takes.format(67)


def test_a_moment_is_about_a_second():
    for seconds in (0.0, 0.01, 0.5, 1.4):
        assert "about 1 s" in str(Plan(EVERY["fit"], seconds, 1e9))


def test_a_plan_speaks_english():
    assert "batch 512, no negatives" in str(Plan(EVERY["none"], 1.0, 1e9))
    assert "batch 512, 50 negatives" in str(Plan(EVERY["some"], 1.0, 1e9))
    assert "full batch, all negatives" in str(Plan(EVERY["full"], 1.0, 1e9))
    assert "up to 1 epoch:" in str(Plan(replace(EVERY["fit"], epochs=1), 1.0, 1e9))
