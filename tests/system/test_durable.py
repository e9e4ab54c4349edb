"""Laws of files that survive a crash: exchanged whole, locked by one process, the lock gone with it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from laws import refused
from procrustes_kge.system import durable
from procrustes_kge.system.durable import checksum, exchange, flush, locked, put_folder


def folder(path, **files):
    path.mkdir()
    for name, content in files.items():
        (path / name).write_text(content)
    return path


def contents(path):
    return {file.name: file.read_text() for file in path.iterdir()}


def test_two_folders_take_each_others_place(tmp_path):
    one, other = folder(tmp_path / "one", a="1"), folder(tmp_path / "other", b="2")
    assert exchange(one, other) == (sys.platform in ("linux", "darwin"))
    assert (contents(one), contents(other)) == ({"b": "2"}, {"a": "1"})
    assert not exchange(one, tmp_path / "missing")
    assert contents(one) == {"b": "2"}


@pytest.mark.parametrize("at_once", [True, False])
def test_a_folder_is_put_in_the_place_of_another(at_once, tmp_path, monkeypatch):
    if not at_once:
        monkeypatch.setattr(durable, "exchange", lambda *_: False)
    target = tmp_path / "target"
    for name in "abc":
        put_folder(folder(tmp_path / "fresh", **{name: name}), target)
        assert contents(target) == {name: name}
        assert [*tmp_path.iterdir()] == [target]


def test_a_folder_that_cannot_be_put_leaves_what_was_there(tmp_path, monkeypatch):
    monkeypatch.setattr(durable, "exchange", lambda *_: False)
    target, fresh = folder(tmp_path / "target", a="1"), folder(tmp_path / "fresh", b="2")
    rename = Path.rename

    def failing(path, to):
        if path == fresh:
            raise OSError("no")
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="no"):
        put_folder(fresh, target)
    assert contents(target) == {"a": "1"}


def test_files_and_folders_are_flushed_and_summed(tmp_path):
    file = folder(tmp_path / "folder", a="abc") / "a"
    flush(file)
    flush(file.parent)
    assert checksum(file) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


HOLD = """
import sys, time
from pathlib import Path
from procrustes_kge.system.durable import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_the_second_to_write_is_told_and_a_crash_lets_go(tmp_path):
    target = tmp_path / "run"
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", HOLD, target], env=paths, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"locked\n"
        refused(locked(target).__enter__, setting=str(target), seen="another process", remedy="choose another place")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert [*tmp_path.iterdir()] == [tmp_path / ".run.lock"]
        with locked(target):
            pass
    assert not [*tmp_path.iterdir()]
