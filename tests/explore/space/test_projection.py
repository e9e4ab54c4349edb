"""Laws of projections."""

import sys
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, strategies as st

from laws import is_orthogonal, refused
from procrustes_kge.explore.space.projection import entity_vectors, project, turned_like, umap_points
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_models import every_model, made
from toys import random_orthogonal, rotated_graph, small_baseline

SHAPES = st.tuples(st.integers(2, 40), st.integers(1, 12), st.integers(0, 2**31))


def cloud(count, dim, seed):
    """Return vectors of unequal spread in each direction, of a skewed distribution: no sign is left to rounding."""
    generator = torch.Generator().manual_seed(seed)
    skewed = torch.rand(count, dim, generator=generator, dtype=torch.float64).pow(3)
    return (skewed * (1 + torch.arange(dim))) @ random_orthogonal(dim, generator) + 3


@given(SHAPES)
def test_directions_are_orthonormal_the_widest_first_and_shares_are_of_the_whole(shape):
    count, dim, seed = shape
    found = project(cloud(count, dim, seed))
    known = min(3, count, dim)
    assert is_orthogonal(found.directions[:known] @ found.directions[:known].T) or known == 0
    variances = found.points.square().sum(dim=0)
    assert (variances.diff() <= 1e-5 * variances[0]).all()
    assert (found.shares.diff() <= 1e-6).all()
    assert float(found.shares.sum()) <= 1 + 1e-6
    if dim <= 3:
        assert float(found.shares.sum()) == pytest.approx(1)


@given(SHAPES)
def test_points_are_the_vectors_seen_from_their_centre(shape):
    vectors = cloud(*shape)
    found = project(vectors)
    assert torch.allclose(found.points, ((vectors.float() - found.centre) @ found.directions.T), atol=1e-4)
    assert torch.allclose(found.points.mean(dim=0), torch.zeros(3), atol=1e-5)


@given(SHAPES)
def test_of_as_many_dimensions_as_there_are_distances_stay(shape):
    count, _, seed = shape
    vectors = cloud(count, 3, seed)
    assert torch.allclose(torch.pdist(project(vectors).points.double()), torch.pdist(vectors), atol=1e-4)


@given(st.integers(8, 40), st.integers(3, 12), st.integers(0, 2**31))
def test_points_do_not_change_as_the_vectors_are_turned_moved_or_listed_in_another_order(count, dim, seed):
    vectors, generator = cloud(count, dim, seed), torch.Generator().manual_seed(seed)
    found = project(vectors)
    if (found.shares.diff().abs() < 1e-3).any() or (found.points.pow(3).sum(0).abs() < 1e-2).any():
        return  # two directions of one width, or a sign that hangs on rounding: any choice serves
    turned = vectors @ random_orthogonal(dim, generator) + torch.rand(dim, generator=generator)
    assert torch.allclose(project(turned).points, found.points, atol=1e-3)
    order = torch.randperm(count, generator=generator)
    assert torch.allclose(project(vectors[order]).points, found.points[order], atol=1e-3)


def test_the_same_vectors_give_the_same_points_bit_for_bit():
    for count in (7, 500):
        vectors = cloud(count, 20, 3).float()
        assert project(vectors).points.equal(project(vectors.clone()).points)


def test_the_long_arm_points_to_where_numbers_grow():
    vectors = torch.zeros(50, 4)
    vectors[:3, 2] = -9.0  # three far out on one side, all others on the other
    assert project(vectors).points[:3, 0].min() > 8


def test_points_that_are_all_alike_lie_in_one_place():
    found = project(torch.ones(6, 5))
    assert found.points.equal(torch.zeros(6, 3))
    assert found.shares.sum() == 0


def test_many_rows_give_what_a_decomposition_of_all_gives():
    vectors = cloud(20_000, 6, 0)
    centred = vectors - vectors.mean(dim=0)
    expected = torch.linalg.svd(centred, full_matrices=False)
    found = project(vectors)
    assert torch.allclose(found.points.abs().double(), (expected.U * expected.S)[:, :3].abs(), atol=1e-3)


@given(st.integers(3, 20), st.integers(0, 2**31))
def test_a_picture_is_turned_back_to_lie_as_another_does(count, seed):
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(count, 3, generator=generator)
    turn = random_orthogonal(3, generator).float()
    rows = torch.arange(count)
    back = turned_like(first @ turn, first, rows, rows)
    assert is_orthogonal(back)
    if count > 3:
        assert torch.allclose(first @ turn @ back, first, atol=1e-3)


def test_without_common_entities_nothing_turns():
    none = torch.empty(0, dtype=torch.int64)
    assert turned_like(torch.randn(4, 3), torch.randn(5, 3), none, none).equal(torch.eye(3))


@every_model
def test_every_model_has_vectors_to_project(name):
    model, graph = made(name)
    vectors = entity_vectors(model)
    assert len(vectors) == len(graph.entities)
    assert project(vectors).points.isfinite().all()


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_has_vectors_to_project(name):
    graph = rotated_graph()
    model = TrainedBaseline(
        name, BASELINES[name].Options(), graph.entities, graph.relations, small_baseline(name, graph).eval()
    )
    vectors = entity_vectors(model)
    assert len(vectors) == len(graph.entities)
    assert project(vectors).points.isfinite().all()


def test_complex_numbers_are_seen_as_their_two_parts():
    table = torch.randn(5, 3, dtype=torch.complex64)
    assert entity_vectors(SimpleNamespace(table=table)).equal(torch.view_as_real(table).flatten(1))


@pytest.mark.parametrize(
    ("model", "seen"),
    [
        (SimpleNamespace(kind="Rules"), "NoneType"),
        (SimpleNamespace(kind="Biases", table=torch.zeros(5)), "(5,)"),
        (SimpleNamespace(kind="Broken", table=torch.full((5, 2), torch.nan)), "not finite"),
    ],
    ids=lambda each: getattr(each, "kind", ""),
)
def test_a_model_without_vectors_is_refused_in_a_sentence(model, seen):
    refused(
        lambda: entity_vectors(model),
        setting=model.kind,
        seen=seen,
        remedy="another model" if "not" not in seen else "train again",
    )


def test_umap_is_asked_with_a_seed_or_named_where_it_is_missing(monkeypatch):
    asked = {}

    class UMAP:
        def __init__(self, **how):
            asked.update(how)

        def fit_transform(self, vectors):
            return vectors[:, :3]

    vectors = torch.randn(30, 6)
    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=UMAP))
    points = umap_points(vectors, seed=7)
    assert torch.allclose(points, vectors[:, :3] - vectors[:, :3].mean(dim=0))
    assert (asked["random_state"], asked["n_components"]) == (7, 3)
    refused(lambda: umap_points(vectors[:3]), setting="umap", seen="3 entities", remedy="use pca")
    monkeypatch.setitem(sys.modules, "umap", None)
    refused(lambda: umap_points(vectors), setting="projection", seen="umap", remedy="pip install umap-learn")
