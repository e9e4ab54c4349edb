"""Laws of the trainer of a group: where it starts, how far its steps go, how it goes on, and where memory runs out."""

import math
import warnings
import weakref
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from contrasts import assert_close, every_way, is_sound, small, trainer_of
from laws import refused
from procrustes_kge.linalg import nearest_orthogonal
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.training import gradients
from procrustes_kge.training.contrastive import WARM_LENGTH, WARM_UP, Contrastive, contrast
from procrustes_kge.training.full_batch import fit
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.learner import Learner
from procrustes_kge.training.loop import run
from procrustes_kge.training.state import copied
from toys import graph_of, random_graph, rotated_graph, same

# Where training starts.


@pytest.mark.parametrize("negatives", ["all", 20])
def test_at_the_start_every_entity_is_as_likely_as_any_other(negatives):
    """Short vectors score nearly 0: the loss is the log of the number of entities, also where few are drawn."""
    for entities in (21, 50, 200):
        graph = random_graph(entities, 3, 300, seed=entities)
        trainer = trainer_of(graph, small(negatives=negatives, batch="full", epochs=1))
        assert trainer.epoch() == trainer.start_loss == pytest.approx(math.log(entities), rel=0.02)


@pytest.mark.parametrize("size", [0.01, 0.2])
def test_vectors_and_scales_start_at_the_size_asked_for(size):
    graph = random_graph(200, 9, 300)
    tables = trainer_of(graph, small(init_std=size, init_scale=size)).learner.tables
    for table in (tables.vectors, tables.scales):
        assert float(table.std()) == pytest.approx(size, rel=0.1)
        assert abs(float(table.mean())) < size / 5
    whole = trainer_of(graph, small(init_std=size)).learner.tables
    assert whole.vectors.equal(tables.vectors)
    assert whole.scales.equal(torch.ones_like(tables.scales))


@pytest.mark.slow
def test_scales_that_start_near_nothing_grow_to_what_is_needed():
    graph = rotated_graph()
    model = contrast(graph, small(init_scale=1e-3, scale_regularisation=0.01, regulariser_power=3.0, epochs=50))
    assert evaluate(model, graph).mrr > 0.9
    assert is_sound(model)


@pytest.mark.parametrize("batch", [128, "full"])
def test_the_loss_at_the_start_is_that_of_the_first_step(batch):
    trainer = trainer_of(rotated_graph(), small(batch=batch))
    losses = epochs(trainer, 1)
    start = trainer.start_loss
    assert start == pytest.approx(math.log(60), rel=0.02)
    assert start in losses if batch == "full" else losses[0] < start
    losses += epochs(trainer, 5)
    assert losses[-1] < start == trainer.start_loss


@pytest.mark.parametrize(("way", "length"), [("all, unit", 1.0), ("all", WARM_LENGTH)])
@pytest.mark.parametrize("translate", [True, False])
def test_a_warm_start_is_a_short_fit_whole(way, length, translate):
    graph = rotated_graph()
    short = FitSettings(dim=40, segment=8, epochs=7, patience=0, seed=3, translate=translate, device="cpu")
    fitted = fit(graph, short)
    started = trainer_of(graph, small(way, warm_start=7, seed=3, translate=translate, relations="step")).model()
    torch.testing.assert_close(started.vectors, length * fitted.vectors)
    torch.testing.assert_close(started.rotations, fitted.rotations)
    if translate:
        torch.testing.assert_close(started.translations, length * fitted.translations)
    assert evaluate(started, graph, "train").mrr == pytest.approx(evaluate(fitted, graph, "train").mrr)


@pytest.mark.parametrize("way", ["all", "none"])
def test_a_warm_start_leads_to_planted_rotations_too(way):
    graph = rotated_graph()
    model = contrast(graph, small(way, warm_start=6, epochs=16))
    assert evaluate(model, graph).mrr > 0.9
    assert is_sound(model)


def test_rotations_of_a_model_are_orthogonal_to_the_last_digit():
    trainer = trainer_of(rotated_graph(), small())
    rotations = trainer.learner.tables.rotations
    trainer.learner.rotate_to(rotations * 1.001)
    model = trainer.model()
    torch.testing.assert_close(model.rotations, nearest_orthogonal(rotations.chunk(2)[0]), rtol=0, atol=1e-6)
    assert is_sound(model)


# How far steps go.


@pytest.mark.parametrize("chunk", [48, 80, 96])
def test_how_many_queries_are_compared_at_once_does_not_change_a_step(chunk):
    graph, settings = rotated_graph(), small(dropout=0.0)
    whole, parts = (trainer_of(graph, each) for each in (settings, replace(settings, chunk=chunk)))
    assert parts.steps_an_epoch == whole.steps_an_epoch


@pytest.mark.parametrize("batch", [100, 120, 200])
def test_a_step_sees_about_as_many_queries_as_asked_for(batch):
    trainer = trainer_of(rotated_graph(), small(batch=batch))
    rows = len(trainer.batches.tiles) * trainer.batches.height
    assert abs(rows / trainer.steps_an_epoch - batch) <= 16 + batch / 10


@pytest.mark.parametrize(("batch", "epochs"), [("full", 1), ("full", 3), ("full", 40), (128, 1), (128, 8), (32, 4)])
def test_steps_grow_longer_first_then_ever_shorter_to_nearly_nothing(batch, epochs):
    trainer = trainer_of(rotated_graph(), small(batch=batch, epochs=epochs))
    sizes, size_now = [], trainer.step_sizes
    trainer.step_sizes = lambda: sizes.append(size_now()) or sizes[-1]
    for _ in range(epochs):
        trainer.epoch()
    assert len(sizes) == trainer.steps_an_epoch * epochs
    steps = [each.vectors for each in sizes]
    top = steps.index(max(steps))
    assert all(0 < step <= 0.2 for step in steps)
    assert all(later >= earlier for earlier, later in pairwise(steps[: top + 1]))
    assert all(later < earlier for earlier, later in pairwise(steps[top:]))
    assert top <= WARM_UP
    assert steps[-1] == pytest.approx(0.2 / len(steps))
    assert [each.rotations for each in sizes] == pytest.approx([5 * step for step in steps])


@pytest.mark.parametrize(
    "settings",
    [small("all", learning_rate=0.05), small("all, unit"), small("all, unit", relations="step"), small("none")],
    ids=["free", "unit", "unit, step", "none"],
)
def test_the_loss_of_a_full_batch_falls_in_every_epoch(settings):
    settings = replace(settings, batch="full", dropout=0.0, regularisation=0.0, epochs=20)
    losses = [point.loss for point in run(Contrastive, rotated_graph(), settings).curve]
    # At the start free vectors are so short that nearly nothing tells one from another.
    assert all(later < earlier * 1.001 for earlier, later in pairwise(losses))
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize(
    ("rows", "way", "changes"),
    [
        (["a r b"], "all, unit", {}),
        (["a r b"], "none", {"optimiser": "adagrad", "learning_rate": 0.2}),
        (["a r b"], "some", {"negatives": 1}),
        (["a r a", "b r b", "c r c", "d s d"], "some", {"negatives": 1, "batch": 2, "warm_start": 2}),
    ],
    ids=["unit", "none", "some", "self-loops"],
)
def test_a_training_that_starts_near_perfection_has_not_diverged(rows, way, changes):
    contrast(graph_of(rows), small(way, **{"dim": 8, "segment": 4, "epochs": 12, "batch": "full"} | changes))


# Going on from a state.


def epochs(trainer, count):
    return [trainer.epoch() for _ in range(count)]


def goes_on(settings, other_settings, part=0):
    """Tell whether a trainer goes on from the state of another bit for bit, whatever it has learned before."""
    graph = random_graph(24, 2, 150)
    one, other = trainer_of(graph, settings, part), trainer_of(graph, other_settings, part)
    epochs(one, 2)
    state = copied(one.state())
    kept, rest = copied(state), epochs(one, 3)
    for restored in (other, one):  # another one, which has learned something else since; and back, the same one
        epochs(restored, 1)
        restored.restore(state)
        assert restored.start_loss == one.start_loss
        assert epochs(restored, 3) == rest
    assert all(table.equal(kept[name]) for name, table in state.items())
    return same(one.model(), other.model()) and all(
        table.equal(other.state()[name]) for name, table in one.state().items()
    )


@every_way
@pytest.mark.parametrize("batch", [32, "full"])
def test_a_trainer_goes_on_from_the_state_of_one_with_another_seed(way, batch):
    settings = small(way, batch=batch, epochs=5)
    assert goes_on(settings, replace(settings, seed=99))


@pytest.mark.parametrize("way", ["all", "some"])
def test_every_group_goes_on_from_its_state(way):
    settings = small(way, dim=48, groups=2, batch=32, epochs=5)
    for part in range(2):
        assert goes_on(settings, replace(settings, seed=99), part)


@pytest.mark.parametrize("changes", [{"dropout": 0.4}, {"crowd": 0.5}, {"chunk": 32}, {"warm_start": 3}])
def test_a_trainer_goes_on_from_a_state_whatever_it_started_from(changes):
    settings = small(**changes, batch=64, epochs=5)
    assert goes_on(settings, replace(settings, seed=99, warm_start=0))


def test_a_state_may_be_taken_before_the_first_epoch():
    graph, settings = rotated_graph(), small("some", epochs=2)
    one, other = trainer_of(graph, settings), trainer_of(graph, replace(settings, seed=99))
    other.restore(one.state())
    assert epochs(one, 2) == epochs(other, 2)
    assert same(one.model(), other.model())


# Where memory runs out.


def out_of_memory(monkeypatch, *failing):
    """Let PyTorch run out of memory at these calls of `gather`, counted from 0."""
    calls, gather = [], Learner.gather

    def gather_or_fail(self, batch):
        calls.append(len(batch.asked))
        gather(self, batch)  # what has gathered before memory runs out must be forgotten
        if len(calls) - 1 in failing:
            raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(Learner, "gather", gather_or_fail)
    return calls


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "failing", "chunks"),
    [
        ("all", [0, 1, 2], [16]),
        ("all", [0, 2], [32]),
        ("all", [8, 17], [64, 32]),
        ("all, adam", [0, 2], [32]),
        ("all", [9], [64]),  # between two moves of a rotation
    ],
)
def test_where_memory_runs_out_training_goes_on_with_fewer_queries_at_once(monkeypatch, way, failing, chunks):
    graph, settings = rotated_graph(), small(way, dropout=0.0, epochs=4)
    wanted = run(Contrastive, graph, replace(settings, chunk=chunks[-1]))
    calls = out_of_memory(monkeypatch, *failing)
    with pytest.warns(RuntimeWarning, match="out of memory: training continues with") as caught:
        found = run(Contrastive, graph, settings)
    for warning, chunk in zip(caught, chunks, strict=True):
        assert f"with {chunk} queries at a time" in str(warning.message)
    assert calls[-1] <= chunks[-1]
    assert_close(found.model, wanted.model)
    losses, wanted_losses = ([point.loss for point in each.curve] for each in (found, wanted))
    assert losses == pytest.approx(wanted_losses, rel=1e-3)


def test_where_memory_runs_out_what_did_not_fit_is_free_before_the_next_try(monkeypatch):
    tensors, compare = [], gradients._contrasted

    def fail_twice(queries, *others):
        assert all(earlier() is None for earlier in tensors)
        if len(tensors) < 2:
            tensors.append(weakref.ref(queries))
            raise torch.OutOfMemoryError("no memory")
        return compare(queries, *others)

    monkeypatch.setattr(gradients, "_contrasted", fail_twice)
    with pytest.warns(RuntimeWarning, match="out of memory"):
        contrast(rotated_graph(), small("all", dropout=0.0, epochs=1))
    assert len(tensors) == 2


@pytest.mark.parametrize("batch", [100, 120])
def test_where_memory_runs_out_batches_of_any_size_are_trained_to_the_end(monkeypatch, batch):
    out_of_memory(monkeypatch, 0)
    with pytest.warns(RuntimeWarning, match="out of memory"):
        contrast(rotated_graph(), small(batch=batch, epochs=3))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["all, unit", "some"])
def test_where_memory_runs_out_planted_rotations_are_found_all_the_same(monkeypatch, way):
    graph = rotated_graph()
    out_of_memory(monkeypatch, 0, 5)
    monkeypatch.setattr(Learner, "sees_few", property(lambda _: False))  # as on a GPU
    with pytest.warns(RuntimeWarning, match="out of memory"):
        model = contrast(graph, small(way, epochs=14))
    assert evaluate(model, graph).mrr > 0.9
    assert is_sound(model)


def test_where_not_even_a_tile_fits_a_smaller_vector_is_suggested(monkeypatch):
    out_of_memory(monkeypatch, *range(100))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        remedy = "try a smaller --dim or more --groups"
        refused(lambda: contrast(rotated_graph(), small()), setting="memory", seen="60 entities", remedy=remedy)
    assert not caught  # training does not go on
    assert torch.is_grad_enabled()


def test_a_table_that_no_memory_holds_is_refused():
    settings = small(dim=8 * 10**14)
    refused(lambda: contrast(rotated_graph(), settings), setting="memory", seen="60 entities", remedy="smaller --dim")


# On a GPU.


@pytest.mark.gpu
@every_way
def test_a_gpu_learns_what_the_cpu_learns(way):
    graph = rotated_graph()
    models = [contrast(graph, small(way, epochs=14, device=device)) for device in ("cpu", "cuda")]
    found = [evaluate(model, graph).mrr for model in models]
    assert min(found) > 0.9
    assert is_sound(models[1].to("cpu"))


@pytest.mark.gpu
@every_way
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_the_host_waits_for_a_gpu_once_an_epoch(way):
    trainer = Contrastive(rotated_graph(), small(way, device="cuda"), torch.device("cuda")).trainer(0)
    trainer.epoch()
    steps = trainer.steps()
    next(steps)  # dealing an epoch waits
    try:
        torch.cuda.set_sync_debug_mode("error")
        for _ in steps:
            pass
    finally:
        torch.cuda.set_sync_debug_mode("default")
