"""Laws of the losses that autograd differentiates: their formulas, and what counts as an answer or as a negative."""

import itertools
import math

import pytest
import torch

from procrustes_kge.graphs.known_answers import KnownAnswers
from procrustes_kge.models.baselines import BASELINES, build
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.training.losses import LOSSES
from procrustes_kge.training.query_loss import FAR, QueryLoss
from toys import graph_of, random_graph, rotated_graph, small_settings

SMALL = random_graph(entities=6, relations=2, triples=20)
COMPLETE = graph_of([f"{head} r {tail}" for head in "abcd" for tail in "abcd"])  # every entity answers every query


def losses_of(name="complex", graph=SMALL, **values):
    """Return the loss of a graph's queries, by an untrained model."""
    settings = small_settings(name, **values)
    module = build(name, graph, settings.options)
    model = TrainedBaseline(name, settings.options, graph.entities, graph.relations, module)
    return QueryLoss(graph, model, settings, torch.Generator().manual_seed(0))


def of_all(losses):
    """Return the loss of all queries at once."""
    numbers = torch.arange(losses.count)
    return losses(numbers, *(losses.answers_of(numbers) if losses.settings.negatives == "kvsall" else ()))


def scores_of(losses, asked, directions):
    """Return the scores of all entities as answers to some queries."""
    encoded = losses.model.encode()
    return losses.model.scores(encoded, losses.model.query(encoded, asked, directions))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


# Answers and drawn negatives.


@pytest.mark.parametrize(("temperature", "weight"), [(0.0, 1.0), (0.7, 1.0), (0.0, 3.0), (0.7, 0.5)])
def test_losses_are_those_of_their_formulas(temperature, weight):
    answers, negatives = [0.3, -1.2], [[0.1, 2.0, -0.5], [0.4, 0.0, -3.0]]
    settings = small_settings(
        negatives=3, loss="sigmoid", adversarial_temperature=temperature, negative_weight=weight, loss_margin=1.5
    )
    expected = {"sigmoid": 0.0, "softmax": 0.0, "margin": 0.0}
    for answer, others in zip(answers, negatives, strict=True):
        total = sum(math.exp(temperature * each) for each in others)
        far = sum(math.exp(temperature * other) / total * math.log(sigmoid(-other)) for other in others)
        expected["sigmoid"] -= (math.log(sigmoid(answer)) + weight * far) / (1 + weight) / 2
        expected["softmax"] -= math.log(math.exp(answer) / sum(map(math.exp, [answer, *others]))) / 2
        expected["margin"] += sum(max(0, 1.5 - answer + other) for other in others) / 6
    for name, loss in LOSSES.items():
        found = loss(torch.tensor(answers), torch.tensor(negatives), settings).mean().item()
        assert found == pytest.approx(expected[name], rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_fall_when_answers_rise_and_negatives_fall(loss):
    settings = small_settings(negatives=3, loss=loss)
    answers, negatives = torch.zeros(4, requires_grad=True), torch.zeros(4, 3, requires_grad=True)
    LOSSES[loss](answers, negatives, settings).sum().backward()
    assert (answers.grad < 0).all()
    assert (negatives.grad > 0).all()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_an_answer_that_is_drawn_is_no_negative(loss, shared):
    """Where every entity answers every query there is nothing to push away; the sigmoid loss alone still pulls."""
    losses = losses_of("distmult", COMPLETE, negatives=3, shared_negatives=shared, loss=loss)
    of_all(losses).backward()
    moved = [table.grad.abs().max().item() > 1e-6 for table in losses.model.module.parameters()]
    assert moved == [loss == "sigmoid"] * len(moved)


@pytest.mark.parametrize("shared", [True, False])
def test_drawn_entities_are_scored_as_they_are_and_known_answers_as_far(shared):
    losses = losses_of("distmult", negatives=5, shared_negatives=shared)
    model, known = losses.model, KnownAnswers.of(SMALL, ["train"])
    encoded = model.encode()
    asked = losses.asked, losses.directions
    drawn, scores = losses.drawn_scores(encoded, model.query(encoded, *asked), *asked, 5), scores_of(losses, *asked)
    # Untrained scores all differ, so each that was drawn tells which entity it is of.
    found = (drawn[:, :, None] - scores[:, None]).abs() < 1e-7
    answers = known.hold(*asked, torch.arange(6).expand(len(scores), 6))
    assert (drawn == FAR).any()
    assert ((drawn == FAR) | (found.sum(dim=-1) == 1)).all()
    assert not (found & answers[:, None]).any()


def test_a_model_that_sees_neighbours_hides_the_answer_from_them(monkeypatch):
    graph, hidden, query = rotated_graph(), [], BASELINES["a2n"].query

    def spied(self, encoded, heads, relations, answers=None):
        hidden.append((heads, relations, answers))
        return query(self, encoded, heads, relations, answers)

    monkeypatch.setattr(BASELINES["a2n"], "query", spied)
    of_all(losses_of("a2n", graph))
    ((heads, relations, answers),) = hidden
    assert len(heads) == 2 * len(graph.train)
    assert KnownAnswers.of(graph, ["train"]).hold(heads, relations, answers[:, None]).all()


# All answers of a query at once.


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_sigmoid_labels_are_smoothed_as_their_authors_do(smoothing):
    losses = losses_of(negatives="kvsall", loss="sigmoid", label_smoothing=smoothing)
    asked = losses.different(torch.arange(losses.count))
    shares = (scores_of(losses, *asked).exp() / 6 / (1 + scores_of(losses, *asked).exp() / 6)).tolist()
    rows, answers = losses.known.look_up(*asked)
    known = set(zip(rows.tolist(), answers.tolist(), strict=True))
    total = 0.0
    for row, column in itertools.product(range(losses.count), range(6)):
        label = (1 - smoothing) * ((row, column) in known) + (1 / 6 if smoothing else 0)
        total -= label * math.log(shares[row][column]) + (1 - label) * math.log(1 - shares[row][column])
    assert of_all(losses).item() == pytest.approx(total / losses.count, rel=1e-4)


def test_softmax_shares_a_query_between_its_answers():
    losses = losses_of(negatives="kvsall", init_std=0.5)
    asked = losses.different(torch.arange(losses.count))
    logs, (rows, answers) = scores_of(losses, *asked).log_softmax(dim=1), losses.known.look_up(*asked)
    total = sum(logs[row, answers[rows == row]].mean().item() for row in range(losses.count))
    assert of_all(losses).item() == pytest.approx(-total / losses.count, rel=1e-5)


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_an_answer_that_is_given_twice_counts_once(loss):
    losses = losses_of(negatives="kvsall", loss=loss)
    numbers = torch.arange(losses.count)
    once = losses.answers_of(numbers)
    twice = [torch.cat([each, each[-1:], each[:3]]) for each in once]
    assert losses(numbers, *twice).equal(losses(numbers, *once))


# What triples weigh, and what regularisers add.


def test_subsampled_triples_count_by_the_root_of_how_many_answers_they_have():
    losses = losses_of(subsampling=True)
    total = weights = 0.0
    for number in range(losses.count):
        head, relation, tail = SMALL.train[number % len(SMALL.train)].tolist()
        answers, _ = losses.known.look_up(torch.tensor([head, tail]), torch.tensor([relation, relation + 2]))
        weight = (len(answers) + 6) ** -0.5
        scores = scores_of(losses, losses.asked[number][None], losses.directions[number][None])
        chance = scores.softmax(dim=1)[0, losses.answers[number]].item()
        total, weights = total - weight * math.log(chance), weights + weight
    assert of_all(losses).item() == pytest.approx(total / weights, rel=1e-4)


def moduli(numbers):
    """Return the absolute values of the complex numbers in a vector: real parts, then imaginary ones."""
    return torch.stack(numbers.chunk(2, dim=-1)).square().sum(dim=0).sqrt()


@pytest.mark.parametrize("negatives", ["all", "kvsall", 5])
@pytest.mark.parametrize("regulariser", ["n2", "n3", "dura"])
def test_regularisers_are_those_of_their_formulas_whatever_the_negatives(regulariser, negatives):
    given = {"negatives": negatives, "init_std": 0.5}
    without = losses_of(**given)
    added = of_all(losses_of(**given, regulariser=regulariser, regularisation=0.3)).item() - of_all(without).item()
    encoded, triples = without.model.encode(), (without.asked, without.directions, without.answers)
    if regulariser == "dura":
        # Where all answers of a query are learned at once, it counts once.
        asked = without.different(torch.arange(without.count)) if negatives == "kvsall" else triples[:2]
        parts = [without.model.query(encoded, *asked), encoded.entities[triples[2]]]
        expected = sum(part.square().sum(dim=1).mean() for part in parts)
    else:
        tables = (encoded.entities, encoded.relations, encoded.entities)
        parts = [moduli(table[ids]) for table, ids in zip(tables, triples, strict=True)]
        expected = sum((part ** int(regulariser[1])).sum(dim=1).mean() for part in parts)
    assert added == pytest.approx(0.3 * expected.item(), rel=1e-4)
