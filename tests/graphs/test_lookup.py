"""Laws of looking names up: what looks the same is the same, and what may mean several names is refused."""

from unicodedata import normalize

import pytest
from hypothesis import given, strategies as st

from laws import refused
from procrustes_kge.graphs.graph import Vocabulary
from procrustes_kge.graphs.lookup import folded, last_part, plain

texts = st.text(max_size=6).filter(lambda text: plain(text) == plain(plain(text)) != "")
IRIS = Vocabulary(
    [
        "http://e.org/animal#dog",
        "http://e.org/plant/fern",
        "http://e.org/animal#cat",
        "http://other.org/cat",
        "http://dbpedia.org/ontology/birthPlace",
        "http://dbpedia.org/property/birthPlace",
        "/people/person/nationality",
    ],
    "entity",
    {"http://e.org/plant/fern": "Fougère"},
)


@given(st.lists(texts, min_size=1, max_size=8, unique_by=plain))
def test_every_spelling_of_a_name_finds_it(names):
    vocabulary = Vocabulary(names, "entity")
    for row, name in enumerate(names):
        for spelled in (name, normalize("NFC", name), normalize("NFD", name), f"  {name} ", f"<{plain(name)}>"):
            assert vocabulary.id(spelled) == row


@pytest.mark.parametrize("asked", ["Zoë", "Zoe\u0308"])
@pytest.mark.parametrize("name", ["Zoë", "Zoe\u0308"])
def test_an_accent_is_found_composed_or_not(name, asked):
    assert Vocabulary(["Ann", name], "entity").id(asked) == 1
    assert Vocabulary(["Ann", "Q5"], "entity", {"Q5": name}).id(asked) == 1


def test_of_two_spellings_in_one_graph_the_exact_one_is_meant():
    both = Vocabulary(["Zoë", "Zoe\u0308"], "entity")
    assert [both.id("Zoë"), both.id("Zoe\u0308")] == [0, 1]


@pytest.mark.parametrize(("asked", "suggested"), [("Zoe", "Zoë"), ("ZOE", "Zoë"), ("strasse", "Straße")])
def test_suggestions_see_through_accents_and_capitals(asked, suggested):
    names = Vocabulary(["Ann", "Zoë", "Straße"], "entity")
    refused(lambda: names.id(asked), setting="unknown entity", seen=repr(asked), remedy=f"Did you mean {suggested!r}?")


@pytest.mark.parametrize("asked", ["new york", "NEW YORK", " New_York", "new  york", "NY", "ny"])
def test_capitals_and_spaces_are_forgiven_where_one_name_is_meant(asked):
    names = Vocabulary(["York", "New York", "new yorker", "Q1"], "entity", {"New York": "NY"})
    assert names.id(asked) == 1


def test_a_name_that_only_capitals_tell_from_others_has_to_be_exact():
    names = Vocabulary(["Polish", "polish", "Q1"], "entity", {"Q1": "POLISH"})
    assert [names.id("polish"), names.id("POLISH")] == [1, 2]
    refused(lambda: names.id("pOLISH"), setting="entity", seen="of 3 names", remedy="'Polish', 'polish', 'Q1'")


@pytest.mark.parametrize(
    ("asked", "row"),
    [
        ("<http://e.org/animal#dog>", 0),
        ("dog", 0),
        ("ex:dog", 0),
        (":dog", 0),
        ("fern", 1),
        ("Fougère", 1),
        ("Fouge\u0300re", 1),
        ("dbo:birthPlace", 4),
        ("dbp:birthPlace", 5),
        ("nationality", 6),
    ],
)
def test_iris_are_found_in_brackets_by_prefix_and_by_their_last_part(asked, row):
    assert IRIS.id(asked) == row


@pytest.mark.parametrize("asked", ["cat", "ex:cat", "birthPlace"])
def test_a_last_part_that_several_names_share_lists_them(asked):
    shared = [repr(name) for name in IRIS if last_part(name) == asked.removeprefix("ex:")]
    said = refused(lambda: IRIS.id(asked), setting="entity", seen=repr(asked), remedy="the last part of 2 names")
    assert ", ".join(shared) in said


def test_a_known_prefix_means_its_own_names_alone():
    refused(lambda: IRIS.id("wd:dog"), setting="entity", seen="'wd:dog'", remedy="unknown")


def test_the_end_of_an_iri_is_suggested_for_what_is_near_it():
    refused(lambda: IRIS.id("nationalty"), setting="entity", seen="'nationalty'", remedy="'/people/person/nationality'")


def test_a_prefix_of_the_users_own_hides_no_suggestion():
    refused(lambda: IRIS.id("mine:DOGS"), setting="entity", seen="'mine:DOGS'", remedy="e.org/animal#dog'")


@given(st.text(max_size=8))
def test_folding_is_blind_to_composition(text):
    assert folded(normalize("NFC", text)) == folded(normalize("NFD", text))


def test_a_name_comes_before_a_label_however_it_is_spelled():
    names = Vocabulary(["Zoë", "Q5"], "entity", {"Q5": "Zoë"})
    assert [names.id(asked) for asked in ("Zoë", "Zoe\u0308", "<Zoë>")] == [0, 0, 0]


def test_accents_upon_accents_do_not_take_for_ever():
    name = "a" + "\u0327\u0301\u0334" * 50_000
    assert plain(f" <{name}> ") == name
    assert folded(name) == "a"
