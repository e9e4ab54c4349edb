"""Predicting the relation too: the loss of directions written plainly, and what leaves it alone."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st

from contrasts import small
from laws import refused
from learning import FEWER, SEEDS, close, problems
from procrustes_kge.linalg import nearest_orthogonal
from procrustes_kge.training import relation_prediction
from procrustes_kge.training.contrastive import contrast
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.gradients import Gradients, add_gradients
from procrustes_kge.training.polars import polar
from procrustes_kge.training.relation_prediction import Pairs, against_directions
from toys import graph_of, rotated_graph


def normal(generator, *shape):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def drawn_pairs(seed, pairs, directions, segments, width, shifted):
    """Return random pairs, and the maps and shifts of directions."""
    generator = torch.Generator().manual_seed(seed)
    ends = (normal(generator, pairs, segments, width) for _ in range(2))
    found = torch.randint(directions, (pairs,), generator=generator)
    maps = normal(generator, directions, segments, width, width)
    shifts = normal(generator, directions, segments, width) if shifted else None
    return Pairs(*ends, found, normal(generator, pairs).abs()), maps, shifts


SIZES = {
    **{"seed": SEEDS, "pairs": st.integers(0, 8), "directions": st.integers(1, 6)},
    **{"segments": st.integers(1, 5), "width": st.integers(1, 4), "shifted": st.booleans()},
}


@given(**SIZES, most=st.integers(1, 200))
def test_gradients_are_those_of_the_loss_written_plainly_however_few_segments_fit_at_once(most, **sizes):
    pairs, maps, shifts = drawn_pairs(**sizes)
    leaves = [None if each is None else each.requires_grad_() for each in (pairs.asked, pairs.answers, maps, shifts)]
    asked, answers, coefficients, moved = leaves
    queries = torch.einsum("psi,rsij->prsj", asked, coefficients)
    queries = queries if moved is None else queries + moved
    logs = torch.einsum("prsj,psj->pr", queries, answers).log_softmax(dim=1)
    total = -(pairs.weights * logs[torch.arange(len(asked)), pairs.directions]).sum()
    wanted = torch.autograd.grad(total, [each for each in leaves if each is not None])
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(relation_prediction, "OUTER_NUMBERS", most)
        found = against_directions(pairs, maps, shifts, torch.float64)
    close([each for each in found if each is not None], list(wanted))


@given(SEEDS)
def test_products_in_less_precision_give_nearly_the_same_gradients(seed):
    pairs, maps, shifts = drawn_pairs(seed, 30, 6, 4, 2, shifted=True)
    exact, rounded = (against_directions(pairs, maps, shifts, each) for each in (torch.float64, torch.bfloat16))
    for one, other in zip(exact, rounded, strict=True):
        assert other.dtype == one.dtype
        assert float((one - other).norm() / one.norm()) < 0.05


@given(**SIZES)
def test_the_order_of_directions_does_not_matter(**sizes):
    pairs, maps, shifts = drawn_pairs(**sizes)
    order = torch.randperm(len(maps), generator=torch.Generator().manual_seed(sizes["seed"]))
    moved = pairs._replace(directions=order.argsort()[pairs.directions])
    found = against_directions(pairs, maps, shifts, torch.float64)
    other = against_directions(moved, maps[order], None if shifts is None else shifts[order], torch.float64)
    close([other.asked, other.answers, other.maps], [found.asked, found.answers, found.maps[order]])


@given(**SIZES)
def test_pairs_without_weight_add_nothing(**sizes):
    pairs, maps, shifts = drawn_pairs(**sizes)
    pulls = against_directions(pairs._replace(weights=torch.zeros_like(pairs.weights)), maps, shifts, torch.float64)
    assert not any(pull.any() for pull in pulls if pull is not None)


@FEWER
@given(problems(["all"]), st.integers(1, 5))
def test_answers_that_pad_a_row_without_mass_change_nothing(drawn, count):
    batch, asked = drawn.whole(), replace(drawn.objective, relation_weight=2.0, negatives=0)
    silent = (batch.counts == 0).nonzero().flatten()
    if not len(silent):
        return
    rows, answers = silent[-1:].expand(count), torch.zeros(count, dtype=torch.int64)
    padded = replace(batch, rows=torch.cat([batch.rows, rows]), answers=torch.cat([batch.answers, answers]))
    found = []
    for each in (batch, padded):
        sums = Gradients.zeros(drawn.tables)
        add_gradients(sums, drawn.tables, each, asked)
        found.append([*sums.of_a_step, *sums.of_several])
    close(*found)


@FEWER
@given(problems(["all"], relation_weight=1.0))
def test_swapping_heads_and_tails_swaps_the_directions(drawn):
    """A graph read backwards, with the directions of its tables exchanged, has the same gradients, exchanged."""

    def turned(table):
        return None if table is None else torch.cat([*reversed(table.chunk(2))])

    backwards = replace(drawn.graph, train=drawn.graph.train[:, [2, 1, 0]])
    batches = type(drawn.batches).of(backwards.train, len(backwards.entities), len(backwards.relations), 3)
    tables = drawn.tables._replace(**{name: turned(getattr(drawn.tables, name)) for name in drawn.tables._fields[1:]})
    other, sums = replace(drawn, graph=backwards, batches=batches, tables=tables), []
    for each in (drawn, other):
        sums.append(Gradients.zeros(each.tables))
        add_gradients(sums[-1], each.tables, each.whole(), each.objective)
    close(sums[1].vectors, sums[0].vectors)
    for name in ("rotations", "scales", "translations", "losses"):
        if getattr(sums[0], name) is not None:
            close(getattr(sums[1], name), turned(getattr(sums[0], name)))


def accuracy(model, graph):
    """Return how often the relation of a test triple is the one of the highest score."""
    head, relation, tail = graph.test.unbind(dim=1)
    directions = torch.arange(len(graph.relations))
    queries = torch.stack([model.query(model, head, direction.expand(len(head))) for direction in directions], dim=1)
    return ((queries @ model.table[tail][..., None]).squeeze(2).argmax(dim=1) == relation).double().mean().item()


@pytest.mark.slow
def test_relations_are_predicted_where_asked_for():
    graph = rotated_graph()
    without, with_it = (contrast(graph, small(relation_weight=weight, epochs=4)) for weight in (0.0, 4.0))
    assert accuracy(with_it, graph) > accuracy(without, graph)
    assert accuracy(contrast(graph, small(relation_weight=1.0, epochs=16)), graph) > 0.95


def test_relations_are_predicted_from_products_alone():
    settings = {"negatives": 20, "lengths": "unit", "relation_weight": 2.0, "loss": "sigmoid"}
    refused(lambda: ContrastSettings(**settings), setting="relation weight", seen=2, remedy="try --loss softmax")


def test_more_work_than_can_be_done_is_refused_before_it_begins():
    names = [f"a r{number} b" for number in range(3000)]
    graph, settings = graph_of(names), small(relation_weight=2.0, dim=2000, segment=50)
    remedy = "try --segment 2 or --relation-weight 0"
    refused(lambda: contrast(graph, settings), setting="relation weight", seen="3,000 relations", remedy=remedy)
    contrast(graph_of(names[:3]), replace(settings, epochs=1, batch="full"))


# On a GPU.


def moved(pairs, maps, shifts):
    """Return the same in float32 on a GPU."""
    ends = (each.float().cuda() for each in (pairs.asked, pairs.answers))
    pairs = Pairs(*ends, pairs.directions.cuda(), pairs.weights.float().cuda())
    return pairs, maps.float().cuda(), shifts.float().cuda()


@pytest.mark.gpu
@pytest.mark.parametrize(("precision", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.05)])
@pytest.mark.parametrize("width", [2, 20])
def test_a_gpu_finds_the_same_gradients_also_in_a_recorded_step(width, precision, tolerance):
    sizes = (0, 500, 60, 10, width)
    problem = drawn_pairs(*sizes, shifted=True)
    exact, there = against_directions(*problem, torch.float64), moved(*problem)
    against_directions(*there, precision)  # loads libraries
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = against_directions(*there, precision)
    graph.replay()
    for found in (against_directions(*there, precision), recorded):
        for one, other in zip(exact, found, strict=True):
            assert float((one - other.cpu()).norm() / one.norm()) < tolerance


@pytest.mark.gpu
def test_a_gpu_finds_rotations_of_pairs_in_closed_form():
    matrices = torch.randn(1000, 2, 2, generator=torch.Generator().manual_seed(0))
    exact = nearest_orthogonal(matrices.double())
    assert float((polar(matrices.cuda()).cpu() - exact).norm(dim=(1, 2)).median()) < 1e-5
