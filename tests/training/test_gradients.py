"""Gradients in closed form against those of autograd, of the loss written plainly."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st

from learning import (
    ALL_AT_ONCE,
    FEWER,
    KINDS,
    SEEDS,
    WHOLE,
    close,
    named,
    objective,
    plain_losses,
    problem,
    problems,
)
from procrustes_kge.layouts.batches import QUERIES_PER_TILE, Batch
from procrustes_kge.training.gradients import Gradients, Tables, add_covariances, add_gradients, outward
from procrustes_kge.training.rotations import of_rotations
from toys import random_graphs


def leaves_of(tables):
    """Return the tables ready for autograd."""
    return Tables(*(None if table is None else table.clone().requires_grad_() for table in tables))


def differentiated(total, leaves):
    """Return the gradient of each table by autograd."""
    tables = named(leaves)
    gradients = torch.autograd.grad(total, list(tables.values()), materialize_grads=True)
    return dict(zip(tables, gradients, strict=True))


def gathered(drawn, batch, asked=None, draw=None, **others):
    """Return the sums of one batch."""
    sums = Gradients.zeros(drawn.tables)
    add_gradients(sums, drawn.tables, batch, asked or drawn.objective, draw, **others)
    return sums


def by_direction(values, batch, directions):
    """Return values of rows, added up by direction."""
    sums = torch.zeros(directions, dtype=values.dtype)
    return sums.index_add_(0, batch.tiles, values.view(len(batch.tiles), -1).sum(dim=1))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_gradients_are_those_of_the_loss_written_plainly(kind, data):
    drawn = data.draw(problems([kind]))
    batch, leaves = drawn.whole(), leaves_of(drawn.tables)
    draw = drawn.dealt(batch)
    losses, total = plain_losses(leaves, batch, drawn.objective, draw)
    sums = gathered(drawn, batch, draw=draw)
    for name, gradient in differentiated(total, leaves).items():
        close(getattr(sums, name), gradient, 1e-7)
    close(sums.losses, by_direction(losses, batch, len(sums.losses)), 1e-7)


@given(problems())
def test_heads_rotate_by_the_transpose_and_add_to_the_gradient_of_one_rotation(drawn):
    batch, relations = drawn.whole(), len(drawn.graph.relations)
    draw, rotations = drawn.dealt(batch), drawn.tables.rotations[:relations].clone().requires_grad_()
    leaves = drawn.tables._replace(rotations=torch.cat([rotations, rotations.mT]))
    _, total = plain_losses(leaves, batch, drawn.objective, draw)
    (expected,) = torch.autograd.grad(total, [rotations])
    close(of_rotations(gathered(drawn, batch, draw=draw).rotations, relations), expected, 1e-7)


@given(SEEDS, st.floats(1, 4), st.floats(0.5, 2))
def test_segments_are_pulled_along_themselves_by_a_power_of_their_length(seed, power, size):
    rows = torch.randn(4, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    rows[0, :3] = 0  # a segment without any length
    found = outward(rows, 3, power).view(4, 2, 3)
    close(found.norm(dim=-1), rows.view(4, 2, 3).norm(dim=-1) ** (power - 1) * (found.norm(dim=-1) > 0))
    close(outward(size * rows, 3, power), size ** (power - 1) * outward(rows, 3, power))
    assert not found[0, 0].any()
    assert outward(rows, 3, 2.0) is rows


@pytest.mark.slow
@given(problems(), st.floats(0.1, 0.9))
def test_numbers_that_are_dropped_are_left_out_of_scores_and_not_of_regularisation(drawn, dropout):
    asked, batch, generator = replace(drawn.objective, dropout=dropout), drawn.whole(), drawn.generator()
    kept = torch.empty(len(batch.asked), drawn.tables.vectors.shape[1], dtype=torch.float64)
    kept.bernoulli_(1 - dropout, generator=generator).div_(1 - dropout)
    draw, leaves = drawn.dealt(batch), leaves_of(drawn.tables)
    _, total = plain_losses(leaves, batch, asked, draw, kept)
    sums = gathered(drawn, batch, asked, draw, generator=drawn.generator())
    for name, gradient in differentiated(total, leaves).items():
        close(getattr(sums, name), gradient, 1e-7)


@given(problems())
def test_a_query_with_n_answers_counts_n_to_the_power_of_crowd(drawn):
    batch = drawn.whole()
    sums = gathered(drawn, batch, draw=drawn.dealt(batch))
    counts = batch.counts[batch.counts > 0].double()
    expected = (counts**drawn.objective.crowd).sum()
    for weight in (sums.weight, sums.rotations_weight, sums.losses_weight):
        close(weight, expected)


@FEWER
@given(st.sampled_from(WHOLE), random_graphs(), SEEDS)
def test_batches_add_up_whatever_the_height_of_tiles_and_the_size_of_batches(kind, graph, seed):
    results = []
    for height, size in ((1, 1), (3, 10), (QUERIES_PER_TILE, ALL_AT_ONCE)):
        asked = objective(kind, regularisation=0.1, crowd=0.5)
        drawn = problem(graph, asked, height=height, seed=seed, scale=True, translate=True)
        sums = Gradients.zeros(drawn.tables)
        for batch in drawn.batches.epoch(size, drawn.generator()):
            add_gradients(sums, drawn.tables, batch, asked)
        results.append([*sums.of_a_step, *sums.of_several])
    for other in results[1:]:
        close(other, results[0])


@given(problems())
def test_nothing_changes_but_the_sums(drawn):
    batch = drawn.whole()
    before = {name: table.clone() for name, table in named(drawn.tables).items()}
    gathered(drawn, batch, draw=drawn.dealt(batch))
    assert all(torch.equal(table, before[name]) for name, table in named(drawn.tables).items())


@given(problems(["all", "smoothed"]), st.integers(0, 3), st.integers(0, 3))
def test_vectors_to_compare_with_may_be_padded(drawn, rows, columns):
    batch = drawn.whole()
    padded = torch.nn.functional.pad(drawn.tables.vectors, (0, columns, 0, rows))
    alike = [gathered(drawn, batch), gathered(drawn, batch, compared=padded)]
    close(*([*sums.of_a_step, *sums.of_several] for sums in alike))


@given(problems(), st.integers(1, 60), st.booleans())
def test_what_pads_a_batch_adds_nothing(drawn, size, positives):
    batches, asked = drawn.batches, replace(drawn.objective, positives=positives)
    dealt = batches.padded_epoch(size, drawn.generator())
    for batch, numbers in zip(batches.epoch(size, drawn.generator()), dealt, strict=True):
        padded = Batch.unpacked(numbers, batches.padded_tiles(size), batches.height)
        draw = drawn.dealt(batch)
        sums = [gathered(drawn, batch, asked, draw), gathered(drawn, padded, asked, padded_draw(draw, batch, padded))]
        close(*([*each.of_a_step, *each.of_several] for each in sums))


def padded_draw(draw, batch, padded):
    """Return the same hands for a padded batch, and any for what pads it."""
    if draw is None:
        return None
    hands = draw.drawn[torch.arange(-(-len(padded.asked) // draw.height)) % len(draw.drawn)]
    columns = torch.arange(len(padded.rows)) % draw.entities
    columns[: len(batch.rows)] = draw.columns
    return draw._replace(drawn=hands, columns=columns)


@given(problems())
def test_where_answers_alone_decide_covariances_take_the_place_of_the_gradient_of_rotations(drawn):
    batch, sums = drawn.whole(), torch.zeros_like(drawn.tables.rotations)
    vectors = drawn.tables.vectors.view(-1, *drawn.tables.rotations.shape[1:3])
    for row, answer in zip(batch.rows.tolist(), batch.answers.tolist(), strict=True):
        direction = int(batch.tiles[row // drawn.batches.height])
        sums[direction] += vectors[int(batch.asked[row])][:, :, None] * vectors[answer][:, None]
    draw, found = drawn.dealt(batch), torch.zeros_like(sums)
    add_covariances(found, drawn.tables, batch)
    close(found, sums)
    plain_ones = gathered(drawn, batch, draw=draw)
    positives = gathered(drawn, batch, replace(drawn.objective, positives=True), draw)
    close(positives.rotations, sums)
    close([*positives.of_a_step, *positives.of_several[1:]], [*plain_ones.of_a_step, *plain_ones.of_several[1:]])
