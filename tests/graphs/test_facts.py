"""Laws of facts: looked for one by one or by an index, they are those of the graph."""

import itertools

import numpy as np
from hypothesis import given

from procrustes_kge.graphs.graph import SPLITS
from procrustes_kge.models.predictor import facts_of
from toys import random_graphs


def by_hand(graph, entity, direction):
    back, relation = divmod(direction, len(graph.relations))
    found = {}
    for split in SPLITS:
        for head, each, tail in graph.split(split).tolist():
            asked, answer = (tail, head) if back else (head, tail)
            if (asked, each) == (entity, relation):
                found.setdefault(answer, split)
    return found


@given(graph=random_graphs())
def test_answers_are_those_of_the_triples_with_an_index_and_without(graph):
    plain, indexed = facts_of(graph), facts_of(graph)
    indexed.prepare()
    for entity, direction in itertools.product(range(len(graph.entities)), range(2 * len(graph.relations))):
        expected = by_hand(graph, entity, direction)
        assert plain.answers(entity, direction) == indexed.answers(entity, direction) == expected
    assert len(plain) == sum(len(graph.split(split)) for split in SPLITS)


@given(graph=random_graphs())
def test_relations_of_a_pair_and_paths_are_those_of_the_triples(graph):
    facts = facts_of(graph)
    for head, tail in itertools.product(range(len(graph.entities)), repeat=2):
        expected = {each for each in range(len(graph.relations)) if tail in facts.answers(head, each)}
        assert facts.relations_of(head, tail).keys() == expected
    for first, second in itertools.product(range(2 * len(graph.relations)), repeat=2):
        ends = {end for middle in facts.answers(0, first) for end in facts.answers(middle, second)}
        assert facts.along(0, [first, second]).keys() == ends
    assert facts.along(0, []) == {0: "train"}


def test_a_path_is_as_new_as_its_newest_step():
    triples = {"train": [[0, 0, 1], [2, 0, 3]], "valid": [[1, 0, 4], [0, 0, 2]], "test": [[4, 0, 3]]}
    from procrustes_kge.graphs.facts import Facts

    facts = Facts({split: np.array(rows) for split, rows in triples.items()}, 5, 1)
    assert facts.along(0, [0, 0]) == {4: "valid", 3: "valid"}
    assert facts.along(0, [0, 0, 0]) == {3: "test"}
