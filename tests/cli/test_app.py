"""Laws of the command as a whole: help, usage, and what another process sees of it."""

import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from commands import contents
from laws import slow_but
from procrustes_kge import __version__
from procrustes_kge.cli import main


def test_the_version_is_printed(procrustes):
    assert procrustes("--version") == f"procrustes-kge {__version__}\n"


COMMANDS = (
    "",
    "train",
    "evaluate",
    "predict",
    "score",
    "neighbours",
    "analogy",
    "relations",
    "report",
    "export",
    "check",
    "data",
    "data get",
    "bench",
    "bench speed",
    "bench table",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(command, procrustes):
    page = procrustes(*command.split(), "--help")
    assert f"Usage: procrustes {command}".strip() in page
    assert page == procrustes(*command.split(), "-h")
    if command in ("", "train", "evaluate", "predict", "score", "neighbours", "analogy"):
        assert f"procrustes {command or 'train'}" in page.partition("Usage")[2].partition("\n")[2]  # an example


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "ring.tsv", "--optimizer", "sgd"], "No such option: --optimizer"),
        (["fit"], "No such command 'fit'"),
        (["evaluate"], "Missing argument"),
        (["export", "runs/x"], "Missing argument"),
    ],
    ids=lambda value: " ".join(value[2:] or value) if isinstance(value, list) else "",
)
def test_arguments_that_make_no_sense_are_refused_with_the_usage(arguments, message, failed):
    said = failed(*arguments)
    assert re.search(message, said)
    assert said.startswith("Usage: procrustes")
    assert "Traceback" not in said


def process(*arguments):
    """Run Python in another process."""
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, *arguments], env=paths, capture_output=True, check=False)


def test_the_module_is_the_command():
    ended = process("-m", "procrustes_kge", "--version")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.decode() == f"procrustes-kge {__version__}\n"


def test_the_version_is_printed_without_pytorch():
    ended = process("-X", "importtime", "-m", "procrustes_kge", "--version")
    loaded = {line.rpartition(b"|")[2].strip() for line in ended.stderr.splitlines()}
    assert b"procrustes_kge.cli" in loaded
    assert not loaded & {b"torch", b"numpy", b"polars"}


def test_a_name_that_the_terminal_cannot_show_does_not_hide_the_error(monkeypatch):
    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(shown, encoding="ascii", write_through=True))
    with pytest.raises(SystemExit) as ended:
        main(["train", "ring.tsv", "--separator", "☃"])
    assert ended.value.code == 2
    assert re.fullmatch(rb"error: separator '\\u2603' is not known; [^\n]+\n", shown.getvalue())
    assert contents().keys() == {"../desk", "../desk/ring.tsv"}


# What happens to the process.


@pytest.mark.skipif(os.name != "posix", reason="signals are another thing here")
@pytest.mark.parametrize("moment", slow_but(["torch._C"], ["typer", "numpy", "torch._C"]))
def test_ctrl_c_while_modules_load_is_one_word(moment):
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-X", "importtime", "-m", "procrustes_kge", "train", "ring.tsv"]
    with subprocess.Popen(command, env=paths, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        lines = iter(started.stderr)
        assert any(line.rpartition("|")[2].strip() == moment for line in lines)
        started.send_signal(signal.SIGINT)
        said = [line for line in lines if not line.startswith("import time:")]
        assert (said, started.stdout.read()) == (["interrupted\n"], "")
    assert started.returncode == 130


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are another thing here")
@pytest.mark.parametrize("moment", slow_but(["at work", "ignored"], ["at work", "around it", "at the end", "ignored"]))
def test_ctrl_c_at_any_other_moment_is_one_word_too(moment):
    kill = "os.kill(os.getpid(), signal.SIGINT)"
    code = f"""
import atexit, os, signal, sys
from procrustes_kge import cli
from procrustes_kge.cli import app, data
kill = lambda *_: {kill}
if {moment!r} == "at work":
    data.datasets.DATASETS = type("Interrupting", (), {{"values": kill}})
elif {moment!r} == "around it":
    app.run = kill
elif {moment!r} == "at the end":
    atexit.register(kill)
else:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    app.run = kill
sys.argv = ["procrustes", "data"]
cli.main()
"""
    ended = process("-c", code)
    expected = (0, b"") if moment == "ignored" else (130, b"interrupted\n")
    assert (ended.returncode, ended.stderr) == expected


@pytest.mark.parametrize(
    ("read", "buffered"),
    [
        (b"", ""),
        pytest.param(b"wordnet", "1", marks=pytest.mark.slow),
        pytest.param(b"", "1", marks=pytest.mark.slow),
        pytest.param(b"wordnet", "", marks=pytest.mark.slow),
    ],
)
def test_output_that_nobody_reads_is_no_failure(buffered, read):
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": buffered}
    command = [sys.executable, "-m", "procrustes_kge", "data"]
    with subprocess.Popen(command, env=paths, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stdout.read(len(read)) == read
        started.stdout.close()
        assert started.stderr.read() == b""
    assert started.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk to write to")
@pytest.mark.parametrize("buffered", ["", pytest.param("1", marks=pytest.mark.slow)], ids=["buffered", "unbuffered"])
def test_output_that_cannot_be_written_is_one_sentence(buffered):
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": buffered}
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "procrustes_kge", "data"]
        ended = subprocess.run(command, env=paths, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert re.fullmatch(r"error: the output cannot be written \(No space left on device\); [^\n]+\n", ended.stderr)


def test_a_folder_that_may_not_be_looked_into_is_one_sentence(refused, monkeypatch):
    real = Path.stat

    def forbidden(path, **options):
        if "locked" in path.parts:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, **options)

    monkeypatch.setattr(Path, "stat", forbidden)
    refused("evaluate", "locked/run", setting="locked/run", seen="Permission denied", remedy="check its name and")
