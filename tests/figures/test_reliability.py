"""Laws of reliability diagrams: each bin is a point where it belongs, and the picture is well formed."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from procrustes_kge.explore.calibration import binned, expected_calibration_error
from procrustes_kge.figures.reliability import LEFT, SIDE, TOP, Ink, curves_of, reliability_diagram

INK = Ink("#000001", "#000002", "#000003", "#000004", "#000005")


def measured(right):
    said = np.repeat([0.25, 0.75], 4)
    found = {"error": expected_calibration_error(said, right), "bins": binned(said, right)}
    return curves_of({"answers": found, "even": found})


def test_true_probabilities_lie_on_the_diagonal_and_others_where_they_were_right():
    drawn = ElementTree.fromstring(
        reliability_diagram({"a < b": measured([1, 0, 0, 0, 1, 1, 1, 0]), "other": measured([1] * 8)}, INK)
    )
    circles = [each for each in drawn if each.tag.endswith("circle")]
    places = [((float(each.get("cx")) - LEFT) / SIDE, 1 - (float(each.get("cy")) - TOP) / SIDE) for each in circles]
    np.testing.assert_allclose(places[:4], [(0.25, 0.25), (0.75, 0.75)] * 2, atol=1e-3)
    assert all(abs(high - 1) < 1e-3 for _, high in places[4:])
    words = [each.text for each in drawn if each.tag.endswith("text")]
    assert {"a < b", "other", "ten best answers .000", "even odds .500"} <= set(words)


def test_colours_are_those_that_were_asked_for():
    drawn = reliability_diagram({"one": measured([1] * 8)}, INK)
    assert set(re.findall("#0000..", drawn)) == {f"#00000{each}" for each in range(1, 6)}


def test_words_are_only_words():
    drawn = reliability_diagram({"<script>": measured([1] * 8)}, INK)
    assert "<script>" not in drawn


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        {},
        {"answers": 1},
        {"answers": {"bins": 3}},
        {"answers": {"bins": [None, {}, {"probability": "x"}]}},
        {"even": {"bins": [{"probability": float("nan"), "right": 1, "weight": 1}]}},
    ],
)
def test_what_is_no_measurement_is_no_curve(broken):
    assert curves_of(broken) == []


def test_a_curve_without_an_error_is_drawn_without_it():
    (curve,) = curves_of({"even": {"bins": [{"probability": 0.5, "right": 1, "weight": 2}, {"probability": 0.5}]}})
    assert (curve.words, len(curve.bins)) == ("even odds", 1)
    assert ">even odds<" in reliability_diagram({"one": [curve]}, INK)
