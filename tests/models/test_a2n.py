"""A2N's attention to neighbours against a loop over triples; which of them are hidden, kept and drawn."""

from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
from hypothesis import example, given, strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.models.baselines import a2n
from procrustes_kge.models.baselines.a2n import A2N, check_edges_countable
from procrustes_kge.words import counted
from toys import arriving, baseline_of, every_query, random_graph, random_graphs, scrambled

NO_EDGES = torch.empty(0, 3, dtype=torch.int64)


def made(graph, edges=None, seed=0, **options):
    """Return a small model in float64, all of whose numbers are drawn, ready to evaluate."""
    graph = graph if edges is None else replace(graph, train=edges)
    return scrambled(baseline_of("a2n", graph, **({"dim": 4} | options)), seed)


def same(left, right):
    torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-9)


def asked(model, graph, answers=None):
    heads, relations = every_query(graph)
    return model.query(model.encode(), heads, relations, *([] if answers is None else [answers]))


@given(graph=random_graphs(), seed=st.integers(0, 2**31))
@example(graph=random_graph(4, 8, 200), seed=0)  # more neighbours than a tile holds
def test_a2n_attends_to_neighbours(graph, seed):
    model, relations = made(graph, seed=seed), len(graph.relations)
    rows = []
    for head, way in zip(*(ids.tolist() for ids in every_query(graph)), strict=True):
        vector, relation = model.entities[head], model.relations[way]
        pairs = [
            torch.cat([model.relations[direction], model.entities[sender]])
            for direction, sender in arriving(graph.train, relations, head)
        ]
        around = torch.zeros_like(vector)
        if pairs:
            neighbours = torch.stack([model.neighbour.weight @ pair for pair in pairs])
            around = (neighbours @ (vector * relation)).softmax(dim=0) @ neighbours
        rows.append(model.joint.weight @ torch.cat([vector, around]) * relation)
    same(asked(model, graph), torch.stack(rows))


@given(graph=random_graphs(), most=st.integers(1, 4), drawn=st.data(), training=st.booleans())
@example(graph=random_graph(3, 1, 9), most=2, drawn=None, training=False)
@example(graph=random_graph(4, 8, 200), most=40, drawn=None, training=True)
def test_a_hidden_edge_is_as_if_it_had_never_been(graph, most, drawn, training):
    number = drawn.draw(st.integers(0, len(graph.train) - 1)) if drawn else 0
    backwards = drawn.draw(st.booleans()) if drawn else False
    head, relation, tail = graph.train[number].tolist()
    asks = (tail, relation + len(graph.relations), head) if backwards else (head, relation, tail)
    rest = graph.train[torch.arange(len(graph.train)) != number]
    whole, without = (made(graph, edges, max_neighbours=most).train(training) for edges in (graph.train, rest))
    one, way, answer = torch.tensor(asks).view(3, 1)
    hidden, state = whole.query(whole.encode(), one, way, answer), without.random.state()
    for answers in (None, answer):  # what is not there cannot be hidden
        without.random.restore(state)
        same(hidden, without.query(without.encode(), one, way, answers))


@pytest.mark.slow
@given(graph=random_graphs(), drawn=st.data())
def test_hiding_an_edge_changes_no_other_row(graph, drawn):
    model, (heads, relations) = made(graph), every_query(graph)
    answers = torch.tensor([drawn.draw(st.integers(0, len(graph.entities) - 1)) for _ in heads])
    triples = {tuple(triple) for triple in graph.train.tolist()}
    triples |= {(tail, relation + len(graph.relations), head) for head, relation, tail in triples}
    rows = list(zip(heads.tolist(), relations.tolist(), answers.tolist(), strict=True))
    others = torch.tensor([row not in triples for row in rows])
    seen, hidden = asked(model, graph), asked(model, graph, answers)
    same(hidden[others], seen[others])
    alone = [model.query(model.encode(), *torch.tensor(row).view(3, 1)) for row in rows]
    same(hidden, torch.cat(alone))


def test_a_triple_given_twice_is_hidden_twice():
    graph = random_graph(4, 2, 20)
    again = torch.cat([graph.train, graph.train[:1]])
    row = graph.train[:1].unbind(dim=1)
    twice, without = (made(graph, edges) for edges in (again, graph.train[1:]))
    same(twice.query(twice.encode(), *row), without.query(without.encode(), *row))


def kept(model, counts):
    """Return the places that are kept of each list of neighbours."""
    places, present, queries, _ = model.kept(torch.tensor(counts, dtype=torch.int64))
    return [places[queries == query][present[queries == query]].tolist() for query in range(len(counts))]


COUNTS, MOST = st.lists(st.integers(0, 90), max_size=5), st.integers(1, 40)


@given(counts=COUNTS, most=MOST, training=st.booleans(), alike=st.booleans())
def test_as_many_neighbours_are_kept_as_there_is_room_for_none_twice(counts, most, training, alike):
    model = made(random_graph(3, 1, 1), max_neighbours=most).train(training)
    with patch.object(A2N, "alike", lambda _: alike):
        found = kept(model, counts)
    for count, places in zip(counts, found, strict=True):
        assert len(set(places)) == len(places) == min(count, most)
        assert set(places) <= set(range(count))
        if count <= most:
            assert places == list(range(count))


@given(counts=COUNTS, most=MOST)
def test_evaluation_keeps_the_same_neighbours_every_time_alone_or_among_others(counts, most):
    model = made(random_graph(3, 1, 1), max_neighbours=most)
    assert kept(model, counts) == [places for count in counts for places in kept(model, [count])]


@given(graph=random_graphs(), most=st.integers(1, 40))
@example(graph=random_graph(4, 8, 200), most=20)
def test_as_many_tiles_of_all_queries_change_nothing(graph, most):
    model, (heads, relations, tails) = made(graph, max_neighbours=most), graph.train.unbind(dim=1)
    plain = model.query(model.encode(), heads, relations, tails)
    with patch.object(A2N, "alike", lambda _: True):
        found = model.query(model.encode(), heads, relations, tails)
    same(found, plain)
    pulls = [torch.autograd.grad(each.sum(), list(model.parameters())) for each in (found, plain)]
    for one, other in zip(*pulls, strict=True):
        same(one, other)


def test_a_query_whose_tiles_are_all_padding_has_a_gradient():
    graph = replace(random_graph(4, 1, 1), train=torch.tensor([[0, 0, 1]]))
    model = baseline_of("a2n", graph, dim=3).double().train()
    with patch.object(A2N, "alike", lambda _: True):
        query = model.query(model.encode(), torch.tensor([0, 3]), torch.tensor([0, 0]), torch.tensor([1, 2]))
    same(query, model.query(model.encode(), torch.tensor([0, 3]), torch.tensor([0, 0]), torch.tensor([1, 2])))
    for gradient in torch.autograd.grad(query.sum(), list(model.parameters())):
        assert gradient.isfinite().all()


@given(count=st.integers(1, 300), most=MOST)
def test_evaluation_sees_of_every_direction_that_has_a_strip_of_neighbours(count, most):
    (places,) = kept(made(random_graph(3, 1, 1), max_neighbours=most), [count])
    strip = -(-count // most)
    for first in range(count - strip + 1):
        assert set(places) & set(range(first, first + strip))


@pytest.mark.parametrize(("count", "most"), [(5, 3), (9, 2), (11, 10), (50, 20)])
def test_every_neighbour_is_drawn_as_often(count, most):
    model, times = made(random_graph(3, 1, 1), max_neighbours=most).train(), 20_000
    places, present, *_ = model.kept(torch.full((times,), count))
    often = torch.bincount(places[present], minlength=count) / times
    torch.testing.assert_close(often, torch.full((count,), most / count), rtol=0, atol=0.02)


def test_a2n_leaves_out_a_share_of_the_neighbours_in_training_alone():
    graph, heads, relations = random_graph(8, 2, 60), torch.arange(8).repeat(500), torch.zeros(4000, dtype=torch.int64)
    model = made(graph, edge_dropout=0.3)
    whole = model.neighbours(heads, relations, None)
    assert whole.present.sum() == 2 * len(graph.train) * 500
    seen = model.train().neighbours(heads, relations, None)
    assert not (seen.present & ~whole.present).any()
    assert seen.present.sum() / whole.present.sum() == pytest.approx(0.7, abs=0.01)


def test_a2n_without_any_of_its_neighbours_asks_as_if_there_were_no_edges():
    graph = random_graph(8, 2, 60)
    model, without = (made(graph, edges) for edges in (graph.train, NO_EDGES))
    model.edge_drop.forward = torch.zeros_like
    same(asked(model, graph), asked(without, graph))
    asked(model, graph).sum().backward()
    assert model.entities.grad.isfinite().all()


@given(entities=st.integers(1, 2**40), relations=st.integers(1, 2**20))
@example(entities=2**30, relations=2)
@example(entities=2**31, relations=1)
@example(entities=2**31 + 1, relations=1)
def test_a2n_refuses_a_graph_of_more_edges_than_64_bits_number(entities, relations):
    last = ((entities - 1) * 2 * relations + 2 * relations - 1) * entities + entities - 1
    if last < 2**63:
        check_edges_countable(entities, relations)
    else:
        with pytest.raises(
            InputError, match=f"^{counted(entities, 'entity')} and {counted(relations, 'relation')} .*; try another"
        ):
            check_edges_countable(entities, relations)


def test_a2n_looks_whether_edges_can_be_numbered_before_it_is_built():
    with patch.object(a2n, "check_edges_countable", side_effect=InputError("too many")), pytest.raises(InputError):
        made(random_graph(3, 1, 1))
