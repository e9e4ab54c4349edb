"""Distances of all pairs, and their gradients, against sums written out."""

import pytest
import torch
from hypothesis import given, strategies as st

from procrustes_kge.models.baselines import distances
from procrustes_kge.models.baselines.distances import distance_by_product, grouped_distance, lengths


@given(st.integers(0, 2**31), st.integers(65, 130))
def test_distances_by_a_product_are_distances(seed, dim):
    torch.manual_seed(seed)
    queries, entities = torch.randn(5, dim), torch.randn(7, dim)
    queries[0] = entities[0]  # digits are lost, but no gradient is
    plain = torch.linalg.vector_norm(queries[:, None] - entities, dim=-1)
    torch.testing.assert_close(distance_by_product(queries, entities), plain, atol=2e-2, rtol=1e-4)
    leaf = queries.clone().requires_grad_()
    distance_by_product(leaf, entities).sum().backward()
    towards = (queries[1:, None] - entities) / plain[1:, :, None]
    torch.testing.assert_close(leaf.grad[1:], towards.sum(dim=1), atol=1e-3, rtol=1e-3)
    assert leaf.grad.isfinite().all()


@pytest.mark.parametrize("dim", [64, 65])
def test_near_neighbours_keep_their_digits_in_ranking(dim):
    entities = 100 + torch.randn(5, dim) / 1000
    with torch.no_grad():
        found = grouped_distance(entities, entities, dim)
    torch.testing.assert_close(found, torch.linalg.vector_norm(entities[:, None] - entities, dim=-1))


@given(st.integers(0, 2**31), st.sampled_from([1, 2, 3, 6]), st.sampled_from([1, 4, 2**20]), st.integers(1, 5))
def test_grouped_distances_are_a_plain_sum(seed, group, pairs_at_once, widest):
    generator = torch.Generator().manual_seed(seed)
    shapes = (4, 6), (5, 6), (4, 5)
    queries, entities, weights = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    entities[1] = queries[1]  # no distance, and no direction
    queries.requires_grad_(), entities.requires_grad_()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distances, "PAIRS_IN_CACHE", pairs_at_once)
        patch.setattr(distances, "WIDEST_TILE", widest)
        found = grouped_distance(queries, entities, group)
        pulls = torch.autograd.grad(found, (queries, entities), weights)
    for row, query in enumerate(queries):
        for place, entity in enumerate(entities):
            expected = sum((query - entity)[start : start + group].norm() for start in range(0, 6, group))
            torch.testing.assert_close(found[row, place], expected)
    plain = lengths((queries[:, None] - entities).unflatten(-1, (-1, group))).sum(dim=-1)
    for one, other in zip(pulls, torch.autograd.grad(plain, (queries, entities), weights), strict=True):
        torch.testing.assert_close(one, other)


def test_distances_have_no_second_derivative():
    queries, entities = (torch.ones(size, 6, requires_grad=True) for size in (2, 3))
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        torch.autograd.grad(grouped_distance(queries, entities, 2).sum(), queries, create_graph=True)


@pytest.mark.parametrize("sizes", [(0, 5), (4, 0)])
def test_no_rows_have_no_distances(sizes):
    queries, entities = (torch.zeros(size, 6, requires_grad=True) for size in sizes)
    found = grouped_distance(queries, entities, 2)
    assert found.shape == sizes
    pulls = torch.autograd.grad(found.sum(), (queries, entities))
    assert [each.shape for each in pulls] == [(size, 6) for size in sizes]


def test_a_length_of_zero_has_a_gradient_of_zero():
    rows = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    lengths(rows).sum().backward()
    assert rows.grad.tolist() == [[0.0, 0.0], [pytest.approx(0.6), pytest.approx(0.8)]]
