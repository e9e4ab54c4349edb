"""Laws of the mathematics, over drawn shapes, in float64 unless said."""

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import assume, given, strategies as st
from jaxtyping import TypeCheckError

from laws import is_orthogonal
from procrustes_kge.linalg import (
    bag_sum,
    completed,
    cross_covariance,
    cut,
    inverse_norms,
    nearest_orthogonal,
    nearest_orthogonal_by_long_products,
    nearest_orthogonal_by_products,
    nearest_orthogonal_of_pairs,
    principal_components,
    procrustes_step,
    run_sum,
    spherise,
    spherise_,
    starts,
    tiled,
)
from toys import random_orthogonal

SEEDS = st.integers(0, 2**31).map(lambda seed: torch.Generator().manual_seed(seed))
BATCHES = st.sampled_from([(), (3,), (2, 2)])
WIDTHS = st.integers(2, 8)


def normal(*shape, generator, dtype=torch.float64):
    return torch.randn(*shape, generator=generator, dtype=dtype)


def unit_rows(*shape, generator):
    return torch.nn.functional.normalize(normal(*shape, generator=generator), dim=-1)


def with_singular_values(values, generator, batch=(), dtype=torch.float64):
    """Return U Σ Vᵀ for random U and V."""
    left, right = (random_orthogonal(len(values), generator, batch) for _ in range(2))
    return ((left * torch.as_tensor(values, dtype=torch.float64)) @ right).to(dtype)


def identity_like(matrices):
    return torch.eye(matrices.shape[-1], dtype=matrices.dtype).expand_as(matrices)


def inner(left, right):
    """Return tr(Aᵀ B) of each pair of matrices."""
    return (left * right).sum(dim=(-2, -1))


def close(left, right, tolerance=1e-9):
    torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)


def test_shapes_are_checked_in_tests():
    with pytest.raises(TypeCheckError, match="matrices"):
        nearest_orthogonal(torch.ones(3, 4))
    with pytest.raises(TypeCheckError, match="tails"):
        cross_covariance(torch.ones(5, 3), torch.ones(4, 3))


# The closed form.


@given(SEEDS, BATCHES, WIDTHS)
def test_the_nearest_orthogonal_matrix_is_orthogonal(generator, batch, width):
    rotations = nearest_orthogonal(normal(*batch, width, width, generator=generator))
    close(rotations.mT @ rotations, identity_like(rotations))


@given(SEEDS, BATCHES, WIDTHS)
def test_no_other_orthogonal_matrix_fits_better(generator, batch, width):
    matrices = normal(*batch, width, width, generator=generator)
    others = random_orthogonal(width, generator, (200, *batch))
    assert (inner(others, matrices) <= inner(nearest_orthogonal(matrices), matrices) + 1e-9).all()


@given(SEEDS, WIDTHS, st.integers(8, 30))
def test_the_closed_form_is_scipys(generator, width, count):
    heads, tails = (unit_rows(count, width, generator=generator) for _ in range(2))
    rotation = nearest_orthogonal(cross_covariance(heads, tails)).numpy()
    np.testing.assert_allclose(rotation, scipy.linalg.polar(cross_covariance(heads, tails).numpy())[0], atol=1e-8)
    np.testing.assert_allclose(rotation, scipy.linalg.orthogonal_procrustes(heads.numpy(), tails.numpy())[0], atol=1e-8)


@given(SEEDS, WIDTHS, st.integers(8, 30))
def test_planted_rotations_are_found(generator, width, count):
    heads, planted = unit_rows(count, width, generator=generator), random_orthogonal(width, generator)
    close(nearest_orthogonal(cross_covariance(heads, heads @ planted)), planted)


@given(SEEDS, BATCHES, WIDTHS, st.integers(8, 30))
def test_swapping_heads_and_tails_transposes_the_relation(generator, batch, width, count):
    heads, tails = (unit_rows(*batch, count, width, generator=generator) for _ in range(2))
    forward, backward = cross_covariance(heads, tails), cross_covariance(tails, heads)
    close(backward, forward.mT)
    close(nearest_orthogonal(backward), nearest_orthogonal(forward).mT, 1e-7)


@given(SEEDS, BATCHES, WIDTHS, st.lists(st.integers(0, 9), min_size=1, max_size=5))
def test_the_covariance_of_all_triples_is_the_sum_over_their_parts(generator, batch, width, sizes):
    heads, tails = (unit_rows(*batch, sum(sizes), width, generator=generator) for _ in range(2))
    parts = zip(heads.split(sizes, dim=-2), tails.split(sizes, dim=-2), strict=True)
    close(sum(cross_covariance(*part) for part in parts), cross_covariance(heads, tails))


@given(SEEDS, WIDTHS, st.integers(1, 30))
def test_the_loss_is_read_off_the_covariance(generator, width, count):
    heads, tails = (unit_rows(count, width, generator=generator) for _ in range(2))
    covariance = cross_covariance(heads, tails)
    residual = (heads @ nearest_orthogonal(covariance) - tails).square().sum()
    close(residual, 2 * count - 2 * torch.linalg.svdvals(covariance).sum(), 1e-8)


@pytest.mark.parametrize("loss", ["squared", "norm"])
@given(generator=SEEDS, width=st.integers(2, 5), count=st.integers(8, 20))
def test_the_gradient_with_q_held_fixed_is_the_gradient_through_the_svd(loss, generator, width, count):
    heads, tails = (unit_rows(count, width, generator=generator).requires_grad_() for _ in range(2))

    def loss_of(rotation):
        residual = torch.linalg.matrix_norm(heads @ rotation - tails)
        return residual.square() / 2 if loss == "squared" else residual

    rotation = nearest_orthogonal(cross_covariance(heads, tails))
    through = torch.autograd.grad(loss_of(rotation), [heads, tails])
    fixed = rotation.detach()
    held = torch.autograd.grad(loss_of(fixed), [heads, tails])
    gap = (heads @ fixed - tails).detach()
    scale = 1 if loss == "squared" else 1 / torch.linalg.matrix_norm(gap)
    by_hand = (scale * gap @ fixed.mT, -scale * gap)
    for other in (held, by_hand):
        close(through, other, 1e-7)


# By matrix products alone.


@given(SEEDS, BATCHES, WIDTHS, st.floats(-3, 3))
def test_by_products_agrees_on_well_conditioned_blocks(generator, batch, width, size):
    values = 10**size * torch.linspace(0.05, 1, width, dtype=torch.float64)
    matrices = with_singular_values(values, generator, batch, torch.float32)
    close(nearest_orthogonal_by_products(matrices), nearest_orthogonal(matrices.double()).float(), 1e-4)


@given(SEEDS, WIDTHS, st.lists(st.floats(-12, 0), min_size=8, max_size=8))
def test_by_products_lengthens_nothing_beyond_one(generator, width, powers):
    values = [1.0, *(10**power for power in powers)][:width]
    rotation = nearest_orthogonal_by_products(with_singular_values(values, generator, dtype=torch.float32))
    lengths = torch.linalg.svdvals(rotation.double())
    assert lengths.max() <= 1 + 1e-4
    # Directions above 1e-4 of the whole have length one.
    assert (lengths > 1 - 1e-4).sum() >= sum(value > 3e-4 * sum(values) for value in values)


@given(SEEDS, BATCHES, st.floats(-18, 18))
def test_pairs_have_the_same_nearest_orthogonal_matrix_without_iteration(generator, batch, power):
    matrices = 10**power * normal(*batch, 7, 2, 2, generator=generator)
    close(nearest_orthogonal_of_pairs(matrices), nearest_orthogonal(matrices), 1e-8)
    single = matrices.float()
    close(nearest_orthogonal_of_pairs(single).double(), nearest_orthogonal(matrices), 1e-2)


@given(SEEDS)
def test_pairs_that_are_orthogonal_stay_as_they_are(generator):
    rotations = random_orthogonal(2, generator, (20,))
    close(nearest_orthogonal_of_pairs(1e-20 * rotations), rotations)
    assert not nearest_orthogonal_of_pairs(torch.zeros(3, 2, 2)).any()


@given(SEEDS, st.integers(2, 40), st.lists(st.floats(-10, 0), min_size=1, max_size=40))
def test_long_products_are_exact_however_far_apart_singular_values_are(generator, width, powers):
    matrices = with_singular_values([10**power for power in (powers * width)[:width]], generator)
    rotation = nearest_orthogonal_by_long_products(matrices)
    close(rotation, nearest_orthogonal(matrices), 1e-4)
    together = nearest_orthogonal_by_long_products(torch.stack([matrices, 0 * matrices]))
    close(together[0], rotation, 1e-12)
    assert is_orthogonal(together)  # of nothing too, which products leave as it is


def test_by_products_turns_nothing_by_nothing():
    assert not nearest_orthogonal_by_products(torch.zeros(2, 3, 3)).any()


# Where the triples leave the rotation free.


@given(SEEDS, BATCHES, WIDTHS, st.data())
def test_a_singular_covariance_is_completed_beyond_rounding(generator, batch, width, data):
    count = data.draw(st.integers(1, width - 1), label="triples")
    heads, tails = (unit_rows(*batch, count, width, generator=generator) for _ in range(2))
    covariances = cross_covariance(heads, tails)
    # What completes M decides among the directions that no head has and those that no tail has, unless it is blind
    # between them, which by chance it nearly is now and then.
    nothing = nearest_orthogonal(completed(torch.zeros_like(covariances)))
    missing = [torch.linalg.svd(rows).Vh[..., count:, :] for rows in (heads, tails)]
    assume(torch.linalg.svdvals(missing[0] @ nothing @ missing[1].mT).min() > 0.02)

    rotations = nearest_orthogonal(completed(covariances))
    noise = normal(*batch, width, width, generator=generator)
    noise *= 1e-15 * (torch.linalg.matrix_norm(covariances) / torch.linalg.matrix_norm(noise))[..., None, None]
    close(nearest_orthogonal(completed(covariances + noise)), rotations, 1e-5)
    close(nearest_orthogonal(completed(covariances.mT)), rotations.mT, 1e-5)
    close(rotations.mT @ rotations, identity_like(rotations))
    # It still is a best fit: tr(Qᵀ M) = Σσ(M).
    close(inner(rotations, covariances), torch.linalg.svdvals(covariances).sum(dim=-1), 1e-6)


@given(SEEDS, BATCHES, WIDTHS)
def test_completing_hardly_moves_what_is_determined(generator, batch, width):
    matrices = with_singular_values(torch.linspace(0.1, 1, width), generator, batch)
    close(nearest_orthogonal(completed(matrices)), nearest_orthogonal(matrices), 1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [4, 5])
def test_a_relation_without_triples_neither_favours_nor_shuns_the_head_itself(dtype, width):
    rotation = nearest_orthogonal(completed(torch.zeros(2, width, width, dtype=dtype)))
    signs = torch.tensor([1, -1, 1, -1, 1], dtype=dtype)[:width]
    close(rotation, torch.diag(signs).expand(2, -1, -1), 1e-6)  # h · hQ is zero, on average over all h


@given(SEEDS, WIDTHS)
def test_completing_commutes_with_transposition(generator, width):
    matrices = normal(width, width, generator=generator)
    assert torch.equal(completed(matrices.mT), completed(matrices).mT)


# The sphere.


@given(SEEDS, BATCHES, WIDTHS, st.integers(2, 20))
def test_spherised_vectors_have_length_one(generator, batch, width, count):
    vectors = spherise(normal(*batch, count, width, generator=generator))
    close(vectors.norm(dim=-1), torch.ones(*batch, count, dtype=torch.float64))


@given(SEEDS, BATCHES, WIDTHS, st.integers(2, 20), st.floats(0.01, 100))
def test_spherising_forgets_where_the_centre_was_and_how_far_it_was(generator, batch, width, count, scale):
    vectors, centre = normal(*batch, count, width, generator=generator), normal(width, generator=generator)
    close(spherise(scale * vectors + centre), spherise(vectors), 1e-6)


@given(SEEDS, BATCHES, WIDTHS, st.integers(2, 20))
def test_spherising_commutes_with_rotation(generator, batch, width, count):
    vectors, rotation = normal(*batch, count, width, generator=generator), random_orthogonal(width, generator)
    close(spherise(vectors @ rotation), spherise(vectors) @ rotation)


@given(SEEDS, WIDTHS, st.integers(1, 10))
def test_spherised_vectors_that_balance_stay_as_they_are(generator, width, count):
    half = unit_rows(count, width, generator=generator)
    vectors = torch.cat([half, -half])
    close(spherise(vectors), vectors)


def test_centring_comes_before_scaling():
    vectors = torch.tensor([[0.0, 0.0], [4.0, 0.0], [2.0, 3.0]])  # their centre is (2, 1)
    expected = torch.tensor([[-2.0, -1.0], [2.0, -1.0], [0.0, 2.0]])
    close(spherise(vectors), expected / expected.norm(dim=-1, keepdim=True), 1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_vector_on_the_centre_stays_zero(dtype):
    vectors = torch.tensor([[1.0, 2.0], [3.0, 4.0], [2.0, 3.0]], dtype=dtype)
    assert spherise(vectors)[2].tolist() == [0, 0]
    assert spherise(vectors[:1]).tolist() == [[0, 0]]


@given(SEEDS, BATCHES, WIDTHS, st.integers(1, 20))
def test_spherising_in_place_is_spherising(generator, batch, width, count):
    vectors = normal(*batch, count, width, generator=generator)
    before, expected = vectors.clone(), spherise(vectors)
    assert torch.equal(vectors, before)
    assert spherise_(vectors) is vectors
    assert torch.equal(vectors, expected)


# One step under a bound.


@given(SEEDS, BATCHES, WIDTHS)
def test_a_step_without_a_bound_is_the_closed_form(generator, batch, width):
    matrices, start = normal(*batch, width, width, generator=generator), random_orthogonal(width, generator, batch)
    unbounded = torch.zeros(batch, dtype=torch.float64)
    close(procrustes_step(start, -matrices, unbounded), nearest_orthogonal(matrices))


@given(SEEDS, BATCHES, WIDTHS)
def test_a_step_under_a_tight_bound_stays(generator, batch, width):
    gradient, start = normal(*batch, width, width, generator=generator), random_orthogonal(width, generator, batch)
    close(procrustes_step(start, gradient, torch.full(batch, 1e9, dtype=torch.float64)), start, 1e-7)


@given(SEEDS, BATCHES, WIDTHS, st.integers(1, 20))
def test_a_step_never_raises_a_loss_whose_curvature_is_bounded(generator, batch, width, count):
    heads, tails = (normal(*batch, count, width, generator=generator) for _ in range(2))
    rotations = random_orthogonal(width, generator, batch)
    bound = torch.linalg.eigvalsh(heads.mT @ heads)[..., -1]
    losses = []
    for _ in range(5):
        gap = heads @ rotations - tails
        losses.append(gap.square().sum(dim=(-2, -1)) / 2)
        rotations = procrustes_step(rotations, heads.mT @ gap, bound)
    losses = torch.stack(losses)
    assert (losses.diff(dim=0) <= 1e-9 * (1 + losses[0])).all()


@given(SEEDS, BATCHES, WIDTHS)
def test_a_step_takes_any_way_to_the_nearest_orthogonal_matrix(generator, batch, width):
    gradient, start = normal(*batch, width, width, generator=generator), random_orthogonal(width, generator, batch)
    gradient /= torch.linalg.matrix_norm(gradient, ord=2, keepdim=True)
    bound = torch.full(batch, 1.5, dtype=torch.float64)  # no singular value below 0.5: products find all of them
    exact = procrustes_step(start, gradient, bound)
    close(procrustes_step(start, gradient, bound, nearest_orthogonal_by_products), exact, 1e-5)
    assert procrustes_step(start, gradient, bound, torch.zeros_like).eq(0).all()


# Sums and components.


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 4))
def test_tiles_hold_the_members_of_one_bag_each_in_order(sizes, height):
    rows, tiles = tiled(torch.tensor(sizes, dtype=torch.int64), height)
    bag_of = [bag for bag, size in enumerate(sizes) for _ in range(size)]
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert [int(tiles[row // height]) for row in rows] == bag_of
    assert len(tiles) == sum(-(-size // height) for size in sizes)
    assert starts(torch.tensor(sizes, dtype=torch.int64)).tolist() == [
        sum(sizes[:bag]) for bag in range(len(sizes) + 1)
    ]


@given(SEEDS, st.lists(st.integers(0, 9), max_size=8), st.integers(1, 4))
def test_what_is_added_up_in_pieces_is_added_up(generator, sizes, most):
    begun, offsets = cut(torch.tensor(sizes, dtype=torch.int64), most)
    assert all(1 <= size <= most for size in begun.diff())
    rows = normal(sum(sizes), 2, generator=generator)
    found = run_sum(run_sum(rows, begun), offsets)
    assert found.shape == (len(sizes), 2)
    for one, run in zip(found, rows.split(sizes) if sizes else [], strict=True):
        close(one, run.sum(dim=0))


@given(SEEDS, st.integers(1, 6), st.integers(1, 8), st.lists(st.integers(0, 5), max_size=8))
def test_bag_sum_is_a_plain_loop(generator, width, count, sizes):
    rows = normal(count, width, generator=generator)
    bags = [torch.randint(count, (size,), generator=generator) for size in sizes]
    offsets = torch.tensor([0, *sizes]).cumsum(0)
    expected = [sum((rows[member] for member in bag), torch.zeros(width, dtype=rows.dtype)) for bag in bags]
    sums = bag_sum(rows, torch.cat([*bags, torch.empty(0, dtype=torch.int64)]), offsets)
    assert sums.shape == (len(sizes), width)
    for found, wanted in zip(sums, expected, strict=True):
        close(found, wanted)


@given(SEEDS, st.sampled_from([torch.float32, torch.float64]))
def test_inverse_norms_are_those_of_the_residual_and_0_where_it_is_rounding_noise(generator, dtype):
    triples = torch.randint(0, 1000, (6,), generator=generator)
    norms = 0.1 + normal(3, 6, generator=generator, dtype=dtype).abs()
    close(inverse_norms(norms.square(), triples) * norms, torch.ones_like(norms), 1e-5)
    noise = torch.finfo(dtype).eps * triples.to(dtype).expand(3, 6)
    assert (inverse_norms(noise, triples) == 0).all()


@given(SEEDS, st.integers(1, 3), st.integers(4, 8))
def test_principal_components_recover_planted_planes(generator, count, width):
    directions = random_orthogonal(width, generator)[:count]
    spread = torch.tensor([4.0, 2.0, 1.0], dtype=torch.float64)[:count]
    points = normal(60, count, generator=generator)
    points = torch.linalg.qr(points - points.mean(dim=0)).Q * spread  # uncorrelated, of known variance, centred
    found, share = principal_components(points @ directions + normal(width, generator=generator), count)
    close(found.abs(), points.abs(), 1e-7)
    close(share, spread.square() / spread.square().sum(), 1e-7)


@given(SEEDS, st.integers(2, 6), st.integers(2, 20))
def test_principal_components_hold_their_share_of_the_variance(generator, width, count):
    vectors = normal(count, width, generator=generator)
    found, share = principal_components(vectors, width)
    assert (share >= 0).all()
    assert (share.diff() <= 1e-12).all()
    close(share.sum(), torch.tensor(1.0, dtype=torch.float64))
    variances = found.var(dim=0)
    close(variances / variances.sum(), share, 1e-8)
    close(torch.pdist(found), torch.pdist(vectors), 1e-7)  # all components together only turn the points
    close(principal_components(vectors, 1)[0], found[:, :1])


@given(SEEDS, st.integers(2, 6))
def test_the_largest_loading_of_a_component_is_positive(generator, width):
    vectors = normal(20, width, generator=generator)
    centred = vectors - vectors.mean(dim=0)
    found, _ = principal_components(vectors, width)
    loadings = torch.linalg.lstsq(centred, found).solution
    assert (loadings.gather(0, loadings.abs().argmax(dim=0)[None]) > 0).all()


def test_points_that_do_not_vary_have_no_components():
    found, share = principal_components(torch.ones(5, 3), 2)
    assert not found.any()
    assert not share.any()
