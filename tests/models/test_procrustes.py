"""The contract that every model passes, and the laws of Procrustes itself."""

import re
from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st

from procrustes_kge.linalg import nearest_orthogonal
from procrustes_kge.models.procrustes import both_ways
from procrustes_kge.models.ranking import LinkPredictor, evaluate
from procrustes_models import (
    MODELS,
    close,
    drawn,
    every_model,
    made,
    models_that,
    queries_of,
    scores_of,
)
from toys import planted_model


@every_model
def test_every_model_is_a_link_predictor(name):
    assert isinstance(made(name)[0], LinkPredictor)


@every_model
@given(seed=st.integers(0, 2**31), count=st.integers(1, 20), some=st.integers(1, 10))
def test_scoring_some_is_scoring_all(name, seed, count, some):
    model, graph = made(name)
    queries = queries_of(model, graph, seed, count)
    candidates = torch.randint(len(graph.entities), (count, some), generator=torch.Generator().manual_seed(seed))
    everything = scores_of(model, graph, *queries)
    assert everything.shape == (count, len(graph.entities))
    close(scores_of(model, graph, *queries, candidates), everything.gather(1, candidates))


@every_model
@given(seed=st.integers(0, 2**31))
def test_a_query_has_the_same_scores_whatever_it_is_asked_beside(name, seed):
    model, graph = made(name)
    entities, relations = queries_of(model, graph, seed, 6)
    together = scores_of(model, graph, entities, relations)
    alone = [scores_of(model, graph, entities[[row]], relations[[row]])[0] for row in range(6)]
    close(together, torch.stack(alone))


@models_that(exact=True)
def test_a_triple_has_the_same_score_from_either_side(name):
    model, graph = made(name)
    everyone = torch.arange(len(graph.entities))
    for relation in range(len(graph.relations)):
        forward = scores_of(model, graph, everyone, torch.full_like(everyone, relation))
        backward = scores_of(model, graph, everyone, torch.full_like(everyone, relation + len(graph.relations)))
        close(forward, backward.T)


@every_model
def test_ranking_is_by_score_from_either_side(name):
    model, graph = made(name)
    head, relation, tail = graph.test.unbind(dim=1)
    ranks = evaluate(model, graph).ranks
    asked, relations = torch.cat([head, tail]), torch.cat([relation, relation + len(graph.relations)])
    scores = scores_of(model, graph, asked, relations)
    own = scores.gather(1, torch.cat([tail, head])[:, None])
    unfiltered = (scores > own).sum(dim=1) + 1
    assert (ranks.optimistic <= unfiltered).all()
    assert (unfiltered - ranks.optimistic <= len(graph.entities) - ranks.candidates).all()


@every_model
def test_asking_leaves_the_model_as_it_was(name):
    model, graph = made(name)
    queries = queries_of(model, graph)
    before = scores_of(model, graph, *queries)
    evaluate(model, graph)
    assert torch.equal(scores_of(model, graph, *queries), before)


@models_that(learned=True)
def test_what_was_planted_is_ranked_perfectly(name):
    model, graph = made(name)
    for split in ("train", "valid", "test"):
        evaluation = evaluate(model, graph, split)
        assert evaluation.pessimistic.mrr == evaluation.mrr == 1


# Procrustes.


@every_model
def test_a_model_has_the_tables_that_it_was_made_with(name):
    model, graph = made(name)
    relations, (segments, width) = len(graph.relations), model.vectors.shape[1:]
    shapes = {
        "vectors": (len(graph.entities), segments, width),
        "rotations": ((1 + model.inverses) * relations, segments, width, width),
        "translations": (2 * relations, segments, width),
        "scales": (2 * relations, segments, width),
    }
    tables = model.tables()
    assert all(table is getattr(model, kind) for kind, table in tables.items())
    assert tables.keys() == {kind for kind in shapes if getattr(model, kind) is not None}
    assert ("translations" in tables, "scales" in tables) == ("translated" in name, "scaled" in name)
    assert model.inverses == ("inverses" in name)
    assert {kind: tuple(table.shape) for kind, table in tables.items()} == {kind: shapes[kind] for kind in tables}


@every_model
def test_rotations_are_orthogonal_and_segments_as_long_as_declared(name):
    model, _ = made(name)
    rotations = model.rotations.double()
    close(rotations.mT @ rotations, torch.eye(rotations.shape[-1], dtype=torch.float64).expand_as(rotations), 1e-6)
    lengths = model.vectors.norm(dim=-1)
    assert torch.allclose(lengths, torch.ones_like(lengths), atol=1e-5) == MODELS[name].unit


@every_model
def test_the_query_is_where_the_answer_should_lie(name):
    model, graph = made(name)
    head, relation, tail = graph.train.unbind(dim=1)
    own, relations = model.rotations, len(graph.relations)
    for asked, direction, rotations in (
        (head, relation, own),
        (tail, relation + relations, own[relations:] if model.inverses else own.mT),
    ):
        rotated = (model.vectors[asked][:, :, None] @ rotations[relation]).squeeze(2)
        scales = 1 if model.scales is None else model.scales[direction]
        shifts = 0 if model.translations is None else model.translations[direction]
        close(model.query(model, asked, direction), (scales * rotated + shifts).flatten(1))


@models_that(backwards=True)
def test_heads_are_sought_by_the_map_of_tails_read_backwards(name):
    model, graph = made(name)
    _, relation, tail = graph.train.unbind(dim=1)
    shifts = 0 if model.translations is None else model.translations[relation][:, :, None]
    rotated = (model.vectors[tail][:, :, None] - shifts) @ model.rotations[relation].mT
    close(model.query(model, tail, relation + len(graph.relations)), rotated.flatten(1))


@given(seed=st.integers(0, 2**31))
def test_a_translation_both_ways_leads_there_and_back(seed):
    model, graph = drawn(seed, translate=True)
    everyone = torch.arange(len(graph.entities))
    for relation in range(len(graph.relations)):
        there = model.query(model, everyone, torch.full_like(everyone, relation)).view_as(model.vectors)
        moved = replace(model, vectors=there)
        back = moved.query(moved, everyone, torch.full_like(everyone, relation + len(graph.relations)))
        close(back, model.vectors.flatten(1))


def in_double(model):
    """Return the same model with segments of length one, and rotations orthogonal, to the last digit of float64."""
    return replace(
        model,
        **{name: table.double() for name, table in model.tables().items()}
        | {
            "vectors": torch.nn.functional.normalize(model.vectors.double(), dim=-1),
            "rotations": nearest_orthogonal(model.rotations.double()),
        },
    )


@models_that(unit=True)
def test_products_rank_as_distances_do(name):
    """For unit segments 2 q·t = −‖q − t‖² + a constant of the query."""
    exact, graph = in_double(made(name)[0]), made(name)[1]
    everyone = torch.arange(len(graph.entities))
    for direction in range(2 * len(graph.relations)):
        wanted = exact.query(exact, everyone, torch.full_like(everyone, direction))
        nearness = -torch.cdist(wanted, exact.vectors.flatten(1)).square() / 2
        constants = exact.scores(exact, wanted) - nearness
        close(constants, constants[:, :1].expand_as(constants), 1e-9)


@models_that(unit=True, backwards=True)
def test_products_rank_as_distances_do_from_either_side(name):
    """For unit segments 2 q·t = −‖hQ + b − t‖² + a constant of the query, forwards and backwards."""
    exact, graph = in_double(made(name)[0]), made(name)[1]
    everyone, relations = torch.arange(len(graph.entities)), len(graph.relations)
    if exact.translations is not None:  # those of heads were rounded to float32
        exact = replace(exact, translations=both_ways(exact.rotations, exact.translations[:relations]))
    for relation in range(relations):
        wanted = exact.query(exact, everyone, torch.full_like(everyone, relation))
        nearness = -torch.cdist(wanted, exact.vectors.flatten(1)).square() / 2  # of head (row) and tail (column)
        forward = scores_of(exact, graph, everyone, torch.full_like(everyone, relation))
        backward = scores_of(exact, graph, everyone, torch.full_like(everyone, relation + relations))
        for scores, near in ((forward, nearness), (backward, nearness.T)):
            constants = scores - near
            close(constants, constants[:, :1].expand_as(constants), 1e-9)


def test_planted_tails_are_rotated_heads():
    model, graph = planted_model()
    for split in ("train", "valid", "test"):
        head, relation, tail = graph.split(split).unbind(dim=1)
        close(model.query(model, head, relation), model.vectors[tail].flatten(1))
        close(model.query(model, tail, relation + len(graph.relations)), model.vectors[head].flatten(1))
    lengths = model.vectors.norm(dim=-1)
    close(lengths, torch.ones_like(lengths))


# Devices.


@every_model
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_model_answers_alike_on_every_device(name, device):
    model, graph = made(name)
    moved = model.to(device)
    assert moved.tables().keys() == model.tables().keys()
    assert {table.device.type for table in moved.tables().values()} == {device}
    assert (moved.entities, moved.relations) == (model.entities, model.relations)
    query = graph.entities[1], graph.relations[1]
    there, here = moved.tails(*query), model.tails(*query)
    assert [answer.score for answer in there] == pytest.approx([answer.score for answer in here], abs=1e-5)
    assert evaluate(moved, graph).mrr == pytest.approx(evaluate(model, graph).mrr, abs=1e-3)


@every_model
def test_all_of_a_model_moves(name):
    moved = made(name)[0].to("meta")
    tables = [moved.vectors, moved.rotations, moved.translations, moved.scales]
    assert {table.device.type for table in tables if table is not None} == {"meta"}


@every_model
def test_the_dimension_is_that_of_a_query(name):
    model, graph = made(name)
    assert model.query(model, *queries_of(model, graph)).shape[1] == model.dim


def test_a_model_is_shown_in_one_line_and_in_a_table():
    model, _ = planted_model()
    assert repr(model) == "Procrustes   60 entities · 8 relations · 30 dimensions"
    rows = re.findall("<tr><th>(.+?)</th><td>(.+?)</td></tr>", model._repr_html_())
    assert rows == [("entities", "60"), ("relations", "8"), ("dimensions", "30")]


def test_no_queries_have_no_answers():
    model, _ = planted_model()
    nothing = torch.empty(0, dtype=torch.int64)
    assert model.query(model, nothing, nothing).shape == (0, model.dim)


def test_a_query_is_rotated_alike_alone_and_among_others():
    model, graph = planted_model()
    generator = torch.Generator().manual_seed(0)
    heads = torch.randint(len(graph.entities), (50,), generator=generator)
    relations = torch.randint(2 * len(graph.relations), (50,), generator=generator)
    together = model.query(model, heads, relations)
    for row in range(50):
        alone = model.query(model, heads[row : row + 1], relations[row : row + 1])
        torch.testing.assert_close(alone[0], together[row])
