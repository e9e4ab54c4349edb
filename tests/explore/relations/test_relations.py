"""Laws of what relations are: what is planted is found, what is not there is not."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st

from procrustes_kge.errors import InputError
from procrustes_kge.explore.relations import relations as room
from procrustes_kge.explore.relations.chance import Chance
from procrustes_kge.explore.relations.compositions import best_compositions
from procrustes_kge.explore.relations.maps import relation_maps
from procrustes_kge.explore.relations.relations import KINDS, relation_properties
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import learn
from toys import (
    CORNERS,
    FACTORS,
    graph_of,
    planted_model,
    random_graph,
    random_orthogonal,
    rotated_graph,
    small_baseline,
    times,
)

# Two turns that undo each other, one done twice, mirrors, and one turn under two names in the model below.
INVERSE = ((1, 0), (29, 0), (2, 0), (8, 0), (0, 1), (5, 1))
FIT = FitSettings(dim=100, segment=10, epochs=60, patience=0, seed=0, device="cpu", workers=1)


def inverse_of(element):
    turn, mirror = element
    return element if mirror else ((-turn) % CORNERS, 0)


def names(found, kind):
    return {each.relations for each in found.found(kind)}


def planted(seed=0, factors=INVERSE):
    model, graph = planted_model(seed, segments=8, width=8, factors=factors)
    return model, graph, relation_properties(model, graph)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_planted_is_found_and_nothing_else(seed):
    model, _, found = planted(seed)
    called = dict(zip(INVERSE, model.relations, strict=True))
    assert names(found, "symmetric") == {(called[y],) for y in INVERSE if inverse_of(y) == y}
    pairs = {(called[y], called[z]) for y in INVERSE for z in INVERSE if z == inverse_of(y) and y < z}
    assert names(found, "inverse") == pairs
    assert not names(found, "duplicate")
    assert not names(found, "identity")


@pytest.mark.parametrize("factors", [INVERSE, FACTORS])
def test_compositions_are_the_products_of_the_group(factors):
    model, _ = planted_model(segments=8, width=8, factors=factors)
    maps, count = relation_maps(model), len(factors)
    elements = [*factors, *map(inverse_of, factors)]
    products = {
        (target, first, then)
        for first, y in enumerate(elements)
        for then, z in enumerate(elements)
        for target in range(count)
        if times(y, z) == factors[target] and target not in (first % count, then % count) and times(y, z) != (0, 0)
    }
    best = best_compositions(maps, maps.alike())
    exact = best.score > 0.999
    triples = zip(best.target[exact].tolist(), best.first[exact].tolist(), best.then[exact].tolist(), strict=True)
    # A step that is another relation, or its own inverse, explains the target alone where it equals it.
    alone = {each for each in products if factors[each[0]] in (elements[each[1]], elements[each[2]])}
    assert set(triples) == products - alone


def test_scores_of_planted_properties_are_one_and_triples_agree():
    _, _, found = planted()
    for kind in ("symmetric", "inverse", "composed"):
        assert found.found(kind)
        for each in found.found(kind):
            assert each.score == pytest.approx(1, abs=1e-4)
            assert each.in_train > 0.5 > each.exchanged


@pytest.mark.slow
def test_a_trained_model_shows_what_its_graph_has():
    graph = rotated_graph(factors=INVERSE)
    found = relation_properties(learn(graph, FIT), graph)
    assert {"turn 1", "turn 29"} in map(set, names(found, "inverse"))
    assert ("turn 2", "turn 1", "turn 1") in names(found, "composed") or (
        "turn 2", "turn 1", "turn 29⁻¹") in names(found, "composed")  # fmt: skip
    assert names(found, "symmetric") == {("turn 0 and mirror",), ("turn 5 and mirror",)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_random_graph_shows_nothing(seed):
    graph = random_graph(150, 6, 4000, seed)
    found = relation_properties(learn(graph, replace(FIT, epochs=30, seed=seed)), graph)
    assert {kind: names(found, kind) for kind in KINDS} == {kind: set() for kind in KINDS}


@pytest.mark.slow
@given(st.integers(0, 2**31), st.integers(2, 8), st.integers(1, 6), st.booleans())
def test_random_rotations_show_nothing(seed, relations, segments, inverses):
    model = random_model(seed, relations, segments, inverses=inverses)
    found = relation_properties(model)
    assert not any(found.found(kind) for kind in KINDS if kind != "hierarchical")


def random_model(seed, relations=3, segments=4, width=5, inverses=False, sides=True):
    """Return a model of drawn relations, with scales and translations."""
    generator = torch.Generator().manual_seed(seed)
    model, _ = planted_model(segments=segments, width=6, factors=FACTORS[:relations])
    count = relations * (2 if inverses else 1)
    drawn = random_orthogonal(width, generator, (count, segments)).float()
    shape = (2 * relations, segments, width)
    vectors = torch.randn(len(model.entities), segments, width, generator=generator)
    scales = 1 + torch.randn(shape, generator=generator) / 4 if sides else None
    translations = torch.randn(shape, generator=generator) / 4 if sides else None
    return replace(model, vectors=vectors, rotations=drawn, scales=scales, translations=translations)


@given(st.integers(0, 2**31), st.booleans())
def test_maps_are_the_queries_of_the_model(seed, inverses):
    model = random_model(seed, inverses=inverses)
    maps = relation_maps(model)
    ids = torch.arange(2 * len(model.relations))
    for entity in (0, 7):
        asked = model.query(model, torch.full_like(ids, entity), ids).view(len(ids), *model.vectors.shape[1:])
        read = (
            torch.einsum("sw,dswv->dsv", model.vectors[entity], maps.matrices[..., :-1, :]) + maps.matrices[..., -1, :]
        )
        torch.testing.assert_close(read, asked, rtol=1e-4, atol=1e-4)


READABLE = {"transe": 1, "distmult": 1, "complex": 2, "rotate": 2, "quate": 4, "ote": 4, "tucker": 16}


@pytest.mark.parametrize("name", READABLE)
def test_baselines_that_move_vectors_linearly_are_read(name):
    model, graph = trained_baseline(name)
    maps = relation_maps(model)
    assert maps.matrices.shape[-1] == READABLE[name]
    # Composing and comparing go by what the model's queries do, whichever way its numbers are laid out.
    encoded, ids = model.encode(), torch.arange(2 * len(graph.relations))
    asked = model.query(encoded, torch.zeros_like(ids), ids).detach()
    size = maps.matrices.shape[1] * maps.matrices.shape[-1]
    assert asked.shape[1] == size
    assert maps.alike().diagonal().allclose(torch.ones(len(ids)), atol=1e-4)
    relation_properties(model, graph)


@pytest.mark.parametrize("name", ["conve", "roth", "interacte"])
def test_baselines_that_do_not_are_refused_in_a_sentence(name):
    with pytest.raises(InputError, match=rf"^{name}: .* no linear map.*expected "):
        relation_properties(*trained_baseline(name))


def trained_baseline(name, **options):
    graph = random_graph(12, 3, 60)
    module = small_baseline(name, graph, **options)
    return TrainedBaseline(name, module_options(name, options), graph.entities, graph.relations, module.eval()), graph


def module_options(name, options):
    from procrustes_kge.models.baselines import BASELINES
    from toys import options_of

    small = {"relation_dim": 6, "init_std": 0.5, "kernel": 3, "filters": 4, "height": 4, "input_dim": 8, "blocks": 4}
    fitting = {option: value for option, value in small.items() if option in options_of(name)}
    return BASELINES[name].Options(dim=16, **(fitting | options))


@pytest.mark.parametrize("seed", range(2))
def test_rotations_of_inverses_start_as_transposes_which_makes_no_relation_symmetric(seed):
    """Half of all rotations of two numbers are mirrors, their own transposes."""
    graph = random_graph(entities=40, relations=3, triples=300, seed=seed)
    own = {"dim": 400, "segment": 2, "epochs": 5, "batch": 128, "inverses": True, "device": "cpu", "workers": 1}
    model = learn(graph, ContrastSettings(**own, seed=seed))
    assert not names(relation_properties(model, graph), "symmetric")


def test_a_model_that_can_only_be_symmetric_says_nothing_of_it():
    found = relation_properties(*trained_baseline("distmult", inverses=False))
    assert found.by_kind["symmetric"] == ()
    assert any("symmetric" in note for note in found.notes)


def test_rotations_alone_say_nothing_of_levels_and_translations_alone_little_of_symmetry():
    model, graph = planted_model()
    assert relation_properties(model, graph).by_kind["hierarchical"] == ()
    found = relation_properties(*trained_baseline("transe"))
    assert any("translate" in note for note in found.notes)


def test_heads_and_tails_on_two_levels_are_hierarchical():
    model = random_model(1, relations=8, width=5, sides=False)
    moved = torch.zeros(16, *model.vectors.shape[1:])
    # Everything that relation 2 leads to lies near one place, all that it comes from on the other side.
    moved[2], moved[10] = 3.0, -3.0
    found = relation_properties(replace(model, translations=moved))
    assert names(found, "hierarchical") == {(model.relations[2],)}


def test_one_relation_and_three_entities_are_enough():
    graph = graph_of(["a r b", "b r c"])
    settings = FitSettings(dim=20, segment=10, epochs=2, patience=0, device="cpu", workers=1)
    found = relation_properties(learn(graph, settings), graph)
    assert [len(found.by_kind[kind]) for kind in ("symmetric", "inverse", "duplicate", "composed")] == [1, 0, 0, 0]
    assert found.by_kind["hierarchical"][0].in_train == 1
    assert not any(found.found(kind) for kind in KINDS)


@pytest.mark.parametrize("seed", range(2))
def test_what_completion_makes_symmetric_has_no_star(seed):
    # Relations of five triples, in segments of ten: half of each rotation is that of every other one.
    graph = random_graph(60, 12, 60, seed)
    found = relation_properties(learn(graph, replace(FIT, epochs=20, seed=seed)), graph)
    assert not any(found.found(kind) for kind in KINDS)
    assert any("arbitrary" in note for note in found.notes)


def test_many_relations_are_read_in_part_and_that_is_said(monkeypatch):
    monkeypatch.setattr(room, "MOST", 4)
    monkeypatch.setattr(room, "MOST_COMPOSED", 2)
    model, graph = planted_model()
    found = relation_properties(model, graph)
    counts = torch.bincount(graph.train[:, 1]).tolist()
    read = {each.relations[0] for each in found.by_kind["symmetric"]}
    assert len(read) == 4
    assert min(counts[graph.relations.id(name)] for name in read) >= sorted(counts)[-4]
    assert ["read" in note or "looked for" in note for note in found.notes[:2]] == [True, True]


def test_a_graph_of_other_relations_is_refused():
    with pytest.raises(InputError, match="other relations than the model"):
        relation_properties(planted_model()[0], random_graph(5, 2, 10))


def test_chance_is_exceeded_less_easily_by_one_of_many():
    chance = Chance(0.1, 0.05)
    assert chance.exceeded(0.3, 1)
    assert not chance.exceeded(0.3, 1000)
    assert not Chance(0.1, 0.001).exceeded(0.15, 1)  # unlikely, but next to nothing
