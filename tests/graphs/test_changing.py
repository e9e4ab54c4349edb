"""Laws of a graph that is changed: as sets of triples by name, what was, plus what is added, minus what is removed."""

import pytest
import torch
from hypothesis import given, strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.changing import changed
from procrustes_kge.graphs.graph import SPLITS
from procrustes_kge.graphs.reading import read_graph

NAMES = st.sampled_from("abcdef")
TRIPLES = st.lists(st.tuples(NAMES, st.sampled_from(["r", "s"]), NAMES), min_size=1, max_size=12, unique=True)


def graph_of(rows):
    return read_graph(rows, valid=0, test=0)


def by_name(graph, split="train"):
    return {(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in graph.split(split).tolist()}


@given(TRIPLES, TRIPLES, TRIPLES)
def test_triples_are_those_that_were_and_are_added_without_those_removed(rows, more, less):
    less = [row for row in less if row not in more]
    found = changed(graph_of(rows), graph_of(more), graph_of(less) if less else None)
    after = by_name(found.graph)
    assert after == (set(rows) | set(more)) - set(less)
    assert len(found.graph.train) == len(after)
    assert found.counts["added"] == len(set(more) - set(rows))
    assert found.counts["removed"] == len(set(rows) & set(less))
    assert found.counts["known"] == len(set(more) & set(rows))


@given(TRIPLES, TRIPLES, TRIPLES)
def test_names_that_stay_keep_their_order_and_new_ones_come_last(rows, more, less):
    less = [row for row in less if row not in more]
    old = graph_of(rows)
    found = changed(old, graph_of(more), graph_of(less) if less else None)
    names = found.graph.entities.names
    assert names[: len(found.kept)] == tuple(old.entities[row] for row in found.kept.tolist())
    assert found.fresh.tolist() == [name not in set(old.entities) for name in names]
    used = {end for head, _, tail in by_name(found.graph) for end in (head, tail)}
    assert set(names) == used
    assert found.graph.relations.names[: len(old.relations)] == old.relations.names


def test_who_is_concerned():
    old = graph_of([("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d"), ("d", "r", "a")])
    placed = changed(old, graph_of([("new", "r", "a"), ("b", "r", "d")]), graph_of([("b", "r", "c")]))
    names = {placed.graph.entities[row] for row in placed.concerned.tolist()}
    # The new one, both ends of a fact between known ones, both ends of what is gone; not the known end of a new one.
    assert names == {"new", "b", "d", "c"}


def test_triples_of_other_splits_are_known_and_may_be_removed():
    old = graph_of([("a", "r", "b"), ("b", "r", "a"), ("a", "s", "b")])
    old = type(old)(old.name, old.entities, old.relations, old.train[:2], old.train[2:], old.train[:0])
    found = changed(old, graph_of([("a", "s", "b"), ("b", "s", "a")]))
    assert (found.counts["known"], found.counts["known_outside_train"], found.counts["added"]) == (1, 1, 1)
    assert "in valid or test, where they stay" in found.notes[0]
    gone = changed(old, None, graph_of([("a", "s", "b")]))
    assert [len(gone.graph.split(split)) for split in SPLITS] == [2, 0, 0]


def test_what_a_user_may_not_have_meant_is_said():
    old = graph_of([("dog", "is a", "canine"), ("Zoë", "owns", "dog")])
    found = changed(old, graph_of([("Dog", "is a", "canine"), ("zoe", "Owns", "dog"), ("dog", "chases", "cat")]))
    said = " ".join(found.notes)
    for words in ("'Dog' beside 'dog'", "'zoe' beside 'Zoë'", "'Owns' beside 'owns'", "2 new relations with a single"):
        assert words in said
    unknown = changed(old, graph_of([("a", "r", "b")]), graph_of([("cow", "is a", "canine"), ("dog", "owns", "Zoë")]))
    assert "2 triples to be removed that the graph does not hold" in unknown.notes


def test_contradictions_are_refused():
    old = graph_of([("a", "r", "b")])
    with pytest.raises(InputError, match=r"1 triple to be added and to be removed, such as \(a, r, b\); give each"):
        changed(old, graph_of([("a", "r", "b")]), graph_of([("a", "r", "b")]))
    with pytest.raises(InputError, match=r"no training triple would be left, expected at least 1; remove fewer"):
        changed(old, None, graph_of([("a", "r", "b")]))


def test_nothing_to_change():
    old = graph_of([("a", "r", "b")])
    found = changed(old, graph_of([("a", "r", "b")]), graph_of([("a", "r", "z")]))
    assert found.empty
    assert found.graph.train.equal(old.train)


def test_the_old_graph_stays_as_it_was():
    old = graph_of([("a", "r", "b"), ("b", "r", "c")])
    before, names = old.train.clone(), old.entities.names
    changed(old, graph_of([("z", "q", "a")]), graph_of([("b", "r", "c")]))
    assert torch.equal(old.train, before)
    assert old.entities.names == names
