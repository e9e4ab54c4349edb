"""Laws of influence: closed forms agree with taking a triple away and computing again."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import normalize

from folders import graph_for, model_of
from laws import refused
from procrustes_kge.explore.evidence.influence import Refolding, falls_by_turning
from procrustes_kge.linalg import nearest_orthogonal
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.models.with_paths import WithPaths
from toys import random_graph, random_orthogonal, rotated_graph, small_baseline


def unit_model(graph, segments=3, width=4, seed=0, **more):
    """Return unit vectors and rotations, drawn evenly."""
    generator = torch.Generator().manual_seed(seed)
    vectors = normalize(torch.randn(len(graph.entities), segments, width, generator=generator), dim=-1)
    rotations = random_orthogonal(width, generator, (len(graph.relations), segments)).float()
    return Procrustes(graph.entities, graph.relations, vectors, rotations, **more)


def without(graph, row):
    return replace(graph, train=torch.cat([graph.train[:row], graph.train[row + 1 :]]))


@pytest.mark.parametrize("unit", [True, False])
def test_a_fall_is_what_leaving_the_triple_out_of_the_sum_changes(unit):
    graph = random_graph(12, 3, 90)
    model = unit_model(graph) if unit else model_of(graph.entities.names, graph.relations.names, width=4, segments=3)
    triple = graph.train[0]
    head, relation, tail = triple.tolist()
    whole = Refolding(model, graph, triple)
    query = whole.points(model, torch.tensor([tail]), torch.tensor([relation + 3]))
    rows, falls = whole.falls(head, query)
    assert 0 not in rows.tolist()
    assert len(rows) == ((graph.train[:, [0, 2]] == head).any(dim=1)).sum() - 1
    # Of free lengths, as much longer than the mean as the model has it, with a triple more that says nothing.
    size = len(rows)
    length = 1 if unit else model.table[head].norm() / (whole.pulls(head, rows).sum(dim=0) / (size + 1)).norm()
    for row, fall in zip(rows.tolist(), falls.tolist(), strict=True):
        fewer = Refolding(model, without(graph, row), triple)
        pulls = fewer.pulls(head, fewer.rows(head))
        assert len(pulls) == size - 1
        left = pulls.sum(dim=0, keepdim=True)
        left = normalize(left.view(1, 3, 4), dim=-1).flatten(1) if unit else left / size * length
        scores = [whole.scores(query, head, each).item() for each in (whole.folded(head), left)]
        assert fall == pytest.approx(scores[0] - scores[1], abs=1e-5)


def test_the_only_triple_of_an_entity_takes_all_with_it():
    model = model_of("abc", "r", width=4)
    graph = graph_for(model, [(0, 0, 1), (0, 0, 2)])
    folding = Refolding(model, graph, torch.tensor([0, 0, 2]))
    query = folding.points(model, torch.tensor([2]), torch.tensor([1]))
    rows, falls = folding.falls(0, query)
    assert rows.tolist() == [0]
    assert folding.folded(0).norm() == pytest.approx(model.table[0].norm())
    assert falls.item() == pytest.approx(folding.scores(query, 0, folding.folded(0)).item(), rel=1e-5)
    assert folding.folded(0, rows).norm() == 0


@pytest.mark.parametrize("scaled", [False, True])
def test_turning_is_the_derivative_of_the_closed_form(scaled):
    graph = rotated_graph()
    scales = torch.rand(2 * len(graph.relations), 3, 4) + 0.5 if scaled else None
    model = unit_model(graph, scales=scales)
    triple = graph.train[3]
    head, relation, tail = triple.tolist()
    rows, falls = falls_by_turning(model, graph, triple)
    assert 3 not in rows.tolist()
    vectors, ends = model.vectors.double(), graph.train[rows]
    heads, tails = (vectors[ends[:, column]].transpose(0, 1) for column in (0, 2))
    covariance = heads.mT @ tails

    def score(matrices):
        turned = (vectors[head][:, None] @ nearest_orthogonal(matrices))[:, 0]
        return (turned * (vectors[tail] if scales is None else vectors[tail] * scales[relation])).sum()

    for place in range(0, len(rows), 7):
        gone = heads[:, place, :, None] * tails[:, place, None, :]
        slope = (score(covariance) - score(covariance - 1e-6 * gone)) / 1e-6
        assert falls[place].item() == pytest.approx(slope.item(), rel=1e-3, abs=1e-5)


def test_a_triple_afar_moves_the_neighbour_and_with_it_the_end():
    graph = random_graph(12, 3, 90)
    model, triple = unit_model(graph), graph.train[0]
    head, relation, tail = triple.tolist()
    folding = Refolding(model, graph, triple)
    query = folding.points(model, torch.tensor([tail]), torch.tensor([relation + 3]))
    for link in folding.rows(head)[:4].tolist():
        one, _, other = graph.train[link].tolist()
        near = other if one == head else one
        if near in (head, tail):
            continue
        row = next(each for each in folding.rows(near).tolist() if each != link)
        vectors = model.vectors.clone()
        scores = []
        for gone in (None, torch.tensor([row])):
            vectors[near] = folding.folded(near, gone).view(3, 4)
            moved = Refolding(replace(model, vectors=vectors), graph, triple)
            rows = folding.rows(head)
            keep = ~torch.isin(rows, torch.tensor([link]))
            sums = folding.pulls(head, rows[keep]).sum(dim=0) + moved.pulls(head, rows[~keep])[0]
            scores.append(folding.scores(query, head, folding.vectors(head, sums[None], 9)).item())
        assert folding.fall_from_afar(row, near, link, head, query) == pytest.approx(scores[0] - scores[1], abs=1e-5)


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_is_computed_again_or_refused_in_a_sentence(name):
    graph = random_graph(12, 3, 90)
    module = small_baseline(name, graph).eval()
    model = TrainedBaseline(name, BASELINES[name].Options(), graph.entities, graph.relations, module)
    if name == "roth":
        refused(lambda: Refolding(model, graph, graph.train[0]), setting="RotH", seen="another space", remedy="--model")
        return
    folding = Refolding(model, graph, graph.train[0])
    head, relation, tail = graph.train[0].tolist()
    query = folding.points(folding.encoded, torch.tensor([tail]), torch.tensor([relation + 3]))
    # With the vector that it has, it has the score that the model gives.
    with torch.no_grad():
        expected = model.scores(folding.encoded, query)[0, head]
    torch.testing.assert_close(folding.scores(query, head, folding.table[[head]])[0, 0], expected)
    rows, falls = folding.falls(head, query)
    assert len(rows) == len(falls) > 0
    assert falls.isfinite().all()


def test_paths_beside_a_model_are_not_its_vectors():
    graph = random_graph(12, 3, 90)
    assert not issubclass(WithPaths, Procrustes)
    refused(
        lambda: Refolding(object.__new__(Odd), graph, graph.train[0]), setting="Odd", seen="another", remedy="--model"
    )


class Odd:
    def encode(self, graph=None):
        return None

    def query(self, encoded, heads, relations):
        return torch.zeros(len(heads), 3)

    def scores(self, encoded, queries, candidates=None):
        return queries
