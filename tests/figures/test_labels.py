"""Laws of where names go: none covers another, and each is as near as possible to what it names."""

import pytest
from hypothesis import given, strategies as st

from procrustes_kge.figures.labels import covered, least_covering, outside, placed, spread

HEIGHTS = st.floats(1, 20)


@given(st.lists(st.tuples(st.floats(0, 400), HEIGHTS), max_size=12))
def test_spread_names_do_not_overlap_and_keep_their_order(names):
    names.sort()
    wanted, heights = [place for place, _ in names], [height for _, height in names]
    places = spread(wanted, heights, 0, 400)
    for index in range(len(names) - 1):
        assert places[index + 1] - places[index] >= (heights[index] + heights[index + 1]) / 2 - 1e-6
    for place, height in zip(places, heights, strict=True):
        assert height / 2 - 1e-6 <= place <= 400 - height / 2 + 1e-6  # twelve of at most 20 fit


def test_names_that_are_far_apart_stay_where_they_are():
    assert spread([10, 60, 90], [4, 4, 4], 0, 100) == [10, 60, 90]


def test_a_group_lies_where_its_names_want_to_be_on_average():
    assert spread([50, 50, 50], [10, 10, 10], 0, 100) == [40, 50, 60]


@given(st.integers(1, 40), st.floats(20, 80), st.floats(8, 14))
def test_the_first_name_of_all_is_right_of_its_mark(width, x, height):
    box, (right, up) = least_covering((x, 200.0), (float(width), height), [], [], (0, 0, 400, 400))
    assert right > 0
    assert up == -height / 2
    assert outside(box, (0, 0, 400, 400)) == 0


def test_a_name_at_the_right_edge_goes_to_the_left():
    _, (right, _) = least_covering((395.0, 200.0), (50.0, 10.0), [], [], (0, 0, 400, 400))
    assert right < -50


@pytest.mark.parametrize("count", [2, 5, 9])
def test_names_of_marks_in_a_heap_cover_neither_each_other_nor_the_marks(count):
    marks = [(200.0 + 9 * (index % 3), 200.0 + 11 * (index // 3)) for index in range(count)]
    sizes = [(60.0, 12.0)] * count
    steps = placed(marks, sizes, range(count), 5.0, [], (0, 0, 600, 400))
    boxes = [(x + a, y + b, x + a + 60, y + b + 12) for (x, y), (a, b) in zip(marks, steps, strict=True)]
    assert sum(covered(one, other) for place, one in enumerate(boxes) for other in boxes[:place]) == 0
    if count < 9:
        drawn = [(x - 5, y - 5, x + 5, y + 5) for x, y in marks]
        assert sum(covered(box, mark) for box in boxes for mark in drawn) == 0
