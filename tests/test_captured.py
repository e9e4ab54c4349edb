"""What is replayed does what was recorded, with the tensors of each call."""

from contextlib import contextmanager

import pytest
import torch

from procrustes_kge import captured
from procrustes_kge.captured import WARM_UP, Captured


@pytest.fixture
def recorder(monkeypatch):
    """Stand in for a GPU: a recorded step reads, at each replay, what its inputs hold by then."""

    class Graph:
        def replay(self):
            self.again()

    @contextmanager
    def recording(graph):
        yield

    class Recorded(captured._Recorded):
        def __init__(self, step, tensors):
            super().__init__(step, tensors)
            self.graph.again = lambda: self.output.copy_(step(*self.inputs))

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", recording)
    monkeypatch.setattr(captured, "_Recorded", Recorded)


@pytest.mark.usefixtures("recorder")
def test_a_replayed_step_gives_what_the_step_gives():
    step = Captured(lambda some, more: some.sum() * more.sum())
    found = [step(torch.full((size,), 1.0 + turn), torch.ones(2)) for turn in range(8) for size in (2, 3)]
    assert [each.item() for each in found] == [2.0 * (1 + turn) * size for turn in range(8) for size in (2, 3)]
    assert len(step.recorded) == 2


def test_a_step_that_cannot_be_recorded_is_taken_as_it_is(monkeypatch):
    tries = []

    def refused(step, tensors):
        tries.append(1)
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(captured, "_Recorded", refused)
    step = Captured(lambda some: some.sum())
    assert [step(torch.ones(size)).item() for size in range(1, 9)] == [*range(1, 9)]
    assert len(tries) == 1


@pytest.mark.usefixtures("recorder")
def test_steps_are_recorded_again_after_what_they_read_has_changed():
    rate, taken = [1.0], []

    def take(some):
        taken.append(rate[0])
        return some * rate[0]

    step = Captured(take)
    for _ in range(WARM_UP + 1):
        step(torch.ones(1))
    rate[0] = 0.5
    step.forget()
    assert not step.recorded
    assert step(torch.ones(1)).item() == 0.5
