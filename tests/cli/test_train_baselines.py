"""Laws of `procrustes train` with a baseline: the same commands serve all models."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.runs.store import load, load_run
from procrustes_kge.training import costs, supervised
from procrustes_kge.training.baseline_recipes import PUBLISHED


@pytest.mark.parametrize("name", ["complex", "tucker", "rgcn"])
def test_a_baseline_is_trained_ranked_saved_and_asked_by_the_same_commands(name, procrustes):
    small = ("--dim", 20, "--epochs", 2, "--device", "cpu", *(["--blocks", 4] if name == "rgcn" else []))
    found = procrustes("train", "ring.tsv", "--model", name.upper(), "--out", "runs/other", *small)
    assert re.search(rf"^{name}: 20 numbers, up to 2 epochs, .*: at most about .+$", found, flags=re.MULTILINE)
    report = json.loads(procrustes("evaluate", "runs/other", "--json"))
    kept = json.loads(Path("runs/other/report.json").read_text())
    assert kept["model"] == kept["recipe"] == name
    assert report["metrics"]["test"]["mrr"] == pytest.approx(kept["metrics"]["test"]["mrr"])
    assert len(procrustes("predict", "runs/other", "--head", "e3", "-r", "next", "-k", 4).splitlines()) >= 4
    assert "40 vectors of dimension 20" in procrustes("export", "runs/other", "vectors.npy")


@pytest.mark.parametrize(("alone", "together", "faster"), [(1.0, 5.0, 1), (5.0, 1.0, 2), (1.0, 1.0, 1)])
def test_on_a_cpu_a_baseline_has_the_threads_that_are_faster(alone, together, faster, procrustes, monkeypatch):
    seen = []
    with monkeypatch.context() as patch:
        patch.setattr(costs, "cores", lambda: 2)
        patch.setattr(costs._Clock, "each", lambda *_: alone if torch.get_num_threads() == 1 else together)
        patch.setattr(supervised, "take_step", lambda *_: seen.append(torch.get_num_threads()) or torch.zeros(()))
        small = ("--dim", 20, "--epochs", 1, "--device", "cpu")
        printed = procrustes("train", "ring.tsv", "--model", "complex", *small)
        assert load_run("runs/ring").settings.workers == faster
        assert set(seen) == {faster}
        assert f" --workers {faster} " in printed.splitlines()[-1]
        procrustes("train", "ring.tsv", "--model", "complex", "--workers", 3, *small)
        assert load_run("runs/ring").settings.workers == 3


@pytest.mark.slow
def test_a_model_is_the_recipe_of_its_name_unless_another_is_named(procrustes, monkeypatch):
    short = {kind: replace(each, epochs=1) for kind, each in PUBLISHED["rotate"].items()}
    monkeypatch.setitem(PUBLISHED, "rotate-short", short)
    small = ("--dim", 20, "--device", "cpu", "--negatives", 8, "--json")
    asked = {
        "rotate": [("--model", "rotate", "--epochs", 2), ("--recipe", "rotate", "--epochs", 2)],
        "rotate-short": [("--recipe", "rotate-short"), ("--model", "rotate", "--recipe", "rotate-short")],
    }
    for name, ways in asked.items():
        for flags in ways:
            printed = json.loads(procrustes("train", "ring.tsv", *flags, *small))
            assert (printed["recipe"], printed["model"], printed["epochs"]) == (
                name,
                "rotate",
                2 if name == "rotate" else 1,
            )


def test_a_training_that_validation_ends_says_how_many_epochs_it_took(procrustes):
    flags = ("--dim", 20, "--epochs", 400, "--validate-every", 1, "--patience", 1, "--device", "cpu")
    printed = json.loads(procrustes("train", "ring.tsv", "--model", "distmult", "--json", *flags))
    assert 1 < printed["epochs"] < 400


MISTAKES = {  # flags: the setting, what was seen, and a remedy
    "--model nobody": ("unknown model", "'nobody'", "Known: transe, distmult"),
    "--model ote --recipe fast": ("recipe fast", "--model ote", "try --recipe ote or ote-paper"),
    "--model ote --time 60s": ("--time", "a baseline", "set --epochs or --dim"),
    "--recipe ote --memory 4GB": ("--memory", "a baseline", "set --epochs or --dim"),
    "--model complex --segment 20": ("setting segment", "complex", "try it with accurate"),
    "--model quate --dim 30": ("dimension", "30 does not divide into numbers of 4 parts", "try 28 or 32"),
    "--model tucker --no-inverses": ("setting inverses", "tucker", "transe"),
    "--model complex --entities-only": ("--entities-only", "a baseline", "leave it out"),
    "--recipe complex --entities-only": ("--entities-only", "a baseline", "leave it out"),
}


@pytest.mark.parametrize("flags", MISTAKES)
def test_mistakes_are_refused_before_a_graph_is_read(flags, refused):
    setting, seen, remedy = MISTAKES[flags]
    refused("train", "nosuchfile.tsv", *flags.split(), setting=setting, seen=seen, remedy=remedy)


def test_more_negatives_than_entities_are_refused(refused):
    ask = ("train", "ring.tsv", "--device", "cpu", "--model", "rotate", "--negatives", 40)
    refused(*ask, described=True, setting="negatives", seen=40, remedy="try at most 39")


def test_a_baseline_that_runs_out_of_memory_is_reported_in_a_sentence(refused, monkeypatch):
    def without_memory(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("procrustes_kge.training.supervised.build", without_memory)
    ask = ("train", "ring.tsv", "--model", "complex", "--dim", 20, "--device", "cpu")
    refused(*ask, described=True, setting="ran out of memory", seen="40 entities of ring", remedy="a smaller --dim")


def test_a_model_that_is_added_is_trained_by_its_name(procrustes, monkeypatch):
    monkeypatch.setitem(BASELINES, "fourteenth", BASELINES["distmult"])
    small = ("--dim", 8, "--epochs", 1, "--device", "cpu")
    printed = json.loads(procrustes("train", "ring.tsv", "--model", "fourteenth", "--json", *small))
    assert printed["model"] == printed["recipe"] == "fourteenth"
    assert load("runs/ring").name == "fourteenth"
