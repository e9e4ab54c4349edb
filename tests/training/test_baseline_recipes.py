"""Published settings fit their baseline, for either kind of graph, and a small graph can meet them."""

from dataclasses import replace

import pytest

from procrustes_kge.bench.paper import NAMES, PAPER
from procrustes_kge.models.baselines import BASELINES, build
from procrustes_kge.training.baseline_recipes import PUBLISHED
from procrustes_kge.training.recipes import recipe
from procrustes_kge.training.supervised import train
from toys import random_graph

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
        (model,) = {each.model for each in settings}
        assert name == model or name.startswith(f"{model}-")


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_model_can_be_built_with_its_settings(name):
    graph = random_graph(9, 3, 40)
    for settings in PUBLISHED[name]:
        assert all(table.isfinite().all() for table in build(name.split("-")[0], graph, settings.options).parameters())


@pytest.mark.parametrize("name", [name for name, both in PUBLISHED.items() if isinstance(both[0].negatives, int)])
def test_a_small_graph_gets_fewer_negatives(name):
    graph = random_graph(9, 3, 40)
    settings = recipe(name, graph, "cpu", dim=40)
    assert settings.negatives == 8
    train(graph, replace(settings, epochs=1))


def test_the_kind_of_graph_chooses():
    for relations, at in ((3, 0), (101, 1)):
        assert recipe("complex", random_graph(9, relations, 40)) == PUBLISHED["complex"][at]
