"""Laws of the benchmark scripts: what they are told in words, and that no two of them write the same file."""

import importlib
import json
from pathlib import Path

import pytest

from procrustes_kge.bench.table import Row, table_rows
from procrustes_kge.errors import InputError
from procrustes_kge.training.recipes import recipe
from toys import rotated_graph

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    """Return a script by its name."""
    for folder in ("benchmarks", "scripts"):
        monkeypatch.syspath_prepend(ROOT / folder)
    return importlib.import_module


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        *((f"shared={word}", {"shared": True}) for word in ("true", "True", "TRUE")),
        *((f"shared={word}", {"shared": False}) for word in ("false", "False")),
        ("decay=0.05", {"decay": 0.05}),
        ("decay=1", {"decay": 1.0}),
        ("epochs=30", {"epochs": 30}),
        ("seed=-7", {"seed": -7}),
        ("batch=full", {"batch": "full"}),
        ("batch=256", {"batch": 256}),
        ("penalty=n3", {"penalty": "n3"}),
    ],
)
def test_a_change_is_read_from_words(change, expected, script):
    found = script("baselines").parsed(recipe("complex"), change)
    assert found == expected
    assert {type(value) for value in found.values()} == {type(value) for value in expected.values()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("shared=1", "shared '1', expected true or false"),
        ("shared", "shared '', expected true or false"),
        ("decay=x", "decay 'x', expected a number"),
        ("epochs=2.5", "epochs '2.5', expected a whole number"),
        ("wings=2", "wings is no setting of this recipe"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(change, message, script):
    with pytest.raises(InputError) as caught:
        script("baselines").parsed(recipe("complex"), change)
    assert str(caught.value) == message


def test_every_try_is_remembered(script, tmp_path):
    baselines = script("baselines")
    for number in (1, 2):
        baselines.remember({"row": "transe-wn18rr", "changes": {"dim": number}}, tmp_path)
    tries = json.loads((tmp_path / "tried.json").read_text(encoding="utf-8"))["tries"]
    assert [each["changes"]["dim"] for each in tries] == [1, 2]


def test_a_try_is_ranked_on_validation_alone(script, monkeypatch):
    baselines, seen = script("baselines"), []
    monkeypatch.setattr(baselines, "read_graph", lambda name: rotated_graph())

    def trained(graph, settings, name, splits):
        seen.append((settings, name, splits))
        return {"metrics": {"valid": {"mrr": 0.25}}, "footprint": {"seconds": 3.0}, "epochs": 7, "device": "a machine"}

    monkeypatch.setattr(baselines, "trained", trained)
    found = baselines.tried(Row("complex", "wn18rr"), "decay=0.5 epochs=9", "cpu")
    assert found["changes"] == {"decay": 0.5, "epochs": 9}
    assert (found["valid_mrr"], found["seconds"], found["epochs"]) == (0.25, 3.0, 7)
    ((settings, name, splits),) = seen
    assert (settings.decay, settings.epochs, settings.device, name, splits) == (0.5, 9, "cpu", "complex", ["valid"])


def test_no_other_script_writes_a_row_of_the_table(script):
    rows = script("recipes")
    assert not {row.name for row in table_rows()} & {*rows.ROWS, *rows.ON_THE_CPU}


def test_every_row_of_the_results_is_written_by_one_script(script):
    ours = script("recipes")
    written = {*(row.name for row in table_rows()), *ours.ROWS, *ours.ON_THE_CPU, "cpu-wn18rr-d500"}
    assert {name for name, *_ in script("tables").ROWS} <= written


def test_a_page_is_what_the_result_files_give_or_is_named_and_mended(script, monkeypatch, tmp_path):
    checking, tables, page = script("check_results"), script("tables"), tmp_path / "page.md"
    monkeypatch.setattr(tables, "TABLES", {"sums": lambda *which: f"| {' '.join(which)} |", "lost": str})
    page.write_text("before\n<!-- sums of two -->\n| by hand |\n<!-- /sums of two -->\nafter <!-- nothing -->\n")
    unused = "the table `lost` is on no page; add <!-- lost --> and <!-- /lost --> to one, or remove it"
    for write in (False, True):
        differs, missed = checking.table_problems((page,), write)
        assert "page.md: the table `sums of two`" in differs
        assert missed == unused
        assert ("by hand" in page.read_text()) != write
    assert list(checking.table_problems((page,))) == [unused]
    assert (
        page.read_text() == "before\n<!-- sums of two -->\n| of two |\n<!-- /sums of two -->\nafter <!-- nothing -->\n"
    )
