"""Laws of the process: importing the library changes nothing, and preparing it changes what it says and no more."""

import json
import os
import subprocess
import sys

import pytest

from procrustes_kge.system import process
from procrustes_kge.system.process import give_back, prepare_process

OURS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "GLIBC_TUNABLES", "MALLOC_")
on_glibc = pytest.mark.skipif(process._glibc() is None, reason="there is no glibc here")


def printed(code, **environment):
    """Return what a new Python prints as JSON."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=kept | environment, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def test_importing_the_library_changes_nothing():
    assert printed("""
import json, os, sys, threading
before = dict(os.environ)
import procrustes_kge
dir(procrustes_kge)
print(json.dumps([os.environ == before, "torch" in sys.modules, threading.active_count()]))
""") == [True, False, 1]


def test_preparing_loads_no_pytorch_and_lets_idle_threads_sleep():
    assert printed("""
import json, os, sys
before = dict(os.environ)
from procrustes_kge.system.process import prepare_process
prepare_process()
print(json.dumps([dict(os.environ.items() - before.items()), "torch" in sys.modules]))
""") == [{"GOMP_SPINCOUNT": "10000"}, False]


@pytest.mark.parametrize(("name", "value"), [("OMP_WAIT_POLICY", "active"), ("GOMP_SPINCOUNT", "7")])
def test_a_waiting_policy_of_the_users_own_stays(monkeypatch, name, value, mallopt):
    for each in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, value)
    before = dict(os.environ)
    prepare_process()
    assert os.environ == before


@pytest.mark.slow
def test_the_command_prepares_its_process_before_pytorch_is_loaded():
    assert printed("""
import json, sys
from procrustes_kge.cli import main
from procrustes_kge.system import process
seen = []
process.prepare_process = lambda: seen.append("torch" in sys.modules)
sys.stdout, out = sys.stderr, sys.stdout
try:
    main(["train", "--help"])
except SystemExit:
    print(json.dumps([*seen, "torch" in sys.modules]), file=out)
""") == [False, True]


# Memory.

RESIDENT = """
def resident():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
"""


@on_glibc
def test_what_is_freed_is_kept_until_it_is_given_back():
    kept, left = printed(f"""
import json, os
from procrustes_kge.system.process import give_back, prepare_process
{RESIDENT}
prepare_process()
before = resident()
blocks = [b"x" * 2**20 for _ in range(100)]
del blocks
kept = resident() - before
give_back()
print(json.dumps([kept, resident() - before]))
""")
    assert kept > 90
    assert left < 30


class Library:
    """Stands for the C library: remembers what it was asked for."""

    def __init__(self):
        self.values, self.trimmed = {}, 0

    def mallopt(self, parameter, value):
        self.values[parameter] = value

    def malloc_trim(self, _):
        self.trimmed += 1


@pytest.fixture
def mallopt(monkeypatch):
    """Keep the tests' own process as it is."""
    for name in [name for name in os.environ if name.startswith(OURS)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GOMP_SPINCOUNT", "1")
    library = Library()
    monkeypatch.setattr(process, "_glibc", lambda: library)
    return library


def test_all_parameters_are_set(mallopt):
    prepare_process()
    assert mallopt.values == dict(process._KEEP.values())
    assert mallopt.trimmed == 0
    give_back()
    assert mallopt.trimmed == 1


@pytest.mark.parametrize(
    ("name", "value", "parameter"),
    [
        ("MALLOC_ARENA_MAX", "4", -8),
        ("MALLOC_MMAP_THRESHOLD_", "65536", -3),
        ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.trim_threshold=65536", -1),
    ],
)
def test_parameters_that_the_user_has_set_stay(monkeypatch, mallopt, name, value, parameter):
    monkeypatch.setenv(name, value)
    prepare_process()
    assert mallopt.values.keys() == {-8, -3, -1} - {parameter}


def test_without_glibc_nothing_happens(monkeypatch):
    monkeypatch.setenv("GOMP_SPINCOUNT", "1")
    monkeypatch.setattr("sys.platform", "darwin")
    assert process._glibc() is None
    prepare_process()
    give_back()
