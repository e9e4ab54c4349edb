"""Triples arranged once: the same triples under other numbers, and every layout of them made once."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import torch
from hypothesis import given, strategies as st

from procrustes_kge.layouts.arranged import ArrangedTriples
from procrustes_kge.layouts.fused import FusedLayout
from procrustes_kge.layouts.relational import RelationalMatrices
from procrustes_kge.linalg import nearest_orthogonal, spherise
from toys import builds, random_graph, random_graphs


def arranged(graph):
    """Return a graph and its arranged triples."""
    return graph, ArrangedTriples.of(graph.train, len(graph.entities), len(graph.relations))


arrangements = builds(arranged, graph=random_graphs())


@given(arrangements)
def test_the_entities_that_most_queries_ask_about_come_first(case):
    graph, triples = case
    asked = {(h, r) for h, r, _ in graph.train.tolist()} | {(t, -1 - r) for _, r, t in graph.train.tolist()}
    queries = [sum(entity == index for entity, _ in asked) for index in range(len(graph.entities))]
    busiest = sorted(range(len(queries)), key=lambda entity: (-queries[entity], entity))
    assert triples.order.tolist() == busiest


@given(arrangements)
def test_renumbered_triples_are_the_same_triples(case):
    graph, triples = case
    head, relation, tail = triples.triples.unbind(dim=1)
    back = torch.stack([triples.order[head], relation, triples.order[tail]], dim=1)
    assert torch.equal(back, graph.train)
    assert triples.order[triples.places].tolist() == list(range(len(graph.entities)))


@given(arrangements, st.integers(0, 99))
def test_vectors_go_into_the_order_of_the_triples_and_back(case, seed):
    graph, triples = case
    vectors = torch.randn(2, len(graph.entities), 3, generator=torch.Generator().manual_seed(seed))
    ours = triples.in_order(vectors)
    assert torch.equal(ours[:, triples.triples[:, 0]], vectors[:, graph.train[:, 0]])
    assert torch.equal(triples.in_graph_order(ours), vectors.transpose(0, 1))


@given(arrangements, st.integers(1, 3), st.integers(0, 99))
def test_relations_are_the_same_whatever_entities_are_called(case, segments, seed):
    graph, triples = case
    generator = torch.Generator().manual_seed(seed)
    vectors = spherise(torch.randn(segments, len(graph.entities), 3, generator=generator, dtype=torch.float64))
    plain = RelationalMatrices.of(graph.train, len(graph.entities), len(graph.relations), segments)
    expected = plain.solve(vectors, nearest_orthogonal, translate=True)
    found = triples.matrices(segments).solve(triples.in_order(vectors), nearest_orthogonal, translate=True)
    torch.testing.assert_close(found.residuals, expected.residuals)


def test_every_layout_is_made_once_however_many_threads_ask_for_it(monkeypatch):
    made, threads = [], 4
    for kind in (RelationalMatrices, FusedLayout):
        of = kind.of
        monkeypatch.setattr(kind, "of", lambda *sizes, of=of, **more: made.append(of) or of(*sizes, **more))
    _, triples = arranged(random_graph(40, 3, 500))
    together = Barrier(threads)

    def ask(_):
        together.wait()
        return triples.matrices(2), triples.matrices(1), triples.fused

    with ThreadPoolExecutor(threads) as pool:
        first, *others = pool.map(ask, range(threads))
    assert len(made) == 3
    assert [layout.segments for layout in first[:2]] == [2, 1]
    assert all(one is other for each in others for one, other in zip(first, each, strict=True))
