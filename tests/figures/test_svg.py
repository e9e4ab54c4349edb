"""Laws of charts: what is drawn lies in its room, and round numbers are round."""

import math
import re
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from procrustes_kge.figures import svg

NUMBERS = st.floats(-1e9, 1e9)
ODD = [math.nan, math.inf, -math.inf]


@given(NUMBERS, st.floats(1e-6, 1e9), st.integers(2, 10))
def test_ticks_are_round_and_few_and_within(low, span, most):
    found = svg.ticks(low, low + span, most)
    assert len(found) <= most + 1
    assert all(low - 1e-6 * span <= each <= low + span * (1 + 1e-6) for each in found)
    for each, later in pairwise(found):
        digits = f"{later - each:.3e}".split("e")[0]
        assert float(digits) in (1, 2, 5) or span < 1e-6 * abs(low)  # else rounding is all that is left of them


@given(st.lists(st.tuples(NUMBERS, NUMBERS | st.sampled_from(ODD)), min_size=1, max_size=30))
def test_lines_stay_in_their_frame(points):
    drawn = svg.line_chart("a title", [svg.Series("one", points)], "x", "y")
    if not any(math.isfinite(y) for _, y in points):
        assert drawn is None
        return
    assert "nan" not in drawn
    (path,) = re.findall(r'points="([^"]*)"', drawn)
    places = [tuple(map(float, pair.split(","))) for pair in path.split()]
    assert all(-1 <= x <= 421 and -1 <= y <= 241 for x, y in places)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=0, max_size=20))
def test_points_stay_in_their_square(points):
    drawn = svg.scatter("a title", points, [0] * len(points), ["a"] * len(points))
    places = [(float(x), float(y)) for x, y in re.findall(r'cx="([^"]*)" cy="([^"]*)"', drawn)]
    assert len(places) == len(points)
    assert all(0 <= x <= 420 and 0 <= y <= 420 for x, y in places)


def test_bars_are_as_long_as_what_they_show():
    drawn = svg.bars("a title", [("half", 0.5, ".5"), ("whole", 1.0, "1"), ("none", 0.0, "0"), ("more", 7.0, "7")])
    half, whole, none, more = (float(each) for each in re.findall(r'<rect [^>]*?width="([^"]*)"', drawn))
    assert half == pytest.approx(whole / 2)
    assert (none, more) == (0, whole)


@pytest.mark.parametrize(
    "drawn",
    [
        svg.columns("<b>", [("≤4", 3), ("<i>", 0)], "x<y", "a&b"),
        svg.columns("nothing", [], "x", "y"),
        svg.bars("<b>", [("<script>" * 20, 0.5, "&")]),
        svg.scatter("<b>", [(0.0, 0.0)], [-1], ["<script>"], [("<i>", 0.0, 0.0)]),
        svg.legend([("<script>", 0), ("b", 99)]),
    ],
)
def test_words_are_only_words(drawn):
    assert not re.search(r"<(script|b|i)\b", drawn)
    for part in re.findall(r"<svg [^>]*>", drawn):
        assert 'aria-hidden="true"' in part or "<title>" in drawn
