"""Laws of neighbours: they are the nearest by angle, in one order."""

from dataclasses import replace

import pytest
import torch

from laws import refused
from procrustes_kge.explore.questions.nearest import neighbours
from procrustes_models import every_model, made
from scorers import random_table
from toys import planted_model, random_graph


@every_model
def test_neighbours_are_the_most_similar_but_the_entity_itself(name):
    model, graph = made(name)
    unit = torch.nn.functional.normalize(model.table, dim=1)
    similar = unit @ unit[7]
    similar[7] = -2
    found = neighbours(model, 7, k=5)
    assert [row.similarity for row in found] == pytest.approx(similar.topk(5).values.tolist(), abs=1e-5)
    assert [similar[graph.entities.id(row.answer)].item() for row in found] == pytest.approx(
        [row.similarity for row in found], abs=1e-5
    )
    assert [row.rank for row in found] == [1, 2, 3, 4, 5]


def test_who_is_equal_is_nearest_and_equals_come_in_the_order_of_rows():
    model, graph = planted_model()
    vectors = model.vectors.clone()
    vectors[[40, 12, 33]] = 2 * vectors[5]
    found = neighbours(replace(model, vectors=vectors), 5, k=3)
    assert [row.answer for row in found] == [graph.entities[each] for each in (12, 33, 40)]
    assert all(row.similarity == pytest.approx(1) for row in found)


def test_an_entity_without_a_vector_is_like_none():
    model, _ = planted_model()
    vectors = model.vectors.clone()
    vectors[5] = 0
    assert {row.similarity for row in neighbours(replace(model, vectors=vectors), 5)} == {0.0}


def test_many_are_answered_as_each_alone_and_more_than_there_are_is_all():
    model, graph = planted_model()
    many = neighbours(model, questions=[*graph.entities[:9], 11], k=4)
    alone = [row for each in (*range(9), 11) for row in neighbours(model, each, k=4)]
    assert [row.entity for row in many] == [row.entity for row in alone]
    assert [row.similarity for row in many] == pytest.approx([row.similarity for row in alone], abs=1e-6)
    assert len(neighbours(model, 0, k=1000)) == 59


def test_a_model_without_vectors_says_which_models_have_them():
    graph = random_graph(5, 2, 20)
    refused(
        lambda: neighbours(random_table(graph), 0, graph=graph),
        setting="Table",
        seen="no vectors of entities",
        remedy="Procrustes and the thirteen baselines",
    )
    refused(lambda: neighbours(planted_model()[0]), setting="entity", seen="no entity", remedy="name the one")
    refused(lambda: neighbours(planted_model()[0], 3, k=0), setting="k", seen=0, remedy="at least 1")
