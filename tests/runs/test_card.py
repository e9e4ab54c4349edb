"""Laws of model cards: hubs read the metadata whatever the report holds, and what a user wrote stays."""

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from folders import FIT, files_in, learned, model_of
from laws import refused
from procrustes_kge.runs.card import CARD, card, is_ours
from procrustes_kge.runs.examining import examine
from procrustes_kge.runs.store import load_run, save, update_report

FIGURES = {"mrr": 0.5, "hits@1": 0.25, "hits@3": 0.5, "hits@10": 1.0}
WHOLE = {
    **{"dataset": "umls", "entities": 135, "relations": 46, "triples": {"train": 5216}, "model": "procrustes"},
    **{"recipe": "fast", "settings": {"dim": 20}, "metrics": {"test": FIGURES}, "notes": ["naïve | ☃"]},
    "footprint": {"seconds": 1.5, "g_co2": 0.25},
}


def front(text):
    """Return the metadata of a card, and the text below it."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    start, metadata, body = text.split("---\n", 2)
    assert start == ""
    return yaml.safe_load(metadata), body


def test_hubs_find_what_they_expect():
    about, body = front(card(WHOLE))
    assert about["library_name"] == "procrustes-kge"
    assert {"link-prediction", "procrustes"} <= set(about["tags"])
    assert about["datasets"] == ["umls"]
    assert about["metrics"] == list(FIGURES)
    (result,) = about["model-index"][0]["results"]
    assert {metric["type"]: metric["value"] for metric in result["metrics"]} == FIGURES
    assert result["dataset"]["type"] == "umls"
    assert about["co2_eq_emissions"]["emissions"] == 0.25
    assert "license" not in about  # it is not ours to give
    assert "# Procrustes embedding of umls\n" in body
    assert "| test | .500 | .250 | .500 | 1.000 |" in body
    assert "naïve \\| ☃" in body


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from([*WHOLE, "imported", "versions", "calibration", "method", "epochs"])


@settings(max_examples=60)
@given(st.dictionaries(NAMES, VALUES, max_size=6), st.text())
def test_whatever_a_report_holds_the_metadata_stay_what_they_are(report, name):
    text = card({**report, "dataset": name, "model": name})
    about, _ = front(text)
    known = {"library_name", "tags", "datasets", "metrics", "model-index", "co2_eq_emissions"}
    assert about.keys() <= known
    assert about["library_name"] == "procrustes-kge"
    text.encode()


def test_nothing_in_a_report_becomes_markup():
    evil = "x\n---\nlicense: mit\n---\n<script>alert(1)</script> [a](http://b) `c` | d\x1b[31m"
    about, body = front(card({**WHOLE, "dataset": evil, "notes": [evil], "settings": {evil: evil}}))
    assert "license" not in about
    assert "datasets" not in about  # no hub has a dataset of that name
    assert "<script>" not in body
    assert not re.search(r"(?<!\\)\]\(", body)
    assert "\x1b" not in body
    assert body.count("\n---\n") == 0


# In a run folder.


@pytest.fixture
def folder(tmp_path):
    model, graph, fit = learned(FIT)
    save(model, tmp_path / "run", graph, fit, {"dataset": "rotated", "metrics": {}})
    return tmp_path / "run"


def test_a_card_follows_the_report(folder):
    assert is_ours(folder / CARD)
    before = (folder / CARD).read_text()
    update_report(folder, metrics={"test": FIGURES})
    after = (folder / CARD).read_text()
    assert ".500" not in before
    assert "| test | .500 |" in after
    assert is_ours(folder / CARD)
    assert after == card(json.loads((folder / "report.json").read_text()))
    verdict = examine(folder)
    assert verdict.sound
    assert verdict.others == []


def test_a_card_that_was_edited_is_the_users(folder):
    place = folder / CARD
    place.write_text(place.read_text().replace("# license: yours to choose", "license: mit #"))
    mine = place.read_text()
    update_report(folder, metrics={"test": FIGURES})
    assert place.read_text() == mine
    assert examine(folder).sound
    assert examine(folder).others == []
    run, before = load_run(folder), files_in(folder)
    again = {"setting": "run", "seen": "holds README.md too", "remedy": "--out"}
    refused(lambda: save(run.model, folder, run.graph, run.settings, WHOLE), **again)
    assert files_in(folder) == before


def test_a_card_that_was_deleted_or_is_missing_is_written_again(folder):
    (folder / CARD).unlink()
    load_run(folder)
    update_report(folder, metrics={"test": FIGURES})
    assert is_ours(folder / CARD)


def test_a_link_is_never_followed(folder, tmp_path):
    (tmp_path / "precious").write_text("mine")
    (folder / CARD).unlink()
    (folder / CARD).symlink_to(tmp_path / "precious")
    update_report(folder, metrics={"test": FIGURES})
    assert (tmp_path / "precious").read_text() == "mine"
    assert (folder / CARD).readlink() == Path(os.fspath(tmp_path / "precious"))


def test_without_a_report_there_is_no_card(tmp_path):
    save(model_of("ab"), tmp_path / "run")
    assert not (tmp_path / "run" / CARD).exists()
