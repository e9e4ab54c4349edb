"""Laws of switches of the whole process: the strictest wish holds, the last user leaves what the first one found."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, strategies as st

from procrustes_kge.system.precision import (
    WORKSPACE,
    Switch,
    deterministic_algorithms,
    exact_products,
    rough_products,
)

ON_A_GPU = (torch.backends.cuda.matmul, torch.backends.cudnn.conv)
ALL = (*ON_A_GPU, torch.backends.mkldnn.matmul)
PATIENCE = 30  # seconds until a wait that should end at once is given up: only a failure takes so long


def precisions(backends=ALL):
    return [backend.fp32_precision for backend in backends]


@pytest.fixture(params=["none", "ieee", "tf32"])
def before(request):
    """What was there before: a user's own choice."""
    kept = precisions()
    for backend in ON_A_GPU:
        backend.fp32_precision = request.param
    yield precisions()
    for backend, precision in zip(ALL, kept, strict=True):
        backend.fp32_precision = precision


def test_products_are_exact_inside_and_as_before_outside(before):
    with exact_products():
        assert precisions() == ["ieee"] * 3
    assert precisions() == before


def test_rough_products_are_those_of_a_gpu(before):
    with rough_products():
        assert precisions() == ["tf32", "tf32", before[2]]
    assert precisions() == before


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("products", [exact_products, rough_products])
def test_what_was_there_comes_back_after_an_error(before, products, error):
    with pytest.raises(error), products():
        raise error
    assert precisions() == before


def test_exact_wins_over_rough_whichever_is_within(before):
    with rough_products():
        with exact_products():
            assert precisions(ON_A_GPU) == ["ieee"] * 2
        assert precisions() == ["tf32", "tf32", before[2]]
    with exact_products():
        with rough_products():
            assert precisions(ON_A_GPU) == ["ieee"] * 2
        assert precisions() == ["ieee"] * 3
    assert precisions() == before


def test_a_thread_that_ends_first_takes_nothing_from_the_other(before):
    """Saving and restoring alone would leave the first thread's exact products to the end of the process."""
    inside, leave = threading.Event(), threading.Event()

    def learn():
        with rough_products():
            inside.set()
            assert leave.wait(PATIENCE)
            return precisions()

    with ThreadPoolExecutor(1) as pool:
        with exact_products():
            learning = pool.submit(learn)
            assert inside.wait(PATIENCE)
            assert precisions() == ["ieee"] * 3
        assert precisions(ON_A_GPU) == ["tf32"] * 2
        leave.set()
        assert learning.result() == ["tf32", "tf32", before[2]]
    assert precisions() == before


def test_two_threads_at_once_leave_what_they_found(before):
    def use(products):
        for _ in range(200):
            with products(), products():
                assert products is rough_products or precisions() == ["ieee"] * 3

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(use, products) for products in (exact_products, rough_products)]:
            done.result()
    assert precisions() == before


@given(st.lists(st.integers(0, 3), max_size=10), st.randoms())
def test_the_strictest_wish_holds_in_whatever_order_users_come_and_go(strictness, random):
    state, inside = [-1], []
    switch = Switch(lambda: state[0], lambda value: state.__setitem__(0, value), lambda value: value)
    coming = list(strictness)
    while coming or inside:
        if coming and (not inside or random.random() < 0.5):
            inside.append((coming[-1], switch.wanted(coming.pop())))
            inside[-1][1].__enter__()
        else:
            _, leaving = inside.pop(random.randrange(len(inside)))
            leaving.__exit__(None, None, None)
        assert state == [max((wish for wish, _ in inside), default=-1)]


# Sums that come out the same.


@pytest.fixture(params=[None, ":16:8"])
def workspace(request, monkeypatch):
    monkeypatch.delenv(WORKSPACE, raising=False)
    if request.param:
        monkeypatch.setenv(WORKSPACE, request.param)
    return request.param


def determinism():
    return torch.are_deterministic_algorithms_enabled(), os.environ.get(WORKSPACE)


def test_algorithms_are_deterministic_inside_and_as_before_outside(workspace):
    with deterministic_algorithms(True):
        assert determinism() == (True, workspace or ":4096:8")
        with deterministic_algorithms(False), deterministic_algorithms(True):
            pass
        assert determinism() == (True, workspace or ":4096:8")
    assert determinism() == (False, workspace)
    with deterministic_algorithms(False):
        assert determinism() == (False, workspace)


def test_who_asked_for_warnings_alone_gets_them_back():
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with deterministic_algorithms(True):
            assert not torch.is_deterministic_algorithms_warn_only_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def test_two_trainings_at_once_leave_the_algorithms_as_they_were(workspace):
    def train(_):
        for _ in range(100):
            with deterministic_algorithms(True):
                assert determinism()[0]

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(train, range(2)))
    assert determinism() == (False, workspace)
