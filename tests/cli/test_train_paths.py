"""Laws of `procrustes train --paths`: what it says, saves and reports, and that it goes on where it was stopped."""

import json
import re
import signal
from pathlib import Path

import pytest

from commands import TINY
from procrustes_kge.cli import main, terminal
from procrustes_kge.cli.interrupts import INTERRUPTED
from procrustes_kge.models.with_paths import WithPaths
from procrustes_kge.runs.checkpoints import FolderCheckpoints
from procrustes_kge.runs.store import load_run
from procrustes_kge.training import paths
from toys import same

SMALL = (*TINY, "--workers", "1")


def test_paths_are_said_saved_and_reported(procrustes):
    printed = procrustes("train", "ring.tsv", "--paths", *SMALL)
    assert re.search(r"\nweighed \d+ paths in \d+\.\d s   valid MRR \.\d{3} without, (\.\d{3}|1\.000) with\n", printed)
    assert printed.splitlines()[-1].endswith(" --paths")
    run = load_run("runs/ring")
    assert isinstance(run.model, WithPaths)
    about = json.loads(Path("runs/ring/report.json").read_text())["paths"]
    assert about["paths"] == len(run.model.paths) > 0
    assert about["valid"]["gain"] > 0  # who is next to the next is after next
    assert run.report["footprint"]["seconds"] >= about["seconds"]
    procrustes("evaluate", "runs/ring")
    procrustes("check", "runs/ring")
    procrustes("predict", "runs/ring", "--head", "e3", "--relation", "after next")
    procrustes("export", "runs/ring", "vectors.npy")
    procrustes("train", "ring.tsv", "--paths", *SMALL, "--out", "again")
    assert same_run(load_run("again"), run)


def test_without_the_switch_there_are_none(procrustes):
    procrustes("train", "ring.tsv", *SMALL)
    run = load_run("runs/ring")
    assert not isinstance(run.model, WithPaths)
    assert "paths" not in run.report


@pytest.mark.filterwarnings("always:trained without paths")
def test_where_paths_do_not_fit_into_memory_what_was_learned_is_saved(monkeypatch, capsys):
    def too_large(*_):
        raise RuntimeError("tried to allocate 4 TB")

    monkeypatch.setattr(paths, "mined", too_large)
    with pytest.raises(SystemExit) as ended:
        main(["train", "ring.tsv", "--paths", *SMALL])
    assert not ended.value.code
    assert "without paths" in capsys.readouterr().err
    assert not isinstance(load_run("runs/ring").model, WithPaths)


def test_a_baseline_may_have_paths(procrustes):
    few = ("--dim", "16", "--epochs", "2", "--device", "cpu", "--workers", "1")
    procrustes("train", "ring.tsv", "--model", "distmult", "--paths", *few)
    assert load_run("runs/ring").model.embedding.name == "distmult"


def test_within_a_time_there_are_paths_too(procrustes):
    procrustes("train", "ring.tsv", "--paths", "--time", "60s", "--no-tune", "--device", "cpu", "--epochs", "2")
    assert isinstance(load_run("runs/ring").model, WithPaths)


def test_what_was_stopped_ends_as_if_nothing_had_happened(procrustes, monkeypatch, capsys):
    procrustes("train", "ring.tsv", "--paths", *SMALL, "--out", "whole")
    due = FolderCheckpoints.due

    def stopped(self, part, epoch):
        signal.raise_signal(signal.SIGINT)
        return due(self, part, epoch)

    with monkeypatch.context() as patch:
        patch.setattr(FolderCheckpoints, "due", stopped)
        with pytest.raises(SystemExit) as end:
            main(["train", "ring.tsv", "--paths", *SMALL])
    assert end.value.code == INTERRUPTED
    assert not Path("runs/ring").exists()
    capsys.readouterr()
    procrustes("resume", "runs/ring")
    assert same_run(load_run("runs/ring"), load_run("whole"))


def test_killed_while_paths_are_weighed_it_goes_on(procrustes, monkeypatch, capsys):
    procrustes("train", "ring.tsv", "--paths", *SMALL, "--out", "whole")

    def killed(*_, **__):
        raise SystemExit(99)

    with monkeypatch.context() as patch:
        patch.setattr("procrustes_kge.cli.terminal.with_paths", killed)
        with pytest.raises(SystemExit):
            main(["train", "ring.tsv", "--paths", "--checkpoint-every", "1", *SMALL])
    capsys.readouterr()
    procrustes("resume", "runs/ring")
    assert same_run(load_run("runs/ring"), load_run("whole"))


@pytest.mark.filterwarnings("always:trained without paths")
def test_asked_to_stop_while_paths_are_weighed_it_saves_what_was_learned(monkeypatch, capsys):
    weigh = terminal.with_paths

    def stopped(*arguments):
        signal.raise_signal(signal.SIGINT)
        return weigh(*arguments)

    monkeypatch.setattr(terminal, "with_paths", stopped)
    with pytest.raises(SystemExit) as ended:
        main(["train", "ring.tsv", "--paths", *SMALL])
    assert ended.value.code == INTERRUPTED
    said = capsys.readouterr().err
    assert "trained without paths" in said
    assert "`procrustes evaluate runs/ring` ranks it" in said
    assert not isinstance(load_run("runs/ring").model, WithPaths)


def same_run(one, other):
    """Say whether two runs have equal models, bit for bit."""
    tables = other.model.evidence_tables()
    evidence = all(table.equal(tables[name]) for name, table in one.model.evidence_tables().items())
    return evidence and same(one.model.embedding, other.model.embedding)
