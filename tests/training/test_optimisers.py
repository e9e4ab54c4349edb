"""Optimisers against those of torch.optim, and what they remember."""

import pytest
import torch
from hypothesis import given, strategies as st

from procrustes_kge.training.optimisers import OPTIMISERS, Adagrad, Adam
from procrustes_kge.training.state import Remembering, copied

TWINS = {Adam: torch.optim.Adam, Adagrad: torch.optim.Adagrad}  # with the defaults of both
SHAPES = st.sampled_from([(1,), (5, 3), (2, 3, 4)])
SEEDS = st.integers(0, 2**31)


def normal(*shape, generator):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def slopes(*shape, generator):
    """Return numbers of either sign, none of them near zero."""
    drawn = normal(*shape, generator=generator)
    return drawn + torch.where(drawn < 0, -0.1, 0.1)


def close(left, right, tolerance=1e-12):
    torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", TWINS)
@given(shape=SHAPES, seed=SEEDS, rates=st.lists(st.floats(0, 1), min_size=1, max_size=6), size=st.floats(-4, 4))
def test_steps_are_those_of_torch(kind, shape, seed, rates, size):
    generator = torch.Generator().manual_seed(seed)
    values = normal(*shape, generator=generator)
    twin = values.clone().requires_grad_()
    optimise, torch_optimiser = kind(values), TWINS[kind]([twin], lr=1.0)
    for rate in rates:
        gradient = 10**size * normal(*shape, generator=generator)
        gradient[torch.rand(shape, generator=generator) < 0.3] = 0
        twin.grad = gradient.clone()
        torch_optimiser.param_groups[0]["lr"] = rate
        torch_optimiser.step()
        optimise(values, gradient, rate)
        close(values, twin.detach())


@given(SEEDS, st.integers(1, 5), st.integers(1, 4))
def test_moving_some_rows_is_moving_all_with_no_gradient_elsewhere(seed, entities, steps):
    generator = torch.Generator().manual_seed(seed)
    whole = normal(entities, 3, generator=generator)
    table = whole.clone()
    of_all, of_rows = Adagrad(whole), Adagrad(table)
    for _ in range(steps):
        count = int(torch.randint(entities + 1, (), generator=generator))
        rows = torch.randperm(entities, generator=generator)[:count]
        gradient = torch.zeros_like(whole)
        gradient[rows] = normal(count, 3, generator=generator)
        of_all(whole, gradient.clone(), 0.3)
        copies = table[rows]
        of_rows.move_rows(rows, copies, gradient[rows], 0.3)
        table[rows] = copies
        assert torch.equal(table, whole)
        assert torch.equal(of_rows.square, of_all.square)


@pytest.mark.parametrize("kind", TWINS)
@given(shape=SHAPES, seed=SEEDS)
def test_no_gradient_or_no_rate_is_no_move(kind, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    values = normal(*shape, generator=generator)
    before, optimise = values.clone(), kind(values)
    optimise(values, torch.zeros_like(values), 1.0)
    optimise(values, normal(*shape, generator=generator), 0.0)
    assert torch.equal(values, before)


@pytest.mark.parametrize("kind", TWINS)
@given(shape=SHAPES, seed=SEEDS, factor=st.floats(1e-2, 1e4))
def test_the_size_of_gradients_does_not_matter(kind, shape, seed, factor):
    generator = torch.Generator().manual_seed(seed)
    start, gradients = normal(*shape, generator=generator), slopes(3, *shape, generator=generator)
    tables = []
    for scaled in (gradients, factor * gradients):
        values = start.clone()
        optimise = kind(values)
        for gradient in scaled:
            optimise(values, gradient.clone(), 0.1)
        tables.append(values)
    close(*tables, tolerance=1e-4)  # but for what keeps the root off zero


@pytest.mark.parametrize("kind", TWINS)
@given(seed=SEEDS, rate=st.floats(0.01, 1))
def test_a_first_step_goes_as_far_as_the_rate_says_down_every_slope(kind, seed, rate):
    generator = torch.Generator().manual_seed(seed)
    values, gradient = torch.zeros(4, 3, dtype=torch.float64), slopes(4, 3, generator=generator)
    kind(values)(values, gradient.clone(), rate)
    close(values, -rate * gradient.sign(), 1e-4)


@pytest.mark.parametrize("kind", TWINS)
@given(shape=SHAPES, seed=SEEDS, taken=st.tuples(st.integers(0, 3), st.integers(0, 3)))
def test_an_optimiser_goes_on_from_the_state_of_another_and_leaves_it_alone(kind, shape, seed, taken):
    generator = torch.Generator().manual_seed(seed)
    values = normal(*shape, generator=generator)
    optimise, another = kind(values), kind(values)
    for optimiser, steps in zip((optimise, another), taken, strict=True):
        for _ in range(steps):
            optimiser(values, normal(*shape, generator=generator), 0.3)
    state, same_values = optimise.state(), values.clone()
    another.restore(state)
    for _ in range(3):
        gradient = normal(*shape, generator=generator)
        before = copied(state)
        another(same_values, gradient.clone(), 0.3)
        assert all(torch.equal(before[name], table) for name, table in state.items())
        optimise(values, gradient, 0.3)
        assert torch.equal(same_values, values)


@pytest.mark.parametrize("kind", OPTIMISERS.values(), ids=OPTIMISERS)
def test_each_has_a_twin_and_counts_what_it_remembers(kind):
    values = torch.zeros(4, 3)
    assert kind in TWINS
    assert sum(table.shape == values.shape for table in kind(values).state().values()) == kind.moments


def test_what_cannot_be_restored_is_said():
    class Lazy(Remembering):
        remembered = ("table",)
        table = None

    lazy = Lazy()
    lazy.restore(lazy.state())
    with pytest.raises(ValueError, match="'table'"):
        lazy.restore({"table": torch.zeros(1)})
