"""Laws of training the baselines: planted answers are learned, seeds repeat, the best weights are kept."""

import itertools
import math
import sys
import weakref
from dataclasses import replace

import pytest
import torch

from procrustes_kge.errors import DivergedError, InputError
from procrustes_kge.graphs.graph import Vocabulary
from procrustes_kge.graphs.known_answers import KnownAnswers
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.ranking import LinkPredictor, evaluate
from procrustes_kge.system import cuda_graphs
from procrustes_kge.system.cuda_graphs import RecordedStep
from procrustes_kge.training.losses import LOSSES
from procrustes_kge.training.supervised import _Training, train
from procrustes_kge.training.supervised_settings import TrainSettings
from toys import random_graph, rotated_graph

SMALL = TrainSettings(
    dim=32, relation_dim=16, spread=0.1, epochs=60, batch=128, patience=0, device="cpu", height=4, blocks=4
)
# Each way of training with a model that can hold what was planted: turns that do not commute.
LEARNERS = {
    "all": replace(SMALL, model="roth", step="adam", learning_rate=0.05, batch=64),
    "labels": replace(SMALL, model="tucker", against="labels", loss="logistic", smoothing=0.1, step="adam",
                      learning_rate=0.01, epochs=80, batch=64),
    "labels, softmax": replace(SMALL, model="roth", against="labels", step="adam", learning_rate=0.05, batch=64),
    "drawn, logistic": replace(SMALL, model="ote", against=20, loss="logistic", margin=3.0, epochs=150, batch=64),
    "drawn, focused": replace(SMALL, model="ote", against=20, loss="logistic", focus=1.0, margin=3.0, epochs=150,
                              batch=64),
    "drawn, softmax": replace(SMALL, model="ote", against=20, margin=3.0, epochs=150, batch=64),
    "shared, focused": replace(SMALL, model="ote", against=30, shared=True, loss="logistic", focus=1.0, margin=3.0,
                               epochs=150, batch=64),
}  # fmt: skip


def mrr_of(settings, graph=None):
    graph = graph or rotated_graph()
    return evaluate(train(graph, settings), graph).mrr


def slow_where(names, slow):
    """Return names to parametrise by, some of them marked as slow."""
    return [pytest.param(name, marks=pytest.mark.slow) if name in slow else name for name in names]


@pytest.mark.parametrize("way", slow_where(LEARNERS, ("drawn, focused", "drawn, softmax", "shared, focused")))
def test_planted_answers_are_learned(way):
    assert mrr_of(LEARNERS[way]) > 0.8


@pytest.mark.parametrize("name", BASELINES)
def test_every_model_learns_its_training_triples(name):
    graph = rotated_graph()
    settings = replace(SMALL, model=name, step="adam", learning_rate=0.02, epochs=15, batch=64)
    untrained, trained = (train(graph, replace(settings, epochs=epochs)) for epochs in (1, 15))
    assert isinstance(trained, LinkPredictor)
    assert evaluate(trained, graph, "train").mrr > evaluate(untrained, graph, "train").mrr


@pytest.mark.parametrize("way", LEARNERS)
def test_the_same_seed_gives_the_same_weights_and_leaves_dice_alone(way):
    graph, short = rotated_graph(), replace(LEARNERS[way], epochs=2)
    torch.manual_seed(7)
    before = torch.rand(3)
    torch.manual_seed(7)
    one, again, other = (train(graph, replace(short, seed=seed)).module.state_dict() for seed in (1, 1, 2))
    assert torch.equal(before, torch.rand(3))
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("rough", [True, False])
def test_products_are_rough_in_training_alone_and_where_they_may_be(rough):
    backend, seen = torch.backends.cuda.matmul, []
    before = backend.fp32_precision
    train(rotated_graph(), replace(SMALL, epochs=1, tf32=rough), lambda _: seen.append(backend.fp32_precision))
    assert seen == ["tf32" if rough else "ieee"]
    assert backend.fp32_precision == before


@pytest.mark.parametrize("average", [0.0, 0.6])
@pytest.mark.parametrize("way", ["all", "labels"])  # the latter normalises, in training by the batch
def test_the_weights_of_the_best_validation_are_kept(way, average):
    graph, seen = rotated_graph(), []
    settings = replace(LEARNERS[way], patience=2, validate_every=2, epochs=60, average=average)
    model = train(graph, settings, lambda progress: seen.append(progress.valid_mrr))
    kept = evaluate(model, graph, "valid").mrr
    assert kept == pytest.approx(max(mrr for mrr in seen if mrr is not None))


@pytest.mark.parametrize("name", ["interacte", "sacn"])
def test_what_is_learned_may_be_a_mean_of_weights(name):
    """Of early epochs the plain one, then one that forgets; numbers that are no weights stay as they are."""
    settings = replace(SMALL, model=name, step="adam", learning_rate=0.02, epochs=4, average=0.6)
    with torch.random.fork_rng([]):
        torch.manual_seed(settings.seed)
        training = _Training(rotated_graph(), settings, torch.device("cpu"))
        paths = []
        for _ in range(settings.epochs):
            training.train_epoch()
            paths.append({each: value.clone() for each, value in training.model.module.state_dict().items()})
    learned = train(rotated_graph(), settings).module.state_dict()
    last = train(rotated_graph(), replace(settings, average=0.0)).module.state_dict()
    for each, value in learned.items():
        one, two, three, four = (path[each] for path in paths)
        torch.testing.assert_close(last[each], four)
        if value.is_floating_point():
            torch.testing.assert_close(value, 0.6 * (0.6 * (one + two) / 2 + 0.4 * three) + 0.4 * four)
        elif each == "order":
            assert torch.equal(value, one)


def test_a_penalty_keeps_numbers_small():
    graph = rotated_graph()
    sizes = []
    for penalty in ("none", "n2", "n3", "dura"):
        settings = replace(SMALL, model="complex", penalty=penalty, decay=0.1, epochs=10)
        sizes.append(train(graph, settings).module.entities.square().mean().item())
    assert max(sizes[1:]) < sizes[0]


@pytest.mark.parametrize(("focus", "outweigh"), [(0.0, 1.0), (0.7, 1.0), (0.0, 3.0), (0.7, 0.5)])
def test_losses_are_those_of_their_formulas(focus, outweigh):
    answers, negatives = [0.3, -1.2], [[0.1, 2.0, -0.5], [0.4, 0.0, -3.0]]
    settings = replace(SMALL, against=3, loss="logistic", focus=focus, outweigh=outweigh, margin=1.5)

    def sigmoid(x):
        return 1 / (1 + math.exp(-x))

    expected = {"logistic": 0.0, "softmax": 0.0, "margin": 0.0}
    for answer, others in zip(answers, negatives, strict=True):
        shares = [math.exp(focus * other) / sum(math.exp(focus * each) for each in others) for other in others]
        far = sum(share * math.log(sigmoid(-other)) for share, other in zip(shares, others, strict=True))
        expected["logistic"] -= (math.log(sigmoid(answer)) + outweigh * far) / (1 + outweigh) / 2
        expected["softmax"] -= math.log(math.exp(answer) / sum(map(math.exp, [answer, *others]))) / 2
        expected["margin"] += sum(max(0, 1.5 - answer + other) for other in others) / 6
    for name, loss in LOSSES.items():
        found = loss(torch.tensor(answers), torch.tensor(negatives), settings).mean().item()
        assert found == pytest.approx(expected[name], rel=1e-5)


@pytest.mark.parametrize("changes", [{"against": "all"}, {"against": "labels"}, {"against": 4}])
def test_batches_are_no_larger_than_their_scores_have_room_for(monkeypatch, changes):
    graph = random_graph(6, 2, 20)
    settings = replace(SMALL, model="complex", batch="full", **changes)
    compared = changes["against"] if isinstance(changes["against"], int) else len(graph.entities)
    monkeypatch.setattr(sys.modules["procrustes_kge.training.supervised"], "SCORES_AT_ONCE", 5 * compared)
    training = _Training(graph, settings, torch.device("cpu"))
    sizes = [len(batch[0]) for batch in training.batches()]
    assert max(sizes) <= 5
    assert sum(sizes) == (len(training.labels.queries) if changes["against"] == "labels" else 2 * len(graph.train))


def one_step(**changes):
    """Return an untrained training of a small graph, its loss, and the scores that the loss is of."""
    graph = random_graph(6, 2, 20)
    settings = replace(SMALL, model="complex", batch="full", **changes)
    torch.manual_seed(0)
    training = _Training(graph, settings, torch.device("cpu"))
    (batch,) = training.batches()
    loss = (training.by_labels if settings.against == "labels" else training.by_triples)(*batch)
    return training, batch[0], loss.item()


def counted(made):
    """Return what records a step, and counts it."""

    class Counted(cuda_graphs._Recording):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(1)

    return Counted


def test_a_training_is_freed_without_the_garbage_collector():
    graph, freed = rotated_graph(), []
    training = _Training(graph, replace(SMALL, epochs=1), torch.device("cpu"))
    training.captured = RecordedStep(training.take)
    weakref.finalize(training, freed.append, True)
    training.let_go()
    del training
    assert freed


def test_answers_told_twice_count_once():
    training, _, loss = one_step(against="labels", loss="logistic")
    training.captured = RecordedStep(training.take)
    (batch,) = training.batches()
    assert len(batch[1]) == 32 > len(training.labels.queries.answers)
    assert training.by_labels(*batch).item() == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_training_leaves_the_generators_as_they_were(device):
    states = (torch.get_rng_state, *([torch.cuda.get_rng_state] if device == "cuda" else []))
    before = [state() for state in states]
    train(random_graph(6, 2, 20), replace(SMALL, model="complex", epochs=1, device=device))
    assert all(map(torch.equal, before, [state() for state in states]))


def test_a_model_that_wants_what_is_no_setting_is_told(monkeypatch):
    class Winged(BASELINES["complex"]):
        def __init__(self, entities, relations, wings):
            super().__init__(entities, relations)

    monkeypatch.setitem(BASELINES, "winged", Winged)
    with pytest.raises(InputError, match="winged is built with wings, which is no setting; add it to TrainSettings"):
        train(random_graph(6, 2, 20), replace(SMALL, model="winged"))


@pytest.mark.gpu
@pytest.mark.parametrize("way", LEARNERS)
def test_replayed_steps_learn_planted_answers(way, monkeypatch):
    settings, made = replace(LEARNERS[way], device="cuda"), []
    monkeypatch.setattr(cuda_graphs, "_Recording", counted(made))
    assert mrr_of(settings) > 0.8
    assert made
    monkeypatch.setattr(cuda_graphs, "WARM_UP", 10**9)
    assert mrr_of(settings) > 0.8


@pytest.mark.gpu
@pytest.mark.parametrize("name", BASELINES)
def test_replayed_steps_move_weights_as_steps_do(name, monkeypatch):
    few = replace(SMALL, model=name, step="adam", learning_rate=0.01, epochs=4, batch="full", tf32=False)
    few, learned, made = replace(few, rate_decay=0.5), [], []
    monkeypatch.setattr(cuda_graphs, "_Recording", counted(made))
    for warm_up in (1, 10**9):
        monkeypatch.setattr(cuda_graphs, "WARM_UP", warm_up)
        learned.append(train(rotated_graph(), replace(few, device="cuda")).table)
    assert (learned[0] - learned[1]).abs().max() < 1e-3
    assert made


def test_labels_are_smoothed_as_their_authors_do():
    training, mine, loss = one_step(against="labels", loss="logistic", smoothing=0.2)
    asked = training.labels.queries.entities[mine], training.labels.queries.directions[mine]
    encoded = training.model.encode()
    scores = training.model.scores(encoded, training.model.query(encoded, *asked))
    shares = (scores.exp() / 6 / (1 + scores.exp() / 6)).tolist()
    total = 0.0
    rows, answers = training.labels.look_up(*asked)
    known = set(zip(rows.tolist(), answers.tolist(), strict=True))
    for row, column in itertools.product(range(len(mine)), range(6)):
        label = 0.8 * ((row, column) in known) + 1 / 6
        total -= label * math.log(shares[row][column]) + (1 - label) * math.log(1 - shares[row][column])
    assert loss == pytest.approx(total / len(mine), rel=1e-4)


def test_even_triples_count_by_the_root_of_how_many_answers_they_have():
    training, mine, loss = one_step(even=True)
    known, graph = training.labels, training.graph.train
    total = weights = 0.0
    for question in mine.tolist():
        head, relation, tail = graph[question % len(graph)].tolist()
        answers, _ = known.look_up(torch.tensor([head, tail]), torch.tensor([relation, relation + 2]))
        weight = (len(answers) + 6) ** -0.5
        encoded, asked = training.model.encode(), training.asked[question][None]
        query = training.model.query(encoded, asked, training.directions[question][None])
        chance = training.model.scores(encoded, query).softmax(dim=1)[0, training.answers[question]].item()
        total, weights = total - weight * math.log(chance), weights + weight
    assert loss == pytest.approx(total / weights, rel=1e-4)


@pytest.mark.parametrize("penalty", ["n2", "n3", "dura"])
def test_penalties_are_those_of_their_formulas(penalty):
    settings = {"against": "all", "spread": 0.5}
    without, _, plain = one_step(**settings)
    _, _, loss = one_step(**settings, penalty=penalty, decay=0.3)
    tables = without.model.encode()

    def moduli(numbers):
        half = len(numbers) // 2
        return [math.hypot(*pair) for pair in zip(numbers[:half], numbers[half:], strict=True)]

    total, asked = 0.0, zip(without.asked.tolist(), without.directions.tolist(), without.answers.tolist(), strict=True)
    for head, relation, tail in asked:
        h, r, t = tables.entities[head], tables.relations[relation], tables.entities[tail]
        if penalty == "dura":
            query = without.model.query(tables, torch.tensor([head]), torch.tensor([relation]))
            total += query.square().sum().item() + t.square().sum().item()
        else:
            power = int(penalty[1])
            total += sum(size**power for vector in (h, r, t) for size in moduli(vector.tolist()))
    assert loss - plain == pytest.approx(0.3 * total / len(without.asked), rel=1e-4)


def test_a_model_that_sees_neighbours_is_told_which_answer_to_hide(monkeypatch):
    graph, told, query = rotated_graph(), [], BASELINES["a2n"].query

    def spied(self, encoded, heads, relations, answers=None):
        if self.training:
            told.append((heads, relations, answers))
        return query(self, encoded, heads, relations, answers)

    monkeypatch.setattr(BASELINES["a2n"], "query", spied)
    train(graph, replace(SMALL, model="a2n", epochs=1))
    known = KnownAnswers.of(graph, ["train"])
    assert told
    for heads, relations, answers in told:
        assert known.hold(heads, relations, answers[:, None]).all()


@pytest.mark.parametrize("batch", [1, 2, 3, "full"])
@pytest.mark.parametrize("against", ["all", "labels"])
def test_no_question_is_alone_in_its_batch_and_all_are_asked(batch, against):
    for triples in range(2, 12):
        graph = random_graph(9, 2, triples)
        settings = replace(SMALL, model="conve", batch=batch, against=against, epochs=1)
        training = _Training(graph, settings, torch.device("cpu"))
        dealt = training.dealt()
        assert min(map(len, dealt)) > 1
        questions = len(training.labels.queries if against == "labels" else training.asked)
        assert sorted(torch.cat(dealt).tolist()) == list(range(questions))
        train(graph, settings)


@pytest.mark.parametrize("average", [0.0, 0.6])
def test_a_training_that_diverges_keeps_its_best_weights(monkeypatch, average):
    graph, calls = rotated_graph(), []

    def breaks(answers, negatives, settings):
        calls.append(1)
        return answers.sum() * (torch.nan if len(calls) > 12 else 1e-3)

    monkeypatch.setitem(LOSSES, "softmax", breaks)
    settings = replace(SMALL, model="distmult", against=5, patience=9, validate_every=1, epochs=9, average=average)
    seen = []
    with pytest.raises(DivergedError, match="try a smaller --learning-rate") as told:
        train(graph, settings, lambda progress: seen.append(progress.valid_mrr))
    assert evaluate(told.value.model, graph, "valid").mrr == pytest.approx(max(seen))


@pytest.mark.parametrize("step", ["adam", "adagrad"])
def test_the_rate_falls_after_every_epoch(step):
    """One that falls to nothing leaves the weights where the first epoch brought them; another does not."""
    settings = replace(SMALL, model="distmult", step=step, learning_rate=0.05)
    one, still, moved = (
        train(rotated_graph(), replace(settings, epochs=epochs, rate_decay=rate_decay)).table
        for epochs, rate_decay in ((1, 1.0), (4, 1e-6), (4, 1.0))
    )
    assert (one - still).abs().max() < 1e-5
    assert (one - moved).abs().max() > 1e-2


@pytest.mark.parametrize("rate_decay", [0.5, 1.0])
@pytest.mark.parametrize("in_a_tensor", [True, False])
def test_a_step_is_recorded_again_where_its_rate_is_a_number_that_changed(in_a_tensor, rate_decay):
    settings = replace(SMALL, rate_decay=rate_decay, learning_rate=0.2)
    training = _Training(rotated_graph(), settings, torch.device("cpu"))
    (group,) = training.step.param_groups
    if in_a_tensor:
        group["lr"] = torch.tensor(0.2)
    training.captured = RecordedStep(training.take)
    training.captured.recorded[()] = None
    training.slow_down()
    assert bool(training.captured.recorded) == (in_a_tensor or rate_decay == 1)
    assert float(group["lr"]) == pytest.approx(0.2 * rate_decay)


def test_too_little_memory_is_told_in_a_sentence(monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(_Training, "take", full)
    with pytest.raises(
        InputError, match=r"out of memory for 32 numbers of each entity .*; try a smaller --dim or --batch"
    ):
        train(rotated_graph(), SMALL)


def test_one_entity_is_refused():
    graph = random_graph(3, 1, 3)
    alone = replace(graph, entities=Vocabulary(["a"], "entity"), train=torch.zeros(1, 3, dtype=torch.int64))
    with pytest.raises(InputError, match="has one entity"):
        train(replace(alone, valid=alone.train[:0], test=alone.train[:0]), SMALL)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_fall_when_answers_rise_and_negatives_fall(loss):
    settings = replace(SMALL, against=3, loss=loss)
    answers, negatives = torch.zeros(4, requires_grad=True), torch.zeros(4, 3, requires_grad=True)
    LOSSES[loss](answers, negatives, settings).sum().backward()
    assert (answers.grad < 0).all()
    assert (negatives.grad > 0).all()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_an_answer_that_is_drawn_is_no_negative(loss, shared):
    """Where every entity answers every question there is nothing to push away; logistic loss alone still pulls."""
    ids = range(4)
    every = torch.tensor([[head, 0, tail] for head in ids for tail in ids])
    graph = replace(random_graph(4, 1, 4), train=every)
    settings = replace(SMALL, model="distmult", against=3, shared=shared, loss=loss, epochs=1, batch="full")
    before, after = (train(graph, replace(settings, learning_rate=rate)).module for rate in (1e-9, 0.1))
    scores = [model.scores(model.encode(), model.encode().entities) for model in (before, after)]
    assert loss == "logistic" or torch.allclose(*scores, atol=1e-6)
    assert loss != "logistic" or not torch.allclose(*scores, atol=1e-6)


def test_a_graph_of_one_relation_and_few_triples_trains():
    graph = random_graph(3, 1, 3)
    for name in BASELINES:
        train(graph, replace(SMALL, model=name, epochs=1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "nobody"}, "unknown model 'nobody', expected transe or distmult or"),
        ({"against": 0}, "against 0, expected all or labels or a whole number of at least 1"),
        ({"loss": "logistic"}, "logistic loss against all entities; try --loss softmax, or --against labels"),
        ({"loss": "margin", "against": "labels"}, "margin loss with labels; give --against a number of negatives"),
        ({"smoothing": 0.1, "against": 5}, "smoothing against 5 negatives; it is for --against all or labels"),
        (
            {"focus": 1.0},
            "focus is for logistic loss with drawn negatives; try --focus 0, or --loss",
        ),
        ({"outweigh": 5.0, "against": 5}, "outweigh is for logistic loss with drawn negatives; try --outweigh 1, or"),
        ({"outweigh": 0.0}, "outweigh 0.0, expected a number above 0"),
        ({"even": True, "against": "labels"}, "even is for triples, but with --against labels a question counts once"),
        ({"model": "a2n", "against": "labels"}, "a2n would see all answers of a question at once; try --against all"),
        ({"norm": 3}, "norm 3, expected 1 or 2"),
        ({"epochs": 0}, "epochs 0, expected a whole number of at least 1"),
        ({"learning_rate": 0.0}, "learning rate 0.0, expected a number above 0"),
        ({"average": 1.0}, "average 1.0, expected a number from 0 up to 0.99"),
        ({"query_dropout": 1.0}, "query dropout 1.0, expected a number from 0 up to 0.99"),
    ],
)
def test_settings_that_cannot_be_trained_are_refused(changes, message):
    with pytest.raises(InputError) as told:
        replace(SMALL, **changes)
    assert message in str(told.value)


def test_more_negatives_than_entities_are_refused():
    with pytest.raises(InputError, match=r"60 negatives, but the graph rotated has 60 entities; try at most 59"):
        train(rotated_graph(), replace(SMALL, against=60))


def test_a_loss_that_is_no_number_is_told(monkeypatch):
    monkeypatch.setitem(LOSSES, "softmax", lambda answers, *_: answers.sum() * torch.nan)
    settings = replace(SMALL, model="distmult", against=5)
    with pytest.raises(InputError, match="try a smaller --learning-rate"):
        train(rotated_graph(), settings)


def test_a_trained_model_answers_by_name():
    graph = rotated_graph()
    model = train(graph, LEARNERS["labels"])
    known = {(h, r): t for h, r, t in graph.train.tolist()}
    right = 0
    for (head, relation), tail in list(known.items())[:20]:
        names = graph.entities[head], graph.relations[relation], graph.entities[tail]
        right += model.tails(*names[:2], k=1)[0].name == names[2]
        assert len(model.heads(names[1], names[2], k=3)) == 3
    assert right > 15
