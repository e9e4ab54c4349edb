"""Gathered gradients against autograd, steps taken in several ways, and rotations that stay rotations."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import plain
from procrustes_kge.layouts.batches import QUERIES_PER_TILE, QueryBatches
from procrustes_kge.linalg import completed, nearest_orthogonal, spherise
from procrustes_kge.training.learner import TURN_EVERY, Deck, Learner, Objective, Rates
from procrustes_kge.training.objective import Sigmoid
from procrustes_kge.training.optimisers import Adagrad, Adam
from toys import builds, planted_model, random_graph, random_graphs, random_orthogonal

KINDS = ("none", "all", "smoothed", "some", "sigmoid")
WHOLE = ("none", "all", "smoothed")  # where nothing is drawn
SIGMOID = Sigmoid(margin=1.5, sharpness=2.0, focus=0.7)
SEEDS = st.integers(0, 2**31)
ALL_AT_ONCE = 10**6
FEWER, FEW = settings(max_examples=15), settings(max_examples=5)  # where an example takes many steps


def objective(kind, negatives=3, decay=0.0, dropout=0.0, crowd=1.0):
    return Objective(
        negatives={"none": 0, "all": None, "smoothed": None}.get(kind, negatives),
        sigmoid=SIGMOID if kind == "sigmoid" else None,
        smoothing=0.3 if kind == "smoothed" else 0.0,
        decay=decay,
        dropout=dropout,
        crowd=crowd,
    )


def learning(graph, asks, step=Adagrad, segments=2, width=3, tile=3, seed=0, dtype=torch.float64, **options):
    """Return a learner with everything drawn at random, the questions it learns from, and the graph."""
    told = {"step": step, "segments": segments, "width": width, "tile": tile, "seed": seed, "dtype": dtype, **options}
    generator = torch.Generator().manual_seed(seed)
    questions = QueryBatches.of(graph.train, len(graph.entities), len(graph.relations), tile)
    vectors = torch.randn(len(graph.entities), segments, width, generator=generator, dtype=torch.float64).to(dtype)
    if options.get("unit"):
        vectors = spherise(vectors.transpose(0, 1)).transpose(0, 1).contiguous()
    learner = Learner(questions, vectors, len(graph.relations), asks, step, generator, **options)
    for name, table in learner.sides.items():
        drawn = torch.randn(table.shape, generator=generator, dtype=torch.float64).to(dtype)
        table.copy_(drawn if name == "translations" else 1 + drawn / 4)
    learner.deck.shuffle(generator)
    return SimpleNamespace(learner=learner, questions=questions, graph=graph, generator=generator, options=told)


@st.composite
def cases(draw, kinds=KINDS, **options):
    """Draw a learner; tiles of one row have no padding, others do."""
    graph = draw(random_graphs())
    asks = objective(
        draw(st.sampled_from(kinds)),
        negatives=draw(st.integers(1, len(graph.entities) - 1)),
        decay=draw(st.sampled_from([0.0, 0.1])),
        crowd=draw(st.sampled_from([0.0, 0.5, 1.0, 2.0])),
    )
    sizes = {"segments": draw(st.integers(1, 3)), "width": draw(st.integers(2, 4))}
    options = {"scale": draw(st.booleans()), "translate": draw(st.booleans()), **sizes, **options}
    tile, seed = draw(st.sampled_from([1, 3, QUERIES_PER_TILE])), draw(SEEDS)
    return draw(builds(lambda: learning(graph, asks, tile=tile, seed=seed, **options)))


def again(case):
    """Return an equal learner that has seen nothing of what this one has."""
    return learning(case.graph, case.learner.objective, **case.options)


def close(left, right, tolerance=1e-9):
    torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)


def tables(learner):
    """Return all that a learner has learned and remembers."""
    found = [learner.vectors, learner.rotations, learner.turns, learner.turning, learner.turned, learner.losses]
    return [*found, learner.answered, learner.weight, learner.move.square, *learner.sides.values()]


def whole(case):
    """Return all questions in one batch."""
    (batch,) = case.questions.epoch(ALL_AT_ONCE, case.generator)
    return batch


def parts(learner):
    """Return what questions are asked with, ready for autograd."""
    found = {"vectors": learner.vectors, "turns": learner.turns, **learner.sides}
    return {name: table.clone().requires_grad_() for name, table in found.items()}


def question_loss(learner, query, table, answers, weight, drawn):
    """Return what one question loses, plainly, as it is reported and as it is differentiated."""
    asks = learner.objective
    if asks.negatives == 0:
        loss = plain.squared(query, table, answers, weight)
    elif asks.negatives is None:
        smoothed = plain.softmax(query, table, answers, weight, asks.smoothing)
        return plain.softmax(query, table, answers, weight), smoothed
    elif asks.sigmoid is None:
        loss = plain.sampled_softmax(query, table, answers, weight, drawn, len(table))
    else:
        assume(torch.linalg.vector_norm(query - table, dim=1).min() > 0.02)  # shorter distances are lengthened
        loss = plain.sigmoid(query, table, answers, weight, drawn, asks.sigmoid)
    return loss, loss


def plain_losses(learner, batch, draw, tables, kept=None):
    """Return the loss of each row of a batch (`kept`: what dropout leaves of queries), and the sum that is learned."""
    tile = len(batch.asked) // len(batch.tiles)
    shape, asks = (learner.segments, learner.width), learner.objective
    vectors, losses, total = tables["vectors"], [], torch.zeros((), dtype=torch.float64)
    for row, entity in enumerate(batch.asked.tolist()):
        direction = int(batch.tiles[row // tile])
        answers = batch.answers[batch.rows == row].tolist()
        if not answers:
            losses.append(torch.zeros((), dtype=torch.float64))
            continue
        weight = len(answers) ** (asks.crowd - 1)
        query = torch.einsum("sw,swv->sv", vectors[entity].view(shape), tables["turns"][direction])
        if "scales" in tables:
            query = tables["scales"][direction] * query
        if "translations" in tables:
            query = query + tables["translations"][direction]
        query = query.flatten()
        drawn = None if draw is None else draw.drawn[row // draw.height].tolist()
        compared = query if kept is None else query * kept[row]
        told, learned = question_loss(learner, compared, vectors, answers, weight, drawn)
        losses.append(told.detach())
        total = total + learned
        for answer in answers:
            lengths = vectors[entity].square().sum() + query.square().sum() + 2 * vectors[answer].square().sum()
            total = total + asks.decay * weight * lengths
    return torch.stack(losses), total


def gathered(learner, batch, draw):
    """Return what `learn` adds to the gradients of each part."""
    pull = torch.zeros_like(learner.vectors)
    learner.learn(batch, draw, learner.vectors, learner.table, pull)
    return {"vectors": pull, "turns": learner.turning, **learner.side_pulls}


def dealt(case, batch):
    negatives = case.learner.objective.negatives
    return case.learner.deck.deal(batch, negatives) if negatives else None


def total_loss(case, batch, draw=None):
    """Return the loss of a batch as the learner is now."""
    found = {name: table.detach() for name, table in parts(case.learner).items()}
    return plain_losses(case.learner, batch, draw, found)[1]


# Gradients.


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_what_is_gathered_are_the_gradients_of_the_loss_written_plainly(kind, data):
    case = data.draw(cases([kind]))
    batch = whole(case)
    draw, leaves = dealt(case, batch), parts(case.learner)
    losses, total = plain_losses(case.learner, batch, draw, leaves)
    expected = dict(zip(leaves, torch.autograd.grad(total, list(leaves.values()), materialize_grads=True), strict=True))
    found = gathered(case.learner, batch, draw)
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        close(gradient, expected[name], 1e-7)
    by_direction = torch.zeros_like(case.learner.losses).index_add_(
        0, batch.tiles, losses.view(len(batch.tiles), -1).sum(dim=1)
    )
    close(case.learner.losses, by_direction, 1e-7)


@given(cases(), st.floats(0.1, 0.9))
def test_numbers_that_are_dropped_are_left_out_of_scores_and_not_of_decay(case, dropout):
    case.learner.objective = replace(case.learner.objective, dropout=dropout)
    batch = whole(case)
    twin = torch.Generator()
    twin.set_state(case.generator.get_state())
    kept = torch.empty(len(batch.asked), case.learner.vectors.shape[1], dtype=torch.float64)
    kept.bernoulli_(1 - dropout, generator=twin).div_(1 - dropout)
    draw, leaves = dealt(case, batch), parts(case.learner)
    _, total = plain_losses(case.learner, batch, draw, leaves, kept)
    expected = torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
    for found, gradient in zip(gathered(case.learner, batch, draw).values(), expected, strict=True):
        close(found, gradient, 1e-7)


@given(cases())
def test_a_question_with_n_answers_counts_n_to_the_power_of_crowd(case):
    batch = whole(case)
    case.learner.gather(batch)
    counts = batch.counts[batch.counts > 0].double()
    close(case.learner.weight, (counts**case.learner.objective.crowd).sum())
    close(case.learner.answered, case.learner.weight)


@FEWER
@given(st.sampled_from(WHOLE), random_graphs(), SEEDS)
def test_the_height_of_tiles_and_the_size_of_batches_do_not_matter(kind, graph, seed):
    results = []
    for tile, size in ((1, 1), (3, 10), (QUERIES_PER_TILE, ALL_AT_ONCE)):
        case = learning(graph, objective(kind, decay=0.1, crowd=0.5), tile=tile, seed=seed, scale=True, translate=True)
        for batch in case.questions.epoch(size, case.generator):
            case.learner.gather(batch)
        learner = case.learner
        results.append([learner.pull, learner.turning, learner.weight, learner.losses, *learner.side_pulls.values()])
    for other in results[1:]:
        close(other, results[0])


# Steps.


@FEWER
@given(st.sampled_from(KINDS), random_graphs(fewest_triples=12), SEEDS)
def test_a_batch_in_chunks_is_the_batch(kind, graph, seed):
    # Chunks of whole groups are dealt the same hands.
    asks = objective(kind, negatives=2, decay=0.1, crowd=0.5)
    one, other = (learning(graph, asks, tile=2, seed=seed, scale=True, translate=True) for _ in range(2))
    for _ in range(4):
        for case, size in ((one, ALL_AT_ONCE), (other, 4)):
            for chunk in whole(case).split(size):
                case.learner.gather(chunk)
            case.learner.step(Rates(0.1, 0.5, 2))
    close(tables(one.learner), tables(other.learner), 1e-5)


@FEWER
@given(cases(["some", "sigmoid"]), st.integers(1, 40))
def test_a_step_on_a_copy_is_the_step(one, size):
    assert one.learner.compact
    other = again(one)
    rates = Rates(0.1, 0.5, one.questions.steps(size))
    for _ in range(2):
        pairs = zip(*(case.questions.epoch(size, case.generator) for case in (one, other)), strict=True)
        for batch, same in pairs:
            one.learner.step_on_copy(batch, rates)
            other.learner.gather(same)
            other.learner.step(rates)
            close(tables(one.learner), tables(other.learner), 1e-5)
            assert one.learner.deck.next == other.learner.deck.next


@given(cases(["some", "sigmoid"]))
def test_a_step_on_a_copy_leaves_entities_alone_that_it_does_not_see(case):
    learner = case.learner
    before, size = learner.vectors.clone(), len(learner.vectors)
    batch = next(iter(case.questions.epoch(1, case.generator)))
    hand = learner.deck.cards[(learner.deck.next + torch.arange(learner.objective.negatives)) % size]
    learner.step_on_copy(batch, Rates(0.1, 0.5, 10))
    seen = {*batch.asked.tolist(), *batch.answers.tolist(), *hand.tolist()}
    # A tile is a group here, or part of one: all its questions share a hand.
    assert all(torch.equal(learner.vectors[e], before[e]) for e in range(size) if e not in seen)


def test_copies_are_for_free_vectors_and_few_entities_that_adagrad_moves():
    graph = random_graph(6, 2, 20)
    few, everything, none = (objective(kind, negatives=2) for kind in ("some", "all", "none"))
    assert learning(graph, few).learner.compact
    assert not learning(graph, few, unit=True).learner.compact
    assert not learning(graph, few, step=Adam).learner.compact
    assert not learning(graph, everything).learner.compact
    assert not learning(graph, none).learner.compact


@pytest.mark.parametrize("step", [Adam, Adagrad])
@FEWER
@given(data=st.data())
def test_tables_move_by_the_mean_gradient_of_an_answer(step, data):
    case = data.draw(cases(step=step))
    learner = case.learner
    learner.gather(whole(case))
    moved = {"vectors": learner.vectors.clone(), **{name: table.clone() for name, table in learner.sides.items()}}
    gradients = {"vectors": learner.pull, **learner.side_pulls}
    for name, table in moved.items():
        (step if name == "vectors" else Adagrad)(table)(table, gradients[name] / learner.weight, 0.1)
    learner.step(Rates(0.1, 0.5, 10))
    close(learner.vectors, moved.pop("vectors"))
    close(dict(learner.sides), moved)
    assert all(getattr(learner, name) is table for name, table in learner.sides.items())


@FEWER
@given(cases())
def test_a_step_uses_gradients_up(case):
    learner, batch = case.learner, whole(case)
    learner.gather(batch)
    learner.step(Rates(0.1, 0.5, 1))
    left = [learner.pull, learner.turning, learner.weight, *learner.side_pulls.values()]
    assert not any(table.any() for table in left)
    assert learner.taken == 1
    assert torch.equal(learner.table, learner.vectors)  # what is compared is what has been learned


@given(cases(WHOLE))
def test_what_is_forgotten_was_never_gathered(one):
    other = again(one)
    first, *_ = one.questions.epoch(5, one.generator)
    before = one.learner.sums()
    one.learner.gather(first)
    one.learner.forget(before)
    for learner in (one.learner, other.learner):
        learner.gather(first)
        learner.step(Rates(0.1, 0.5, 1))
    close(tables(one.learner), tables(other.learner))
    close(one.learner.losses, other.learner.losses)


@given(cases())
def test_the_mean_loss_of_an_answer_is_told_once(case):
    batch = whole(case)
    draw = dealt(case, batch)
    learner = case.learner
    found = {name: table.detach() for name, table in parts(learner).items()}
    losses, _ = plain_losses(learner, batch, draw, found)
    learner.learn(batch, draw, learner.vectors, learner.table, learner.pull)
    counts = batch.counts[batch.counts > 0].double()
    expected = (losses.sum() / (counts**learner.objective.crowd).sum()).item()
    assert learner.mean_loss() == pytest.approx(expected, rel=1e-7, abs=1e-7)
    assert not learner.losses.any()
    assert not learner.answered.any()


@FEWER
@given(cases())
def test_copied_tables_are_left_alone(case):
    learner = case.learner
    copied = learner.tables(copied=True)
    kept = [table.clone() for table in copied if table is not None]
    for _ in range(TURN_EVERY):
        learner.gather(whole(case))
        learner.step(Rates(0.1, 0.5, TURN_EVERY))
    assert all(torch.equal(*pair) for pair in zip(kept, (t for t in copied if t is not None), strict=True))
    assert learner.tables().rotations is not copied.rotations
    live, now = learner.tables(), (learner.vectors, learner.rotations, learner.translations, learner.scales)
    assert all(one is other for one, other in zip(live, now, strict=True))


@pytest.mark.parametrize("step", [Adam, Adagrad])
@FEWER
@given(data=st.data())
def test_unit_vectors_are_centred_and_brought_back_to_length_one(step, data):
    case = data.draw(cases(step=step, unit=True))
    learner = case.learner
    shape = (-1, learner.segments, learner.width)
    for _ in range(3):
        learner.gather(whole(case))
        free = learner.vectors.clone()
        copy.deepcopy(learner.move)(free, learner.pull / learner.weight, 0.1)
        learner.step(Rates(0.1, 0.5, 10))
        unit = learner.vectors.view(shape)
        close(unit, spherise(free.view(shape).transpose(0, 1)).transpose(0, 1))
        close(unit.norm(dim=-1), torch.ones_like(unit[..., 0]))


# The deck.


@given(
    random_graphs(),
    st.sampled_from([1, 3, QUERIES_PER_TILE]),
    st.integers(1, 60),
    st.floats(0, 1),
    st.booleans(),
    SEEDS,
)
def test_hands_hold_no_entity_twice_and_columns_point_at_answers(graph, tile, size, share, shuffled, seed):
    entities, generator = len(graph.entities), torch.Generator().manual_seed(seed)
    count = max(1, round(share * (entities - 1)))
    questions = QueryBatches.of(graph.train, entities, len(graph.relations), tile)
    deck, times = Deck(entities, torch.device("cpu")), torch.zeros(entities, dtype=torch.int64)
    if shuffled:
        deck.shuffle(generator)
    for _ in range(2):
        for batch in questions.epoch(size, generator):
            draw = deck.deal(batch, count)
            assert draw.height % tile == 0
            assert draw.height <= max(count, tile)
            assert (len(draw.drawn) - 1) * draw.height < len(batch.asked) <= len(draw.drawn) * draw.height
            for hand in draw.drawn.tolist():
                assert len(set(hand)) == count
            hands = draw.drawn[batch.rows // draw.height].tolist()
            columns, answers = draw.columns.tolist(), batch.answers.tolist()
            for hand, column, answer in zip(hands, columns, answers, strict=True):
                assert hand[column] == answer if column < count else answer not in hand
            times += torch.bincount(draw.drawn.flatten(), minlength=entities)
            assert times.max() - times.min() <= 1  # all come equally often


@given(entities=st.integers(1, 30), seed=SEEDS)
def test_shuffling_loses_no_card(entities, seed):
    deck, generator = Deck(entities, torch.device("cpu")), torch.Generator().manual_seed(seed)
    for _ in range(2):
        deck.shuffle(generator)
        assert deck.cards.sort().values.tolist() == list(range(entities))
        assert deck.cards[deck.place].tolist() == list(range(entities))


# Rotations.


def orthogonal(rotations, tolerance):
    identity = torch.eye(rotations.shape[-1], dtype=rotations.dtype).expand_as(rotations)
    close(rotations.mT @ rotations, identity, tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-10)])
@pytest.mark.parametrize("positives", [False, True])
@FEWER
@given(data=st.data(), steps=st.integers(1, TURN_EVERY))
def test_rotations_stay_orthogonal_and_heads_turn_by_the_transpose(positives, dtype, tolerance, data, steps):
    case = data.draw(cases(positives=positives, dtype=dtype))
    learner = case.learner
    for _ in range(TURN_EVERY + 1):
        orthogonal(learner.rotations, tolerance)
        assert torch.equal(learner.turns, torch.cat([learner.rotations, learner.rotations.mT]))
        learner.gather(whole(case))
        learner.step(Rates(0.1, 1.0, steps))


@pytest.mark.parametrize("positives", [False, True])
@pytest.mark.parametrize("steps", [1, 3, TURN_EVERY, 10])
def test_rotations_move_once_in_so_many_steps_and_at_least_once_an_epoch(steps, positives):
    case = learning(random_graph(6, 2, 20), objective("all"), positives=positives)
    learner, often = case.learner, min(TURN_EVERY, steps)
    for number in range(1, 2 * TURN_EVERY + 1):
        before = learner.rotations
        learner.gather(whole(case))
        learner.step(Rates(0.1, 0.5, steps))
        assert (learner.rotations is before) == (number % often > 0)


@FEWER
@given(cases(scale=True, translate=True))
def test_relations_without_triples_stay_as_they_are(case):
    learner, graph = case.learner, case.graph
    silent = torch.bincount(graph.train[:, 1], minlength=len(graph.relations)) == 0
    both = silent.repeat(2)
    before = learner.rotations[silent], learner.scales[both].clone(), learner.translations[both].clone()
    for _ in range(3):
        learner.gather(whole(case))
        learner.step(Rates(0.1, 0.5, 1))
    close((learner.rotations[silent], learner.scales[both], learner.translations[both]), before, 1e-12)


@given(cases(WHOLE))
def test_a_small_turn_lowers_the_loss(case):
    batch = whole(case)
    before = total_loss(case, batch)
    case.learner.gather(batch)
    case.learner.step(Rates(0.0, 1e-3, 1))
    assert total_loss(case, batch) <= before + 1e-9 * before.abs()


@FEWER
@given(cases(WHOLE), st.floats(-4, 4))
def test_how_far_rotations_turn_does_not_depend_on_the_size_of_gradients(one, power):
    other = again(one)
    for _ in range(3):
        batch = whole(one)
        for case, factor in ((one, 1.0), (other, 10**power)):
            case.learner.gather(batch)
            case.learner.turning.mul_(factor)
            case.learner.step(Rates(0.0, 0.5, 1))
    close(one.learner.rotations, other.learner.rotations, 1e-6)


@given(cases(WHOLE), st.floats(0.01, 1))
def test_a_first_turn_is_a_procrustes_step_of_the_size_of_its_gradient(case, rate):
    learner = case.learner
    learner.gather(whole(case))
    gradient, before = learner.folded() / learner.weight, learner.rotations
    learner.step(Rates(0.0, rate, 1))
    bound = torch.linalg.matrix_norm(gradient, keepdim=True) / learner.width**0.5 / rate
    moved = learner.turned > 0
    close(learner.rotations[moved], nearest_orthogonal(bound * before - gradient)[moved], 1e-6)


@FEW
@given(seed=SEEDS, width=st.integers(2, 4))
def test_turning_finds_planted_rotations(seed, width):
    # Without negatives, vectors held: tails are exactly h Q, and the loss is least there.
    generator = torch.Generator().manual_seed(seed)
    planted, heads = random_orthogonal(width, generator), random_orthogonal(width, generator)
    places = torch.arange(width)
    triples = torch.stack([places, torch.zeros_like(places), places + width], dim=1)
    questions = QueryBatches.of(triples, 2 * width, 1)
    vectors = torch.cat([heads, heads @ planted])[:, None]
    learner = Learner(questions, vectors, 1, objective("none"), Adagrad, generator)
    away = torch.randn(width, width, generator=generator, dtype=torch.float64) / 4
    learner.turn_to((planted @ torch.linalg.matrix_exp(away - away.mT))[None, None])
    for _ in range(60):
        for batch in questions.epoch(ALL_AT_ONCE):
            learner.gather(batch)
        learner.step(Rates(0.0, 0.5, 1))
    close(learner.rotations[0, 0], planted, 1e-3)


def test_the_order_of_the_steps_before_a_turn_does_not_matter():
    # Vectors are held. The last batch of an epoch is smaller than the others and comes anywhere among them.
    graph = random_graph(20, 2, 400)
    found = []
    for last in (0, TURN_EVERY - 1):
        case = learning(graph, objective("all"))
        large, *_ = case.questions.epoch(30)
        (small, *_) = large.split(3)
        for turn in range(3):
            steps = [large] * TURN_EVERY
            if turn == 1:
                steps[last] = small
            for batch in steps:
                case.learner.gather(batch)
                case.learner.step(Rates(0.0, 0.5, 10))
        found.append((case.learner.turned, case.learner.rotations))
    close(*found)


def covariances(case):
    """Return Σ hᵀ t of each relation and segment, plainly."""
    vectors = case.learner.vectors.view(-1, case.learner.segments, case.learner.width)
    sums = torch.zeros_like(case.learner.rotations)
    for head, relation, tail in case.graph.train.tolist():
        sums[relation] += vectors[head][:, :, None] * vectors[tail][:, None]
    return sums


def solution_close(rotations, sums):
    """Compare with Eq. 3 where M is thick in its thinnest direction: elsewhere rounding turns Q."""
    matrices = completed(sums)
    values = torch.linalg.svdvals(matrices)
    thick = values[..., -1] / values[..., 0] > 1e-3
    close(rotations[thick], nearest_orthogonal(matrices)[thick], 1e-4)


@FEWER
@given(st.sampled_from(KINDS), SEEDS, st.sampled_from([1, QUERIES_PER_TILE]))
def test_with_positives_a_full_batch_is_solved_by_eq_3(kind, seed, tile):
    graph = random_graph(10, 3, 150, seed)
    case = learning(graph, objective(kind), seed=seed, tile=tile, unit=True, positives=True)
    solution_close(case.learner.rotations, covariances(case))  # before the first step too
    for _ in range(3):
        # Triples that are asked from both ends are counted twice, which changes no solution.
        before = covariances(case)
        for batch in case.questions.epoch(7, case.generator):
            case.learner.gather(batch)
        case.learner.step(Rates(0.1, 0.5, 1))
        solution_close(case.learner.rotations, before)


@FEW
@given(SEEDS)
def test_with_positives_planted_rotations_are_found_at_once(seed):
    model, graph = planted_model(seed)
    questions = QueryBatches.of(graph.train, len(graph.entities), len(graph.relations))
    generator = torch.Generator().manual_seed(seed)
    learner = Learner(
        *(questions, model.vectors.double(), len(graph.relations), objective("none"), Adagrad, generator),
        positives=True,
    )
    case = SimpleNamespace(learner=learner, graph=graph)
    values = torch.linalg.svdvals(covariances(case))
    plain_to_see = values[..., -1] / values[..., 0] > 1e-3
    close(learner.rotations[plain_to_see], model.rotations.double()[plain_to_see], 1e-3)
    assert plain_to_see.any()


@FEWER
@given(SEEDS, st.integers(1, 20))
def test_with_positives_part_of_an_epoch_counts_each_end_of_its_triples(seed, size):
    case = learning(random_graph(10, 3, 150, seed), objective("none"), tile=1, seed=seed, unit=True, positives=True)
    learner, relations = case.learner, len(case.graph.relations)
    vectors, sums = learner.vectors.view(-1, learner.segments, learner.width), torch.zeros_like(learner.rotations)
    batch = next(iter(case.questions.epoch(size, case.generator)))
    for row, answer in zip(batch.rows.tolist(), batch.answers.tolist(), strict=True):
        asked, direction = int(batch.asked[row]), int(batch.tiles[row])
        head, tail = (asked, answer) if direction < relations else (answer, asked)
        sums[direction % relations] += vectors[head][:, :, None] * vectors[tail][:, None]
    learner.turning.zero_()
    learner.gather(batch)
    learner.solve(keep=0.0)
    solution_close(learner.rotations, sums)
    assert not learner.turning.any()


@FEWER
@given(random_graphs(), SEEDS, st.floats(0, 1))
def test_a_share_of_the_covariances_is_kept(graph, seed, share):
    case = learning(graph, objective("none"), seed=seed, unit=True, positives=True)
    learner, sums = case.learner, case.learner.turning.clone()
    close(learner.folded(), 2 * covariances(case))  # each triple from either end
    learner.solve(keep=share)
    close(learner.turning, share * sums)


@pytest.mark.parametrize("size", [1, 2, 3, 6, 12])
def test_covariances_fade_at_the_rate_at_which_they_are_added(size):
    # All vectors are 1, so that a covariance counts its triples; each of 12 questions has 6 answers.
    places = torch.arange(6)
    triples = torch.cartesian_prod(places, places[:1], places)
    questions, generator = QueryBatches.of(triples, 6, 1, height=1), torch.Generator().manual_seed(0)
    ones = torch.ones(6, 1, 1, dtype=torch.float64)
    learner = Learner(questions, ones, 1, objective("none"), Adagrad, generator, positives=True)
    steps = questions.steps(size)
    for _ in range(20):
        for batch in questions.epoch(size, generator):
            learner.gather(batch)
            learner.step(Rates(0.0, 0.5, steps))
    kept = max(0.0, 1 - TURN_EVERY / steps)
    close(learner.turning.sum() / (2 * len(triples)), torch.tensor(kept).double(), 1e-6)  # of an epoch's triples
