"""Laws of evidence: what was planted is named, and nothing else."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st
from torch.nn.functional import normalize

from laws import refused
from procrustes_kge.explore.evidence.evidence import Examination, explain
from procrustes_kge.models.paths import Paths
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.models.ranking import rank
from procrustes_kge.models.with_paths import WithPaths
from toys import graph_of, planted_model, random_graphs, random_orthogonal

SEGMENTS, WIDTH = 10, 8


def turns(graph, generator, **given):
    """Return rotations, those given and others at random."""
    drawn = random_orthogonal(WIDTH, generator, (len(graph.relations), SEGMENTS)).float()
    for name, rotation in given.items():
        drawn[graph.relations.id(name)] = rotation
    return drawn


def placed(graph, rotations, generator, *follow):
    """Return a model of random vectors, but where one entity follows from another by a relation, backwards or not."""
    vectors = normalize(torch.randn(len(graph.entities), SEGMENTS, WIDTH, generator=generator), dim=-1)
    for one, name, other in follow:
        rotation = rotations[graph.relations.id(name)]
        vectors[graph.entities.id(other)] = (vectors[graph.entities.id(one), :, None] @ rotation)[:, 0]
    return Procrustes(graph.entities, graph.relations, vectors, rotations)


NOISE = [f"{end} s x{i}" for end in ("h", "t") for i in range(8)] + [f"x{i} u y{i}" for i in range(8)]


@pytest.mark.parametrize("seed", range(3))
def test_the_other_way_round_of_a_symmetric_relation_is_named(seed):
    generator = torch.Generator().manual_seed(seed)
    graph = graph_of(["t r h", *NOISE, *(f"x{i} r y{7 - i}" for i in range(8))], test=["h r t"])
    half = random_orthogonal(WIDTH, generator, (SEGMENTS,)).float()
    mirror = half @ torch.diag(torch.tensor([1.0, -1.0] * (WIDTH // 2))) @ half.mT
    model = placed(graph, turns(graph, generator, r=mirror), generator, ("h", "r", "t"))
    found = explain(model, graph, ("h", "r", "t"), k=1)
    assert [each.triple for each in found.witnesses] == [("t", "r", "h")]
    assert found.witnesses[0].role == "the same the other way round"
    assert found.sentence == "h r t, because t r h"
    assert (found.known, found.rank) == ("test", 1)


@pytest.mark.parametrize("seed", range(3))
def test_the_two_steps_of_a_composed_relation_are_named(seed):
    generator = torch.Generator().manual_seed(seed)
    # The answer itself is in training: it is no evidence for itself.
    graph = graph_of(["h a z", "z b t", *NOISE, *(f"x{i} a y{7 - i}" for i in range(8)), "h r t", "x1 r y2"])
    rotations = turns(graph, generator)
    a, b, r = map(graph.relations.id, "abr")
    rotations[r] = rotations[a] @ rotations[b]
    model = placed(graph, rotations, generator, ("h", "a", "z"), ("z", "b", "t"))
    found = explain(model, graph, ("h", "r", "t"), k=2)
    assert {each.triple for each in found.witnesses} == {("h", "a", "z"), ("z", "b", "t")}
    assert {each.role for each in found.witnesses} == {"on the way h → z → t"}
    assert found.known == "train"
    assert found.routes[0].text == "h a → z b → t"
    assert found.routes[0].triples == (("h", "a", "z"), ("z", "b", "t"))
    assert found.routes[0].fall == pytest.approx(sum(each.fall for each in found.witnesses))
    assert found.without >= found.with_all
    assert [each.triple for each in found.alike] == [("x1", "r", "y2")]


@pytest.mark.slow
@given(graph=random_graphs(), seed=st.integers(0, 2**31))
def test_evidence_is_of_training_makes_scores_fall_and_is_never_the_answer(graph, seed):
    generator = torch.Generator().manual_seed(seed)
    model = placed(graph, turns(graph, generator), generator)
    triple = graph.train[0].tolist()
    names = graph.entities[triple[0]], graph.relations[triple[1]], graph.entities[triple[2]]
    found = explain(model, graph, names, k=7)
    train = {(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in graph.train.tolist()} - {names}
    falls = [each.fall for each in found.witnesses]
    assert falls == sorted(falls, reverse=True)
    assert all(fall > 0 for fall in falls)
    assert {each.triple for each in found.witnesses} <= train
    assert {each for route in found.routes for each in route.triples} <= train
    assert found.rank == rank(model, graph, graph.train[:1]).realistic[0]
    assert all(0 <= route.right <= route.ends for route in found.routes)
    assert found.as_dict()["sentence"] == found.sentence


@pytest.mark.slow
@given(graph=random_graphs(), seed=st.integers(0, 99))
def test_what_paths_add_falls_with_their_triples(graph, seed):
    generator = torch.Generator().manual_seed(seed)
    relations = len(graph.relations)
    head, relation, tail = graph.train[0].tolist()
    steps = torch.randint(2 * relations, (6, 3), generator=generator)
    steps[:2, 1:], steps[2:4, 2] = -1, -1
    steps = steps.unique(dim=0)
    paths = Paths(torch.full((len(steps),), relation), steps, torch.rand(len(steps), generator=generator))
    embedding = placed(graph, turns(graph, generator), generator)
    model = WithPaths(embedding, paths, torch.ones(2 * relations), graph.train)
    alone, both = (Examination(each, graph, head, relation, tail) for each in (embedding, model))

    def evidence(train):
        asked = torch.tensor([head]), torch.tensor([relation])
        edges = replace(model, train=train).edges
        found = paths.found(edges, *asked, hidden=torch.tensor([tail]))
        return paths.evidence(found, 1, len(graph.entities))[0, tail].item()

    for row in range(len(graph.train)):
        fewer = torch.cat([graph.train[:row], graph.train[row + 1 :]])
        gained = both.falls.get(row, 0.0) - alone.falls.get(row, 0.0)
        expected = evidence(graph.train) - evidence(fewer) if graph.train[row].tolist() != [head, relation, tail] else 0
        if head != tail:
            assert gained == pytest.approx(expected, abs=1e-4)


def test_an_entity_that_training_never_saw_has_no_evidence():
    graph = graph_of(["a r b"], test=["c s d"])
    generator = torch.Generator().manual_seed(0)
    found = explain(placed(graph, turns(graph, generator), generator), graph, ("c", "s", "d"))
    assert (found.witnesses, found.routes, found.alike) == ((), (), ())
    assert found.sentence == "nothing in training speaks for c s d"


def test_what_cannot_be_explained_is_refused():
    model, graph = planted_model()
    triple = graph.entities[0], graph.relations[0], graph.entities[1]
    refused(lambda: explain(model, graph, triple, k=0), setting="k", seen=0, remedy="at least 1")
    refused(lambda: explain(model, graph, triple[:2]), setting="names", seen=2, remedy="three")
    refused(lambda: explain(model, graph, ("turn 99", *triple[1:])), setting="entity", seen="turn 99", remedy="Known")
