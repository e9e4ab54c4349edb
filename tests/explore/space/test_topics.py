"""Laws of what the entities of a cluster share."""

import torch
from hypothesis import given, strategies as st

from procrustes_kge.explore.space.topics import LEAST, topics
from toys import graph_of, random_graph


def test_the_answer_that_most_of_a_group_has_is_its_topic():
    graph = graph_of(["a is x", "b is x", "c is y", "d is y", "z has a", "z has b", "z has c", "d has z"])
    group = torch.tensor([graph.entities.id(name) for name in "abcd"])
    assert [str(each) for each in topics(graph, [group])] == ["has⁻¹ z 75 %"]


def test_entities_without_an_answer_in_common_have_no_topic():
    graph = graph_of(["a is x", "b is y", "c is z", "d is w", "e has v"])
    groups = [torch.tensor([graph.entities.id(name) for name in names]) for names in ("abcd", "e")]
    assert topics(graph, groups) == [None, None]


@given(st.integers(4, 12), st.integers(1, 3), st.integers(0, 2**31))
def test_a_topic_is_the_largest_share_that_counting_one_by_one_gives(entities, relations, seed):
    graph = random_graph(entities, relations, entities * 4, seed)
    groups = [torch.arange(entities // 2), torch.arange(entities // 2, entities)]
    for group, found in zip(groups, topics(graph, groups), strict=True):
        members, shared = set(group.tolist()), {}
        for head, relation, tail in graph.train.tolist():
            for entity, direction, answer in ((head, (relation, ""), tail), (tail, (relation, "⁻¹"), head)):
                if entity in members:
                    shared.setdefault((direction, answer), set()).add(entity)
        most = max(map(len, shared.values()), default=0)
        if found is None:
            assert most < 2 or most / len(group) < LEAST
        else:
            assert found.share == most / len(group)
