"""The batched products against plain twins: loops over relations, with heads and tails stacked triple by triple."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import example, given, strategies as st

from procrustes_kge.layouts.relational import RelationalMatrices, padded_rows
from procrustes_kge.linalg import completed, cross_covariance, nearest_orthogonal
from toys import builds, random_graph, random_graphs, random_orthogonal

PRECISION = {torch.float32: 1e-4, torch.float64: 1e-10}
HEIGHTS = (1, 3, 64)


def problem(graph, segments=1, width=3, dtype=torch.float64, height=3, seed=0, triples=None, chunk=100):
    """Return the arranged triples of a graph with unit vectors for its entities."""
    generator = torch.Generator().manual_seed(seed)
    triples = graph.train if triples is None else triples
    shape = (segments, len(graph.entities), width)
    vectors = torch.nn.functional.normalize(torch.randn(shape, generator=generator, dtype=torch.float64), dim=-1)
    matrices = RelationalMatrices.of(triples, len(graph.entities), len(graph.relations), segments, height, chunk)
    return SimpleNamespace(
        matrices=matrices, height=height, vectors=vectors.to(dtype), triples=triples, generator=generator
    )


def problems(dtypes=tuple(PRECISION), heights=HEIGHTS):
    """Draw a problem; random graphs have relations of one triple and of none, and triples from an entity to itself."""
    return builds(
        problem,
        graph=random_graphs(),
        segments=st.integers(1, 3),
        width=st.integers(2, 5),
        dtype=st.sampled_from(dtypes),
        height=st.sampled_from(heights),
        chunk=st.sampled_from([1, 4, 10, 1000]),
        seed=st.integers(0, 2**31),
    )


def hand_made(*triples, relations, **options):
    """Return a problem of five entities."""
    return problem(
        random_graph(5, relations, 1), triples=torch.tensor(triples, dtype=torch.int64).view(-1, 3), **options
    )


ONE_NONE_LOOP = hand_made((0, 0, 1), (2, 2, 2), (0, 2, 1), (0, 2, 3), (4, 2, 3), relations=4, segments=2, width=4)


def solved(case, polar=nearest_orthogonal, translate=False):
    return case.matrices.solve(case.vectors, polar, translate)


def blocks(case):
    """Yield (segment, relation, H, T), heads and tails stacked triple by triple."""
    for segment, points in enumerate(case.vectors):
        for relation in range(case.matrices.relations):
            head, _, tail = case.triples[case.triples[:, 1] == relation].unbind(dim=1)
            yield segment, relation, points[head], points[tail]


def centred(rows):
    return rows - rows.mean(dim=0) if len(rows) else rows


def shift(relations, segment, relation):
    return 0 if relations.translations is None else relations.translations[segment, relation]


def close(left, right, tolerance):
    torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)


def tolerance(case):
    return PRECISION[case.vectors.dtype]


@given(problems())
@example(ONE_NONE_LOOP)
def test_every_query_stands_in_one_row_with_the_sum_of_its_answers(case):
    matrices, stacked = case.matrices, case.vectors.flatten(0, 1)
    for side, forward in ((matrices.asking_tails, True), (matrices.asking_heads, False)):
        sums = [chunk.sums(stacked).flatten(0, 1) for chunk in side.chunks]
        answers = torch.cat([stacked.new_empty(0, stacked.shape[1]), *sums])
        maps = torch.cat([torch.empty(0, dtype=torch.int64), *(chunk.maps for chunk in side.chunks)])
        expected = {}
        for head, relation, tail in case.triples.tolist():
            asked, answer = (head, tail) if forward else (tail, head)
            expected.setdefault((asked, relation), []).append(answer)
        rows = answers.view(matrices.segments, -1, case.vectors.shape[-1])
        places = side.asked.view(matrices.segments, -1)
        relation_of = maps.repeat_interleave(case.height)
        for segment, points in enumerate(case.vectors):
            found = set()
            for row in range(rows.shape[1]):
                query = (int(places[segment, row]) - segment * matrices.entities, int(relation_of[row]))
                if not side.counts[row]:
                    assert not rows[segment, row].any()  # padding asks nothing
                    continue
                assert query not in found
                found.add(query)
                assert side.counts[row] == len(expected[query])
                close(rows[segment, row], points[expected[query]].sum(dim=0), tolerance(case))
            assert found == set(expected)
        asked_of = [sum(relation == index for _, relation in expected) for index in range(matrices.relations)]
        # Padding fills a tile at most.
        assert side.tiles == matrices.segments * sum(-(-count // case.height) for count in asked_of)


@pytest.mark.parametrize("translate", [False, True])
@given(case=problems())
@example(case=ONE_NONE_LOOP)
def test_covariances_are_those_of_the_stacked_triples(translate, case):
    # In place of the polar factor nothing at all: what would be solved is then returned.
    covariances = solved(case, polar=lambda matrices: matrices, translate=translate).rotations
    for segment, relation, heads, tails in blocks(case):
        moves = centred if translate else torch.clone
        expected = completed(cross_covariance(moves(heads), moves(tails)))
        close(covariances[segment, relation], expected, tolerance(case))


@pytest.mark.parametrize("translate", [False, True])
@given(case=problems())
@example(case=ONE_NONE_LOOP)
def test_solve_is_the_closed_form_of_each_relation(translate, case):
    relations = solved(case, translate=translate)
    for segment, relation, heads, tails in blocks(case):
        rotation, moved = relations.rotations[segment, relation], shift(relations, segment, relation)
        moves = centred if translate else torch.clone
        covariance = completed(cross_covariance(moves(heads), moves(tails)))
        # Rounding of n triples turns Q by as much as M is thin in its thinnest direction.
        thin = torch.linalg.svdvals(covariance)[-1]
        rounding = 100 * torch.finfo(thin.dtype).eps * (1 + len(heads)) / thin
        close(rotation, nearest_orthogonal(covariance), max(tolerance(case), rounding.item()))
        residual = (heads @ rotation + moved - tails).square().sum()
        close(relations.residuals[segment, relation], residual, tolerance(case))
        if translate and len(heads):
            close(moved, tails.mean(dim=0) - heads.mean(dim=0) @ rotation, tolerance(case))


@pytest.mark.parametrize("translate", [False, True])
@given(case=problems())
@example(case=ONE_NONE_LOOP)
def test_no_other_map_leaves_less(translate, case):
    relations = solved(case, translate=translate)
    assert (relations.translations is not None) == translate
    width, dtype = case.vectors.shape[-1], case.vectors.dtype
    for segment, relation, heads, tails in blocks(case):
        best = relations.rotations[segment, relation]
        far = random_orthogonal(width, case.generator, (50,)).to(dtype)
        turn = 0.01 * torch.randn(50, width, width, generator=case.generator, dtype=torch.float64)
        near = best @ torch.linalg.matrix_exp(turn - turn.mT).to(dtype)
        others = torch.cat([far, near])
        moved = torch.zeros(len(others), width, dtype=dtype)
        if translate:
            moved = torch.randn(len(others), width, generator=case.generator, dtype=torch.float64).to(dtype)
            moved = shift(relations, segment, relation) + 0.1 * moved
        theirs = (heads @ others + moved[:, None] - tails).square().sum(dim=(-2, -1))
        assert (theirs >= relations.residuals[segment, relation] - 10 * tolerance(case)).all()


@given(problems())
def test_translating_never_leaves_more(case):
    plain, translated = solved(case).residuals, solved(case, translate=True).residuals
    assert (translated <= plain + 10 * tolerance(case)).all()


@given(problems())
@example(ONE_NONE_LOOP)
def test_one_triple_is_met_exactly_and_no_triple_turns_by_what_completes_it(case):
    for translate in (False, True):
        relations = solved(case, translate=translate)
        assert (relations.residuals >= 0).all()
        alone = case.matrices.triples <= 1
        # √ε of M is added to complete it, and felt to second order.
        close(relations.residuals[:, alone], torch.zeros_like(relations.residuals[:, alone]), 10 * tolerance(case))
        free = relations.rotations[:, case.matrices.triples == 0]
        close(free, nearest_orthogonal(completed(torch.zeros_like(free))), tolerance(case))
        if translate:
            assert not relations.translations[:, case.matrices.triples == 0].any()


def loss_of(case, vectors, relations, loss):
    """Return the loss of free vectors under given maps, relation by relation; where it is zero it has no gradient."""
    total = torch.zeros((), dtype=vectors.dtype)
    for segment, points in enumerate(vectors):
        for relation in range(case.matrices.relations):
            head, _, tail = case.triples[case.triples[:, 1] == relation].unbind(dim=1)
            rotation, moved = relations.rotations[segment, relation], shift(relations, segment, relation)
            residual = (points[head] @ rotation + moved - points[tail]).square().sum()
            if residual > 1e-6:
                total = total + (residual / 2 if loss == "squared" else residual.sqrt())
    return total


def weights_of(relations, loss):
    if loss == "squared":
        return (relations.residuals > 1e-6).to(relations.residuals)
    return torch.where(relations.residuals > 1e-6, relations.residuals.clamp_min(1e-6).rsqrt(), 0)


@pytest.mark.parametrize("translate", [False, True])
@pytest.mark.parametrize("loss", ["squared", "norm"])
@given(case=problems(dtypes=(torch.float64,)))
@example(case=ONE_NONE_LOOP)
def test_mass_and_pull_are_the_gradient(loss, translate, case):
    relations = solved(case, translate=translate)
    vectors = case.vectors.clone().requires_grad_()
    value = loss_of(case, vectors, relations, loss)
    expected = torch.autograd.grad(value, vectors)[0] if value.requires_grad else torch.zeros_like(vectors)
    weights = weights_of(relations, loss)
    gradient = case.matrices.mass(weights) * case.vectors - case.matrices.pull(case.vectors, relations, weights)
    close(gradient, expected, 1e-7)


@pytest.mark.parametrize("translate", [False, True])
@pytest.mark.parametrize("loss", ["squared", "norm"])
@given(seed=st.integers(0, 2**31))
def test_the_gradient_is_that_through_the_solution_itself(loss, translate, seed):
    # Relations of many triples, whose M is far from singular: there the SVD can be differentiated.
    case = problem(random_graph(10, 3, 150, seed), segments=2, width=3, seed=seed)
    vectors = case.vectors.clone().requires_grad_()
    value = torch.zeros((), dtype=torch.float64)
    for points in vectors:
        for relation in range(3):
            head, _, tail = case.triples[case.triples[:, 1] == relation].unbind(dim=1)
            heads, tails = (centred(points[side]) if translate else points[side] for side in (head, tail))
            residual = (heads @ nearest_orthogonal(cross_covariance(heads, tails)) - tails).square().sum()
            value = value + (residual / 2 if loss == "squared" else residual.sqrt())
    expected = torch.autograd.grad(value, vectors)[0]
    relations = solved(case, translate=translate)
    weights = weights_of(relations, loss)
    gradient = case.matrices.mass(weights) * case.vectors - case.matrices.pull(case.vectors, relations, weights)
    close(gradient, expected, 1e-5)


@pytest.mark.parametrize("translate", [False, True])
@given(case=problems())
def test_no_weights_are_weights_of_one(translate, case):
    relations = solved(case, translate=translate)
    ones = torch.ones_like(relations.residuals)
    pulls = [case.matrices.pull(case.vectors, relations, weights) for weights in (None, ones)]
    close(*pulls, tolerance(case))
    degrees = case.matrices.degrees.to(ones)[None, :, None]
    close(case.matrices.mass(ones), degrees.expand(len(ones), -1, -1), tolerance(case))


@given(problems())
def test_mass_adds_the_weights_of_an_entitys_triples(case):
    shape = (case.matrices.segments, case.matrices.relations)
    weights = torch.rand(shape, generator=case.generator, dtype=torch.float64).to(case.vectors.dtype)
    expected = torch.zeros(case.matrices.segments, case.matrices.entities, 1, dtype=weights.dtype)
    for head, relation, tail in case.triples.tolist():
        for entity in (head, tail):
            expected[:, entity, 0] += weights[:, relation]
    close(case.matrices.mass(weights), expected, tolerance(case))


@given(problems())
def test_triples_and_degrees_are_counted(case):
    head, relation, tail = case.triples.T.tolist()
    assert case.matrices.triples.tolist() == [relation.count(index) for index in range(case.matrices.relations)]
    ends = head + tail
    assert case.matrices.degrees.tolist() == [ends.count(index) for index in range(case.matrices.entities)]


@pytest.mark.parametrize("translate", [False, True])
@given(case=problems())
def test_stacked_segments_never_meet(translate, case):
    relations = solved(case, translate=translate)
    weights = torch.rand(relations.residuals.shape, generator=case.generator).to(case.vectors.dtype)
    pull, mass = case.matrices.pull(case.vectors, relations, weights), case.matrices.mass(weights)
    alone = RelationalMatrices.of(case.triples, case.matrices.entities, case.matrices.relations, height=case.height)
    for segment in range(case.matrices.segments):
        here = slice(segment, segment + 1)
        points = case.vectors[here]
        own = alone.solve(points, nearest_orthogonal, translate)
        close(own.residuals, relations.residuals[here], tolerance(case))
        given_maps = type(relations)(
            relations.rotations[here],
            relations.translations[here] if translate else None,
            relations.residuals[here],
            relations.back[here] if translate else None,
        )
        close(alone.pull(points, given_maps, weights[here]), pull[here], tolerance(case))
        close(alone.mass(weights[here]), mass[here], tolerance(case))


@pytest.mark.parametrize("translate", [False, True])
@given(graph=random_graphs(), seed=st.integers(0, 2**31))
def test_the_height_of_a_tile_does_not_matter(translate, graph, seed):
    cases = [problem(graph, segments=2, height=height, seed=seed) for height in HEIGHTS]
    maps = solved(cases[0], translate=translate)
    weights = torch.rand(maps.residuals.shape, generator=cases[0].generator, dtype=torch.float64)
    results = []
    for case in cases:
        own = case.matrices.solve(case.vectors, nearest_orthogonal, translate)
        results.append((own.residuals, case.matrices.pull(case.vectors, maps, weights), case.matrices.mass(weights)))
    for other in results[1:]:
        close(other, results[0], 1e-10)


@pytest.mark.parametrize("height", HEIGHTS)
def test_no_triples_at_all_pull_at_nothing(height):
    case = hand_made(relations=2, segments=2, height=height)
    relations = solved(case, translate=True)
    assert not relations.residuals.any()
    assert not relations.translations.any()
    assert not case.matrices.pull(case.vectors, relations).any()
    assert not case.matrices.mass(torch.ones(2, 2, dtype=torch.float64)).any()


@given(problems())
def test_the_order_of_triples_does_not_matter(case):
    order = torch.randperm(len(case.triples), generator=case.generator)
    sizes = (case.matrices.entities, case.matrices.relations, case.matrices.segments, case.height)
    shuffled = RelationalMatrices.of(case.triples[order], *sizes)
    relations = shuffled.solve(case.vectors, nearest_orthogonal)
    close(relations.residuals, solved(case).residuals, tolerance(case))


@given(case=problems())
def test_rows_and_tiles_are_no_more_than_predicted(case):
    rows, tiles = padded_rows(len(case.triples), case.matrices.relations, case.height)
    sides = (case.matrices.asking_tails, case.matrices.asking_heads)
    assert sum(len(side.asked) for side in sides) <= case.matrices.segments * rows
    assert sum(side.tiles for side in sides) <= case.matrices.segments * tiles


@given(case=problems())
def test_the_map_back_is_the_inverse_and_a_buffer_may_be_used_again(case):
    relations = solved(case, translate=True)
    backwards = -(relations.rotations @ relations.translations[..., None]).squeeze(-1)
    close(relations.back, backwards, tolerance(case))
    buffer = case.matrices.buffer(case.vectors).fill_(torch.nan)
    fresh = case.matrices.pull(case.vectors, relations)
    for _ in range(2):
        assert case.matrices.pull(case.vectors, relations, buffer=buffer).equal(fresh)
