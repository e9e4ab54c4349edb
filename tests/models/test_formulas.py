"""The formula of each baseline against a plain twin, and against PyKEEN's model."""

import cmath
import itertools
import math

import pytest
import torch
from hypothesis import given, strategies as st

from procrustes_kge.models.baselines.geometric import orthonormal_rows
from toys import all_scores, baseline_of, random_graph, scrambled_baseline, some_queries

GRAPH = random_graph(9, 3, 40)


def rows_of(model):
    """Return entities and relations as lists of numbers."""
    encoded = model.encode(GRAPH)
    return encoded.entities.tolist(), encoded.relations.tolist()


def pairs(numbers):
    return [complex(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]


def halves(numbers):
    middle = len(numbers) // 2
    return [complex(*pair) for pair in zip(numbers[:middle], numbers[middle:], strict=True)]


def hamilton(one, other):
    a, b, c, d = one
    p, u, v, w = other
    return (
        a * p - b * u - c * v - d * w,
        a * u + b * p + c * w - d * v,
        a * v - b * w + c * p + d * u,
        a * w + b * v - c * u + d * p,
    )


def quaternions(numbers):
    size = len(numbers) // 4
    return list(zip(*(numbers[start : start + size] for start in range(0, len(numbers), size)), strict=True))


def of_quaternions(h, r, t):
    total = 0.0
    for one, turn, answer in zip(quaternions(h), quaternions(r), quaternions(t), strict=True):
        size = math.sqrt(sum(part**2 for part in turn))
        found = hamilton(one, [part / size for part in turn])
        total += sum(x * y for x, y in zip(found, answer, strict=True))
    return total


PLAIN = {
    "transe": lambda h, r, t: 6 - sum(abs(x + y - z) for x, y, z in zip(h, r, t, strict=True)),
    "distmult": lambda h, r, t: sum(x * y * z for x, y, z in zip(h, r, t, strict=True)),
    "complex": lambda h, r, t: sum(
        (x * y * z.conjugate()).real for x, y, z in zip(halves(h), halves(r), halves(t), strict=True)
    ),
    "quate": of_quaternions,
    "rotate": lambda h, r, t: (
        6 - sum(abs(x * cmath.exp(1j * y) - z) for x, y, z in zip(pairs(h), r, pairs(t), strict=True))
    ),
}


@pytest.mark.parametrize("inverses", [True, False])
@pytest.mark.parametrize("name", PLAIN)
def test_scores_are_those_of_the_formula(name, inverses):
    model = scrambled_baseline(name, GRAPH, dim=8, inverses=inverses)
    entities, relations = rows_of(model)
    scores = all_scores(model, GRAPH)
    for direction, head, tail in itertools.product(range(6), range(9), range(9)):
        expected = PLAIN[name](entities[head], relations[direction], entities[tail])
        assert scores[direction, head, tail].item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["distmult", "complex", "quate"])
def test_without_inverses_a_triple_scores_alike_from_both_sides(name):
    scores = all_scores(scrambled_baseline(name, GRAPH, dim=8, inverses=False), GRAPH)
    torch.testing.assert_close(scores[:3], scores[3:].mT)


def test_a_rotation_back_undoes_a_rotation():
    model = scrambled_baseline("rotate", GRAPH, dim=8, inverses=False)
    scores = all_scores(model, GRAPH)
    torch.testing.assert_close(scores[:3], scores[3:].mT)


def test_tucker_is_one_product_of_three():
    model = scrambled_baseline("tucker", GRAPH, dim=8)
    model.norms = torch.nn.ModuleList(torch.nn.Identity() for _ in range(2))
    encoded = model.encode(GRAPH)
    expected = torch.einsum("hi,rk,kij,tj->rht", encoded.entities, encoded.relations, model.core, encoded.entities)
    torch.testing.assert_close(all_scores(model, GRAPH), expected)


@pytest.mark.parametrize("group", [2, 4, 8])
def test_ote_rotates_and_scales_each_group(group):
    model = scrambled_baseline("ote", GRAPH, dim=8, group=group)
    encoded, scores = model.encode(GRAPH), all_scores(model, GRAPH)
    rotations = orthonormal_rows(model.relations[:, : 8 * group].unflatten(1, (-1, group, group)))
    scales = model.relations[:, 8 * group :].unflatten(1, (-1, group))
    for relation, head, tail in itertools.product(range(3), range(9), range(9)):
        h, t = (encoded.entities[entity].unflatten(0, (-1, group)) for entity in (head, tail))
        forth = torch.einsum("gi,gi,gij->gj", h, scales[relation].exp(), rotations[relation])
        back = torch.einsum("gi,gi,gji->gj", h, (-scales[relation]).exp(), rotations[relation])
        for direction, query in ((relation, forth), (relation + 3, back)):
            expected = 6 - (query - t).norm(dim=1).sum()
            torch.testing.assert_close(scores[direction, head, tail], expected)


@given(st.integers(0, 2**31), st.integers(1, 6))
def test_rows_are_orthonormal_and_span_what_they_spanned(seed, size):
    matrices = torch.randn(3, size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    rows = orthonormal_rows(matrices)
    torch.testing.assert_close(rows @ rows.mT, torch.eye(size, dtype=torch.float64).expand(3, -1, -1))
    lower = matrices @ rows.mT  # Gram–Schmidt: each row is a sum of those up to it, the last with a positive share
    assert lower.triu(1).abs().max() < 1e-7
    assert (lower.diagonal(dim1=1, dim2=2) > 0).all()


@given(st.integers(0, 2**31), st.integers(1, 5))
def test_the_gradient_of_orthonormal_rows_is_that_of_gram_schmidt(seed, size):
    matrices = torch.randn(2, size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    matrices = (matrices + 3 * torch.eye(size)).requires_grad_()  # rows that are not nearly one another's sums
    assert torch.autograd.gradcheck(orthonormal_rows, matrices)


@pytest.mark.parametrize("size", [2, 4, 20])
def test_rows_that_others_make_up_have_a_gradient_too(size):
    matrices = torch.randn(50, size, size, generator=torch.Generator().manual_seed(0))
    matrices[:, -1] = matrices[:, :-1].sum(dim=1)
    matrices[0, -1] = matrices[0, 0]
    matrices[1, -1] = 0
    matrices.requires_grad_()
    (orthonormal_rows(matrices) * torch.linspace(-1, 1, size)).sum().backward()
    assert matrices.grad.isfinite().all()


def moebius_distance(x, y, c):
    """Return 2/√c artanh(√c ‖−x ⊕ y‖), the distance of two points of the Poincaré ball of curvature −c."""
    product, ours, theirs = -x @ y, x @ x, y @ y
    above = -(1 + 2 * c * product + c * theirs) * x + (1 - c * ours) * y
    total = above / (1 + 2 * c * product + c**2 * ours * theirs)
    return 2 / math.sqrt(c) * torch.arctanh(math.sqrt(c) * total.norm())


def test_roth_compares_by_the_distance_of_hyperbolic_space():
    model = scrambled_baseline("roth", GRAPH, dim=8)
    with torch.no_grad():  # off the rim, where points are held back
        model.entities.mul_(0.3)
        model.relations[:, :16].mul_(0.3)
    encoded, (heads, relations) = model.encode(GRAPH), some_queries(GRAPH)
    queries = model.query(encoded, heads, relations)
    scores = model.scores(encoded, queries)
    for row, query in enumerate(queries):
        point, c = query[:-2], query[-2].item()
        assert math.sqrt(c) * point.norm() < 1
        for tail, vector in enumerate(encoded.entities):
            size = vector.norm()
            answer = torch.tanh(math.sqrt(c) * size) / math.sqrt(c) * vector / size
            biases = model.biases[heads[row]] + model.biases[tail]
            expected = biases - moebius_distance(point, answer, c).square()
            torch.testing.assert_close(scores[row, tail], expected, rtol=1e-6, atol=1e-6)


def test_where_space_is_nearly_flat_roth_adds_and_rotates():
    model = baseline_of("roth", random_graph(5, 2, 1), dim=6).double()
    with torch.no_grad():
        model.relations[:, -1] = -12.0  # a curvature of e⁻¹²
        model.entities.normal_()
        model.relations[:, :12].normal_()
    encoded = model.encode()
    query = model.query(encoded, torch.tensor([1]), torch.tensor([2]))[0, :-2]
    first, second, angles, _ = model.relations[2].split([6, 6, 3, 1])
    moved = torch.view_as_complex((model.entities[1] + first).view(3, 2)) * torch.exp(1j * angles)
    torch.testing.assert_close(query, torch.view_as_real(moved).flatten() + second, rtol=1e-3, atol=1e-3)


# PyKEEN.


def theirs(kind, **options):
    """Return PyKEEN's model of the same graph."""
    triples = pytest.importorskip("pykeen.triples")
    factory = triples.CoreTriplesFactory(
        GRAPH.train, num_entities=len(GRAPH.entities), num_relations=len(GRAPH.relations)
    )
    models = __import__("pykeen.models", fromlist=[kind])
    return getattr(models, kind)(triples_factory=factory, random_seed=0, **options).eval()


def compare(model, other, entities, relations, sign=1, margin=0.0):
    """Give PyKEEN's model our weights, and compare the scores of tails to 1e-4; it leaves out the margin."""
    with torch.no_grad():
        for representation, values in (
            (other.entity_representations[0], entities),
            (other.relation_representations[0], relations),
        ):
            weights = representation._embeddings.weight
            weights.copy_(values.reshape(weights.shape))
        batch = torch.cartesian_prod(torch.arange(len(GRAPH.entities)), torch.arange(len(GRAPH.relations)))
        found = other.score_t(batch).view(len(GRAPH.entities), len(GRAPH.relations), -1).transpose(0, 1)
    ours = all_scores(model, GRAPH)[: len(GRAPH.relations)].float()
    torch.testing.assert_close(ours - margin, sign * found, rtol=1e-4, atol=1e-4)


def interleaved(rows, parts):
    """Return rows in PyKEEN's layout: the parts of a number side by side."""
    return torch.stack(rows.float().chunk(parts, dim=1), dim=-1)


def test_transe_scores_as_pykeens():
    model = scrambled_baseline("transe", GRAPH, dim=8, inverses=False)
    other = theirs("TransE", embedding_dim=8, scoring_fct_norm=1)
    compare(model, other, model.entities.float(), model.relations.float(), margin=model.margin)


def test_distmult_scores_as_pykeens():
    model = scrambled_baseline("distmult", GRAPH, dim=8, inverses=False)
    compare(model, theirs("DistMult", embedding_dim=8), model.entities.float(), model.relations.float())


def test_complex_scores_as_pykeens():
    model = scrambled_baseline("complex", GRAPH, dim=8, inverses=False)
    other = theirs("ComplEx", embedding_dim=4)
    compare(model, other, interleaved(model.entities, 2), interleaved(model.relations, 2))


def test_quate_scores_as_pykeens():
    model = scrambled_baseline("quate", GRAPH, dim=8, inverses=False)
    other = theirs("QuatE", embedding_dim=2)
    rotations = interleaved(torch.cat([*model.relations.chunk(4, dim=1)], dim=1), 4)
    rotations = rotations / rotations.norm(dim=-1, keepdim=True)
    # PyKEEN rotations the sign of the score, as the official code does: the same model with other weights.
    compare(model, other, interleaved(model.entities, 4), rotations, sign=-1)


def test_rotate_scores_as_pykeens():
    # Of one complex number: of several PyKEEN takes the root of squared moduli, where published is their sum.
    model = baseline_of("rotate", GRAPH, dim=2, inverses=False)
    other = theirs("RotatE", embedding_dim=1)
    angles = model.encode().relations[: len(GRAPH.relations)].detach()
    rotations = torch.polar(torch.ones_like(angles), angles)
    compare(model, other, model.entities.float(), torch.view_as_real(rotations), margin=model.margin)


def test_tucker_scores_as_pykeens():
    model = scrambled_baseline("tucker", GRAPH, dim=8)
    other = theirs("TuckER", embedding_dim=8, relation_dim=6, dropout_0=0.0, dropout_1=0.0, dropout_2=0.0)
    norms = [module for module in other.modules() if isinstance(module, torch.nn.BatchNorm1d)]
    with torch.no_grad():
        for ours, copy in zip(model.norms, norms, strict=True):
            copy.load_state_dict({key: value.float() for key, value in ours.state_dict().items()})
        (core,) = (weights for name, weights in other.named_parameters() if "core" in name)
        core.copy_(model.core.float().reshape(core.shape) if core.shape[0] == 6 else model.core.float().transpose(0, 1))
    compare(model, other, model.entities.float(), model.relations[:3].float())


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # of how PyKEEN makes its matrices
@pytest.mark.parametrize(("weighting", "half"), [("inverse_out_degree", 0), ("inverse_in_degree", 1)])
def test_rgcn_scores_as_pykeens(weighting, half):
    # PyKEEN divides both directions by the degrees of one of them: so each is compared while the other brings nothing.
    model = scrambled_baseline("rgcn", GRAPH, dim=8, inverses=False)
    options = {"decomposition": "block", "decomposition_kwargs": {"num_blocks": 4}, "activation": "relu"}
    other = theirs("RGCN", embedding_dim=8, use_bias=False, edge_weighting=weighting, **options)
    encoder = other.entity_representations[0]
    encoder._embeddings = encoder.entity_embeddings._embeddings  # where `compare` looks for them
    with torch.no_grad():
        model.maps[:, 3 - 3 * half : 6 - 3 * half] = 0
        for layer, own, maps in zip(encoder.layers, model.own, model.maps, strict=True):
            layer.self_loop.weight.copy_(own.T)
            layer.fwd.blocks.copy_(maps[:3])
            layer.bwd.blocks.copy_(maps[3:])
    compare(model, other, model.entities.float(), model.relations.float())
