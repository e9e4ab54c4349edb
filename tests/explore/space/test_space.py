"""Laws of what a map shows."""

from types import SimpleNamespace

import pytest
import torch

from clouds import planted_cloud, run_of
from laws import refused
from procrustes_kge.explore.space.columns import Column
from procrustes_kge.explore.space.space import MOST_SLOTS, beside, space_of
from procrustes_models import every_model, made


def test_degrees_and_slots_are_those_of_the_training_triples():
    model, graph = run_of(torch.randn(4, 6), triples=[(0, 0, 1), (0, 0, 2), (3, 1, 3)])
    space = space_of(model, graph)
    assert space.degrees.tolist() == [2, 1, 1, 2]
    slots = {slot.name: slot.rows.tolist() for slot in space.slots}
    assert slots == {"head of likes": [0], "tail of likes": [1, 2], "head of knows": [3], "tail of knows": [3]}


def test_of_many_entities_half_are_those_of_highest_degree_and_two_runs_show_the_same():
    count, most = 500, 60
    hubs = [(row, 0, (row + 1) % 40) for row in range(40) for _ in range(3)]
    model, graph = run_of(torch.randn(count, 6), triples=[*hubs, *((row, 0, 0) for row in range(count))])
    space = space_of(model, graph, most=most)
    assert len(space.shown) == len(space.points) == most
    assert space.shown.equal(space.shown.unique())
    hardly = set(space.degrees.tolist())
    assert {0, *range(1, 30)} <= set(space.shown.tolist())
    assert hardly
    assert f"{most} of 500 entities are shown" in space.notes[0]
    other, same = run_of(torch.randn(count, 9), triples=graph.train.tolist())
    assert space_of(other, same, most=most).shown.equal(space.shown)
    columns = [Column("row", numbers=tuple(map(float, range(count))))]
    assert space_of(model, graph, columns=columns, most=most).columns[0].numbers == tuple(space.shown.tolist())


def test_of_thousands_of_slots_those_with_most_entities_are_listed():
    relations = [f"r{row}" for row in range(MOST_SLOTS)]
    triples = [(head, row, 0) for row in range(MOST_SLOTS) for head in range(1 + row % 3)]
    space = space_of(*run_of(torch.randn(5, 6), triples=triples, relations=relations))
    assert len(space.slots) == MOST_SLOTS
    assert {"head of r1", "head of r2", "head of r5"} <= {slot.name for slot in space.slots}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_entities_without_labels_have_a_map(count):
    space = space_of(*run_of(torch.eye(8)[:count], triples=[(0, 0, count - 1)], relations=["only"]))
    assert space.points.shape == (count, 3)
    assert space.clusters == ()


def test_a_run_without_its_graph_has_a_map_that_says_so():
    space = space_of(run_of(torch.randn(9, 6))[0])
    assert space.degrees.sum() == 0
    assert space.slots == ()
    assert "without its graph" in space.notes[0]


@every_model
def test_every_model_has_a_map(name):
    model, graph = made(name)
    space = space_of(model, graph)
    assert len(space.points) == len(graph.entities)
    assert model.kind in space.about


def test_a_second_picture_is_turned_to_lie_as_the_first():
    vectors, _ = planted_cloud()
    first = space_of(*run_of(vectors), title="one")
    flipped = vectors.clone()
    flipped[:, :] = -flipped
    second = beside(space_of(*run_of(flipped), title="two"), first)
    assert torch.allclose(second.points, first.points, atol=1e-2)
    assert "1,860 entities that both show" in second.notes[-1]
    strangers = beside(space_of(*run_of(torch.randn(4, 6), names=["a", "b", "c", "d"])), first)
    assert "no entity in common with one" in strangers.notes[-1]


def test_what_cannot_be_mapped_is_refused():
    model, graph = run_of(torch.randn(4, 6))
    refused(lambda: space_of(model, graph, method="tsne"), setting="projection", seen="tsne", remedy="pca")
    refused(lambda: space_of(model, graph, most=1), setting="points", seen="1", remedy="at least 2")
    refused(lambda: space_of(SimpleNamespace(kind="Rules")), setting="Rules", seen="NoneType", remedy="another model")
