"""Laws of the checks that settings share: what they accept, and that a refusal explains itself."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import pytest
from hypothesis import given, strategies as st

from laws import refused
from procrustes_kge.validation import check_choices, check_range, check_segments, check_whole, spoken


@dataclass(frozen=True)
class Kettle:
    """Settings with a field of each kind."""

    heat_source: Annotated[Literal["gas", "coal", "sun"], "what boils it"] = "gas"
    cup_count: Annotated[int | Literal["full"], "cups to boil; full: as many as fit"] = "full"
    whistles: Annotated[int, "how often"] = 3
    loudness: Annotated[float, "of each"] = 0.5
    name: str = "kettle"

    def __post_init__(self):
        check_choices(self)


@pytest.mark.parametrize("source", ["gas", "coal", "sun"])
def test_known_words_are_accepted(source):
    assert Kettle(heat_source=source).heat_source == source


@given(st.text().filter(lambda word: word not in ("gas", "coal", "sun")))
def test_an_unknown_word_is_named_with_those_that_are_known(word):
    expected = "Known: gas, coal, sun"
    refused(lambda: Kettle(heat_source=word), setting="unknown heat source", seen=repr(word), remedy=expected)


@given(st.integers(1, 10**12))
def test_a_number_serves_as_well_as_a_word_where_both_do(count):
    assert Kettle(cup_count=count).cup_count == count
    assert Kettle(cup_count="full").cup_count == "full"


@pytest.mark.parametrize("count", ["half", "", "3", "-3", 0, -1, 2.0, "²", None, True, math.nan])
def test_where_a_number_or_a_word_serves_anything_else_is_refused(count):
    expected = "expected full or a whole number of at least 1"
    refused(lambda: Kettle(cup_count=count), setting="cup count", seen=count, remedy=expected)


@given(st.sampled_from(["gas", "coal", "sun"]), st.just("full") | st.integers(1, 10**12))
def test_checks_leave_settings_as_they_are(source, count):
    kettle = Kettle(source, count)
    assert (kettle.heat_source, kettle.cup_count) == (source, count)


def test_fields_that_take_neither_words_nor_either_are_left_alone():
    kettle = Kettle(whistles=-5, loudness=math.inf, name="sun")
    assert (kettle.whistles, kettle.loudness, kettle.name) == (-5, math.inf, "sun")


@given(st.integers(-20, 20), st.integers(-5, 5))
def test_whole_numbers_must_be_large_enough(count, least):
    kettle = Kettle(whistles=count)
    if count >= least:
        check_whole(kettle, ("whistles",), least)
    else:
        call = partial(check_whole, kettle, ("whistles",), least)
        refused(call, setting="whistles", seen=count, remedy=f"expected a whole number of at least {least}")


def test_every_whole_number_is_looked_at_and_named_in_words():
    kettle = Kettle(cup_count=1, whistles=4)
    check_whole(kettle, (), least=100)
    check_whole(kettle, ("whistles", "cup_count"), least=1)
    call = partial(check_whole, kettle, ("whistles", "cup_count"), least=2)
    refused(call, setting="cup count", seen=1, remedy="at least 2")


@given(st.floats(allow_nan=True), st.sampled_from([0.99, 2.0, 1000.0]), st.booleans())
def test_numbers_must_lie_in_range(value, most, above):
    kettle = Kettle(loudness=value)
    if (value > 0 or (value == 0 and not above)) and value <= most:
        check_range(kettle, "loudness", most, above)
    else:
        expected = f"expected a number {'above 0, at most' if above else 'from 0 to'} {most:g}"
        refused(partial(check_range, kettle, "loudness", most, above), setting="loudness", seen=value, remedy=expected)


@pytest.mark.parametrize(("value", "above", "accepted"), [(0.0, False, True), (0.0, True, False), (2.0, True, True)])
def test_the_ends_of_a_range(value, above, accepted):
    kettle = Kettle(loudness=value)
    if accepted:
        check_range(kettle, "loudness", 2.0, above)
    else:
        refused(partial(check_range, kettle, "loudness", 2.0, above), setting="loudness", seen=value, remedy="above 0")


@given(st.integers(1, 300), st.integers(1, 40))
def test_vectors_are_cut_into_equal_segments_and_what_is_suggested_can_be(dim, segment):
    if dim % segment == 0:
        check_segments(dim, segment)
        return
    call = partial(check_segments, dim, segment)
    said = refused(call, setting="dimension", seen=f"{dim} does not divide into segments of {segment}", remedy="try ")
    tries = [int(each) for each in said.split("try ")[1].split(" or ")]
    assert tries[-1] - segment < dim < tries[-1]  # the nearest above, and below where there is one
    assert len(tries) == (2 if dim > segment else 1)
    for each in tries:
        assert each > 0
        check_segments(each, segment)


@pytest.mark.parametrize(("name", "words"), [("dim", "dim"), ("learning_rate", "learning rate"), ("a_b_c", "a b c")])
def test_names_are_spoken_as_words(name, words):
    assert spoken(name) == words
