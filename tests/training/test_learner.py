"""Steps taken in several ways, learners that go on from a state, and the deck that negatives are dealt from."""

import copy

import pytest
import torch
from hypothesis import given, strategies as st

from learning import (
    ALL_AT_ONCE,
    FEWER,
    HEIGHTS,
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
from procrustes_kge.layouts.batches import QueryBatches
from procrustes_kge.linalg import spherise
from procrustes_kge.training.deck import Deck
from procrustes_kge.training.gradients import Tables
from procrustes_kge.training.optimisers import Adagrad, Adam
from procrustes_kge.training.rotations import StepSizes
from procrustes_kge.training.state import copied
from toys import random_graph, random_graphs

every_optimiser = pytest.mark.parametrize("optimiser", [Adam, Adagrad])


def learned(learner):
    """Return all that a learner has learned and remembers, without its random numbers."""
    return {name: table for name, table in learner.state().items() if name != "generator"}


def losses(learner):
    return learner.gathered.losses, learner.gathered.losses_weight


# Steps.


@FEWER
@given(st.sampled_from(KINDS), random_graphs(fewest_triples=12), SEEDS)
def test_a_batch_in_chunks_is_the_batch(kind, graph, seed):
    # Chunks of whole groups are dealt the same hands.
    asked = objective(kind, negatives=2, regularisation=0.1, crowd=0.5)
    drawn = problem(graph, asked, height=2, seed=seed, scale=True, translate=True)
    one, other = drawn.learner(), drawn.learner()
    for _ in range(4):
        for learner, size in ((one, ALL_AT_ONCE), (other, 4)):
            for chunk in drawn.whole(learner.generator).split(size):
                learner.gather(chunk)
            learner.step(StepSizes(0.1, 0.5, 2))
    close(learned(one), learned(other), 1e-5)
    close(losses(one), losses(other), 1e-5)


@FEWER
@given(problems(["some", "sigmoid"]), st.integers(1, 40))
def test_a_step_on_rows_is_the_step(drawn, size):
    one, other = drawn.learner(), drawn.learner()
    assert one.sees_few
    sizes = StepSizes(0.1, 0.5, drawn.batches.steps(size))
    for _ in range(2):
        pairs = zip(*(drawn.batches.epoch(size, learner.generator) for learner in (one, other)), strict=True)
        for batch, same in pairs:
            one.step_on_rows(batch, sizes)
            other.gather(same)
            other.step(sizes)
            close(learned(one), learned(other), 1e-5)
            close(losses(one), losses(other), 1e-5)


@given(problems(["some", "sigmoid"]))
def test_a_step_on_rows_leaves_entities_alone_that_it_does_not_see(drawn):
    learner = drawn.learner()
    before, size = learner.tables.vectors.clone(), len(learner.tables.vectors)
    batch = next(iter(drawn.batches.epoch(1, learner.generator)))
    hand = learner.deck.cards[(learner.deck.next + torch.arange(learner.objective.negatives)) % size]
    learner.step_on_rows(batch, StepSizes(0.1, 0.5, 10))
    seen = {*batch.asked.tolist(), *batch.answers.tolist(), *hand.tolist()}
    # A tile is a group here, or part of one: all its queries share a hand.
    assert all(torch.equal(learner.tables.vectors[e], before[e]) for e in range(size) if e not in seen)


def test_steps_on_rows_are_for_free_vectors_and_few_entities_that_adagrad_moves():
    few, everything, none = (
        problem(random_graph(6, 2, 20), objective(kind, negatives=2)) for kind in ("some", "all", "none")
    )
    assert few.learner().sees_few
    assert not few.learner(unit=True).sees_few
    assert not few.learner(Adam).sees_few
    assert not everything.learner().sees_few
    assert not none.learner().sees_few


@every_optimiser
@FEWER
@given(drawn=problems())
def test_tables_move_by_the_mean_gradient_of_an_answer(optimiser, drawn):
    learner = drawn.learner(optimiser)
    learner.gather(drawn.whole())
    moved = {name: table.clone() for name, table in named(learner.tables).items() if name != "rotations"}
    for name, table in moved.items():
        kind = optimiser if name == "vectors" else Adagrad
        kind(table)(table, getattr(learner.gradients, name) / learner.gradients.weight, 0.1)
    before = learner.tables
    learner.step(StepSizes(0.1, 0.5, 10))
    for name, table in moved.items():
        close(getattr(learner.tables, name), table)
        assert getattr(learner.tables, name) is getattr(before, name)


@FEWER
@given(problems())
def test_a_step_uses_gradients_up(drawn):
    learner = drawn.learner()
    learner.gather(drawn.whole())
    learner.step(StepSizes(0.1, 0.5, 1))
    assert not any(sums.any() for sums in [*learner.gradients.of_a_step, *learner.gradients.of_several[:2]])
    assert learner.taken == 1
    assert torch.equal(learner.compared, learner.tables.vectors)  # what is compared is what has been learned


@given(problems(WHOLE))
def test_what_is_forgotten_was_never_gathered(drawn):
    one, other = drawn.learner(), drawn.learner()
    first, *_ = drawn.batches.epoch(5, drawn.generator())
    before = one.running_sums()
    one.gather(first)
    one.forget(before)
    for learner in (one, other):
        learner.gather(first)
        learner.step(StepSizes(0.1, 0.5, 1))
    close(learned(one), learned(other))
    close(losses(one), losses(other))


@given(problems())
def test_the_mean_loss_of_an_answer_is_returned_once(drawn):
    learner, batch = drawn.learner(), drawn.whole()
    rows, _ = plain_losses(drawn.tables, batch, drawn.objective, drawn.dealt(batch))
    learner.gather(batch)
    counts = batch.counts[batch.counts > 0].double()
    expected = (rows.sum() / (counts**drawn.objective.crowd).sum()).item()
    assert learner.mean_loss() == pytest.approx(expected, rel=1e-7, abs=1e-7)
    assert not any(sums.any() for sums in losses(learner))


@every_optimiser
@FEWER
@given(drawn=problems())
def test_unit_vectors_are_centred_and_brought_back_to_length_one(optimiser, drawn):
    learner = drawn.learner(optimiser, unit=True)
    shape = (-1, *learner.tables.rotations.shape[1:3])
    for _ in range(3):
        learner.gather(drawn.whole(learner.generator))
        free = learner.tables.vectors.clone()
        copy.deepcopy(learner.optimise)(free, learner.gradients.vectors / learner.gradients.weight, 0.1)
        learner.step(StepSizes(0.1, 0.5, 10))
        unit = learner.tables.vectors.view(shape)
        close(unit, spherise(free.view(shape).transpose(0, 1)).transpose(0, 1))
        close(unit.norm(dim=-1), torch.ones_like(unit[..., 0]))


# States.


def taught(learner, drawn, epochs, size):
    """Teach a learner for some epochs, by whatever steps suit it, and return the mean loss of each."""
    found, sizes = [], StepSizes(0.1, 0.5, drawn.batches.steps(size))
    for _ in range(epochs):
        learner.deck.shuffle(learner.generator)
        for batch in drawn.batches.epoch(size, learner.generator):
            if learner.sees_few:
                learner.step_on_rows(batch, sizes)
            else:
                learner.gather(batch)
                learner.step(sizes)
        found.append(learner.mean_loss())
    return found


@pytest.mark.slow
@every_optimiser
@pytest.mark.parametrize("unit", [False, True])
@FEWER
@given(data=st.data(), size=st.integers(1, 40), before=st.integers(0, 2))
def test_a_learner_goes_on_from_the_state_of_another_bit_for_bit(optimiser, unit, data, size, before):
    """Between two moves of a rotation too: what has gathered for it belongs to the state."""
    choices = {"dropout": data.draw(st.sampled_from([0.0, 0.3])), "positives": data.draw(st.booleans())}
    drawn = data.draw(problems(**choices))
    one, other = drawn.learner(optimiser, unit), drawn.learner(optimiser, unit)
    other.generator.manual_seed(99)
    taught(one, drawn, before, size)
    taught(other, drawn, 1, size)
    state = copied(one.state())
    assert state.keys() == other.state().keys()
    rest = taught(one, drawn, 2, size)
    other.restore(state)
    assert taught(other, drawn, 2, size) == rest
    assert all(table.equal(other.state()[name]) for name, table in one.state().items())
    one.restore(state)  # back, which left the state as it was
    assert taught(one, drawn, 2, size) == rest


@pytest.mark.slow
@every_optimiser
@pytest.mark.parametrize("unit", [False, True])
@FEWER
@given(drawn=problems(), size=st.integers(1, 40), fresh=SEEDS)
def test_a_learner_that_is_restarted_is_a_new_one_in_the_same_place(optimiser, unit, drawn, size, fresh):
    one, other = drawn.learner(optimiser, unit), drawn.learner(optimiser, unit)
    taught(other, drawn, 2, size)
    places = {name: table.data_ptr() for name, table in learned(other).items() if name != "taken"}
    for learner in (one, other):
        learner.generator.manual_seed(fresh)
    other.restart(Tables(*(None if table is None else table.clone() for table in one.tables)))
    assert taught(one, drawn, 2, size) == taught(other, drawn, 2, size)
    assert all(table.equal(other.state()[name]) for name, table in one.state().items())
    assert places == {name: table.data_ptr() for name, table in learned(other).items() if name != "taken"}


# The deck.


@given(random_graphs(), HEIGHTS, st.integers(1, 60), st.floats(0, 1), st.booleans(), SEEDS)
def test_hands_hold_no_entity_twice_and_columns_point_at_answers(graph, height, size, share, shuffled, seed):
    entities, generator = len(graph.entities), torch.Generator().manual_seed(seed)
    count = max(1, round(share * (entities - 1)))
    batches = QueryBatches.of(graph.train, entities, len(graph.relations), height)
    deck, times = Deck(entities, torch.device("cpu")), torch.zeros(entities, dtype=torch.int64)
    if shuffled:
        deck.shuffle(generator)
    for _ in range(2):
        for batch in batches.epoch(size, generator):
            draw = deck.deal(batch, count)
            assert draw.entities == entities
            assert draw.height % height == 0
            assert draw.height <= max(count, height)
            assert (len(draw.drawn) - 1) * draw.height < len(batch.asked) <= len(draw.drawn) * draw.height
            for cards in draw.drawn.tolist():
                assert len(set(cards)) == count
            hands = draw.drawn[batch.rows // draw.height].tolist()
            columns, answers = draw.columns.tolist(), batch.answers.tolist()
            for cards, column, answer in zip(hands, columns, answers, strict=True):
                assert cards[column] == answer if column < count else answer not in cards
            times += torch.bincount(draw.drawn.flatten(), minlength=entities)
            assert times.max() - times.min() <= 1  # all come equally often


@given(entities=st.integers(1, 30), seed=SEEDS)
def test_shuffling_loses_no_card(entities, seed):
    deck, generator = Deck(entities, torch.device("cpu")), torch.Generator().manual_seed(seed)
    for _ in range(2):
        deck.shuffle(generator)
        assert deck.cards.sort().values.tolist() == list(range(entities))
        assert deck.cards[deck.place].tolist() == list(range(entities))
