"""Laws of running out of memory: it is recognised wherever it happens, said with a remedy, and halved away."""

import gc
import weakref
from itertools import pairwise

import pytest
import torch
from hypothesis import given, strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.system.memory import explain_out_of_memory, is_out_of_memory, shrinking

ON_THE_CPU = (
    "[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"
)
GPU_IS_FULL = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
]
CPU_IS_FULL = [MemoryError(), RuntimeError(ON_THE_CPU)]
OTHERS = [RuntimeError("shapes do not agree"), ValueError("tried to allocate"), InputError("out of memory")]


@pytest.mark.parametrize("error", [*GPU_IS_FULL, *CPU_IS_FULL])
def test_out_of_memory_is_recognised(error):
    assert is_out_of_memory(error)


@pytest.mark.parametrize("error", OTHERS)
def test_other_errors_are_not_out_of_memory(error):
    assert not is_out_of_memory(error)


def test_a_tensor_larger_than_any_machine_is_out_of_memory():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)


@pytest.mark.parametrize("error", [*GPU_IS_FULL, *CPU_IS_FULL])
def test_the_sentence_names_what_did_not_fit_and_a_remedy(error):
    sentence = "ran out of memory while drawing vectors; try a smaller --dim"
    with (
        pytest.raises(InputError, match=sentence) as caught,
        explain_out_of_memory("drawing vectors", "a smaller --dim"),
    ):
        raise error
    assert ("--device cpu" in str(caught.value)) == (error in GPU_IS_FULL)


@pytest.mark.parametrize("error", OTHERS)
def test_other_errors_pass(error):
    with pytest.raises(type(error)) as caught, explain_out_of_memory("drawing vectors", "a smaller --dim"):
        raise error
    assert caught.value is error


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.sampled_from([1, 3, 32]))
def test_the_size_is_halved_until_it_fits(size, room, least):
    tried = []

    def work(wanted):
        tried.append(wanted)
        if wanted > max(room, least):
            raise MemoryError
        return -wanted

    result, fitted = shrinking(work, size, least)
    assert result == -fitted
    assert tried[0] == size
    assert tried[-1] == fitted <= max(room, least)
    for before, after in pairwise(tried):
        assert after == max(least, before // 2 // least * least) < before
        assert after % least == 0


def test_what_does_not_fit_at_the_least_size_is_raised():
    tried = []

    def work(size):
        tried.append(size)
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        shrinking(work, 20, least=8)
    assert tried == [20, 8]


@pytest.mark.parametrize("error", OTHERS)
def test_other_errors_are_raised_at_once(error):
    tried = []

    def work(size):
        tried.append(size)
        raise error

    with pytest.raises(type(error)):
        shrinking(work, 8)
    assert tried == [8]


def test_the_gpu_is_cleared_when_nothing_holds_what_did_not_fit(monkeypatch):
    """The traceback of an error holds the variables of its frames, and so does what handles the error."""
    alive, seen = [], []

    def work(size):
        held = torch.ones(size)
        alive.append(weakref.ref(held))
        if size > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return held.sum().item()

    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: seen.append(alive[-1]() is None))
    gc.disable()
    try:
        assert shrinking(work, 8) == (2.0, 2)
    finally:
        gc.enable()
    assert seen == [True, True]
