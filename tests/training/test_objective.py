"""Losses and gradients against plain twins, one query at a time, that autograd differentiates."""

from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import assume, given, strategies as st

import plain
from procrustes_kge.training.objective import Answers, Draw, Sigmoid, against_all, against_none, against_some, rounded

EVEN = Sigmoid(margin=1.5, sharpness=2.0)
ADVERSARIAL = Sigmoid(margin=1.0, sharpness=0.7, adversarial_temperature=1.3)
KINDS = ("none", "all", "smoothed", "some", "even", "adversarial")
DRAWN = ("some", "even", "adversarial")
SIGMOIDS = {"some": None, "even": EVEN, "adversarial": ADVERSARIAL}
SHARES = st.floats(0, 1)
SMOOTHING = {"all": 0.0, "smoothed": 0.3}


@dataclass(frozen=True)
class Case:
    """Groups of queries; `spare` are the columns of answers that were not drawn."""

    queries: torch.Tensor  # [groups, height, d]
    table: torch.Tensor
    answers: list  # of each query
    weights: torch.Tensor
    drawn: torch.Tensor  # [groups, k]
    spare: int = 0

    @property
    def height(self):
        return self.queries.shape[1]

    @property
    def places(self):
        """(row, answer) for every answer."""
        rows = [row for row, answers in enumerate(self.answers) for _ in answers]
        flat = [answer for answers in self.answers for answer in answers]
        return torch.tensor(rows, dtype=torch.int64), torch.tensor(flat, dtype=torch.int64)

    @property
    def found(self):
        counts = torch.tensor([len(each) for each in self.answers], dtype=self.weights.dtype)
        return Answers(*self.places, self.weights, counts)

    @property
    def columns(self):
        """Where each answer stands in its group's draw."""
        drawn, nowhere = self.drawn.tolist(), self.drawn.shape[1] + self.spare
        hands = [drawn[row // self.height] for row in self.places[0].tolist()]
        found = [
            hand.index(answer) if answer in hand else nowhere
            for hand, answer in zip(hands, self.places[1].tolist(), strict=True)
        ]
        return torch.tensor(found, dtype=torch.int64)

    def to(self, dtype):
        return replace(self, queries=self.queries.to(dtype), table=self.table.to(dtype), weights=self.weights.to(dtype))


def problem(groups=2, height=3, entities=7, width=4, count=5, spare=0, seed=0, fewest=0):
    """Return queries of which some have no answers, some several, and some no weight."""
    generator = torch.Generator().manual_seed(seed)
    rows = groups * height
    normal = torch.randn(rows + entities, width, generator=generator, dtype=torch.float64)
    sizes = torch.randint(fewest, min(4, entities) + 1, (rows,), generator=generator).tolist()
    answers = [torch.randperm(entities, generator=generator)[:size].tolist() for size in sizes]
    weights = torch.rand(rows, generator=generator, dtype=torch.float64) + 0.1
    weights[torch.rand(rows, generator=generator) < 0.2] = 0
    hands = [torch.randperm(entities, generator=generator)[:count] for _ in range(groups)]
    queries = normal[:rows].view(groups, height, width)
    return Case(queries, normal[rows:], answers, weights, torch.stack(hands), spare)


def problems(fewest=0, most_groups=3, share=SHARES):
    """Draw a problem; the share of entities that is drawn for each group may be all or one."""

    def build(share, entities, **sizes):
        return problem(entities=entities, count=max(1, round(share * entities)), fewest=fewest, **sizes)

    return st.builds(
        build,
        share=share,
        groups=st.integers(1, most_groups),
        height=st.integers(1, 4),
        entities=st.integers(2, 9),
        width=st.integers(1, 5),
        spare=st.integers(0, 3),
        seed=st.integers(0, 2**31),
    )


def computed(kind, case, pull=None, sigmoid=None):
    """Return losses, the gradient of the queries and that of the table."""
    pull = torch.zeros_like(case.table, dtype=case.queries.dtype) if pull is None else pull
    flat = case.queries.flatten(0, 1)
    if kind == "none":
        return *against_none(flat, case.table, case.found, pull), pull
    if kind in SMOOTHING:
        return *against_all(flat, case.table, case.found, pull, SMOOTHING[kind]), pull
    draw = Draw(len(case.table), case.height, case.drawn, case.columns)
    losses, gradient = against_some(case.queries, case.table, case.found, pull, draw, sigmoid or SIGMOIDS[kind])
    return losses, gradient.flatten(0, 1), pull


def loss_of(kind, query, table, answers, weight, drawn):
    """Return the plain loss of one query."""
    if kind == "none":
        return plain.squared(query, table, answers, weight)
    if kind in SMOOTHING:
        return plain.softmax(query, table, answers, weight, SMOOTHING[kind])
    if kind == "some":
        return plain.sampled_softmax(query, table, answers, weight, drawn, len(table))
    return plain.sigmoid(query, table, answers, weight, drawn, SIGMOIDS[kind])


def expected(kind, case):
    """Return the same as `computed`, plainly."""
    queries, table = case.queries.flatten(0, 1).requires_grad_(), case.table.clone().requires_grad_()
    losses = torch.stack(
        [
            loss_of(kind, query, table, case.answers[row], case.weights[row], case.drawn[row // case.height].tolist())
            for row, query in enumerate(queries)
        ]
    )
    return losses.detach(), *torch.autograd.grad(losses.sum(), [queries, table])


def apart(case):
    """Whether all distances are long enough to have a direction: shorter ones are lengthened."""
    return torch.cdist(case.queries.flatten(0, 1), case.table).min() > 0.02


def close(left, right, tolerance=1e-9):
    torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)


# Against the plain twin.


@pytest.mark.parametrize("kind", KINDS)
@given(case=problems())
def test_gradients_are_those_of_the_loss_written_plainly(kind, case):
    assume(apart(case))
    losses, *gradients = computed(kind, case)
    plain_losses, *plain_gradients = expected(kind, case)
    close(gradients, plain_gradients, 1e-8)
    if kind == "smoothed":
        plain_losses, *_ = expected("all", case)  # what smoothing adds is left out of the losses
    close(losses, plain_losses, 1e-8)


@pytest.mark.parametrize("kind", KINDS)
@given(case=problems(), seed=st.integers(0, 2**31))
def test_the_pull_of_entities_is_added_to_what_was_there(kind, case, seed):
    before = torch.randn(case.table.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    close(computed(kind, case, before.clone())[2], before + computed(kind, case)[2])


@pytest.mark.parametrize("kind", KINDS)
@given(case=problems())
def test_queries_without_answers_or_weight_pull_at_nothing(kind, case):
    silent = torch.tensor([not answers for answers in case.answers]) | (case.weights == 0)
    losses, gradient, _ = computed(kind, case)
    assert not losses[silent].any()
    assert not gradient[silent].any()
    case = replace(case, weights=torch.where(silent, case.weights, 0))
    assert not any(result.any() for result in computed(kind, case))


@pytest.mark.parametrize("kind", KINDS)
@given(case=problems(), factor=st.floats(0.1, 10))
def test_everything_is_proportional_to_the_weights(kind, case, factor):
    heavier = replace(case, weights=factor * case.weights)
    close(computed(kind, heavier), tuple(factor * result for result in computed(kind, case)))


@pytest.mark.parametrize("kind", KINDS)
@given(case=problems(most_groups=4), data=st.data())
def test_parts_add_up_to_the_whole(kind, case, data):
    cut = data.draw(st.integers(0, len(case.queries)))
    parts = []
    for some in (slice(0, cut), slice(cut, None)):
        rows = slice(some.start * case.height, None if some.stop is None else some.stop * case.height)
        part = replace(
            *(case,),
            queries=case.queries[some],
            answers=case.answers[rows],
            weights=case.weights[rows],
            drawn=case.drawn[some],
        )
        parts.append(computed(kind, part))
    (first_losses, first_gradient, first_pull), (losses, gradient, pull) = parts
    together = torch.cat([first_losses, losses]), torch.cat([first_gradient, gradient]), first_pull + pull
    close(together, computed(kind, case))


# What is pushed, and what is not.


@pytest.mark.parametrize("kind", ["all", "smoothed", "some"])
@given(case=problems())
def test_a_softmax_pushes_as_much_as_it_pulls(kind, case):
    # Scores that all rise alike change no probability.
    close(computed(kind, case)[2].sum(dim=0), torch.zeros_like(case.table[0]))


@pytest.mark.parametrize("kind", ["none", "even", "adversarial"])
@given(case=problems())
def test_distances_pull_both_ends_alike(kind, case):
    _, gradient, pull = computed(kind, case)
    close(gradient.sum(dim=0), -pull.sum(dim=0))


@pytest.mark.parametrize("kind", DRAWN)
@given(case=problems(), seed=st.integers(0, 2**31))
def test_the_order_of_the_draw_does_not_matter(kind, case, seed):
    order = torch.randperm(case.drawn.shape[1], generator=torch.Generator().manual_seed(seed))
    close(computed(kind, replace(case, drawn=case.drawn[:, order])), computed(kind, case))


@given(problems(share=st.just(1.0)))
def test_with_every_entity_drawn_the_estimate_is_the_softmax_over_all(case):
    assert case.drawn.shape[1] == len(case.table)
    close(computed("some", case), computed("all", case))


@pytest.mark.parametrize("kind", DRAWN)
@given(case=problems())
def test_only_answers_and_drawn_entities_are_pulled(kind, case):
    pull = computed(kind, case)[2]
    seen = {*case.places[1].tolist(), *case.drawn.flatten().tolist()}
    assert not pull[[entity for entity in range(len(case.table)) if entity not in seen]].any()


@pytest.mark.parametrize("kind", DRAWN)
@given(seed=st.integers(0, 2**31), negatives=st.integers(0, 4), own=st.integers(1, 3))
def test_an_answer_that_is_drawn_for_its_own_query_is_no_negative(kind, seed, negatives, own):
    case = problem(groups=1, height=1, entities=8, seed=seed)
    case = replace(case, answers=[[0, 1, 2, 3]], weights=torch.ones_like(case.weights))
    others, theirs = list(range(4, 4 + negatives)), list(range(own))
    hands = [others + theirs, others + [3 - entity for entity in theirs]]
    close(*(computed(kind, replace(case, drawn=torch.tensor([hand]))) for hand in hands))
    if negatives:  # the answers were as good as not drawn
        close(*(computed(kind, replace(case, drawn=torch.tensor([hand]))) for hand in (hands[0], others)))


@pytest.mark.parametrize("kind", DRAWN)
@given(seed=st.integers(0, 2**31))
def test_an_answer_is_a_negative_of_other_queries(kind, seed):
    case = problem(groups=1, height=2, entities=3, seed=seed)
    case = replace(case, answers=[[0], [1]], weights=torch.tensor([1.0, 0.0]).double(), drawn=torch.tensor([[0, 1]]))
    _, _, pull = computed(kind, case)
    towards = case.queries[0, 0] if kind == "some" else case.queries[0, 0] - case.table[:2]
    along = (pull[:2] * towards).sum(dim=1)
    assert along[0] <= 0 <= along[1]  # down the gradient, the answer comes nearer and the other goes away
    assert pull[1].any()


@pytest.mark.parametrize("kind", DRAWN)
@given(seed=st.integers(0, 2**31), size=st.integers(1, 4))
def test_queries_whose_draw_holds_their_own_answers_alone_have_no_negatives(kind, seed, size):
    case = problem(groups=1, height=2, seed=seed)
    own = list(range(size))
    case = replace(case, answers=[own, own], weights=torch.ones_like(case.weights), drawn=torch.tensor([own]))
    losses, gradient, pull = computed(kind, case)
    assert all(result.isfinite().all() for result in (losses, gradient, pull))
    assert (losses >= -1e-12).all()
    if kind == "some":  # p is shared by the answers; one alone is certain
        close((losses, gradient, pull[:size]), computed("all", replace(case, table=case.table[:size])))
        assert size > 1 or losses.abs().max() < 1e-12
    else:
        distances = torch.cdist(case.queries[0], case.table[own])
        settings = SIGMOIDS[kind]
        close(losses, -torch.nn.functional.logsigmoid(settings.sharpness * (settings.margin - distances)).sum(dim=1))


@pytest.mark.parametrize("entities", [9, 1000])
@given(case=problems(fewest=1))
def test_drawn_negatives_stand_for_those_that_were_not(entities, case):
    # The table may hold fewer rows than there are entities: a copy of those that a batch sees.
    pull = torch.zeros_like(case.table)
    draw = Draw(entities, case.height, case.drawn, case.columns)
    losses, _ = against_some(case.queries, case.table, case.found, pull, draw)
    for row, query in enumerate(case.queries.flatten(0, 1)):
        drawn = case.drawn[row // case.height].tolist()
        close(
            losses[row],
            plain.sampled_softmax(query, case.table, case.answers[row], case.weights[row], drawn, entities),
        )


@given(case=problems(), temperature=st.floats(0.1, 5))
def test_a_temperature_weighs_near_negatives_more_and_weights_sum_to_one(case, temperature):
    def heated(case, temperature=temperature):
        losses, gradient, _ = computed("even", case, sigmoid=EVEN._replace(adversarial_temperature=temperature))
        return losses, gradient

    # All losses of negatives alike: whatever the weights, their mean is that loss.
    alike = replace(case, table=case.table[:1].expand_as(case.table).clone())
    close(heated(alike), heated(alike, 0.0))
    assert (heated(case)[0] >= heated(case, 0.0)[0] - 1e-9).all()  # near negatives are those with the larger loss


# Precision.


@pytest.mark.parametrize("kind", KINDS)
@given(case=problems())
def test_huge_scores_stay_finite(kind, case):
    case = case.to(torch.float32)
    case = replace(case, queries=100 * case.queries, table=100 * case.table)
    losses, gradient, pull = computed(kind, case)
    assert all(result.isfinite().all() for result in (losses, gradient, pull))
    if kind in ("all", "smoothed", "some"):  # a softmax moves no more probability than there is
        mass = case.weights * torch.tensor([len(answers) for answers in case.answers])
        assert (gradient.norm(dim=1) <= 2.01 * mass * case.table.norm(dim=1).max()).all()


@given(problems())
def test_the_sampled_loss_of_huge_scores_is_that_of_float64(case):
    case = replace(case, queries=100 * case.queries, table=100 * case.table).to(torch.float32)
    losses = computed("some", case)[0]
    exact = computed("some", case.to(torch.float64))[0]
    size = (case.queries.flatten(0, 1).norm(dim=1).max() * case.table.norm(dim=1).max()).item()
    torch.testing.assert_close(losses.double(), exact, rtol=1e-5, atol=1e-5 * size)


@pytest.mark.parametrize("kind", ["even", "adversarial", "none"])
@given(seed=st.integers(0, 2**31))
def test_a_query_that_stands_on_its_answer_or_a_negative_is_not_torn(kind, seed):
    case = problem(groups=1, height=2, entities=4, seed=seed).to(torch.float32)
    case = replace(case, answers=[[0], [1]], weights=torch.ones(2), drawn=torch.tensor([[0, 1]]))
    table = case.table.clone()
    table[:2] = case.queries[0, 0]
    losses, gradient, pull = computed(kind, replace(case, table=table))
    assert all(result.isfinite().all() for result in (losses, gradient, pull))
    close(gradient[0], torch.zeros_like(gradient[0]), 1e-3)


def pull_of(case):
    """Return a gradient of zeros for the table, before it is padded."""
    return torch.zeros_like(case.table, dtype=case.queries.dtype)


@pytest.mark.parametrize("kind", ["all", "smoothed"])
@given(case=problems(), rows=st.integers(0, 3), columns=st.integers(0, 3))
def test_padding_the_table_changes_nothing(kind, case, rows, columns):
    padded = torch.nn.functional.pad(case.table, (0, columns, 0, rows))
    for one, other in zip(
        computed(kind, case), computed(kind, replace(case, table=padded), pull_of(case)), strict=True
    ):
        close(one, other, 1e-12)


def test_a_rounded_table_has_sizes_that_are_multiples_of_eight_and_can_be_written_again():
    vectors = torch.randn(5, 11)
    table = rounded(vectors)
    assert table.shape == (8, 16)
    assert table.dtype == torch.bfloat16
    assert rounded(2 * vectors, table) is table
    assert table[:5, :11].equal((2 * vectors).bfloat16())
    assert not table[5:].any()
    assert not table[:, 11:].any()


@pytest.mark.parametrize("kind", ["all", "smoothed"])
@given(case=problems())
def test_a_table_in_bfloat16_stays_near(kind, case):
    case = replace(
        case,
        queries=torch.nn.functional.normalize(case.queries, dim=-1),
        table=torch.nn.functional.normalize(case.table, dim=-1),
    ).to(torch.float32)
    exact, padded = computed(kind, case), computed(kind, replace(case, table=rounded(case.table)), pull_of(case))
    mass = case.weights * torch.tensor([len(answers) for answers in case.answers])
    for one, other in zip(exact, padded, strict=True):
        assert one.dtype == other.dtype == torch.float32
        assert ((one - other).abs() <= 0.03 * mass.sum()).all()
