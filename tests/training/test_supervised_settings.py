"""Laws of a baseline's settings: what cannot be trained is refused before anything is read or written."""

from dataclasses import fields, replace

import pytest

from laws import refused
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.training.supervised_settings import OF_TRAINING, TrainSettings, baseline_settings, option_names
from toys import small_settings

DRAWN = {"negatives": 5, "loss": "sigmoid"}
WRONG = {  # the setting, the value seen, a remedy
    "nobody": ({"name": "nobody"}, "model", "'nobody'", "Known: transe, distmult"),
    "no negatives": ({"negatives": 0}, "negatives", 0, "expected all, kvsall or a whole number of at least 1"),
    "all, sigmoid": ({"loss": "sigmoid"}, "sigmoid loss", "negatives all", "try --loss softmax, --negatives kvsall"),
    "kvsall, margin": ({"negatives": "kvsall", "loss": "margin"}, "margin loss", "kvsall", "such as --negatives"),
    "smoothed": ({"negatives": 5, "label_smoothing": 0.1}, "label smoothing", "negatives 5", "all or kvsall"),
    "focused": ({"adversarial_temperature": 1.0}, "adversarial temperature", "", "try --adversarial-temperature 0, or"),
    "weighed": ({"negatives": 5, "negative_weight": 5.0}, "negative weight", "", "try --negative-weight 1, or"),
    "weightless": ({**DRAWN, "negative_weight": 0.0}, "negative weight", 0.0, "expected a number above 0"),
    "subsampled": ({"negatives": "kvsall", "subsampling": True}, "subsampling", "kvsall", "try --no-subsampling"),
    "sees all": ({"name": "a2n", "negatives": "kvsall"}, "a2n", "negatives kvsall", "try --negatives all"),
    "loss margin": ({"negatives": 5, "loss": "margin", "loss_margin": -1.0}, "loss margin", -1.0, "a number from 0"),
    "average": ({"weight_average": 1.0}, "weight average", 1.0, "expected a number from 0 to 0.99"),
    "decay": ({"learning_rate_decay": 0.0}, "learning rate decay", 0.0, "expected a number above 0"),
    "batch": ({"batch": 0}, "batch", 0, "expected full or a whole number of at least 1"),
    "option": ({"query_dropout": 1.0}, "query dropout", 1.0, "expected a number from 0 to 0.99"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_settings_that_cannot_be_trained_are_refused(kind):
    values, setting, seen, remedy = WRONG[kind]
    given = {"name": "complex", **values}
    call = (lambda: TrainSettings(model="nobody")) if given["name"] == "nobody" else lambda: small_settings(**given)
    refused(call, setting=setting, seen=seen, remedy=remedy)


def test_options_of_another_model_are_refused():
    settings = small_settings("rotate")
    refused(
        lambda: replace(settings, model="complex"), setting="complex", seen="RotatE.Options", remedy="ComplEx.Options"
    )


@pytest.mark.parametrize("name", BASELINES)
def test_values_are_told_apart_by_name(name):
    settings = baseline_settings(name, dim=200, epochs=7)
    assert (settings.model, settings.dim, settings.options.dim, settings.epochs) == (name, 200, 200, 7)
    assert settings == baseline_settings(name, epochs=7, dim=200)
    assert baseline_settings(name) == TrainSettings(model=name, options=BASELINES[name].Options())


def test_no_setting_of_training_has_the_name_of_an_option():
    assert all(OF_TRAINING.isdisjoint(option_names(name)) for name in BASELINES)
    assert {field.name for field in fields(TrainSettings)} == OF_TRAINING | {"model", "options"}
