"""What is replayed does what was recorded, with the tensors of each call; a step that cannot be recorded says why."""

import warnings
from contextlib import contextmanager, nullcontext

import pytest
import torch

from procrustes_kge.system import cuda_graphs
from procrustes_kge.system.cuda_graphs import WAITS, WARM_UP, RecordedStep


class Gpu:
    """Stands for a GPU: a recorded step keeps the rate of its recording, and reads its inputs at each replay."""

    def __init__(self):
        self.rate, self.mode, self.full, self.registered = 1.0, 0, False, []

    def wait(self):
        """Do what PyTorch does when a step waits for the GPU."""
        if self.mode == "warn":
            warnings.warn(f"{WAITS} (Triggered internally)", UserWarning, stacklevel=2)


@pytest.fixture
def gpu(monkeypatch):
    gpu = Gpu()

    class Graph:
        def register_generator_state(self, generator):
            gpu.registered.append(generator)

        def pool(self):
            return "the first one's"

        def replay(self):
            now, gpu.rate = gpu.rate, self.rate
            self.again()
            gpu.rate = now

    @contextmanager
    def recording(graph, pool, capture_error_mode):
        graph.rate = gpu.rate
        if gpu.full:
            raise torch.OutOfMemoryError("CUDA out of memory")
        yield

    class Recording(cuda_graphs._Recording):
        def __init__(self, step, *arguments):
            super().__init__(step, *arguments)
            self.graph.again = lambda: self.output.copy_(step(*self.inputs))

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", recording)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: gpu.mode)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda mode: setattr(gpu, "mode", mode))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(cuda_graphs, "_Recording", Recording)
    return gpu


@pytest.mark.usefixtures("gpu")
def test_a_replayed_step_gives_what_the_step_gives():
    step = RecordedStep(lambda some, more: some.sum() * more.sum())
    found = [step(torch.full((size,), 1.0 + number), torch.ones(2)) for number in range(8) for size in (2, 3)]
    assert [each.item() for each in found] == [2.0 * (1 + number) * size for number in range(8) for size in (2, 3)]
    assert len(step.recorded) == 2


@pytest.mark.usefixtures("gpu")
def test_each_shape_is_warmed_up_before_it_is_recorded():
    step = RecordedStep(lambda some: some.sum())
    for _ in range(WARM_UP + 1):
        step(torch.ones(2))
    for _ in range(WARM_UP):
        step(torch.ones(3))
    assert [shape for (shape,) in step.recorded] == [torch.Size([2])]


def test_steps_of_another_kind_are_recorded_for_themselves(gpu):
    step = RecordedStep(lambda some, times: some * times * gpu.rate, warm_up=1)
    found = [step(torch.ones(1), times=times).item() for _ in range(4) for times in (2, 3)]
    assert found == 4 * [2.0, 3.0]
    assert len(step.recorded) == 2


def test_steps_are_recorded_again_after_what_they_read_has_changed(gpu):
    step = RecordedStep(lambda some: some * gpu.rate)
    for _ in range(WARM_UP + 1):
        step(torch.ones(1))
    gpu.rate = 0.5
    assert step(torch.ones(1)).item() == 1.0  # as it was recorded
    step.forget()
    assert step(torch.ones(1)).item() == 0.5


def test_generators_of_the_models_own_are_known_to_each_graph(gpu):
    generators = [torch.Generator(), torch.Generator()]
    step = RecordedStep(lambda some: some.sum(), generators)
    for size in (1, 2):
        for _ in range(WARM_UP + 2):
            step(torch.ones(size))
    assert gpu.registered == generators * 2


def taken_one_by_one(step, match):
    """Assert that a step says once why it is not recorded, and gives what it gives."""
    with pytest.warns(RuntimeWarning, match=match) as said:
        found = [step(torch.ones(3)).item() for _ in range(9)]
    assert found == 9 * [3.0]
    assert len(said) == 1
    assert not step.recorded
    assert not step.records


def test_a_step_that_does_not_fit_twice_is_taken_one_by_one(gpu):
    gpu.full = True
    taken_one_by_one(RecordedStep(lambda some: some.sum()), "not recorded .* no memory left")


def test_running_out_of_memory_is_seen_behind_the_error_that_ends_a_recording(gpu, monkeypatch):
    @contextmanager
    def recording(graph, pool, capture_error_mode):
        try:
            yield
        except torch.OutOfMemoryError:
            raise RuntimeError("the recording was not ended as it should be")  # noqa: B904

    def step(some):
        if gpu.full:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return some.sum()

    monkeypatch.setattr(torch.cuda, "graph", recording)
    recorded = RecordedStep(step)
    for _ in range(WARM_UP):
        recorded(torch.ones(3))
    gpu.full = True
    with pytest.warns(RuntimeWarning, match="no memory left"):
        recorded.record((torch.Size([3]),), step, (torch.ones(3),))
    assert not recorded.records


def test_a_step_that_waits_is_taken_one_by_one(gpu):
    taken = []

    def step(some):
        gpu.wait()
        taken.append(1)
        return some.sum()

    taken_one_by_one(RecordedStep(step), "not recorded .* waits for the GPU")
    assert len(taken) == 9  # none was taken twice to find that out
    assert gpu.mode == 0


@pytest.mark.parametrize("number", [1, WARM_UP, WARM_UP + 1])
def test_other_errors_of_a_step_are_raised(gpu, number):
    """When it is taken for the first time, when it is rehearsed, and when it is recorded."""

    def step(some):
        if len(taken) == number - 1:
            raise RuntimeError("shapes do not agree")
        taken.append(1)
        return some.sum()

    taken = []
    recorded = RecordedStep(step)
    for _ in range(number - 1):
        recorded(torch.ones(3))
    with pytest.raises(RuntimeError, match="shapes do not agree"):
        recorded(torch.ones(3))
    assert gpu.mode == 0


def test_other_warnings_of_a_step_are_passed_on(gpu):
    def step(some):
        warnings.warn("mind the gap", UserWarning, stacklevel=1)
        return some.sum()

    recorded = RecordedStep(step)
    for _ in range(WARM_UP):
        with pytest.warns(UserWarning, match="mind the gap"):
            recorded(torch.ones(3))
    assert recorded.records


@pytest.mark.gpu
def test_a_gpu_replays_with_new_inputs_and_new_draws():
    step = RecordedStep(lambda some: some.sum() + torch.rand((), device="cuda"))
    found = [step(torch.full((4,), float(number), device="cuda")).item() - 4 * number for number in range(12)]
    assert step.recorded
    assert all(0 <= each < 1 for each in found)
    assert len(set(found)) == 12


@pytest.mark.gpu
def test_a_gpu_draws_from_a_generator_as_if_nothing_were_recorded():
    def drawn(wrap):
        generator = torch.Generator("cuda").manual_seed(7)
        step = wrap(lambda some: some + torch.rand(3, device="cuda", generator=generator), generator)
        return [step(torch.zeros(3, device="cuda")) for _ in range(12)]

    plain = drawn(lambda step, _: step)
    recorded = drawn(lambda step, generator: RecordedStep(step, [generator]))
    assert all(map(torch.equal, plain, recorded))


@pytest.mark.gpu
def test_a_gpu_goes_on_after_a_step_that_waits():
    step = RecordedStep(lambda some: some.sum() * some.max().item() * torch.rand((), device="cuda").ceil())
    with pytest.warns(RuntimeWarning, match="waits for the GPU"):
        assert [step(torch.full((4,), 2.0, device="cuda")).item() for _ in range(9)] == 9 * [16.0]
    assert not step.records
    assert torch.cuda.get_sync_debug_mode() == 0
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


@pytest.mark.gpu
def test_a_gpu_sees_waiting_in_the_backward_pass_too():
    class Waiting(torch.autograd.Function):
        @staticmethod
        def forward(ctx, some):
            return some.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * gradient.max().item()

    def step(some):
        leaf = some.clone().requires_grad_()
        Waiting.apply(leaf).sum().backward()
        return leaf.grad.sum()

    recorded = RecordedStep(step)
    with pytest.warns(RuntimeWarning, match="waits for the GPU"):
        assert [recorded(torch.ones(4, device="cuda")).item() for _ in range(6)] == 6 * [4.0]
