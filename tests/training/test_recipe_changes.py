"""Laws of changes to a recipe: what is asked for holds, what it makes useless gives way, what cannot be is refused."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

import procrustes_kge
from laws import refused
from procrustes_kge.errors import InputError
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.training.baseline_recipes import PUBLISHED
from procrustes_kge.training.benchmarks import BENCHMARKS, OTHER
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.recipes import OWN, baseline_recipes, changed, check_recipe, recipe
from procrustes_kge.training.schedule import Schedule
from procrustes_kge.training.supervised_settings import OF_TRAINING, baseline_settings
from toys import as_large_as, random_graph

RECIPES = [*OWN, *baseline_recipes()]


@pytest.mark.parametrize("name", RECIPES)
def test_settings_of_a_recipe_may_be_changed(name):
    plain, found = recipe(name, None, "cpu"), recipe(name, None, "cpu", dim=9600, learning_rate=0.5)
    assert (found.dim, found.learning_rate) == (9600, 0.5)
    changed_alone = {"dim": 9600} if name in OWN else {"options": replace(plain.options, dim=9600)}
    assert found == replace(plain, **changed_alone, learning_rate=0.5)


@pytest.mark.parametrize("name", OWN)
def test_vectors_that_are_not_whole_segments_are_refused(name):
    refused(
        lambda: recipe(name, None, "cpu", dim=90, segment=20),
        **{"setting": "dimension 90", "seen": "segments of 20", "remedy": "80 or 100"},
    )


@pytest.mark.parametrize(
    ("dim", "segment", "groups"), [(2000, 20, 4), (1000, 20, 2), (1980, 20, 3), (500, 20, 1), (80, 4, 1), (3000, 5, 4)]
)
def test_vectors_of_another_size_have_fewer_groups_rather_than_smaller_ones(dim, segment, groups):
    settings = replace(ContrastSettings(), dim=2000, groups=4)
    assert changed(settings, dim=dim, segment=segment) == replace(settings, dim=dim, segment=segment, groups=groups)
    assert changed(settings, dim=dim, segment=1, groups=2) == replace(settings, dim=dim, segment=1, groups=2)


@pytest.mark.parametrize(
    ("name", "change", "remedy"),
    [
        ("fast", {"dropout": 0.1}, "try it with accurate, paper+ns"),
        ("accurate", {"segmnt": 5}, "Did you mean segment?"),
        ("accurate", {"pilot": 3}, "try it with fast or paper"),
        ("paper", {"wings": 2}, "Known: epochs"),
        ("fast", {"kernel": 3}, "try it with conve, sacn or interacte"),
        ("complex", {"segment": 4}, "try it with accurate, fast"),
        ("tucker", {"inverses": False}, "paper+ns+tb, transe, distmult"),
        ("tucker", {"dim": 20, "norm": 2}, "try it with transe"),
        ("tucker", {"relation_dims": 7}, "Did you mean relation_dim?"),
    ],
)
def test_a_setting_that_a_recipe_does_not_have_is_refused_with_those_that_have_it(name, change, remedy):
    *_, setting = change
    refused(
        lambda: recipe(name, None, "cpu", **change),
        setting=setting.replace("_", " ") if "try" in remedy else setting,
        seen=name,
        remedy=remedy,
    )


def test_every_setting_of_training_is_read_by_it():
    room = Path(procrustes_kge.__file__).parent / "training"
    files = ("supervised", "query_loss", "losses", "loop", "timekeeping")
    read = "".join((room / f"{name}.py").read_text(encoding="utf-8") for name in files)
    shared = {field.name for field in fields(Schedule)}
    assert shared < OF_TRAINING
    for name in OF_TRAINING:
        assert f"{'schedule' if name in shared else 'settings'}.{name}" in read or f"settings.{name}" in read, name


@pytest.mark.parametrize(
    ("name", "changes", "setting", "seen", "remedy"),
    [
        ("transe", {"margin": 2.0}, "margin", "softmax", "try --loss sigmoid or margin"),
        ("rotate", {"loss_margin": 2.0}, "loss margin", "sigmoid loss", "it is for --loss margin"),
        ("distmult", {"shared_negatives": True}, "shared negatives", "all", "try --negatives 1024"),
        (
            "rotate",
            {"regulariser": "n3"},
            "regulariser n3",
            "regularisation 0",
            "add a weight, such as --regularisation 0.05",
        ),
        (
            "complex",
            {"regulariser": "n2", "regularisation": 0.0},
            "regulariser n2",
            "regularisation 0",
            "such as --regularisation",
        ),
        ("rotate", {"regularisation": 0.1}, "regularisation", 0.1, "add --regulariser n3"),
    ],
)
def test_a_change_that_would_change_nothing_is_refused(name, changes, setting, seen, remedy):
    refused(lambda: recipe(name, None, "cpu", **changes), setting=setting, seen=seen, remedy=remedy)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("transe", {"norm": 1, "inverses": False}),
        ("transe", {"loss": "sigmoid", "margin": 3.0, "shared_negatives": False}),
        ("complex", {"negatives": 5, "loss": "margin", "loss_margin": 2.0}),
        ("complex", {"regularisation": 0.0}),  # no regulariser, in another way
        ("rotate", {"regulariser": "n3", "regularisation": 0.1}),
    ],
)
def test_a_change_that_changes_something_is_not_refused(name, changes):
    plain, found = recipe(name, None, "cpu"), recipe(name, None, "cpu", **changes)
    own = {each: value for each, value in changes.items() if each not in OF_TRAINING}
    training = {each: value for each, value in changes.items() if each in OF_TRAINING}
    assert found == replace(plain, options=replace(plain.options, **own), **training)


@pytest.mark.parametrize("name", baseline_recipes())
@pytest.mark.parametrize("kind", [OTHER, *BENCHMARKS])
def test_what_a_recipe_alone_wanted_gives_way_to_what_is_asked_for(name, kind):
    graph = random_graph(9, 2, 300) if kind == OTHER else as_large_as(kind)
    plain = recipe(name, graph, "cpu")
    may_differ = ("negatives", "loss", "shared_negatives", "label_smoothing", "subsampling")
    may_differ += ("adversarial_temperature", "negative_weight")
    asked = [
        {"negatives": "all"},
        {"negatives": "kvsall"},
        {"negatives": "kvsall", "loss": "softmax"},
        {"negatives": 7},
    ]
    asked += [{"negatives": 7, "loss": loss} for loss in ("softmax", "sigmoid", "margin")]
    for changes in asked:
        if changes["negatives"] == "kvsall" and BASELINES[plain.model].sees_answers:
            with pytest.raises(InputError, match="would see the answers among its neighbours"):
                recipe(name, graph, "cpu", **changes)
            continue
        found = recipe(name, graph, "cpu", **changes)
        assert all(getattr(found, each) == value for each, value in changes.items())
        assert replace(found, **{each: getattr(plain, each) for each in may_differ}) == plain
    assert recipe(name, graph, "cpu", negatives=plain.negatives) == plain


@pytest.mark.parametrize(
    ("asked", "setting", "seen", "remedy"),
    [
        ({"negatives": "kvsall", "subsampling": True}, "subsampling", "kvsall", "--no-subsampling"),
        (
            {"negatives": "kvsall", "adversarial_temperature": 1.0},
            "adversarial temperature",
            "",
            "--adversarial-temperature 0",
        ),
        ({"negatives": 7, "label_smoothing": 0.1}, "label smoothing", "negatives 7", "all or kvsall"),
        ({"negatives": "all", "loss": "sigmoid"}, "sigmoid loss", "negatives all", "try --loss softmax"),
        ({"negatives": "all", "shared_negatives": True}, "shared negatives", "all", "try --negatives 1024"),
        ({"negatives": 9}, "9 negatives", "9 entities", "try at most 8"),
    ],
)
def test_what_is_asked_for_does_not_give_way(asked, setting, seen, remedy):
    graph = random_graph(9, 2, 30)
    refused(lambda: recipe("rotate", graph, "cpu", **asked), setting=setting, seen=seen, remedy=remedy)


@pytest.mark.parametrize(
    ("name", "changes", "setting", "seen", "remedy"),
    [
        ("quate", {"dim": 30}, "dimension 30", "numbers of 4 parts", "try 28 or 32"),
        ("rgcn", {"dim": 30}, "dimension 30", "100 blocks", "try 100"),
        ("sacn", {"kernel": 4}, "kernel", 4, "expected an odd number"),
        ("interacte", {"dim": 31}, "dimension 31", "an image of 31 by 2", "try"),
        ("ote", {"dim": 31}, "dimension 31", "groups of", "try"),
        ("fast", {"dim": 30}, "dimension 30", "segments of 20", "try 20 or 40"),
    ],
)
def test_numbers_that_a_model_cannot_take_are_refused_without_a_graph(name, changes, setting, seen, remedy):
    refused(lambda: check_recipe(name, **changes), setting=setting, seen=seen, remedy=remedy)


@pytest.mark.parametrize("name", RECIPES)
def test_whether_a_recipe_can_be_trained_is_found_out_without_memory_or_draws(name):
    before = torch.get_rng_state()
    check_recipe(name)
    check_recipe(name, dim=9_600_000)
    assert torch.get_rng_state().equal(before)


def test_numbers_that_suit_one_kind_of_graph_are_left_to_the_graph(monkeypatch):
    first, second = (baseline_settings("ote", dim=24, group=group) for group in (8, 6))
    monkeypatch.setitem(PUBLISHED, "ote", {OTHER: first, **dict(zip(BENCHMARKS, (first, second), strict=True))})
    for suits_one in (16, 18):
        check_recipe("ote", dim=suits_one)
    refused(lambda: check_recipe("ote", dim=20), setting="dimension 20", seen="groups of 8", remedy="try 16 or 24")
