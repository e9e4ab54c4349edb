"""What is replayed does what was recorded, with the tensors of each call."""

from contextlib import contextmanager, nullcontext

import pytest
import torch

from procrustes_kge.system import cuda_graphs as captured
from procrustes_kge.system.cuda_graphs import WARM_UP, Captured


@pytest.fixture
def rates(monkeypatch):
    """Stand in for a GPU: a recorded step keeps the rate of its recording, and reads its inputs at each replay."""
    rates = [1.0]

    class Graph:
        def replay(self):
            now, rates[0] = rates[0], self.rate
            self.again()
            rates[0] = now

    @contextmanager
    def recording(graph):
        graph.rate = rates[0]
        yield

    class Recorded(captured._Recorded):
        def __init__(self, step, tensors):
            super().__init__(step, tensors)
            self.graph.again = lambda: self.output.copy_(step(*self.inputs))

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", recording)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(captured, "_without_waiting", nullcontext)
    monkeypatch.setattr(captured, "_Recorded", Recorded)
    return rates


@pytest.mark.usefixtures("rates")
def test_a_replayed_step_gives_what_the_step_gives():
    step = Captured(lambda some, more: some.sum() * more.sum())
    found = [step(torch.full((size,), 1.0 + turn), torch.ones(2)) for turn in range(8) for size in (2, 3)]
    assert [each.item() for each in found] == [2.0 * (1 + turn) * size for turn in range(8) for size in (2, 3)]
    assert len(step.recorded) == 2


@pytest.mark.usefixtures("rates")
def test_each_shape_is_warmed_up_before_it_is_recorded():
    step = Captured(lambda some: some.sum())
    for _ in range(WARM_UP + 1):
        step(torch.ones(2))
    for _ in range(WARM_UP):
        step(torch.ones(3))
    assert [shape for (shape,) in step.recorded] == [torch.Size([2])]


def test_steps_are_recorded_again_after_what_they_read_has_changed(rates):
    step = Captured(lambda some: some * rates[0])
    for _ in range(WARM_UP + 1):
        step(torch.ones(1))
    rates[0] = 0.5
    assert step(torch.ones(1)).item() == 1.0  # as it was recorded
    step.forget()
    assert step(torch.ones(1)).item() == 0.5


def test_a_step_that_cannot_be_recorded_is_taken_as_it_is(rates, monkeypatch):
    tries = []

    def refused(step, tensors):
        tries.append(1)
        raise RuntimeError("no room")

    monkeypatch.setattr(captured, "_Recorded", refused)
    step = Captured(lambda some: some.sum())
    assert [step(torch.ones(3)).item() for _ in range(9)] == 9 * [3.0]
    assert len(tries) == 1


def test_a_step_that_waits_is_never_recorded(rates, monkeypatch):
    @contextmanager
    def watching():
        yield
        raise RuntimeError("called a synchronizing CUDA operation")

    monkeypatch.setattr(captured, "_without_waiting", watching)
    step = Captured(lambda some: some.sum())
    assert [step(torch.ones(3)).item() for _ in range(9)] == 9 * [3.0]
    assert not step.recorded
    assert not step.records


on_a_gpu = pytest.mark.gpu


@on_a_gpu
def test_a_gpu_replays_with_new_inputs_and_new_draws():
    step = Captured(lambda some: some.sum() + torch.rand((), device="cuda"))
    found = [step(torch.full((4,), float(turn), device="cuda")).item() - 4 * turn for turn in range(12)]
    assert step.recorded
    assert all(0 <= each < 1 for each in found)
    assert len(set(found)) == 12


@on_a_gpu
def test_a_gpu_goes_on_after_a_step_that_waits():
    step = Captured(lambda some: some.sum() * some.max().item() * torch.rand((), device="cuda").ceil())
    assert [step(torch.full((4,), 2.0, device="cuda")).item() for _ in range(9)] == 9 * [16.0]
    assert not step.records
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
