"""Laws of `procrustes evaluate`."""

import json
import re

from commands import FIGURES, SIDES
from procrustes_kge.runs.store import load_run, save


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
    assert re.fullmatch(r"ranked 4 triples in \d+\.\d s", lines[-1])


def test_a_run_that_is_misspelt_is_suggested(refused, run):
    for wrong in ("ring", "runs/rings"):
        refused("evaluate", wrong, setting=wrong, seen="no such run folder", remedy=f"did you mean {run}?")


def test_evaluating_by_relation_and_on_training_triples(procrustes, run):
    graph = load_run(run).graph
    lines = procrustes("evaluate", run, "--split", "train", "--relations", "--device", "cpu").splitlines()
    assert lines[1].startswith("train  MRR ")
    counted = dict(re.findall(r"   (\d+) ranks of (.+)", "\n".join(lines))[i][::-1] for i in range(3))
    expected = {name: 2 * int((graph.train[:, 1] == row).sum()) for row, name in enumerate(graph.relations)}
    assert {name: int(count) for name, count in counted.items()} == expected
    assert lines[-1].startswith("ranked 74 triples in")


def test_what_is_saved_without_its_triples_is_not_ranked(refused, planted):
    save(planted[0], "bare")
    refused("evaluate", "bare", setting="bare", seen="saved without its triples", remedy="save it with graph=…")
