"""Laws of the flags: every setting of every method is one, and what none of them accepts is refused."""

import json
import re
from pathlib import Path
from typing import get_type_hints

import pytest
from hypothesis import given, strategies as st

from commands import TINY
from procrustes_kge.cli.settings_flags import number_or_word, sentence
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.models.baselines.convolution import ConvE
from procrustes_kge.runs.store import load_run
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import METHODS, recipe, values_of

SCHEDULE = {
    "epochs": 2,
    "learning_rate": 0.01,
    "patience": 1,
    "validate_every": 2,
    "validation_triples": 30,
    "seed": -7,
    "device": "cpu",
    "workers": 1,
    "deterministic": True,
    "replay": "1:workers=1",
}
CHOSEN = {
    "fast": {
        **SCHEDULE,
        "dim": 20,
        "segment": 5,
        "optimiser": "adam",
        "loss": "norm",
        "translate": False,
        "pilot": 10,
    },
    "accurate": {
        **SCHEDULE,
        "dim": 20,
        "segment": 5,
        "groups": 2,
        "batch": 16,
        "chunk": 32,
        "negatives": 6,
        "loss": "sigmoid",
        "margin": 0.7,
        "sharpness": 3.0,
        "adversarial_temperature": 1.0,
        "lengths": "unit",
        "relations": "positives",
        "optimiser": "adam",
        "rotation_learning_rate": 0.5,
        "scale": False,
        "translate": True,
        "regularisation": 0.01,
        "dropout": 0.25,
        "label_smoothing": 0.0,  # for all negatives alone
        "crowd": 0.75,
        "warm_start": 1,
        "inverses": True,
        "regulariser_power": 2.5,
        "query_regularisation": 0.5,
        "scale_regularisation": 0.02,
        "init_std": 0.1,
        "init_scale": 0.5,
        "relation_weight": 0.0,  # for the softmax alone
    },
    "tucker": {
        **SCHEDULE,
        "model": "tucker",
        "dim": 20,
        "relation_dim": 10,
        "input_dropout": 0.1,
        "relation_dropout": 0.1,
        "query_dropout": 0.1,
        "batch": 16,
        "negatives": 6,
        "shared_negatives": True,
        "loss": "sigmoid",
        "loss_margin": 6.0,  # for the margin loss alone
        "adversarial_temperature": 0.5,
        "negative_weight": 2.0,
        "label_smoothing": 0.0,
        "subsampling": True,
        "regulariser": "n3",
        "regularisation": 0.01,
        "optimiser": "adagrad",
        "learning_rate_decay": 0.5,
        "weight_average": 0.5,
        "tf32": False,
    },
}
DEFAULTS = {"label_smoothing", "relation_weight", "loss_margin", "model", "loss"}  # as the recipe has them
NO_FLAGS = {"time": 0.0}  # the command turns a budget into other settings


@pytest.mark.parametrize("name", CHOSEN)
def test_every_setting_is_a_flag_that_reaches_the_settings(name, procrustes):
    chosen, kind = CHOSEN[name], type(recipe(name))
    default = values_of(recipe(name, read_graph("ring.tsv")))
    assert chosen.keys() | NO_FLAGS.keys() == default.keys()
    assert {each for each in chosen if chosen[each] == default[each]} <= DEFAULTS
    flags = []
    for each, value in chosen.items():
        if each in DEFAULTS and value == default[each]:
            continue
        flag = each.replace("_", "-")
        flags += [f"--{flag}" if value else f"--no-{flag}"] if isinstance(value, bool) else [f"--{flag}", value]
    printed = json.loads(procrustes("train", "ring.tsv", "--recipe", name, "--json", *flags))
    assert printed["settings"] == chosen | NO_FLAGS
    about = json.loads(Path("runs/ring/settings.json").read_text())
    assert about["settings"] == chosen | NO_FLAGS
    assert METHODS[about["method"]] is METHODS[printed["method"]] is kind
    help_page = procrustes("train", "--help-all")
    for each in chosen:
        assert re.search(rf"--(\[no-\])?{each.replace('_', '-')} ", help_page), each


def test_label_smoothing_is_a_flag_where_all_are_negatives(procrustes):
    printed = json.loads(procrustes("train", "ring.tsv", "--json", *TINY, "--label-smoothing", 0.125))
    assert printed["settings"]["label_smoothing"] == 0.125


def test_where_methods_differ_the_help_of_a_flag_has_the_words_of_each(procrustes):
    help_page = " ".join(procrustes("train", "--help-all").split())
    for kind, name in ((FitSettings, "loss"), (ContrastSettings, "margin"), (ConvE.Options, "filters")):
        for words in get_type_hints(kind, include_extras=True)[name].__metadata__[0].split("; "):
            assert words[1:] in help_page
    assert help_page.count("Dimension of the entity vectors.") == 1  # all say the same


def test_a_value_that_a_help_begins_with_stays_as_it_is_typed(procrustes):
    help_page = " ".join(procrustes("train", "--help-all").split())
    for value in ("cpu, cuda, cuda:1", "squared: squared", "free: entity"):
        assert value in help_page
        assert value.capitalize() not in help_page


@given(st.text("abc", min_size=1), st.sampled_from(["", ":", ","]), st.text("xyz ", max_size=20))
def test_a_sentence_has_all_words_and_a_capital_unless_it_begins_with_a_value(first, mark, rest):
    made = sentence(f"{first}{mark} {rest}")
    assert made == f"{first if mark else first[0].upper() + first[1:]}{mark} {rest}."


# Negatives and batches: a number or a word.


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--negatives", "all", "--batch", "full"), {"negatives": "all", "batch": "full"}),
        (("--negatives", "20", "--batch", "64"), {"negatives": 20, "batch": 64}),
        (("--negatives", "39", "--batch", "1"), {"negatives": 39, "batch": 1}),
        (
            ("--negatives", "none", "--loss", "squared", "--lengths", "unit"),
            {"negatives": "none", "loss": "squared", "lengths": "unit"},
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_negatives_and_batches_are_words_or_numbers(flags, expected, procrustes):
    printed = json.loads(procrustes("train", "ring.tsv", "--json", *TINY, *flags))
    assert expected.items() <= printed["settings"].items()
    saved = values_of(load_run("runs/ring").settings)
    assert {name: (type(saved[name]), saved[name]) for name in expected} == {
        name: (type(value), value) for name, value in expected.items()
    }


@pytest.mark.parametrize("value", ["many", "0", "-3", "1.5", "", "²", "1e3"])
def test_negatives_and_batches_that_are_neither_are_refused(value, refused, unchecked):
    for name, words in {"negatives": "none, all or", "batch": "full or"}.items():
        remedy = f"expected {words} a whole number of at least 1"
        refused("train", "ring.tsv", *TINY, f"--{name}", value, setting=name, seen=value, remedy=remedy)


@given(st.integers(0, 10**12))
def test_digits_are_a_number_and_all_else_is_left_as_it_is(number):
    assert number_or_word(str(number)) == number
    for text in (f"-{number}", f"{number}.5", f"{number}e3", "all", "", "²"):
        assert number_or_word(text) == text


@pytest.mark.parametrize(
    ("recipe", "setting", "word", "known"),
    [
        ("accurate", "optimiser", "turn", "adagrad, adam"),
        ("accurate", "loss", "norm", "softmax, sigmoid, squared"),
        ("fast", "optimiser", "adagrad", "turn, adam"),
        ("fast", "loss", "softmax", "squared, norm"),
    ],
)
def test_words_of_other_recipes_are_refused(recipe, setting, word, known, refused, unchecked):
    ask = ("train", "ring.tsv", *TINY, "--recipe", recipe, f"--{setting}", word)
    refused(*ask, setting=f"unknown {setting}", seen=f"'{word}'", remedy=f"Known: {known}")


def test_more_negatives_or_queries_than_the_graph_has_are_refused(refused):
    for name, value, word in (("negatives", 40, "all"), ("batch", 149, "full")):
        ask = ("train", "ring.tsv", *TINY, f"--{name}", value)
        refused(*ask, described=True, setting=name, seen=value, remedy=f"try a smaller number or --{name} {word}")
