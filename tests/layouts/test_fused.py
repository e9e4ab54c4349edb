"""Laws of how triples are arranged for the kernels: nothing is lost, nothing counted twice."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from procrustes_kge.layouts import fused as strips_of
from procrustes_kge.layouts.fused import Strips
from toys import random_graph


def test_questions_of_many_answers_are_cut_and_their_pieces_arrive_where_they_belong():
    rows = torch.arange(90)
    triples = torch.stack([rows * 0, rows % 3, rows + 3], dim=1)
    strips = Strips.of(triples, 93, 3)
    assert strips.counts.max() == strips_of.FEW
    assert strips.counts.sum() == strips.degrees.sum() == 180
    assert (strips.strips[:, 1] - strips.strips[:, 0]).max() <= strips_of.STRIP
    for entity in (0, 5):
        mine = strips.arriving[strips.arrivals[entity] : strips.arrivals[entity + 1]]
        assert (strips.asked.flatten()[mine[:, 0]] == entity).all()
        assert (strips.counts.flatten()[mine[:, 0]] == mine[:, 2]).all()
        assert mine[:, 2].sum() == strips.degrees[entity]


@given(
    entities=st.integers(1, 300),
    relations=st.integers(1, 9),
    triples=st.integers(1, 3000),
    seed=st.integers(0, 99),
)
def test_tiles_hold_every_triple_twice(entities, relations, triples, seed):
    graph = random_graph(entities, relations, triples, seed)
    strips = Strips.of(graph.train, len(graph.entities), len(graph.relations))
    found = set()
    directions = {tile: way for first, last, way in strips.strips.tolist() for tile in range(first, last)}
    assert sorted(directions) == list(range(len(strips.tiles)))
    for tile, (offset, depth) in enumerate(strips.tiles.tolist()):
        answers = strips.answers[offset : offset + depth * strips_of.TILE].view(depth, strips_of.TILE)
        assert ((answers >= 0).sum(dim=0) == strips.counts[tile]).all()
        for row, number in (answers.T >= 0).nonzero().tolist():
            asked, answer = int(strips.asked[tile, row]), int(answers[number, row])
            found.add((directions[tile], asked, answer))
    relations = len(graph.relations)
    train = graph.train.tolist()
    for relation in range(relations):
        forth = {(h, t) for h, r, t in train if r == relation}
        back = {(t, h) for h, t in forth}
        fewer_tails = len({h for h, _ in back}) < len({h for h, _ in forth})
        assert {(x, y) for r, x, y in found if r == relation} == (back if fewer_tails else forth)
        assert {(x, y) for r, x, y in found if r == relation + relations} == (forth if fewer_tails else back)


def test_a_question_of_a_million_answers_is_cut_by_its_root():
    tails = torch.arange(1_000_000)
    triples = torch.stack([torch.zeros_like(tails), torch.zeros_like(tails), tails], dim=1)
    strips = Strips.of(triples, len(tails), 1)
    rows = strips.arrivals[1] - strips.arrivals[0]
    assert rows == 1000 + 1  # of tails asked for, and the loop that asks for the head of entity 0
    assert strips.counts.max() == 1000
