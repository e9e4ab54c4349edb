"""Laws of full-batch training: planted answers found, segments that never meet, an epoch that is what autograd does."""

import math
import os
from dataclasses import replace
from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from laws import slow_but
from procrustes_kge.errors import InputError
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.layouts.relational import RelationalMatrices
from procrustes_kge.models.procrustes import Procrustes, both_ways
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.training.blocks import PlainBlock, start_vectors
from procrustes_kge.training.full_batch import FullBatch, fit, learn_full_batch
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.restoring import restore_relations
from toys import graph_of, random_graph, random_graphs, rotated_graph, same

REAL_DATA = os.environ.get("PROCRUSTES_DATA")
WAYS = [
    {"loss": loss, "optimiser": optimiser, "translate": translate}
    for loss, optimiser, translate in product(("squared", "norm"), ("turn", "adam"), (False, True))
]


def small(**changes):
    """Return settings that train a toy in a moment."""
    return replace(FitSettings(dim=40, segment=8, epochs=30, patience=0, validate_every=0, device="cpu"), **changes)


def told(graph, settings):
    """Return the model and all that was reported on the way."""
    log = []
    return fit(graph, settings, log.append), log


def is_sound(model):
    """Tell whether segments are unit vectors, rotations orthogonal, and everything finite."""
    width = model.rotations.shape[-1]
    lengths = torch.linalg.vector_norm(model.vectors.double(), dim=-1)
    turned_back = model.rotations.double() @ model.rotations.double().mT
    return (
        all(bool(table.isfinite().all()) for table in model.tables().values())
        and float((lengths - 1).abs().max()) < 1e-5
        and float((turned_back - torch.eye(width)).abs().max()) < 1e-5
    )


# What training finds.


@pytest.mark.parametrize(
    ("seed", "patience"),
    [pytest.param(0, 0, marks=pytest.mark.slow), (0, 3), pytest.param(1, 3, marks=pytest.mark.slow)],
)
def test_planted_rotations_are_ranked_perfectly(seed, patience):
    graph = rotated_graph(seed)
    model = fit(graph, FitSettings(dim=200, device="cpu", patience=patience, seed=seed))
    found = evaluate(model, graph)
    assert (found.mrr, found.head.hits_at_1, found.tail.hits_at_1) == (1.0, 1.0, 1.0)
    assert is_sound(model)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))
def test_every_way_to_train_beats_no_training(way):
    graph, settings = rotated_graph(), small(**way)
    untrained = torch.nn.functional.normalize(
        torch.randn(len(graph.entities), settings.segments, 8, generator=torch.Generator().manual_seed(0)), dim=-1
    )
    tables = restore_relations(untrained, graph, settings.translate)
    before = evaluate(Procrustes(graph.entities, graph.relations, untrained, *tables), graph).mrr
    model, log = told(graph, settings)
    assert before < 0.3
    assert evaluate(model, graph).mrr > 0.9
    assert (model.translations is not None, model.scales) == (settings.translate, None)
    assert is_sound(model)
    assert log[-1].loss < 0.7 * log[0].loss


@pytest.mark.parametrize("seed", range(3))
def test_a_relation_asked_for_heads_is_the_one_asked_for_tails_read_backwards(seed):
    graph = random_graph(entities=20, relations=3, triples=100, seed=seed)
    model = fit(graph, small(epochs=4, seed=seed))
    assert len(model.translations) == 2 * len(graph.relations)
    assert model.translations.equal(both_ways(model.rotations, model.translations[: len(graph.relations)]))


def test_the_loss_falls():
    for loss in ("squared", "norm"):
        _, log = told(rotated_graph(), small(dim=8, loss=loss, learning_rate=0.02, workers=1))
        losses = [progress.loss for progress in log]
        assert all(later < earlier for earlier, later in pairwise(losses))


class Counted(TorchDispatchMode):
    """Counts calls of PyTorch, and the bytes of what they take and return."""

    def __init__(self):
        super().__init__()
        self.calls = self.bytes = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        found = operation(*args, **(kwargs or {}))
        tensors = [part for part in tree_leaves((args, kwargs, found)) if isinstance(part, torch.Tensor)]
        self.calls += 1
        self.bytes += sum(tensor.nbytes for tensor in tensors)
        return found


def work_of_an_epoch(way, dim=16, triples=4000, relations=8):
    """Return the calls and the bytes of one epoch of all segments, once the triples are arranged."""
    graph = random_graph(entities=300, relations=relations, triples=triples, seed=0)
    training = FullBatch(graph, small(dim=dim, **way), torch.device("cpu"))
    blocks = [training.start(numbers) for numbers in training.parts]
    for block in blocks:
        block.epoch()
    with torch.no_grad(), Counted() as counted:
        for block in blocks:
            block.epoch()
    return counted.calls, counted.bytes


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))
@pytest.mark.parametrize(
    ("grown", "sizes"), [("dim", (16, 32, 64)), ("triples", (4000, 8000, 16_000, 32_000)), ("relations", (8, 16))]
)
def test_twice_the_numbers_triples_or_relations_take_at_most_twice_the_work(way, grown, sizes):
    for (calls, moved), (more_calls, more_moved) in pairwise(work_of_an_epoch(way, **{grown: size}) for size in sizes):
        if grown == "dim":
            assert (more_calls, more_moved) == (2 * calls, 2 * moved)
        else:
            assert more_calls <= 2 * calls
            assert moved < more_moved < 2 * moved


def plain_epoch(vectors, triples, relations, settings, optimiser):
    """Train one epoch by the book: a loop over relations, autograd through the SVD, torch's own Adam."""
    with torch.no_grad():
        vectors -= vectors.mean(dim=0)
        vectors /= torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    loss, mass = 0, torch.zeros(len(vectors), 1, dtype=vectors.dtype)
    for relation in range(relations):
        head, _, tail = triples[triples[:, 1] == relation].T
        heads, tails = vectors[head], vectors[tail]
        if settings.translate:
            heads, tails = heads - heads.mean(dim=0), tails - tails.mean(dim=0)
        left, _, right = torch.linalg.svd(heads.mT @ tails)
        residual = torch.linalg.matrix_norm(heads @ (left @ right) - tails)
        loss = loss + (residual.square() / 2 if settings.loss == "squared" else residual)
        weight = 1.0 if settings.loss == "squared" else 1 / residual.item()
        mass += weight * torch.bincount(torch.cat([head, tail]), minlength=len(vectors))[:, None]
    optimiser.zero_grad()
    loss.backward()
    if settings.optimiser == "adam":
        optimiser.step()
        return loss.item()
    with torch.no_grad():
        # The gradient is mass · (x − wanted); only what is across x turns it.
        across = vectors.grad - (vectors.grad * vectors).sum(dim=-1, keepdim=True) * vectors
        towards = -across / mass
        vectors += settings.learning_rate * towards / (torch.linalg.vector_norm(towards, dim=-1, keepdim=True) + 0.03)
    return loss.item()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))
def test_an_epoch_is_what_autograd_through_the_svd_would_do(way):
    settings = small(**way)
    graph = random_graph(entities=12, relations=3, triples=300, seed=1)
    vectors = start_vectors(range(2), 12, 3, seed=0, device=torch.device("cpu")).double()
    plain = [segment.clone().requires_grad_() for segment in vectors]
    optimisers = [torch.optim.Adam([segment], lr=settings.learning_rate) for segment in plain]
    block = PlainBlock(vectors, settings, RelationalMatrices.of(graph.train, 12, 3, segments=2, height=4))
    for _ in range(3):
        losses = [
            plain_epoch(segment, graph.train, 3, settings, optimiser)
            for segment, optimiser in zip(plain, optimisers, strict=True)
        ]
        assert block.epoch().tolist() == pytest.approx(losses, rel=1e-6)
    for ours, theirs in zip(block.vectors, plain, strict=True):
        assert torch.allclose(ours, theirs.detach(), atol=1e-5)


# What repeats, and what never meets.


def test_another_seed_gives_another_model():
    graph = rotated_graph()
    models = [fit(graph, small(epochs=6, seed=seed)) for seed in (3, 4, -3)]
    assert not any(one.vectors.equal(other.vectors) for one, other in pairwise(models))


def test_neighbouring_seeds_and_segments_start_from_different_vectors():
    drawn = [
        start_vectors([number], 5, 4, seed, torch.device("cpu")).flatten()
        for seed, number in product((-1, 0, 1, 2, 1000), range(4))
    ]
    assert len({tuple(vectors.tolist()) for vectors in drawn}) == len(drawn)


@pytest.mark.parametrize("patience", [0, 1])
def test_workers_and_torch_threads_change_nothing(patience):
    graph, settings = rotated_graph(), small(dim=56, epochs=9, patience=patience, pilot=24)
    first = fit(graph, replace(settings, workers=1))
    before = torch.get_num_threads()
    try:
        for workers, threads in [(2, 1), (3, 2), (0, 3)]:
            torch.set_num_threads(threads)
            assert same(fit(graph, replace(settings, workers=workers)), first)
    finally:
        torch.set_num_threads(before)


def test_segments_never_meet():
    graph = rotated_graph()
    short, long = (fit(graph, small(dim=dim, segment=20, epochs=8)) for dim in (40, 80))
    assert short.vectors.equal(long.vectors[:, :2])
    assert short.rotations.equal(long.rotations[:, :2])
    assert short.translations.equal(long.translations[:, :2])


# Early stopping.

NOISY = random_graph(entities=40, relations=2, triples=500, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("pilot", [16, 500])
@pytest.mark.parametrize("way", WAYS[::3], ids=lambda way: "-".join(map(str, way.values())))
def test_validation_chooses_the_epochs_and_nothing_else(pilot, way):
    settings = small(patience=2, validate_every=4, epochs=50, pilot=pilot, **way)
    model, log = told(NOISY, settings)
    chosen = log[-1].epochs
    assert chosen < 50
    assert chosen % 4 == 0
    assert same(model, fit(NOISY, replace(settings, patience=0, epochs=chosen)))


@pytest.mark.parametrize("pilot", [10, 50])
def test_training_triples_stand_in_where_no_validation_triples_are(pilot):
    bare = replace(NOISY, valid=torch.empty(0, 3, dtype=torch.int64))
    settings = small(patience=2, validate_every=4, epochs=50, pilot=pilot)
    model, log = told(bare, settings)
    chosen = log[-1].epochs
    assert chosen < 50
    assert any(point.valid_mrr for point in learn_full_batch(bare, settings).curve)  # of those that chose
    # They choose, and are trained on like the rest.
    assert same(model, fit(bare, replace(settings, patience=0, epochs=chosen)))


def test_all_epochs_are_trained_where_no_triple_can_stand_in():
    tree = read_graph([("root", "r", f"leaf {number}") for number in range(40)], valid=0, test=0)
    _, log = told(tree, small(epochs=12, patience=3, validate_every=1))
    assert {progress.epochs for progress in log} == {12}


# Mistakes.


def test_a_table_that_no_memory_holds_is_refused():
    with pytest.raises(InputError, match=r"out of memory while training on 60 entities .* try a smaller --dim"):
        fit(rotated_graph(), FitSettings(dim=10**15, device="cpu"))
    with pytest.raises(InputError, match=r"out of memory while training on 60 entities .* try a smaller --dim"):
        fit(rotated_graph(), FitSettings(dim=10**18, device="cpu"))
    with pytest.raises(InputError, match=r"dim 10+, expected a whole number of at most"):
        FitSettings(dim=10**19, device="cpu")


MISTAKES = [
    ({"dim": 1990}, "dimension 1990 does not divide into segments of 20; try 1980 or 2000"),
    ({"dim": 10}, "dimension 10 does not divide into segments of 20; try 20"),
    ({"dim": -20}, "dim -20, expected"),
    ({"segment": 0}, "segment 0, expected"),
    ({"epochs": 0}, "epochs 0, expected"),
    ({"pilot": 0}, "pilot 0, expected"),
    ({"validate_every": -1}, "validate every -1, expected"),
    ({"patience": -1}, "patience -1, expected"),
    ({"workers": -1}, "workers -1, expected"),
    ({"learning_rate": 0.0}, "learning rate 0.0, expected"),
    ({"learning_rate": math.nan}, "learning rate nan, expected"),
    ({"learning_rate": math.inf}, "learning rate inf, expected"),
    ({"loss": "hinge"}, "unknown loss 'hinge'. Known: squared, norm"),
    ({"optimiser": "sgd"}, "unknown optimiser 'sgd'. Known: turn, adam"),
]


@pytest.mark.parametrize(("values", "message"), MISTAKES, ids=lambda value: str(value)[:24])
def test_settings_that_cannot_be_trained_are_refused(values, message):
    settings = FitSettings()
    for name, value in values.items():  # not through __init__, where the tests' type checker would speak first
        object.__setattr__(settings, name, value)
    with pytest.raises(InputError) as caught:
        settings.__post_init__()
    assert str(caught.value).startswith(message)


def test_settings_are_checked_when_they_are_made():
    with pytest.raises(InputError, match="try 1980 or 2000"):
        FitSettings(dim=1990)
    with pytest.raises(InputError, match="epochs 0"):
        replace(FitSettings(), epochs=0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_gpu_that_is_not_there_is_missed(device):
    with pytest.raises(InputError, match=f"device '{device}', but PyTorch .* sees no GPU; try --device cpu"):
        fit(rotated_graph(), small(device=device))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_auto_is_the_cpu():
    assert same(fit(rotated_graph(), small(epochs=2, device="auto")), fit(rotated_graph(), small(epochs=2)))


# Legal oddities.

ODD = {
    "one triple": graph_of(["a r b"]),
    "two entities": graph_of(["a r b", "b r a", "a s a"], valid=["b s b"]),
    "one relation": graph_of(["a r b", "b r c", "c r d", "d r a"], valid=["a r c"], test=["b r d"]),
    "a relation that occurs once": graph_of(["a r b", "b r c", "c r a", "a once c"], valid=["b once a"]),
    "self-loops only": graph_of(["a r a", "b r b", "c r c", "d s d"], valid=["d r d"]),
    "an entity only in test": graph_of(["a r b", "b r c", "c r a"], valid=["a r c"], test=["a r z"]),
    "a relation only in valid": graph_of(["a r b", "b r c", "c r a"], valid=["a new c"]),
    "everything unseen in valid": graph_of(["a r b", "b r c"], valid=["x new y"], test=["y new x"]),
}


@pytest.mark.parametrize("way", slow_but(WAYS[::3], WAYS), ids=lambda way: "-".join(map(str, way.values())))
@pytest.mark.parametrize("kind", ODD)
def test_odd_graphs_are_trained(kind, way):
    model, log = told(ODD[kind], small(dim=8, segment=4, epochs=12, patience=2, validate_every=3, **way))
    assert is_sound(model)
    assert all(math.isfinite(progress.loss) for progress in log)
    assert log[-1].done == log[-1].total


def test_a_lone_entity_has_no_direction_and_still_trains():
    model = fit(graph_of(["a r a"], test=["a s a"]), small(epochs=3))
    assert not model.vectors.any()
    assert bool(model.rotations.isfinite().all())


@pytest.mark.parametrize("optimiser", ["turn", "adam"])
def test_the_norm_loss_stays_finite_where_a_relation_is_fitted_exactly(optimiser):
    # The identity fits self-loops to the last digit from the first epoch on: 1/‖D‖ is 1/0 there.
    loops = [f"{name} loop {name}" for name in "abcdefgh"]
    for train in (loops, [*loops, "a r b", "b r c", "c r a", "d r e"]):
        graph = graph_of(train)
        for translate in (False, True):
            settings = small(loss="norm", optimiser=optimiser, translate=translate, dim=8, epochs=40)
            model, log = told(graph, settings)
            assert is_sound(model)
            assert all(math.isfinite(progress.loss) for progress in log)


@given(random_graphs(fewest_triples=3), st.sampled_from(WAYS))
def test_any_graph_trains_to_a_sound_model(graph, way):
    assert is_sound(fit(graph, small(dim=8, segment=4, epochs=4, patience=1, validate_every=2, **way)))


# Real data.


@pytest.mark.slow
def test_wordnet_mini_is_learned():
    graph = read_graph("wordnet-mini")
    model = fit(graph, FitSettings(dim=100, epochs=15, patience=0, validate_every=0, device="cpu"))  # measured: .52
    assert evaluate(model, graph, "valid").mrr > 0.4


@pytest.mark.skipif(not REAL_DATA, reason="PROCRUSTES_DATA names no folder of benchmark archives")
@pytest.mark.parametrize(
    ("name", "settings", "floor"),
    [
        ("umls", FitSettings(dim=200, device="cpu"), 0.6),  # measured: .69
        pytest.param(
            "wn18rr",
            FitSettings(dim=100, epochs=24, patience=0, validate_every=0, device="cpu"),
            0.4,  # measured: .420
            marks=pytest.mark.slow,
        ),
    ],
)
def test_benchmarks_are_learned(name, settings, floor):
    graph = read_graph(name)
    assert evaluate(fit(graph, settings), graph, "valid").mrr > floor
