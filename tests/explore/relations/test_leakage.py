"""Laws of leakage: sorted pairs say what plain sets of triples say, and nothing leaks where nothing can."""

import pytest
import torch
from hypothesis import given

from procrustes_kge.errors import InputError
from procrustes_kge.explore.relations.leakage import CONFIDENCE, SUPPORT, leakage
from toys import graph_of, random_graphs


def plainly(graph):
    """Return what follows of each test triple, by sets."""
    train = {tuple(row) for row in graph.train.tolist()}
    pairs = {r: {(h, t) for h, kind, t in train if kind == r} for r in range(len(graph.relations))}
    turned = {r: {(t, h) for h, t in found} for r, found in pairs.items()}

    def rule(cases, right):
        return len(cases & right) >= max(SUPPORT, CONFIDENCE * len(cases))

    found = []
    for h, r, t in graph.test.tolist():
        others = [s for s in pairs if s != r]
        found.append(
            (
                any((h, t) in turned[s] and rule(turned[s], pairs[r]) for s in others),
                any((h, t) in pairs[s] and rule(pairs[s], pairs[r]) for s in others),
                (h, t) in turned[r] and rule(turned[r], pairs[r]),
                any((h, t) in each for each in (*pairs.values(), *turned.values())),
            )
        )
    return found


@given(random_graphs(most_entities=6, most_triples=80))
def test_it_says_what_sets_say(graph):
    found, expected = leakage(graph).whole, plainly(graph)
    columns = [sum(each[place] for each in expected) for place in range(4)]
    assert [found.inverse, found.duplicate, found.itself, found.linked] == columns
    assert found.by_another == sum(one or other for one, other, *_ in expected)
    assert found.any == sum(any(each[:3]) for each in expected)
    assert found.triples == len(graph.test)


@given(random_graphs())
def test_relations_add_up_to_the_whole(graph):
    found = leakage(graph)
    for name, count in vars(found.whole).items():
        assert sum(getattr(each, name) for each in found.relations.values()) == count


@given(random_graphs())
def test_triples_said_twice_say_it_once(graph):
    twice = type(graph)(**{**vars(graph), "train": torch.cat([graph.train, graph.train])})
    assert leakage(twice).as_dict() == leakage(graph).as_dict()


def test_an_inverse_that_is_planted_is_found():
    train = [f"a{i} likes b{i}" for i in range(5)] + [f"b{i} liked_by a{i}" for i in range(9)]
    graph = graph_of(train, test=[f"a{i} likes b{i}" for i in range(5, 9)])
    found = leakage(graph)
    assert (found.whole.inverse, found.whole.duplicate, found.whole.by_another) == (4, 0, 4)
    assert str(found.rules[0]) == "likes⁻¹ ⇒ liked_by" or str(found.rules[0]) == "liked_by⁻¹ ⇒ likes"
    assert leakage(graph, confidence=0.9).whole.inverse == 0  # 5 of 9 are right


def test_a_confidence_that_is_none_is_refused():
    with pytest.raises(InputError, match=r"confidence 0.*above 0, at most 1"):
        leakage(graph_of(["a r b"], test=["b r a"]), confidence=0.0)


def test_without_test_triples_nothing_leaks():
    assert leakage(graph_of(["a r b"])).whole.triples == 0
