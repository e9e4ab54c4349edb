"""Laws of the map's file: what its script reads is what the space holds; its picture for print is drawn of the same."""

import base64
import json
import re
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from clouds import planted_cloud, run_of
from laws import refused
from procrustes_kge.explore.space.columns import Column
from procrustes_kge.explore.space.space import space_of
from procrustes_kge.figures.colours import cluster_colours
from procrustes_kge.figures.map import FULL, gaps, map_data, map_page, write_map

HOSTILE = ["<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", "$\\frac$ $x", "北京", "القاهرة", "🦊"]


def numbers(text, kind):
    return np.frombuffer(base64.b64decode(text), kind)


def restored(data):
    """Read varints one by one, as the page's script does."""
    rows, row, gap, shift = [], -1, 0, 0
    for byte in data.tolist():
        gap, shift = gap + ((byte & 127) << shift), shift + 7
        if byte < 128:
            row += gap
            rows.append(row)
            gap = shift = 0
    return rows


@given(st.sets(st.integers(0, 2**40)))
def test_sets_of_rows_arrive(rows):
    written = gaps(torch.tensor(sorted(rows), dtype=torch.int64))
    assert written.dtype == np.uint8
    assert restored(written) == sorted(rows)


def test_a_picture_has_what_its_space_holds():
    vectors, _ = planted_cloud()
    model, graph = run_of(vectors)
    column = Column("size", numbers=tuple(map(float, range(len(vectors)))))
    space = space_of(model, graph, "a run", [column])
    (picture,) = map_data([space])
    assert picture["names"] == list(model.entities)
    points = numbers(picture["points"], "<i2").reshape(-1, 3) / FULL
    largest = float(space.points.norm(dim=1).max())
    assert np.allclose(points * largest, space.points.numpy(), atol=largest / FULL)
    assert numbers(picture["degrees"], "<i4").tolist() == space.degrees.tolist()
    assert numbers(picture["columns"][0]["values"], "<f4").tolist() == list(column.numbers)
    cluster = numbers(picture["cluster"], "<i2")
    for index, each in enumerate(space.clusters):
        assert np.flatnonzero(cluster == index).tolist() == each.rows.tolist()
        assert picture["clusters"][index]["size"] == len(each.rows)
    for slot, written in zip(space.slots, picture["slots"], strict=True):
        assert restored(numbers(written["members"], np.uint8)) == slot.rows.tolist()


def test_names_that_two_pictures_share_are_written_once():
    space = space_of(*run_of(torch.randn(5, 6), HOSTILE[:5]))
    other = space_of(*run_of(torch.randn(6, 6), HOSTILE))
    assert [each["names"] for each in map_data([space, space, other])] == [HOSTILE[:5], None, HOSTILE]


def test_the_page_has_names_as_json_alone():
    text = map_page([space_of(*run_of(torch.randn(6, 6), HOSTILE), title=HOSTILE[0])])
    assert "<img" not in text
    assert "<script>alert" not in text
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert json.loads(block)["pictures"][0]["names"] == HOSTILE


def test_clusters_of_an_arm_have_colours_of_their_own():
    clusters = space_of(*run_of(planted_cloud()[0])).clusters
    assert len(set(cluster_colours(clusters))) == len(clusters)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_a_picture_for_print_is_the_same_each_time(tmp_path, suffix):
    pytest.importorskip("matplotlib")
    vectors, _ = planted_cloud(core=300)
    spaces = [space_of(*run_of(vectors), title="one"), space_of(*run_of(vectors), title="two")]
    first, second = (write_map(spaces, tmp_path / f"{name}{suffix}").read_bytes() for name in "ab")
    assert first == second
    if suffix == ".svg":
        tags = set(" ".join(re.findall(">([A-C][12 A-C]*)<", first.decode())).split())
        assert tags == {cluster.name for cluster in spaces[0].clusters}


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_names_of_any_letters_are_printed_as_they_are(tmp_path, suffix):
    pytest.importorskip("matplotlib")
    vectors, _ = planted_cloud(core=300, arms=1)
    names = [f"{HOSTILE[row % len(HOSTILE)]} {row}" for row in range(len(vectors))]
    space = space_of(*run_of(vectors, names), title=HOSTILE[1])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        written = write_map([space], tmp_path / f"map{suffix}").read_bytes()
    assert ["letters that the picture's font lacks" in str(each.message) for each in said] == [True] * (
        suffix == ".png"
    )
    if suffix == ".svg":
        assert b"<script" not in written
        assert b"<img" not in written


def test_a_suffix_that_says_nothing_is_refused(tmp_path):
    space = space_of(*run_of(torch.randn(5, 6)))
    refused(lambda: write_map([space], tmp_path / "map.jpeg"), setting="suffix", seen="map.jpeg", remedy=".html")
