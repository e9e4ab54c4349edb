"""The layers over neighbours against plain twins: loops over triples, each of which arrives at both its ends."""

import copy
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given, strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.baselines.neighbours import WIDEST_BLOCK, joined
from toys import arriving, baseline_of, every_query, random_graph, random_graphs, scrambled

SMALL = {"rgcn": {"dim": 6, "blocks": 3}, "sacn": {"dim": 4, "input_dim": 3, "filters": 5}, "a2n": {"dim": 4}}
EVERY = pytest.mark.parametrize("name", list(SMALL))
NO_EDGES = torch.empty(0, 3, dtype=torch.int64)


def made(name, graph, edges=None, seed=0, **options):
    """Return a small model in float64, all of whose numbers are drawn, ready to evaluate."""
    graph = graph if edges is None else replace(graph, train=edges)
    return scrambled(baseline_of(name, graph, **(SMALL[name] | options)), seed)


def same(left, right):
    torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-9)


def asked(model, graph, answers=None):
    heads, relations = every_query(graph)
    return model.query(model.encode(), heads, relations, *([] if answers is None else [answers]))


@given(graph=random_graphs(), layers=st.integers(1, 3), blocks=st.sampled_from([1, 3, 30]), seed=st.integers(0, 2**31))
@example(graph=random_graph(3, 1, 9), layers=2, blocks=3, seed=0)
def test_rgcn_adds_the_mean_of_each_relations_neighbours_mapped_block_by_block(graph, layers, blocks, seed):
    model, relations = made("rgcn", graph, layers=layers, dim=60, blocks=blocks, seed=seed), len(graph.relations)
    points = model.entities
    for layer in range(layers):
        rows = []
        for entity, point in enumerate(points):
            row, senders = point @ model.own[layer], {}
            for direction, sender in arriving(graph.train, relations, entity):
                senders.setdefault(direction, []).append(sender)
            for direction, of_them in senders.items():
                matrix = torch.block_diag(*model.maps[layer, direction])
                row = row + sum(points[sender] @ matrix for sender in of_them) / len(of_them)
            rows.append(row if layer + 1 == layers else row.relu())
        points = torch.stack(rows)
    same(model.encode().entities, points)


@given(blocks=st.integers(1, 30), width=st.integers(1, 30))
@example(blocks=100, width=5)
def test_joined_blocks_are_the_same_map(blocks, width):
    maps = torch.randn(2, blocks, width, width)
    found = joined(maps)
    assert found.shape[-1] == width or found.shape[-1] <= WIDEST_BLOCK
    for one, other in zip(found, maps, strict=True):
        assert torch.block_diag(*one).equal(torch.block_diag(*other))


@given(graph=random_graphs(), seed=st.integers(0, 2**31))
@example(graph=random_graph(4, 8, 200), seed=0)  # more neighbours than are added up at once
def test_sacn_adds_neighbours_as_strong_as_their_relation(graph, seed):
    model, relations = made("sacn", graph, seed=seed), len(graph.relations)
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
    model = made("sacn", graph, kernel=kernel, seed=seed)
    encoded, (heads, relations) = model.encode(), every_query(graph)
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


@EVERY
@given(graph=random_graphs(), seed=st.integers(0, 2**31))
def test_renumbering_entities_permutes_the_encoding(name, graph, seed):
    order = torch.randperm(len(graph.entities), generator=torch.Generator().manual_seed(seed))
    head, relation, tail = graph.train.unbind(dim=1)
    place = order.argsort()  # entity order[i] is now number i
    renumbered = torch.stack([place[head], relation, place[tail]], dim=1)
    model, other = made(name, graph), made(name, graph, renumbered)
    other.entities.data.copy_(model.entities[order])
    same(other.encode().entities, model.encode().entities[order])
    heads, relations = every_query(graph)
    same(asked(other, graph), model.query(model.encode(), order[heads], relations))


@EVERY
@given(graph=random_graphs(), seed=st.integers(0, 2**31))
def test_the_order_of_edges_does_not_matter(name, graph, seed):
    order = torch.randperm(len(graph.train), generator=torch.Generator().manual_seed(seed))
    same(asked(made(name, graph, graph.train[order]), graph), asked(made(name, graph), graph))


@EVERY
@given(graph=random_graphs())
def test_entities_without_edges_do_not_matter_to_the_others(name, graph):
    more = random_graph(len(graph.entities) + 3, len(graph.relations), 1)
    model, larger = made(name, graph), made(name, more, graph.train)
    larger.entities.data[: len(graph.entities)] = model.entities
    shared = {
        label: part for label, part in model.state_dict().items() if part.is_floating_point() and label != "entities"
    }
    larger.load_state_dict(larger.state_dict() | shared)
    encoded = larger.encode()
    same(encoded.entities[: len(graph.entities)], model.encode().entities)
    heads, relations = every_query(graph)
    same(larger.query(encoded, heads, relations), asked(model, graph))
    assert asked(larger, more).isfinite().all()


@pytest.mark.parametrize("training", [False, True])
@EVERY
def test_a_graph_without_edges_has_queries_and_gradients(name, training):
    graph = random_graph(5, 2, 1)
    model = made(name, graph, NO_EDGES).train(training)
    assert not any(part.numel() for label, part in model.named_buffers() if label in ("senders", "keys"))
    queries = asked(model, graph)
    model.scores(model.encode(), queries).square().sum().backward()
    assert queries.isfinite().all()
    assert all(part.grad is None or part.grad.isfinite().all() for part in model.parameters())
    assert model.entities.grad.any()


@EVERY
def test_gradients_reach_every_number_of_every_part(name):
    graph = random_graph(6, 2, 60)
    assert len(graph.train[:, 1].unique()) == len(graph.relations)
    # BN would undo the shift before it if nothing lay between.
    model = made(name, graph, query_dropout=0.25).train()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            torch.nn.init.zeros_(module.bias)  # so that no ReLU is shut to all rows
    encoded, (heads, relations) = model.encode(), every_query(graph)
    scores = model.scores(encoded, model.query(encoded, heads, relations))
    torch.nn.functional.cross_entropy(scores, heads).backward()
    for label, part in model.named_parameters():
        assert part.grad.isfinite().all()
        assert (part.grad.abs() > 1e-12).all(), label


@given(seed=st.integers(0, 2**31))
@pytest.mark.parametrize("name", ["rgcn", "a2n"])
def test_the_gradient_is_that_of_small_steps(name, seed):
    graph = random_graph(5, 2, 20, seed)
    model = made(name, graph, seed=seed)

    def queries(*values):
        with torch.no_grad():
            for part, value in zip(model.parameters(), values, strict=True):
                part.copy_(value)
        return asked(model, graph).square().sum()

    queries(*(part.clone() for part in model.parameters())).backward()
    start = [part.detach().clone() for part in model.parameters()]
    generator = torch.Generator().manual_seed(seed)
    toward = [torch.randn(part.shape, generator=generator, dtype=part.dtype) for part in start]
    ahead, behind = (
        queries(*(part + step * way for part, way in zip(start, toward, strict=True))) for step in (1e-6, -1e-6)
    )
    slope = sum((part.grad * way).sum() for part, way in zip(model.parameters(), toward, strict=True))
    torch.testing.assert_close((ahead - behind) / 2e-6, slope, rtol=1e-4, atol=1e-4)


@EVERY
@given(graph=random_graphs())
def test_scoring_some_is_scoring_all(name, graph):
    model = made(name, graph)
    encoded, queries = model.encode(), asked(model, graph)
    some = torch.arange(len(queries) * 2).view(-1, 2) % len(graph.entities)
    same(model.scores(encoded, queries, some), model.scores(encoded, queries).gather(1, some))


@EVERY
@given(graph=random_graphs())
def test_a_saved_model_answers_without_the_graph(name, graph):
    model = made(name, graph)
    other = made(name, graph, NO_EDGES, seed=1)
    other.load_state_dict(model.state_dict())
    assert asked(other, graph).equal(asked(model, graph))
    assert asked(copy.deepcopy(model), graph).equal(asked(model, graph))


@EVERY
def test_a_model_that_takes_its_own_weights_again_stays_where_it_is(name):
    model = made(name, random_graph(8, 2, 60))
    before = dict(model.state_dict())
    model.load_state_dict({label: each.clone() for label, each in before.items()})
    assert all(each.data_ptr() == before[label].data_ptr() for label, each in model.state_dict().items())


@pytest.mark.slow
def test_dropped_edges_are_made_up_for_on_average():
    graph = random_graph(5, 2, 20)
    model = made("rgcn", graph, layers=1, edge_dropout=0.4)
    whole = model.encode().entities
    model.train()
    with torch.no_grad():
        draws = torch.stack([model.encode().entities for _ in range(4000)])
    assert draws.std(dim=0).max() > 0.1
    torch.testing.assert_close(draws.mean(dim=0), whole, rtol=0, atol=0.1)


def test_rgcn_asks_for_heads_with_the_same_vector_or_with_its_own():
    graph = random_graph(5, 2, 20)
    forwards, backwards = made("rgcn", graph, inverses=False).encode().relations.chunk(2)
    assert forwards.equal(backwards)
    own = made("rgcn", graph, inverses=True)
    assert own.encode().relations.equal(own.relations)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "rgcn",
            {"dim": 500, "blocks": 30},
            "dimension 500 does not divide into 30 blocks; try 480 or 510, or another",
        ),
        ("sacn", {"kernel": 4}, "kernel 4, expected an odd number; try 3 or 5"),
    ],
)
def test_what_cannot_be_is_refused(name, options, message):
    with pytest.raises(InputError, match=f"^{message}"):
        BASELINES[name].Options(**options)
