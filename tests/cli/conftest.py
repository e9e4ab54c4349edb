"""Every test of the command line runs in a folder of its own, with a small graph in it and no network."""

import io
import shutil
import urllib.error
import urllib.request
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from commands import RING, TINY, contents
from laws import explained
from procrustes_kge.cli import main
from procrustes_kge.runs.store import save
from procrustes_kge.training import costs
from toys import planted_model


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Run every test in a folder of its own, far from the network, the user's settings and the width of a terminal."""
    for name in ("PROCRUSTES_DATA", "PROCRUSTES_GRID", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PROCRUSTES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr(urllib.request, "urlopen", _no_network)
    # A plan that is less exact serves here: timing a training would take longer than the training.
    monkeypatch.setattr(costs, "WARM_UP", 1)
    monkeypatch.setattr(costs, "MOST_CALLS", 2)
    (tmp_path / "desk").mkdir()
    monkeypatch.chdir(tmp_path / "desk")
    Path("ring.tsv").write_text(RING)
    return tmp_path / "desk"


def _no_network(*_, **__):
    raise urllib.error.URLError("no network here")


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A run folder to copy, and the JSON that was printed when it was made."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "ring.tsv").write_text(RING)
    with redirect_stdout(io.StringIO()) as output, pytest.raises(SystemExit) as ended:
        main(["train", str(folder / "ring.tsv"), "--out", str(folder / "run"), "--json", *TINY])
    assert ended.value.code == 0
    return folder / "run", output.getvalue()


@pytest.fixture
def run(trained, here):
    """A copy of the trained run, at runs/ring."""
    return Path(shutil.copytree(trained[0], here / "runs" / "ring")).relative_to(here)


@pytest.fixture
def planted(here):
    """A run that answers every query, with labels."""
    model, graph = planted_model()
    save(model, "runs/planted", graph)
    return model, graph


@pytest.fixture
def procrustes(capsys):
    """Run a command that must succeed, in silence on standard error; return what it printed."""

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        assert (ended.value.code, output.err) == (0, "")
        return output.out

    return call


@pytest.fixture
def failed(capsys):
    """Run a command that must fail with code 2 and leave the disk as it was; return what standard error says.

    What is wrong for this graph alone is said when the graph has been described; all else before anything is printed.
    """

    def call(*arguments, described=False):
        before = contents()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        assert (ended.value.code, output.out != "") == (2, described)
        assert contents() == before
        return output.err

    return call


@pytest.fixture
def refused(failed):
    """Run a command that must fail with one line that names a setting, a value and a remedy; return it."""

    def call(*arguments, setting, seen, remedy, described=False):
        said = failed(*arguments, described=described)
        assert said.startswith("error: ")
        assert said.endswith("\n")
        return explained(said[7:-1], setting=setting, seen=seen, remedy=remedy)

    return call
