"""Laws of vectors from elsewhere: what is exported comes back, and what does not fit is told or refused."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from folders import graph_for, model_of
from laws import is_orthogonal, refused, slow_but
from procrustes_kge.explore.importing.importing import from_vectors
from procrustes_kge.graphs.graph import Vocabulary
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.runs.exchange.vectors import read_vectors
from procrustes_kge.runs.export import export
from procrustes_kge.runs.store import load_run, save
from procrustes_models import close, contrasted, fitted
from toys import planted_model

NAMED = {"lengths": "free", "translate": False}


@pytest.mark.parametrize("suffix", slow_but(("npy",), ("npy", "npz", "parquet", "safetensors", "vec")))
@pytest.mark.parametrize("translate", [True, False])
def test_what_was_exported_comes_back_as_the_same_model(translate, suffix, tmp_path):
    model, graph = fitted(translate=translate)
    (file, *_) = export(model, tmp_path / f"v.{suffix}")
    found = from_vectors(graph, read_vectors(file), segment=10, translate=translate).model
    assert torch.equal(found.vectors, model.vectors)
    close(found.rotations, model.rotations)
    assert (found.translations is None) == (model.translations is None)
    if translate:
        close(found.translations, model.translations)


def test_relations_are_solved_for_vectors_that_know_them_not():
    model, graph = planted_model()
    run = from_vectors(graph, model.table.numpy(), list(model.entities), segment=model.vectors.shape[2], **NAMED)
    assert is_orthogonal(run.model.rotations)
    assert evaluate(run.model, run.graph).both.mrr == pytest.approx(evaluate(model, graph).both.mrr, abs=1e-6)
    assert run.report["imported"]["vectors"] == len(graph.entities)


@pytest.mark.slow
def test_free_lengths_stay_and_unit_ones_are_made():
    model, graph = contrasted(scale=False, translate=False)
    names = list(model.entities)
    free = from_vectors(graph, model.table, names, segment=10, lengths="free").model
    assert torch.equal(free.vectors, model.vectors)
    unit = from_vectors(graph, model.table * 3 + 1, names, segment=10).model
    close(unit.vectors.norm(dim=-1), torch.ones(unit.vectors.shape[:2]))
    same = from_vectors(graph, model.table, names, segment=10).model
    close(unit.vectors, same.vectors, 1e-3)  # neither a shift nor a scale of all is seen


def test_vectors_are_taken_from_whatever_holds_them():
    model, graph = fitted()
    table, names = model.table.numpy(), list(model.entities)
    order = np.random.default_rng(0).permutation(len(names))
    shuffled = [names[row] for row in order]
    sources = [
        (table, names),
        (model.table, names),
        (table[order], shuffled),
        (table[order], {name: row for row, name in enumerate(shuffled)}),
        (dict(zip(shuffled, table[order], strict=True)), None),
        (model.vectors, names),
    ]
    for source, given in sources:
        assert torch.equal(from_vectors(graph, source, given, segment=10).model.vectors, model.vectors)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_vectors_of_gensim_are_taken():
    gensim = pytest.importorskip("gensim.models", reason="gensim is not installed")
    model, graph = fitted()
    held = gensim.KeyedVectors(model.dim)
    held.add_vectors(list(model.entities), model.table.numpy())
    assert torch.equal(from_vectors(graph, held, segment=10).model.vectors, model.vectors)


# Entities without a vector, and vectors of others.


def without_some(step=7):
    model, graph = fitted()
    kept = [row for row in range(len(model.entities)) if row % step]
    return model, graph, model.table.numpy()[kept], [model.entities[row] for row in kept]


def test_entities_without_a_vector_are_folded_in():
    model, graph, table, names = without_some()
    run = from_vectors(graph, table, names, segment=10)
    assert run.graph is graph
    assert evaluate(run.model, graph).both.mrr > 0.9 * evaluate(model, graph).both.mrr
    close(run.model.vectors.norm(dim=-1), torch.ones(run.model.vectors.shape[:2]))
    (note,) = run.report["imported"]["notes"]
    assert note.startswith("9 entities without a vector folded in from their neighbours (")


def test_entities_without_a_vector_are_left_out_where_asked(tmp_path):
    _, graph, table, names = without_some()
    run = from_vectors(graph, table, names, segment=10, missing="leave-out")
    assert list(run.graph.entities) == [name for name in graph.entities if name in names]
    assert run.graph.relations is graph.relations
    named = {graph.entities[head] for head in graph.train[:, 0].tolist()} - set(names)
    assert named
    for split in ("train", "valid", "test"):
        kept = [(graph.entities[h], r, graph.entities[t]) for h, r, t in graph.split(split).tolist()]
        kept = [(h, r, t) for h, r, t in kept if {h, t} <= set(names)]
        assert [
            (run.graph.entities[h], r, run.graph.entities[t]) for h, r, t in run.graph.split(split).tolist()
        ] == kept
    save(run.model, tmp_path / "run", run.graph, None, run.report)
    assert load_run(tmp_path / "run").graph.checksum == run.graph.checksum


def test_those_that_nobody_knows_are_left_out_and_chains_are_followed():
    names = ["a", "b", "c", "d", "e", "f"]
    chain = graph_for(model_of(names), [(0, 0, 1), (1, 0, 2), (2, 0, 3), (4, 0, 5)])
    table = np.random.default_rng(0).normal(size=(2, 4)).astype("f4")
    run = from_vectors(chain, table, ["a", "b"], segment=2)
    assert list(run.graph.entities) == ["a", "b", "c", "d"]
    told = run.report["imported"]["notes"]
    assert told[0].startswith("2 entities without a vector folded in from their neighbours (c, d)")
    assert told[1].startswith("2 entities without a vector left out, with their triples (e, f)")


def test_relations_without_a_triple_are_told():
    graph = graph_for(model_of("abc", relations=("r", "s")), [(0, 0, 1), (1, 1, 2)])
    run = from_vectors(graph, np.eye(4, dtype="f4")[:2], ["a", "b"], segment=2)
    assert "1 relation without a triple between vectors, left as they are: s" in run.report["imported"]["notes"]
    assert is_orthogonal(run.model.rotations)


def test_a_relation_that_is_not_solved_says_nothing_until_it_is():
    model, graph = planted_model()
    some = torch.zeros(len(graph.entities), dtype=torch.bool)
    some[::7] = True
    # One relation is there only where a vector is missing; the others say where these entities lie.
    hidden = (graph.train[:, 1] != 2) | some[graph.train[:, 0]] | some[graph.train[:, 2]]
    graph = replace(graph, train=graph.train[hidden])
    rows = (~some).nonzero().flatten()
    run = from_vectors(
        graph,
        model.table[rows],
        [graph.entities[row] for row in rows.tolist()],
        segment=model.vectors.shape[2],
        **NAMED,
    )
    close(run.model.vectors, model.vectors, 1e-3)
    assert "1 relation without a triple between vectors, solved once" in run.report["imported"]["notes"][0]
    of_it = replace(graph, test=graph.train[graph.train[:, 1] == 2])
    assert evaluate(run.model, of_it).both.mrr == pytest.approx(evaluate(model, of_it).both.mrr, abs=0.05)


@pytest.mark.slow
def test_free_lengths_are_folded_in_too():
    model, graph = contrasted(scale=False, translate=False)
    kept = [row for row in range(len(model.entities)) if row % 7]
    names = [model.entities[row] for row in kept]
    run = from_vectors(graph, model.table[kept], names, segment=10, lengths="free", translate=False)
    assert torch.equal(run.model.vectors[kept], model.vectors[kept])
    assert evaluate(run.model, graph).both.mrr > 0.9 * evaluate(model, graph).both.mrr


def test_names_are_matched_however_they_are_spelled():
    names = ["new york", "Zo\u00eb", "<http://e.org/a>", "Paris", "Rome"]
    graph = graph_for(model_of(names), [(row, 0, (row + 1) % 5) for row in range(5)])
    given = ["new_york", "Zoe\u0308", "http://e.org/a", "paris", "Rome", "Atlantis", "Mu"]
    table = np.random.default_rng(0).normal(size=(7, 4)).astype("f4")
    run = from_vectors(graph, table, given, segment=2, lengths="free")
    assert torch.equal(run.model.table, torch.from_numpy(table[:5]))
    told = " ".join(run.report["imported"]["notes"])
    assert "2 names spelled in another way, such as" in told
    assert "2 vectors with other names not used (Atlantis, Mu)" in told
    # One spelling for two names says nothing: neither is taken.
    twice = graph_for(model_of(["a b", "a_b", "c"]), [(0, 0, 1), (1, 0, 2)])
    run = from_vectors(twice, table[:2], ["a_b", "c"], segment=2, missing="leave-out", lengths="free")
    assert list(run.graph.entities) == ["a_b", "c"]


def test_vectors_of_zeros_say_nothing():
    _, graph, table, names = without_some()
    empty = np.concatenate([table, np.zeros((1, table.shape[1]), dtype="f4")])
    absent = next(name for name in graph.entities if name not in names)
    run = from_vectors(graph, empty, [*names, absent], segment=10)
    assert run.report["imported"]["vectors"] == len(names)


# Segments.


@pytest.mark.parametrize(
    ("dim", "width"), [(100, 20), (300, 20), (50, 25), (768, 24), (7, 7), (1, 1), (22, 22), (26, 26)]
)
def test_a_segment_near_twenty_that_divides_is_chosen(dim, width):
    graph = graph_for(model_of("abc"), [(0, 0, 1), (1, 0, 2)])
    table = np.random.default_rng(0).normal(size=(3, dim)).astype("f4")
    assert from_vectors(graph, table, list("abc")).model.vectors.shape == (3, dim // width, width)


def test_segments_that_cannot_be_are_refused():
    graph = graph_for(model_of("abc"), [(0, 0, 1), (1, 0, 2)])
    call = partial(from_vectors, graph, np.ones((3, 100)), list("abc"))
    refused(lambda: call(segment=30), setting="100 numbers", seen="segments of 30", remedy="try 20 or 25")
    refused(lambda: call(segment=0), setting="segment", seen="0", remedy="at least 1")
    prime = partial(from_vectors, graph, np.ones((3, 769)), list("abc"))
    refused(prime, setting="769 numbers", seen="segments of 769 alone", remedy="--segment 769")


# What is refused.


def test_vectors_that_cannot_be_are_refused():
    graph = graph_for(model_of(["a", "b", "c"]), [(0, 0, 1), (1, 0, 2)])
    table = np.arange(12, dtype="f4").reshape(3, 4)
    bad, huge = table.copy(), table.astype("f8")
    bad[1, 2], huge[0, 0] = np.nan, 1e300
    names = ["a", "b", "c"]
    cases = [
        ((table, ["x", "y", "z"]), "none of the 3 names", "'x'", "check that they are of the same graph"),
        ((bad, names), "1 vector", "nan of 'b'", "leave these vectors out"),
        ((huge, names), "1 vector", "inf of 'a'", "leave these vectors out"),
        ((table, ["a", "b", "a"]), "'a'", "rows 1 and 3, with different vectors", "keep one"),
        ((table, ["a", "b"]), "vectors", "3 rows and 2 names", "a name for each row"),
        ((table[0], names), "vectors", "of shape (4,)", "a row for each name"),
        ((table[:0], []), "vectors", "of shape (0, 4)", "a row for each name"),
        ((table.astype("U3"), names), "vectors", "of shape (3, 4)", "expected numbers"),
        ((np.zeros((3, 4)), names), "vectors", "are zero", "that were learned"),
        ((table, None), "3 vectors", "without names", "names="),
        ((table, {"a": 0, "b": 0, "c": 2}), "names", "a and b", "a row for each"),
        (({"a": [1, 2], "b": [1]}, None), "vectors", "different shapes", "one shape"),
        ((table[[0, 2]], ["a", "c"]), "2 entities", "no training triple between two", "more entities"),
    ]
    for (given, called), setting, seen, remedy in cases:
        refused(lambda g=given, c=called: from_vectors(graph, g, c), setting=setting, seen=seen, remedy=remedy)
    for word in ("lengths", "missing"):
        refused(
            lambda word=word: from_vectors(graph, table, names, **{word: "x"}),
            **{"setting": word if word == "lengths" else "missing entities", "seen": "'x'", "remedy": "Known:"},
        )


def test_a_run_of_imported_vectors_is_saved_and_read(tmp_path):
    model, graph = fitted()
    graph = replace(graph, entities=Vocabulary(graph.entities.names, "entity"))
    run = from_vectors(graph, model.table, list(model.entities), segment=10)
    save(run.model, tmp_path / "run", run.graph, run.settings, run.report)
    found = load_run(tmp_path / "run")
    assert torch.equal(found.model.rotations, run.model.rotations)
    assert found.report["imported"]["segment"] == 10
