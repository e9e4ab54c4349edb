"""Laws of what may be asked of training with negatives: a setting that cannot be trained is refused with a remedy."""

import math
from dataclasses import replace

import pytest

from laws import refused
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.validation import spoken

LEAST = {
    **dict.fromkeys(("dim", "segment", "groups", "epochs"), 1),
    **dict.fromkeys(("warm_start", "chunk", "workers", "patience", "validate_every"), 0),
}
CHOICES = {"loss": "softmax", "lengths": "free, unit", "relations": "step", "optimiser": "adagrad, adam"}
RANGES = [
    *(("learning_rate", value, "above 0, at most 1000") for value in (0.0, math.nan, math.inf)),
    ("rotation_learning_rate", -1.0, "above 0, at most 1000"),
    ("sharpness", 0.0, "above 0, at most 1000"),
    ("regularisation", -0.1, "from 0 to 1000"),
    ("adversarial_temperature", -1.0, "from 0 to 1000"),
    ("margin", 1001.0, "from 0 to 1000"),
    ("dropout", 1.0, "from 0 to 0.99"),
    ("relation_weight", -1.0, "from 0 to 1000"),
    ("query_regularisation", math.nan, "from 0 to 1000"),
    ("scale_regularisation", -0.1, "from 0 to 1000"),
    ("regulariser_power", 0.9, "from 1 to 10"),
    ("init_std", 0.0, "above 0, at most 1000"),
    ("init_scale", 1.1, "above 0, at most 1"),
    ("label_smoothing", -0.1, "from 0 to 0.99"),
    ("crowd", 2.1, "from 0 to 2"),
]
# Settings that do not go together: what the message names, and what it suggests.
CONFLICTS = [
    ({"negatives": 20, "loss": "sigmoid"}, "sigmoid loss", "free lengths", "try --lengths unit"),
    ({"negatives": 20, "label_smoothing": 0.1}, "label smoothing", "negatives 20", "--negatives all"),
    ({"dim": 1990}, "dimension", "1990 does not divide into segments of 20", "try 1980 or 2000"),
    ({"dim": 1980, "groups": 2}, "dimension", "1980 does not divide into 2 groups", "try 1960 or 2000"),
    ({"negatives": "none"}, "softmax loss", "negatives none", "try --negatives all"),
    ({"negatives": "none", "loss": "sigmoid"}, "sigmoid loss", "negatives none", "try --negatives all"),
    ({"loss": "squared"}, "squared loss", "negatives all", "try --negatives none"),
    ({"loss": "squared", "negatives": 5}, "squared loss", "negatives 5", "try --negatives none"),
    ({"loss": "sigmoid"}, "sigmoid loss", "negatives all", "give a number, such as --negatives 128"),
    ({"loss": "squared", "negatives": "none"}, "lengths", "free", "try --lengths unit"),
]


def made(**values):
    """Make settings of any values, also such as the tests' own checker of types would not let through."""
    settings = ContrastSettings()
    for name, value in values.items():
        object.__setattr__(settings, name, value)
    settings.__post_init__()
    return settings


@pytest.mark.parametrize("name", LEAST)
def test_numbers_that_are_too_small_are_refused(name):
    value = LEAST[name] - 1
    remedy = f"expected a whole number of at least {LEAST[name]}"
    refused(lambda: made(**{name: value}), setting=spoken(name), seen=value, remedy=remedy)


@pytest.mark.parametrize(("name", "value", "expected"), RANGES)
def test_numbers_out_of_range_are_refused(name, value, expected):
    remedy = f"expected a number {expected}"
    refused(lambda: made(**{name: value}), setting=spoken(name), seen=value, remedy=remedy)


@pytest.mark.parametrize("name", CHOICES)
def test_unknown_words_are_refused(name):
    remedy = f"Known: {CHOICES[name]}"
    refused(lambda: made(**{name: "turn"}), setting=f"unknown {name}", seen="'turn'", remedy=remedy)


@pytest.mark.parametrize(("name", "words"), [("batch", "full or"), ("negatives", "none, all or")])
@pytest.mark.parametrize("value", [0, -5, "half", "1.5"])
def test_where_a_number_or_a_word_serves_anything_else_is_refused(name, words, value):
    remedy = f"expected {words} a whole number of at least 1"
    refused(lambda: made(**{name: value}), setting=name, seen=value, remedy=remedy)


@pytest.mark.parametrize(("values", "setting", "seen", "remedy"), CONFLICTS)
def test_settings_that_do_not_go_together_are_refused(values, setting, seen, remedy):
    refused(lambda: made(**values), setting=setting, seen=seen, remedy=remedy)


def test_settings_are_checked_when_they_are_made_and_when_they_are_changed():
    refused(lambda: ContrastSettings(dim=1990), setting="dimension", seen=1990, remedy="try 1980 or 2000")
    refused(lambda: replace(ContrastSettings(), epochs=0), setting="epochs", seen=0, remedy="at least 1")


def test_the_ends_of_every_range_are_accepted():
    for changes in (
        {"dropout": 0.99, "label_smoothing": 0.99, "crowd": 2.0, "regularisation": 0.0, "learning_rate": 1000.0},
        {"dropout": 0.0, "label_smoothing": 0.0, "crowd": 0.0, "adversarial_temperature": 0.0, "margin": 0.0},
    ):
        assert replace(ContrastSettings(), **changes).crowd in (0.0, 2.0)
