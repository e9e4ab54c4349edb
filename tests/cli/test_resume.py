"""Laws of `procrustes resume`: what was stopped, killed or cut off ends as if nothing had happened."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest

from commands import TINY
from procrustes_kge.cli import main
from procrustes_kge.cli.interrupts import ASKED
from procrustes_kge.cli.terminal import TerminalWatcher
from procrustes_kge.runs import checkpoints, jobs, store
from procrustes_kge.runs.checkpoints import FolderCheckpoints
from procrustes_kge.runs.examining import examine
from procrustes_kge.runs.store import load_run
from toys import same

HERE = ("--device", "cpu", "--workers", "1")  # a clock would choose the threads
WAYS = {
    "accurate": ("--dim", "40", "--segment", "10", "--epochs", "6", *HERE),
    "fast": ("--recipe", "fast", "--dim", "60", "--epochs", "6", "--device", "cpu"),
    "rotate": ("--model", "rotate", "--dim", "20", "--epochs", "6", "--negatives", "5", *HERE),
}
every_way = pytest.mark.parametrize("way", WAYS)


def ended(*arguments):
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


@pytest.fixture
def whole(procrustes):
    """Return a function that trains without a stop."""

    def trained(way):
        procrustes("train", "ring.tsv", *WAYS[way], "--out", "whole")
        return load_run("whole")

    return trained


def after(epochs, number=signal.SIGINT, monkeypatch=None):
    """Let a signal come in the epoch after so many."""
    due, calls = FolderCheckpoints.due, []

    def counted(self, part, epoch):
        calls.append(epoch)
        if len(calls) == epochs:
            signal.raise_signal(number)
        return due(self, part, epoch)

    monkeypatch.setattr(FolderCheckpoints, "due", counted)


@pytest.mark.slow
@every_way
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"])
def test_a_signal_stops_a_training_that_can_be_resumed(way, number, code, procrustes, whole, capsys, monkeypatch):
    expected = whole(way)
    with monkeypatch.context() as patch:
        after(2, number, patch)
        assert ended("train", "ring.tsv", *WAYS[way]) == code
    said = capsys.readouterr().err
    told = "runs/ring.unfinished holds what was learned; `procrustes resume runs/ring` goes on\n"
    assert said == told + ("interrupted\n" if number == signal.SIGINT else "")
    assert not Path("runs/ring").exists()
    printed = procrustes("resume", "runs/ring")
    found = load_run("runs/ring")
    assert same(found.model, expected.model)
    assert (found.report["metrics"], found.report["epochs"]) == (expected.report["metrics"], expected.report["epochs"])
    assert found.report["curve"] == expected.report["curve"]
    assert found.report["repeat"].split(" --out")[0] == expected.report["repeat"].split(" --out")[0]
    assert re.search(r"going on\nfitted \d epochs in ", printed)
    assert re.search(r"\ntook \d+\.\d s since it was resumed\n", printed)
    assert [path.name for path in Path("runs").iterdir()] == ["ring"]


@pytest.mark.slow
@every_way
def test_what_failed_is_resumed_from_its_last_checkpoint(way, whole, procrustes, capsys, monkeypatch):
    expected = whole(way)
    with monkeypatch.context() as patch:
        put_folder, calls = checkpoints.put_folder, []

        def full(fresh, target):
            calls.append(target)
            if len(calls) == 3:
                raise OSError(28, "No space left on device")
            put_folder(fresh, target)

        patch.setattr(checkpoints, "put_folder", full)
        assert ended("train", "ring.tsv", *WAYS[way], "--checkpoint-every", "1") == 2
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert said.endswith("; `procrustes resume runs/ring` goes on from what was kept\n")
    procrustes("resume", "runs/ring", "--checkpoint-every", "2")
    assert same(load_run("runs/ring").model, expected.model)


def test_a_disk_that_is_full_when_the_run_is_saved_loses_little(whole, procrustes, capsys, monkeypatch):
    expected = whole("fast")
    with monkeypatch.context() as patch:

        def full(fresh, target):
            raise OSError(28, "No space left on device")

        patch.setattr(store, "put_folder", full)
        assert ended("train", "ring.tsv", *WAYS["fast"], "--checkpoint-every", "1") == 2
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert said.endswith("; `procrustes resume runs/ring` goes on from what was kept\n")
    procrustes("resume", "runs/ring")
    assert same(load_run("runs/ring").model, expected.model)


def test_a_second_signal_does_not_wait(capfd, monkeypatch):
    def twice(*_):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(TerminalWatcher, "learn", twice)
    assert ended("train", "ring.tsv", *TINY) == 130
    assert capfd.readouterr().err == ASKED.decode() + "nothing is kept of this training\ninterrupted\n"
    assert not Path("runs").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(("place", "writer"), [(store, "seal"), (checkpoints, "seal"), (jobs, "write_tensors")])
def test_a_signal_that_ends_the_command_while_it_writes_leaves_no_scratch(place, writer, times, capfd, monkeypatch):
    write, signals = getattr(place, writer), count()

    def interrupted(*given):
        write(*given)
        if next(signals) == 0:
            for _ in range(times):
                signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(place, writer, interrupted)
        assert ended("train", "ring.tsv", *TINY, "--checkpoint-every", "1") == 143
    assert "Traceback" not in capfd.readouterr().err
    assert list(Path("runs").rglob(".*")) == []
    for folder in Path("runs").glob("*"):
        assert examine(folder).sound


def test_a_training_that_was_stopped_is_not_begun_anew_unasked(procrustes, refused, whole, capsys, monkeypatch):
    expected = whole("accurate")
    with monkeypatch.context() as patch:
        after(2, monkeypatch=patch)
        ended("train", "ring.tsv", *WAYS["accurate"])
    capsys.readouterr()
    for ask in (("--out", "runs/ring"), ()):
        told = {"setting": "runs/ring.unfinished", "seen": "was stopped", "remedy": "procrustes resume runs/ring"}
        refused("train", "ring.tsv", *WAYS["accurate"], *ask, **told)
    procrustes("train", "ring.tsv", *WAYS["accurate"], "--anew")
    assert same(load_run("runs/ring").model, expected.model)
    assert not Path("runs/ring.unfinished").exists()


@pytest.mark.parametrize("asked", ["runs/ring", "runs/ring.unfinished"])
def test_what_needs_a_run_says_that_its_training_was_stopped(asked, refused, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        after(2, monkeypatch=patch)
        ended("train", "ring.tsv", *WAYS["accurate"])
    capsys.readouterr()
    told = {"setting": "runs/ring", "seen": "was stopped", "remedy": "procrustes resume runs/ring"}
    refused("predict", asked, "-H", "e0", "-r", "next", **told)
    refused("evaluate", asked, **told)


def test_a_folder_of_others_is_no_place_for_checkpoints(procrustes, refused):
    precious = Path("runs/ring.unfinished/mine.txt")
    precious.parent.mkdir(parents=True)
    precious.write_text("precious")
    told = {"setting": "runs/ring.unfinished", "seen": "mine.txt", "remedy": "choose another --out"}
    refused("train", "ring.tsv", *WAYS["fast"], "--anew", **told)
    jobs.remove(precious.parent)
    assert precious.read_text() == "precious"
    told = {"setting": "x.unfinished", "seen": "ends in .unfinished", "remedy": "choose another --out"}
    refused("train", "ring.tsv", *WAYS["fast"], "--out", "x.unfinished", **told)


def test_strangers_beside_checkpoints_stay(procrustes, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        after(2, monkeypatch=patch)
        ended("train", "ring.tsv", *WAYS["fast"])
    capsys.readouterr()
    precious = Path("runs/ring.unfinished/mine.txt")
    precious.write_text("precious")
    procrustes("resume", "runs/ring")
    assert [path.name for path in precious.parent.iterdir()] == ["mine.txt"]
    assert load_run("runs/ring").report["metrics"]


def test_what_is_called_a_checkpoint_and_is_none_does_not_matter(procrustes, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        after(2, monkeypatch=patch)
        ended("train", "ring.tsv", *WAYS["accurate"])
    capsys.readouterr()
    Path("runs/ring.unfinished/checkpoint-000000").write_text("")
    procrustes("resume", "runs/ring", "--checkpoint-every", "1")
    assert load_run("runs/ring").report["metrics"]


@pytest.mark.parametrize("place", ["gone/../run", "./run/"])
def test_a_place_is_the_same_however_it_is_spelled(place, procrustes):
    procrustes("train", "ring.tsv", *WAYS["fast"], "--out", place)
    assert load_run("run").report["metrics"]
    assert {path.name for path in Path().iterdir()} == {"ring.tsv", "run"}


def test_there_is_nothing_to_resume(refused, run):
    refused("resume", run, setting=str(run), seen="has ended", remedy="nothing to resume")
    refused("resume", "runs/missing", setting="runs/missing", seen="is missing", remedy="procrustes train")


def test_killed_before_anything_was_kept_it_is_trained_again(procrustes, refused):
    Path("runs/ring.unfinished/.job-1-x").mkdir(parents=True)  # scratch of a process that was killed
    refused("resume", "runs/ring", setting="runs/ring", seen="is missing", remedy="procrustes train")
    procrustes("train", "ring.tsv", *WAYS["fast"])
    assert [path.name for path in Path("runs").iterdir()] == ["ring"]


def test_a_damaged_job_is_refused(refused, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        after(1, monkeypatch=patch)
        ended("train", "ring.tsv", *WAYS["accurate"])
    capsys.readouterr()
    file = Path("runs/ring.unfinished/job/entities.txt")
    file.write_text(file.read_text().replace("e1\n", "e2\n"))
    refused("resume", "runs/ring", setting="runs/ring.unfinished", seen="damaged", remedy="train again")


def start(*arguments):
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "procrustes_kge", *map(str, arguments)]
    return subprocess.Popen(command, env=paths, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_trainings_into_one_folder_are_told_apart(whole):
    ask = ("train", "ring.tsv", *TINY[:-4], "--epochs", "100000", "--device", "cpu", "--checkpoint-every", "1")
    with start(*ask) as first:
        while not Path("runs/ring.unfinished").exists():
            time.sleep(0.05)
        with start(*ask) as second:
            _, said = second.communicate()
            assert "another process or thread is writing there" in said
            assert second.returncode == 2
        first.kill()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*left by a process that was killed")
@every_way
@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.25, 0.4])
def test_a_training_that_is_killed_is_resumed_to_the_same_model(way, seconds, whole):
    expected = whole(way)
    with start("train", "ring.tsv", *WAYS[way], "--checkpoint-every", "1") as training:
        while not Path("runs/ring.unfinished/job/manifest.json").exists() and training.poll() is None:
            time.sleep(0.005)
        time.sleep(seconds)
        training.kill()
    ended("resume", "runs/ring")
    assert same(load_run("runs/ring").model, expected.model)
    assert [path.name for path in Path("runs").iterdir()] == ["ring"]


def test_json_of_a_resumed_training_is_its_report(procrustes, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        after(2, monkeypatch=patch)
        ended("train", "ring.tsv", *WAYS["fast"])
    capsys.readouterr()
    report = json.loads(procrustes("resume", "runs/ring", "--json"))
    assert report == load_run("runs/ring").report
