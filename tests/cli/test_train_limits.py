"""Laws of `procrustes train` at its limits: a budget of time or memory, a training that diverges or is interrupted."""

import re
import signal
from dataclasses import replace
from itertools import pairwise

import pytest

from commands import TINY, TRIPLES, contents, write_folder
from procrustes_kge.cli import main
from procrustes_kge.cli.terminal import TerminalWatcher
from procrustes_kge.errors import DivergedError
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.layouts.batches import QUERIES_PER_TILE
from procrustes_kge.models import ranking
from procrustes_kge.runs.store import load_run
from procrustes_kge.training import budget
from procrustes_kge.training.budget import FEWEST, SHORTEST, memory_needed, parse_size
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.costs import Costs
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import DEFAULT, changed, learned, recipe

# Budgets.


@pytest.fixture
def briefly(monkeypatch):
    """Train for an epoch, whatever the settings say that are saved."""

    def learn_an_epoch(watcher, graph, settings, checkpoints):
        return replace(learned(graph, replace(settings, epochs=1)), settings=replace(settings, time=0.0))

    monkeypatch.setattr(TerminalWatcher, "learn", learn_an_epoch)


@pytest.fixture
def paces(monkeypatch):
    """Pretend that an epoch takes so many seconds for each number of a vector; no clock is asked."""

    def pretend(contrast=0.0, fit=0.0, **costs):
        def measured(graph, settings, patience):
            pace = contrast if isinstance(settings, ContrastSettings) else fit
            return Costs(pilot=pace * settings.dim, **costs)

        monkeypatch.setattr(budget, "measured", measured)

    return pretend


def whole(name):
    return recipe(name, read_graph("ring.tsv"), "cpu")


def minutes(name, many):
    """Return the pace with which a recipe takes so many minutes."""
    return many * 60 / (whole(name).dim * whole(name).epochs)


@pytest.mark.slow
@pytest.mark.usefixtures("briefly")
def test_the_default_is_fitted_to_a_minute_and_a_named_recipe_to_nothing(procrustes, paces):
    paces()
    for flags in ((), ("--time", "1h")):
        procrustes("train", "ring.tsv", "--device", "cpu", *flags)
        assert load_run("runs/ring").settings == whole(DEFAULT)  # as it is: it takes no time
    paces(contrast=minutes(DEFAULT, 5))
    procrustes("train", "ring.tsv", "--device", "cpu")
    hurried = load_run("runs/ring").settings
    assert SHORTEST[ContrastSettings] <= hurried.dim < whole(DEFAULT).dim
    assert FEWEST * whole(DEFAULT).epochs <= hurried.epochs < whole(DEFAULT).epochs
    assert hurried == changed(whole(DEFAULT), dim=hurried.dim, epochs=hurried.epochs)
    procrustes("train", "ring.tsv", "--device", "cpu", "--recipe", DEFAULT)
    assert load_run("runs/ring").settings == whole(DEFAULT)


@pytest.mark.usefixtures("briefly")
def test_where_the_default_cannot_be_learned_in_time_the_fastest_recipe_is(procrustes, paces):
    paces(contrast=minutes(DEFAULT, 1000), fit=minutes("fast", 1 / 10))
    printed = procrustes("train", "ring.tsv", "--device", "cpu")
    told = "  accurate does not fit into the time here, so fast is trained; a longer --time allows it"
    assert f"\n{told}\nfast: {whole('fast').dim:,} numbers" in printed
    assert load_run("runs/ring").settings == whole("fast")
    assert load_run("runs/ring").report["recipe"] == "fast"


@pytest.mark.usefixtures("briefly")
def test_what_no_recipe_does_in_a_minute_takes_longer_and_says_so(procrustes, paces):
    paces(contrast=minutes(DEFAULT, 1000), fit=minutes("fast", 1000))
    printed = procrustes("train", "ring.tsv", "--device", "cpu")
    assert f"\nfast: {SHORTEST[FitSettings]} numbers in segments of 20, up to " in printed
    assert "\n  the smallest model of ring that is worth training takes longer than a minute\n" in printed
    assert load_run("runs/ring").settings.epochs >= FEWEST * whole("fast").epochs


@pytest.mark.usefixtures("briefly")
@pytest.mark.parametrize("name", ["accurate", "fast"])
def test_a_short_time_shortens_what_is_trained(name, procrustes, paces):
    kind, most = type(whole(name)), whole(name)
    paces(contrast=minutes(name, 5), fit=minutes(name, 5))
    printed = procrustes("train", "ring.tsv", "--recipe", name, "--device", "cpu", "--time", "1m", "--no-tune")
    settings = load_run("runs/ring").settings
    assert settings == changed(most, dim=settings.dim, epochs=settings.epochs)
    assert SHORTEST[kind] <= settings.dim < most.dim
    assert FEWEST * most.epochs <= settings.epochs <= most.epochs
    said = re.search(
        rf"\n{name}: {settings.dim} numbers in segments of {settings.segment}, .*: about (\d+) s in all", printed
    )
    assert 0 < int(said[1]) <= 60


@pytest.mark.parametrize("flags", [(), ("--recipe", "accurate"), ("--recipe", "fast"), ("--dim", "200")], ids=" ".join)
def test_a_time_that_is_too_short_is_refused_with_one_that_is_enough(flags, refused, paces):
    paces(contrast=minutes(DEFAULT, 60), fit=minutes("fast", 60))
    told = {"setting": "time", "seen": "10s", "remedy": "try --time "}
    said = refused("train", "ring.tsv", *flags, "--time", "10s", described=True, **told)
    assert "the smallest model of" in said
    assert ("or --recipe fast" in said) == ("accurate" in flags)
    assert int(re.search(r"try --time (\d+)s", said)[1]) > 10


@pytest.mark.usefixtures("briefly")
@pytest.mark.parametrize("name", ["accurate", "fast"])
def test_numbers_and_epochs_that_were_asked_for_are_kept(name, procrustes, refused, paces):
    asked = {"dim": 200, "epochs": 37}
    for kept, value in asked.items():
        paces(contrast=minutes(name, 2), fit=minutes(name, 2))
        ask = ("train", "ring.tsv", "--recipe", name, "--device", "cpu", f"--{kept}", value)
        procrustes(*ask, "--time", "1m")
        assert getattr(load_run("runs/ring").settings, kept) == value
        paces(contrast=minutes(name, 1000), fit=minutes(name, 1000))
        refused(*ask, "--time", "1m", described=True, setting="time", seen="1m", remedy="try --time ")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["accurate", "fast"])
def test_a_time_that_has_passed_ends_the_training(name, procrustes, paces):
    paces()  # a plan that is far too hopeful
    printed = procrustes("train", "ring.tsv", "--recipe", name, "--device", "cpu", "--epochs", 10**5, "--time", "3s")
    assert load_run("runs/ring").report["epochs"] < 10**5
    assert "\nvalid  MRR " in printed
    assert "\ntook " in printed


@pytest.mark.slow
@pytest.mark.usefixtures("briefly")
def test_memory_bounds_what_is_trained(procrustes, paces):
    paces()
    graph, flags = read_graph("ring.tsv"), ("--device", "cpu", "--epochs", "3")
    most = replace(whole(DEFAULT), epochs=3)
    shortest = replace(most, dim=most.segment, chunk=QUERIES_PER_TILE)
    budgets = {
        "4GB": lambda settings: settings.dim == most.dim and not 0 < settings.chunk < most.batch,  # nothing is cut
        f"{memory_needed(graph, replace(most, chunk=2 * QUERIES_PER_TILE)) / 1e6 + 0.001:.4f} mb": (
            lambda settings: (settings.dim, settings.chunk) == (most.dim, 2 * QUERIES_PER_TILE)  # fewer queries at once
        ),
        f"{memory_needed(graph, replace(most, chunk=QUERIES_PER_TILE)) - 1:.0f}": (
            lambda settings: 0 < most.dim - settings.dim <= 2 * most.segment  # hardly shorter vectors
        ),
        f"{memory_needed(graph, shortest) + 1:.0f}b": lambda settings: settings == shortest,
    }
    for memory, expected in budgets.items():
        procrustes("train", "ring.tsv", *flags, "--memory", memory)
        settings = load_run("runs/ring").settings
        assert expected(settings), (memory, settings)
        assert settings == replace(most, dim=settings.dim, chunk=settings.chunk)
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


def test_a_training_that_diverges_late_is_saved_with_the_settings_of_what_there_is(capsys, monkeypatch):
    def diverges(self, graph, settings, checkpoints=None):
        first_parts = learned(graph, changed(settings, dim=20, epochs=2, pilot=10))
        raise DivergedError("training diverged; try another rate", first_parts.model)

    monkeypatch.setattr(TerminalWatcher, "learn", diverges)
    with pytest.raises(SystemExit):
        main(["train", "ring.tsv", "--recipe", "fast", "--dim", "60", "--segment", "5", "--device", "cpu"])
    assert capsys.readouterr().err.endswith("the last good weights are in runs/ring\n")
    run = load_run("runs/ring")
    assert run.settings.dim == run.model.dim == 20


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


@pytest.mark.slow
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
    assert capsys.readouterr().err == "nothing is kept of this training\ninterrupted\n"
    assert contents() == before


@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("moment", ["on_learned", "rank"])
def test_a_training_that_is_interrupted_when_it_has_ended_is_saved(moment, flags, procrustes, capsys, monkeypatch):
    whole = getattr(TerminalWatcher, moment)

    def interrupted(*arguments):
        signal.raise_signal(signal.SIGINT)
        return whole(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(TerminalWatcher, moment, interrupted)
        with pytest.raises(SystemExit) as ended:
            main(["train", "ring.tsv", *TINY, *flags])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert ended.value.code == 130
    output = capsys.readouterr()
    told = "runs/ring holds what was learned; `procrustes evaluate runs/ring` ranks it\ninterrupted\n"
    assert output.err == told
    assert ("\nsaved  runs/ring\n" in output.out) == (not flags)
    assert load_run("runs/ring").report["metrics"] == {}
    procrustes("evaluate", "runs/ring", "--device", "cpu")
    assert load_run("runs/ring").report["metrics"].keys() == {"test"}
    assert procrustes("predict", "runs/ring", "-H", "e0", "-r", "next", "-k", "1").startswith("  1  ")


def test_ranking_that_would_take_too_long_ranks_a_sample_and_says_so(procrustes, monkeypatch):
    rows = [row.replace("\t", " ") for row in TRIPLES if "after" not in row]
    write_folder("long", train=rows, test=[f"e{i} next e{(i + 3) % 40}" for i in range(40)])
    rank = TerminalWatcher.rank
    with monkeypatch.context() as patch:
        patch.setattr(TerminalWatcher, "rank", lambda *arguments: rank(*arguments[:4], seconds=0.0))
        patch.setattr(ranking, "FEWEST_RANKED", 10)
        printed = procrustes("train", "long", *TINY)
    assert re.search(r"\ntest   MRR .*   10 of 40 triples, drawn at random\n", printed)
    assert load_run("runs/long").report["metrics"]["test"]["ranked"] == 10
    procrustes("evaluate", "runs/long", "--device", "cpu")
    assert load_run("runs/long").report["metrics"]["test"]["ranked"] == 40
