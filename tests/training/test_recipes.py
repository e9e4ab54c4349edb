"""Laws of recipes: settings by name that any graph can be trained with, and one function that trains them."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import procrustes_kge
from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph, Vocabulary
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.baselines.bilinear import DistMult
from procrustes_kge.models.baselines.embedded import sees_answers
from procrustes_kge.training.baseline_recipes import PUBLISHED
from procrustes_kge.training.contrastive import ContrastSettings, Training, contrast
from procrustes_kge.training.full_batch import fit
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import (
    DEFAULT,
    METHODS,
    OF_TRAINING,
    OWN,
    baseline_recipes,
    changed,
    check_buildable,
    learn,
    recipe,
)
from procrustes_kge.training.supervised import train
from procrustes_kge.training.supervised_settings import TrainSettings
from toys import builds, random_graph, random_graphs, rotated_graph

CPU, GPU = torch.device("cpu"), torch.device("cuda")
RECIPES = [*OWN, *baseline_recipes()]
every_recipe = pytest.mark.parametrize("name", RECIPES)
own_recipes = pytest.mark.parametrize("name", OWN)
contrasted_recipes = pytest.mark.parametrize("name", ["accurate", "paper+ns", "paper+tb", "paper+ns+tb"])


def large_graph(entities, relations, triples, seed=0):
    """Return a graph too large to list all the triples that it might have."""
    generator = torch.Generator().manual_seed(seed)
    cells = torch.randint(entities * relations * entities, (triples,), generator=generator).unique()
    rows = torch.stack([cells // (relations * entities), cells // entities % relations, cells % entities], dim=1)
    return Graph(
        "large",
        Vocabulary(map(str, range(entities)), "entity"),
        Vocabulary(map(str, range(relations)), "relation"),
        rows,
        *(torch.empty(0, 3, dtype=torch.int64),) * 2,
    )


def complete_graph(heads, tails):
    """Return a graph in which every head has every tail."""
    rows = torch.cartesian_prod(torch.arange(heads), torch.arange(1), heads + torch.arange(tails))
    names = Vocabulary(map(str, range(heads + tails)), "entity")
    return Graph("complete", names, Vocabulary(["r"], "relation"), rows, *(torch.empty(0, 3, dtype=torch.int64),) * 2)


def answers_to_a_question(graph):
    """Return how many answers a question has on average, counted plainly."""
    questions = {(relation, "tail", head) for head, relation, _ in graph.train.tolist()}
    questions |= {(relation, "head", tail) for _, relation, tail in graph.train.tolist()}
    return 2 * len(graph.train) / len(questions)


LARGE = large_graph(6000, 150, 40_000)
GRAPHS = {
    "no graph": None,
    "one triple": random_graph(2, 1, 1),
    "a few triples": random_graph(5, 2, 12),
    "rotated": rotated_graph(),
    "many relations": random_graph(30, 120, 500),
    "large": LARGE,
}


def same(one, other):
    """Tell whether two models are equal bit for bit."""
    left, right = (each.module.state_dict() if hasattr(each, "module") else each.tables() for each in (one, other))
    return left.keys() == right.keys() and all(left[name].equal(right[name]) for name in left)


# By name.


def test_the_default_is_one_of_them():
    assert DEFAULT in RECIPES


def test_recipes_are_our_own_and_those_of_the_baselines():
    assert {*RECIPES} == {*OWN, *PUBLISHED, *BASELINES}
    for name in RECIPES:
        settings = recipe(name)
        assert isinstance(settings, TrainSettings) == (name not in OWN)
    for model in BASELINES:
        assert model in baseline_recipes(model)
        assert all(recipe(name).model == model for name in baseline_recipes(model))


def test_a_model_that_is_added_has_a_recipe_at_once(monkeypatch):
    monkeypatch.setitem(BASELINES, "fourteenth", DistMult)
    assert baseline_recipes("fourteenth") == ["fourteenth"]
    for graph in (None, LARGE):
        assert recipe("fourteenth", graph) == TrainSettings(model="fourteenth")
    graph = GRAPHS["rotated"]
    settings = recipe("fourteenth", graph, "cpu", dim=8, epochs=1)
    assert learn(graph, settings).name == "fourteenth"
    check_buildable("fourteenth", dim=8)


@every_recipe
@pytest.mark.parametrize("kind", GRAPHS)
def test_a_recipe_makes_settings_that_can_be_trained(name, kind):
    graph = GRAPHS[kind]
    settings = recipe(name, graph, "cpu")
    assert settings == replace(settings)  # which checks them again
    assert settings.device == "cpu"
    assert settings == recipe(name, graph, "cpu")
    assert isinstance(settings, tuple(METHODS.values()))
    if graph is not None and isinstance(settings, ContrastSettings):
        Training(graph, replace(settings, dim=40, segment=20), CPU)  # which refuses what asks too much of a graph


@own_recipes
@pytest.mark.parametrize("kind", GRAPHS)
def test_a_recipe_makes_settings_for_a_gpu_too(name, kind):
    settings = OWN[name](GRAPHS[kind], GPU)
    assert settings == replace(settings)
    assert settings.dim == 2000


@every_recipe
def test_a_recipe_remembers_the_device_as_it_was_asked_for(name):
    assert [recipe(name, None, device).device for device in ("auto", "cpu")] == ["auto", "cpu"]
    assert recipe(name) == recipe(name, None, "auto")


@pytest.mark.parametrize("name", ["slow", "", "Accurate", "paper+", "paper + ns"])
def test_an_unknown_recipe_is_answered_with_those_that_are_known(name):
    with pytest.raises(InputError) as caught:
        recipe(name)
    assert str(caught.value) == f"unknown recipe {name!r}, expected {' or '.join(RECIPES)}"


@every_recipe
def test_settings_of_a_recipe_may_be_changed(name):
    changed = recipe(name, None, "cpu", dim=80, learning_rate=0.5)
    assert changed == replace(recipe(name, None, "cpu"), dim=80, learning_rate=0.5)


@own_recipes
def test_vectors_that_are_not_whole_segments_are_refused(name):
    with pytest.raises(InputError, match="dimension 90 does not divide into segments of 20; try 80 or 100"):
        recipe(name, None, "cpu", dim=90)


@pytest.mark.parametrize(
    ("dim", "segment", "groups"), [(2000, 20, 4), (1000, 20, 2), (1980, 20, 3), (500, 20, 1), (80, 4, 1), (3000, 5, 4)]
)
def test_vectors_of_another_size_have_fewer_groups_rather_than_smaller_ones(dim, segment, groups):
    settings = replace(ContrastSettings(), dim=2000, groups=4)
    assert changed(settings, dim=dim, segment=segment) == replace(settings, dim=dim, segment=segment, groups=groups)
    assert changed(settings, dim=dim, segment=1, groups=2) == replace(settings, dim=dim, segment=1, groups=2)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "fast",
            {"dropout": 0.1},
            "dropout is no setting of the recipe fast, but try it with accurate or paper+ns",
        ),
        ("accurate", {"segments": 5}, "segments is no setting of the recipe accurate, nor of any other"),
        (
            "accurate",
            {"validate_every": 3},
            "validate every is no setting of the recipe accurate, but try it with fast or paper",
        ),
        ("paper", {"wings": 2}, "wings is no setting of the recipe paper, nor of any other"),
        ("fast", {"kernel": 3}, "kernel is no setting of the recipe fast, but try it with a baseline such as transe"),
        ("complex", {"segment": 4}, "segment is no setting of the recipe complex, but try it with accurate or fast"),
    ],
)
def test_a_setting_that_a_recipe_does_not_have_is_refused_with_those_that_have_it(name, change, message):
    with pytest.raises(InputError) as caught:
        recipe(name, None, "cpu", **change)
    assert str(caught.value).startswith(message)


def test_every_setting_that_no_model_names_is_read_by_training():
    package = Path(procrustes_kge.__file__).parent
    read = "".join(
        (package / f"{name}.py").read_text(encoding="utf-8") for name in ("training/supervised", "training/losses")
    )
    assert {name for name in OF_TRAINING if f"settings.{name}" not in read} == set()
    assert {"learning_rate", "against", "even", "patience"} <= OF_TRAINING


OF_TUCKER = "tucker, which has of its own: dim, relation dim, input dropout, relation dropout, query dropout"
UNUSED = [
    ("tucker", {"inverses": False}, f"inverses is no setting of {OF_TUCKER}"),
    ("tucker", {"dim": 20, "norm": 2}, f"norm is no setting of {OF_TUCKER}"),
    ("tucker", {"kernel": 7}, f"kernel is no setting of {OF_TUCKER}"),
    ("tucker", {"margin": 2.0}, f"margin is no setting of {OF_TUCKER}; a margin is for --loss margin"),
    (
        "transe",
        {"margin": 2.0},
        "a margin of all scores does nothing to a softmax; try --loss logistic or margin",
    ),
    ("distmult", {"shared": True}, "shared against all, where no negatives are drawn; try --against 1024"),
    ("rotate", {"penalty": "n3"}, "penalty n3 with decay 0 does nothing; give a --decay such as 0.05"),
    ("complex", {"penalty": "n2", "decay": 0.0}, "penalty n2 with decay 0 does nothing; give a --decay such as 0.05"),
    ("rotate", {"decay": 0.1}, "decay 0.1 without a penalty does nothing; give a --penalty such as n3"),
]


@pytest.mark.parametrize(("name", "changes", "message"), UNUSED)
def test_a_change_that_would_change_nothing_is_refused(name, changes, message):
    with pytest.raises(InputError) as caught:
        recipe(name, None, "cpu", **changes)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("transe", {"norm": 1, "inverses": False}),
        ("transe", {"loss": "logistic", "margin": 3.0, "shared": False}),
        ("complex", {"against": 5, "loss": "margin", "margin": 2.0}),
        ("complex", {"decay": 0.0}),  # no penalty, in another way
        ("rotate", {"penalty": "n3", "decay": 0.1}),
    ],
)
def test_a_change_that_changes_something_is_not_refused(name, changes):
    assert recipe(name, None, "cpu", **changes) == replace(recipe(name, None, "cpu"), **changes)


@pytest.mark.parametrize("many_relations", [False, True])
@pytest.mark.parametrize("name", baseline_recipes())
@pytest.mark.parametrize(
    "asked",
    [
        *({"against": "all"}, {"against": "labels"}, {"against": "labels", "loss": "softmax"}, {"against": 7}),
        *({"against": 7, "loss": loss} for loss in ("softmax", "logistic", "margin")),
    ],
)
def test_what_a_recipe_alone_wanted_gives_way_to_what_is_asked_for(asked, name, many_relations):
    graph = random_graph(9, 101 if many_relations else 2, 300)
    if asked["against"] == "labels" and sees_answers(BASELINES[recipe(name).model]):
        with pytest.raises(InputError, match="would see all answers of a question at once"):
            recipe(name, graph, "cpu", **asked)
        return
    plain, found = recipe(name, graph, "cpu"), recipe(name, graph, "cpu", **asked)
    assert all(getattr(found, each) == value for each, value in asked.items())
    may_differ = {"against", "loss", "shared", "smoothing", "focus", "outweigh", "even"}
    assert replace(found, **{each: getattr(plain, each) for each in may_differ}) == plain
    assert recipe(name, graph, "cpu", against=plain.against) == plain


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"against": "labels", "even": True}, "even is for triples"),
        ({"against": "labels", "focus": 1.0}, "focus is for logistic loss with drawn negatives"),
        ({"against": 7, "smoothing": 0.1}, "smoothing against 7 negatives"),
        ({"against": "all", "loss": "logistic"}, "logistic loss against all entities"),
        ({"against": "all", "shared": True}, "shared against all"),
        ({"against": 9}, "9 negatives, but the graph .* has 9 entities; try at most 8"),
    ],
)
def test_what_is_asked_for_does_not_give_way(asked, message):
    with pytest.raises(InputError, match=message):
        recipe("rotate", random_graph(9, 2, 30), "cpu", **asked)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("quate", {"dim": 30}, "dimension 30 does not divide into numbers of 4 parts; try 28 or 32"),
        ("rgcn", {"dim": 30}, "dimension 30 does not divide into 100 blocks"),
        ("sacn", {"kernel": 4}, "kernel 4, expected an odd number"),
        ("interacte", {"dim": 31}, "dimension 31 makes an image of 31 by 2"),
        ("ote", {"dim": 31}, "dimension 31 does not divide into groups of"),
    ],
)
def test_numbers_that_a_model_cannot_take_are_refused_without_a_graph(name, changes, message):
    with pytest.raises(InputError, match=message):
        check_buildable(name, **changes)


@pytest.mark.parametrize("name", baseline_recipes())
def test_whether_a_model_can_be_built_is_found_out_without_memory_or_dice(name):
    before = torch.random.get_rng_state()
    check_buildable(name)
    check_buildable(name, dim=1_000_000)
    assert torch.random.get_rng_state().equal(before)
    assert torch.zeros(1).device == CPU


def test_numbers_that_suit_one_kind_of_graph_are_left_to_the_graph(monkeypatch):
    both = TrainSettings(model="ote", group=8), TrainSettings(model="ote", group=6)
    monkeypatch.setitem(PUBLISHED, "ote", both)
    for suits_one in (16, 18):
        check_buildable("ote", dim=suits_one)
    with pytest.raises(InputError, match="dimension 20 does not divide into groups of 8"):
        check_buildable("ote", dim=20)


def test_an_unknown_device_is_refused_before_a_recipe_is_made():
    with pytest.raises(InputError, match="unknown device 'banana', expected cpu, cuda, cuda:N or auto"):
        recipe("accurate", None, "banana")


# What they are.


def test_fast_is_what_fit_does_by_default():
    for graph in GRAPHS.values():
        assert recipe("fast", graph) == FitSettings()


def test_paper_is_as_published_and_tuned_for_each_of_its_two_graphs():
    few, many = recipe("paper", rotated_graph()), recipe("paper", LARGE)
    assert recipe("paper") == few
    assert (few.learning_rate, many.learning_rate) == (0.001, 0.05)
    for settings in (few, many):
        shape = (settings.dim, settings.segment, settings.step, settings.loss, settings.translate)
        assert shape == (2000, 20, "adam", "norm", False)


@pytest.mark.parametrize(
    ("name", "negatives", "batches"),
    [("paper+ns", True, False), ("paper+tb", False, True), ("paper+ns+tb", True, True)],
)
def test_a_variant_of_paper_adds_what_its_name_says(name, negatives, batches):
    for graph in (None, LARGE):
        settings = recipe(name, graph, "cpu")
        assert (settings.negatives != "none", settings.batch != "full") == (negatives, batches)
        assert (settings.loss == "sigmoid") == negatives
        kept = (settings.dim, settings.segment, settings.lengths, settings.relations, settings.step, settings.scale)
        assert kept == (2000, 20, "unit", "positives", "adam", False)
        assert (settings.decay, settings.dropout) == (0.0, 0.0)


@pytest.mark.parametrize("device", [CPU, GPU])
def test_accurate_contrasts_with_all_entities_where_that_can_be_afforded(device):
    few, many = (OWN["accurate"](graph, device) for graph in (rotated_graph(), LARGE))
    assert few.negatives == "all"
    assert many.negatives == ("all" if device == GPU else 2048)
    assert few.dim == many.dim == (2000 if device == GPU else 400)


@given(random_graphs(most_entities=12, most_triples=200))
def test_accurate_weighs_crowds_down_where_questions_have_few_answers(graph):
    settings = recipe("accurate", graph, "cpu")
    assert settings.crowd == (0.5 if answers_to_a_question(graph) < 2 else 1.0)


@given(builds(complete_graph, heads=st.integers(1, 9), tails=st.integers(1, 9)))
def test_accurate_knows_questions_with_one_answer_from_questions_with_many(graph):
    few = answers_to_a_question(graph) < 2
    settings = recipe("accurate", graph, "cpu")
    assert (settings.crowd == 0.5) == few == (settings.decay > ContrastSettings().decay)
    assert recipe("accurate", rotated_graph(), "cpu").crowd == 0.5  # one answer each


def test_accurate_tells_the_benchmarks_that_it_was_tuned_for_apart():
    assert recipe("accurate", read_graph("wordnet-mini"), "cpu").crowd == 0.5
    assert recipe("accurate", complete_graph(20, 20), "cpu").crowd == 1.0


@given(random_graphs(most_entities=30, most_triples=300))
def test_the_batch_of_accurate_is_no_larger_than_the_graph(graph):
    for device in (CPU, GPU):
        settings = OWN["accurate"](graph, device)
        assert 1 <= settings.batch <= 2 * len(graph.train)
        Training(graph, replace(settings, dim=8, segment=4, groups=1), CPU)


def test_accurate_steps_on_copies_of_the_rows_that_a_batch_sees_on_the_cpu_however_large_the_graph():
    for triples in (20_000, 400_000):
        graph = large_graph(20_000, 5, triples)
        training = Training(graph, recipe("accurate", graph, "cpu"), CPU)
        assert training.learner.compact
        assert training.chunk >= training.batch


@pytest.mark.parametrize(("device", "least", "most"), [(CPU, 256, 2048), (GPU, 256, 4096)])
def test_the_batch_of_accurate_grows_with_the_graph_by_powers_of_two(device, least, most):
    sizes = (200, 2000, 20_000, 100_000, 400_000)
    batches = [OWN["accurate"](large_graph(20_000, 5, size), device).batch for size in sizes]
    assert batches == sorted(batches)
    assert (batches[0], batches[-1]) == (least, most)
    assert all(math.log2(batch).is_integer() for batch in batches)


# One function that trains them.


@pytest.mark.parametrize(
    ("settings", "method"),
    [
        (FitSettings(dim=16, segment=8, epochs=3, device="cpu"), fit),
        (ContrastSettings(dim=16, segment=8, epochs=3, batch=128, device="cpu"), contrast),
        (TrainSettings(model="distmult", dim=16, epochs=3, batch=128, device="cpu"), train),
    ],
    ids=["fit", "contrast", "train"],
)
def test_learn_trains_by_the_method_that_settings_belong_to(settings, method):
    graph, log, own = rotated_graph(), [], []
    learned = learn(graph, settings, log.append)
    assert same(learned, method(graph, settings, own.append))
    assert same(learned, learn(graph, settings))
    assert METHODS[method.__name__] is type(settings)
    assert len(log) == len(own) > 0


def is_learned(name, graph):
    """Tell whether a short training gives a model of the graph's size, with numbers only."""
    model = learn(graph, replace(recipe(name, graph, "cpu"), dim=20, epochs=3))
    shape = (len(graph.entities), 1, 20)
    return model.vectors.shape == shape and all(bool(table.isfinite().all()) for table in model.tables().values())


@own_recipes
@pytest.mark.parametrize("kind", ["a few triples", "rotated"])
def test_every_recipe_of_our_own_trains_on_small_graphs(name, kind):
    assert is_learned(name, GRAPHS[kind])


@pytest.mark.parametrize("name", ["accurate", "fast", "paper"])
def test_recipes_train_on_a_single_triple(name):
    assert is_learned(name, GRAPHS["one triple"])


@pytest.mark.parametrize("name", ["paper+ns", "paper+tb", "paper+ns+tb"])
def test_variants_of_paper_train_on_a_single_triple(name):
    assert is_learned(name, GRAPHS["one triple"])


@contrasted_recipes
def test_a_recipe_asks_for_no_more_negatives_than_there_are(name):
    for count in (2, 3, 50, 129, 130):
        settings = recipe(name, random_graph(count, 2, count), "cpu")
        assert settings.negatives in ("all", "none") or settings.negatives < count
