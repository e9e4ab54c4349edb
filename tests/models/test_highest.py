"""Laws of the best answers among numpy scores; `tests/models/test_answers.py` states those of tensors."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.models.highest import highest


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=60), st.integers(1, 70))
def test_equal_scores_come_in_the_order_of_places(scores, k):
    expected = sorted(range(len(scores)), key=lambda place: (-scores[place], place))[:k]
    assert highest(np.array(scores, dtype=np.float32), k).tolist() == expected


def test_what_is_no_number_is_refused_and_what_is_infinite_is_not():
    assert highest(np.array([-np.inf, np.inf, 0.0]), 3).tolist() == [1, 2, 0]
    with pytest.raises(InputError, match="scores are not numbers"):
        highest(np.array([1.0, np.nan]), 1)
