"""Laws of `procrustes train` at its limits: a budget of time or memory, a training that diverges or is interrupted."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from commands import TINY, contents
from procrustes_kge.cli import main, train as train_verb
from procrustes_kge.cli.terminal import TerminalWatcher
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.layouts.batches import QUERIES_PER_TILE
from procrustes_kge.runs.store import load_run
from procrustes_kge.training.budget import memory_needed, parse_size
from procrustes_kge.training.recipes import DEFAULT, learned, recipe

# Budgets.


@pytest.fixture
def briefly(monkeypatch):
    """Train for an epoch, whatever the settings say that are saved."""

    def learn_an_epoch(watcher, graph, settings, report):
        return learned(graph, replace(settings, epochs=1), report)

    monkeypatch.setattr(TerminalWatcher, "learn", learn_an_epoch)


@pytest.mark.usefixtures("briefly")
def test_the_default_is_fitted_to_a_minute_and_a_named_recipe_to_nothing(procrustes, monkeypatch):
    whole = recipe(DEFAULT, read_graph("ring.tsv"), "cpu")
    assert train_verb.A_MINUTE == 60
    for flags in ((), ("--time", "1h")):
        procrustes("train", "ring.tsv", "--device", "cpu", *flags)
        assert load_run("runs/ring").settings == whole  # as it is: it takes a second
    monkeypatch.setattr(train_verb, "A_MINUTE", 0.001)
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


@pytest.mark.usefixtures("briefly")
def test_memory_bounds_what_is_trained(procrustes):
    graph, flags = read_graph("ring.tsv"), ("--device", "cpu", "--epochs", "3")
    whole = replace(recipe(DEFAULT, graph, "cpu"), epochs=3)
    shortest = replace(whole, dim=whole.segment, chunk=QUERIES_PER_TILE)
    budgets = {
        "4GB": lambda settings: settings.dim == whole.dim and not 0 < settings.chunk < whole.batch,  # nothing is cut
        f"{memory_needed(graph, replace(whole, chunk=2 * QUERIES_PER_TILE)) / 1e6 + 0.001:.4f} mb": (
            lambda settings: (
                (settings.dim, settings.chunk) == (whole.dim, 2 * QUERIES_PER_TILE)
            )  # fewer queries at once
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
    ask = ("train", "ring.tsv", *TINY, "--memory", "1MB")
    refused(*ask, described=True, setting="memory", seen="0.001 GB", remedy="try a larger --memory")


# Divergence.


# A step an epoch, and each is looked at: the first one is good, and the second is not.
HASTY = ("--dim", "40", "--epochs", "30", "--batch", "full", "--validate-every", "1", "--device", "cpu")


@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["text", "json"])
def test_a_training_that_diverges_is_reported_and_leaves_the_last_good_weights(flags, procrustes, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["train", "ring.tsv", *HASTY, "--learning-rate", "900", *flags])
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


def test_a_training_that_was_never_good_leaves_nothing_behind(refused):
    ask = ("train", "ring.tsv", "--dim", "40", "--epochs", "30", "--device", "cpu", "--learning-rate", "900")
    refused(*ask, described=True, setting="learning rate", seen=900, remedy="try --learning-rate 225")


def test_a_training_that_diverges_leaves_an_earlier_run_alone(procrustes, capsys):
    procrustes("train", "ring.tsv", "--dim", "40", "--epochs", "3", "--device", "cpu")
    before = load_run("runs/ring").model.vectors
    with pytest.raises(SystemExit):
        main(["train", "ring.tsv", *HASTY, "--learning-rate", "900"])
    assert capsys.readouterr().err.endswith("the last good weights are in runs/ring-diverged\n")
    assert load_run("runs/ring").model.vectors.equal(before)
    assert load_run("runs/ring-diverged").report["diverged"]


def test_the_learning_rates_that_are_advised_lead_out_of_divergence(capsys):
    rate, rates = "100", []
    while rate is not None and len(rates) < 8:
        rates.append(float(rate))
        with pytest.raises(SystemExit) as ended:
            main(["train", "ring.tsv", *HASTY, "--learning-rate", rate])
        advised = re.search(r"try --learning-rate (\S+);", capsys.readouterr().err)
        assert ended.value.code == (2 if advised else 0)
        rate = advised[1] if advised else None
    assert 1 < len(rates) < 8
    assert all(later < earlier for earlier, later in pairwise(rates))
    assert load_run("runs/ring").settings.learning_rate == rates[-1]


# Interruption.


def test_an_interrupted_training_leaves_nothing_behind(capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    before = contents()
    monkeypatch.setattr(TerminalWatcher, "learn", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["train", "ring.tsv", *TINY])
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert contents() == before
