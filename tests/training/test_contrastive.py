"""Laws of training with negatives and mini-batches: planted answers found, seeds that repeat, mistakes told."""

import math
import os
import warnings
import weakref
from dataclasses import replace
from itertools import pairwise, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.linalg import nearest_orthogonal
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.training.contrastive import (
    WARM_LENGTH,
    WARM_UP,
    ContrastSettings,
    DivergedError,
    Training,
    contrast,
    joined,
    room_for,
)
from procrustes_kge.training.full_batch import FitSettings, Progress, fit
from procrustes_kge.training.learner import Learner
from procrustes_kge.training.recipes import learn, recipe
from procrustes_kge.training.restoring import restore_relations
from toys import graph_of, random_graph, random_graphs, rotated_graph, same

REAL_DATA = os.environ.get("PROCRUSTES_DATA")
CPU = torch.device("cpu")
# What an answer is contrasted with, and how entities and relations move.
WAYS = {
    "all": {},
    "all, adam": {"step": "adam", "learning_rate": 0.05},
    "all, turned alone": {"scale": False, "translate": False},
    "all, unit": {"lengths": "unit", "relations": "positives"},
    "all, smoothed": {"smoothing": 0.1},
    "some": {"negatives": 20},
    "some, unit": {"negatives": 20, "lengths": "unit", "relations": "positives"},
    "some, sigmoid": {"negatives": 20, "loss": "sigmoid", "lengths": "unit", "relations": "positives", "step": "adam"},
    "none": {"negatives": "none", "loss": "squared", "lengths": "unit", "relations": "positives", "step": "adam"},
}
for name in ("some, sigmoid", "none"):
    WAYS[name] |= {"learning_rate": 0.05, "dropout": 0.0, "decay": 0.0}
every_way = pytest.mark.parametrize("way", WAYS)
main_ways = pytest.mark.parametrize("way", ["all", "all, unit", "some", "some, sigmoid", "none"])


def small(way="all", **changes):
    """Return settings that train a toy in a moment."""
    settings = ContrastSettings(dim=40, segment=8, epochs=30, batch=128, device="cpu")
    return replace(settings, **(WAYS[way] | changes))


def told(graph, settings):
    """Return the model and all that was reported on the way."""
    log = []
    return contrast(graph, settings, log.append), log


def assert_close(one, other, tolerance=1e-3):
    """Tell where two models differ by more than rounding: training makes differences of the last digit grow."""
    for name, table in one.tables().items():
        torch.testing.assert_close(table, other.tables()[name], rtol=tolerance, atol=tolerance, msg=name)


def is_sound(model):
    """Tell whether everything is finite and rotations are orthogonal."""
    turned_back = model.rotations.double() @ model.rotations.double().mT
    return (
        all(bool(table.isfinite().all()) for table in model.tables().values())
        and float((turned_back - torch.eye(model.rotations.shape[-1])).abs().max()) < 1e-6
    )


def chance(graph):
    """Return the MRR of a scorer that knows nothing, of so many candidates at most."""
    return sum(1 / rank for rank in range(1, len(graph.entities) + 1)) / len(graph.entities)


# What training finds.


def is_found(way, batch, epochs):
    """Tell whether training finds what was planted, far better than by chance."""
    graph = rotated_graph()
    model, log = told(graph, small(way, batch=batch, epochs=epochs))  # measured: 1.0
    learned = log[-1].loss < 0.7 * log[0].loss and is_sound(model)
    return learned and evaluate(model, graph).mrr > 0.9 > 10 * chance(graph)


@every_way
def test_planted_rotations_are_found_in_batches_with_any_negatives(way):
    assert is_found(way, 128, 16)


@main_ways
def test_planted_rotations_are_found_in_full_batch_with_any_negatives(way):
    assert is_found(way, "full", 60)


@pytest.mark.parametrize("seed", [0, 1])
def test_planted_rotations_are_ranked_perfectly(seed):
    graph = rotated_graph(seed)
    model = contrast(graph, small(dim=200, segment=20, epochs=20, seed=seed))
    found = evaluate(model, graph)
    assert (found.mrr, found.head.hits_at_1, found.tail.hits_at_1) == (1.0, 1.0, 1.0)


def test_an_untrained_model_is_at_chance():
    graph = rotated_graph()
    training = Training(graph, small(), CPU)
    assert evaluate(training.model(training.learner.tables()), graph).mrr < 2.5 * chance(graph)


@every_way
def test_segments_are_unit_vectors_where_asked_for_and_only_there(way):
    graph, settings = rotated_graph(), small(way, epochs=5)
    model = contrast(graph, settings)
    lengths = torch.linalg.vector_norm(model.vectors.double(), dim=-1)
    if settings.lengths == "unit":
        assert float((lengths - 1).abs().max()) < 1e-5
    else:
        assert float(lengths.std() / lengths.mean()) > 0.05


@pytest.mark.parametrize(("scale", "translate"), [*product((False, True), repeat=2)])
def test_relations_stretch_and_shift_where_asked_for_and_only_there(scale, translate):
    model = contrast(rotated_graph(), small(scale=scale, translate=translate, epochs=4))
    directions = 2 * len(model.relations)
    assert (model.scales is not None, model.translations is not None) == (scale, translate)
    if scale:
        assert model.scales.shape == (directions, 5, 8)
        assert not model.scales.equal(torch.ones_like(model.scales))
    if translate:
        assert model.translations.shape == (directions, 5, 8)
        assert bool(model.translations.any())


def test_decay_keeps_vectors_short():
    models = [contrast(rotated_graph(), small(decay=decay, epochs=12)) for decay in (0.0, 0.05, 0.5)]
    sizes = [model.vectors.square().sum().item() for model in models]
    assert sizes[0] > 1.5 * sizes[1] > 1.5 * sizes[2]


def test_rotations_of_positives_are_those_of_eq_3():
    """In full batch they are solved at every step, for the entities before it: the last step is short."""
    graph = rotated_graph()
    model = contrast(graph, small("all, unit", batch="full", epochs=60))
    solved, _ = restore_relations(model.vectors, graph, translate=False)
    torch.testing.assert_close(model.rotations, solved, rtol=0, atol=0.02)


@pytest.mark.parametrize(("way", "length"), [("all, unit", 1.0), ("all", WARM_LENGTH)])
@pytest.mark.parametrize("translate", [True, False])
def test_a_warm_start_is_a_short_fit_whole(way, length, translate):
    graph = rotated_graph()
    short = FitSettings(dim=40, segment=8, epochs=7, patience=0, seed=3, translate=translate, device="cpu")
    fitted = fit(graph, short)
    training = Training(graph, small(way, warm_start=7, seed=3, translate=translate, relations="step"), CPU)
    started = training.model(training.learner.tables())
    torch.testing.assert_close(started.vectors, length * fitted.vectors)
    torch.testing.assert_close(started.rotations, fitted.rotations)
    if translate:
        torch.testing.assert_close(started.translations, length * fitted.translations)
    assert evaluate(started, graph, "train").mrr == pytest.approx(evaluate(fitted, graph, "train").mrr)


@pytest.mark.parametrize("way", ["all", "some, sigmoid", "none"])
def test_a_warm_start_leads_to_planted_rotations_too(way):
    graph = rotated_graph()
    model = contrast(graph, small(way, warm_start=6, epochs=16))
    assert evaluate(model, graph).mrr > 0.9
    assert is_sound(model)


def test_rotations_of_a_model_are_orthogonal_to_the_last_digit():
    training = Training(rotated_graph(), small(), CPU)
    skewed = training.learner.tables()._replace(rotations=training.learner.rotations * 1.001)
    model = training.model(skewed)
    torch.testing.assert_close(model.rotations, nearest_orthogonal(training.learner.rotations), rtol=0, atol=1e-6)
    assert is_sound(model)


# What repeats, and what changes nothing.


@every_way
def test_a_seed_repeats_bit_for_bit_and_another_gives_another(way):
    graph = rotated_graph()
    models = [contrast(graph, small(way, epochs=2, seed=seed)) for seed in (3, 3, 4, -3)]
    assert same(models[0], models[1])
    assert not any(one.vectors.equal(other.vectors) for one, other in pairwise(models[1:]))


@pytest.mark.parametrize("way", ["all", "all, unit", "none"])  # those that draw no negatives for a chunk
@pytest.mark.parametrize("chunk", [16, 64])
def test_how_many_questions_are_compared_at_once_changes_nothing_but_rounding(way, chunk):
    graph, settings = rotated_graph(), small(way, dropout=0.0, epochs=3)
    assert_close(contrast(graph, replace(settings, chunk=chunk)), contrast(graph, settings))


@pytest.mark.parametrize("chunk", [128, 1000, 10**9])
def test_room_for_more_than_a_batch_changes_nothing(chunk):
    graph, settings = rotated_graph(), small(epochs=3)
    assert same(contrast(graph, replace(settings, chunk=chunk)), contrast(graph, settings))


@pytest.mark.parametrize("chunk", [48, 80, 96])
def test_how_many_questions_are_compared_at_once_does_not_change_a_step(chunk):
    graph, settings = rotated_graph(), small(dropout=0.0)
    whole, parts = (Training(graph, each, CPU) for each in (settings, replace(settings, chunk=chunk)))
    assert parts.steps_an_epoch == whole.steps_an_epoch


@pytest.mark.parametrize("batch", [100, 120, 200])
def test_a_step_sees_about_as_many_questions_as_asked_for(batch):
    training = Training(rotated_graph(), small(batch=batch), CPU)
    rows = len(training.questions.tiles) * 16
    assert abs(rows / training.steps_an_epoch - batch) <= 16 + batch / 10


@pytest.mark.parametrize("way", ["some", "none"])
def test_validation_and_test_triples_are_not_looked_at(way):
    graph, nothing = rotated_graph(), torch.empty(0, 3, dtype=torch.int64)
    bare = replace(graph, valid=nothing, test=nothing)
    assert same(contrast(bare, small(way, epochs=3)), contrast(graph, small(way, epochs=3)))


def test_crowds_matter_only_where_a_question_has_several_answers():
    for graph, alike in ((rotated_graph(), True), (random_graph(20, 2, 400), False)):
        one, other = (contrast(graph, small(crowd=crowd, epochs=3)) for crowd in (0.5, 1.0))
        assert same(one, other) == alike


def test_what_the_sigmoid_needs_matters_to_it_alone():
    graph = rotated_graph()
    for change in ({"margin": 0.5}, {"sharpness": 3.0}, {"focus": 0.0}):
        for way, alike in (("some, unit", True), ("some, sigmoid", False)):
            changed = contrast(graph, small(way, epochs=2, **change))
            assert same(changed, contrast(graph, small(way, epochs=2))) == alike


def test_steps_on_a_copy_of_the_rows_they_see_are_the_same_steps(monkeypatch):
    graph, settings = rotated_graph(), small("some", epochs=5)
    on_copies = contrast(graph, settings)
    monkeypatch.setattr(Learner, "compact", property(lambda _: False))
    assert_close(on_copies, contrast(graph, settings))


def test_demanding_determinism_changes_nothing_on_a_cpu_and_does_not_last():
    graph = rotated_graph()
    for way in ("all", "some", "some, sigmoid", "none"):
        models = [contrast(graph, small(way, epochs=2, deterministic=wanted)) for wanted in (True, False)]
        assert same(*models)
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.is_grad_enabled()


def test_training_leaves_the_threads_of_torch_as_they_were():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        for workers in (0, 1, 2):
            contrast(rotated_graph(), small(epochs=1, workers=workers))
            assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


# Groups, trained one after another.


def test_groups_are_smaller_trainings_side_by_side():
    graph, settings = rotated_graph(), small(dim=48, groups=3, epochs=4)
    whole = contrast(graph, settings)
    first = contrast(graph, replace(settings, dim=16, groups=1))
    assert whole.vectors.shape == (60, 6, 8)
    for name, table in first.tables().items():
        assert whole.tables()[name][:, :2].equal(table)
    assert not whole.vectors[:, 2:4].equal(whole.vectors[:, :2])
    assert is_sound(whole)


def test_the_scores_of_a_joined_model_are_the_sum_of_its_parts():
    graph = rotated_graph()
    parts = [contrast(graph, small(dim=16, epochs=4, seed=seed)) for seed in (0, 1, 2)]
    whole = joined(parts)
    question = torch.tensor([3, 5]), torch.tensor([0, 11])
    scores = [model.scores(model, model.query(model, *question)) for model in (whole, *parts)]
    torch.testing.assert_close(scores[0], sum(scores[1:]))
    assert joined(parts[:1]) is parts[0]


def test_groups_find_planted_rotations():
    graph = rotated_graph()
    model = contrast(graph, small(dim=80, groups=2))
    assert evaluate(model, graph).mrr > 0.9


def test_groups_are_reported_as_one_training():
    _, log = told(rotated_graph(), small(dim=48, groups=3, epochs=4))
    assert [progress.done for progress in log] == [2 * count for count in range(1, 13)]
    assert {progress.total for progress in log} == {24}
    assert [progress.epoch for progress in log] == [1, 2, 3, 4] * 3


# Reports.


@main_ways
def test_every_epoch_is_reported_once_and_the_loss_falls(way):
    _, log = told(rotated_graph(), small(way, batch=256, epochs=12))
    assert [(each.done, each.total, each.epoch, each.epochs) for each in log] == [
        (5 * epoch, 60, epoch, 12) for epoch in range(1, 13)
    ]
    assert all(isinstance(each, Progress) and math.isfinite(each.loss) and each.valid_mrr is None for each in log)
    assert log[-1].loss < 0.9 * log[0].loss


@pytest.mark.parametrize(
    "settings",
    [small("all", learning_rate=0.05), small("all, unit"), small("all, unit", relations="step"), small("none")],
    ids=["free", "unit", "unit, step", "none"],
)
def test_the_loss_of_a_full_batch_falls_in_every_epoch(settings):
    _, log = told(rotated_graph(), replace(settings, batch="full", dropout=0.0, decay=0.0, epochs=20))
    losses = [progress.loss for progress in log]
    # At the start free vectors are so short that nearly nothing tells one from another.
    assert all(later < earlier * 1.001 for earlier, later in pairwise(losses))
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("negatives", ["all", 20])
def test_at_the_start_every_entity_is_as_likely_as_any_other(negatives):
    """Short vectors score nearly 0: the loss is the log of the number of entities, also where few are drawn."""
    for entities in (21, 50, 200):
        graph = random_graph(entities, 3, 300, seed=entities)
        training = Training(graph, small(negatives=negatives, batch="full", epochs=1), CPU)
        assert training.train_epoch() == pytest.approx(math.log(entities), rel=0.02)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_a_report_raises_stops_training_and_leaves_the_machine_as_it_was(error):
    before, calls = torch.get_num_threads(), []

    def report(progress):
        calls.append(progress)
        if len(calls) >= 5:
            raise error("enough")

    torch.set_num_threads(3)
    try:
        with pytest.raises(error, match="enough"):
            contrast(rotated_graph(), small(epochs=1000, deterministic=True), report)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert len(calls) == 5
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.is_grad_enabled()


# How far steps go.


@pytest.mark.parametrize(("batch", "epochs"), [("full", 1), ("full", 3), ("full", 40), (128, 1), (128, 8), (32, 4)])
def test_steps_grow_longer_first_then_ever_shorter_to_nearly_nothing(batch, epochs):
    training = Training(rotated_graph(), small(batch=batch, epochs=epochs), CPU)
    rates, rate_now = [], training.rates
    training.rates = lambda: rates.append(rate_now()) or rates[-1]
    training.run()
    assert len(rates) == training.steps_an_epoch * epochs
    steps = [rate.vectors for rate in rates]
    top = steps.index(max(steps))
    assert all(0 < step <= 0.2 for step in steps)
    assert all(later >= earlier for earlier, later in pairwise(steps[: top + 1]))
    assert all(later < earlier for earlier, later in pairwise(steps[top:]))
    assert top <= WARM_UP
    assert steps[-1] == pytest.approx(0.2 / len(steps))
    assert [rate.rotations for rate in rates] == pytest.approx([5 * step for step in steps])


# What goes wrong on the way.


@pytest.mark.parametrize(("batch", "rate"), [(128, 30.0), ("full", 1000.0)])
@every_way
def test_a_learning_rate_that_is_too_large_is_told_with_a_smaller_one_and_the_last_good_model(way, batch, rate):
    graph = rotated_graph()
    with pytest.raises(
        DivergedError,
        match=rf"training diverged in epoch [1-4] of 12 \(loss \S+\) with learning rate {rate:g}; "
        rf"try --learning-rate {rate / 4:g}$",
    ) as caught:
        contrast(graph, small(way, batch=batch, epochs=12, learning_rate=rate))
    assert isinstance(caught.value, InputError)
    model = caught.value.model
    assert is_sound(model)
    assert 0 < evaluate(model, graph).mrr <= 1
    assert len(model.tails(graph.entities[0], graph.relations[0], 3)) == 3


@pytest.mark.parametrize("batch", [32, 128])
@pytest.mark.parametrize("trouble", ["a loss that is no number", "a loss beyond hope", "vectors that are no numbers"])
def test_the_model_of_a_training_that_diverges_is_the_last_good_one(trouble, batch):
    """A copy is taken whenever 16 steps have passed: after every epoch of batches of 32, every third of 128."""
    training = Training(rotated_graph(), small(batch=batch, epochs=12), CPU)
    epoch, train, kept = [0], training.train_epoch, []

    def troubled():
        loss = train()
        epoch[0] += 1
        if epoch[0] == 5:
            if trouble == "vectors that are no numbers":
                training.learner.vectors[7, 3] = math.nan
                return loss
            return math.nan if trouble == "a loss that is no number" else 2.01 * training.first_loss
        return loss

    training.train_epoch = troubled
    log = []

    def report(progress):
        log.append(progress)
        kept.append(training.model(training.learner.tables(copied=True)))

    with pytest.raises(DivergedError, match="training diverged in epoch 5 of 12") as caught:
        training.run(report)
    assert len(log) == 4
    assert same(caught.value.model, kept[3 if batch == 32 else 2])


@pytest.mark.parametrize(
    ("rows", "way", "changes"),
    [
        (["a r b"], "all, unit", {}),
        (["a r b"], "none", {"step": "adagrad", "learning_rate": 0.2}),
        (["a r b"], "some", {"negatives": 1}),
        (["a r a", "b r b", "c r c", "d s d"], "some", {"negatives": 1, "batch": 2, "warm_start": 2}),
    ],
    ids=["unit", "none", "some", "self-loops"],
)
def test_a_training_that_starts_near_perfection_has_not_diverged(rows, way, changes):
    contrast(graph_of(rows), small(way, **{"dim": 8, "segment": 4, "epochs": 12, "batch": "full"} | changes))


def out_of_memory(monkeypatch, *failing):
    """Let PyTorch run out of memory at these calls of `gather`, counted from 0."""
    calls, gather = [], Learner.gather

    def gather_or_fail(self, batch):
        calls.append(len(batch.asked))
        if len(calls) - 1 in failing:
            gather(self, batch)  # what had gathered until then must be forgotten
            raise torch.OutOfMemoryError("no room")
        gather(self, batch)

    monkeypatch.setattr(Learner, "gather", gather_or_fail)
    return calls


@pytest.mark.parametrize(
    ("way", "failing", "chunk"),
    [("all", [0], 64), ("all", [0, 1, 2], 16), ("all", [0, 2], 32), ("all", [8, 17], 32), ("all, adam", [0, 2], 32)],
)
def test_where_memory_runs_out_training_goes_on_with_fewer_questions_at_once(monkeypatch, way, failing, chunk):
    graph, settings = rotated_graph(), small(way, dropout=0.0, epochs=4)
    wanted, wanted_log = told(graph, replace(settings, chunk=chunk))
    calls = out_of_memory(monkeypatch, *failing)
    with pytest.warns(RuntimeWarning, match="ran out of memory; going on with") as caught:
        model, log = told(graph, settings)
    assert [str(each.message) for each in caught] == [
        f"the GPU ran out of memory; going on with {128 // 2 ** (number + 1)} questions at once"
        for number in range(len(failing))
    ]
    assert calls[-1] <= chunk
    assert_close(model, wanted)
    assert [each.loss for each in log] == pytest.approx([each.loss for each in wanted_log], rel=1e-3)


def test_where_memory_runs_out_what_had_no_room_is_free_before_the_next_try(monkeypatch):
    tensors, compare = [], Learner.contrasted

    def fail_twice(self, queries, *others):
        assert all(earlier() is None for earlier in tensors)
        if len(tensors) < 2:
            tensors.append(weakref.ref(queries))
            raise torch.OutOfMemoryError("no room")
        return compare(self, queries, *others)

    monkeypatch.setattr(Learner, "contrasted", fail_twice)
    with pytest.warns(RuntimeWarning, match="ran out of memory"):
        contrast(rotated_graph(), small("all", dropout=0.0, epochs=1))
    assert len(tensors) == 2


def test_groups_are_trained_one_after_another_and_each_is_free_before_the_next(monkeypatch):
    alive, start = weakref.WeakSet(), Training.__init__

    def counted(self, *arguments):
        assert not alive
        alive.add(self)
        start(self, *arguments)

    monkeypatch.setattr(Training, "__init__", counted)
    contrast(rotated_graph(), small(groups=5, epochs=1))
    assert not alive


def test_where_memory_runs_out_between_two_moves_of_a_rotation_nothing_is_lost(monkeypatch):
    graph, settings = rotated_graph(), small(dropout=0.0, epochs=3)
    wanted = contrast(graph, replace(settings, chunk=64))
    out_of_memory(monkeypatch, 9)
    with pytest.warns(RuntimeWarning, match="ran out of memory"):
        assert_close(contrast(graph, settings), wanted)


@pytest.mark.parametrize("batch", [100, 120])
def test_where_memory_runs_out_batches_of_any_size_are_trained_to_the_end(monkeypatch, batch):
    out_of_memory(monkeypatch, 0)
    with pytest.warns(RuntimeWarning, match="ran out of memory"):
        contrast(rotated_graph(), small(batch=batch, epochs=12))


@pytest.mark.parametrize("way", ["all, unit", "some", "none"])
def test_where_memory_runs_out_planted_rotations_are_found_all_the_same(monkeypatch, way):
    graph = rotated_graph()
    out_of_memory(monkeypatch, 0, 5)
    monkeypatch.setattr(Learner, "compact", property(lambda _: False))  # as on a GPU
    with pytest.warns(RuntimeWarning, match="ran out of memory"):
        model = contrast(graph, small(way, epochs=14))
    assert evaluate(model, graph).mrr > 0.9
    assert is_sound(model)


def test_where_there_is_no_room_at_all_a_smaller_vector_is_suggested(monkeypatch):
    out_of_memory(monkeypatch, *range(100))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(
            InputError, match=r"out of memory for 40 numbers of each entity .* try a smaller --dim, more"
        ):
            contrast(rotated_graph(), small())
    assert len(caught) == 3
    assert torch.is_grad_enabled()


def test_the_sentence_about_memory_is_not_said_of_other_mistakes():
    with pytest.raises(RuntimeError, match="no such thing"), room_for(10):
        raise RuntimeError("no such thing")
    with pytest.raises(InputError, match=r"^this machine is out of memory for 10 numbers"), room_for(10):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes")


def test_a_table_that_no_memory_holds_is_refused():
    with pytest.raises(InputError, match=r"no room for 60 vectors .* try a smaller --dim"):
        contrast(rotated_graph(), small(dim=8 * 10**14))


# On a GPU.

on_a_gpu = pytest.mark.gpu


@on_a_gpu
@every_way
def test_a_gpu_learns_what_the_cpu_learns(way):
    graph = rotated_graph()
    models = [contrast(graph, small(way, epochs=14, device=device)) for device in ("cpu", "cuda")]
    found = [evaluate(model, graph).mrr for model in models]
    assert min(found) > 0.9
    assert is_sound(models[1].to("cpu"))


@on_a_gpu
@every_way
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_the_host_waits_for_a_gpu_once_an_epoch(way):
    training = Training(rotated_graph(), small(way, device="cuda"), torch.device("cuda"))
    training.train_epoch()
    steps = training.epoch_steps()
    next(steps)  # dealing an epoch waits
    try:
        torch.cuda.set_sync_debug_mode("error")
        for _ in steps:
            pass
    finally:
        torch.cuda.set_sync_debug_mode("default")


# Mistakes.

MISTAKES = [
    (
        {"negatives": 20, "loss": "sigmoid"},
        "sigmoid loss with free lengths: distances that products do not rank; try --lengths unit",
    ),
    ({"negatives": 20, "smoothing": 0.1}, "smoothing with 20 negatives; it is for --negatives all"),
    ({"dim": 1990}, "dimension 1990 does not divide into segments of 20; try 1980 or 2000"),
    ({"dim": 0}, "dim 0, expected a whole number of at least 1"),
    ({"segment": 0}, "segment 0, expected a whole number of at least 1"),
    ({"groups": 0}, "groups 0, expected a whole number of at least 1"),
    ({"epochs": 0}, "epochs 0, expected a whole number of at least 1"),
    ({"warm_start": -1}, "warm start -1, expected a whole number of at least 0"),
    ({"chunk": -1}, "chunk -1, expected a whole number of at least 0"),
    ({"workers": -1}, "workers -1, expected a whole number of at least 0"),
    ({"batch": 0}, "batch 0, expected full or a whole number of at least 1"),
    ({"batch": -5}, "batch -5, expected full or a whole number of at least 1"),
    ({"batch": "half"}, "batch half, expected full or a whole number of at least 1"),
    ({"batch": "1.5"}, "batch 1.5, expected full or a whole number of at least 1"),
    ({"negatives": 0}, "negatives 0, expected none or all or a whole number of at least 1"),
    ({"negatives": "few"}, "negatives few, expected none or all or a whole number of at least 1"),
    ({"loss": "hinge"}, "unknown loss 'hinge', expected softmax or sigmoid or squared"),
    ({"lengths": "long"}, "unknown lengths 'long', expected free or unit"),
    ({"relations": "all"}, "unknown relations 'all', expected step or positives"),
    ({"step": "turn"}, "unknown step 'turn', expected adagrad or adam"),
    ({"learning_rate": 0.0}, "learning rate 0.0, expected a number above 0 and up to 1000"),
    ({"learning_rate": math.nan}, "learning rate nan, expected a number above 0 and up to 1000"),
    ({"learning_rate": math.inf}, "learning rate inf, expected a number above 0 and up to 1000"),
    ({"turning_rate": -1.0}, "turning rate -1.0, expected a number above 0 and up to 1000"),
    ({"sharpness": 0.0}, "sharpness 0.0, expected a number above 0 and up to 1000"),
    ({"decay": -0.1}, "decay -0.1, expected a number from 0 up to 1000"),
    ({"focus": -1.0}, "focus -1.0, expected a number from 0 up to 1000"),
    ({"margin": 1001.0}, "margin 1001.0, expected a number from 0 up to 1000"),
    ({"dropout": 1.0}, "dropout 1.0, expected a number from 0 up to 0.99"),
    ({"smoothing": -0.1}, "smoothing -0.1, expected a number from 0 up to 0.99"),
    ({"crowd": 2.1}, "crowd 2.1, expected a number from 0 up to 2"),
    ({"negatives": "none"}, "softmax loss with none negatives; the squared loss is the one that has none"),
    (
        {"negatives": "none", "loss": "sigmoid"},
        "sigmoid loss with none negatives; the squared loss is the one that has none",
    ),
    ({"loss": "squared"}, "squared loss with all negatives; the squared loss is the one that has none"),
    (
        {"loss": "squared", "negatives": 5},
        "squared loss with 5 negatives; the squared loss is the one that has none",
    ),
    ({"loss": "sigmoid"}, "sigmoid loss with all negatives; give --negatives a number such as 128"),
    (
        {"loss": "squared", "negatives": "none"},
        "free lengths without negatives all shrink to nothing; try --lengths unit",
    ),
]


@pytest.mark.parametrize(("values", "message"), MISTAKES, ids=lambda value: str(value)[:40])
def test_settings_that_cannot_be_trained_are_refused(values, message):
    settings = ContrastSettings()
    for name, value in values.items():  # not through __init__, where the tests' type checker would speak first
        object.__setattr__(settings, name, value)
    with pytest.raises(InputError) as caught:
        settings.__post_init__()
    assert str(caught.value) == message


def test_settings_are_checked_when_they_are_made():
    with pytest.raises(InputError, match="try 1980 or 2000"):
        ContrastSettings(dim=1990)
    with pytest.raises(InputError, match="epochs 0"):
        replace(ContrastSettings(), epochs=0)


def test_the_ends_of_every_range_are_accepted():
    for changes in (
        {"dropout": 0.99, "smoothing": 0.99, "crowd": 2.0, "decay": 0.0, "learning_rate": 1000.0},
        {"dropout": 0.0, "smoothing": 0.0, "crowd": 0.0, "focus": 0.0, "margin": 0.0},
    ):
        assert replace(ContrastSettings(), **changes).crowd in (0.0, 2.0)


def test_more_negatives_than_there_are_other_entities_are_refused():
    graph = rotated_graph()
    for count in (60, 61, 10**6):
        with pytest.raises(
            InputError,
            match=f"{count:,} negatives asked for, but the graph rotated has 60 entities; "
            "try a smaller number, or --negatives all",
        ):
            contrast(graph, small(negatives=count))
    assert is_sound(contrast(graph, small(negatives=59, epochs=2)))


def test_batches_larger_than_the_graph_are_refused():
    graph = rotated_graph()
    most = 2 * len(graph.train)
    for size in (most + 1, 10**6):
        with pytest.raises(
            InputError,
            match=f"batches of {size:,} questions asked for, but the graph rotated has 384 training triples, "
            "which ask two each; try a smaller number, or --batch full",
        ):
            contrast(graph, small(batch=size))
    assert is_sound(contrast(graph, small(batch=most, epochs=2)))


def test_a_graph_without_training_triples_is_refused():
    graph = replace(rotated_graph(), train=torch.empty(0, 3, dtype=torch.int64))
    with pytest.raises(InputError, match="the graph rotated has no training triples"):
        contrast(graph, small())


@pytest.mark.parametrize("device", ["banana", "meta"])
def test_devices_that_training_does_not_know_are_refused(device):
    with pytest.raises(InputError, match=r"device .* expected cpu, cuda, cuda:N or auto"):
        contrast(rotated_graph(), small(device=device))


# Legal oddities.

ODD = {
    "a lone entity": graph_of(["a r a"], test=["a s a"]),
    "one triple": graph_of(["a r b"]),
    "two entities": graph_of(["a r b", "b r a", "a s a"], valid=["b s b"]),
    "one relation": graph_of(["a r b", "b r c", "c r d", "d r a"], valid=["a r c"], test=["b r d"]),
    "a relation that occurs once": graph_of(["a r b", "b r c", "c r a", "a once c"], valid=["b once a"]),
    "self-loops only": graph_of(["a r a", "b r b", "c r c", "d s d"], valid=["d r d"]),
    "an entity only in test": graph_of(["a r b", "b r c", "c r a"], valid=["a r c"], test=["a r z"]),
    "a relation only in valid": graph_of(["a r b", "b r c", "c r a"], valid=["a new c"]),
    "everything unseen in valid": graph_of(["a r b", "b r c"], valid=["x new y"], test=["y new x"]),
    "no validation triples": graph_of(["a r b", "b r c", "c s a"], test=["b s a"]),
    "all answers right": graph_of([f"{head} r {tail}" for head in "abc" for tail in "abc"]),
}


@main_ways
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("batch", [2, "full"])
def test_odd_graphs_are_trained(kind, way, batch):
    graph, changes = ODD[kind], {"dim": 8, "segment": 4, "epochs": 4, "batch": batch}
    if "negatives" in WAYS[way] and WAYS[way]["negatives"] != "none":
        if len(graph.entities) == 1:
            pytest.skip("a lone entity has no negatives")
        changes["negatives"] = len(graph.entities) - 1
    assert is_sound(contrast(graph, small(way, **changes)))


@pytest.mark.parametrize("kind", ODD)
def test_odd_graphs_are_learned_by_the_default_way(kind):
    graph = ODD[kind]
    model, log = told(graph, small(dim=8, segment=4, epochs=40, batch="full", dropout=0.0, decay=0.0))
    assert log[-1].done == log[-1].total
    if len(graph.entities) > 1 and kind != "all answers right":
        assert log[-1].loss < log[0].loss
        assert evaluate(model, graph, "train").mrr > 0.9


@given(random_graphs(fewest_triples=3), st.sampled_from([*WAYS]), st.sampled_from([16, "full"]), st.booleans())
def test_any_graph_trains_to_a_sound_model(graph, way, batch, warm):
    changes = {"negatives": 2} if isinstance(WAYS[way].get("negatives"), int) else {}
    if batch != "full":
        batch = min(batch, 2 * len(graph.train))
    settings = small(way, dim=8, segment=4, epochs=3, batch=batch, warm_start=2 if warm else 0, **changes)
    assert is_sound(contrast(graph, settings))


# Real data.


@pytest.mark.skipif(not REAL_DATA, reason="PROCRUSTES_DATA names no folder of benchmark archives")
def test_umls_is_learned_better_than_without_negatives():
    graph = read_graph("umls")
    accurate = learn(graph, replace(recipe("accurate", graph, "cpu"), dim=100, epochs=15))  # measured: .886
    fast = learn(graph, replace(recipe("fast", graph, "cpu"), dim=100))  # measured: .68, and .745 with 2000 numbers
    found = evaluate(accurate, graph, "valid").mrr
    assert found >= 0.85
    assert found > evaluate(fast, graph, "valid").mrr + 0.1
