"""The layers over neighbours against plain twins: loops over triples, each of which arrives at both its ends."""

import copy
from unittest.mock import patch

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.models.baselines.graphnet import A2N, BLOCK, RGCN, SACN, joined
from toys import random_graph, random_graphs

SMALL = {
    RGCN: {"dim": 6, "blocks": 3, "edge_dropout": 0.0},
    SACN: {"dim": 4, "input_dim": 3, "filters": 5, "kernel": 3, "feature_dropout": 0.0, "query_dropout": 0.0}
    | {"graph_dropout": 0.0},
    A2N: {"dim": 4},
}
EVERY = pytest.mark.parametrize("kind", list(SMALL))
NO_EDGES = torch.empty(0, 3, dtype=torch.int64)


def made(kind, graph, edges=None, seed=0, **options):
    """Return a model in double precision, all of whose numbers are drawn, ready to evaluate."""
    edges = graph.train if edges is None else edges
    model = kind(len(graph.entities), len(graph.relations), edges, **(SMALL[kind] | options)).double().eval()
    generator = torch.Generator().manual_seed(seed)
    for name, values in model.state_dict().items():
        if values.is_floating_point():
            drawn = torch.rand(values.shape, generator=generator, dtype=torch.float64)
            values.copy_(drawn + 0.5 if name.endswith("running_var") else 2 * drawn - 1)
    return model


def questions(graph):
    """Return every question of every direction."""
    entities, ways = len(graph.entities), 2 * len(graph.relations)
    return torch.arange(entities).repeat(ways), torch.arange(ways).repeat_interleave(entities)


def arriving(edges, relations, entity):
    """Yield (direction, sender) of what arrives at an entity."""
    for head, relation, tail in edges.tolist():
        if head == entity:
            yield relation, tail
        if tail == entity:
            yield relation + relations, head


def same(left, right):
    torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-9)


def asked(model, graph, answers=None):
    heads, relations = questions(graph)
    return model.query(model.encode(), heads, relations, *([] if answers is None else [answers]))


@given(graph=random_graphs(), layers=st.integers(1, 3), blocks=st.sampled_from([1, 3, 30]), seed=st.integers(0, 2**31))
@example(graph=random_graph(3, 1, 9), layers=2, blocks=3, seed=0)
def test_rgcn_adds_the_mean_of_each_relations_neighbours_turned_block_by_block(graph, layers, blocks, seed):
    model, relations = made(RGCN, graph, layers=layers, dim=60, blocks=blocks, seed=seed), len(graph.relations)
    points = model.entities
    for layer in range(layers):
        rows = []
        for entity, point in enumerate(points):
            row, senders = point @ model.own[layer], {}
            for direction, sender in arriving(graph.train, relations, entity):
                senders.setdefault(direction, []).append(sender)
            for direction, of_them in senders.items():
                turn = torch.block_diag(*model.maps[layer, direction])
                row = row + sum(points[sender] @ turn for sender in of_them) / len(of_them)
            rows.append(row if layer + 1 == layers else row.relu())
        points = torch.stack(rows)
    same(model.encode().entities, points)


@given(blocks=st.integers(1, 30), width=st.integers(1, 30))
@example(blocks=100, width=5)
def test_joined_blocks_are_the_same_map(blocks, width):
    maps = torch.randn(2, blocks, width, width)
    found = joined(maps)
    assert found.shape[-1] == width or found.shape[-1] <= BLOCK
    for one, other in zip(found, maps, strict=True):
        assert torch.block_diag(*one).equal(torch.block_diag(*other))


@given(graph=random_graphs(), seed=st.integers(0, 2**31))
@example(graph=random_graph(4, 8, 200), seed=0)  # more neighbours than are added up at once
def test_sacn_adds_neighbours_as_strong_as_their_relation(graph, seed):
    model, relations = made(SACN, graph, seed=seed), len(graph.relations)
    points = model.entities
    for layer in range(2):
        rows = []
        for entity, point in enumerate(points):
            row = point.clone()
            for direction, sender in arriving(graph.train, relations, entity):
                row = row + model.strengths[layer, direction] * points[sender]
            rows.append(model.weights[layer].weight @ row)
        points = model.norms[layer](torch.stack(rows)).tanh()
    same(model.encode().entities, points)


@given(graph=random_graphs(), kernel=st.sampled_from([1, 3, 5]), seed=st.integers(0, 2**31))
def test_sacn_slides_its_filters_over_head_and_relation(graph, kernel, seed):
    model = made(SACN, graph, kernel=kernel, seed=seed)
    encoded, (heads, relations) = model.encode(), questions(graph)
    first, _, slide, second, *_ = model.features
    _, linear, _, third, _ = model.projection
    pairs = first(torch.stack([encoded.entities[heads], encoded.relations[relations]], dim=1))
    weight = slide.weight.squeeze(2)
    dim, edge = pairs.shape[-1], kernel // 2
    seen = pairs.new_zeros(len(heads), len(weight), dim)
    for place in range(dim):
        for step in range(kernel):
            if 0 <= place + step - edge < dim:
                seen[..., place] += pairs[..., place + step - edge] @ weight[..., step].T
    features = second(seen).relu().mT.flatten(1)
    same(model.query(encoded, heads, relations), third(linear(features)).relu())


@given(graph=random_graphs(), seed=st.integers(0, 2**31))
@example(graph=random_graph(4, 8, 200), seed=0)  # more neighbours than a tile holds
def test_a2n_attends_to_neighbours(graph, seed):
    model, relations = made(A2N, graph, seed=seed), len(graph.relations)
    rows = []
    for head, way in zip(*(ids.tolist() for ids in questions(graph)), strict=True):
        vector, turn = model.entities[head], model.relations[way]
        pairs = [
            torch.cat([model.relations[direction], model.entities[sender]])
            for direction, sender in arriving(graph.train, relations, head)
        ]
        around = torch.zeros_like(vector)
        if pairs:
            neighbours = torch.stack([model.neighbour.weight @ pair for pair in pairs])
            around = (neighbours @ (vector * turn)).softmax(dim=0) @ neighbours
        rows.append(model.joint.weight @ torch.cat([vector, around]) * turn)
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
    whole, without = (made(A2N, graph, edges, most=most).train(training) for edges in (graph.train, rest))
    one, way, answer = torch.tensor(asks).view(3, 1)
    torch.manual_seed(0)
    hidden = whole.query(whole.encode(), one, way, answer)
    for answers in (None, answer):  # what is not there cannot be hidden
        torch.manual_seed(0)
        same(hidden, without.query(without.encode(), one, way, answers))


@given(graph=random_graphs(), drawn=st.data())
def test_hiding_an_edge_changes_no_other_row(graph, drawn):
    model, (heads, relations) = made(A2N, graph), questions(graph)
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
    twice, without = (made(A2N, graph, edges) for edges in (again, graph.train[1:]))
    same(twice.query(twice.encode(), *row), without.query(without.encode(), *row))


def kept(model, counts):
    """Return the places that are kept of each list of neighbours."""
    places, present, questions, _ = model.kept(torch.tensor(counts, dtype=torch.int64))
    return [places[questions == question][present[questions == question]].tolist() for question in range(len(counts))]


COUNTS, MOST = st.lists(st.integers(0, 90), max_size=5), st.integers(1, 40)


@given(counts=COUNTS, most=MOST, training=st.booleans(), alike=st.booleans())
def test_as_many_neighbours_are_kept_as_there_is_room_for_none_twice(counts, most, training, alike):
    model = made(A2N, random_graph(3, 1, 1), most=most).train(training)
    with patch.object(A2N, "alike", lambda _: alike):
        found = kept(model, counts)
    for count, places in zip(counts, found, strict=True):
        assert len(set(places)) == len(places) == min(count, most)
        assert set(places) <= set(range(count))
        if count <= most:
            assert places == list(range(count))


@given(counts=COUNTS, most=MOST)
def test_evaluation_keeps_the_same_neighbours_every_time_alone_or_among_others(counts, most):
    model = made(A2N, random_graph(3, 1, 1), most=most)
    assert kept(model, counts) == [places for count in counts for places in kept(model, [count])]


@given(graph=random_graphs(), most=st.integers(1, 40))
@example(graph=random_graph(4, 8, 200), most=20)
def test_as_many_tiles_of_all_questions_change_nothing(graph, most):
    model, (heads, relations, tails) = made(A2N, graph, most=most), graph.train.unbind(dim=1)
    plain = model.query(model.encode(), heads, relations, tails)
    with patch.object(A2N, "alike", lambda _: True):
        found = model.query(model.encode(), heads, relations, tails)
    same(found, plain)
    pulls = [torch.autograd.grad(each.sum(), list(model.parameters())) for each in (found, plain)]
    for one, other in zip(*pulls, strict=True):
        same(one, other)


def test_a_question_whose_tiles_are_all_padding_has_a_gradient():
    model = A2N(4, 1, torch.tensor([[0, 0, 1]]), dim=3).double().train()
    with patch.object(A2N, "alike", lambda _: True):
        query = model.query(model.encode(), torch.tensor([0, 3]), torch.tensor([0, 0]), torch.tensor([1, 2]))
    same(query, model.query(model.encode(), torch.tensor([0, 3]), torch.tensor([0, 0]), torch.tensor([1, 2])))
    for gradient in torch.autograd.grad(query.sum(), list(model.parameters())):
        assert gradient.isfinite().all()


@given(count=st.integers(1, 300), most=MOST)
def test_evaluation_sees_of_every_direction_that_has_a_strip_of_neighbours(count, most):
    (places,) = kept(made(A2N, random_graph(3, 1, 1), most=most), [count])
    strip = -(-count // most)
    for first in range(count - strip + 1):
        assert set(places) & set(range(first, first + strip))


@pytest.mark.parametrize(("count", "most"), [(5, 3), (9, 2), (11, 10), (50, 20)])
def test_every_neighbour_is_drawn_as_often(count, most):
    torch.manual_seed(0)
    model, times = made(A2N, random_graph(3, 1, 1), most=most).train(), 20_000
    places, present, *_ = model.kept(torch.full((times,), count))
    often = torch.bincount(places[present], minlength=count) / times
    torch.testing.assert_close(often, torch.full((count,), most / count), rtol=0, atol=0.02)


@EVERY
@given(graph=random_graphs(), seed=st.integers(0, 2**31))
def test_renumbering_entities_permutes_the_encoding(kind, graph, seed):
    order = torch.randperm(len(graph.entities), generator=torch.Generator().manual_seed(seed))
    head, relation, tail = graph.train.unbind(dim=1)
    place = order.argsort()  # entity order[i] is now number i
    renumbered = torch.stack([place[head], relation, place[tail]], dim=1)
    model, other = made(kind, graph), made(kind, graph, renumbered)
    other.entities.data.copy_(model.entities[order])
    same(other.encode().entities, model.encode().entities[order])
    heads, relations = questions(graph)
    same(asked(other, graph), model.query(model.encode(), order[heads], relations))


@EVERY
@given(graph=random_graphs(), seed=st.integers(0, 2**31))
def test_the_order_of_edges_does_not_matter(kind, graph, seed):
    order = torch.randperm(len(graph.train), generator=torch.Generator().manual_seed(seed))
    same(asked(made(kind, graph, graph.train[order]), graph), asked(made(kind, graph), graph))


@EVERY
@given(graph=random_graphs())
def test_entities_without_edges_do_not_matter_to_the_others(kind, graph):
    more = random_graph(len(graph.entities) + 3, len(graph.relations), 1)
    model, larger = made(kind, graph), made(kind, more, graph.train)
    larger.entities.data[: len(graph.entities)] = model.entities
    shared = {
        name: part for name, part in model.state_dict().items() if part.is_floating_point() and name != "entities"
    }
    larger.load_state_dict(larger.state_dict() | shared)
    encoded = larger.encode()
    same(encoded.entities[: len(graph.entities)], model.encode().entities)
    heads, relations = questions(graph)
    same(larger.query(encoded, heads, relations), asked(model, graph))
    assert asked(larger, more).isfinite().all()


@pytest.mark.parametrize("training", [False, True])
@EVERY
def test_a_graph_without_edges_has_queries_and_gradients(kind, training):
    graph = random_graph(5, 2, 1)
    model = made(kind, graph, NO_EDGES).train(training)
    assert not any(part.numel() for name, part in model.named_buffers() if name in ("senders", "keys"))
    queries = asked(model, graph)
    model.scores(model.encode(), queries).square().sum().backward()
    assert queries.isfinite().all()
    assert all(part.grad is None or part.grad.isfinite().all() for part in model.parameters())
    assert model.entities.grad.any()


@EVERY
def test_gradients_reach_every_number_of_every_part(kind):
    graph = random_graph(6, 2, 60)
    assert len(graph.train[:, 1].unique()) == len(graph.relations)
    # BN would undo the shift before it if nothing lay between.
    model = made(kind, graph, query_dropout=0.25).train()
    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            torch.nn.init.zeros_(module.bias)  # so that no ReLU is shut to all rows
    encoded, (heads, relations) = model.encode(), questions(graph)
    scores = model.scores(encoded, model.query(encoded, heads, relations))
    torch.nn.functional.cross_entropy(scores, heads).backward()
    for name, part in model.named_parameters():
        assert part.grad.isfinite().all()
        assert (part.grad.abs() > 1e-12).all(), name


@given(seed=st.integers(0, 2**31))
@pytest.mark.parametrize("kind", [RGCN, A2N])
def test_the_gradient_is_that_of_small_steps(kind, seed):
    graph = random_graph(5, 2, 20, seed)
    model = made(kind, graph, seed=seed)

    def queries(*values):
        with torch.no_grad():
            for part, value in zip(model.parameters(), values, strict=True):
                part.copy_(value)
        return asked(model, graph).square().sum()

    queries(*(part.clone() for part in model.parameters())).backward()
    start = [part.detach().clone() for part in model.parameters()]
    torch.manual_seed(seed)
    toward = [torch.randn_like(part) for part in start]
    ahead, behind = (
        queries(*(part + step * way for part, way in zip(start, toward, strict=True))) for step in (1e-6, -1e-6)
    )
    slope = sum((part.grad * way).sum() for part, way in zip(model.parameters(), toward, strict=True))
    torch.testing.assert_close((ahead - behind) / 2e-6, slope, rtol=1e-4, atol=1e-4)


@EVERY
@given(graph=random_graphs())
def test_scoring_some_is_scoring_all(kind, graph):
    model = made(kind, graph)
    encoded, queries = model.encode(), asked(model, graph)
    some = torch.arange(len(queries) * 2).view(-1, 2) % len(graph.entities)
    same(model.scores(encoded, queries, some), model.scores(encoded, queries).gather(1, some))


@EVERY
@given(graph=random_graphs())
def test_a_saved_model_answers_without_the_graph(kind, graph):
    model = made(kind, graph)
    other = made(kind, graph, NO_EDGES, seed=1)
    other.load_state_dict(model.state_dict())
    assert asked(other, graph).equal(asked(model, graph))
    assert asked(copy.deepcopy(model), graph).equal(asked(model, graph))


@EVERY
def test_a_model_that_takes_its_own_weights_again_stays_where_it_is(kind):
    model = made(kind, random_graph(8, 2, 60))
    before = dict(model.state_dict())
    model.load_state_dict({name: each.clone() for name, each in before.items()})
    assert all(each.data_ptr() == before[name].data_ptr() for name, each in model.state_dict().items())


def test_dropped_edges_are_made_up_for_on_average():
    graph = random_graph(5, 2, 20)
    model = made(RGCN, graph, layers=1, edge_dropout=0.4)
    whole = model.encode().entities
    torch.manual_seed(0)
    model.train()
    with torch.no_grad():
        draws = torch.stack([model.encode().entities for _ in range(4000)])
    assert draws.std(dim=0).max() > 0.1
    torch.testing.assert_close(draws.mean(dim=0), whole, rtol=0, atol=0.1)


def test_a2n_leaves_out_a_share_of_the_neighbours_in_training_alone():
    graph, heads, relations = random_graph(8, 2, 60), torch.arange(8).repeat(500), torch.zeros(4000, dtype=torch.int64)
    model = made(A2N, graph, edge_dropout=0.3)
    whole = model.neighbours(heads, relations, None)
    assert whole.present.sum() == 2 * len(graph.train) * 500
    torch.manual_seed(0)
    seen = model.train().neighbours(heads, relations, None)
    assert not (seen.present & ~whole.present).any()
    assert seen.present.sum() / whole.present.sum() == pytest.approx(0.7, abs=0.01)


def test_a2n_without_any_of_its_neighbours_asks_as_if_there_were_no_edges():
    graph = random_graph(8, 2, 60)
    model, without = (made(A2N, graph, edges) for edges in (graph.train, NO_EDGES))
    model.edge_drop.forward = torch.zeros_like
    same(asked(model, graph), asked(without, graph))
    asked(model, graph).sum().backward()
    assert model.entities.grad.isfinite().all()


def test_rgcn_asks_for_heads_with_the_same_vector_or_with_its_own():
    graph = random_graph(5, 2, 20)
    forwards, backwards = made(RGCN, graph).encode().relations.chunk(2)
    assert forwards.equal(backwards)
    assert made(RGCN, graph, inverses=True).encode().relations.equal(made(RGCN, graph, inverses=True).relations)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            RGCN,
            {"dim": 500, "blocks": 30},
            "dimension 500 does not divide into 30 blocks; try 480 or 510, or another",
        ),
        (RGCN, {"dim": 4, "blocks": 5}, "dimension 4 does not divide into 5 blocks; try 5"),
        (RGCN, {"dim": 4, "blocks": 0}, "blocks 0, expected a whole number of at least 1"),
        (SACN, {"kernel": 4}, "kernel 4, expected an odd number, which has a middle; try 3 or 5"),
        (SACN, {"kernel": 0}, "kernel 0, expected a whole number of at least 1"),
        (A2N, {"most": 0}, "most 0, expected a whole number of at least 1"),
    ],
)
def test_what_cannot_be_is_refused(kind, options, message):
    with pytest.raises(InputError, match=f"^{message}"):
        kind(3, 1, NO_EDGES, **options)
