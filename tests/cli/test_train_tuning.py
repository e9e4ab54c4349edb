"""Laws of `procrustes train` where it searches for settings: what it prints and keeps, and how it is stopped."""

import json
import signal
import sys
from pathlib import Path

import pytest

from laws import slow_but
from procrustes_kge.cli import job as cli_job, main
from procrustes_kge.runs.checkpoints import FolderCheckpoints
from procrustes_kge.runs.examining import examine
from procrustes_kge.runs.store import load_run
from procrustes_kge.training.trials import Judge
from toys import same

SMALL = ("--dim", "24", "--segment", "4", "--batch", "64", "--epochs", "2", "--device", "cpu", "--workers", "1")


@pytest.fixture(autouse=True)
def graph():
    """A graph that has enough triples to judge by: whoever knows the next knows the second and the third next."""
    rows = [f"e{i}\t{name}\te{(i + step) % 120}" for i in range(120) for name, step in (("a", 1), ("b", 2), ("c", 3))]
    Path("wheel.tsv").write_text("\n".join(rows) + "\n")


def ended(*arguments):
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


def test_a_search_is_printed_reported_and_repeated(procrustes):
    printed = procrustes("train", "wheel.tsv", "--trials", "12", *SMALL)
    report = json.loads(Path("runs/wheel/report.json").read_text())
    trials = report["tuning"]["trials"]
    assert len(trials) <= 12
    assert {"changes", "valid_mrr", "seconds"} <= trials[0].keys()
    assert f"tuned  {len(trials)} trials in " in printed
    settings = load_run("runs/wheel").settings
    assert all(getattr(settings, name) == value for name, value in report["tuning"]["chosen"].items())
    assert (settings.dim, settings.epochs) == (24, 2)
    expected = load_run("runs/wheel").model
    again = report["repeat"].split()[1:]
    assert "--trials" not in again
    procrustes(*again, "--out", "runs/again")
    assert same(load_run("runs/again").model, expected)


def test_a_baseline_is_searched_for_by_trials(procrustes):
    flags = ("--model", "distmult", "--trials", "4", "--dim", "8", "--epochs", "2", "--device", "cpu")
    assert "tuned  4 trials in " in procrustes("train", "wheel.tsv", *flags)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--trials", "20", "--time", "1m"), {"setting": "--trials", "seen": "--time", "remedy": "leave one out"}),
        (("--trials", "20", "--no-tune"), {"setting": "--trials", "seen": "--no-tune", "remedy": "leave one"}),
        (("--trials", "1"), {"setting": "trials", "seen": "1", "remedy": "at least"}),
        (("--recipe", "paper", "--trials", "9"), {"setting": "paper", "seen": "not tuned", "remedy": "--recipe"}),
        (("--recipe", "fast", "--tune"), {"setting": "fast", "seen": "not tuned", "remedy": "--trials"}),
    ],
)
def test_searches_that_cannot_be_are_refused(refused, flags, told):
    refused("train", "wheel.tsv", *flags, **told)


@pytest.mark.slow
def test_without_a_search_there_is_none(procrustes):
    printed = procrustes("train", "wheel.tsv", "--no-tune", "--time", "5s", "--device", "cpu", "--workers", "1")
    assert "tuned" not in printed
    assert "tuning" not in json.loads(Path("runs/wheel/report.json").read_text())


def test_a_graph_with_too_few_triples_is_trained_with_the_default_and_that_is_said(procrustes):
    Path("few.tsv").write_text("a\tr\tb\nb\tr\tc\nc\tr\ta\na\ts\tc\n")
    printed = procrustes("train", "few.tsv", "--trials", "8", "--epochs", "2", "--dim", "20", "--device", "cpu")
    assert "\nnot tuned: " in printed
    assert "0 trials" not in printed
    assert load_run("runs/few").report["tuning"]["trials"] == []


def signal_in_trial(number, patch):
    """Let Ctrl-C come in a trial."""
    tried, calls = Judge.try_out, []

    def counted(*arguments, **named):
        calls.append(1)
        if len(calls) == number:
            signal.raise_signal(signal.SIGINT)
        return tried(*arguments, **named)

    patch.setattr(Judge, "try_out", counted)


@pytest.mark.slow
@pytest.mark.parametrize("number", slow_but([6], [2, 6, 11]))
def test_a_stopped_search_is_resumed_to_the_same_end(number, procrustes, monkeypatch, capsys):
    procrustes("train", "wheel.tsv", "--trials", "12", *SMALL, "--out", "whole")
    expected = load_run("whole")
    with monkeypatch.context() as patch:
        signal_in_trial(number, patch)
        assert ended("train", "wheel.tsv", "--trials", "12", *SMALL) == 130
    assert "`procrustes resume runs/wheel` goes on" in capsys.readouterr().err
    assert examine("runs/wheel").sound
    procrustes("resume", "runs/wheel")
    found = load_run("runs/wheel")
    assert same(found.model, expected.model)
    assert found.settings == expected.settings
    assert found.report["metrics"] == expected.report["metrics"]


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["y\n", "\n", ""])
def test_a_person_is_asked_whether_the_best_so_far_will_do(answer, monkeypatch, capsys):
    class Terminal:
        def __init__(self, stream):
            self.stream = stream

        def isatty(self):
            return True

        def readline(self):
            return answer

        def __getattr__(self, name):
            return getattr(self.stream, name)

    monkeypatch.setattr(cli_job.sys, "stdin", Terminal(sys.stdin))
    monkeypatch.setattr(cli_job.sys, "stderr", Terminal(sys.stderr))
    signal_in_trial(6, monkeypatch)
    code = ended("train", "wheel.tsv", "--trials", "40", *SMALL)
    assert "trials so far, the best with a validation MRR of" in capsys.readouterr().err
    assert code == (0 if answer.startswith("y") else 130)
    assert Path("runs/wheel").exists() == answer.startswith("y")
    assert Path("runs/wheel.unfinished").exists() != answer.startswith("y")


@pytest.mark.slow
def test_a_kill_in_the_training_after_a_search_loses_no_trial(procrustes, monkeypatch, capsys):
    procrustes("train", "wheel.tsv", "--trials", "6", *SMALL, "--out", "whole")
    expected = load_run("whole")
    put = FolderCheckpoints.put

    def killed(self, *arguments):
        put(self, *arguments)
        raise SystemExit(9)

    with monkeypatch.context() as patch:
        patch.setattr(FolderCheckpoints, "put", killed)
        assert ended("train", "wheel.tsv", "--trials", "6", *SMALL, "--checkpoint-every", "1") == 9
    capsys.readouterr()
    monkeypatch.setattr(Judge, "try_out", None)
    procrustes("resume", "runs/wheel")
    found = load_run("runs/wheel")
    assert same(found.model, expected.model)
    assert found.report["tuning"]["chosen"] == expected.report["tuning"]["chosen"]
