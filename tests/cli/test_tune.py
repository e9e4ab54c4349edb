"""Laws of `procrustes tune`: what it finds can be trained, and a search that was stopped goes on."""

import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from procrustes_kge.bench.search import LongSearch
from procrustes_kge.cli import main
from procrustes_kge.cli.interrupts import ASKED
from procrustes_kge.graphs.reading import write_graph
from procrustes_kge.runs.store import load_run
from procrustes_kge.system import extras
from procrustes_kge.training.recipes import values_of
from toys import rotated_graph

SMALL = ("--model", "distmult", "--dim", 8, "--epochs", 3, "--device", "cpu", "--workers", 1)


@pytest.fixture(autouse=True)
def graph(here):
    """Write a graph with enough triples to judge by."""
    write_graph(rotated_graph(), "turns")


def report(folder="runs/turns-tuning"):
    return json.loads(Path(folder, "report.json").read_text())


def plain(found):
    """Return what a search has found, without what the clock says."""
    trials = [{name: value for name, value in each.items() if name != "seconds"} for each in found["tuning"]["trials"]]
    return found["settings"], trials, found["tuning"]["chosen"]


@pytest.mark.slow
def test_what_is_found_is_trained_by_the_command_that_is_printed(procrustes):
    said = procrustes("tune", "turns", *SMALL, "--trials", 3)
    (command,) = re.findall(r"^train: procrustes (train turns --recipe distmult .+)$", said, re.MULTILINE)
    found = report()
    assert {path.name for path in Path("runs/turns-tuning").iterdir()} == {"study.db", "report.json"}
    assert len(found["tuning"]["trials"]) == 3
    assert all(0 < each["valid_mrr"] <= 1 and each["seconds"] > 0 for each in found["tuning"]["trials"])
    procrustes(*shlex.split(command), "--out", "runs/found")
    assert json.loads(json.dumps(values_of(load_run("runs/found").settings))) == found["settings"]


def test_json_is_the_report(procrustes):
    printed = json.loads(procrustes("tune", "turns", *SMALL, "--trials", 2, "--out", "mine", "--json"))
    assert printed == report("mine")
    assert printed["recipe"] == printed["model"] == "distmult"


def test_our_own_model_is_searched_from_the_default(procrustes):
    small = ("--dim", 8, "--segment", 4, "--epochs", 2, "--device", "cpu", "--valid", 0.2)
    found = json.loads(procrustes("tune", "turns", *small, "--trials", 2, "--json"))
    assert (found["recipe"], found["model"]) == ("accurate", "procrustes")
    assert len(found["tuning"]["trials"]) == 2


@pytest.mark.slow
def test_a_time_ends_it(procrustes, monkeypatch):
    moments = iter(range(10**6))
    monkeypatch.setattr("procrustes_kge.cli.tune.elapsed", lambda: next(moments) / 10)
    found = json.loads(procrustes("tune", "turns", *SMALL, "--time", "5s", "--json"))
    assert next(moments) < 70
    assert found["tuning"]["trials"]


def test_a_time_too_short_for_a_trial_is_said_and_the_recipe_given(procrustes, monkeypatch):
    monkeypatch.setattr("procrustes_kge.cli.tune.elapsed", lambda: 100.0)
    said = procrustes("tune", "turns", *SMALL, "--time", "5s")
    assert "too short for one trial" in said
    assert "train: procrustes train turns --recipe distmult " in said


# Stopped, and gone on with.


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_signal_ends_it_with_a_word_on_how_to_go_on(number, code, monkeypatch, capfd):
    def tuned(*flags):
        with pytest.raises(SystemExit) as ended:
            main(["tune", "turns", *map(str, SMALL), "--trials", "4", *flags])
        return ended.value.code

    assert tuned("--out", "whole") == 0
    with monkeypatch.context() as patch:
        step, steps = LongSearch.step, []

        def interrupted(self):
            steps.append(1)
            if len(steps) == 3:
                signal.raise_signal(number)
            step(self)

        patch.setattr(LongSearch, "step", interrupted)
        assert tuned("--out", "cut") == code
    assert ASKED.decode() in (said := capfd.readouterr().err)
    assert "cut holds 2 trials; the same command with --resume goes on\n" in said
    assert tuned("--out", "cut", "--resume") == 0
    assert plain(report("cut")) == plain(report("whole"))


@pytest.mark.slow
def test_a_search_that_was_killed_ends_at_the_same_winner(procrustes):
    asked = ["tune", "turns", *map(str, SMALL), "--trials", "12", "--json"]
    asked[asked.index("--epochs") + 1] = "40"
    whole = json.loads(procrustes(*asked, "--out", "whole"))
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for turn in range(3):
        command = [sys.executable, "-m", "procrustes_kge", *asked, "--out", "cut", *(["--resume"] if turn else [])]
        running = subprocess.Popen(command, env=paths, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not Path("cut/study.db").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(3 + turn)
        running.kill()
        running.wait()
    again = json.loads(procrustes(*asked, "--out", "cut", "--resume"))
    assert plain(again) == plain(whole)


# Mistakes.

MISTAKES = {  # flags: the setting, what was seen, and a remedy
    "--trials 0": ("trials", 0, "at least 1"),
    "--time soon": ("time", "soon", "such as"),
    "--model nobody": ("unknown model", "'nobody'", "Known: transe, distmult"),
    "--recipe paper": ("paper", "not tuned", "try --recipe accurate"),
    "--model complex --segment 20": ("setting segment", "complex", "try it with accurate"),
    "--max-unpacked much": ("max-unpacked", "much", "such as"),
    "--out full": ("full", "notes.txt", "another --out"),
    "--out turns/train.txt": ("train.txt", "a file", "another --out"),
}


@pytest.mark.parametrize("flags", MISTAKES)
def test_mistakes_are_refused_before_a_graph_is_read(flags, refused):
    Path("full").mkdir()
    Path("full/notes.txt").write_text("mine")
    setting, seen, remedy = MISTAKES[flags]
    source = "turns" if "turns" in flags else "nosuchfile.tsv"
    refused("tune", source, *flags.split(), setting=setting, seen=seen, remedy=remedy)


def test_a_graph_with_few_triples_is_refused(refused):
    refused("tune", "ring.tsv", *SMALL, described=True, setting="triples", seen="ring", remedy="train it as it is")


@pytest.mark.slow
def test_a_search_is_not_replaced_and_not_resumed_where_there_is_none(procrustes, refused):
    ask = ("tune", "turns", *SMALL, "--trials", 1)
    refused(*ask, "--resume", described=True, setting="study.db", seen="no search", remedy="leave --resume out")
    procrustes(*ask)
    refused(*ask, described=True, setting="study.db", seen="holds a search", remedy="--resume")
    refused(*ask, "--resume", "--seed", 3, described=True, setting="study.db", seen="seed 0, not 3", remedy="--out")


def test_without_optuna_it_says_what_to_install(refused, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "optuna" else importlib.util.find_spec(name))
    refused("tune", "turns", *SMALL, setting="optuna", seen="procrustes tune", remedy=extras.how_to_get("optuna"))
