"""Laws of proposals: the portfolio first, nothing twice, what is kept stays, the same ones every time."""

from hypothesis import given, strategies as st

from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.portfolio import portfolio
from procrustes_kge.training.proposals import Proposals
from procrustes_kge.training.recipes import changed
from procrustes_kge.training.spaces import SPACES
from procrustes_kge.training.trials import Trial

SPACE = SPACES[ContrastSettings]
SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=30)
KEPT = st.sets(st.sampled_from(sorted(SPACE)), max_size=3)


def proposals(kept=(), first=None, **base):
    settings = ContrastSettings(device="cpu", **base)
    return Proposals(
        settings, SPACE, kept, portfolio() if first is None else first, lambda some: changed(settings, **some)
    )


def searched(scores, kept=(), count=4):
    """Return what is tried where trials come out so."""
    made, trials = proposals(kept), list[Trial]()
    for number in range(0, len(scores), count):
        some = made.next(trials, count)
        trials += [Trial(changes, valid_mrr=score) for changes, score in zip(some, scores[number:], strict=False)]
    return trials


def test_the_portfolio_comes_first():
    tried = [trial.changes for trial in searched([0.5] * 20)]
    assert tried[0] == {}
    for entry in portfolio():
        assert any(changes.items() <= entry.items() for changes in tried[: len(portfolio()) + 1])


@given(SCORES)
def test_nothing_is_tried_twice(scores):
    tried = [tuple(sorted(trial.changes.items())) for trial in searched(scores)]
    assert len(set(tried)) == len(tried)


@given(SCORES, KEPT)
def test_what_is_kept_stays(scores, kept):
    for trial in searched(scores, kept):
        assert not kept & trial.changes.keys()


@given(SCORES)
def test_the_same_trials_lead_to_the_same_proposals(scores):
    assert searched(scores) == searched(scores)


def test_what_settings_refuse_is_not_proposed():
    made = proposals(negatives=16, first=[{"label_smoothing": 0.1}])
    tried = list[Trial]()
    for _ in range(10):
        tried += [Trial(changes, valid_mrr=0.1) for changes in made.next(tried, 4)]
    assert not any("label_smoothing" in trial.changes for trial in tried)


def test_mixtures_stay_near_the_best():
    best = {"regularisation": 0.004, "learning_rate": 0.09}
    trials = [Trial(best, valid_mrr=0.9), *(Trial({"crowd": c}, valid_mrr=0.1) for c in (0.0, 0.5))]
    found = proposals(first=[]).next(trials, 20)
    near = [each for each in found if 0.001 < each.get("regularisation", 0.05) < 0.016]
    assert len(near) > len(found) / 4
