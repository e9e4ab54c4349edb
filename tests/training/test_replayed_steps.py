"""Contrastive steps on batches of one shape, recorded and replayed, are the steps; groups share what was recorded."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from contrasts import WAYS, assert_close, every_way, is_sound, small, trainer_of
from laws import slow_but
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.system import cuda_graphs
from procrustes_kge.system.cuda_graphs import RecordedStep
from procrustes_kge.training.contrastive import Contrastive, ContrastiveTrainer, contrast
from procrustes_kge.training.learner import Learner
from procrustes_kge.training.loop import run
from procrustes_kge.training.rotations import ROTATE_EVERY
from procrustes_kge.training.state import copied
from toys import random_graph, rotated_graph, same

GPU = torch.device("cuda")


class Repeated:
    """Stands for a recording: it takes the step when it is replayed, with inputs where they were."""

    def __init__(self, step, tensors, generators, pool):
        if Repeated.full:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.step, self.inputs = step, [each.clone() for each in tensors]
        self.graph = SimpleNamespace(pool=lambda: None)

    def __call__(self, *tensors):
        for mine, given in zip(self.inputs, tensors, strict=True):
            mine.copy_(given)
        return self.step(*self.inputs).clone()


@pytest.fixture
def replaying(monkeypatch):
    """Let the CPU pad batches, and record and replay steps, as a GPU does."""
    begin = ContrastiveTrainer.begin

    def as_on_a_gpu(trainer):
        begin(trainer)
        trainer.pads = True

    monkeypatch.setattr(ContrastiveTrainer, "begin", as_on_a_gpu)
    monkeypatch.setattr(Learner, "sees_few", property(lambda _: False))
    monkeypatch.setattr(Repeated, "full", False, raising=False)
    monkeypatch.setattr(cuda_graphs, "_Recording", Repeated)
    monkeypatch.setattr(cuda_graphs, "_watching", lambda: nullcontext([]))


def epochs(trainer, count):
    return [trainer.epoch() for _ in range(count)]


@every_way
@pytest.mark.usefixtures("replaying")
def test_padded_steps_are_the_steps(way):
    # The first epochs: later, differences of the last digit have grown. Every entity is drawn, as often as it is.
    settings = small(way, dropout=0.0, epochs=3, batch=32, crowd=0.5)
    if isinstance(settings.negatives, int):
        settings = replace(settings, negatives=23)
    graph = random_graph(24, 2, 150)
    trainers = [trainer_of(graph, settings) for _ in range(2)]
    trainers[0].pads = False
    losses = [epochs(trainer, 2) for trainer in trainers]
    assert trainers[1].recorded.recorded
    if settings.negatives != 23:  # what a hand leaves out differs: a padded batch has more of them
        assert losses[1] == pytest.approx(losses[0], rel=1e-4)
        assert_close(*(trainer.model() for trainer in trainers))
    assert trainers[0].start_loss == pytest.approx(trainers[1].start_loss, rel=0.05)


@pytest.mark.parametrize("way", slow_but(("all", "some", "all, unit"), WAYS))
@pytest.mark.usefixtures("replaying")
def test_replayed_steps_find_planted_rotations(way):
    graph = rotated_graph()
    model = contrast(graph, small(way, epochs=14))
    assert evaluate(model, graph).mrr > 0.9
    assert is_sound(model)


@every_way
@pytest.mark.usefixtures("replaying")
def test_all_that_a_step_reads_stays_where_it_is(way):
    trainer = trainer_of(random_graph(24, 2, 150), small(way, batch=32, epochs=5, validate_every=0))

    def places():
        learner = trainer.learner
        held = [*learner.state().values(), learner.compared, learner.deck.cards, learner.deck.place]
        held += [*learner.gradients.of_a_step, *learner.gradients.of_several]
        # The state of the generator, and the number of steps, are copies; no recorded step reads them.
        return [each.data_ptr() for each in held if each.dtype != torch.uint8 and each.numel() and each is not None]

    trainer.epoch()
    before = dict.fromkeys(places())
    epochs(trainer, 2)
    trainer.restore(copied(trainer.state()))
    moved = set(places()) - before.keys()
    assert len(moved) <= 1  # the number of steps


@pytest.mark.usefixtures("replaying")
@pytest.mark.parametrize("way", ["all", "some", "all, unit"])
def test_a_trainer_that_replays_goes_on_from_a_state(way):
    graph, settings = random_graph(24, 2, 150), small(way, batch=32, epochs=5, dropout=0.3)
    one, other = trainer_of(graph, settings), trainer_of(graph, replace(settings, seed=99))
    epochs(one, 2)
    state = copied(one.state())
    rest = epochs(one, 3)
    for restored in (other, one):
        epochs(restored, 1)
        restored.restore(state)
        assert epochs(restored, 3) == rest
    assert same(one.model(), other.model())


@pytest.mark.usefixtures("replaying")
def test_steps_that_rotate_are_recorded_beside_those_that_do_not(monkeypatch):
    taken, replay = [], Repeated.__call__
    monkeypatch.setattr(Repeated, "__call__", lambda *arguments: taken.append(1) or replay(*arguments))
    trainer = trainer_of(random_graph(24, 2, 150), small(batch=16, epochs=9))
    assert trainer.steps_an_epoch >= ROTATE_EVERY
    epochs(trainer, 9)
    shapes = {kind[0] for kind in trainer.recorded.recorded}
    assert {kind[-1] for kind in trainer.recorded.recorded} == {("rotates", False), ("rotates", True)}
    # Of each shape the first step shows that it fits, and of each kind of a shape the next that it does not wait.
    assert len(taken) >= 9 * trainer.steps_an_epoch - 3 * max(len(shapes), len(trainer.fit))


@pytest.mark.slow
@pytest.mark.usefixtures("replaying")
@pytest.mark.parametrize("way", slow_but(["some"], ["all", "some", "all, unit", "all, adam"]))
def test_groups_that_share_recordings_learn_what_groups_do(way, monkeypatch):
    graph, settings = rotated_graph(), small(way, dim=48, groups=3, batch=32, epochs=4)
    made, start = [], ContrastiveTrainer.__init__

    def counted(trainer, *arguments):
        made.append(trainer)
        start(trainer, *arguments)

    monkeypatch.setattr(ContrastiveTrainer, "__init__", counted)
    shared = run(Contrastive, graph, settings).model
    assert len(made) == 1
    monkeypatch.setattr(Contrastive, "add", lambda self, trainer: self.groups.append(trainer.model()))
    assert same(shared, run(Contrastive, graph, settings).model)
    assert len(made) == 4


@pytest.mark.usefixtures("replaying")
def test_where_a_recording_does_not_fit_steps_are_taken_one_by_one(monkeypatch):
    graph, settings = rotated_graph(), small(batch=32, epochs=2)
    wanted = run(Contrastive, graph, settings).model
    monkeypatch.setattr(Repeated, "full", True)
    with pytest.warns(RuntimeWarning, match="no memory left"):
        found = run(Contrastive, graph, settings).model
    assert same(found, wanted)


@pytest.mark.usefixtures("replaying")
def test_where_memory_runs_out_batches_are_cut_and_no_step_is_recorded(monkeypatch):
    graph, settings, calls, gather = rotated_graph(), small(dropout=0.0, epochs=3), [], Learner.gather
    wanted = run(Contrastive, graph, settings).model

    def gather_or_fail(self, batch):
        calls.append(len(batch.asked))
        gather(self, batch)
        if len(calls) == 1:
            raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(Learner, "gather", gather_or_fail)
    monkeypatch.setattr(Repeated, "full", True)
    with pytest.warns(RuntimeWarning, match="training continues with 64") as told:
        assert_close(run(Contrastive, graph, settings).model, wanted)
    assert len(told) == 1
    assert max(calls[1:]) <= 64


# On a GPU.


@pytest.mark.gpu
@every_way
def test_a_gpu_replays_the_steps_that_it_would_take(way, monkeypatch):
    settings = small(way, batch=32, epochs=4, device="cuda", deterministic=True, groups=2, dim=48)
    graph = rotated_graph()
    replayed = run(Contrastive, graph, settings).model
    monkeypatch.setattr(RecordedStep, "record", lambda self, kind, step, tensors: None)
    assert same(replayed.to("cpu"), run(Contrastive, graph, settings).model.to("cpu"))


@pytest.mark.gpu
def test_a_gpu_records_few_steps_for_all_groups(monkeypatch):
    made, record = [], cuda_graphs._Recording.__init__

    def counted(recording, *arguments):
        made.append(recording)
        record(recording, *arguments)

    monkeypatch.setattr(cuda_graphs._Recording, "__init__", counted)
    settings = small(batch=32, epochs=20, device="cuda", groups=4, dim=64)
    assert is_sound(contrast(rotated_graph(), settings).to("cpu"))
    assert 2 <= len(made) <= 8


@pytest.mark.gpu
def test_the_memory_of_a_training_on_a_gpu_is_free_after_it():
    graph, settings = rotated_graph(), small(batch=32, epochs=3, device="cuda", groups=2, dim=48)
    contrast(graph, settings)
    before = torch.cuda.memory_allocated()
    contrast(graph, settings)
    assert torch.cuda.memory_allocated() <= before + 2**16
