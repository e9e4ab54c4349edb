"""Laws of the command line: what it prints, what it leaves on disk, and one sentence for every mistake."""

import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import redirect_stdout
from dataclasses import asdict, fields, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars
import pytest
import torch
from jaxtyping import config

from procrustes_kge import __version__, cli
from procrustes_kge.cli import main
from procrustes_kge.graphs import datasets
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.layouts.batches import QUERIES_PER_TILE
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.runs.store import load, load_run, save
from procrustes_kge.training.baseline_recipes import PUBLISHED
from procrustes_kge.training.budget import memory_needed, parse_size
from procrustes_kge.training.contrastive import ContrastSettings
from procrustes_kge.training.full_batch import FitSettings
from procrustes_kge.training.recipes import DEFAULT, METHODS, OWN, recipe
from toys import planted_model

TINY = ("--dim", "40", "--segment", "10", "--epochs", "3", "--device", "cpu")
# A ring of 40 where each knows the next and the one after, told twice where it starts; 0 is odd in every way.
TRIPLES = [f"e{i}\t{name}\te{(i + steps) % 40}" for i in range(40) for name, steps in (("next", 1), ("after next", 2))]
ODD = ["e0\tnext\te1", "e0\tnext\te0", "e0\tonce\te7"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Run every test in a folder of its own, far from the network, the user's settings and the width of a terminal."""
    for name in ("PROCRUSTES_DATA", "PROCRUSTES_GRID", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PROCRUSTES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    (tmp_path / "desk").mkdir()
    monkeypatch.chdir(tmp_path / "desk")
    Path("ring.tsv").write_text("\n".join(TRIPLES + ODD) + "\n")
    return tmp_path / "desk"


def no_network(*_, **__):
    raise urllib.error.URLError("no network here")


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A run folder to copy, and the JSON that was printed when it was made."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "ring.tsv").write_text("\n".join(TRIPLES + ODD) + "\n")
    with redirect_stdout(io.StringIO()) as output, pytest.raises(SystemExit) as ended:
        main(["train", str(folder / "ring.tsv"), "--out", str(folder / "run"), "--json", *TINY])
    assert ended.value.code == 0
    return folder / "run", output.getvalue()


@pytest.fixture
def run(trained, here):
    """A copy of the trained run, at runs/ring."""
    return Path(shutil.copytree(trained[0], here / "runs" / "ring")).relative_to(here)


@pytest.fixture
def planted(here):
    """A run that answers every question, with labels."""
    model, graph = planted_model()
    save(model, "runs/planted", graph)
    return model, graph


@pytest.fixture
def procrustes(capsys):
    """Run a command that must succeed, in silence on standard error; return what it printed."""

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        assert (ended.value.code, output.err) == (0, "")
        return output.out

    return call


@pytest.fixture
def refused(capsys):
    """Run a command that must fail with code 2 and leave the disk as it was; return what standard error says.

    What is wrong for this graph alone is told when the graph has been described; all else before anything is printed.
    """

    def call(*arguments, described=False):
        before = contents()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        assert (ended.value.code, output.out != "") == (2, described)
        assert contents() == before
        return output.err

    return call


@pytest.fixture
def unchecked():
    """Let text reach settings that make numbers of it, where the tests' type checker would speak first."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def contents():
    """Return everything in the current folder and in the cache beside it: paths, and the bytes of files."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in Path("..").rglob("*")}


def write_folder(name, **splits):
    """Write a folder of train, valid and test files; a row is 'a r b'."""
    Path(name).mkdir()
    for split, rows in splits.items():
        Path(name, f"{split}.txt").write_text("".join("\t".join(row.split()) + "\n" for row in rows))


# Training.

FIGURES = r"MRR (\.\d{3}|1\.000)   hits@1 (\.\d{3}|1\.000)   hits@3 (\.\d{3}|1\.000)   hits@10 (\.\d{3}|1\.000)"
SIDES = r"\(tails \.\d{3}, heads \.\d{3}\)"
COST = r"\d+\.\d s   peak [\d,]+ MB   \S+ Wh   \S+ g CO2 \((estimated|measured), world average\)"
TAKES = r"about [\d,]+ s and \d+\.\d GB"
CLOSING = rf"""accurate: 40 numbers in segments of 10, 3 epochs, 148 questions a step against all entities: {TAKES}
fitted 3 epochs in {COST}
valid  {FIGURES}   {SIDES}
test   {FIGURES}   {SIDES}
saved  runs/ring
"""


def test_training_on_a_file_answers_in_a_few_lines(procrustes):
    printed = procrustes("train", "ring.tsv", *TINY)
    first, *odd = printed.splitlines()[:-5]
    assert first == "ring   40 entities · 3 relations · 82 triples"
    assert odd == [
        "  1 duplicate triple dropped",
        "  triples from an entity to itself: 1",
        "  relations that occur once in train: 1 ('once')",
    ]
    assert re.fullmatch(CLOSING, "".join(printed.splitlines(keepends=True)[-5:]))
    assert load_run("runs/ring").graph.checksum == read_graph("ring.tsv").checksum
    assert {path.name for path in Path().iterdir()} == {"ring.tsv", "runs"}
    assert [path.name for path in Path("runs").iterdir()] == ["ring"]


def test_json_is_the_report_and_nothing_else(trained):
    folder, printed = trained
    report = json.loads(printed)
    assert report == json.loads((folder / "report.json").read_text())
    assert printed == (folder / "report.json").read_text()
    run = load_run(folder)
    assert report == run.report
    assert (report["dataset"], report["checksum"]) == ("ring", run.graph.checksum)
    assert (report["entities"], report["relations"]) == (40, 3)
    assert report["triples"] == {"train": 74, "valid": 4, "test": 4}
    assert report["settings"] == asdict(run.settings)
    assert (report["seed"], report["recipe"], report["method"], report["epochs"]) == (0, DEFAULT, "contrast", 3)
    assert report["versions"].keys() == {"procrustes-kge", "torch", "numpy", "python"}
    assert report["versions"]["procrustes-kge"] == __version__
    assert report["device"]
    assert len(report["notes"]) == 3
    assert report["metrics"].keys() == {"valid", "test"}
    for metrics in report["metrics"].values():
        for view in (metrics, metrics["tail"], metrics["head"], metrics["seen_only"]):
            assert view.keys() >= {"mrr", "hits@1", "hits@3", "hits@10", "mean_rank", "amri"}
            assert 0 < view["mrr"] <= 1 <= view["mean_rank"] <= 40
    footprint = report["footprint"]
    assert all(footprint[name] >= 0 for name in ("seconds", "kwh", "g_co2", "peak_memory_mb"))
    assert footprint["seconds"] > 0


CHOSEN = {
    "fast": {
        "dim": 20,
        "segment": 5,
        "epochs": 2,
        "step": "adam",
        "learning_rate": 0.01,
        "loss": "norm",
        "translate": False,
        "pilot": 10,
        "patience": 1,
        "validate_every": 2,
        "seed": -7,
        "device": "cpu",
        "workers": 1,
        "deterministic": True,
    },
    "accurate": {
        "dim": 20,
        "segment": 5,
        "groups": 2,
        "epochs": 2,
        "batch": 16,
        "chunk": 32,
        "negatives": 6,
        "loss": "sigmoid",
        "margin": 0.7,
        "sharpness": 3.0,
        "focus": 1.0,
        "lengths": "unit",
        "relations": "positives",
        "step": "adam",
        "learning_rate": 0.01,
        "turning_rate": 0.5,
        "scale": False,
        "translate": False,
        "decay": 0.01,
        "dropout": 0.25,
        "smoothing": 0.0,  # for all negatives alone
        "crowd": 0.75,
        "warm_start": 1,
        "seed": -7,
        "device": "cpu",
        "workers": 1,
        "deterministic": True,
    },
}


@pytest.mark.parametrize("name", CHOSEN)
def test_every_setting_is_a_flag_that_reaches_the_settings(name, procrustes, unchecked):
    chosen, kind = CHOSEN[name], type(recipe(name))
    default = asdict(recipe(name, read_graph("ring.tsv")))
    assert chosen.keys() == default.keys()
    assert {each for each in chosen if chosen[each] == default[each]} <= {"smoothing"}
    flags = []
    for each, value in chosen.items():
        flag = each.replace("_", "-")
        flags += [f"--{flag}" if value else f"--no-{flag}"] if isinstance(value, bool) else [f"--{flag}", value]
    told = json.loads(procrustes("train", "ring.tsv", "--recipe", name, "--json", *flags))
    assert told["settings"] == chosen
    about = json.loads(Path("runs/ring/settings.json").read_text())
    assert about["settings"] == chosen
    assert METHODS[about["method"]] is METHODS[told["method"]] is kind
    assert load("runs/ring").tables().keys() == {"vectors", "rotations"}
    if "smoothing" in chosen:
        told = json.loads(procrustes("train", "ring.tsv", "--json", "--epochs", 1, "--smoothing", 0.125))
        assert told["settings"]["smoothing"] == 0.125
    help_page = procrustes("train", "--help")
    assert all(f"--{each.name.replace('_', '-')}" in help_page for each in fields(kind))


@pytest.mark.parametrize("name", OWN)
def test_recipes_are_where_settings_start(name, procrustes):
    procrustes("train", "ring.tsv", "--recipe", name, *TINY)
    run = load_run("runs/ring")
    tiny = {"dim": 40, "segment": 10, "epochs": 3, "device": "cpu"}
    assert run.settings == replace(recipe(name, run.graph, "cpu"), **tiny)
    assert run.report["recipe"] == name
    assert run.report["method"] == {FitSettings: "fit", ContrastSettings: "contrast"}[type(run.settings)]
    told = json.loads(procrustes("evaluate", "runs/ring", "--device", "cpu", "--json"))
    assert told["metrics"]["test"] == run.report["metrics"]["test"]
    assert procrustes("predict", "runs/ring", "-H", "e0", "-r", "next", "-k", "1").startswith("  1  ")


PLANS = {
    "fast": "40 numbers in segments of 10, up to 3 epochs",
    "paper": "40 numbers in segments of 10, up to 3 epochs",
    "paper+ns": "40 numbers in segments of 10, 3 epochs, all questions a step against 39 negatives",
    "paper+tb": "40 numbers in segments of 10, 3 epochs, 148 questions a step against nothing",
    "paper+ns+tb": "40 numbers in segments of 10, 3 epochs, 148 questions a step against 39 negatives",
    "accurate": "40 numbers in segments of 10, 3 epochs, 148 questions a step against all entities",
}


@pytest.mark.parametrize("name", OWN)
def test_what_is_planned_is_told_before_it_is_done(name, procrustes):
    lines = procrustes("train", "ring.tsv", "--recipe", name, *TINY).splitlines()
    assert re.fullmatch(re.escape(f"{name}: {PLANS[name]}: ") + TAKES, lines[-5])
    assert lines[-4].startswith("fitted 3 epochs in ")


def test_a_few_steps_in_all_are_planned_and_trained(procrustes):
    write_folder("mine", train=["a r b", "b r c", "c r a"], test=["b r a"])
    for epochs in (1, 5):
        told = json.loads(procrustes("train", "mine", "--json", "--dim", "20", "--epochs", epochs, "--device", "cpu"))
        assert (told["epochs"], told["settings"]["epochs"], told["settings"]["dim"]) == (epochs, epochs, 20)


# Budgets.


def test_the_default_is_fitted_to_a_minute_and_a_named_recipe_to_nothing(procrustes, monkeypatch):
    whole = recipe(DEFAULT, read_graph("ring.tsv"), "cpu")
    assert cli.A_MINUTE == 60
    for flags in ((), ("--time", "1h")):
        procrustes("train", "ring.tsv", "--device", "cpu", *flags)
        assert load_run("runs/ring").settings == whole  # as it is: it takes a second
    monkeypatch.setattr(cli, "A_MINUTE", 0.001)
    procrustes("train", "ring.tsv", "--device", "cpu")
    hurried = load_run("runs/ring").settings
    assert hurried.dim < whole.dim
    assert hurried.epochs < whole.epochs
    assert hurried == replace(whole, dim=hurried.dim, epochs=hurried.epochs)
    procrustes("train", "ring.tsv", "--device", "cpu", "--recipe", DEFAULT)
    assert load_run("runs/ring").settings == whole


@pytest.mark.parametrize("name", ["accurate", "fast"])
def test_a_time_that_is_too_short_shortens_what_is_trained(name, procrustes):
    whole = recipe(name, read_graph("ring.tsv"), "cpu")
    printed = procrustes("train", "ring.tsv", "--recipe", name, "--device", "cpu", "--time", "0.001s")
    settings = load_run("runs/ring").settings
    assert settings == replace(whole, dim=settings.dim, epochs=settings.epochs)
    assert settings.dim < whole.dim
    assert settings.epochs < whole.epochs
    assert f"{name}: {settings.dim} numbers in segments of 20" in printed
    assert printed.endswith("saved  runs/ring\n")


def test_memory_bounds_what_is_trained(procrustes):
    graph, flags = read_graph("ring.tsv"), ("--device", "cpu", "--epochs", "3")
    whole = replace(recipe(DEFAULT, graph, "cpu"), epochs=3)
    shortest = replace(whole, dim=whole.segment, chunk=QUERIES_PER_TILE)
    budgets = {
        "4GB": lambda settings: settings.dim == whole.dim and not 0 < settings.chunk < whole.batch,  # nothing is cut
        f"{memory_needed(graph, replace(whole, chunk=2 * QUERIES_PER_TILE)) / 1e6 + 0.001:.4f} mb": (
            lambda settings: (
                (settings.dim, settings.chunk) == (whole.dim, 2 * QUERIES_PER_TILE)
            )  # fewer questions at once
        ),
        f"{memory_needed(graph, replace(whole, chunk=QUERIES_PER_TILE)) - 1:.0f}": (
            lambda settings: 0 < whole.dim - settings.dim <= 2 * whole.segment  # hardly shorter vectors
        ),
        f"{memory_needed(graph, shortest) + 1:.0f}b": lambda settings: settings == shortest,
    }
    for memory, expected in budgets.items():
        procrustes("train", "ring.tsv", *flags, "--memory", memory)
        settings = load_run("runs/ring").settings
        assert expected(settings), (memory, settings)
        assert settings == replace(whole, dim=settings.dim, chunk=settings.chunk)
        assert memory_needed(graph, settings) <= parse_size(memory)


def test_memory_that_nothing_fits_is_refused(refused):
    told = refused("train", "ring.tsv", *TINY, "--memory", "1MB", described=True)
    assert told == (
        "error: 0.001 GB of memory asked for, but ring takes 0.45 GB even with vectors of 10 numbers; "
        "try a larger --memory\n"
    )


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
def test_negatives_and_batches_are_words_or_numbers(flags, expected, procrustes, unchecked):
    told = json.loads(procrustes("train", "ring.tsv", "--json", *TINY, *flags))
    assert expected.items() <= told["settings"].items()
    saved = asdict(load_run("runs/ring").settings)
    assert {name: (type(saved[name]), saved[name]) for name in expected} == {
        name: (type(value), value) for name, value in expected.items()
    }


@pytest.mark.parametrize("value", ["many", "0", "-3", "1.5", "", "²", "1e3"])
def test_negatives_and_batches_that_are_neither_are_refused(value, refused, unchecked):
    told = refused("train", "ring.tsv", *TINY, "--negatives", value)
    assert told == f"error: negatives {value}, expected none or all or a whole number of at least 1\n"
    told = refused("train", "ring.tsv", *TINY, "--batch", value)
    assert told == f"error: batch {value}, expected full or a whole number of at least 1\n"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--step", "turn"), "unknown step 'turn', expected adagrad or adam"),
        (("--loss", "norm"), "unknown loss 'norm', expected softmax or sigmoid or squared"),
        (("--recipe", "fast", "--step", "adagrad"), "unknown step 'adagrad', expected turn or adam"),
        (("--recipe", "fast", "--loss", "softmax"), "unknown loss 'softmax', expected squared or norm"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_words_of_other_recipes_are_refused(flags, message, refused, unchecked):
    assert refused("train", "ring.tsv", *TINY, *flags) == f"error: {message}\n"


def test_more_negatives_or_questions_than_the_graph_has_are_refused(refused, unchecked):
    told = refused("train", "ring.tsv", *TINY, "--negatives", "40", described=True)
    assert told == (
        "error: 40 negatives asked for, but the graph ring has 40 entities; try a smaller number, or --negatives all\n"
    )
    told = refused("train", "ring.tsv", *TINY, "--batch", "149", described=True)
    assert told == (
        "error: batches of 149 questions asked for, but the graph ring has 74 training triples, which ask two each; "
        "try a smaller number, or --batch full\n"
    )


# Divergence.


@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["text", "json"])
def test_a_training_that_diverges_is_told_and_leaves_the_last_good_weights(flags, procrustes, capsys):
    rates = ("--dim", "40", "--epochs", "30", "--device", "cpu", "--learning-rate")
    with pytest.raises(SystemExit) as ended:
        main(["train", "ring.tsv", *rates, "900", *flags])
    output = capsys.readouterr()
    assert ended.value.code == 2
    found = re.fullmatch(
        r"error: (training diverged in epoch (\d+) of 30 \(loss (\S+)\) with learning rate 900; "
        r"try --learning-rate (\d+)); the last good weights are in runs/ring\n",
        output.err,
    )
    assert found
    assert 1 <= int(found[2]) <= 30
    assert not float(found[3]) < 2  # or it is not a number at all
    assert 0 < float(found[4]) < 900
    assert "fitted" not in output.out
    assert (output.out == "") == bool(flags)
    run = load_run("runs/ring")
    assert all(bool(table.isfinite().all()) for table in run.model.tables().values())
    assert run.report == {"diverged": found[1]}
    assert run.settings.learning_rate == 900
    assert procrustes("predict", "runs/ring", "-H", "e0", "-r", "next", "-k", "2").startswith("  1  ")
    assert "test   MRR " in procrustes("evaluate", "runs/ring", "--device", "cpu")


def test_a_training_that_diverges_leaves_an_earlier_run_alone(procrustes, capsys):
    procrustes("train", "ring.tsv", "--dim", "40", "--epochs", "3", "--device", "cpu")
    before = load_run("runs/ring").model.vectors
    with pytest.raises(SystemExit):
        main(["train", "ring.tsv", "--dim", "40", "--epochs", "30", "--device", "cpu", "--learning-rate", "900"])
    assert capsys.readouterr().err.endswith("the last good weights are in runs/ring-diverged\n")
    assert load_run("runs/ring").model.vectors.equal(before)
    assert load_run("runs/ring-diverged").report["diverged"]


def test_the_rates_that_are_advised_lead_out_of_divergence(capsys):
    rate, rates = "900", []
    while rate is not None and len(rates) < 8:
        rates.append(float(rate))
        with pytest.raises(SystemExit) as ended:
            main(["train", "ring.tsv", "--dim", "40", "--epochs", "30", "--device", "cpu", "--learning-rate", rate])
        advised = re.search(r"try --learning-rate (\S+);", capsys.readouterr().err)
        assert ended.value.code == (2 if advised else 0)
        rate = advised[1] if advised else None
    assert 1 < len(rates) < 8
    assert all(later < earlier for earlier, later in pairwise(rates))
    assert load_run("runs/ring").settings.learning_rate == rates[-1]


# Runs that repeat.


def test_a_seed_repeats_and_an_old_run_is_replaced(procrustes, trained):
    whole = load(trained[0])
    for seed, equal, told in ((1, False, ""), (0, True, "   (in place of an earlier run)")):
        printed = procrustes("train", "ring.tsv", *TINY, "--seed", seed)
        assert printed.endswith(f"saved  runs/ring{told}\n")
        assert load("runs/ring").vectors.equal(whole.vectors) == equal


def test_a_file_is_split_the_same_whatever_the_seed_of_training(procrustes, trained):
    for options, seed in ((("--seed", 1), 0), (("--split-seed", -7), -7)):
        procrustes("train", "ring.tsv", *TINY, *options)
        assert load_run("runs/ring").graph.checksum == read_graph("ring.tsv", seed=seed).checksum


@pytest.mark.parametrize("name", ["fast", "accurate"])
def test_entities_alone_take_less_room_and_answer_alike(name, procrustes):
    flags = ("--recipe", name, "--dim", "40", "--segment", "10", "--epochs", "30", "--device", "cpu")
    procrustes("train", "ring.tsv", *flags, "--out", "whole")
    procrustes("train", "ring.tsv", *flags, "--out", "small", "--entities-only")
    whole, small = load_run("whole"), load_run("small")
    assert small.report["metrics"] == whole.report["metrics"]
    assert Path("small/model.safetensors").stat().st_size < Path("whole/model.safetensors").stat().st_size
    kept = whole.model.tables().keys() - {"rotations"}
    assert all(small.model.tables()[each].equal(whole.model.tables()[each]) for each in kept)
    if name == "fast":
        assert small.model.rotations.equal(whole.model.rotations)
    else:
        assert evaluate(small.model, small.graph).mrr > 0.8 * evaluate(whole.model, whole.graph).mrr


def test_a_folder_is_trained_with_its_own_splits(procrustes):
    write_folder("mine", train=["a r b", "b r c", "c r a"], valid=["a r c"], test=["z r a"])
    told = json.loads(procrustes("train", "mine", "--json", *TINY))
    assert told["dataset"] == "mine"
    assert told["triples"] == {"train": 3, "valid": 1, "test": 1}
    assert told["metrics"]["test"]["seen_only"]["count"] == 0
    assert Path("runs/mine/settings.json").exists()


def test_the_embedded_dataset_is_trained_when_no_graph_is_named(procrustes):
    printed = procrustes("train", "--dim", "10", "--segment", "10", "--epochs", "1", "--device", "cpu")
    assert printed.startswith("wordnet-mini   11,996 entities · 17 relations · 38,552 triples\n")
    assert printed.endswith("saved  runs/wordnet-mini\n")
    assert load_run("runs/wordnet-mini").graph.checksum == read_graph("wordnet-mini").checksum


def test_separators_headers_and_packing(procrustes):
    rows = ["subject|predicate|object", *(row.replace("\t", "|") for row in TRIPLES)]
    Path("ring.csv.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    printed = procrustes("train", "ring.csv.gz", "--separator", "|", *TINY)
    assert printed.startswith("ring   40 entities · 2 relations · 80 triples\n  1 header line skipped")
    printed = procrustes("train", "ring.csv.gz", "--separator", "|", "--no-header", *TINY)
    assert printed.startswith("ring   42 entities · 3 relations · 81 triples\n  relations that occur once")


def test_shares_set_triples_aside(procrustes):
    told = json.loads(procrustes("train", "ring.tsv", "--valid", "0", "--test", "0.25", "--json", *TINY))
    assert told["triples"]["valid"] == 0
    assert told["triples"]["test"] == round(0.25 * 82)
    assert told["metrics"].keys() == {"test"}


@pytest.mark.parametrize(("grid", "name"), [("FRA", "FRA"), ("fr", "FRA"), ("50", "given"), ("world", "world average")])
def test_the_grid_is_told_and_counted(grid, name, procrustes):
    printed = procrustes("train", "ring.tsv", "--grid", grid, *TINY)
    assert re.search(rf"g CO2 \((estimated|measured), {name}\)\n", printed)
    footprint = load_run("runs/ring").report["footprint"]
    assert footprint["grid"] == name
    assert footprint["g_co2"] == pytest.approx(footprint["kwh"] * footprint["grid_g_per_kwh"])


ODDITIES = {
    "a graph with one relation": (["a r b", "b r c", "c r a"], [], "there is one relation only"),
    "a relation that occurs once": (["a r b", "b r c", "c s a"], [], "relations that occur once in train: 1 ('s')"),
    "self-loops": (["a r b", "b r b", "c s c"], [], "triples from an entity to itself: 2"),
    "entities only in test": (
        ["a r b", "b s c"],
        ["y r a", "z s a"],
        "entities in valid or test alone, of which nothing can be learned: 2",
    ),
    "duplicates": (["a r b", "a r b", "b s c", "a r b"], [], "2 duplicate triples dropped"),
    "duplicates across splits": (["a r b", "b s c"], ["a r b", "c r a"], "test: 1 duplicate triple dropped"),
}


@pytest.mark.parametrize("kind", ODDITIES)
def test_oddities_are_trained_counted_and_told(kind, procrustes):
    train, test, remark = ODDITIES[kind]
    write_folder("odd", train=train, **({"test": test} if test else {}))
    printed = procrustes("train", "odd", *TINY)
    assert f"\n  {remark}\n" in printed
    assert printed.endswith("saved  runs/odd\n")
    assert remark in load_run("runs/odd").report["notes"]


def test_a_graph_too_small_to_set_anything_aside_is_trained(procrustes, refused):
    Path("two.txt").write_text("a r b\nb s c\n")
    told = json.loads(procrustes("train", "two.txt", "--valid", "0.4", "--json", *TINY))
    assert told["metrics"] == {}
    assert told["triples"] == {"train": 2, "valid": 0, "test": 0}
    assert any("0 of the 1 triples wanted for valid and test could be set aside" in note for note in told["notes"])
    assert refused("evaluate", "runs/two") == "error: the graph two has no test triples to rank\n"
    assert procrustes("predict", "runs/two", "-H", "a", "-r", "r", "-k", "1").startswith("  1  ")


def test_a_file_without_a_name_of_its_own_gets_a_folder_of_its_own(procrustes):
    Path(".tsv").write_text("\n".join(TRIPLES))
    assert procrustes("train", ".tsv", *TINY).endswith("saved  runs/graph\n")


def test_an_interrupted_training_leaves_nothing_behind(capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    before = contents()
    monkeypatch.setattr(cli, "learn", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["train", "ring.tsv", *TINY])
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert contents() == before


@pytest.mark.parametrize(("name", "figures"), [("fast", r"   valid MRR \.\d{3}"), ("accurate", "")])
def test_a_terminal_sees_a_bar_and_standard_output_does_not(name, figures, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes this for a terminal
    with pytest.raises(SystemExit) as ended:
        main(["train", "ring.tsv", "--recipe", name, "--json", *TINY])
    output = capsys.readouterr()
    assert ended.value.code == 0
    json.loads(output.out)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.err)
    assert re.search(rf"fitting.*epoch 3 of 3   loss [\d.]+{figures}", shown)
    assert ("valid MRR" in shown) == bool(figures)
    assert "ranking test" in shown


# Evaluating.


def test_evaluating_repeats_the_figures_of_the_report(procrustes, run):
    report = load_run(run).report
    for split in ("valid", "test"):
        told = json.loads(procrustes("evaluate", run, "--split", split, "--device", "cpu", "--json"))
        assert told["metrics"] == {split: report["metrics"][split]}
        assert (told["run"], told["dataset"]) == (str(run), "ring")
        assert told["seconds"] > 0


def test_evaluating_in_words(procrustes, run):
    lines = procrustes("evaluate", run, "--device", "cpu").splitlines()
    assert lines[0] == "ring   40 entities · 3 relations · 82 triples"
    assert re.fullmatch(rf"test   {FIGURES}   {SIDES}", lines[1])
    views = [line[2:14].strip() for line in lines[2:-1]]
    assert views == ["tail", "head", "seen only", "optimistic", "pessimistic"]
    assert re.fullmatch(r"ranked 4 triples in \d+\.\d s", lines[-1])


def test_a_run_that_is_misspelt_is_suggested(refused, procrustes, trained):
    procrustes("train", "ring.tsv", *TINY)
    for wrong in ("ring", "runs/rings"):
        assert refused("evaluate", wrong) == f"error: {wrong}: no such run folder; did you mean runs/ring?\n"


def test_the_version_is_told(procrustes):
    assert procrustes("--version") == f"procrustes-kge {__version__}\n"


def test_the_suffix_tells_the_format_of_an_export(procrustes, refused, run):
    for name, kind in (("v.npy", "npy"), ("v.parquet", "parquet"), ("v.vec", "word2vec")):
        assert json.loads(procrustes("export", run, name, "--json"))["format"] == kind
    assert "v.bin: its suffix does not tell the format; add --format" in refused("export", run, "v.bin")


def test_a_reader_who_has_seen_enough_does_not_stop_a_training(tmp_path):
    command = f"{sys.executable} -m procrustes_kge train --dim 20 --epochs 1 --out run | head -n 1"
    subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=tmp_path, check=True, capture_output=True)
    assert load(tmp_path / "run").dim == 20


def test_evaluating_by_relation_and_on_training_triples(procrustes, run):
    graph = load_run(run).graph
    lines = procrustes("evaluate", run, "--split", "train", "--relations", "--device", "cpu").splitlines()
    assert lines[1].startswith("train  MRR ")
    counted = dict(re.findall(r"   (\d+) ranks of (.+)", "\n".join(lines))[i][::-1] for i in range(3))
    expected = {name: 2 * int((graph.train[:, 1] == row).sum()) for row, name in enumerate(graph.relations)}
    assert {name: int(count) for name, count in counted.items()} == expected
    assert lines[-1].startswith("ranked 74 triples in")


def test_what_is_saved_without_its_triples_is_not_ranked(refused, planted):
    save(planted[0], "bare")
    expected = "error: bare: saved without its triples, so there is nothing to rank; save it with graph=…\n"
    assert refused("evaluate", "bare") == expected


# Predicting.


def test_planted_answers_come_first_from_either_side_by_name_or_label(procrustes, planted):
    lines = procrustes("predict", "runs/planted", "--head", "turn 4", "--relation", "turn 2", "-k", "3").splitlines()
    assert len(lines) == 3
    assert re.fullmatch(r"  1     5\.000   turn 6   element 6   \((train|valid|test)\)", lines[0])
    by_label = procrustes("predict", "runs/planted", "--head", "element 4", "--relation", "turn 2", "-k", "3")
    assert by_label.splitlines() == lines
    lines = procrustes("predict", "runs/planted", "-T", "turn 6", "-r", "turn 2").splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("  1     5.000   turn 4   element 4   (")


def test_predictions_for_programs(procrustes, planted):
    model, graph = planted
    triple = graph.valid[0].tolist()
    head, relation, tail = graph.entities[triple[0]], graph.relations[triple[1]], graph.entities[triple[2]]
    told = json.loads(procrustes("predict", "runs/planted", "-H", head, "-r", relation, "-k", "2", "--json"))
    assert (told["head"], told["relation"]) == (head, relation)
    first, second = told["answers"]
    assert first == {"name": tail, "label": graph.entities.label(triple[2]), "score": first["score"], "known": "valid"}
    assert second["known"] is None
    assert [answer["name"] for answer in told["answers"]] == [each.name for each in model.tails(head, relation, 2)]
    told = json.loads(procrustes("predict", "runs/planted", "-T", tail, "-r", relation, "-k", "1", "--json"))
    assert told["tail"] == tail
    assert [answer["name"] for answer in told["answers"]] == [head]
    label = json.loads(procrustes("predict", "runs/planted", "-H", graph.entities.label(0), "-r", relation, "--json"))
    assert label["head"] == graph.entities[0]


def test_new_leaves_out_what_is_known_and_nothing_else(procrustes, run):
    question = ("predict", run, "-H", "e0", "-r", "next", "--json")
    everything = json.loads(procrustes(*question, "-k", "99"))["answers"]
    assert len(everything) == 40
    known = {answer["name"]: answer["known"] for answer in everything if answer["known"]}
    graph = load_run(run).graph
    assert known.keys() == {"e0", "e1"}
    for name, split in known.items():
        triple = [graph.entities.id("e0"), graph.relations.id("next"), graph.entities.id(name)]
        assert triple in graph.split(split).tolist()
    unknown = [answer for answer in everything if not answer["known"]]
    for count in (1, 5, 38, 99):
        assert json.loads(procrustes(*question, "--new", "-k", count))["answers"] == unknown[:count]


# Exporting.


def test_vectors_are_exported_with_their_names(procrustes, run):
    model = load(run)
    table = model.vectors.flatten(1).numpy()
    printed = procrustes("export", run, "vectors.npy")
    assert printed == "wrote  vectors.npy, vectors.txt   40 vectors of 40 numbers\n"
    assert np.array_equal(np.load("vectors.npy"), table)
    assert Path("vectors.txt").read_text().splitlines() == list(model.entities)
    told = json.loads(procrustes("export", run, "--format", "parquet", "vectors.parquet", "--json"))
    assert told == {"format": "parquet", "files": ["vectors.parquet"], "shape": [40, 40]}
    assert polars.read_parquet("vectors.parquet")["name"].to_list() == list(model.entities)
    procrustes("export", run, "vectors.vec", "--format", "word2vec")
    first, second = Path("vectors.vec").read_text().splitlines()[:2]
    assert first == "40 40"
    assert np.array_equal(np.array(second.split()[1:], dtype=np.float32), table[0])


# Datasets.


def test_datasets_are_listed_with_licence_and_citation(procrustes):
    printed = procrustes("data")
    for known in datasets.DATASETS.values():
        assert re.search(
            rf"^{known.name} .*{known.entities:,} entities .*{sum(known.triples):,} triples", printed, re.M
        )
        assert f"licence: {known.licence}\n" in printed
        assert known.citation in printed
    assert printed.count("   here\n") == 1
    assert printed.count("   to download\n") == len(datasets.DATASETS) - 1


def test_datasets_for_programs(procrustes):
    told = json.loads(procrustes("data", "--json"))
    assert told.keys() == datasets.DATASETS.keys()
    assert [name for name in told if told[name]["local"]] == ["wordnet-mini"]
    for name, facts in told.items():
        assert facts["triples"] == dict(zip(("train", "valid", "test"), datasets.DATASETS[name].triples, strict=True))
        assert len(facts["sha256"]) == 64
        assert (facts["address"] is None) == (name == "wordnet-mini")


def test_getting_a_dataset_shows_what_is_in_it(procrustes):
    lines = procrustes("data", "get", "WordNet-Mini").splitlines()
    assert lines[0] == "wordnet-mini   11,996 entities · 17 relations · 38,552 triples"
    assert len(lines) == 4
    told = json.loads(procrustes("data", "get", "wordnet-mini", "--json"))
    assert told == {
        "dataset": "wordnet-mini",
        "checksum": read_graph("wordnet-mini").checksum,
        "entities": 11_996,
        "relations": 17,
        "triples": {"train": 34_698, "valid": 1_927, "test": 1_927},
    }


def test_a_dataset_that_cannot_be_had_says_what_to_fetch_and_where_to_put_it(refused, here):
    (here.parent / "cache").mkdir()
    for command in (("data", "get", "umls"), ("train", "umls", *TINY)):
        message = refused(*command)
        address = datasets.DATASETS["umls"].archive.address
        assert message.startswith(f"error: cannot download {address} (<urlopen error no network here>); fetch it by")
        assert f"put it at {here.parent / 'cache' / 'umls.tar.gz'}" in message


# Help.


COMMANDS = ("", "train", "evaluate", "predict", "export", "data", "data get", "bench", "bench speed", "bench table")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(command, procrustes):
    page = procrustes(*command.split(), "--help")
    assert f"Usage: procrustes {command}".strip() in page
    assert page == procrustes(*command.split(), "-h")
    if command in ("", "train", "evaluate", "predict"):
        assert f"procrustes {command or 'train'}" in page.partition("Usage")[2].partition("\n")[2]  # an example


# Mistakes: a sentence on standard error, code 2, and nothing left behind.


def bad_file(name, content):
    """Return what prepares a file to train on, and the command."""

    def prepare(here):
        Path(name).write_bytes(content)
        return ["train", name, *TINY]

    return prepare


def training(*flags):
    return lambda here: ["train", "ring.tsv", *TINY, *flags]


def with_run(*arguments):
    """Return a command on a good run, called RUN there."""

    def prepare(here):
        save(*planted_model()[:1], "RUN", planted_model()[1])
        return arguments

    return prepare


def damaged(file, change):
    def prepare(here):
        save(*planted_model()[:1], "RUN", planted_model()[1])
        Path("RUN", file).write_bytes(change(Path("RUN", file).read_bytes()))
        return ["evaluate", "RUN"]

    return prepare


def in_a_folder(command, **files):
    def prepare(here):
        Path("folder").mkdir()
        for name, content in files.items():
            Path("folder", name).write_text(content)
        return command

    return prepare


MISTAKES = {
    # Files.
    "two columns": (
        bad_file("bad.tsv", b"a\tr\tb\na\tr\n"),
        "bad.tsv, line 2: 2 columns, expected 3 (head, relation, tail); complete the line or remove it",
    ),
    "four columns": (bad_file("bad.tsv", b"a\tr\tb\t1\n"), "bad.tsv, line 1: 4 columns, expected 3"),
    "another separator": (
        bad_file("bad.txt", b"a b;r;c\nc;r;a b\n"),
        "2 columns, expected 3 (head, relation, tail); is the separator a semicolon? try --separator ';'",
    ),
    "separator unknown": (training("--separator", "=>"), "separator '=>' is not known; use tab, comma, space"),
    "separator of no use": (training("--separator", "pipe"), "ring.tsv, line 1: 1 column, expected 3"),
    "empty file": (bad_file("bad.tsv", b""), "bad.tsv: holds no triples; expected a head, a relation and a tail"),
    "header alone": (bad_file("bad.tsv", b"head\trelation\ttail\n"), "bad.tsv: holds no triples (1 header line"),
    "binary file": (bad_file("bad.tsv", b"\x7fELF\x00\x01"), "bad.tsv: looks binary, expected text; name the file by"),
    "bad UTF-8": (
        bad_file("bad.tsv", b"a\tr\tb\nZ\xfcrich\tr\tb\n"),
        "bad.tsv, line 2: byte 2 of the line (0xfc) is not UTF-8",
    ),
    "broken gzip": (bad_file("bad.tsv.gz", b"\x1f\x8b\x08junk"), "bad.tsv.gz: broken or truncated"),
    "no such file": (
        lambda here: ["train", "nothing.tsv"],
        "nothing.tsv: no such file or folder; `procrustes data` lists",
    ),
    "folder without triples": (
        in_a_folder(["train", "folder"], **{"notes.md": "hello"}),
        "folder: no triples here, expected a file train.txt (and valid.txt, test.txt); found notes.md",
    ),
    "folder without anything": (
        in_a_folder(["train", "folder"]),
        "expected a file train.txt (and valid.txt, test.txt); found nothing",
    ),
    "run folder as a graph": (with_run("train", "RUN"), "RUN: no triples here, expected a file train.txt"),
    # Datasets.
    "unknown dataset": (
        lambda here: ["train", "wn18r"],
        "no dataset is called 'wn18r', did you mean wn18rr?; expected one of",
    ),
    "dataset with a path": (
        lambda here: ["train", "data/wn18rr"],
        "data/wn18rr: no such file or folder; `procrustes data`",
    ),
    "getting an unknown dataset": (
        lambda here: ["data", "get", "freebase"],
        "no dataset is called 'freebase'; expected one of",
    ),
    "getting a file": (lambda here: ["data", "get", "ring.tsv"], "no dataset is called 'ring.tsv'; expected one of"),
    "getting what a folder is called": (
        lambda here: Path("umls").mkdir() or ["data", "get", "UMLS"],
        "umls: a file or folder here has this name and would be read instead; run this elsewhere",
    ),
    # Settings.
    "dim not divisible": (training("--dim", "45"), "dimension 45 does not divide into segments of 10; try 40 or 50"),
    "dim negative": (training("--dim", "-40"), "dim -40, expected a whole number of at least 1"),
    "no epochs": (training("--epochs", "0"), "epochs 0, expected a whole number of at least 1"),
    "learning rate zero": (training("--learning-rate", "0"), "learning rate 0.0, expected a number above 0"),
    "a GPU too many": (training("--device", "cuda:99"), "device 'cuda:99' asked for, but PyTorch"),
    "device unknown": (training("--device", "gpu"), "unknown device 'gpu', expected cpu, cuda, cuda:N or auto"),
    "recipe unknown": (training("--recipe", "slow"), "unknown recipe 'slow', expected accurate or fast or paper"),
    "time without sense": (training("--time", "soon"), "time 'soon', expected a number and a unit, such as 60s, 10m"),
    "time of another unit": (training("--time", "3 days"), "time '3 days', expected a number and a unit, such as"),
    "no time": (training("--time", "0s"), "time '0s', expected a number and a unit, such as 60s, 10m or 1h"),
    "time empty": (training("--time", ""), "time '', expected a number and a unit, such as 60s, 10m or 1h"),
    "memory without sense": (training("--memory", "lots"), "memory 'lots', expected a number and a unit, such as 4GB"),
    "memory negative": (training("--memory", "-4GB"), "memory '-4GB', expected a number and a unit, such as 4GB or"),
    "no memory": (training("--memory", "0"), "memory '0', expected a number and a unit, such as 4GB or 500MB"),
    "a setting of other recipes": (
        training("--pilot", "20"),
        "pilot is no setting of the recipe accurate, but try it with fast or paper",
    ),
    "a setting of others than fast": (
        training("--recipe", "fast", "--warm-start", "3"),
        "warm start is no setting of the recipe fast, but try it with accurate or paper+ns or paper+tb or paper+ns+tb",
    ),
    "no negatives against which": (
        training("--negatives", "none"),
        "softmax loss with none negatives; the squared loss is the one that has none",
    ),
    "nothing to keep lengths": (
        training("--negatives", "none", "--loss", "squared"),
        "free lengths without negatives all shrink to nothing; try --lengths unit",
    ),
    "grid unknown": (training("--grid", "Atlantis"), "grid 'Atlantis' is not known; expected grams of CO2 per kWh"),
    "grid negative": (training("--grid", "-3"), "grid -3: expected grams of CO2 per kWh, a number from 0 up"),
    "share too large": (
        training("--valid", "0.99"),
        "valid share 0.99 and test share 0.05, expected two numbers from 0",
    ),
    "share negative": (training("--test", "-1"), "valid share 0.05 and test share -1.0, expected two numbers from 0"),
    # Where to write.
    "out is a folder of others": (
        in_a_folder(["train", "ring.tsv", *TINY, "--out", "folder"], **{"thesis.tex": "precious"}),
        "folder: exists and is not a run folder, so it is not overwritten; choose another --out",
    ),
    "out is a file": (training("--out", "ring.tsv"), "ring.tsv: exists and is not a run folder"),
    "out is in a file": (
        training("--out", "ring.tsv/run"),
        "is not a folder that can be written to; choose another --out",
    ),
    "out is too long": (training("--out", "x" * 300), "cannot be written (File name too long)"),
    "out is here": (
        lambda here: Path("ring.tsv").unlink() or ["train", "wordnet-mini", *TINY, "--out", "."],
        ".: you are inside this folder, so it is not replaced; choose another --out",
    ),
    # Runs.
    "run missing": (
        lambda here: ["evaluate", "gone"],
        "gone: no such run folder; `procrustes train` makes one",
    ),
    "run is a file": (lambda here: ["predict", "ring.tsv", "-H", "e0", "-r", "next"], "ring.tsv: no such run folder"),
    "run is another folder": (
        in_a_folder(["export", "folder", "x.npy"]),
        "folder: not a run folder, it has no settings.json",
    ),
    "run truncated": (damaged("model.safetensors", lambda whole: whole[:-100]), "RUN: damaged or truncated ("),
    "run names truncated": (
        damaged("entities.txt", lambda whole: whole[:-100]),
        "RUN: damaged or truncated (vectors of",
    ),
    "run of another version": (
        damaged("settings.json", lambda whole: whole.replace(b'"format": 3', b'"format": 2')),
        "RUN: written in format 2 of model 'procrustes', this version reads format 3 of 'procrustes' or a baseline; "
        "train again",
    ),
    "split unknown": (
        with_run("evaluate", "RUN", "--split", "dev"),
        "unknown split 'dev', expected one of train, valid, test",
    ),
    "ranking on no GPU": (
        with_run("evaluate", "RUN", "--device", "cuda:99"),
        "device 'cuda:99' asked for, but PyTorch",
    ),
    # Questions.
    "head unknown": (
        with_run("predict", "RUN", "-H", "turn 4 and miror", "-r", "turn 2"),
        "unknown entity 'turn 4 and miror', expected one of the graph's 60; did you mean 'turn 4 and mirror'",
    ),
    "tail unknown": (
        with_run("predict", "RUN", "-T", "zebra", "-r", "turn 2"),
        "unknown entity 'zebra', expected one of",
    ),
    "relation unknown": (
        with_run("predict", "RUN", "-H", "turn 4", "-r", "trun 2"),
        "unknown relation 'trun 2', expected one of the graph's 8; did you mean 'turn 2'",
    ),
    "both sides": (
        with_run("predict", "RUN", "-H", "turn 4", "-T", "turn 6", "-r", "turn 2"),
        "give either --head, to ask for",
    ),
    "neither side": (
        with_run("predict", "RUN", "-r", "turn 2"),
        "give either --head, to ask for tails, or --tail, to ask for",
    ),
    "no answers": (
        with_run("predict", "RUN", "-H", "turn 4", "-r", "turn 2", "-k", "0"),
        "-k 0, expected a whole number of",
    ),
    "no new answers": (
        with_run("predict", "RUN", "-H", "turn 4", "-r", "turn 2", "-k", "-1", "--new"),
        "-k -1, expected a whole number of at least 1",
    ),
    # Exports.
    "format unknown": (
        with_run("export", "RUN", "x.pt", "--format", "pt"),
        "unknown format 'pt', expected npy, parquet, word2vec",
    ),
    "export into nowhere": (with_run("export", "RUN", "gone/x.npy"), "gone: no such folder to write x.npy into"),
    "export onto a folder": (
        with_run("export", "RUN", "RUN"),
        "RUN: is a folder, expected the name of a file",
    ),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_is_told_in_one_line_and_leaves_nothing_behind(kind, refused, here):
    prepare, message = MISTAKES[kind]
    told = refused(*prepare(here))
    assert re.fullmatch("error: [^\n]+\n", told)
    assert message in told


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_missed(refused):
    assert re.fullmatch(
        r"error: device 'cuda' asked for, but PyTorch \S+ sees no GPU; try --device cpu\n",
        refused("train", "ring.tsv", "--device", "cuda"),
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["train", "ring.tsv", "--loss", "hinge"],
            "Invalid value for '--loss': .*'hinge' is not one of 'squared', 'norm', 'softmax', 'sigmoid'",
        ),
        (["train", "ring.tsv", "--dim", "many"], "Invalid value for '--dim'"),
        (["train", "ring.tsv", "--valid", "some"], "Invalid value for '--valid'"),
        (["train", "ring.tsv", "--optimizer", "sgd"], "No such option: --optimizer"),
        (["fit"], "No such command 'fit'"),
        (["evaluate"], "Missing argument"),
        (["predict", "runs/x", "-H", "a"], "Missing option '--relation'"),
    ],
    ids=lambda value: " ".join(value[2:] or value) if isinstance(value, list) else "",
)
def test_arguments_that_make_no_sense_are_told_with_the_usage(arguments, message, refused):
    told = refused(*arguments)
    assert re.search(message, told)
    assert told.startswith("Usage: procrustes")
    assert "Traceback" not in told


# From another process.


def process(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "procrustes_kge", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        check=False,
    )


def test_the_module_is_the_command():
    ended = process("--help", PYTHONIOENCODING="utf-8")
    assert (ended.returncode, ended.stderr) == (0, b"")
    page = ended.stdout.decode()
    assert "Usage: procrustes [OPTIONS] COMMAND" in page
    assert all(re.search(rf"\b{command} ", page) for command in ("data", "train", "evaluate", "predict", "export"))


def test_a_name_that_the_terminal_cannot_show_does_not_hide_the_error(here):
    Path("bad.tsv").write_text("Zürich\t☃\n", encoding="utf-8")
    ended = process("train", "bad.tsv", "--separator", "☃", PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert re.fullmatch(rb"error: separator '\\u2603' is not known; [^\n]+\n", ended.stderr)
    assert contents().keys() == {"../desk", "../desk/ring.tsv", "../desk/bad.tsv"}


# Baselines.


@pytest.mark.parametrize("name", ["complex", "tucker", "rgcn"])
def test_a_baseline_is_trained_ranked_saved_and_asked_by_the_same_commands(name, procrustes):
    small = ("--dim", 20, "--epochs", 2, "--device", "cpu", *(["--blocks", 4] if name == "rgcn" else []))
    found = procrustes("train", "ring.tsv", "--model", name.upper(), "--out", "runs/other", *small)
    assert f"{name}: 20 numbers, up to 2 epochs" in found
    report = json.loads(procrustes("evaluate", "runs/other", "--json"))
    kept = json.loads(Path("runs/other/report.json").read_text())
    assert kept["model"] == kept["recipe"] == name
    assert report["metrics"]["test"]["mrr"] == pytest.approx(kept["metrics"]["test"]["mrr"])
    assert len(procrustes("predict", "runs/other", "--head", "e3", "-r", "next", "-k", 4).splitlines()) >= 4
    assert "40 vectors of 20 numbers" in procrustes("export", "runs/other", "vectors.npy")


def test_a_model_is_the_recipe_of_its_name_unless_another_is_named(procrustes, monkeypatch, unchecked):
    monkeypatch.setitem(PUBLISHED, "rotate-short", (replace(PUBLISHED["rotate"][0], epochs=1),) * 2)
    small = ("--dim", 20, "--device", "cpu", "--against", 8, "--json")
    asked = {
        "rotate": [("--model", "rotate", "--epochs", 2), ("--recipe", "rotate", "--epochs", 2)],
        "rotate-short": [("--recipe", "rotate-short"), ("--model", "rotate", "--recipe", "rotate-short")],
    }
    for name, ways in asked.items():
        for flags in ways:
            told = json.loads(procrustes("train", "ring.tsv", *flags, *small))
            assert (told["recipe"], told["model"], told["epochs"]) == (name, "rotate", 2 if name == "rotate" else 1)


def test_a_training_that_validation_ends_says_how_many_epochs_it_took(procrustes):
    flags = ("--dim", 20, "--epochs", 400, "--validate-every", 1, "--patience", 1, "--device", "cpu")
    told = json.loads(procrustes("train", "ring.tsv", "--model", "distmult", "--json", *flags))
    assert 1 < told["epochs"] < 400


def test_mistakes_with_baselines_are_told(refused, unchecked):
    train = ("train", "ring.tsv", "--device", "cpu")
    assert "unknown model 'nobody', expected transe or distmult" in refused(*train, "--model", "nobody")
    assert "--model ote has no recipe fast; give one of its own (ote" in refused(
        *train, "--model", "ote", "--recipe", "fast"
    )
    for asked in ("--model", "--recipe"):
        assert "--time and --memory are for our own model" in refused(*train, asked, "ote", "--time", "60s")
    told = refused(*train, "--model", "complex", "--segment", 20)
    assert "segment is no setting of the recipe complex, but try it with accurate" in told
    told = refused("train", "nosuchfile.tsv", "--model", "quate", "--dim", 30)
    assert "dimension 30 does not divide into numbers of 4 parts; try 28 or 32" in told
    told = refused("train", "nosuchfile.tsv", "--model", "tucker", "--no-inverses", "--kernel", 7)
    assert "is no setting of tucker, which has of its own: dim, relation dim, input dropout" in told
    told = refused(*train, "--model", "rotate", "--against", 40, described=True)
    assert "40 negatives, but the graph ring has 40 entities; try at most 39" in told


@pytest.mark.parametrize("asked", ["--model", "--recipe"])
def test_entities_alone_of_a_baseline_are_refused_before_anything_is_trained(asked, refused, monkeypatch):
    def unwanted(*_, **__):
        raise AssertionError("nothing is to be trained")

    monkeypatch.setattr(cli, "learn", unwanted)
    told = refused("train", "ring.tsv", "--device", "cpu", asked, "complex", "--entities-only")
    assert told == (
        "error: --entities-only is for our own model; a baseline's relations do not follow from its entities\n"
    )


def test_a_baseline_that_finds_no_room_is_told_in_a_sentence(refused, monkeypatch):
    def without_room(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(sys.modules["procrustes_kge.training.supervised"], "built", without_room)
    told = refused("train", "ring.tsv", "--model", "complex", "--dim", 20, "--device", "cpu", described=True)
    assert told.startswith("error: the GPU has no room for 20 numbers of each entity")
    assert told.count("\n") == 1


def test_a_model_that_is_added_is_trained_by_its_name(procrustes, monkeypatch):
    monkeypatch.setitem(BASELINES, "fourteenth", BASELINES["distmult"])
    small = ("--dim", 8, "--epochs", 1, "--device", "cpu")
    told = json.loads(procrustes("train", "ring.tsv", "--model", "fourteenth", "--json", *small))
    assert told["model"] == told["recipe"] == "fourteenth"
    assert load("runs/ring").name == "fourteenth"
