"""Laws of kept memory: parameters are set while anybody trains, and set back when the last has ended."""

import threading

import pytest
import torch

from procrustes_kge.system import allocator
from procrustes_kge.system.allocator import kept_memory


class Library:
    """Stands for the C library: remembers what it was told."""

    def __init__(self):
        self.values, self.trimmed = {}, 0

    def mallopt(self, parameter, value):
        self.values[parameter] = value

    def malloc_trim(self, _):
        self.trimmed += 1


@pytest.fixture
def library(monkeypatch):
    library = Library()
    monkeypatch.setattr(allocator, "_glibc", lambda: library)
    return library


def test_what_is_freed_is_kept_within_and_given_back_at_the_end(library):
    with kept_memory():
        assert library.values == allocator._KEEP
        assert library.trimmed == 0
    assert library.values == allocator._KEEP | allocator._GIVE_BACK
    assert library.trimmed == 1


def test_an_error_gives_back_too(library):
    with pytest.raises(ZeroDivisionError), kept_memory():
        raise ZeroDivisionError
    assert library.trimmed == 1


def test_the_last_of_several_users_gives_back(library):
    inside, leave = threading.Event(), threading.Event()

    def other():
        with kept_memory():
            inside.set()
            leave.wait(10)

    with kept_memory():
        thread = threading.Thread(target=other)
        thread.start()
        inside.wait(10)
    assert library.trimmed == 0
    leave.set()
    thread.join()
    assert library.trimmed == 1


def test_elsewhere_nothing_happens(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    assert allocator._glibc() is None
    with kept_memory():
        assert torch.ones(10).sum() == 10


def test_results_do_not_change():
    values = torch.rand(300_000, generator=torch.Generator().manual_seed(0))
    with kept_memory():
        within = values.sort().values.cumsum(0)
    assert within.equal(values.sort().values.cumsum(0))
