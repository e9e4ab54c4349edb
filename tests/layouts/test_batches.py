"""Every question once an epoch, however it is dealt."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from procrustes_kge.layouts.batches import TILE, Questions
from toys import builds, random_graph, random_graphs, rotated_graph

TILES = st.sampled_from([1, 3, TILE])
SIZES = st.one_of(st.integers(1, 60), st.just(10**6))
SEEDS = st.one_of(st.none(), st.integers(0, 2**31))  # without a seed, the sorted order


def arranged(graph, tile=TILE):
    """Return a graph and its questions."""
    return graph, Questions.of(graph.train, len(graph.entities), len(graph.relations), tile)


def arrangements(**sizes):
    """Draw a graph and its questions."""
    return builds(arranged, graph=random_graphs(**sizes), tile=TILES)


def epoch(questions, size, seed):
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    return list(questions.epoch(size, generator))


def both_ways(graph):
    """Count (entity, direction, answer), plainly: relation r + R asks for heads."""
    relations = len(graph.relations)
    forward = [(head, relation, tail) for head, relation, tail in graph.train.tolist()]
    return Counter(forward + [(tail, relation + relations, head) for head, relation, tail in forward])


def held(batch):
    """Count the (entity, direction, answer) that a batch holds."""
    tile = len(batch.asked) // len(batch.tiles)
    rows, answers = batch.rows.tolist(), batch.answers.tolist()
    return Counter(
        (int(batch.asked[row]), int(batch.tiles[row // tile]), answer)
        for row, answer in zip(rows, answers, strict=True)
    )


def same(left, right):
    fields = ("asked", "tiles", "counts", "rows", "answers")
    return all(torch.equal(getattr(left, field), getattr(right, field)) for field in fields)


@given(arrangements(), SIZES, SEEDS)
def test_an_epoch_holds_every_triple_once_from_either_end(arrangement, size, seed):
    graph, questions = arrangement
    assert sum((held(batch) for batch in epoch(questions, size, seed)), Counter()) == both_ways(graph)


@given(arrangements(), SIZES, SEEDS)
def test_a_question_stands_in_one_row_with_all_its_answers(arrangement, size, seed):
    graph, questions = arrangement
    found = Counter()
    for batch in epoch(questions, size, seed):
        assert batch.counts.tolist() == torch.bincount(batch.rows, minlength=len(batch.asked)).tolist()
        directions = batch.tiles.repeat_interleave(questions.tile)
        asking = batch.counts > 0
        found.update(zip(batch.asked[asking].tolist(), directions[asking].tolist(), strict=True))
    assert found == Counter({(asked, direction) for asked, direction, _ in both_ways(graph)})
    assert len(questions) == len(found)


@given(arrangements(), SIZES, SEEDS)
def test_tiles_have_one_height_and_padding_fills_less_than_one_a_direction(arrangement, size, seed):
    graph, questions = arrangement
    batches = epoch(questions, size, seed)
    assert all(len(batch.asked) == len(batch.counts) == questions.tile * len(batch.tiles) for batch in batches)
    assert all(batch.rows.numel() == 0 or batch.rows.max() < len(batch.asked) for batch in batches)
    assert all((batch.asked < len(graph.entities)).all() for batch in batches)  # padding asks of some entity
    tiles, counts = torch.cat([batch.tiles for batch in batches]), torch.cat([batch.counts for batch in batches])
    for direction in range(2 * len(graph.relations)):
        asking = counts.view(-1, questions.tile)[tiles == direction] > 0
        assert asking.numel() - asking.sum() < questions.tile
        assert asking.any(dim=1).all()


@given(arrangements(), SIZES, SEEDS)
def test_batches_are_as_large_as_was_asked_for_and_as_many_as_was_said(arrangement, size, seed):
    _, questions = arrangement
    batches = epoch(questions, size, seed)
    assert len(batches) == questions.steps(size)
    rows = [len(batch.asked) for batch in batches]
    assert max(rows) <= max(size, questions.tile)
    assert set(rows[:-1]) <= {rows[0]}  # the last may be smaller
    assert rows[-1] <= rows[0]
    if size >= sum(rows):
        assert len(batches) == 1


@given(arrangements(), SIZES, SEEDS)
def test_answers_follow_the_order_of_their_rows(arrangement, size, seed):
    for batch in epoch(arrangement[1], size, seed):
        assert (batch.rows.diff() >= 0).all()


@given(arrangements(), SIZES, SEEDS, st.integers(1, 60))
def test_the_parts_of_a_batch_hold_the_same(arrangement, size, seed, smaller):
    _, questions = arrangement
    for batch in epoch(questions, size, seed):
        parts = batch.split(smaller)
        assert sum((held(part) for part in parts), Counter()) == held(batch)
        for field in ("asked", "tiles", "counts", "answers"):
            assert torch.equal(torch.cat([getattr(part, field) for part in parts]), getattr(batch, field))
        for part in parts:
            assert len(part.asked) == questions.tile * len(part.tiles)
            assert len(part.asked) <= max(smaller, questions.tile)
            assert part.counts.tolist() == torch.bincount(part.rows, minlength=len(part.asked)).tolist()
        if len(batch.asked) <= smaller:
            assert same(parts[0], batch)


@given(arrangements(), SIZES, SEEDS)
def test_a_seed_deals_the_same_again(arrangement, size, seed):
    _, questions = arrangement
    once, again = (epoch(questions, size, seed) for _ in range(2))
    assert all(same(*pair) for pair in zip(once, again, strict=True))


@given(st.integers(0, 2**31), SEEDS, SIZES)
def test_another_seed_and_another_epoch_deal_differently(seed, other, size):
    _, questions = arranged(rotated_graph())
    other = None if other == seed else other
    generator = torch.Generator().manual_seed(seed)
    first, second = (list(questions.epoch(size, generator)) for _ in range(2))
    for dealt in (second, epoch(questions, size, other)):
        assert not all(same(*pair) for pair in zip(first, dealt, strict=True))


@given(st.integers(0, 2**31))
def test_tiles_are_dealt_afresh_and_not_only_rows(seed):
    _, questions = arranged(rotated_graph())
    generator = torch.Generator().manual_seed(seed)
    first, second = (torch.cat([batch.tiles for batch in questions.epoch(32, generator)]) for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(first.sort().values, second.sort().values)


@given(st.integers(0, 2**31))
def test_rows_are_dealt_afresh_and_not_only_tiles(seed):
    _, questions = arranged(rotated_graph())
    generator = torch.Generator().manual_seed(seed)
    together = []
    for _ in range(2):
        (batch,) = questions.epoch(10**6, generator)
        rows = torch.where(batch.counts > 0, batch.asked, -1).view(-1, questions.tile).tolist()
        together.append({(direction, *sorted(row)) for direction, row in zip(batch.tiles.tolist(), rows, strict=True)})
    assert together[0] != together[1]


@given(random_graphs(), st.integers(0, 2**31))
def test_the_order_of_triples_changes_no_question(graph, seed):
    order = torch.randperm(len(graph.train), generator=torch.Generator().manual_seed(seed))
    sizes = len(graph.entities), len(graph.relations)
    plain, shuffled = Questions.of(graph.train, *sizes), Questions.of(graph.train[order], *sizes)
    for field in ("asked", "direction", "counts", "tiles", "slots"):
        assert torch.equal(getattr(plain, field), getattr(shuffled, field))


@pytest.mark.parametrize("seed", [None, 0])
@pytest.mark.parametrize("tile", [1, TILE])
def test_no_triples_make_no_batches(tile, seed):
    questions = Questions.of(torch.empty(0, 3, dtype=torch.int64), 5, 2, tile)
    assert questions.steps(100) == len(questions) == 0
    assert epoch(questions, 100, seed) == []


def test_the_rows_of_a_direction_may_fill_its_tiles_to_the_last():
    graph = random_graph(4, 1, 16, seed=3)
    everything = torch.cat([graph.train, graph.valid, graph.test])  # all 16: each of 4 entities asks, both ways
    questions = Questions.of(everything, 4, 1, tile=2)
    batches = epoch(questions, 4, 0)
    assert [batch.counts.tolist() for batch in batches] == [[4, 4, 4, 4]] * 2
