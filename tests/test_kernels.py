"""The fused kernels agree with their plain twins: on a GPU where there is one, else by Triton's interpreter."""

import os
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
pytest.importorskip("triton", reason="Triton is not installed; pip install 'procrustes-kge[kernels]' brings it")

import triton.runtime.interpreter as interpreter

from procrustes_kge.fit import NEARLY_THERE, FitSettings, Segments, train_epoch
from procrustes_kge.kernels import can_fuse
from procrustes_kge.kernels import full_batch as fused
from procrustes_kge.linalg import nearest_orthogonal_by_products
from procrustes_kge.relational import RelationalMatrices
from toys import random_graph, rotated_graph

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
_patched = interpreter._patch_lang_tensor


def _patch_with_scalars(tensor, scope):
    """Let the interpreter loop to a number that a kernel has loaded: NumPy 2.4 makes no int of an array of one."""
    _patched(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.reshape(-1)[0]))


@pytest.fixture(autouse=True, scope="module")
def _interpreter():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_patch_lang_tensor", _patch_with_scalars)
        as_on_a_gpu = sys.modules["procrustes_kge.fit"]
        patch.setattr(as_on_a_gpu, "_polar", lambda vectors: nearest_orthogonal_by_products)
        yield


def by_both(graph, settings, epochs):
    """Return vectors and losses after some epochs, plain and fused."""
    sizes = (len(graph.entities), len(graph.relations))
    triples = graph.train.to(DEVICE)
    plain = Segments.start(range(settings.segments), sizes[0], settings.segment, 0, DEVICE)
    matrices = RelationalMatrices.of(triples, *sizes, settings.segments)
    found = fused.FusedSegments(plain.vectors.clone(), fused.Strips.of(triples, *sizes))
    for _ in range(epochs):
        train_epoch(plain, matrices, settings)
        loss = found.train_epoch(
            settings.learning_rate,
            translate=settings.translate,
            by_norm=settings.loss == "norm",
            adam=settings.step == "adam",
            near=NEARLY_THERE,
        )
    return (plain.vectors, plain.loss), (found.vectors, loss)


@pytest.mark.parametrize("step", ["turn", "adam"])
@pytest.mark.parametrize("loss", ["squared", "norm"])
@pytest.mark.parametrize("translate", [True, False])
def test_a_fused_epoch_is_a_plain_epoch(step, loss, translate):
    chosen = FitSettings(dim=16, segment=8, step=step, loss=loss, translate=translate, learning_rate=0.05)
    plain, found = by_both(rotated_graph(), chosen, epochs=2)
    torch.testing.assert_close(found[0], plain[0], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found[1], plain[1], rtol=1e-4, atol=1e-4)


@settings(max_examples=8, deadline=None)
@given(
    entities=st.integers(2, 40),
    relations=st.integers(1, 4),
    triples=st.integers(1, 150),
    segment=st.sampled_from([2, 5, 16, 20, 33, 64]),
    seed=st.integers(0, 99),
)
def test_a_fused_epoch_has_the_loss_of_a_plain_epoch_for_any_shape(entities, relations, triples, segment, seed):
    graph = random_graph(entities, relations, triples, seed)
    chosen = FitSettings(dim=2 * segment, segment=segment, translate=False)
    plain, found = by_both(graph, chosen, epochs=1)
    # Directions in which a relation with few triples says nothing are filled alike, but round differently.
    torch.testing.assert_close(found[1], plain[1], rtol=1e-3, atol=1e-3)
    assert found[0].isfinite().all()


def test_questions_of_many_answers_are_cut_and_their_pieces_arrive_where_they_belong():
    rows = torch.arange(90)
    triples = torch.stack([rows * 0, rows % 3, rows + 3], dim=1)
    strips = fused.Strips.of(triples, 93, 3)
    assert strips.counts.max() == fused.FEW
    assert strips.counts.sum() == strips.degrees.sum() == 180
    assert (strips.strips[:, 1] - strips.strips[:, 0]).max() <= fused.STRIP
    for entity in (0, 5):
        mine = strips.arriving[strips.arrivals[entity] : strips.arrivals[entity + 1]]
        assert (strips.asked.flatten()[mine[:, 0]] == entity).all()
        assert (strips.counts.flatten()[mine[:, 0]] == mine[:, 2]).all()
        assert mine[:, 2].sum() == strips.degrees[entity]


@given(
    entities=st.integers(1, 300),
    relations=st.integers(1, 9),
    triples=st.integers(1, 3000),
    seed=st.integers(0, 99),
)
def test_tiles_hold_every_triple_twice(entities, relations, triples, seed):
    graph = random_graph(entities, relations, triples, seed)
    strips = fused.Strips.of(graph.train, len(graph.entities), len(graph.relations))
    found = set()
    directions = {tile: way for first, last, way in strips.strips.tolist() for tile in range(first, last)}
    assert sorted(directions) == list(range(len(strips.tiles)))
    for tile, (offset, depth) in enumerate(strips.tiles.tolist()):
        answers = strips.answers[offset : offset + depth * fused.TILE].view(depth, fused.TILE)
        assert ((answers >= 0).sum(dim=0) == strips.counts[tile]).all()
        for row, number in (answers.T >= 0).nonzero().tolist():
            asked, answer = int(strips.asked[tile, row]), int(answers[number, row])
            found.add((directions[tile], asked, answer))
    relations = len(graph.relations)
    train = graph.train.tolist()
    for relation in range(relations):
        forth = {(h, t) for h, r, t in train if r == relation}
        back = {(t, h) for h, t in forth}
        fewer_tails = len({h for h, _ in back}) < len({h for h, _ in forth})
        assert {(x, y) for r, x, y in found if r == relation} == (back if fewer_tails else forth)
        assert {(x, y) for r, x, y in found if r == relation + relations} == (forth if fewer_tails else back)


def test_kernels_are_for_gpus_and_for_segments_that_fit():
    assert not can_fuse(torch.device("cpu"), 20)
    if torch.cuda.is_available():
        assert can_fuse(DEVICE, 20)
        assert not can_fuse(DEVICE, 128)
