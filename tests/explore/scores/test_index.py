"""Laws of search among vectors: exact where it says so, nearly so by an index, which is made again where it must."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.explore.questions.nearest import neighbours
from procrustes_kge.explore.questions.predicting import predict
from procrustes_kge.explore.scores import index as module
from procrustes_kge.explore.scores.asked import ask
from procrustes_kge.explore.scores.index import Searcher, exact_best, kept_index, make_index
from procrustes_kge.models.baselines import BASELINES, build
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.runs.indexes import index_folder
from procrustes_kge.runs.store import load_run, save
from procrustes_models import drawn
from toys import random_graph, random_orthogonal


def vectors_of(count, dim, spread=0.0, seed=0):
    """Return random vectors whose lengths differ by factors of e^spread or so."""
    random = np.random.default_rng(seed)
    lengths = np.exp(spread * random.standard_normal((count, 1)))
    return (random.standard_normal((count, dim)) * lengths).astype(np.float32)


@given(st.integers(1, 50), st.integers(1, 6), st.integers(1, 60), st.integers(1, 40), st.integers(0, 99))
def test_exact_search_sorts_all_products_whatever_the_blocks(count, dim, k, block, seed):
    random = np.random.default_rng(seed)
    vectors, queries = (random.integers(-2, 3, (size, dim)).astype(np.float32) for size in (count, 4))  # many are equal
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        found = exact_best(vectors, queries, k)
    for query, ids, scores in zip(queries, found.ids, found.scores, strict=True):
        products = vectors @ query
        expected = sorted(range(count), key=lambda each: (-products[each], each))[:k]
        assert scores.tolist() == [products[each] for each in expected]
        if len(set(products.tolist())) == count or block >= count:
            assert set(ids.tolist()) <= set(range(count))


faiss = pytest.importorskip("faiss", reason="the extra `index` is not installed")


@pytest.mark.parametrize("spread", [0.0, 0.3])
@pytest.mark.parametrize("dim", [16, 21])
def test_an_index_finds_nearly_all_of_the_best_whatever_their_lengths(spread, dim):
    vectors, queries = vectors_of(6000, dim, spread), vectors_of(200, dim, seed=1)
    index = make_index(vectors, queries[:100])
    assert index.recall >= module.RECALL
    right, found = exact_best(vectors, queries[100:], 10), index.best(queries[100:], 10)
    shares = [np.isin(ours, theirs).mean() for ours, theirs in zip(right.ids, found.ids, strict=True)]
    assert np.mean(shares) >= 0.97
    for query, ids, scores in zip(queries[100:], found.ids, found.scores, strict=True):
        np.testing.assert_allclose(scores, vectors[ids] @ query, rtol=1e-4, atol=1e-4)  # scores are exact
        assert (np.diff(scores) <= 0).all()


def test_where_few_vectors_gain_nothing_all_are_compared():
    vectors, queries = vectors_of(40, 6), vectors_of(9, 6, seed=1)
    index = make_index(vectors, queries)
    assert index.best(queries, 5).ids.tolist() == exact_best(vectors, queries, 5).ids.tolist()
    assert index.best(queries, 100).ids.shape == (9, 40)


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_an_index_is_kept_beside_its_run_and_used_again(tmp_path, quiet, monkeypatch):
    vectors, queries = vectors_of(3000, 16), vectors_of(50, 16, seed=1)
    made = kept_index(tmp_path / "run", "products", vectors, lambda: queries)
    monkeypatch.setattr(module, "make_index", None)  # it is not made again
    again = kept_index(tmp_path / "run", "products", vectors, lambda: queries)
    assert (again.factor, again.recall) == (made.factor, made.recall)
    assert again.best(queries, 10).ids.tolist() == made.best(queries, 10).ids.tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.index"]


def test_an_index_of_other_vectors_is_told_and_made_again(tmp_path):
    vectors, queries = vectors_of(3000, 16), vectors_of(50, 16, seed=1)
    kept_index(tmp_path / "run", "products", vectors, lambda: queries)
    with pytest.warns(UserWarning, match="of other vectors, and so made again"):
        other = kept_index(tmp_path / "run", "products", vectors + 1, lambda: queries)
    assert other.best(queries, 3).scores == pytest.approx(exact_best(vectors + 1, queries, 3).scores, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("file", ["manifest.json", "about.json", "codes.safetensors"])
def test_an_index_that_was_damaged_is_told_and_made_again(file, tmp_path):
    vectors, queries = vectors_of(3000, 16), vectors_of(50, 16, seed=1)
    made = kept_index(tmp_path / "run", "products", vectors, lambda: queries)
    place = index_folder(tmp_path / "run", "products") / file
    for damage in (lambda whole: whole[: len(whole) // 2], lambda whole: b"", None):
        whole = place.read_bytes()
        place.unlink() if damage is None else place.write_bytes(damage(whole))
        with pytest.warns(UserWarning, match="damaged"):
            again = kept_index(tmp_path / "run", "products", vectors, lambda: queries)
        assert again.best(queries, 10).ids.tolist() == made.best(queries, 10).ids.tolist()
    assert json.loads((index_folder(tmp_path / "run", "products") / "about.json").read_text())["recall"] == made.recall


def large_model(count=4000):
    """Return a model with more entities than a toy has, of free lengths."""
    graph, generator = random_graph(count, 3, 600), torch.Generator().manual_seed(0)
    vectors = torch.randn(count, 4, 4, generator=generator) * torch.rand(count, 1, 1, generator=generator)
    return Procrustes(graph.entities, graph.relations, vectors, random_orthogonal(4, generator, (3, 4)).float()), graph


@pytest.mark.slow
@pytest.mark.parametrize("mapped", [True, False])
def test_questions_are_answered_by_the_index_as_they_are_without(mapped, tmp_path):
    model, graph = large_model()
    save(model, tmp_path / "run", graph)
    source = tmp_path / "run" if mapped else load_run(tmp_path / "run")
    exact, quick = ask(source, index=False), ask(source, index=True)
    assert (exact.searcher, type(quick.searcher)) == (None, Searcher)
    same = total = 0
    for head, relation in graph.train[:20, :2].tolist():
        asked = graph.entities[head], graph.relations[relation]
        for way in (lambda asked, names: predict(asked, *names), lambda asked, names: neighbours(asked, names[0])):
            ours, theirs = (way(each, asked) for each in (quick, exact))
            assert len(ours) == len(theirs) == 10
            same += len({row.answer for row in ours} & {row.answer for row in theirs})
            total += len(theirs)
    assert same / total >= 0.97
    assert sorted(path.name for path in (tmp_path / "run.index").iterdir()) == ["angles", "products"]


@pytest.mark.slow
def test_known_answers_are_left_out_by_the_index_too(tmp_path):
    model, graph = large_model()
    everything = replace(graph, train=torch.cat([graph.train, _all_best(model, graph)]))
    save(model, tmp_path / "run", everything)
    found = predict(ask(tmp_path / "run", index=True), graph.entities[0], graph.relations[0])
    known = {answer for head, relation, answer in everything.train.tolist() if (head, relation) == (0, 0)}
    assert len(found) == 10
    assert not {everything.entities.id(row.answer) for row in found} & known


def _all_best(model, graph):
    scores = model.scores(model, model.query(model, torch.tensor([0]), torch.tensor([0])))[0]
    return torch.tensor([[0, 0, each] for each in scores.topk(30).indices.tolist()])


def distances(graph):
    options = BASELINES["transe"].Options(dim=16)
    return TrainedBaseline("transe", options, graph.entities, graph.relations, build("transe", graph, options).eval())


def test_a_model_of_distances_says_that_no_index_helps(tmp_path):
    graph = random_graph(30, 4, 150)
    save(distances(graph), tmp_path / "run", graph)
    with pytest.raises(InputError, match="leave --index out"):
        ask(tmp_path / "run", index=True)
    assert ask(tmp_path / "run").searcher is None


def test_an_index_is_of_use_from_a_size_on(tmp_path, monkeypatch):
    from procrustes_kge.explore.scores import asked

    model, graph = drawn()
    assert ask(model, graph).searcher is None
    monkeypatch.setattr(asked, "LARGEST_EXACT", 10)
    assert ask(model, graph).searcher is not None
    assert ask(model, graph, index=False).searcher is None
