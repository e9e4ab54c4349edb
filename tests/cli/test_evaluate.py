"""Laws of `procrustes evaluate`."""

import json
import re

import pytest

from commands import FIGURES, SIDES
from procrustes_kge.cli import main
from procrustes_kge.runs import store
from procrustes_kge.runs.store import load_run, save, update_report


def test_evaluating_repeats_the_figures_of_the_report(procrustes, run):
    report = load_run(run).report
    for split in ("valid", "test"):
        printed = json.loads(procrustes("evaluate", run, "--split", split, "--device", "cpu", "--json"))
        assert printed["metrics"] == {split: report["metrics"][split]}
        assert (printed["run"], printed["dataset"]) == (str(run), "ring")
        assert printed["seconds"] > 0


def test_evaluating_in_words(procrustes, run):
    lines = procrustes("evaluate", run, "--device", "cpu").splitlines()
    assert lines[0] == "ring   40 entities · 3 relations · 82 triples"
    assert re.fullmatch(rf"test   {FIGURES}   {SIDES}", lines[1])
    views = [line[2:14].strip() for line in lines[2:-1]]
    assert views == ["tail", "head", "seen only", "optimistic", "pessimistic"]
    assert re.fullmatch(r"ranked 4 triples in \d+\.\d s, saved in runs/ring/report\.json", lines[-1])


def test_a_run_that_is_misspelt_is_suggested(refused, run):
    for wrong in ("ring", "runs/rings"):
        refused("evaluate", wrong, setting=wrong, seen="no such run folder", remedy=f"did you mean {run}?")


def test_evaluating_by_relation_and_on_training_triples(procrustes, run):
    graph = load_run(run).graph
    lines = procrustes("evaluate", run, "--split", "train", "--relations", "--device", "cpu").splitlines()
    assert lines[1].startswith("train  MRR ")
    shown = [re.fullmatch(rf"(.+?) +{FIGURES}   \(tails .+, heads .+\)   (\d+) triples?", line) for line in lines[7:-1]]
    found = dict(line.group(1, 6) for line in shown)
    expected = {name: int((graph.train[:, 1] == row).sum()) for row, name in enumerate(graph.relations)}
    assert {name: int(count) for name, count in found.items()} == {name: n for name, n in expected.items() if n}
    assert list(found.values()) == sorted(found.values(), key=int, reverse=True)
    assert lines[-1].startswith("ranked 74 triples in")


def test_what_is_saved_without_its_triples_is_not_ranked(refused, planted):
    save(planted[0], "bare")
    refused("evaluate", "bare", setting="bare", seen="saved without its triples", remedy="save it with graph=…")


def test_figures_join_those_of_the_report(procrustes, run):
    report = load_run(run).report
    update_report(run, metrics={"test": {"mrr": 0.0, "sampled": 1}})
    for split in ("test", "train"):
        procrustes("evaluate", run, "--split", split, "--device", "cpu", "--json")
    after = load_run(run).report
    assert after["metrics"].keys() == {"train", "valid", "test"}
    assert {**after["metrics"], "train": None} == {**report["metrics"], "train": None}
    assert {**after, "metrics": None} == {**report, "metrics": None}


def test_a_run_that_cannot_be_written_is_ranked_all_the_same(run, monkeypatch, capsys):
    def refused(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(store, "write_json", refused)
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", str(run), "--device", "cpu"])
    output = capsys.readouterr()
    assert ended.value.code == 0
    assert output.out.splitlines()[-1].startswith("ranked 4 triples in")
    assert output.err.startswith("note: ")
    assert "Read-only file system" in output.err
