"""Every query once an epoch, in any order."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st

from procrustes_kge.layouts.batches import QUERIES_PER_TILE, SIZES_AN_OCTAVE, Batch, QueryBatches, _rounded_up
from toys import builds, random_graph, random_graphs, rotated_graph

HEIGHTS = st.sampled_from([1, 3, QUERIES_PER_TILE])
SIZES = st.one_of(st.integers(1, 60), st.just(10**6))
SEEDS = st.one_of(st.none(), st.integers(0, 2**31))  # without a seed, the sorted order


def arranged(graph, height=QUERIES_PER_TILE):
    """Return a graph and its queries."""
    return graph, QueryBatches.of(graph.train, len(graph.entities), len(graph.relations), height)


def arrangements(**sizes):
    """Draw a graph and its queries."""
    return builds(arranged, graph=random_graphs(**sizes), height=HEIGHTS)


def epoch(batches, size, seed):
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    return list(batches.epoch(size, generator))


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
    graph, batches = arrangement
    assert sum((held(batch) for batch in epoch(batches, size, seed)), Counter()) == both_ways(graph)


@given(arrangements(), SIZES, SEEDS)
def test_a_query_stands_in_one_row_with_all_its_answers(arrangement, size, seed):
    graph, batches = arrangement
    found = Counter()
    for batch in epoch(batches, size, seed):
        assert batch.counts.tolist() == torch.bincount(batch.rows, minlength=len(batch.asked)).tolist()
        directions = batch.tiles.repeat_interleave(batches.height)
        asking = batch.counts > 0
        found.update(zip(batch.asked[asking].tolist(), directions[asking].tolist(), strict=True))
    assert found == Counter({(asked, direction) for asked, direction, _ in both_ways(graph)})
    assert len(batches) == len(found)


@given(arrangements(), SIZES, SEEDS)
def test_tiles_have_one_height_and_padding_fills_less_than_one_a_direction(arrangement, size, seed):
    graph, batches = arrangement
    dealt = epoch(batches, size, seed)
    assert all(len(batch.asked) == len(batch.counts) == batches.height * len(batch.tiles) for batch in dealt)
    assert all(batch.rows.numel() == 0 or batch.rows.max() < len(batch.asked) for batch in dealt)
    assert all((batch.asked < len(graph.entities)).all() for batch in dealt)  # padding asks of some entity
    tiles, counts = torch.cat([batch.tiles for batch in dealt]), torch.cat([batch.counts for batch in dealt])
    for direction in range(2 * len(graph.relations)):
        asking = counts.view(-1, batches.height)[tiles == direction] > 0
        assert asking.numel() - asking.sum() < batches.height
        assert asking.any(dim=1).all()


@given(arrangements(), SIZES, SEEDS)
def test_batches_are_as_large_as_was_asked_for_and_as_many_as_was_said(arrangement, size, seed):
    _, batches = arrangement
    dealt = epoch(batches, size, seed)
    assert len(dealt) == batches.steps(size)
    rows = [len(batch.asked) for batch in dealt]
    assert max(rows) <= max(size, batches.height)
    assert set(rows[:-1]) <= {rows[0]}  # the last may be smaller
    assert rows[-1] <= rows[0]
    if size >= sum(rows):
        assert len(dealt) == 1


@given(arrangements(), SIZES, SEEDS)
def test_answers_follow_the_order_of_their_rows(arrangement, size, seed):
    for batch in epoch(arrangement[1], size, seed):
        assert (batch.rows.diff() >= 0).all()


def padded(batches, size, seed):
    """Return the padded batches of an epoch."""
    dealt = batches.padded_epoch(size, None if seed is None else torch.Generator().manual_seed(seed))
    return [Batch.unpacked(numbers, batches.padded_tiles(size), batches.height) for numbers in dealt]


@given(arrangements(), SIZES, SEEDS)
def test_padded_batches_are_the_batches_and_rows_that_ask_nothing(arrangement, size, seed):
    _, batches = arrangement
    plain, found = epoch(batches, size, seed), padded(batches, size, seed)
    assert len(plain) == len(found) == batches.steps(size)
    for one, other in zip(plain, found, strict=True):
        for field in ("asked", "tiles", "counts", "rows", "answers"):
            real = getattr(one, field)
            assert torch.equal(getattr(other, field)[: len(real)], real)
        assert not other.counts[len(one.counts) :].any()
        spare = other.rows[len(one.rows) :]
        assert (spare >= len(other.asked) - batches.height).all()  # the last tile, which none of the others fills
        assert (spare < len(other.asked)).all()
        assert len(other.tiles) > len(one.tiles)


@given(arrangements(), SIZES, SEEDS)
def test_padded_batches_have_one_shape(arrangement, size, seed):
    _, batches = arrangement
    found = padded(batches, size, seed)
    assert len({(len(each.asked), len(each.tiles), len(each.counts), len(each.answers)) for each in found}) == 1
    assert len(found[0].rows) == _rounded_up(max(len(each.rows) for each in epoch(batches, size, seed)))


@given(arrangements(), SIZES, SEEDS, st.integers(1, 60))
def test_the_parts_of_a_padded_batch_hold_the_same_triples(arrangement, size, seed, smaller):
    _, batches = arrangement
    for one, other in zip(epoch(batches, size, seed), padded(batches, size, seed), strict=True):
        found = Counter()
        for part in other.split(smaller):
            asking = part.counts[part.rows] > 0
            found += held(replace(part, rows=part.rows[asking], answers=part.answers[asking]))
        assert found == held(one)


@given(st.integers(1, 10**6))
def test_sizes_are_rounded_up_to_a_few(size):
    rounded = _rounded_up(size)
    assert size <= rounded <= max(size * (1 + 1 / SIZES_AN_OCTAVE), size)
    assert _rounded_up(rounded) == rounded
    octave = {_rounded_up(each) for each in range(2**9 + 1, 2**10 + 1)}
    assert len(octave) == SIZES_AN_OCTAVE


@given(arrangements(), SIZES, SEEDS, st.integers(1, 60))
def test_the_parts_of_a_batch_hold_the_same(arrangement, size, seed, smaller):
    _, batches = arrangement
    for batch in epoch(batches, size, seed):
        parts = batch.split(smaller)
        assert sum((held(part) for part in parts), Counter()) == held(batch)
        for field in ("asked", "tiles", "counts", "answers"):
            assert torch.equal(torch.cat([getattr(part, field) for part in parts]), getattr(batch, field))
        for part in parts:
            assert len(part.asked) == batches.height * len(part.tiles)
            assert len(part.asked) <= max(smaller, batches.height)
            assert part.counts.tolist() == torch.bincount(part.rows, minlength=len(part.asked)).tolist()
        if len(batch.asked) <= smaller:
            assert same(parts[0], batch)


@given(arrangements(), SIZES, SEEDS)
def test_a_seed_deals_the_same_again(arrangement, size, seed):
    _, batches = arrangement
    once, again = (epoch(batches, size, seed) for _ in range(2))
    assert all(same(*pair) for pair in zip(once, again, strict=True))


@given(st.integers(0, 2**31), SEEDS, SIZES)
def test_another_seed_and_another_epoch_deal_differently(seed, other, size):
    _, batches = arranged(rotated_graph())
    other = None if other == seed else other
    generator = torch.Generator().manual_seed(seed)
    first, second = (list(batches.epoch(size, generator)) for _ in range(2))
    for dealt in (second, epoch(batches, size, other)):
        assert not all(same(*pair) for pair in zip(first, dealt, strict=True))


@given(st.integers(0, 2**31))
def test_tiles_are_dealt_afresh_and_not_only_rows(seed):
    _, batches = arranged(rotated_graph())
    generator = torch.Generator().manual_seed(seed)
    first, second = (torch.cat([batch.tiles for batch in batches.epoch(32, generator)]) for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(first.sort().values, second.sort().values)


@given(st.integers(0, 2**31))
def test_rows_are_dealt_afresh_and_not_only_tiles(seed):
    _, batches = arranged(rotated_graph())
    generator = torch.Generator().manual_seed(seed)
    together = []
    for _ in range(2):
        (batch,) = batches.epoch(10**6, generator)
        rows = torch.where(batch.counts > 0, batch.asked, -1).view(-1, batches.height).tolist()
        together.append({(direction, *sorted(row)) for direction, row in zip(batch.tiles.tolist(), rows, strict=True)})
    assert together[0] != together[1]


@given(random_graphs(), st.integers(0, 2**31))
def test_the_order_of_triples_changes_no_query(graph, seed):
    order = torch.randperm(len(graph.train), generator=torch.Generator().manual_seed(seed))
    sizes = len(graph.entities), len(graph.relations)
    plain, shuffled = QueryBatches.of(graph.train, *sizes), QueryBatches.of(graph.train[order], *sizes)
    for field in ("slots", "tiles"):
        assert torch.equal(getattr(plain, field), getattr(shuffled, field))
    for field in ("entities", "directions", "offsets", "answers"):
        assert torch.equal(getattr(plain.queries, field), getattr(shuffled.queries, field))


@pytest.mark.parametrize("seed", [None, 0])
@pytest.mark.parametrize("height", [1, QUERIES_PER_TILE])
def test_no_triples_make_no_batches(height, seed):
    batches = QueryBatches.of(torch.empty(0, 3, dtype=torch.int64), 5, 2, height)
    assert batches.steps(100) == len(batches) == 0
    assert epoch(batches, 100, seed) == []


def test_the_rows_of_a_direction_may_fill_its_tiles_to_the_last():
    graph = random_graph(4, 1, 16, seed=3)
    everything = torch.cat([graph.train, graph.valid, graph.test])  # all 16: each of 4 entities asks, both ways
    batches = QueryBatches.of(everything, 4, 1, height=2)
    dealt = epoch(batches, 4, 0)
    assert [batch.counts.tolist() for batch in dealt] == [[4, 4, 4, 4]] * 2
