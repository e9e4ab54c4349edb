"""Published settings fit their baseline, for every kind of graph, and a small graph can meet them."""

from dataclasses import replace

import pytest

from procrustes_kge.bench.paper import NAMES, PAPER
from procrustes_kge.models.baselines import BASELINES, build
from procrustes_kge.training.baseline_recipes import PUBLISHED
from procrustes_kge.training.benchmarks import BENCHMARKS, OTHER
from procrustes_kge.training.recipes import recipe
from procrustes_kge.training.supervised import train
from toys import as_large_as, random_graph

THIRTEEN = [
    "transe",
    "distmult",
    "complex",
    "rgcn",
    "conve",
    "a2n",
    "sacn",
    "tucker",
    "quate",
    "interacte",
    "roth",
    "rotate",
    "ote",
]


def test_each_of_the_papers_thirteen_has_settings_a_name_and_its_figures():
    for known in (BASELINES, PUBLISHED, NAMES, PAPER):
        assert [name for name in known if name in THIRTEEN] == THIRTEEN


def test_settings_are_named_for_their_model_and_in_the_order_of_models():
    assert [name for name in PUBLISHED if name in BASELINES] == [name for name in BASELINES if name in PUBLISHED]
    for name, settings in PUBLISHED.items():
        (model,) = {each.model for each in settings.values()}
        assert name == model or name.startswith(f"{model}-")


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_model_can_be_built_with_its_settings(name):
    graph = random_graph(9, 3, 40)
    for settings in PUBLISHED[name].values():
        assert all(table.isfinite().all() for table in build(name.split("-")[0], graph, settings.options).parameters())


@pytest.mark.parametrize("name", [name for name, each in PUBLISHED.items() if isinstance(each[OTHER].negatives, int)])
def test_a_small_graph_gets_fewer_negatives(name):
    graph = random_graph(9, 3, 40)
    settings = recipe(name, graph, "cpu", dim=40)
    assert settings.negatives == 8
    train(graph, replace(settings, epochs=1))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_graph_that_is_no_benchmark_starts_from_the_settings_of_one(name):
    settings = PUBLISHED[name]
    assert settings[OTHER] in [settings[benchmark] for benchmark in BENCHMARKS]
    assert recipe(name) == settings[OTHER]
    for benchmark in BENCHMARKS:  # few relations or many
        graph = as_large_as(benchmark)
        assert recipe(name, replace(graph, test=graph.test[1:])) == settings[OTHER]


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_a_benchmark_has_settings_of_its_own(name, benchmark):
    assert recipe(name, as_large_as(benchmark)) == PUBLISHED[name][benchmark]
