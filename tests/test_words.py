"""Laws of the words that messages share."""

import re

import pytest
from hypothesis import given, strategies as st

from procrustes_kge.words import counted, either, listed, plural, shortened, unknown

names = st.lists(st.text("abcxyz", min_size=1), min_size=1, max_size=6, unique=True)


@given(st.integers(0, 10**9), st.sampled_from(["epoch", "entity", "batch", "key", "training triple"]))
def test_one_is_singular_and_every_other_number_plural(count, noun):
    number, words = counted(count, noun).split(" ", 1)
    assert int(number.replace(",", "")) == count
    assert words == (noun if count == 1 else plural(noun))
    assert plural(noun) != noun


@given(names)
def test_a_list_has_every_word_once_and_one_conjunction(words):
    for shown, last in ((either(words), "or"), (listed(words), "and")):
        assert re.split(f", | {last} ", shown) == words
        assert f", {last}" not in shown


@given(names, st.integers(1, 6))
def test_a_list_that_is_cut_says_how_many_there_are(words, most):
    shown = shortened(words, most)
    assert shown.startswith(", ".join(words[:most]))
    assert (f"({len(words)} in all)" in shown) == (len(words) > most)


@pytest.mark.parametrize("asked", ["wn18", "WN18RR", "wn18-rr"])
def test_a_misspelt_name_is_answered_with_the_one_that_was_meant(asked):
    known = ["wordnet-mini", "wn18rr", "umls"]
    assert unknown("dataset", asked, known) == (
        f"unknown dataset {asked!r}. Did you mean wn18rr? Known: wordnet-mini, wn18rr, umls"
    )


@given(names)
def test_what_resembles_nothing_is_answered_with_what_is_known(known):
    said = unknown("recipe", "+++", known)
    assert "Did you mean" not in said
    assert said.endswith(f"Known: {', '.join(known)}")
