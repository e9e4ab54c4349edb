"""Laws of the campaigns: a few dozen of what the scripts do by the thousand, and faults that they have to find."""

import importlib
import os
import time
from pathlib import Path

import pytest
import torch

from procrustes_kge.errors import InputError
from procrustes_kge.runs.contents import FORMAT
from procrustes_kge.system.sealed import seal

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the campaigns fork processes")


@pytest.fixture(autouse=True)
def one_thread(unchecked):
    """A process that is forked has no other threads, and would wait for them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def script(monkeypatch):
    """Return a script by its name."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module


@pytest.fixture(scope="module")
def masters(tmp_path_factory):
    """The folders to damage."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        return importlib.import_module("masters").made(tmp_path_factory.mktemp("masters"))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("damages", 90), ("absurd settings", 90)])
def test_nothing_damaged_is_believed(name, count, masters, script, tmp_path):
    damages = script("damages")
    change = {"damages": damages.damaged, "absurd settings": damages.make_absurd}[name]
    row = damages.campaign(name, change, masters, count, 7, tmp_path)
    assert row["findings"] == []
    assert sum(row["ends"].values()) == count
    assert row["ends"][damages.DETECTED] > count // 2


@pytest.mark.slow
def test_what_is_believed_is_found(masters, script, tmp_path):
    damages = script("damages")

    def sealed_again(chance, folder, masters):
        names = folder / "entities.txt"
        names.write_text(names.read_text().replace("entity 3\n", "entity three\n"))
        seal(folder, "run", FORMAT)
        return "a name: sealed again"

    runs = [master for master in masters if master.name == "complex"]
    row = damages.campaign("believed", sealed_again, runs, 2, 7, tmp_path)
    assert row["ends"] == {damages.BELIEVED: 2}
    assert len(row["findings"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["saved", "renamed", "report", "swapped", "swapped, not verified"])
def test_a_run_that_is_replaced_while_it_is_loaded_is_one_run_or_the_other(kind, script, tmp_path):
    row = script("races").race(kind, 60, tmp_path / "run")
    assert (row["mixed"], row["other"], row["said"]) == (0, 0, {})
    assert row["fast"] + row["distmult"] + row["again"] == 60


def ends(kind):
    """End in one way."""
    if kind == "refused":
        raise InputError("no; try another")
    if kind == "fails":
        raise KeyError("no")
    if kind == "dies":
        os.kill(os.getpid(), 9)
    if kind == "waits":
        time.sleep(1)
    if kind == "takes":
        bytearray(10**9)
    if kind == "hangs":
        time.sleep(60)
    return kind


@pytest.mark.slow
def test_every_way_to_end_is_told_apart(script):
    watched = script("watched")
    expected = {
        **{"ends": watched.DONE, "refused": watched.REFUSED, "fails": watched.TRACEBACK},
        **{"dies": watched.CRASHED, "waits": watched.SLOW, "takes": watched.HUNGRY, "hangs": watched.SLOW},
    }
    found = {kind: watched.watched(ends, kind, seconds=0.5).kind for kind in expected}
    assert found == expected
