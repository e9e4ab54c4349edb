"""Laws of finding many least values at once."""

import torch
from hypothesis import given, strategies as st

from procrustes_kge.explore.updates.minimising import minimised


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 10**6))
def test_quadratic_bowls_are_left_at_their_bottoms(count, width, seed):
    generator = torch.Generator().manual_seed(seed)
    bottoms = torch.randn(count, width, generator=generator)
    curvature = torch.rand(count, width, generator=generator) * 5 + 0.2

    def loss(rows):
        values = (curvature * (rows - bottoms).square()).sum(dim=1) / 2
        values.sum().backward()
        return values.detach()

    found = minimised(loss, torch.zeros(count, width), usual=float(bottoms.norm(dim=1).mean()), steps=300)
    assert ((found - bottoms).norm(dim=1) <= 0.02 * (1 + bottoms.norm(dim=1))).all()


def test_no_row_ends_higher_than_it_began():
    start = torch.tensor([[3.0], [-40.0], [0.1]])

    def loss(rows):
        values = (rows.abs() + 1e-6).log1p().sum(dim=1) + torch.cosh(rows / 10).sum(dim=1)
        values.sum().backward()
        return values.detach()

    before = loss(start.clone().requires_grad_())
    after = loss(minimised(loss, start, usual=1.0).requires_grad_())
    assert (after <= before + 1e-5).all()


def test_a_row_that_nothing_pulls_at_stays():
    def loss(rows):
        values = rows[:, 0].square() * torch.tensor([1.0, 0.0])
        values.sum().backward()
        return values.detach()

    found = minimised(loss, torch.tensor([[2.0, 1.0], [5.0, 7.0]]), usual=1.0)
    assert found[1].tolist() == [5.0, 7.0]
    assert abs(float(found[0, 0])) < 1e-2
