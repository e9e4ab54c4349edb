"""Every point of a space is settings that can be trained."""

import pytest
from hypothesis import given, strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.models.baselines import BASELINES, baseline
from procrustes_kge.models.baselines.bilinear import DistMult
from procrustes_kge.training.recipes import baseline_recipes, changed, has_setting, recipe, values_of
from procrustes_kge.training.spaces import OPTIONS, SPACES, Choice, Range, around, space_of
from procrustes_kge.training.supervised import train
from toys import random_graph

SHARES = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize("kind", SPACES, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_every_point_of_a_space_is_settings(kind, data):
    values = {name: values.at(data.draw(SHARES)) for name, values in SPACES[kind].items()}
    kind(dim=500, **values)


@given(SHARES, SHARES)
def test_a_range_grows_by_equal_ratios(first, second):
    values = Range(0.001, 10.0)
    assert (first <= second) == (values.at(first) <= values.at(second)) or values.at(first) == values.at(second)
    assert values.at(first) >= values.least * 0.99
    assert values.at(0.5) == pytest.approx(0.1)


@given(SHARES)
def test_a_choice_is_one_of_its_values(share):
    assert Choice((1, "a", None)).at(share) in (1, "a", None)


@given(st.floats(0, 100), SHARES)
def test_a_space_is_widened_to_what_it_starts_from(value, share):
    for values in (Range(0.1, 1.0), Choice((0.5, 2.0))):
        wider = around({"it": values}, {"it": value, "another": 3})["it"]
        assert wider.including(value) == wider
        if isinstance(wider, Choice):
            assert value in wider.values
        else:
            assert wider.least <= value <= wider.most
        assert wider.at(share) is not None


# Of the baselines.


@pytest.mark.parametrize("name", baseline_recipes())
def test_the_space_of_a_baseline_has_its_own_settings_and_what_it_starts_from(name):
    start = recipe(name, None, "cpu")
    space, values = space_of(start), values_of(start)
    assert len(space) >= 6
    for setting, allowed in space.items():
        assert has_setting(start, setting)
        assert allowed.including(values[setting]) == allowed


@pytest.mark.parametrize("name", baseline_recipes())
def test_what_a_recipe_cannot_use_is_in_no_space(name):
    start = recipe(name, None, "cpu")
    space = space_of(start)
    drawn = isinstance(start.negatives, int)
    assert ("label_smoothing" in space) == (not drawn)
    assert ("adversarial_temperature" in space) == (drawn and start.loss == "sigmoid")
    assert "margin" not in space or start.loss != "softmax"
    assert not (baseline(start.model).sees_answers and "negatives" in space)


@pytest.mark.parametrize("name", baseline_recipes())
@given(data=st.data())
def test_a_point_of_a_baselines_space_is_settings_or_is_refused(name, data):
    start = recipe(name, None, "cpu")
    values = {each: allowed.at(data.draw(SHARES)) for each, allowed in space_of(start).items()}
    try:
        found = changed(start, **values)
    except InputError:  # such as a size that is no whole number of parts
        return
    assert {each: values_of(found)[each] for each in values} == values


def test_every_option_that_may_be_searched_is_one_of_some_model():
    known = {name for model in BASELINES for name in values_of(recipe(model))}
    assert OPTIONS.keys() <= known


def test_a_model_that_is_added_has_a_space(monkeypatch):
    monkeypatch.setitem(BASELINES, "fourteenth", DistMult)
    assert {"learning_rate", "query_dropout"} <= space_of(recipe("fourteenth")).keys()


def test_a_small_graph_meets_the_most_negatives_of_a_space():
    graph = random_graph(9, 3, 40)
    start = recipe("rotate", graph, "cpu", dim=8, epochs=1)
    for negatives in space_of(start)["negatives"].values:
        train(graph, changed(start, negatives=negatives))
