"""Laws of the benchmark scripts: what they are told in words, and that no two of them write the same file."""

import importlib
import json
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from procrustes_kge.bench.speed import MachineRates
from procrustes_kge.bench.table import Row, table_rows
from procrustes_kge.errors import InputError
from procrustes_kge.training import learner
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.portfolio import portfolio
from procrustes_kge.training.recipes import ALL_OPTIONS, METHODS, changed, learn, recipe
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
        *((f"subsampling={word}", {"subsampling": True}) for word in ("true", "True", "TRUE")),
        *((f"subsampling={word}", {"subsampling": False}) for word in ("false", "False")),
        ("regularisation=0.05", {"regularisation": 0.05}),
        ("regularisation=1", {"regularisation": 1.0}),
        ("epochs=30", {"epochs": 30}),
        ("seed=-7", {"seed": -7}),
        ("batch=full", {"batch": "full"}),
        ("batch=256", {"batch": 256}),
        ("regulariser=n3", {"regulariser": "n3"}),
        ("dim=64", {"dim": 64}),  # an option of the model
        ("inverses=false", {"inverses": False}),
    ],
)
def test_a_change_is_read_from_words(change, expected, script):
    found = script("baselines").parsed(recipe("complex"), change)
    assert found == expected
    assert {type(value) for value in found.values()} == {type(value) for value in expected.values()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("subsampling=1", "subsampling '1', expected true or false"),
        ("subsampling", "subsampling '', expected true or false"),
        ("regularisation=x", "regularisation 'x', expected a number"),
        ("epochs=2.5", "epochs '2.5', expected a whole number"),
        ("query_dropout=x", "query_dropout 'x', expected a number"),
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
    found = baselines.tried(Row("complex", "wn18rr"), "regularisation=0.5 dim=64 epochs=9", "cpu")
    assert found["changes"] == {"regularisation": 0.5, "dim": 64, "epochs": 9}
    assert (found["valid_mrr"], found["seconds"], found["epochs"]) == (0.25, 3.0, 7)
    ((settings, name, splits),) = seen
    assert (settings.regularisation, settings.dim, settings.epochs, settings.device) == (0.5, 64, 9, "cpu")
    assert (name, splits) == ("complex", ["valid"])


def test_rotations_that_are_descended_stay_orthogonal_and_are_others_than_those_that_are_solved(script):
    search, graph, solved = script("search"), rotated_graph(), learner.Rotations
    settings = ContrastSettings(dim=8, segment=4, epochs=2, batch=256, device="cpu")
    with search.descended():
        descended = learn(graph, settings).rotations
    assert learner.Rotations is solved
    assert not torch.allclose(descended, learn(graph, settings).rotations, atol=1e-3)
    torch.testing.assert_close(descended @ descended.mT, torch.eye(4).expand_as(descended), atol=1e-5, rtol=0)


def test_every_study_changes_settings_that_there_are(script):
    search = script("search")
    for study, changes in [*search.BOTH.items(), *((study, some) for (study, _), some in search.ONE.items())]:
        base = search.start(study, rotated_graph(), SimpleNamespace(device="cpu", dim=search.DIM))
        for change in changes:
            if change != {"relations": "gradient"}:  # no setting of the package
                changed(base, **change)  # which refuses what there is not


def test_every_idea_and_every_candidate_changes_settings_that_there_are(script):
    ideas, plateau, base = script("ideas"), script("plateau"), recipe("accurate", None, "cpu", dim=500, groups=1)
    for change in ideas.IDEAS.values():
        changed(base, **ideas.told(change, portfolio()[0]))
    half = ideas.told(ideas.IDEAS["inverses, half of the regularisation"], {"regularisation": 0.06})
    assert half == {"inverses": True, "regularisation": pytest.approx(0.03)}
    for candidate in plateau.CANDIDATES.values():
        changed(base, **{name: value for name, value in candidate.items() if name != "dataset"})


def test_a_candidate_is_trained_once_for_each_seed_and_tested_where_asked_for(script, monkeypatch, tmp_path, capsys):
    plateau = script("plateau")
    tiny = {"dataset": "umls", "dim": 8, "segment": 2, "groups": 1, "batch": 256, "epochs": 1, "validate_every": 0}
    monkeypatch.setattr(plateau, "CANDIDATES", {"tiny": tiny})
    monkeypatch.setattr(plateau, "read_graph", lambda name: rotated_graph())
    common = ["plateau.py", "tiny", "--device", "cpu", "--folder", str(tmp_path), "--commit", "none", "--seeds", "2"]
    for more in ([], [], ["--test"], ["--changes", "epochs=2"]):
        monkeypatch.setattr("sys.argv", [*common, *more])
        plateau.main()
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 3 + 1 + 3 + 3
    assert all(" valid 0." in text for text in printed)
    results = json.loads((tmp_path / "plateau.json").read_text(encoding="utf-8"))["results"]
    assert [(each["name"], each["seed"]) for each in results] == [
        *(("tiny", seed) for seed in (0, 1)),
        *(("tiny epochs=2", seed) for seed in (0, 1)),
    ]
    assert ["test_mrr" in each for each in results] == [True, True, False, False]
    assert results[2]["epochs"] == 2


def test_a_trial_is_ranked_on_validation_alone(script):
    graph, settings = rotated_graph(), ContrastSettings(dim=8, segment=4, epochs=2, batch=256, device="cpu")
    for change in ({"crowd": 0.5}, {"relations": "gradient"}):
        found = script("search").trial(graph, settings, change)
        assert found.keys() == {"valid_mrr", "tail", "head", "seconds"}


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


def test_a_picture_is_what_the_result_files_give_or_is_named_and_drawn_anew(script, tmp_path):
    check, file = script("check_results"), tmp_path / "picture.svg"
    assert list(check.picture_problems()) == []
    drawn = {file: "<svg/>"}
    assert [problem.split(":")[0] for problem in check.picture_problems(drawn)] == ["picture.svg"]
    assert not file.exists()
    assert list(check.picture_problems(drawn, write=True)) != []
    assert list(check.picture_problems(drawn)) == []
    (tmp_path / "old.svg").write_text("<svg/>")
    assert [problem.split(":")[0] for problem in check.picture_problems(drawn)] == ["old.svg"]


def test_every_model_has_a_place_in_a_picture_and_a_label(script):
    pictures = script("pictures")
    for dataset, lowest, highest in (("wn18rr", 0.42, 0.51), ("fb15k-237", 0.28, 0.37)):
        room = pictures.Box(44, 62, 412, 372)
        panel = pictures.Panel(dataset, room, lowest, highest, pictures.PAGES["light"])
        found = pictures.points(dataset)
        assert sum(point.ours for point in found) == 2
        assert len(found) == 15
        assert len(panel.labels(found)) == 15
        assert all(room.left <= panel.x(point.seconds) <= room.right for point in found)
        assert all(room.top <= panel.y(point.mrr) <= room.bottom for point in found)


def test_the_packages_results_are_those_of_the_files_or_are_named_and_mended(script, tmp_path):
    checking, file = script("check_results"), tmp_path / "results.json"
    assert list(checking.shipped_problems()) == []
    for content in (None, "{}"):
        if content is not None:
            file.write_text(content)
        (problem,) = checking.shipped_problems(file=file)
        assert "results.json" in problem
        assert "--write" in problem
    assert len(list(checking.shipped_problems(write=True, file=file))) == 1
    assert list(checking.shipped_problems(file=file)) == []
    assert json.loads(file.read_text()).keys() == {row.name for row in table_rows()}


def test_older_files_are_read_by_the_names_of_today(script):
    result_files = script("result_files")
    old = {"against": "labels", "loss": "logistic", "step": "adam", "rate_decay": 0.9, "dim": 5}
    new = result_files.renamed(old)
    assert new == {"negatives": "kvsall", "loss": "sigmoid", "optimiser": "adam", "learning_rate_decay": 0.9, "dim": 5}
    assert result_files.renamed(new) == new
    today = ALL_OPTIONS.union(*({field.name for field in fields(kind)} for kind in METHODS.values()))
    assert today.isdisjoint(result_files.OLD_NAMES)
    assert today.issuperset(result_files.OLD_NAMES.values())


@pytest.mark.slow
def test_trainings_are_timed_and_their_epochs_stand_beside_a_floor(script):
    epochs, graph = script("epochs"), rotated_graph()
    settings = ContrastSettings(dim=16, segment=8, groups=2, epochs=2, batch=64, validate_every=0, device="cpu")
    rates = MachineRates(copy=1e9, products=1e9, half_products=1e9)
    found = epochs.measured(graph, settings, rates, trainings=2)
    assert len(found["seconds"]) == 2
    assert found["milliseconds_a_step"] * found["steps"] == pytest.approx(2000 * found["epoch"]["seconds"])
    assert f"{found['steps']} steps" in epochs.line(found)
    assert "steps of" in epochs.profiled(graph, settings)
