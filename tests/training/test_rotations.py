"""Rotations stay rotations: moved by Procrustes steps up the likelihood, or solved by Eq. 3 from answers alone."""

import pytest
import torch
from hypothesis import given, strategies as st

from learning import (
    ALL_AT_ONCE,
    FEW,
    FEWER,
    KINDS,
    SEEDS,
    WHOLE,
    close,
    objective,
    plain_losses,
    problem,
    problems,
)
from procrustes_kge.layouts.batches import QUERIES_PER_TILE, QueryBatches
from procrustes_kge.linalg import completed, nearest_orthogonal
from procrustes_kge.training.gradients import Tables, add_covariances
from procrustes_kge.training.learner import Learner
from procrustes_kge.training.optimisers import Adagrad
from procrustes_kge.training.rotations import ROTATE_EVERY, StepSizes, of_rotations
from toys import planted_model, random_graph, random_graphs, random_orthogonal

HELD = StepSizes(0.0, 0.5, 1)  # vectors stay where they are


def tails(learner):
    """Return the rotations of relations that are asked for tails."""
    return learner.tables.rotations.chunk(2)[0]


def solve(learner, batches):
    """Gather the covariances of all triples and solve the rotations, as a training does before its first step."""
    for batch in batches.epoch(ALL_AT_ONCE):
        add_covariances(learner.gathered.rotations, learner.tables, batch)
    learner.rotate_to(learner.rotations.solved(learner.gathered, keep=1.0))


def orthogonal(rotations, tolerance):
    identity = torch.eye(rotations.shape[-1], dtype=rotations.dtype).expand_as(rotations)
    close(rotations.mT @ rotations, identity, tolerance)


# By steps.


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-10)])
@pytest.mark.parametrize("positives", [False, True])
@FEWER
@given(data=st.data(), steps=st.integers(1, ROTATE_EVERY))
def test_rotations_stay_orthogonal_and_heads_rotate_by_the_transpose(positives, dtype, tolerance, data, steps):
    drawn = data.draw(problems(dtype=dtype, positives=positives))
    learner = drawn.learner()
    for _ in range(ROTATE_EVERY + 1):
        orthogonal(learner.tables.rotations, tolerance)
        assert torch.equal(learner.tables.rotations, torch.cat([tails(learner), tails(learner).mT]))
        learner.gather(drawn.whole(learner.generator))
        learner.step(StepSizes(0.1, 1.0, steps))


@pytest.mark.parametrize("positives", [False, True])
@pytest.mark.parametrize("steps", [1, 3, ROTATE_EVERY, 10])
def test_rotations_move_once_in_so_many_steps_and_at_least_once_an_epoch(steps, positives):
    drawn = problem(random_graph(6, 2, 20), objective("all", positives=positives))
    learner, often = drawn.learner(), min(ROTATE_EVERY, steps)
    for number in range(1, 2 * ROTATE_EVERY + 1):
        before = learner.tables.rotations.clone()
        learner.gather(drawn.whole(learner.generator))
        learner.step(StepSizes(0.1, 0.5, steps))
        assert torch.equal(learner.tables.rotations, before) == (number % often > 0)


@FEWER
@given(st.sampled_from(KINDS), random_graphs(), SEEDS)
def test_relations_without_triples_stay_as_they_are(kind, graph, seed):
    drawn = problem(graph, objective(kind, negatives=2, regularisation=0.1), scale=True, translate=True, seed=seed)
    silent = torch.bincount(graph.train[:, 1], minlength=len(graph.relations)) == 0
    both, learner = silent.repeat(2), drawn.learner()
    for _ in range(3):
        learner.gather(drawn.whole(learner.generator))
        learner.step(StepSizes(0.1, 0.5, 1))
    for table, before in zip(learner.tables[1:], drawn.tables[1:], strict=True):
        close(table[both], before[both], 1e-12)


@given(problems(WHOLE))
def test_a_small_step_of_rotations_lowers_the_loss(drawn):
    batch, learner = drawn.whole(), drawn.learner()

    def total_loss():
        return plain_losses(learner.tables, batch, drawn.objective, None)[1]

    before = total_loss()
    learner.gather(batch)
    learner.step(HELD._replace(rotations=1e-3))
    assert total_loss() <= before + 1e-9 * before.abs()


@FEWER
@given(problems(WHOLE), st.floats(-4, 4))
def test_how_far_rotations_move_does_not_depend_on_the_size_of_gradients(drawn, power):
    one, other = drawn.learner(), drawn.learner()
    for _ in range(3):
        for learner, factor in ((one, 1.0), (other, 10**power)):
            learner.gather(drawn.whole())
            learner.gathered.rotations.mul_(factor)
            learner.step(HELD)
    close(one.tables.rotations, other.tables.rotations, 1e-6)


@given(problems(WHOLE), st.floats(0.01, 1))
def test_a_first_step_is_a_procrustes_step_of_the_size_of_its_gradient(drawn, rate):
    learner = drawn.learner()
    learner.gather(drawn.whole())
    gradient = of_rotations(learner.gathered.rotations, len(tails(learner))) / learner.gathered.rotations_weight
    before = tails(learner).clone()
    learner.step(HELD._replace(rotations=rate))
    bound = torch.linalg.matrix_norm(gradient, keepdim=True) / gradient.shape[-1] ** 0.5 / rate
    moved = learner.rotations.squares > 0
    close(tails(learner)[moved], nearest_orthogonal(bound * before - gradient)[moved], 1e-6)


@FEW
@given(seed=SEEDS, width=st.integers(2, 4))
def test_steps_find_planted_rotations(seed, width):
    # Without negatives, vectors held: tails are exactly h Q, and the loss is least there.
    generator = torch.Generator().manual_seed(seed)
    planted, heads = random_orthogonal(width, generator), random_orthogonal(width, generator)
    places = torch.arange(width)
    batches = QueryBatches.of(torch.stack([places, torch.zeros_like(places), places + width], dim=1), 2 * width, 1)
    away = torch.randn(width, width, generator=generator, dtype=torch.float64) / 4
    start = (planted @ torch.linalg.matrix_exp(away - away.mT))[None, None]
    tables = Tables(torch.cat([heads, heads @ planted]), torch.cat([start, start.mT]))
    learner = Learner(tables, objective("none"), Adagrad, generator)
    for _ in range(60):
        for batch in batches.epoch(ALL_AT_ONCE):
            learner.gather(batch)
        learner.step(HELD)
    close(tails(learner)[0, 0], planted, 1e-3)


def test_the_order_of_the_steps_before_a_rotation_moves_does_not_matter():
    # Vectors are held. The last batch of an epoch is smaller than the others and comes anywhere among them.
    drawn, found = problem(random_graph(20, 2, 400), objective("all")), []
    for last in (0, ROTATE_EVERY - 1):
        learner = drawn.learner()
        large, *_ = drawn.batches.epoch(30)
        small, *_ = large.split(3)
        for move in range(3):
            steps = [large] * ROTATE_EVERY
            if move == 1:
                steps[last] = small
            for batch in steps:
                learner.gather(batch)
                learner.step(HELD._replace(steps_an_epoch=10))
        found.append((learner.rotations.squares, learner.tables.rotations))
    close(*found)


# By Eq. 3.


def covariances(vectors, graph):
    """Return Σ hᵀ t of each relation and segment, plainly."""
    sums = torch.zeros(len(graph.relations), *vectors.shape[1:], vectors.shape[-1], dtype=vectors.dtype)
    for head, relation, tail in graph.train.tolist():
        sums[relation] += vectors[head][:, :, None] * vectors[tail][:, None]
    return sums


def thick(matrices):
    """Say where M is thick in its thinnest direction: elsewhere rounding turns Q."""
    values = torch.linalg.svdvals(matrices)
    return values[..., -1] / values[..., 0] > 1e-3


def solution_close(rotations, sums):
    """Compare with Eq. 3."""
    matrices = completed(sums)
    close(rotations[thick(matrices)], nearest_orthogonal(matrices)[thick(matrices)], 1e-4)


def unit_problem(graph, seed, kind="none", height=3):
    """Return a problem whose rotations are solved from answers alone, and a learner of unit vectors."""
    drawn = problem(graph, objective(kind, positives=True), seed=seed, height=height)
    learner = drawn.learner(unit=True)
    return drawn, learner, learner.tables.vectors.view(-1, *learner.tables.rotations.shape[1:3])


@FEWER
@given(st.sampled_from(KINDS), SEEDS, st.sampled_from([1, QUERIES_PER_TILE]))
def test_a_full_batch_is_solved_by_eq_3(kind, seed, height):
    drawn, learner, vectors = unit_problem(random_graph(10, 3, 150, seed), seed, kind, height)
    solve(learner, drawn.batches)
    solution_close(tails(learner), covariances(vectors, drawn.graph))
    for _ in range(3):
        # Triples that are asked from both ends are counted twice, which changes no solution.
        before = covariances(vectors, drawn.graph)
        for batch in drawn.batches.epoch(7, learner.generator):
            learner.gather(batch)
        learner.step(StepSizes(0.1, 0.5, 1))
        solution_close(tails(learner), before)


@FEW
@given(SEEDS)
def test_planted_rotations_are_found_at_once(seed):
    model, graph = planted_model(seed)
    batches = QueryBatches.of(graph.train, len(graph.entities), len(graph.relations))
    vectors, anything = model.vectors.double(), torch.zeros(2 * len(graph.relations), *model.rotations.shape[1:])
    tables = Tables(vectors.flatten(1), anything.double())
    learner = Learner(tables, objective("none", positives=True), Adagrad, torch.Generator())
    solve(learner, batches)
    plain_to_see = thick(covariances(vectors, graph))
    close(tails(learner)[plain_to_see], model.rotations.double()[plain_to_see], 1e-3)
    assert plain_to_see.any()


@FEWER
@given(SEEDS, st.integers(1, 20))
def test_part_of_an_epoch_counts_each_end_of_its_triples(seed, size):
    drawn, learner, vectors = unit_problem(random_graph(10, 3, 150, seed), seed, height=1)
    relations, sums = len(drawn.graph.relations), torch.zeros_like(tails(learner))
    batch = next(iter(drawn.batches.epoch(size, learner.generator)))
    for row, answer in zip(batch.rows.tolist(), batch.answers.tolist(), strict=True):
        asked, direction = int(batch.asked[row]), int(batch.tiles[row])
        head, tail = (asked, answer) if direction < relations else (answer, asked)
        sums[direction % relations] += vectors[head][:, :, None] * vectors[tail][:, None]
    learner.gather(batch)
    solution_close(learner.rotations.solved(learner.gathered, keep=0.0)[:relations], sums)
    assert not learner.gathered.rotations.any()


@FEWER
@given(random_graphs(), SEEDS, st.floats(0, 1))
def test_a_share_of_the_covariances_is_kept(graph, seed, share):
    drawn, learner, vectors = unit_problem(graph, seed)
    solve(learner, drawn.batches)
    sums = learner.gathered.rotations.clone()
    close(of_rotations(sums, len(graph.relations)), 2 * covariances(vectors, graph))  # each triple from either end
    learner.rotations.solved(learner.gathered, keep=share)
    close(learner.gathered.rotations, share * sums)


@pytest.mark.parametrize("size", [1, 2, 3, 6, 12])
def test_covariances_fade_at_the_rate_at_which_they_are_added(size):
    # All vectors are 1, so that a covariance counts its triples; each of 12 queries has 6 answers.
    places = torch.arange(6)
    triples = torch.cartesian_prod(places, places[:1], places)
    batches, generator = QueryBatches.of(triples, 6, 1, height=1), torch.Generator().manual_seed(0)
    ones = torch.ones(6, 1, dtype=torch.float64)
    tables = Tables(ones, torch.ones(2, 1, 1, 1, dtype=torch.float64))
    learner = Learner(tables, objective("none", positives=True), Adagrad, generator)
    solve(learner, batches)
    steps = batches.steps(size)
    for _ in range(20):
        for batch in batches.epoch(size, generator):
            learner.gather(batch)
            learner.step(StepSizes(0.0, 0.5, steps))
    kept = max(0.0, 1 - ROTATE_EVERY / steps)
    counted = learner.gathered.rotations.sum() / (2 * len(triples))  # of an epoch's triples
    close(counted, torch.tensor(kept).double(), 1e-6)
