"""Steps with negatives by kernels are the steps: on a GPU where there is one, else by Triton's interpreter."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings, strategies as st

pytest.importorskip("triton", reason="Triton is not installed; `make check` installs it")

from contrasts import WAYS, is_sound, small
from procrustes_kge import kernels
from procrustes_kge.kernels import rows, softmax
from procrustes_kge.kernels.adagrad import WIDEST_ROW, move_
from procrustes_kge.kernels.polar import nearest_orthogonal_fused
from procrustes_kge.kernels.softmax import against_all_fused, weigh_
from procrustes_kge.layouts.batches import Batch, QueryBatches
from procrustes_kge.linalg import nearest_orthogonal, nearest_orthogonal_by_products
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.system.cuda_graphs import RecordedStep
from procrustes_kge.training.contrastive import contrast
from procrustes_kge.training.fused_gradients import add_gradients_fused
from procrustes_kge.training.gradients import Gradients, Objective, Tables, add_gradients, weights_of
from procrustes_kge.training.learner import Learner
from procrustes_kge.training.objective import Answers, against_all, padded_zeros, rounded
from procrustes_kge.training.optimisers import Adagrad
from procrustes_kge.training.rotations import StepSizes
from toys import random_graph, rotated_graph, same

GPU = torch.cuda.is_available()
pytestmark = pytest.mark.gpu if GPU else pytest.mark.slow
needs_a_gpu = pytest.mark.skipif(not GPU, reason="there is no GPU here")
DEVICE = torch.device("cuda" if GPU else "cpu")
ROUNDING = 2**-8 if GPU else 2**-7  # of bfloat16; Triton's interpreter rounds towards zero


@settings(max_examples=15, deadline=None)
@given(
    entities=st.integers(1, 40),
    dim=st.sampled_from([1, 7, 16, 20, WIDEST_ROW + 3]),
    pads=st.booleans(),
    rates=st.lists(st.floats(0, 1), min_size=1, max_size=3),
    rounds=st.booleans(),
    decay=st.sampled_from([0.0, 0.2]),
    clears=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_fused_step_of_adagrad_is_the_step(entities, dim, pads, rates, rounds, decay, clears, seed):
    generator = torch.Generator().manual_seed(seed)
    plain = torch.randn(entities, dim, generator=generator).to(DEVICE)
    found, table = plain.clone(), rounded(plain) if rounds else None
    optimise, square, weight = Adagrad(plain), torch.zeros_like(plain), torch.tensor(3.0, device=DEVICE)
    held = torch.rand(entities, generator=generator).to(DEVICE) if decay else None
    for rate in torch.tensor([[0.5, rate] for rate in rates], device=DEVICE)[:, 1]:
        whole = torch.full((entities + 1, dim + pads * (8 - dim % 8)), torch.nan, device=DEVICE)
        gradient = whole[:entities, :dim].copy_(torch.randn(entities, dim, generator=generator))
        gradient[:: seed % 3 + 1] = 0  # rows that no query has seen
        slope = gradient if held is None else gradient + decay * held[:, None] * plain
        optimise(plain, slope / weight, rate)
        move_(found, square, gradient, weight, rate, table, held, decay, clears)
        torch.testing.assert_close(found, plain, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(square, optimise.square, rtol=1e-5, atol=1e-6)
        assert not (clears and gradient.any())
        assert whole[entities:].isnan().all()
        assert whole[:, dim:].isnan().all()
        if table is not None:
            torch.testing.assert_close(table, rounded(found), rtol=0 if GPU else ROUNDING, atol=0)


@settings(max_examples=15, deadline=None)
@given(
    width=st.sampled_from([3, 8, 16, 20, 33, 64]),
    shape=st.sampled_from([(1,), (5,), (2, 3)]),
    size=st.sampled_from([1e-9, 1.0, 1e9]),
    seed=st.integers(0, 99),
)
def test_fused_polar_factors_are_those_by_products(width, shape, size, seed):
    matrices = size * torch.randn(*shape, width, width, generator=torch.Generator().manual_seed(seed)).to(DEVICE)
    found, wanted = nearest_orthogonal_fused(matrices.mT), nearest_orthogonal_by_products(matrices.mT)
    # Directions of small singular values are lifted from where rounding matters.
    torch.testing.assert_close(found, wanted, rtol=0, atol=5e-4)
    assert not nearest_orthogonal_fused(torch.zeros_like(matrices)).any()
    moved = wanted + 0.5 / width * torch.randn(wanted.shape, device=DEVICE, dtype=torch.float64).float()
    exact = nearest_orthogonal(moved.double()).float()
    torch.testing.assert_close(nearest_orthogonal_fused(size * moved), exact, rtol=0, atol=2e-5)


@settings(max_examples=15, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    entities=st.integers(9, 60),
    smoothing=st.sampled_from([0.0, 0.3]),
    spread=st.sampled_from([0.0, 1.0, 60.0]),
    longest=st.sampled_from([0, 2**14]),
    seed=st.integers(0, 99),
)
def test_weighed_scores_are_the_gradient_of_the_softmax(sizes, entities, smoothing, spread, longest, seed):
    generator = torch.Generator().manual_seed(seed)
    padded = -(-entities // 8) * 8
    scores = (spread * torch.randn(len(sizes), padded, generator=generator)).bfloat16().to(DEVICE)
    counts = torch.tensor(sizes, device=DEVICE)
    answers = [torch.randperm(entities, generator=generator)[:size] for size in sizes]
    flat = torch.cat([*answers, torch.zeros(3, dtype=torch.int64)]).to(DEVICE)  # the last ones pad
    weights = torch.rand(len(sizes), generator=generator).to(DEVICE) * (counts > 0)
    logs = scores[:, :entities].double().log_softmax(dim=1)
    wanted, losses = torch.zeros_like(scores, dtype=torch.float64), torch.zeros_like(weights, dtype=torch.float64)
    for row, each in enumerate(answers):
        if len(each):
            target = torch.full_like(logs[row], smoothing / entities)
            target[each.to(DEVICE)] += (1 - smoothing) / len(each)
            wanted[row, :entities] = weights[row] * len(each) * (logs[row].exp() - target)
            losses[row] = -weights[row] * logs[row, each.to(DEVICE)].sum()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(softmax, "AT_ONCE", 16)
        patch.setattr(softmax, "ANSWERS_AT_ONCE", 4)
        patch.setattr(softmax, "LONG", longest)
        found = weigh_(scores, flat, counts, weights, entities, smoothing)
    torch.testing.assert_close(found.double(), losses, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(scores.double(), wanted, rtol=ROUNDING, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_all_entities_are_compared_with_as_plainly(smoothing):
    generator = torch.Generator().manual_seed(0)
    queries, table = (torch.randn(rows, 12, generator=generator).to(DEVICE) for rows in (16, 43))
    counts = torch.tensor([2, 0, 1, 3] * 4, device=DEVICE)
    answers, weights = torch.arange(24, device=DEVICE) % 43, torch.rand(16, generator=generator).to(DEVICE)
    found = Answers(torch.arange(16, device=DEVICE).repeat_interleave(counts), answers, weights, counts.float())
    pull = torch.zeros_like(table)
    losses, gradient = against_all(queries, table, found, pull, smoothing)
    for fresh in (True, False):
        sums = padded_zeros(table) + 5  # what is written over is of no account
        found_losses, found_gradient = against_all_fused(
            *(rounded(queries), rounded(table), answers, counts, weights, sums, 43, smoothing), overwrites=fresh
        )
        sums -= 0 if fresh else 5
        for one, other in ((found_losses, losses), (found_gradient[:, :12], gradient), (sums[:43, :12], pull)):
            torch.testing.assert_close(one, other, rtol=0.05, atol=0.05)
        for padding in (found_gradient[:, 12:], sums[43:], sums[:, 12:]):
            assert not padding.any()


@settings(max_examples=15, deadline=None)
@given(sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=40), crowd=st.sampled_from([0.0, 0.5, 1.0]))
def test_rows_weigh_what_they_weigh_plainly(sizes, crowd):
    counts = torch.tensor(sizes, device=DEVICE)
    sums = tuple(torch.tensor(each, device=DEVICE) for each in (0.0, 2.0, 5.0))
    batch = Batch(counts, counts[:1], counts, counts, counts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "AT_ONCE", 16)
        weights, mass, ends = rows.weigh_rows(counts, crowd, sums)
    wanted = weights_of(batch, crowd, torch.float32)
    for one, other in zip((weights, mass), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=0)
    assert ends.equal(counts.cumsum(0))
    for found, before in zip(sums, (0, 2, 5), strict=True):
        torch.testing.assert_close(found, before + wanted[1].sum(), rtol=1e-4, atol=1e-4)


def drawn_tables(directions, segments, width, entities, translate=True, scale=True):
    generator = torch.Generator().manual_seed(1)
    sides = torch.randn(2, directions, segments, width, generator=generator).to(DEVICE)
    rotations = torch.randn(directions, segments, width, width, generator=generator).to(DEVICE)
    vectors = torch.randn(entities, segments * width, generator=generator).to(DEVICE)
    return Tables(vectors, rotations, sides[0] if translate else None, sides[1] if scale else None)


@pytest.mark.parametrize("width", [8, 20, 33])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"translate": False, "scale": False},
        {"dropout": 0.4, "regularisation": 0.1, "translate": False},
        {"dropout": 0.4, "regularisation": 0.1, "query_regularisation": 0.5, "power": 3.0},
        {"positives": True, "scale": False, "regularisation": 0.1},
        {"relation_weight": 0.5, "crowd": 0.5, "regularisation": 0.1, "scale_regularisation": 0.2, "power": 2.5},
    ],
    ids=lambda changes: " ".join(changes) or "bare",
)
def test_fused_queries_have_the_gradients_of_queries(changes, width):
    sides = {name: changes.get(name, True) for name in ("translate", "scale")}
    objective = Objective(**{name: value for name, value in changes.items() if name not in sides})
    graph, tables = random_graph(30, 3, 200), drawn_tables(6, 2, width, 30, **sides)
    (batch,) = QueryBatches.of(graph.train.to(DEVICE), 30, 3).epoch(2**13, torch.Generator(DEVICE).manual_seed(0))
    asked, sums, compared = [], [], torch.zeros(32, -(-2 * width // 8) * 8, device=DEVICE)

    def against(queries, table, batch, weights, ends, pull):
        assert ends is None or ends.equal(batch.counts.cumsum(0))
        asked.append(queries.float())
        pull.add_(1)
        slopes = torch.randn(len(queries), 2 * width, generator=torch.Generator().manual_seed(2)).to(DEVICE)
        gradient = torch.full(queries.shape, torch.nan, device=DEVICE)  # what pads it is not read
        gradient[:, : 2 * width] = weights[:, None] * slopes
        return weights, gradient

    for fuses in (False, True):
        into = Gradients.zeros(tables).with_vectors(tables.vectors, pads=True)
        generator = torch.Generator(DEVICE).manual_seed(3)
        if fuses:
            add_gradients_fused(into, tables, batch, objective, compared, generator, against)
        else:
            add_gradients(into, tables, batch, objective, None, compared, generator, against)
        sums.append([*into.of_a_step, *into.of_several])
        assert (into.padded[30:] == 1).all()
        assert (into.padded[:, 2 * width :] == 1).all()
    torch.testing.assert_close(asked[1], asked[0], rtol=2 * ROUNDING, atol=1e-4)
    for one, other in zip(*sums, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("fuses", ["all", "all but queries", "no comparison"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"regularisation": 0.1, "dropout": 0.3, "label_smoothing": 0.1},
        {"power": 3.0, "regularisation": 0.1},
        {"negatives": 3},
    ],
    ids=lambda changes: " ".join(changes) or "bare",
)
def test_a_learner_with_kernels_learns_what_others_learn(changes, fuses, monkeypatch):
    graph, objective = random_graph(41, 2, 300), Objective(**changes)
    batches = QueryBatches.of(graph.train.to(DEVICE), 41, 2)
    if fuses != "no comparison" and not objective.negatives:  # a CPU, too, is to compare in bfloat16
        monkeypatch.setattr(Learner, "in_precision_of_scores", lambda self, old=None: rounded(self.tables.vectors, old))
    if fuses == "all but queries":
        monkeypatch.setattr("procrustes_kge.training.learner.can_ask", lambda tables: False)
    learners = []
    for kernel in (False, True):
        monkeypatch.setattr("procrustes_kge.training.learner.can_step", lambda vectors, kernel=kernel: kernel)
        generator = torch.Generator(DEVICE).manual_seed(0)
        rotations = torch.eye(9, device=DEVICE).expand(4, 3, 9, 9).clone()
        sides = torch.zeros(4, 3, 9, device=DEVICE), torch.ones(4, 3, 9, device=DEVICE)
        vectors = torch.randn(41, 27, device=DEVICE, generator=generator)
        learner = Learner(Tables(vectors, rotations, *sides), objective, Adagrad, generator)
        for number in range(4):
            for batch in batches.epoch(64, learner.generator):
                for part in batch.split(32):
                    learner.gather(part)
                learner.step(StepSizes(0.1 / (1 + number), 0.5, 4))
        learners.append(learner)
    for one, other in zip(*(each.tables for each in learners), strict=True):
        # A first step of Adagrad is as long as the rate, whichever way: where a gradient is rounding alone, they part.
        turned = (one - other).abs() > 0.1
        assert turned.float().mean() < 0.02
        assert (one - other)[~turned].norm() < 0.02 * one.norm()
    assert learners[1].mean_loss() == pytest.approx(learners[0].mean_loss(), rel=0.02)
    compared = learners[1].compared[:41, :27].float()
    torch.testing.assert_close(compared, learners[1].tables.vectors, rtol=ROUNDING, atol=0)
    if (padded := learners[1].gradients.padded) is not None:
        assert padded.shape == (48, 32)
        assert not padded[41:].any()
        assert not padded[:, 27:].any()


@pytest.mark.parametrize("asks", [True, False], ids=["all", "all but queries"])
def test_products_are_of_sizes_that_a_gpu_multiplies_fast(asks, monkeypatch):
    monkeypatch.setattr(Learner, "in_precision_of_scores", lambda self, old=None: rounded(self.tables.vectors, old))
    monkeypatch.setattr("procrustes_kge.training.learner.can_ask", lambda tables: asks)
    monkeypatch.setattr("procrustes_kge.training.learner.can_step", lambda vectors: True)
    multiplied, multiply = [], softmax.multiply
    monkeypatch.setattr(softmax, "multiply", lambda *given, **how: multiplied.append(given) or multiply(*given, **how))
    tables, graph, generator = drawn_tables(4, 3, 9, 41), random_graph(41, 2, 300), torch.Generator(DEVICE)
    learner = Learner(tables, Objective(), Adagrad, generator)
    (batch,) = QueryBatches.of(graph.train.to(DEVICE), 41, 2).epoch(2**13, generator.manual_seed(0))
    learner.gather(batch)
    assert len(multiplied) == 2
    for left, right, into in multiplied:
        for each in (left, left.T, right, into):
            assert all(size % 8 == 0 for size in each.shape)
            assert each.data_ptr() % 16 == 0
        assert right.is_contiguous()
        assert into.is_contiguous()
        assert left.is_contiguous() or left.T.is_contiguous()


# On a GPU.


@pytest.fixture
def _for_small_graphs(monkeypatch):
    monkeypatch.setattr(kernels, "FEWEST_STEPPED", 0)


@needs_a_gpu
@pytest.mark.usefixtures("_for_small_graphs")
@pytest.mark.parametrize("way", [way for way in WAYS if way.startswith("all")])
def test_kernels_find_planted_rotations(way):
    graph = rotated_graph()
    model = contrast(graph, small(way, epochs=14, device="cuda"))
    assert evaluate(model, graph).mrr > 0.9
    assert is_sound(model.to("cpu"))


@needs_a_gpu
@pytest.mark.parametrize(("entities", "rows"), [(14541, 4112), (40943, 2064)])
def test_gradients_of_many_entities_are_those_of_plain_products(entities, rows):
    generator = torch.Generator(DEVICE).manual_seed(0)
    queries, vectors = (torch.randn(size, 500, device=DEVICE, generator=generator) for size in (rows, entities))
    queries, table, sums = rounded(queries / 20), rounded(vectors), padded_zeros(vectors)
    answers = torch.randint(entities, (rows,), device=DEVICE, generator=generator)
    counts, weights = torch.ones_like(answers), torch.rand(rows, device=DEVICE, generator=generator)
    # In double precision, from what is given: in bfloat16 the scores, and then their gradient, are rounded alone.
    logs = (queries.double() @ table.double().T)[:, :entities].log_softmax(dim=1)
    losses, slopes = -weights * logs.gather(1, answers[:, None])[:, 0], logs.exp()
    slopes.scatter_add_(1, answers[:, None], slopes.new_full((rows, 1), -1.0)).mul_(weights[:, None])
    wanted = slopes @ table[:entities].double(), slopes.T @ queries.double()
    for fresh in (True, False):
        found, gradient = against_all_fused(queries, table, answers, counts, weights, sums, entities, overwrites=fresh)
        for one, other in ((found, losses), (gradient, wanted[0]), (sums[:entities], wanted[1] * (1 if fresh else 2))):
            assert (one - other).norm() < 0.02 * other.norm()
        assert not sums[entities:].any()
        assert not sums[:, 500:].any()


@needs_a_gpu
@pytest.mark.usefixtures("_for_small_graphs")
@pytest.mark.parametrize("way", ["all", "all, adam", "all, cubes", "some"])
def test_kernels_repeat_to_the_last_bit_where_they_are_to(way, monkeypatch):
    graph = rotated_graph()
    chosen = replace(small(way, batch=32, epochs=4, dim=48, groups=2), device="cuda", deterministic=True)
    model = contrast(graph, chosen).to("cpu")
    assert same(model, contrast(graph, chosen).to("cpu"))
    monkeypatch.setattr(RecordedStep, "record", lambda self, kind, step, tensors: None)
    assert same(model, contrast(graph, chosen).to("cpu"))
