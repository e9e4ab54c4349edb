"""Laws of training with negatives and mini-batches: planted answers found, seeds that repeat, groups side by side."""

import os
import weakref
from dataclasses import replace
from functools import cache, partial

import pytest
import torch
from hypothesis import given, strategies as st

from contrasts import WAYS, assert_close, chance, every_way, is_sound, main_ways, small, trainer_of
from laws import refused
from learning import FEWER
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.training.contrastive import Contrastive, ContrastiveTrainer, contrast, joined
from procrustes_kge.training.learner import Learner
from procrustes_kge.training.loop import run
from procrustes_kge.training.recipes import learn, recipe
from procrustes_kge.training.restoring import restore_relations
from toys import graph_of, random_graph, random_graphs, rotated_graph, same

REAL_DATA = os.environ.get("PROCRUSTES_DATA")


# What training finds.


@cache
def learned(way, batch=128, epochs=16):
    """Return what is learned of planted rotations."""
    return run(Contrastive, rotated_graph(), small(way, batch=batch, epochs=epochs))


def is_found(found):
    """Say whether what was planted is found, far better than by chance."""
    graph = rotated_graph()
    falls = found.curve[-1].loss < 0.7 * found.curve[0].loss
    return falls and is_sound(found.model) and evaluate(found.model, graph).mrr > 0.9 > 10 * chance(graph)


@every_way
def test_planted_rotations_are_found_in_batches_with_any_negatives(way):
    assert is_found(learned(way))  # measured: 1.0


@main_ways
def test_planted_rotations_are_found_in_full_batch_with_any_negatives(way):
    assert is_found(learned(way, "full", 60))


def test_planted_rotations_are_ranked_perfectly():
    graph = rotated_graph(1)
    found = evaluate(contrast(graph, small(dim=200, segment=20, epochs=12, seed=1)), graph)
    assert (found.mrr, found.head.hits_at_1, found.tail.hits_at_1) == (1.0, 1.0, 1.0)


def test_an_untrained_model_is_at_chance():
    graph = rotated_graph()
    assert evaluate(trainer_of(graph, small()).model(), graph).mrr < 2.5 * chance(graph)


@every_way
def test_segments_are_unit_vectors_where_asked_for_and_only_there(way):
    lengths = torch.linalg.vector_norm(learned(way).model.vectors.double(), dim=-1)
    if small(way).lengths == "unit":
        assert float((lengths - 1).abs().max()) < 1e-5
    else:
        assert float(lengths.std() / lengths.mean()) > 0.02


@pytest.mark.parametrize(("scale", "translate"), [(False, True), (True, False), (True, True)])
def test_relations_scale_and_translate_where_asked_for_and_only_there(scale, translate):
    model = contrast(rotated_graph(), small(scale=scale, translate=translate, epochs=4))
    directions = 2 * len(model.relations)
    assert (model.scales is not None, model.translations is not None) == (scale, translate)
    if scale:
        assert model.scales.shape == (directions, 5, 8)
        assert not model.scales.equal(torch.ones_like(model.scales))
    if translate:
        assert model.translations.shape == (directions, 5, 8)
        assert bool(model.translations.any())


def test_regularisation_keeps_vectors_short():
    models = [
        contrast(rotated_graph(), small(regularisation=weight, batch=256, epochs=12)) for weight in (0.0, 0.05, 0.5)
    ]
    sizes = [model.vectors.square().sum().item() for model in models]
    assert sizes[0] > 1.5 * sizes[1] > 1.5 * sizes[2]


@pytest.mark.slow
def test_regularisation_of_scales_keeps_them_short_and_that_of_queries_too():
    for name in ("scale_regularisation", "query_regularisation"):
        weak, strong = (contrast(rotated_graph(), small(**{name: weight}, epochs=8)) for weight in (0.0, 3.0))
        assert weak.scales.square().sum() > 1.2 * strong.scales.square().sum()


def test_rotations_of_positives_are_those_of_eq_3():
    """In full batch they are solved at every step, for the entities before it: the last step is short."""
    graph, settings = rotated_graph(), small("all, unit", batch="full", epochs=60)
    for model in (trainer_of(graph, settings).model(), contrast(graph, settings)):
        solved, _ = restore_relations(model.vectors, graph, translate=False)
        torch.testing.assert_close(model.rotations, solved, rtol=0, atol=0.02)


# What repeats, and what changes nothing.


@main_ways
def test_a_seed_repeats_bit_for_bit_and_another_gives_another(way):
    graph = rotated_graph()
    models = [contrast(graph, small(way, epochs=2, seed=seed)) for seed in (3, 3, -3)]
    assert same(models[0], models[1])
    assert not models[1].vectors.equal(models[2].vectors)


@pytest.mark.parametrize("way", ["all", "all, unit", "none"])  # those that draw no negatives for a chunk
def test_how_many_queries_are_compared_at_once_changes_nothing_but_rounding(way):
    graph, settings = rotated_graph(), small(way, dropout=0.0, epochs=3)
    model = contrast(graph, settings)
    assert_close(contrast(graph, replace(settings, chunk=48)), model)


def test_room_for_more_than_a_batch_changes_nothing():
    graph, settings = rotated_graph(), small(epochs=3)
    model = contrast(graph, settings)
    assert all(same(contrast(graph, replace(settings, chunk=chunk)), model) for chunk in (128, 10**9))


@pytest.mark.parametrize("way", ["some", "none"])
def test_validation_and_test_triples_are_not_looked_at(way):
    graph, nothing = rotated_graph(), torch.empty(0, 3, dtype=torch.int64)
    bare, settings = replace(graph, valid=nothing, test=nothing), small(way, epochs=3, validate_every=2)
    assert same(contrast(bare, settings), contrast(graph, settings))


def test_crowds_matter_only_where_a_query_has_several_answers():
    for graph, alike in ((rotated_graph(), True), (random_graph(20, 2, 400), False)):
        one, other = (contrast(graph, small(crowd=crowd, epochs=3)) for crowd in (0.5, 1.0))
        assert same(one, other) == alike


def test_what_the_sigmoid_needs_matters_to_it_alone():
    graph = rotated_graph()
    for way, alike in (("some, unit", True), ("some, sigmoid", False)):
        model = contrast(graph, small(way, epochs=1))
        for change in ({"margin": 0.5}, {"sharpness": 3.0}, {"adversarial_temperature": 0.0}):
            assert same(contrast(graph, small(way, epochs=1, **change)), model) == alike


def test_steps_on_the_rows_they_see_are_the_same_steps(monkeypatch):
    graph, settings = rotated_graph(), small("some", epochs=5)
    on_rows = contrast(graph, settings)
    monkeypatch.setattr(Learner, "sees_few", property(lambda _: False))
    assert_close(on_rows, contrast(graph, settings))


def test_demanding_determinism_changes_nothing_on_a_cpu():
    graph = rotated_graph()
    for way in ("all", "some, sigmoid"):
        models = [contrast(graph, small(way, epochs=1, deterministic=wanted)) for wanted in (True, False)]
        assert same(*models)


def test_training_leaves_the_threads_of_torch_as_they_were():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        for workers in (0, 1, 2):
            contrast(rotated_graph(), small(epochs=1, batch="full", workers=workers))
            assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


# Groups, trained one after another.


def test_groups_are_smaller_trainings_side_by_side():
    graph, settings = rotated_graph(), small(dim=48, groups=3, epochs=2)
    whole = contrast(graph, settings)
    first = contrast(graph, replace(settings, dim=16, groups=1))
    assert whole.vectors.shape == (60, 6, 8)
    for name, table in first.tables().items():
        assert whole.tables()[name][:, :2].equal(table)
    assert not whole.vectors[:, 2:4].equal(whole.vectors[:, :2])
    assert is_sound(whole)


def test_the_scores_of_a_joined_model_are_the_sum_of_its_parts():
    graph = rotated_graph()
    parts = [contrast(graph, small(dim=16, epochs=1, seed=seed)) for seed in (0, 1, 2)]
    whole = joined(parts)
    query = torch.tensor([3, 5]), torch.tensor([0, 11])
    scores = [model.scores(model, model.query(model, *query)) for model in (whole, *parts)]
    torch.testing.assert_close(scores[0], sum(scores[1:]))
    assert joined(parts[:1]) is parts[0]


def test_groups_find_planted_rotations():
    graph = rotated_graph()
    model = contrast(graph, small(dim=80, groups=2, epochs=12))
    assert evaluate(model, graph).mrr > 0.9


def test_groups_are_trained_one_after_another_and_each_is_free_before_the_next(monkeypatch):
    alive, start = weakref.WeakSet(), ContrastiveTrainer.__init__

    def counted(self, *arguments):
        assert not alive
        alive.add(self)
        start(self, *arguments)

    monkeypatch.setattr(ContrastiveTrainer, "__init__", counted)
    contrast(rotated_graph(), small(groups=5, epochs=2, validate_every=1))
    assert not alive


# Settings that a graph does not suit.


def test_more_negatives_than_there_are_other_entities_are_refused():
    graph = rotated_graph()
    for count in (60, 61, 10**6):
        seen = f"{count:,} negatives, but the graph rotated has 60 entities"
        call = partial(contrast, graph, small(negatives=count))
        refused(call, setting="negatives", seen=seen, remedy="or --negatives all")
    assert is_sound(contrast(graph, small(negatives=59, epochs=2)))


def test_batches_larger_than_the_graph_are_refused():
    graph = rotated_graph()
    most = 2 * len(graph.train)
    for size in (most + 1, 10**6):
        seen = f"{size:,}, but the graph rotated has 384 training triples"
        refused(partial(contrast, graph, small(batch=size)), setting="batch", seen=seen, remedy="or --batch full")
    assert is_sound(contrast(graph, small(batch=most, epochs=2)))


# Legal oddities.

ODD = {
    "a lone entity": graph_of(["a r a"], test=["a s a"]),
    "one triple": graph_of(["a r b"]),
    "two entities": graph_of(["a r b", "b r a", "a s a"], valid=["b s b"]),
    "one relation": graph_of(["a r b", "b r c", "c r d", "d r a"], valid=["a r c"], test=["b r d"]),
    "a relation that occurs once": graph_of(["a r b", "b r c", "c r a", "a once c"], valid=["b once a"]),
    "self-loops only": graph_of(["a r a", "b r b", "c r c", "d s d"], valid=["d r d"]),
    "an entity only in test": graph_of(["a r b", "b r c", "c r a"], valid=["a r c"], test=["a r z"]),
    "a relation only in valid": graph_of(["a r b", "b r c", "c r a"], valid=["a new c"]),
    "everything unseen in valid": graph_of(["a r b", "b r c"], valid=["x new y"], test=["y new x"]),
    "no validation triples": graph_of(["a r b", "b r c", "c s a"], test=["b s a"]),
    "all answers right": graph_of([f"{head} r {tail}" for head in "abc" for tail in "abc"]),
}


@main_ways
@pytest.mark.parametrize("kind", ODD)
def test_odd_graphs_are_trained(kind, way):
    graph, changes = ODD[kind], {"dim": 8, "segment": 4, "epochs": 2}
    if "negatives" in WAYS[way] and WAYS[way]["negatives"] != "none":
        if len(graph.entities) == 1:
            pytest.skip("a lone entity has no negatives")
        changes["negatives"] = len(graph.entities) - 1
    for batch in (2, "full"):
        assert is_sound(contrast(graph, small(way, **changes, batch=batch)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ODD)
def test_odd_graphs_are_learned_by_the_default_way(kind):
    graph, settings = ODD[kind], small(dim=8, segment=4, epochs=40, batch="full", dropout=0.0, regularisation=0.0)
    found = run(Contrastive, graph, settings)
    if len(graph.entities) > 1 and kind != "all answers right":
        assert found.curve[-1].loss < found.curve[0].loss
        assert evaluate(found.model, graph, "train").mrr > 0.9


@FEWER
@given(random_graphs(fewest_triples=3), st.sampled_from([*WAYS]), st.sampled_from([16, "full"]), st.booleans())
def test_any_graph_trains_to_a_sound_model(graph, way, batch, warm):
    changes = {"negatives": 2} if isinstance(WAYS[way].get("negatives"), int) else {}
    if batch != "full":
        batch = min(batch, 2 * len(graph.train))
    settings = small(way, dim=8, segment=4, epochs=3, batch=batch, warm_start=2 if warm else 0, **changes)
    assert is_sound(contrast(graph, settings))


# Real data.


@pytest.mark.skipif(not REAL_DATA, reason="PROCRUSTES_DATA names no folder of benchmark archives")
def test_umls_is_learned_better_than_without_negatives():
    graph = read_graph("umls")
    accurate = learn(graph, recipe("accurate", graph, "cpu", dim=100, epochs=15))  # measured: .886
    fast = learn(graph, recipe("fast", graph, "cpu", dim=100))  # measured: .68, and .745 with 2000 numbers
    found = evaluate(accurate, graph, "valid").mrr
    assert found >= 0.85
    assert found > evaluate(fast, graph, "valid").mrr + 0.1
