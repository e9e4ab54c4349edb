"""The fused kernels agree with their plain twins: on a GPU where there is one, else by Triton's interpreter."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings, strategies as st

pytest.importorskip("triton", reason="Triton is not installed; `make check` installs it")

from procrustes_kge.kernels import can_compare, can_fuse, can_step, full_batch as fused
from procrustes_kge.kernels.distances import summed_lengths
from procrustes_kge.layouts.fused import FusedLayout
from procrustes_kge.layouts.relational import RelationalMatrices
from procrustes_kge.linalg import nearest_orthogonal_by_products
from procrustes_kge.models.baselines.distances import lengths
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.training import blocks, full_batch
from procrustes_kge.training.blocks import FusedBlock, PlainBlock, start_vectors
from procrustes_kge.training.full_batch import fit
from procrustes_kge.training.full_batch_settings import FitSettings
from toys import random_graph, rotated_graph

pytestmark = pytest.mark.gpu if torch.cuda.is_available() else pytest.mark.slow
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True, scope="module")
def _alike():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "polar", nearest_orthogonal_by_products)
        yield


def by_both(graph, settings, epochs):
    """Return vectors and losses after some epochs, plain and fused."""
    sizes = (len(graph.entities), len(graph.relations))
    triples = graph.train.to(DEVICE)
    vectors = start_vectors(range(settings.segments), sizes[0], settings.segment, 0, DEVICE)
    segments = fused.FusedSegments(vectors.clone(), FusedLayout.of(triples, *sizes))
    both = (
        PlainBlock(vectors, settings, RelationalMatrices.of(triples, *sizes, settings.segments)),
        FusedBlock(segments, settings),
    )
    losses = [[block.epoch() for _ in range(epochs)][-1] for block in both]
    return [(block.vectors, loss) for block, loss in zip(both, losses, strict=True)]


def crowded_graph(seed=0):
    """Return a graph of two relations whose queries fill several workloads, with one of 50 answers."""
    generator = torch.Generator().manual_seed(seed)
    entities, triples = 400, 900
    drawn = [torch.randint(most, (triples,), generator=generator) for most in (entities, 2, entities)]
    hub = torch.stack([torch.zeros(50, dtype=torch.int64), torch.zeros(50, dtype=torch.int64), torch.arange(50)])
    train = torch.cat([torch.stack(drawn), hub], dim=1).T.contiguous()
    assert FusedLayout.of(train, entities, 2).workloads.shape[0] > 4
    return SimpleNamespace(entities=range(entities), relations=range(2), train=train)


def test_scratch_memory_for_fewer_segments_is_refused():
    graph = crowded_graph()
    layout = FusedLayout.of(graph.train.to(DEVICE), 400, 2)
    scratch = fused.Scratch(layout, 2, 4, DEVICE)
    with pytest.raises(ValueError, match="for 2 segments, expected at least 3"):
        fused.FusedSegments(torch.zeros(3, 400, 4, device=DEVICE), layout, scratch)


@pytest.mark.parametrize("optimiser", ["turn", "adam"])
@pytest.mark.parametrize("loss", ["squared", "norm"])
@pytest.mark.parametrize("translate", [True, False])
@pytest.mark.parametrize("graph", [rotated_graph(), crowded_graph()], ids=["rotated", "crowded"])
def test_a_fused_epoch_is_a_plain_epoch(graph, optimiser, loss, translate):
    chosen = FitSettings(dim=16, segment=8, optimiser=optimiser, loss=loss, translate=translate, learning_rate=0.05)
    plain, found = by_both(graph, chosen, epochs=2)
    torch.testing.assert_close(found[0], plain[0], rtol=1e-4, atol=2e-4)
    torch.testing.assert_close(found[1], plain[1], rtol=1e-4, atol=1e-4)


@settings(max_examples=8, deadline=None)
@given(
    entities=st.integers(2, 40),
    relations=st.integers(1, 4),
    triples=st.integers(1, 150),
    segment=st.sampled_from([2, 5, 16, 20, 33, 64]),
    optimiser=st.sampled_from(["turn", "adam"]),
    loss=st.sampled_from(["squared", "norm"]),
    translate=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_fused_epoch_is_a_plain_epoch_for_any_shape(segment, optimiser, loss, translate, **sizes):
    graph = random_graph(**sizes)
    chosen = FitSettings(
        dim=segment, segment=segment, optimiser=optimiser, loss=loss, translate=translate, learning_rate=0.01
    )
    # The loss of the second epoch tells whether the first went where it should. Vectors cannot be compared: directions
    # in which a relation with few triples says nothing are filled alike, but round differently.
    plain, found = by_both(graph, chosen, epochs=2)
    torch.testing.assert_close(found[1], plain[1], rtol=2e-3, atol=2e-3)
    assert found[0].isfinite().all()


def test_training_by_the_kernels_gives_the_figures_of_plain_training(monkeypatch):
    graph, used, train = rotated_graph(), [], fused.FusedSegments.train_epoch

    def told(self, *arguments, **options):
        used.append(self)
        return train(self, *arguments, **options)

    monkeypatch.setattr(fused.FusedSegments, "train_epoch", told)
    # One worker: fused blocks share their scratch, and on a GPU are trained one after another.
    chosen = FitSettings(dim=16, segment=8, epochs=6, device=DEVICE.type, pilot=8, validate_every=2, workers=1)
    found = []
    for fuses in (False, True):
        assert not used
        monkeypatch.setattr(full_batch, "can_fuse", lambda *_, fuses=fuses: fuses)
        found.append(evaluate(fit(graph, chosen), graph))
    assert used
    assert found[0].mrr == pytest.approx(found[1].mrr, abs=5e-4)
    assert found[0].tail.hits_at_10 == pytest.approx(found[1].tail.hits_at_10, abs=5e-4)


@settings(max_examples=20, deadline=None)
@given(
    queries=st.integers(1, 70),
    entities=st.integers(1, 130),
    groups=st.integers(1, 5),
    group=st.sampled_from([1, 2, 3, 4, 5, 17, 20, 32]),
    seed=st.integers(0, 99),
)
def test_summed_lengths_are_those_of_all_pairs(queries, entities, groups, group, seed):
    generator = torch.Generator().manual_seed(seed)
    shapes = (queries, groups * group), (entities, groups * group), (queries, entities)
    ours, theirs, weights = (torch.randn(shape, generator=generator) for shape in shapes)
    theirs[0] = ours[0]  # no distance, and no direction
    found = differentiated(lambda *pair: summed_lengths(*pair, group), ours, theirs, weights)
    plain = differentiated(
        lambda one, other: lengths((one[:, None] - other).unflatten(-1, (-1, group))).sum(dim=-1),
        *(each.double() for each in (ours, theirs, weights)),
    )
    for one, other in zip(found, plain, strict=True):
        torch.testing.assert_close(one, other.float(), rtol=1e-4, atol=1e-4)


def differentiated(compare, ours, theirs, weights):
    """Return what is compared, and the gradients of its weighted sum."""
    pair = [each.to(DEVICE).requires_grad_() for each in (ours, theirs)]
    total = compare(*pair)
    return total.detach(), *torch.autograd.grad((total * weights.to(DEVICE)).sum(), pair)


def test_kernels_are_for_gpus_and_for_segments_that_fit():
    assert not can_compare(torch.ones(2, 8), 2)
    assert not can_step(torch.ones(2, 2**20))
    assert not can_fuse(torch.device("cpu"), 20, 100)
    if torch.cuda.is_available():
        assert can_fuse(DEVICE, 20, 100)
        assert not can_fuse(DEVICE, 128, 100)
        assert not can_fuse(DEVICE, 20, 2**30)
        assert can_compare(torch.ones(2, 8, device=DEVICE), 2)
        assert not can_compare(torch.ones(2, 80, device=DEVICE), 40)
        assert can_step(torch.ones(2, 2**20, device=DEVICE))
        assert not can_step(torch.ones(2, 2**10, device=DEVICE))
