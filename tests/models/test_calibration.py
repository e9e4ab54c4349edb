"""Laws of probabilities: they rise with the score, move with the prior as Bayes has it, and are kept exactly."""

import json

import numpy as np
import pytest
from hypothesis import given, strategies as st

from laws import refused
from procrustes_kge.models.calibration import Calibration


def calibration(seed=0, directions=4, knots=6, **changes):
    """Return a calibration drawn at random."""
    random = np.random.default_rng(seed)
    tables = {
        "knots": np.sort(random.normal(size=knots)),
        "evidence": np.sort(random.normal(size=knots, scale=3)),
        "centres": random.normal(size=directions),
        "spreads": random.random(directions) + 0.1,
        "slopes": random.random(directions) + 0.1,
        "offsets": random.normal(size=directions),
        "examples": random.integers(0, 9, directions),
    }
    return Calibration(**{**tables, "prior": 0.01, "triples": 40, **changes})


@given(seed=st.integers(0, 2**31), scores=st.lists(st.floats(-1e9, 1e9), min_size=1), prior=st.floats(1e-6, 1 - 1e-6))
def test_probabilities_lie_between_0_and_1_and_rise_with_the_score(seed, scores, prior):
    ordered, made = np.sort(scores), calibration(seed)
    for direction in range(4):
        found = made.probability(ordered, np.full(len(ordered), direction), prior)
        assert ((found > 0) & (found < 1)).all()
        assert (np.diff(found) >= 0).all()


@given(seed=st.integers(0, 2**31), prior=st.floats(0.001, 0.999))
def test_the_prior_moves_odds_as_bayes_has_it(seed, prior):
    made, scores, directions = calibration(seed), np.linspace(-3, 3, 7), np.arange(7) % 4
    even, moved = (made.probability(scores, directions, each) for each in (0.5, prior))
    np.testing.assert_allclose(moved / (1 - moved), even / (1 - even) * prior / (1 - prior), rtol=1e-9)
    np.testing.assert_allclose(made.probability(scores, directions), made.probability(scores, directions, 0.01))


def test_scores_of_one_query_share_their_direction():
    made, scores = calibration(), np.random.default_rng(1).normal(size=(2, 5))
    table = made.probability(scores, np.array([[0], [3]]))
    for row, direction in enumerate((0, 3)):
        for column in range(5):
            assert table[row, column] == made.probability(scores[row, column], direction)


@given(seed=st.integers(0, 2**31))
def test_what_is_kept_is_the_same(seed):
    made = calibration(seed)
    kept = Calibration.of_json(json.loads(json.dumps(made.as_json())), 4, "file")
    for name in made.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(kept, name), getattr(made, name))


DAMAGE = {
    "another format": ({"format": 2}, "format 2"),
    "no prior": ({"prior": None}, "prior None"),
    "certain before": ({"prior": 1.0}, "prior 1.0"),
    "triples": ({"triples": -1}, "triples -1"),
    "not numbers": ({"offsets": ["a", 0, 0, 0]}, "offsets are no list"),
    "true is no number": ({"offsets": [True, 0, 0, 0]}, "offsets are no list"),
    "not a list": ({"knots": 3}, "knots are no list"),
    "missing": ({"slopes": None}, "slopes are no list"),
    "endless": ({"evidence": [0, 1, 2, 3, 4, float("inf")]}, "not all finite"),
    "too large": ({"offsets": [10**400, 0, 0, 0]}, "too large"),
    "other relations": ({"centres": [0.0] * 6}, "6 centres, expected 4"),
    "falls": ({"evidence": [5, 4, 3, 2, 1, 0]}, "does not rise"),
    "one knot twice": ({"knots": [0, 0, 1, 2, 3, 4]}, "does not rise"),
    "lengths": ({"knots": [0, 1]}, "2 knots for 6"),
    "nothing": ({"knots": [], "evidence": []}, "0 knots"),
    "no spread": ({"spreads": [1, 1, 1, 0]}, "above 0"),
    "turned round": ({"slopes": [1, 1, 1, -1]}, "above 0"),
}


@pytest.mark.parametrize(("change", "said"), DAMAGE.values(), ids=DAMAGE)
def test_what_is_damaged_is_refused(change, said):
    with pytest.raises(ValueError, match=f"^file.*{said}"):
        Calibration.of_json({**calibration().as_json(), **change}, 4, "file")


def test_what_cannot_be_asked_is_refused():
    made = calibration()
    refused(lambda: made.probability(0.0, 4), setting="relation", seen="4", remedy="rows from 0 to 3")
    refused(lambda: made.probability([np.nan], [0]), setting="scores", seen="NaN", remedy="train again")
    for prior in (0.0, 1.0, -1.0, float("nan")):
        refused(lambda prior=prior: made.probability(0.0, 0, prior), setting="prior", seen=prior, remedy="between")
