"""Laws of the paper's table: every recipe has a row, a row is trained once, and one that fails stops no other."""

import json
import math
import subprocess
from dataclasses import replace

import pytest
import torch

from procrustes_kge.bench import table
from procrustes_kge.bench.paper import DATASETS, NAMES, PAPER
from procrustes_kge.bench.table import (
    COLUMNS,
    Figures,
    Line,
    Row,
    as_markdown,
    as_text,
    commit,
    filled,
    grams,
    missing,
    read_line,
    table_rows,
    trained,
)
from procrustes_kge.errors import InputError
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.system.files import write_json_atomically
from procrustes_kge.training.baseline_recipes import PUBLISHED
from procrustes_kge.training.benchmarks import OTHER
from procrustes_kge.training.recipes import OWN, recipe
from procrustes_kge.training.supervised_settings import baseline_settings
from rows import GRAPH, Brief, report_like, small_graph, unwanted

pytestmark = pytest.mark.slow

FIGURES = Figures(0.4996, 0.45, 0.5, 0.6, 1234.5, 0.0123, 30.0, 1, "a machine")


def fill(rows, folder, first=lambda settings: None, read=small_graph):
    """Fill rows from a small graph, on the CPU; `first` sees the settings of each training."""
    return list(filled(rows, folder, "cpu", "a commit", read, Brief(first)))


# Rows.


def test_every_recipe_has_a_row_for_every_dataset_and_a_name():
    rows = table_rows()
    assert len(set(rows)) == len(rows)
    assert {row.recipe for row in rows} == {*PUBLISHED, *OWN}
    assert all({row.dataset for row in rows if row.recipe == name} == DATASETS.keys() for name in (*PUBLISHED, *OWN))
    assert len({(row.title, row.dataset) for row in rows}) == len(rows) == len({row.name for row in rows})
    assert NAMES.keys() >= {*PAPER, *OWN}


def test_the_paper_has_a_figure_for_thirteen_models_and_for_its_own_variants():
    variants = {name for name in OWN if name.startswith("paper")}
    assert PAPER.keys() >= variants
    assert len(PAPER.keys() - variants) == len(PAPER.keys() & BASELINES.keys()) == 13
    for row in table_rows():
        assert (row.printed is None) == (row.model not in PAPER)
    assert Row("ote", "fb15k-237").printed == (0.309, 320, 1144)
    assert Row("paper+ns", "wn18rr").printed == (0.457, 44, 124)


def test_models_are_in_the_papers_order_and_ours_come_last():
    for dataset in DATASETS:
        names = [row.model for row in table_rows() if row.dataset == dataset]
        assert [name for name in dict.fromkeys(names) if name in PAPER] == list(PAPER)
        assert names[-2:] == ["fast", "accurate"]


def test_a_model_that_is_added_has_a_row_when_it_has_settings(monkeypatch):
    rows = table_rows()
    monkeypatch.setitem(BASELINES, "fourteenth", BASELINES["distmult"])
    assert table_rows() == rows
    monkeypatch.setitem(table.PUBLISHED, "fourteenth", {OTHER: baseline_settings("fourteenth")})
    (row,) = table_rows(["fourteenth-wn18rr"])
    assert (row.title, row.printed) == ("fourteenth", None)


def test_a_variant_of_a_baseline_stands_beside_it(monkeypatch):
    monkeypatch.setitem(table.PUBLISHED, "transe-paper", PUBLISHED["transe"])
    assert [row.title for row in table_rows(["wn18rr"])][:3] == ["TransE", "TransE, paper's protocol", "DistMult"]
    assert Row("transe-paper", "wn18rr").printed == PAPER["transe"][0]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["complex-wn18rr"], ["complex-wn18rr"]),
        (["ComplEx"], ["complex-wn18rr", "complex-fb15k-237"]),
        (["paper+ns"], ["paper-ns-wn18rr", "paper-ns-fb15k-237"]),
        (["paper+ns-wn18rr", "paper-tb-wn18rr"], ["paper-ns-wn18rr", "paper-tb-wn18rr"]),
        (["ote-fb15k-237", "fast"], ["fast-wn18rr", "ote-fb15k-237", "fast-fb15k-237"]),
    ],
)
def test_rows_are_named_by_recipe_dataset_or_both(words, names):
    assert [row.name for row in table_rows(words)] == names
    assert [row for row in table_rows() if row.dataset == "wn18rr"] == table_rows(["wn18rr"])


def test_a_row_that_is_not_known_is_refused_with_those_that_are():
    with pytest.raises(InputError, match=r"unknown row 'nobody'\. Known: wn18rr, fb15k-237, transe, .*such as"):
        table_rows(["fast", "nobody"])


# Training.


def test_rows_are_trained_written_and_read(tmp_path):
    folder = tmp_path / "new" / "results"
    rows = table_rows(["fast-wn18rr", "distmult-wn18rr"])
    assert missing(rows, folder) == rows
    lines = fill(rows, folder)
    assert [line.row for line in lines] == rows
    assert [line.figures.seeds for line in lines] == [1, 3]
    assert [read_line(row, folder) for row in rows] == lines
    assert missing(rows, folder) == []
    assert {file.name for file in folder.iterdir()} == {"distmult-wn18rr.json", "fast-wn18rr.json"}
    content = json.loads((folder / "fast-wn18rr.json").read_text())
    assert content.keys() == {"commit", "runs"}
    assert content["commit"] == "a commit"
    assert [run["seed"] for run in content["runs"]] == [0, 1, 2]
    assert all(run["recipe"] == "fast" and "relations" not in run["metrics"]["test"] for run in content["runs"])


def test_an_epoch_is_trained_before_any_is_timed(tmp_path):
    calls = []
    fill(table_rows(["paper-wn18rr"]), tmp_path, lambda settings: calls.append((settings.epochs, settings.seed)))
    most = recipe("paper", GRAPH).epochs
    assert calls == [(1, 0), (most, 0), (most, 1), (most, 2)]


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (InputError("the loss is no number"), "the loss is no number"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "out of memory"),
        (RuntimeError("DefaultCPUAllocator: you tried to allocate 4 bytes"), "out of memory"),
        (MemoryError(), "out of memory"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_row_that_fails_says_why_and_stops_no_other(error, problem, tmp_path):
    def failing(settings):
        if settings.model == "transe":
            raise error

    rows = table_rows(["transe-wn18rr", "distmult-wn18rr"])
    bad, good = fill(rows, tmp_path, failing)
    assert (bad.problem, bad.figures) == (problem, None)
    assert str(bad).endswith(f"not trained: {problem}")
    assert (good.problem, good.figures is None) == (None, False)
    assert missing(rows, tmp_path) == rows[:1]


def test_a_mistake_of_ours_is_not_taken_for_a_row_that_fails(tmp_path):
    def broken(settings):
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        fill(table_rows(["transe-wn18rr"]), tmp_path, broken)


def test_a_dataset_that_cannot_be_read_fails_its_rows_alone(tmp_path):
    def read(name):
        if name == "wn18rr":
            raise InputError("cannot download it")
        return small_graph(name)

    first, second = fill(table_rows(["distmult"]), tmp_path, read=read)
    assert first.problem == "cannot download it"
    assert second.figures is not None


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_trained(tmp_path):
    (tmp_path / "results").write_text("a file")
    with pytest.raises(InputError, match="cannot be written"):
        fill(table_rows(["fast-wn18rr"]), tmp_path / "results", unwanted)


def test_a_training_may_look_at_validation_alone():
    settings = recipe("distmult", GRAPH, "cpu", dim=20, epochs=400, validate_every=1, patience=1)
    report = trained(GRAPH, settings, "distmult", ["valid"])
    assert report["metrics"].keys() == {"valid"}
    assert 1 < report["epochs"] < 400  # those that were trained, not the most that might have been


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"runs": []}', '{"runs": [{"metrics": {}}]}'])
def test_a_file_without_figures_is_named(content, tmp_path):
    (tmp_path / "fast-wn18rr.json").write_text(content)
    with pytest.raises(InputError, match=r"fast-wn18rr.json: has no results of this row .* delete it"):
        read_line(Row("fast", "wn18rr"), tmp_path)


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        (report_like(0.3, recipe="complex"), "it is of complex on wn18rr"),
        (report_like(0.3, dataset="fb15k-237"), "it is of fast on fb15k-237"),
        (report_like(math.nan), "one of them is not a number"),
    ],
)
def test_figures_of_another_row_or_of_none_are_refused(run, problem, tmp_path):
    write_json_atomically(tmp_path / "fast-wn18rr.json", {"commit": None, "runs": [run]})
    with pytest.raises(InputError, match=rf"fast-wn18rr.json: has no results of this row \({problem}\); delete it"):
        read_line(Row("fast", "wn18rr"), tmp_path)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Have the table believe that its package lies in a checkout of its own, and return a way to ask git there."""

    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", "-C", str(tmp_path), *who, *words], capture_output=True, text=True, check=True
        ).stdout.strip()

    monkeypatch.setattr(table, "__file__", str(tmp_path / "package" / "bench" / "table.py"))
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    try:
        git("init", "-q")
    except FileNotFoundError:
        pytest.skip("there is no git here")
    return git


def test_the_commit_is_that_of_a_checkout_and_changes_are_named(checkout, tmp_path):
    assert commit() is None  # nothing is checked in yet
    checkout("add", "-A")
    checkout("commit", "-qm", "all")
    assert commit() == checkout("rev-parse", "HEAD")
    (tmp_path / "result.json").touch()  # beside the package: it was not trained by that
    assert commit() == checkout("rev-parse", "HEAD")
    (tmp_path / "package" / "__init__.py").write_text("changed = True")
    assert commit() == checkout("rev-parse", "HEAD") + " and changes"


def test_a_package_inside_another_checkout_has_no_commit(checkout, tmp_path):
    (tmp_path / "other.py").touch()
    checkout("add", "other.py")
    checkout("commit", "-qm", "another project")
    assert commit() is None


def test_without_git_there_is_no_commit(monkeypatch):
    def no_git(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", no_git)
    assert commit() is None


# The table.


@pytest.mark.parametrize(
    ("mrr", "differs"), [(0.439, False), (0.4494, False), (0.4496, True), (0.429, False), (0.4284, True), (0.9, True)]
)
def test_an_mrr_that_is_far_from_the_papers_is_marked(mrr, differs):
    line = Line(Row("rotate", "wn18rr"), replace(FIGURES, mrr=mrr))
    assert line.differs == differs
    assert line.cells()[1].endswith("*") == differs
    for show in (as_text, as_markdown):
        assert ("differs from the paper's MRR by more than .01" in show([line])) == differs
    assert not Line(Row("fast", "wn18rr"), replace(FIGURES, mrr=mrr)).differs


def test_a_line_has_a_cell_for_every_column():
    row = Row("complex", "wn18rr")
    assert Line(row).cells() == ["ComplEx", *["–"] * 6, ".440", "130", "493"]
    shown = Line(row, FIGURES).cells()
    assert shown == ["ComplEx", ".500*", ".450", ".500", ".600", "1,234.5", "0.012", ".440", "130", "493"]
    assert Line(Row("fast", "wn18rr"), FIGURES).cells()[-3:] == [""] * 3
    assert all(len(Line(row).cells()) == 1 + len(COLUMNS) for row in table_rows())


def test_seeds_are_averaged():
    found = Figures.of([report_like(0.1, 1.0), report_like(0.3, 2.0)])
    assert (found.mrr, found.seconds, found.seeds) == (pytest.approx(0.2), 1.5, 2)


def test_columns_of_text_are_aligned():
    lines = [Line(row, FIGURES if row.recipe == "paper" else None) for row in table_rows()]
    for part, dataset in zip(as_text(lines).split("\n\n"), DATASETS.values(), strict=False):
        first, *rest = part.splitlines()
        assert first.startswith(dataset)
        ends = [first.index(name) + len(name) for name in ("H@1", "H@10", "seconds", "minutes")]
        for row in rest[:-2]:  # those that the paper has figures for
            assert all(row[end - 1] not in " " and row[end : end + 1] in (" ", "") for end in ends)
    assert "– not trained yet." in as_text(lines)
    assert "Trained on a machine" in as_text(lines)


def test_markdown_has_a_table_for_each_dataset():
    lines = [Line(row, replace(FIGURES, mrr=0.2)) for row in table_rows(["transe", "fast"])]
    first, second, notes = as_markdown(lines).split("\n\n")
    for part, dataset in ((first, "WN18RR"), (second, "FB15k-237")):
        rows = part.splitlines()
        assert rows[0].startswith(f"| {dataset} | MRR | H@1 |")
        assert len(rows) == 4
        assert {row.count("|") for row in rows} == {len(COLUMNS) + 2}
    assert notes.startswith("\\* differs")  # a star alone would begin a list
    assert "not trained yet" not in notes


@pytest.mark.parametrize(("amount", "shown"), [(0.00123, "0.0012"), (9.94, "9.9"), (10.4, "10"), (3702.0, "3,702")])
def test_grams_are_as_long_as_they_need_be(amount, shown):
    assert grams(amount) == shown
