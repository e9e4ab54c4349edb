"""Laws of `procrustes check`: what is sound, damaged, left over or nothing of ours is told apart."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from commands import TINY
from folders import edit_settings, reseal
from procrustes_kge.cli import main
from procrustes_kge.runs.checkpoints import FolderCheckpoints
from procrustes_kge.runs.jobs import write_table


def ended(*arguments):
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


@pytest.fixture
def verdict(capsys):
    """Check a folder; return the code that the command ends with, and what it prints as JSON."""

    def checked(folder):
        code = ended("check", folder, "--json")
        return code, json.loads(capsys.readouterr().out)

    return checked


@pytest.fixture
def stopped(monkeypatch, capsys):
    """A training that was stopped, with two checkpoints."""
    due, calls = FolderCheckpoints.due, []

    def counted(self, part, epoch):
        calls.append(epoch)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return due(self, part, epoch)

    with monkeypatch.context() as patch:
        patch.setattr(FolderCheckpoints, "due", counted)
        assert ended("train", "ring.tsv", *TINY, "--checkpoint-every", "1") == 130
    capsys.readouterr()
    return Path("runs/ring.unfinished")


def test_a_sound_run_is_said_to_be_so(run, procrustes, verdict):
    first, last = procrustes("check", run).splitlines()
    assert first.startswith("runs/ring   a run, ")
    assert last == "sound    every file is as it was saved, and they belong together"
    code, found = verdict(run)
    assert (code, found["sound"], found["kind"], found["problems"]) == (0, True, "run", {})
    sealed = (file for file in run.iterdir() if file.name not in ("manifest.json", "README.md"))
    assert found["bytes"] == sum(file.stat().st_size for file in sealed)


def test_what_is_damaged_and_what_is_not_ours_is_named(run, verdict, capsys):
    names = run / "entities.txt"
    names.write_text(names.read_text().replace("e1\n", "x1\n"))
    (run / "relations.txt").unlink()
    (run / "notes").write_text("mine")
    code, found = verdict(run)
    assert (code, found["sound"], found["others"]) == (1, False, ["notes"])
    assert found["problems"].keys() == {"entities.txt", "relations.txt"}
    assert ended("check", run) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["damaged", "damaged", "other", "to"]


def test_files_that_are_whole_and_do_not_belong_together_are_damaged(run, verdict):
    edit_settings(model="rotate")(run)
    reseal(run)
    code, found = verdict(run)
    assert (code, list(found["problems"])) == (1, ["ring"])
    assert "rotate" in found["problems"]["ring"]


@pytest.mark.parametrize("place", ["nowhere", "ring.tsv", "."])
def test_what_is_no_run_is_refused(place, refused):
    refused("check", place, setting=place, seen="", remedy="`procrustes train`")


def test_a_run_of_another_format_is_refused_and_not_called_damaged(run, refused):
    reseal(run, format=99)
    refused("check", run, setting=run, seen="format 99", remedy="upgrade")


@pytest.mark.parametrize("asked", ["runs/ring", "runs/ring.unfinished"])
def test_a_training_that_was_stopped_is_sound(asked, stopped, verdict):
    code, found = verdict(asked)
    assert (code, found["folder"], found["kind"]) == (0, str(stopped), "training that was stopped")
    assert found["whole"] == ["checkpoint-000001", "checkpoint-000002"]
    for each in found["whole"]:
        assert verdict(stopped / each)[1]["kind"] == "checkpoint"


def test_a_damaged_checkpoint_is_named_and_the_whole_one_too(stopped, verdict, capsys):
    facts = stopped / "checkpoint-000002" / "facts.json"
    facts.write_bytes(facts.read_bytes()[:-1])
    code, found = verdict(stopped)
    assert (code, found["whole"]) == (1, ["checkpoint-000001"])
    assert list(found["problems"]) == ["checkpoint-000002/facts.json"]
    ended("check", stopped)
    assert "`procrustes resume runs/ring.unfinished` goes on" in capsys.readouterr().out.splitlines()[-1]
    shutil.rmtree(stopped / "job")
    (stopped / "job").mkdir()
    ended("check", stopped)
    assert "or train again" in capsys.readouterr().out.splitlines()[-1]


def test_a_table_that_was_stopped_is_examined_with_its_trainings(stopped, verdict):
    place = Path("results.unfinished")
    write_table({"only": [], "device": "cpu", "markdown": False, "as_json": False}, place)
    shutil.copytree(stopped / "checkpoint-000002", place / "fast-umls" / "checkpoint-000002")
    (place / "rotate-umls.json").write_text("{}")
    code, found = verdict("results")
    assert (code, found["whole"]) == (0, ["fast-umls/checkpoint-000002"])
    (place / "rotate-umls.json").write_text("[")
    (place / "fast-umls" / "checkpoint-000002" / "facts.json").write_text("{}")
    code, found = verdict("results")
    assert (code, found["whole"]) == (1, [])
    assert found["problems"].keys() == {"rotate-umls.json", "fast-umls/checkpoint-000002/facts.json"}


SCRATCH = """
import os, signal, sys
from pathlib import Path
from procrustes_kge.system.files import scratch_folder
with scratch_folder(Path(sys.argv[1])) as scratch:
    (scratch / "half").write_text("half")
    print(scratch, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="here nobody knows which processes have ended")
@pytest.mark.filterwarnings("always")
def test_what_a_killed_process_left_is_named_and_the_next_writer_deletes_it(run, verdict, capsys):
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    killed = subprocess.run([sys.executable, "-c", SCRATCH, run], env=paths, stdout=subprocess.PIPE, check=False)
    left = Path(killed.stdout.decode().strip())
    assert left.is_dir()
    code, found = verdict(run)
    assert (code, [Path(each).name for each in found["scratch"]]) == (0, [left.name])
    ended("evaluate", run)
    said = capsys.readouterr().err
    assert re.fullmatch(rf"note: .*{left.name}: left by a process that was killed while it wrote .*; deleted\n", said)
    assert not left.exists()
    assert verdict(run)[1]["scratch"] == []
