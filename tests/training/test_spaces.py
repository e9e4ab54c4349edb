"""Every point of a space is settings that can be trained."""

import pytest
from hypothesis import given, strategies as st

from procrustes_kge.training.spaces import SPACES, Choice, Range

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
