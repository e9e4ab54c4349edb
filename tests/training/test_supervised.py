"""Laws of training the baselines: planted answers are learned, batches hold every query, a state says all."""

import weakref
from dataclasses import replace
from functools import cache

import pytest
import torch

from laws import refused, slow_but
from procrustes_kge.graphs.graph import Vocabulary
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.ranking import LinkPredictor, evaluate
from procrustes_kge.system import cuda_graphs
from procrustes_kge.system.cuda_graphs import RecordedStep
from procrustes_kge.training import supervised
from procrustes_kge.training.state import copied
from procrustes_kge.training.supervised import SupervisedTrainer, train
from toys import random_graph, rotated_graph, small_settings

CPU, NO_TRIPLES = torch.device("cpu"), torch.empty(0, 3, dtype=torch.int64)
ADAM = {"optimiser": "adam", "learning_rate": 0.02, "batch": 64}
KVSALL = {**ADAM, "negatives": "kvsall", "epochs": 30}
OTE = {**ADAM, "negatives": 20, "margin": 3.0, "epochs": 25}
FEW_STEPS = {**ADAM, "dim": 16, "batch": 256}
# Each way of training, with a model that can hold what was planted: rotations that do not commute.
LEARNERS = {
    "all": small_settings("roth", **{**ADAM, "learning_rate": 0.05, "epochs": 30}),
    "kvsall, sigmoid": small_settings("tucker", **KVSALL, loss="sigmoid", label_smoothing=0.1),
    "kvsall, softmax": small_settings("roth", **{**KVSALL, "learning_rate": 0.05}),
    "adagrad": small_settings("ote", **{**OTE, "optimiser": "adagrad", "learning_rate": 0.15, "epochs": 40}),
    "self-adversarial": small_settings("ote", **{**OTE, "epochs": 15}, loss="sigmoid", adversarial_temperature=1.0),
    "margin": small_settings("ote", **OTE, loss="margin", loss_margin=6.0),
    "shared": small_settings("ote", **OTE, loss="sigmoid", shared_negatives=True),
}
# What the next epoch may depend on: moments, learning rates, means of weights, draws, and sums of normalisation.
STATES = {
    "adagrad": small_settings("distmult", query_dropout=0.3, learning_rate_decay=0.5),
    "adam": small_settings("distmult", optimiser="adam", query_dropout=0.3, learning_rate_decay=0.5),
    "drawn": small_settings("rotate", negatives=7, loss="sigmoid", adversarial_temperature=1.0, subsampling=True),
    "shared": small_settings("ote", negatives=7, shared_negatives=True, loss="margin", optimiser="adam"),
    "kvsall": small_settings("tucker", negatives="kvsall", loss="sigmoid", query_dropout=0.3, input_dropout=0.3),
    "average": small_settings("interacte", **FEW_STEPS, weight_average=0.6, feature_dropout=0.3, negatives="kvsall"),
    "neighbours": small_settings("sacn", **FEW_STEPS, edge_dropout=0.3, graph_dropout=0.3),
}
every_state = pytest.mark.parametrize("way", STATES)


def trainer_of(settings, graph=None):
    """Return an untrained trainer on the CPU."""
    return SupervisedTrainer(graph or rotated_graph(), settings, CPU)


def same(one, other):
    """Tell whether two states are equal bit for bit; a loss that is not known yet is no number."""
    return one.keys() == other.keys() and all(one[name].nan_to_num().equal(other[name].nan_to_num()) for name in one)


# What is learned.


@cache
def learned(way):
    """Return what a way of training learns."""
    return train(rotated_graph(), LEARNERS[way])


@pytest.mark.parametrize("way", slow_but(("kvsall, sigmoid", "kvsall, softmax", "self-adversarial"), LEARNERS))
def test_planted_answers_are_learned(way):
    assert evaluate(learned(way), rotated_graph()).mrr > 0.8


@pytest.mark.parametrize("name", BASELINES)
def test_every_model_learns_its_training_triples(name):
    graph = rotated_graph()
    settings = small_settings(name, **ADAM, dim=16)
    untrained, trained = (train(graph, replace(settings, epochs=epochs)) for epochs in (1, 4))
    assert isinstance(trained, LinkPredictor)
    assert evaluate(trained, graph, "train").mrr > evaluate(untrained, graph, "train").mrr


def test_a_trained_model_answers_by_name():
    graph = rotated_graph()
    model = learned("self-adversarial")
    known = {(h, r): t for h, r, t in graph.train.tolist()}
    right = 0
    for (head, relation), tail in list(known.items())[:20]:
        names = graph.entities[head], graph.relations[relation], graph.entities[tail]
        right += model.tails(*names[:2], k=1)[0].name == names[2]
        assert len(model.heads(names[1], names[2], k=3)) == 3
    assert right > 15


def test_a_regulariser_keeps_numbers_small():
    sizes = []
    for regulariser in ("none", "n2", "n3", "dura"):
        settings = small_settings(regulariser=regulariser, regularisation=0.1, epochs=4)
        sizes.append(train(rotated_graph(), settings).module.entities.square().mean().item())
    assert max(sizes[1:]) < sizes[0]


@pytest.mark.parametrize("name", ["interacte", "sacn"])
def test_what_is_learned_may_be_a_mean_of_weights(name):
    """Of early epochs the plain one, then one that forgets; numbers that are no weights stay as they are."""
    settings, paths = small_settings(name, **FEW_STEPS, weight_average=0.6), []
    trainer = trainer_of(settings)
    for _ in range(4):
        trainer.epoch()
        paths.append(copied(trainer.current.module.state_dict()))
    plain = trainer_of(replace(settings, weight_average=0.0))
    for _ in range(4):
        plain.epoch()
    last = plain.model().module.state_dict()
    for each, value in trainer.model().module.state_dict().items():
        one, two, three, four = (path[each] for path in paths)
        assert last[each].equal(four)
        if value.is_floating_point():
            torch.testing.assert_close(value, 0.6 * (0.6 * (one + two) / 2 + 0.4 * three) + 0.4 * four)
        elif each == "order":
            assert value.equal(one)


@pytest.mark.parametrize("optimiser", ["adam", "adagrad"])
def test_the_learning_rate_falls_after_every_epoch(optimiser):
    """One that falls to nothing leaves the weights where the first epoch brought them; another does not."""
    settings = small_settings("distmult", optimiser=optimiser, learning_rate=0.05)
    one, still, moved = (
        train(rotated_graph(), replace(settings, epochs=epochs, learning_rate_decay=decay)).table
        for epochs, decay in ((1, 1.0), (4, 1e-6), (4, 1.0))
    )
    assert (one - still).abs().max() < 1e-5
    assert (one - moved).abs().max() > 1e-2


# State and randomness.


@every_state
@pytest.mark.parametrize("done", [0, 2])
def test_a_fresh_trainer_goes_on_from_a_state_bit_for_bit(way, done):
    first, other = trainer_of(STATES[way]), trainer_of(replace(STATES[way], seed=5))
    for _ in range(done):
        first.epoch()
    state = copied(first.state())
    losses = [first.epoch() for _ in range(2)]
    for again in (other, first, other):  # on, and back, as often as wanted
        again.restore(state)
        assert same(again.state(), state)
        assert [again.epoch() for _ in range(2)] == losses
        assert same(again.state(), first.state())
    assert first.start_loss == other.start_loss


@every_state
def test_training_leaves_the_global_generators_untouched_and_repeats_by_the_seed(way):
    graph, short = rotated_graph(), replace(STATES[way], epochs=2, validate_every=1)
    before = torch.get_rng_state()
    one, again, other = (train(graph, replace(short, seed=seed)).module.state_dict() for seed in (1, 1, 2))
    assert torch.get_rng_state().equal(before)
    assert same(one, again)
    assert not same(one, other)


@pytest.mark.parametrize("rough", [True, False])
def test_products_are_rough_in_training_alone_and_where_they_may_be(rough, monkeypatch):
    backend, seen, step = torch.backends.cuda.matmul, [], supervised.take_step
    monkeypatch.setattr(supervised, "take_step", lambda *given: [seen.append(backend.fp32_precision), step(*given)][1])
    before = backend.fp32_precision
    train(rotated_graph(), small_settings(epochs=1, tf32=rough), lambda _: seen.append(backend.fp32_precision))
    assert set(seen[:-1]) == {"tf32" if rough else "ieee"}
    assert seen[-1] == backend.fp32_precision == before


def test_a_trainer_is_freed_without_the_garbage_collector():
    freed, trainer = [], trainer_of(small_settings())
    trainer.recorded = RecordedStep(trainer.step, [trainer.random])
    weakref.finalize(trainer, freed.append, True)
    del trainer
    assert freed


# Batches.


@pytest.mark.parametrize("negatives", ["all", "kvsall", 4])
def test_batches_are_no_larger_than_memory_holds_their_scores(negatives, monkeypatch):
    graph = random_graph(entities=6, relations=2, triples=20)
    monkeypatch.setattr(supervised, "BATCH_SCORES", 5 * (negatives if isinstance(negatives, int) else 6))
    trainer = trainer_of(small_settings(batch="full", negatives=negatives), graph)
    sizes = [len(batch[0]) for batch in trainer.batches()]
    assert max(sizes) <= 5
    assert sum(sizes) == trainer.losses.count


@pytest.mark.parametrize("batch", [1, 2, 3, "full"])
@pytest.mark.parametrize("negatives", ["all", "kvsall"])
def test_no_query_is_alone_in_its_batch_and_all_are_asked(batch, negatives):
    for triples in range(2, 12):
        trainer = trainer_of(small_settings(batch=batch, negatives=negatives), random_graph(9, 2, triples))
        batches = list(trainer.batches())
        assert min(len(numbers) for numbers, *_ in batches) > 1
        assert sorted(torch.cat([numbers for numbers, *_ in batches]).tolist()) == list(range(trainer.losses.count))


@pytest.mark.parametrize("recorded", [False, True])
def test_batches_of_queries_come_with_all_their_answers(recorded):
    """A step that is replayed has as many answers each time, a power of two: the last one is repeated."""
    graph = random_graph(entities=9, relations=2, triples=60)
    trainer = trainer_of(small_settings(batch=5, negatives="kvsall"), graph)
    if recorded:
        trainer.recorded = RecordedStep(trainer.step)
    lengths = set()
    for numbers, places, answers in trainer.batches():
        found = list(zip(places.tolist(), answers.tolist(), strict=True))
        expected = list(zip(*(each.tolist() for each in trainer.losses.answers_of(numbers)), strict=True))
        assert set(found) == set(expected)
        assert found[: len(expected)] == expected
        lengths.add(len(found) if recorded else len(found) - len(expected))
    (length,) = lengths
    assert (length & (length - 1) == 0) if recorded else length == 0


def test_a_model_that_normalises_by_the_batch_trains_on_the_smallest_batches():
    for triples in range(2, 8):
        train(random_graph(9, 2, triples), small_settings("conve", batch=1, epochs=1))


@pytest.mark.parametrize("name", BASELINES)
def test_a_graph_of_one_relation_and_few_triples_trains(name):
    train(random_graph(3, 1, 3), small_settings(name, epochs=1))


def test_one_entity_is_refused():
    alone = replace(
        random_graph(3, 1, 3),
        entities=Vocabulary(["a"], "entity"),
        train=torch.zeros(1, 3, dtype=torch.int64),
        valid=NO_TRIPLES,
        test=NO_TRIPLES,
    )
    refused(lambda: train(alone, small_settings()), setting="random", seen="1 entity", remedy="expected at least 2")


def test_more_negatives_than_entities_are_refused():
    settings = small_settings(negatives=60)
    refused(lambda: train(rotated_graph(), settings), setting="negatives", seen=60, remedy="try at most 59")


# Recorded steps.


@pytest.mark.parametrize("decay", [0.5, 1.0])
@pytest.mark.parametrize("in_a_tensor", [True, False])
def test_a_step_is_recorded_again_where_its_learning_rate_is_a_number_that_changed(in_a_tensor, decay):
    trainer = trainer_of(small_settings(learning_rate_decay=decay, learning_rate=0.2))
    (group,) = trainer.optimiser.param_groups
    if in_a_tensor:
        group["lr"] = torch.tensor(0.2)
    trainer.recorded = RecordedStep(trainer.step)
    trainer.recorded.recorded[()] = None
    trainer.decay_learning_rate()
    assert bool(trainer.recorded.recorded) == (in_a_tensor or decay == 1)
    assert float(group["lr"]) == pytest.approx(0.2 * decay)


def test_a_step_is_recorded_again_after_its_tables_were_replaced():
    trainer = trainer_of(small_settings())
    trainer.recorded = RecordedStep(trainer.step)
    trainer.recorded.recorded[()] = None
    trainer.restore(copied(trainer.state()))
    assert not trainer.recorded.recorded


@pytest.fixture
def recordings(monkeypatch):
    """Count the steps that are recorded."""
    made = []

    class Counted(cuda_graphs._Recording):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(1)

    monkeypatch.setattr(cuda_graphs, "_Recording", Counted)
    return made


@pytest.mark.gpu
@pytest.mark.parametrize("way", LEARNERS)
def test_replayed_steps_learn_planted_answers(way, recordings, monkeypatch):
    graph, settings = rotated_graph(), replace(LEARNERS[way], device="cuda", epochs=2 * LEARNERS[way].epochs)
    assert evaluate(train(graph, settings), graph).mrr > 0.8
    assert recordings
    monkeypatch.setattr(cuda_graphs, "WARM_UP", 10**9)
    assert evaluate(train(graph, settings), graph).mrr > 0.8


@pytest.mark.gpu
@pytest.mark.parametrize("name", BASELINES)
def test_replayed_steps_move_weights_as_steps_do(name, recordings, monkeypatch):
    few = {"optimiser": "adam", "learning_rate": 0.01, "learning_rate_decay": 0.5, "epochs": 4, "batch": "full"}
    learned = []
    for warm_up in (10**9, 1):  # what the first steps of all load is not to be taken for waiting
        monkeypatch.setattr(cuda_graphs, "WARM_UP", warm_up)
        learned.append(train(rotated_graph(), small_settings(name, **few, tf32=False, device="cuda")).table)
    assert (learned[0] - learned[1]).abs().max() < 1e-3
    assert recordings
