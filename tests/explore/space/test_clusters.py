"""Laws of arms and clusters: what is planted is found, and nothing is found where nothing is."""

import pytest
import torch
from hypothesis import given, strategies as st

from clouds import SIZE, TOPICS, planted_cloud
from procrustes_kge.explore.space.clusters import find_arms, find_clusters, modes
from procrustes_kge.explore.space.projection import project
from toys import random_orthogonal


def clusters_of(vectors, degrees=None):
    degrees = torch.ones(len(vectors), dtype=torch.int64) if degrees is None else degrees
    return find_clusters(vectors, project(vectors).points, degrees)


@pytest.mark.parametrize("seed", range(5))
def test_planted_arms_and_topics_are_found_and_nothing_else(seed):
    vectors, labels = planted_cloud(seed=seed)
    clusters = clusters_of(vectors)
    assert len(clusters) == 3 * TOPICS
    planted = [tuple(labels[cluster.rows].mode(dim=0).values.tolist()) for cluster in clusters]
    for cluster, (arm, topic) in zip(clusters, planted, strict=True):
        own = int((labels[cluster.rows] == torch.tensor([arm, topic])).all(dim=1).sum())
        assert arm >= 0
        assert own > 0.9 * SIZE
        assert len(cluster.rows) - own <= 5  # of the core, those that happen to lie out that way
    assert len(set(planted)) == 3 * TOPICS
    assert len({(cluster.arm, arm) for cluster, (arm, _) in zip(clusters, planted, strict=True)}) == 3


def test_arms_are_found_where_they_hold_more_than_the_core():
    clusters = clusters_of(planted_cloud(core=200)[0])
    assert len({cluster.arm for cluster in clusters}) == 3


def test_clusters_are_named_by_arm_and_size():
    names = [cluster.name for cluster in clusters_of(planted_cloud()[0])]
    assert names == ["A1", "A2", "B1", "B2", "C1", "C2"]


NOISE = {
    "normal": lambda n, g: torch.randn(n, 3, generator=g) * torch.tensor([3.0, 2.0, 1.0]),
    "heavy tails": lambda n, g: torch.randn(n, 3, generator=g) / torch.rand(n, 1, generator=g).sqrt(),
    "a cube": lambda n, g: torch.rand(n, 3, generator=g),
    "a sphere": lambda n, g: torch.nn.functional.normalize(torch.randn(n, 3, generator=g), dim=1),
    "all alike": lambda n, g: torch.ones(n, 3),
}


@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize("count", [2, 3, 30, 300, 5000])
def test_noise_has_no_arms(kind, count):
    for seed in range(5):
        points = NOISE[kind](count, torch.Generator().manual_seed(seed))
        assert find_arms(points) == [], f"seed {seed}"


@given(st.integers(0, 2**31))
def test_arms_do_not_depend_on_where_the_cloud_lies_and_how_large_it_is(seed):
    points = project(planted_cloud()[0]).points
    generator = torch.Generator().manual_seed(seed)
    moved = points * (0.1 + torch.rand(1, generator=generator)) + torch.randn(3, generator=generator)
    assert [arm.tolist() for arm in find_arms(moved)] == [arm.tolist() for arm in find_arms(points)]


def test_every_row_belongs_to_one_group():
    vectors = torch.randn(300, 5, generator=torch.Generator().manual_seed(0))
    groups = modes(vectors)
    assert torch.cat(groups).sort().values.equal(torch.arange(300))
    assert [len(group) for group in groups] == sorted(map(len, groups), reverse=True)
    assert [
        group.tolist() for group in modes(vectors @ random_orthogonal(5, torch.Generator().manual_seed(1)).float())
    ] == [group.tolist() for group in groups]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 20])
def test_few_rows_and_equal_rows_have_modes_too(count):
    assert sum(map(len, modes(torch.ones(count, 4)))) == count


def test_of_the_central_half_those_of_highest_degree_stand_for_a_cluster():
    vectors, _ = planted_cloud()
    degrees = torch.ones(len(vectors), dtype=torch.int64)
    before = clusters_of(vectors, degrees)[0]
    ranked = before.typical[3]
    degrees[ranked] = 9
    odd = max(before.rows.tolist(), key=lambda row: float((vectors[row] - vectors[before.rows].mean(0)).norm()))
    degrees[odd] = 99
    after = clusters_of(vectors, degrees)[0]
    assert after.typical[0] == ranked
    assert odd not in after.typical
