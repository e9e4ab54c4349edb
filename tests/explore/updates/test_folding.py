"""Laws of vectors that are found in closed form: what was planted is found again, whoever else is new."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest
import torch

from contrasts import small
from procrustes_kge.explore.updates.folding import fold, is_unit, unreachable
from procrustes_kge.explore.updates.placing import Placing
from procrustes_kge.explore.updates.scorers import scorer_of
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.baselines.neighbours import GraphNetwork
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.training.contrastive import contrast
from procrustes_kge.training.supervised import train
from toys import planted_model, rotated_graph, small_settings

NOTHING = torch.empty(0, dtype=torch.int64)
SIMPLE = [name for name, kind in BASELINES.items() if not issubclass(kind, GraphNetwork)]


def forgotten(model, entities):
    """Return the model without the vectors of some entities, and the mask of these."""
    fresh = torch.zeros(len(model.entities), dtype=torch.bool)
    fresh[entities] = True
    return replace(model, vectors=model.vectors.index_fill(0, torch.tensor(entities), 0.0)), fresh


def folded(model, graph, entities, relations=NOTHING, settings=None):
    empty, fresh = forgotten(model, entities)
    return fold(empty, graph, torch.tensor(entities), fresh, relations, settings)


# Unit segments.


@pytest.mark.parametrize("entity", [0, 17, 59])
def test_a_forgotten_entity_of_a_planted_graph_is_found_again(entity):
    model, graph = planted_model()
    found = folded(model, graph, [entity])
    assert torch.allclose(found.vectors[entity], model.vectors[entity], atol=1e-6)
    others = torch.arange(len(model.entities)) != entity
    assert found.vectors[others].equal(model.vectors[others])
    assert found.rotations is model.rotations or found.rotations.equal(model.rotations)


def test_entities_that_know_each_other_are_found_again_together():
    model, graph = planted_model()
    some = list(range(0, 60, 4))
    inside = set(some)
    assert any(h in inside and t in inside for h, _, t in graph.train.tolist())
    found = folded(model, graph, some)
    assert torch.allclose(found.vectors, model.vectors, atol=1e-4)


def test_entities_that_know_only_each_other_follow_from_the_one_that_is_linked():
    model, graph = planted_model()
    # A chain of triples that are true, of which only the first entity is known.
    relation = 0
    everything = torch.cat([graph.train, graph.valid, graph.test]).tolist()
    chain, tails = [0], {h: t for h, r, t in everything if r == relation}
    while len(chain) < 6:
        chain.append(tails[chain[-1]])
    triples = torch.tensor([(h, relation, t) for h, t in pairwise(chain)])
    found = folded(model, replace(graph, train=triples), chain[1:])
    assert torch.allclose(found.vectors[chain], model.vectors[chain], atol=1e-3)


def test_the_order_of_triples_says_nothing():
    model, graph = planted_model()
    some = [3, 8, 20]
    one = folded(model, graph, some)
    other = folded(model, replace(graph, train=graph.train.flip(0)), some)
    assert torch.allclose(one.vectors, other.vectors, atol=1e-6)


def test_noisy_neighbours_are_averaged_on_the_sphere():
    model, graph = planted_model()
    noisy = replace(
        model,
        vectors=model.vectors + 0.1 * torch.randn(model.vectors.shape, generator=torch.Generator().manual_seed(1)),
    )
    noisy = replace(noisy, vectors=noisy.vectors / noisy.vectors.norm(dim=-1, keepdim=True))
    entity = 5
    found = folded(noisy, graph, [entity]).vectors[entity]
    wanted = torch.zeros_like(found)
    for head, relation, tail in graph.train.tolist():
        if tail == entity:
            wanted += (noisy.vectors[head, :, None] @ noisy.rotations[relation])[:, 0]
        if head == entity:
            wanted += (noisy.vectors[tail, :, None] @ noisy.rotations[relation].mT)[:, 0]
    assert torch.allclose(found, wanted / wanted.norm(dim=-1, keepdim=True), atol=1e-5)


def test_a_forgotten_relation_is_found_again_by_eq_3():
    model, graph = planted_model()
    relation = 2
    eye = torch.eye(model.rotations.shape[-1]).expand_as(model.rotations[0])
    empty = replace(model, rotations=model.rotations.index_copy(0, torch.tensor([relation]), eye[None].contiguous()))
    nobody = torch.zeros(len(model.entities), dtype=torch.bool)
    found = fold(empty, graph, NOTHING, nobody, torch.tensor([relation]))
    wanted = replace(found, rotations=model.rotations)
    test = replace(graph, test=graph.train[graph.train[:, 1] == relation])
    assert evaluate(found, test).mrr == pytest.approx(evaluate(wanted, test).mrr)
    assert evaluate(found, test).mrr == 1.0


def test_an_entity_known_by_a_new_relation_follows_once_that_is_known():
    model, graph = planted_model()
    relation, entity = 4, 11
    eye = torch.eye(model.rotations.shape[-1]).expand_as(model.rotations[0])
    empty = replace(model, rotations=model.rotations.index_copy(0, torch.tensor([relation]), eye[None].contiguous()))
    ends = (graph.train[:, 0] == entity) | (graph.train[:, 2] == entity)
    train = graph.train[~ends | (graph.train[:, 1] == relation)]
    found = folded(empty, replace(graph, train=train), [entity], torch.tensor([relation]))
    queries = replace(graph, train=train, test=graph.train[ends])
    assert evaluate(found, queries).mrr > 0.95


def test_what_nothing_leads_to_is_drawn_and_alike_wherever_it_stands():
    model, graph = planted_model()
    triples = torch.tensor([(0, 1, 2)])
    assert unreachable(triples, torch.tensor([True, False, True]), torch.zeros(2, dtype=torch.bool)).sum() == 2
    alone = replace(graph, train=torch.tensor([[5, 0, 6]]))
    one, other = (folded(model, alone, some) for some in ([5, 6], [6, 5]))
    assert one.vectors.equal(other.vectors)
    assert is_unit(one, torch.ones(len(model.entities), dtype=torch.bool))
    # They are drawn, but true to the triple between them.
    reached = one.vectors[5, :, None] @ one.rotations[0]
    assert torch.allclose(reached[:, 0], one.vectors[6], atol=1e-3)


def test_a_segment_without_a_direction_is_no_length():
    model, _ = planted_model()
    everybody = torch.ones(len(model.entities), dtype=torch.bool)
    vectors = model.vectors.clone()
    vectors[3, 1] = 0
    assert is_unit(replace(model, vectors=vectors), everybody)
    assert not is_unit(replace(model, vectors=2 * vectors), everybody)


# Free lengths.


@cache
def contrasted(**changes):
    graph = rotated_graph()
    settings = small(epochs=60, **changes)
    return contrast(graph, settings), graph, settings


WAYS = [
    {},
    {"crowd": 0.5, "regulariser_power": 3.0, "label_smoothing": 0.1},
    {"relation_weight": 1.0, "translate": False},
]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: ", ".join(way) or "usual")
def test_the_objective_of_a_mover_has_the_gradient_that_training_has(way):
    from procrustes_kge.layouts.batches import QueryBatches
    from procrustes_kge.training.gradients import Gradients, Tables, add_gradients
    from procrustes_kge.training.rotations import of_directions

    model, graph, settings = contrasted(**way)
    movers = torch.tensor([4, 9, 30])
    rows = scorer_of(model, settings).table[movers].clone().requires_grad_()
    with torch.enable_grad():
        Placing(scorer_of(model, settings), graph, movers).loss(rows)
    tables = Tables(
        model.table, of_directions(model.rotations, 2 * len(graph.relations)), model.translations, model.scales
    )
    sums = Gradients.zeros(tables)
    objective = replace(settings.objective, dropout=0.0)
    for batch in QueryBatches.of(graph.train, len(graph.entities), len(graph.relations)).epoch(10**6):
        add_gradients(sums, tables, batch, objective)
    wanted = sums.vectors[movers]
    assert torch.allclose(rows.grad, wanted, atol=2e-3 * float(sums.vectors.norm(dim=1).mean()))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: ", ".join(way) or "usual")
def test_the_found_rows_are_where_the_objective_is_flat(way):
    model, graph, settings = contrasted(**way)
    movers = torch.tensor([4, 9, 30])
    found = folded(model, graph, movers.tolist(), settings=settings)
    grown = scorer_of(found, settings)
    start, end = (table[movers].clone().requires_grad_() for table in (torch.zeros_like(grown.table), grown.table))
    with torch.enable_grad():
        for rows in (start, end):
            Placing(grown, graph, movers).loss(rows)
    assert end.grad.norm() < 0.05 * start.grad.norm()


def test_forgotten_entities_answer_nearly_as_well_as_they_did():
    model, graph, settings = contrasted()
    some = list(range(0, 60, 6))
    found = folded(model, graph, some, settings=settings)
    test = torch.cat([graph.test, graph.valid])
    about = torch.isin(test[:, [0, 2]], torch.tensor(some)).any(dim=1)
    queries = replace(graph, test=test[about])
    assert evaluate(found, queries).mrr > 0.8 * evaluate(model, queries).mrr


def test_a_forgotten_relation_of_free_lengths_answers_nearly_as_well():
    model, graph, settings = contrasted()
    relation = 2
    eye = torch.eye(model.rotations.shape[-1]).expand_as(model.rotations[0])
    tables = {"rotations": model.rotations.index_copy(0, torch.tensor([relation]), eye[None].contiguous())}
    both = torch.tensor([relation, relation + len(graph.relations)])
    tables["scales"] = model.scales.index_fill(0, both, 1.0)
    tables["translations"] = model.translations.index_fill(0, both, 0.0)
    nobody = torch.zeros(len(model.entities), dtype=torch.bool)
    found = fold(replace(model, **tables), graph, NOTHING, nobody, torch.tensor([relation]), settings)
    of_relation = graph.train[:, 1] == relation
    queries = replace(graph, test=graph.train[of_relation])
    assert evaluate(found, queries).mrr > 0.8 * evaluate(model, queries).mrr
    assert found.vectors.equal(model.vectors)
    others = torch.arange(len(graph.relations)) != relation
    assert found.rotations[others].equal(model.rotations[others])


# Baselines.


@pytest.mark.slow
@pytest.mark.parametrize("name", SIMPLE)
def test_every_baseline_with_a_table_takes_in_an_entity(name):
    graph = rotated_graph()
    model = train(graph, small_settings(name, epochs=2))
    table = scorer_of(model, None).table
    movers, fresh = torch.tensor([7]), torch.zeros(len(graph.entities), dtype=torch.bool)
    fresh[7] = True
    empty = type(model)(
        *(getattr(model, field) for field in ("name", "options", "entities", "relations")), model.to("cpu").module
    )
    empty.module.entities.data[7] = 0
    found = fold(empty, graph, movers, fresh, NOTHING, small_settings(name))
    assert isinstance(found, TrainedBaseline)
    rows = scorer_of(found, None).table
    assert rows.isfinite().all()
    assert rows[7].norm() > 0
    others = torch.arange(len(table)) != 7
    assert rows[others].equal(table[others])


def test_complex_answers_about_an_entity_that_it_was_not_trained_on():
    graph = rotated_graph()
    model = train(graph, small_settings("complex"))
    fresh = torch.zeros(len(graph.entities), dtype=torch.bool)
    some = torch.tensor([7, 20, 41])
    fresh[some] = True
    empty = replace(model, module=model.to("cpu").module)
    empty.module.entities.data[some] = 0
    found = fold(empty, graph, some, fresh, NOTHING, small_settings("complex"))
    test = torch.cat([graph.train, graph.test])
    queries = replace(graph, test=test[torch.isin(test[:, [0, 2]], some).any(dim=1)])
    assert evaluate(found, queries).mrr > 0.7 * evaluate(model, queries).mrr
    assert evaluate(found, queries).mrr > 2 * evaluate(empty, queries).mrr
