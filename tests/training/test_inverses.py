"""Inverse relations with rotations of their own: found, saved, restored, and where they make no difference."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given

from contrasts import is_sound, small
from laws import is_orthogonal
from learning import FEW, FEWER, SEEDS, close, objective, problem, problems
from procrustes_kge.layouts.batches import QueryBatches
from procrustes_kge.linalg import procrustes_step
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.runs.export import exported_tables
from procrustes_kge.runs.store import load_run, save
from procrustes_kge.training.contrastive import contrast
from procrustes_kge.training.restoring import Likelihood, restore_contrasted_relations
from procrustes_kge.training.rotations import StepSizes, of_directions, of_rotations
from toys import random_graph, random_orthogonal, rotated_graph, same


@cache
def learned(**changes):
    """Return planted rotations, learned with inverses, and their graph."""
    graph = rotated_graph()
    return contrast(graph, small(inverses=True, epochs=16, **changes)), graph


@pytest.mark.parametrize("positives", [False, True])
@FEWER
@given(problems(inverses=True))
def test_each_direction_moves_on_its_own_and_stays_orthogonal(positives, drawn):
    drawn = replace(drawn, objective=replace(drawn.objective, positives=positives))
    learner, generator = drawn.learner(), drawn.generator()
    own = random_orthogonal(drawn.tables.rotations.shape[-1], generator, drawn.tables.rotations.shape[:2])
    learner.rotate_to(own)
    learner.gather(drawn.whole())
    if not positives:
        gradient = learner.gathered.rotations / learner.gathered.rotations_weight
        bound = gradient.square().sum(dim=(-2, -1)).div(gradient.shape[-1]).sqrt().clamp_min(1e-150) / 0.5
        wanted = procrustes_step(own, gradient, bound)
    learner.step(StepSizes(0.1, 0.5, 1))
    found = learner.tables.rotations
    close(found.mT @ found, torch.eye(found.shape[-1], dtype=found.dtype).expand_as(found), 1e-9)
    if not positives:
        moved = learner.rotations.squares > 1e-20
        close(found[moved], wanted[moved], 1e-6)


@FEWER
@given(problems(["none", "all", "smoothed"], inverses=True, relation_weight=0.5))
def test_swapping_heads_and_tails_swaps_what_is_learned(drawn):
    def turned(table):
        return None if table is None else torch.cat([*reversed(table.chunk(2))])

    backwards = replace(drawn.graph, train=drawn.graph.train[:, [2, 1, 0]])
    batches = QueryBatches.of(backwards.train, len(backwards.entities), len(backwards.relations), 3)
    tables = drawn.tables._replace(**{name: turned(getattr(drawn.tables, name)) for name in drawn.tables._fields[1:]})
    learners = [drawn.learner(), replace(drawn, graph=backwards, batches=batches, tables=tables).learner()]
    for learner, each in zip(learners, (drawn.batches, batches), strict=True):
        (batch,) = each.epoch(10**6)
        learner.gather(batch)
        learner.step(StepSizes(0.1, 0.5, 10))
    one, other = (learner.tables for learner in learners)
    close(other.vectors, one.vectors, 1e-7)
    for left, right in zip(other[1:], one[1:], strict=True):
        if left is not None:
            close(left, turned(right), 1e-7)


def test_training_starts_where_heads_have_the_transpose_and_leaves_it():
    settings = small(inverses=True, epochs=1, batch="full", learning_rate=1e-6, rotation_learning_rate=1e-6)
    tails, heads = contrast(rotated_graph(), settings).rotations.chunk(2)
    torch.testing.assert_close(heads, tails.mT, atol=1e-4, rtol=0)
    tails, heads = learned()[0].rotations.chunk(2)
    assert float((heads - tails.mT).abs().max()) > 0.1
    assert is_sound(learned()[0])


def test_a_model_with_inverses_is_loaded_as_it_was_saved(tmp_path):
    model, graph = learned()
    settings = small(inverses=True, epochs=16)
    save(model, tmp_path / "run", graph, settings)
    run = load_run(tmp_path / "run")
    assert same(run.model, model)
    assert run.settings == settings
    save(model, tmp_path / "bare")
    assert same(load_run(tmp_path / "bare").model, model)


@pytest.mark.parametrize("changes", [{}, {"lengths": "unit", "relations": "positives"}], ids=["steps", "positives"])
def test_inverses_left_out_are_found_again_and_rank_as_well(changes, tmp_path):
    model, graph = learned(**changes)
    save(model, tmp_path / "run", graph, small(inverses=True, epochs=16, **changes), relations=False)
    again = load_run(tmp_path / "run").model
    assert again.rotations.shape == model.rotations.shape
    assert is_orthogonal(again.rotations)
    assert evaluate(again, graph).mrr == pytest.approx(evaluate(model, graph).mrr, abs=0.05)


def test_exported_inverses_are_tables_of_their_own():
    model, graph = learned()
    tables, count = exported_tables(model, "relations"), len(graph.relations)
    assert next(iter(tables)) == "rotation"
    assert np.array_equal(tables["rotation"], model.rotations[:count])
    assert np.array_equal(tables["inverse_rotation"], model.rotations[count:])
    assert {len(table) for table in tables.values()} == {count}


@FEW
@given(SEEDS)
def test_rotations_that_are_tied_are_as_likely_when_each_direction_counts_alone(seed):
    graph, generator = random_graph(10, 3, 60, seed), torch.Generator().manual_seed(seed)
    vectors = torch.randn(10, 2, 3, generator=generator, dtype=torch.float64)
    rotations = random_orthogonal(3, generator, (3, 2))
    tied, own = Likelihood(vectors, graph), Likelihood(vectors, graph, rotations=6)
    (losses, gradient), (each, gradients) = tied.at(rotations), own.at(of_directions(rotations, 6))
    close(each.view(2, 3).sum(dim=0), losses)
    close(of_rotations(gradients, 3), gradient)
    close(own.curvature().view(2, 3, 2).sum(dim=0), tied.curvature())
    found = restore_contrasted_relations(vectors, graph, inverses=True)
    assert own.at(found)[0].sum() <= own.at(of_directions(restore_contrasted_relations(vectors, graph), 6))[0].sum() + 1


def test_rotations_solved_from_all_positives_are_tied_anyway():
    drawn = problem(random_graph(10, 3, 150), objective("all", positives=True, inverses=True))
    learner = drawn.learner()
    learner.gather(drawn.whole())
    learner.step(StepSizes(0.1, 0.5, 1))
    tails, heads = learner.tables.rotations.chunk(2)
    close(heads, tails.mT, 1e-6)
