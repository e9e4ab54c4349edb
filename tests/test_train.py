"""Laws of training the baselines: planted answers are learned, seeds repeat, the best weights are kept."""

from dataclasses import replace

import pytest
import torch

from procrustes_kge.baselines import BASELINES
from procrustes_kge.errors import InputError
from procrustes_kge.ranking import LinkPredictor, evaluate
from procrustes_kge.train import LOSSES, TrainSettings, train
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


@pytest.mark.parametrize("way", LEARNERS)
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
    assert seen == ["tf32" if rough else before]
    assert backend.fp32_precision == before


def test_the_weights_of_the_best_validation_are_kept():
    graph, seen = rotated_graph(), []
    settings = replace(LEARNERS["all"], patience=2, validate_every=2, epochs=40)
    model = train(graph, settings, lambda progress: seen.append(progress.valid_mrr))
    kept = evaluate(model, graph, "valid").mrr
    assert kept == pytest.approx(max(mrr for mrr in seen if mrr is not None))


def test_a_penalty_keeps_numbers_small():
    graph = rotated_graph()
    sizes = []
    for penalty in ("none", "n2", "n3", "dura"):
        settings = replace(SMALL, model="complex", penalty=penalty, decay=0.1, epochs=10)
        sizes.append(train(graph, settings).module.entities.square().mean().item())
    assert max(sizes[1:]) < sizes[0]


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_fall_when_answers_rise_and_negatives_fall(loss):
    settings = replace(SMALL, against=3, loss=loss)
    answers, negatives = torch.zeros(4, requires_grad=True), torch.zeros(4, 3, requires_grad=True)
    LOSSES[loss](answers, negatives, settings).backward()
    assert (answers.grad < 0).all()
    assert (negatives.grad > 0).all()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_an_answer_that_is_drawn_is_no_negative(loss, shared):
    """Where every entity answers every question, nothing is left to push away, and only margins move the answers."""
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
        ({"model": "rescal"}, "unknown model 'rescal', expected transe or distmult or"),
        ({"against": 0}, "against 0, expected all or labels or a whole number of at least 1"),
        ({"loss": "logistic"}, "logistic loss against all entities; try --against labels or a number of negatives"),
        ({"loss": "margin", "against": "labels"}, "margin loss with labels; give --against a number of negatives"),
        ({"smoothing": 0.1, "against": 5}, "smoothing against 5 negatives; it is for --against all or labels"),
        ({"focus": 1.0}, "focus is for the logistic loss against drawn negatives"),
        ({"norm": 3}, "norm 3, expected 1 or 2"),
        ({"epochs": 0}, "epochs 0, expected a whole number of at least 1"),
        ({"learning_rate": 0.0}, "learning rate 0.0, expected a number above 0"),
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
