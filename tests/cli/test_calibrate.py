"""Laws of `procrustes calibrate`, and of what a run keeps of it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from procrustes_kge.runs.store import load_run, save


def test_probabilities_are_kept_with_the_run_and_measured_on_test_triples(procrustes, planted):
    assert load_run("runs/planted").calibration is None
    lines = procrustes("calibrate", "runs/planted", "--device", "cpu").splitlines()
    assert lines[0].startswith("calibrated on 48 validation triples in ")
    assert lines[2].startswith("test   calibration error .0")
    run, (model, graph) = load_run("runs/planted"), planted
    found = run.report["calibration"]
    assert (found["triples"], found["test"]["split"], found["one_of"]) == (48, "test", 60)
    # The planted model is right, and knows it.
    answer = model.tails(graph.entities[4], graph.relations[1], 2)
    best, second = run.calibration.probability([each.score for each in answer], 1)
    assert best > 0.9
    assert second < 0.1
    assert procrustes("check", "runs/planted").splitlines()[-1].startswith("sound")
    printed = json.loads(procrustes("calibrate", "runs/planted", "--device", "cpu", "--json"))
    assert printed["calibration"] == load_run("runs/planted").report["calibration"]
    assert load_run("runs/planted").calibration.as_json() == run.calibration.as_json()


def test_a_model_saved_again_may_keep_its_calibration(procrustes, planted):
    procrustes("calibrate", "runs/planted", "--device", "cpu")
    run = load_run("runs/planted")
    save(run.model, "runs/again", run.graph, run.settings, run.report, calibration=run.calibration)
    np.testing.assert_array_equal(load_run("runs/again").calibration.knots, run.calibration.knots)
    save(run.model, "runs/again", run.graph, run.settings, run.report)
    assert load_run("runs/again").calibration is None


def test_training_keeps_probabilities(procrustes):
    triples = [f"e{i}\tnext\te{(i + 1) % 300}" for i in range(300)] + [f"e{i}\tback\te{i - 1}" for i in range(1, 300)]
    Path("long.tsv").write_text("\n".join(triples))
    procrustes("train", "long.tsv", "--recipe", "fast", "--dim", "20", "--epochs", "3", "--device", "cpu")
    run = load_run("runs/long")
    assert run.calibration.triples == len(run.graph.valid) == 30
    assert run.report["calibration"]["test"]["triples"] == len(run.graph.test)


def test_too_few_validation_triples_are_said(refused, run):
    named = {"seen": "4 validation triples", "remedy": "set more aside"}
    refused("calibrate", run, "--device", "cpu", setting="ring", **named)
    assert load_run(run).calibration is None


def test_a_run_without_triples_is_not_calibrated(refused, planted):
    save(planted[0], "bare")
    refused("calibrate", "bare", setting="bare", seen="saved without its triples", remedy="save it with graph=…")


@pytest.mark.parametrize("damage", ["{", '{"format": 1}', "[1]", '{"format": 7}'])
def test_a_damaged_calibration_is_said(procrustes, refused, planted, damage):
    from folders import reseal

    procrustes("calibrate", "runs/planted", "--device", "cpu")
    place = Path("runs/planted/calibration.json")
    place.write_text(damage)
    ask = ("predict", "runs/planted", "-H", "turn 4", "-r", "turn 2")
    refused(*ask, setting="runs/planted", seen="calibration.json has", remedy="restore it from a copy")
    reseal(Path("runs/planted"))
    refused(*ask, setting="runs/planted", seen="calibration.json", remedy="restore it from a copy")


def test_a_calibration_of_another_run_is_refused(procrustes, planted, run):
    from laws import refused as is_refused
    from procrustes_kge.runs.store import keep_calibration

    procrustes("calibrate", "runs/planted", "--device", "cpu")
    found = load_run("runs/planted").calibration
    is_refused(lambda: keep_calibration(run, found), setting=run, seen="16 centres", remedy="that it was made for")
    shutil.rmtree(run)
    is_refused(lambda: keep_calibration(run, found), setting=run, seen="no such run folder", remedy="procrustes train")
