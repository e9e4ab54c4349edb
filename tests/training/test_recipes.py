"""Laws of recipes: settings by name that any graph can be trained with, and one function that trains them."""

import json
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given

from laws import refused
from procrustes_kge.graphs.graph import Graph, Vocabulary
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.baselines.bilinear import DistMult
from procrustes_kge.training.baseline_recipes import PUBLISHED
from procrustes_kge.training.benchmarks import BENCHMARKS
from procrustes_kge.training.contrastive import Contrastive, contrast
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch import fit
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.portfolio import portfolio
from procrustes_kge.training.recipes import (
    DEFAULT,
    METHODS,
    OWN,
    baseline_recipes,
    check_recipe,
    learn,
    learned,
    recipe,
    settings_of,
    values_of,
)
from procrustes_kge.training.supervised import train
from procrustes_kge.training.supervised_settings import TrainSettings, baseline_settings
from toys import as_large_as, random_graph, random_graphs, rotated_graph, same

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


LARGE = large_graph(6000, 150, 40_000)
GRAPHS = {
    "no graph": None,
    "one triple": random_graph(2, 1, 1),
    "a few triples": random_graph(5, 2, 12),
    "rotated": rotated_graph(),
    "many relations": random_graph(30, 120, 500),
    **{name: as_large_as(name) for name in BENCHMARKS},
    "large": LARGE,
}


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
        assert recipe("fourteenth", graph) == baseline_settings("fourteenth")
    graph = GRAPHS["rotated"]
    settings = recipe("fourteenth", graph, "cpu", dim=8, epochs=1)
    assert learn(graph, settings).name == "fourteenth"
    check_recipe("fourteenth", dim=8)


@every_recipe
def test_a_recipe_makes_settings_that_can_be_trained(name):
    for graph in GRAPHS.values():
        settings = recipe(name, graph, "cpu")
        assert settings == replace(settings)  # which checks them again
        assert settings.device == "cpu"
        assert settings == recipe(name, graph, "cpu")
        assert isinstance(settings, tuple(METHODS.values()))
        if graph is not None and isinstance(settings, ContrastSettings):
            Contrastive(graph, replace(settings, dim=40, segment=20), CPU)  # refuses what asks too much of a graph


@every_recipe
def test_settings_come_back_from_their_values_as_text(name):
    for graph in GRAPHS.values():
        settings = recipe(name, graph, "cpu")
        method = next(each for each, kind in METHODS.items() if type(settings) is kind)
        values = values_of(settings)
        assert settings_of(method, values) == settings_of(method, json.loads(json.dumps(values))) == settings
        with pytest.raises(ValueError, match="a setting 'wings', which this version does not know"):
            settings_of(method, {**values, "wings": 2})


@own_recipes
def test_a_recipe_makes_settings_for_a_gpu_too(name):
    for graph in GRAPHS.values():
        settings = OWN[name](graph, GPU)
        assert settings == replace(settings)
        assert settings.dim == 2000


@every_recipe
def test_a_recipe_remembers_the_device_as_it_was_asked_for(name):
    assert [recipe(name, None, device).device for device in ("auto", "cpu")] == ["auto", "cpu"]
    assert recipe(name) == recipe(name, None, "auto")


@pytest.mark.parametrize("name", ["slow", "", "Accurate", "paper+", "paper + ns"])
def test_an_unknown_recipe_is_answered_with_those_that_are_known(name):
    refused(lambda: recipe(name), setting="recipe", seen=repr(name), remedy=f"Known: {', '.join(RECIPES)}")


def test_an_unknown_device_is_refused_before_a_recipe_is_made():
    for name in ("accurate", "complex"):
        refused(
            lambda name=name: recipe(name, None, "banana"),
            setting="device",
            seen="'banana'",
            remedy="expected cpu, cuda",
        )


# What they are.


def test_fast_is_what_fit_does_by_default():
    for graph in GRAPHS.values():
        assert recipe("fast", graph) == FitSettings()


def test_paper_is_as_published_for_each_of_its_two_graphs():
    each = [recipe("paper", as_large_as(benchmark)) for benchmark in BENCHMARKS]
    assert [settings.learning_rate for settings in each] == [0.001, 0.05]
    assert recipe("paper") in each
    for settings in each:
        shape = (settings.dim, settings.segment, settings.optimiser, settings.loss, settings.translate)
        assert shape == (2000, 20, "adam", "norm", False)


@pytest.mark.parametrize(
    ("name", "negatives", "batches"),
    [("paper+ns", True, False), ("paper+tb", False, True), ("paper+ns+tb", True, True)],
)
def test_a_variant_of_paper_adds_what_its_name_says(name, negatives, batches):
    for graph in (None, *map(as_large_as, BENCHMARKS)):
        settings = recipe(name, graph, "cpu")
        assert (settings.negatives != "none", settings.batch != "full") == (negatives, batches)
        assert (settings.loss == "sigmoid") == negatives
        kept = (
            settings.dim,
            settings.segment,
            settings.lengths,
            settings.relations,
            settings.optimiser,
            settings.scale,
        )
        assert kept == (2000, 20, "unit", "positives", "adam", False)
        assert (settings.regularisation, settings.dropout) == (0.0, 0.0)


@pytest.mark.parametrize("device", [CPU, GPU])
def test_accurate_contrasts_with_all_entities_where_that_can_be_afforded(device):
    few, many = (OWN["accurate"](graph, device) for graph in (rotated_graph(), LARGE))
    assert few.negatives == "all"
    assert many.negatives == ("all" if device == GPU else 2048)
    assert few.dim == many.dim == (2000 if device == GPU else 400)


@given(random_graphs(most_entities=30, most_triples=300))
def test_accurate_begins_with_the_best_single_default_on_every_graph(graph):
    best = portfolio()[0]
    for device in (CPU, GPU):
        values = values_of(OWN["accurate"](graph, device))
        assert {name: values[name] for name in best} == best


def test_accurate_leaves_out_on_a_cpu_what_takes_long_there():
    graph = large_graph(20_000, 5, 20_000)
    assert OWN["accurate"](graph, GPU).negatives == "all"
    settings = OWN["accurate"](graph, CPU)
    assert (settings.negatives, settings.relation_weight, settings.label_smoothing) == (2048, 0.0, 0.0)


@given(random_graphs(most_entities=30, most_triples=300))
def test_the_batch_of_accurate_is_no_larger_than_the_graph(graph):
    for device in (CPU, GPU):
        settings = OWN["accurate"](graph, device)
        assert 1 <= settings.batch <= 2 * len(graph.train)
        Contrastive(graph, replace(settings, dim=8, segment=4, groups=1), CPU)


def test_accurate_steps_on_copies_of_the_rows_that_a_batch_sees_on_the_cpu_however_large_the_graph():
    for triples in (20_000, 400_000):
        graph = large_graph(20_000, 5, triples)
        trainer = Contrastive(graph, recipe("accurate", graph, "cpu"), CPU).trainer(0)
        assert trainer.learner.sees_few
        assert trainer.chunk >= trainer.batch


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
        (baseline_settings("distmult", dim=16, epochs=3, batch=128, device="cpu"), train),
    ],
    ids=["fit", "contrast", "train"],
)
def test_learn_trains_by_the_method_that_settings_belong_to(settings, method):
    graph, log, own = rotated_graph(), [], []
    found = learned(graph, settings, log.append)
    assert same(found.model, method(graph, settings, own.append))
    assert same(found.model, learn(graph, settings))
    assert METHODS[method.__name__] is type(settings)
    assert len(log) == len(own) > 0
    assert found.epochs == len(found.curve) == 3


def is_learned(name, graph):
    """Tell whether a short training gives a model of the graph's size, with numbers only; no global draws are made."""
    before = torch.get_rng_state()
    settings = replace(recipe(name, graph, "cpu"), dim=20, epochs=3)
    model = learn(graph, settings)
    assert torch.get_rng_state().equal(before)
    shape = (len(graph.entities), settings.segments, settings.segment)
    return model.vectors.shape == shape and all(bool(table.isfinite().all()) for table in model.tables().values())


@own_recipes
@pytest.mark.parametrize("kind", ["a few triples", "rotated"])
def test_every_recipe_of_our_own_trains_on_small_graphs(name, kind):
    assert is_learned(name, GRAPHS[kind])


@own_recipes
def test_every_recipe_of_our_own_trains_on_a_single_triple(name):
    assert is_learned(name, GRAPHS["one triple"])


@contrasted_recipes
def test_a_recipe_asks_for_no_more_negatives_than_there_are(name):
    for count in (2, 3, 50, 129, 130):
        settings = recipe(name, random_graph(count, 2, count), "cpu")
        assert settings.negatives in ("all", "none") or settings.negatives < count
