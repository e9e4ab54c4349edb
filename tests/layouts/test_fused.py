"""Laws of how triples are arranged for the kernels: nothing is lost, nothing counted twice."""

import pytest
import torch
from hypothesis import given, strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.layouts import fused
from procrustes_kge.layouts.fused import FusedLayout
from toys import random_graph


def test_queries_of_many_answers_are_cut_and_their_rows_arrive_where_they_belong():
    rows = torch.arange(90)
    triples = torch.stack([rows * 0, rows % 3, rows + 3], dim=1)
    layout = FusedLayout.of(triples, 93, 3)
    assert layout.counts.max() == fused.ANSWERS_PER_ROW
    assert layout.counts.sum() == layout.degrees.sum() == 180
    assert (layout.workloads[:, 1] - layout.workloads[:, 0]).max() <= fused.TILES_PER_WORKLOAD
    for entity in (0, 5):
        mine = layout.arriving[layout.arrivals[entity] : layout.arrivals[entity + 1]]
        assert (layout.asked.flatten()[mine[:, 0]] == entity).all()
        assert (layout.counts.flatten()[mine[:, 0]] == mine[:, 2]).all()
        assert mine[:, 2].sum() == layout.degrees[entity]


@given(
    entities=st.integers(1, 300),
    relations=st.integers(1, 9),
    triples=st.integers(1, 3000),
    seed=st.integers(0, 99),
)
def test_tiles_hold_every_triple_twice(entities, relations, triples, seed):
    graph = random_graph(entities, relations, triples, seed)
    layout = FusedLayout.of(graph.train, len(graph.entities), len(graph.relations))
    found = set()
    directions = {tile: way for first, last, way in layout.workloads.tolist() for tile in range(first, last)}
    assert sorted(directions) == list(range(len(layout.tiles)))
    for tile, (offset, depth) in enumerate(layout.tiles.tolist()):
        answers = layout.answers[offset : offset + depth * fused.ROWS_PER_FUSED_TILE].view(
            depth, fused.ROWS_PER_FUSED_TILE
        )
        assert ((answers >= 0).sum(dim=0) == layout.counts[tile]).all()
        for row, number in (answers.T >= 0).nonzero().tolist():
            asked, answer = int(layout.asked[tile, row]), int(answers[number, row])
            found.add((directions[tile], asked, answer))
    relations = len(graph.relations)
    train = graph.train.tolist()
    for relation in range(relations):
        forth = {(h, t) for h, r, t in train if r == relation}
        back = {(t, h) for h, t in forth}
        fewer_tails = len({h for h, _ in back}) < len({h for h, _ in forth})
        assert {(x, y) for r, x, y in found if r == relation} == (back if fewer_tails else forth)
        assert {(x, y) for r, x, y in found if r == relation + relations} == (forth if fewer_tails else back)


@pytest.mark.slow
def test_a_query_of_a_million_answers_is_cut_by_its_root():
    tails = torch.arange(1_000_000)
    triples = torch.stack([torch.zeros_like(tails), torch.zeros_like(tails), tails], dim=1)
    layout = FusedLayout.of(triples, len(tails), 1)
    rows = layout.arrivals[1] - layout.arrivals[0]
    assert rows == 1000 + 1  # of tails asked for, and the loop that asks for the head of entity 0
    assert layout.counts.max() == 1000


def test_more_answers_than_a_kernel_can_count_are_refused(monkeypatch):
    graph = random_graph(30, 2, 200)
    sizes = len(graph.entities), len(graph.relations)
    held = FusedLayout.of(graph.train, *sizes).answers.numel()
    monkeypatch.setattr(fused, "LARGEST", held)
    FusedLayout.of(graph.train, *sizes)
    monkeypatch.setattr(fused, "LARGEST", held - 1)
    with pytest.raises(InputError, match=f"{held:,} answers .* expected at most {held - 1:,}; try --device cpu"):
        FusedLayout.of(graph.train, *sizes)
