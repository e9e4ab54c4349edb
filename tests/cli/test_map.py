"""Laws of `procrustes map`."""

import json
import sys
from pathlib import Path

import pytest
import torch

from clouds import planted_cloud, run_of
from procrustes_kge.runs.store import save


@pytest.fixture
def cloud(here):
    """A run with arms, at runs/cloud."""
    vectors, _ = planted_cloud(core=300)
    model, graph = run_of(vectors)
    save(model, "runs/cloud", graph)
    return Path("runs/cloud")


def test_the_page_lies_beside_the_run_and_the_clusters_are_printed(procrustes, cloud, monkeypatch):
    printed = procrustes("map", cloud)
    first, *clusters, last = printed.splitlines()
    assert first.startswith("runs/cloud   Procrustes · 660 entities · 9")
    assert [line.split()[0] for line in clusters] == ["A1", "A2", "B1", "B2", "C1", "C2"]
    assert last.startswith("wrote  runs/cloud-map.html   0.")
    assert "<title>Map of runs/cloud</title>" in Path("runs/cloud-map.html").read_text()
    procrustes("map", cloud)  # its own page is replaced
    procrustes("check", cloud)
    monkeypatch.chdir(cloud)
    assert "cloud-map.html" in procrustes("map", ".")
    procrustes("check", ".")


def test_json_says_what_was_found(procrustes, cloud):
    said = json.loads(procrustes("map", cloud, "--out", "m.html", "--points", 400, "--json"))
    (picture,) = said["pictures"]
    assert said["file"] == "m.html"
    assert said["bytes"] == Path("m.html").stat().st_size
    assert (picture["shown"], picture["entities"]) == (400, 660)
    assert "400 of 660 entities are shown" in picture["notes"][0]
    assert sum(picture["shares_of_variance"]) > 0.9
    assert all(len(cluster["typical"]) == len(cluster["labels"]) > 2 for cluster in picture["clusters"])


def test_another_run_and_columns_are_shown_too(procrustes, cloud, planted):
    Path("weight.tsv").write_text("e0\t1\ne1\t2.5\n")
    printed = procrustes("map", cloud, "--beside", "runs/planted", "--column", "weight.tsv", "--out", "two.html")
    assert "note   has no entity in common with runs/cloud" in printed
    page = Path("two.html").read_text()
    assert '"title":"runs/planted"' in page
    assert page.count('"name":"weight"') == 1


def test_a_random_run_has_no_clusters(procrustes, here):
    model, graph = run_of(torch.randn(200, 30, generator=torch.Generator().manual_seed(0)))
    save(model, "runs/noise", graph)
    assert "no clusters: no direction" in procrustes("map", "runs/noise")


def test_a_graph_of_three_entities_has_a_map(procrustes, here):
    model, graph = run_of(torch.eye(6)[:3], triples=[(0, 0, 1), (1, 0, 2)], relations=["only"])
    save(model, "runs/three", graph)
    assert "3 entities · 100.0 % of the variance" in procrustes("map", "runs/three")


def test_a_run_of_a_baseline_has_a_map(procrustes, here):
    procrustes("train", "ring.tsv", "--model", "complex", "--dim", 8, "--epochs", 2, "--out", "runs/complex")
    assert "ComplEx · 40 entities" in procrustes("map", "runs/complex")


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_the_suffix_says_what_is_written(procrustes, cloud, suffix):
    pytest.importorskip("matplotlib")
    assert f"wrote  map{suffix}" in procrustes("map", cloud, "--out", f"map{suffix}")


def test_mistakes_are_refused_before_anything_is_read(refused, cloud, monkeypatch):
    refused("map", "runs/clowd", setting="runs/clowd", seen="no such run", remedy="runs/cloud")
    refused("map", cloud, "--out", "map.jpg", setting="--out", seen="map.jpg", remedy=".html")
    refused("map", cloud, "--points", 1, setting="points", seen="1", remedy="at least 2")
    refused("map", cloud, "--out", "no/map.html", setting="no", seen="no such folder", remedy="--out")
    refused("map", cloud, "--column", "no.tsv", setting="no.tsv", seen="no.tsv", remedy="check its name")
    Path("other.tsv").write_text("whale\t3\n")
    refused("map", cloud, "--column", "other.tsv", setting="other.tsv", seen="'whale'", remedy="'e0'")
    monkeypatch.setitem(sys.modules, "umap", None)
    refused("map", cloud, "--projection", "umap", setting="projection", seen="umap", remedy="pip install umap-learn")


def test_a_file_of_the_users_stays(refused, procrustes, cloud):
    Path("notes.html").write_text("mine")
    refused("map", cloud, "--out", "notes.html", setting="notes.html", seen="not written by", remedy="--force")
    procrustes("map", cloud, "--out", "notes.html", "--force")


def test_a_picture_without_matplotlib_names_the_extra(refused, cloud, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused("map", cloud, "--out", "m.svg", setting="SVG", seen="matplotlib", remedy="procrustes-kge[plots]")
