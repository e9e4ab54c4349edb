"""Laws of studies: a row is measured and kept at once, one that fails is a gap, a file of something else is refused."""

import json
from dataclasses import replace

import pytest
import torch

pytest.importorskip("matplotlib", reason="figures need the extra `plots`")

from laws import refused
from procrustes_kge.bench.studies import STUDIES, find_study, kept as kept_module
from procrustes_kge.bench.studies.drawing import draw_study, study_files
from procrustes_kge.bench.studies.kept import Conducted, findings, read_study, study_file
from procrustes_kge.bench.studies.study import Place, Row, Study
from procrustes_kge.errors import DivergedError, InputError
from procrustes_kge.figures.style import panels
from toys import random_graph, rotated_graph

pytestmark = pytest.mark.slow

GRAPH = rotated_graph()
PLACE = Place(GRAPH, "cpu", quick=True)


@pytest.fixture(autouse=True)
def no_git(monkeypatch):
    """Ask no git for the commit, again and again."""
    monkeypatch.setattr(kept_module, "commit", lambda: None)


def counting(measured=None, failing=None, rows=4):
    """Return a study whose rows are their numbers; `failing` are errors by row."""

    def row(number):
        def measure(bench):
            if measured is not None:
                measured.append(number)
            bench.tell(0.5)
            if failing and number in failing:
                raise failing[number]
            return {"mrr": number / 10, "seconds": 1.0, "points": [(number, 2)]}

        return Row(f"row {number}", {"number": number}, measure, cost=1.0 + number)

    return Study("seeds", lambda place: [row(number) for number in range(rows)], lambda found: {"": panels("")[0]})


def names(results):
    return [result.name for result in results]


# Keeping.


def test_every_row_is_written_when_it_is_measured(tmp_path):
    conducted = Conducted(counting(), PLACE, tmp_path)
    for done, _ in enumerate(conducted.measured(), start=1):
        assert names(findings(read_study(conducted.file)).rows) == [f"row {number}" for number in range(done)]
    assert conducted.todo == []


def test_a_study_that_was_stopped_goes_on_and_finds_the_same(tmp_path):
    whole = Conducted(counting(), PLACE, tmp_path / "whole")
    list(whole.measured())
    stopped, measured = Conducted(counting(), PLACE, tmp_path / "stopped"), []
    next(stopped.measured())
    again = Conducted(counting(measured), PLACE, tmp_path / "stopped")
    list(again.measured())
    assert measured == [1, 2, 3]
    assert read_study(again.file) == read_study(whole.file)
    assert list(Conducted(counting(), PLACE, tmp_path / "stopped").measured()) == []


def test_a_row_that_was_interrupted_is_measured_again(tmp_path):
    conducted = Conducted(counting(failing={1: KeyboardInterrupt()}), PLACE, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        list(conducted.measured())
    assert names(findings(read_study(conducted.file)).rows) == ["row 0"]
    assert [row.name for row in Conducted(counting(), PLACE, tmp_path).todo] == ["row 1", "row 2", "row 3"]


def test_some_rows_alone_may_be_measured_and_the_order_is_that_of_the_plan(tmp_path):
    conducted = Conducted(counting(), PLACE, tmp_path)
    assert names(conducted.measured(only="row 2")) == ["row 2"]
    list(conducted.measured())
    assert names(conducted.findings.rows) == ["row 0", "row 1", "row 2", "row 3"]


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (InputError("it is too large"), "it is too large"),
        (DivergedError("training diverged in epoch 3", None), "training diverged in epoch 3"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "out of memory"),
        (MemoryError(), "out of memory"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_row_that_fails_keeps_its_reason_and_stops_no_other(error, problem, tmp_path):
    measured = []
    conducted = Conducted(counting(measured, {1: error}), PLACE, tmp_path)
    results = list(conducted.measured())
    assert [result.problem for result in results] == [None, problem, None, None]
    assert problem in str(results[1])
    assert names(conducted.findings.gaps) == ["row 1"]
    assert Conducted(counting(), PLACE, tmp_path).todo == []  # it would fail again


def test_a_mistake_of_ours_is_no_gap(tmp_path):
    with pytest.raises(RuntimeError, match="shapes"):
        list(Conducted(counting(failing={0: RuntimeError("shapes do not match")}), PLACE, tmp_path).measured())


def test_progress_grows_to_the_end_and_estimates_the_rest(tmp_path):
    seen = []
    list(Conducted(counting(), PLACE, tmp_path).measured(seen.append))
    shares = [progress.share for progress in seen]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] == pytest.approx(1)
    assert seen[0].left is None
    assert seen[-1].left == pytest.approx(0, abs=1e-6)
    assert all(progress.left > 0 for progress in seen[2:-1])
    assert seen[-1].done == seen[-1].rows == 4


def test_a_figure_is_kept_for_any_name_of_a_graph(tmp_path):
    for name in ("a/b", "知识", "..", "", "x" * 400):
        file = study_file("dims", name, tmp_path)
        assert file.parent == tmp_path
        assert file.name.startswith("dims-")
        file.write_text("")


# Files that are not what they should be.


@pytest.fixture
def kept(tmp_path):
    conducted = Conducted(counting(rows=2), PLACE, tmp_path)
    list(conducted.measured())
    return conducted.file


def test_a_half_written_file_is_told_and_left_alone(kept):
    whole = kept.read_bytes()
    kept.write_bytes(whole[: len(whole) // 2])
    refused(lambda: Conducted(counting(), PLACE, kept.parent), setting=kept, seen="damaged", remedy="delete it")
    assert kept.read_bytes() == whole[: len(whole) // 2]


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"rows": [{}]}, "missing"),
        ({"rows": "all"}, "rows is text"),
        ({"rows": [{"name": "a", "about": {}, "figures": None, "problem": None}]}, "neither figures nor a problem"),
        ({"rows": [{"name": "a", "about": {}, "figures": {}, "problem": None}] * 2}, "twice"),
        ({"format": 99}, "format 99"),
        ({"more": 1}, "unknown"),
        ({"quick": "yes"}, "quick is text"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_file_that_is_no_study_is_told(change, seen, kept):
    kept.write_text(json.dumps({**read_study(kept), **change}))
    refused(lambda: read_study(kept), setting=kept, seen=seen, remedy="delete it")


@pytest.mark.parametrize("content", ["", "[]", "null", "{}", "\x00", '{"rows": NaN}'])
def test_any_other_file_is_told(content, kept):
    kept.write_text(content)
    refused(lambda: read_study(kept), setting=kept, seen="is no study", remedy="delete it")


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"study": "dims"}, "the study dims"),
        ({"checksum": "0"}, "another graph of this name"),
        ({"quick": False}, "without --quick"),
        ({"device": "a GPU"}, "a GPU"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_study_of_something_else_is_refused(change, seen, kept):
    kept.write_text(json.dumps({**read_study(kept), **change}))
    refused(lambda: Conducted(counting(), PLACE, kept.parent), setting=kept, seen=seen, remedy="another --out")


def test_rows_with_other_settings_are_refused(kept):
    content = read_study(kept)
    content["rows"][1]["about"]["number"] = 7
    kept.write_text(json.dumps(content))
    refused(lambda: Conducted(counting(), PLACE, kept.parent), setting=kept, seen="'row 1'", remedy="another --out")


def test_a_study_that_is_done_is_drawn_on_any_device(kept):
    kept.write_text(json.dumps({**read_study(kept), "device": "a GPU"}))
    assert Conducted(counting(rows=2), PLACE, kept.parent).todo == []


def test_a_missing_study_is_told(tmp_path):
    refused(lambda: draw_study(tmp_path / "no.json", tmp_path), setting="no.json", seen="no such study", remedy="bench")
    refused(lambda: study_files(tmp_path), setting=tmp_path, seen="no file of a study", remedy="bench dims --out")


def test_figures_that_cannot_be_drawn_are_told(kept):
    content = read_study(kept)
    content["rows"][0] |= {"about": {"name": "fast"}, "figures": {"mrr": "high"}}
    kept.write_text(json.dumps(content))
    refused(lambda: draw_study(kept, kept.parent), setting=kept, seen="cannot be drawn", remedy="delete it")


def test_an_unknown_study_is_told_with_those_that_are_known():
    with pytest.raises(InputError, match=r"unknown study 'dim'\. Did you mean dims\? Known: efficiency, bandwidth"):
        find_study("dim")


def test_a_graph_without_test_triples_is_refused():
    bare = replace(GRAPH, test=GRAPH.test[:0])
    refused(lambda: Place(bare), setting="rotated", seen="no test triples", remedy="at least 1")
    with pytest.raises(InputError, match="no validation triples"):
        find_study("schedule").plan(Place(replace(GRAPH, valid=GRAPH.valid[:0]), "cpu"))


# Plans.


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("quick", [True, False])
def test_a_plan_has_rows_of_their_own_names_and_repeats(name, quick):
    study, place = find_study(name), replace(PLACE, quick=quick)
    rows = study.plan(place)
    assert study.name == name
    assert len({row.name for row in rows}) == len(rows) > 3
    assert [(row.name, row.about, row.cost) for row in rows] == [(r.name, r.about, r.cost) for r in study.plan(place)]
    assert all(row.cost > 0 for row in rows)
    json.dumps([dict(row.about) for row in rows])


def test_a_small_graph_has_gaps_and_no_errors(tmp_path, monkeypatch):
    monkeypatch.setattr("procrustes_kge.bench.studies.seeds.SEEDS", 1)
    tiny = random_graph(entities=3, relations=1, triples=9)
    conducted = Conducted(find_study("seeds"), Place(tiny, "cpu", quick=True), tmp_path)
    results = list(conducted.measured())
    assert len(results) == len(conducted.plan)
    assert all(result.figures or result.problem for result in results)
    assert draw_study(conducted.file, tmp_path, (".svg",))
