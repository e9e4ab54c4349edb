"""Laws of the line that `procrustes train` ends with: the command in it repeats the run exactly."""

import json
import shlex
from pathlib import Path

import pytest

from commands import RING, TINY, write_folder
from procrustes_kge.cli import train as train_verb
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.runs.store import load_run
from procrustes_kge.training import budget
from procrustes_kge.training.costs import Costs
from procrustes_kge.training.recipes import OWN
from toys import same

pytestmark = pytest.mark.slow

BRIEFLY = ("--dim", "40", "--epochs", "4", "--device", "cpu")
ODD = ("--seed", 7, "--learning-rate", "0.123", "--validate-every", 2, "--no-translate", "--workers", 2)
WAYS = {
    "as it is": BRIEFLY,
    "odd settings": (*BRIEFLY, *ODD),
    "a batch and its negatives": (*TINY, "--recipe", "paper+ns+tb", "--batch", "full", "--negatives", "3"),
    "another split": (*BRIEFLY, "--valid", "0.2", "--test", "0", "--split-seed", 5),
    "entities only": (*BRIEFLY, "--recipe", "fast", "--entities-only"),
    "a folder": (*BRIEFLY, "--out", "my runs/first one"),
    "a grid": (*BRIEFLY, "--grid", "FRA"),
    "memory": (*BRIEFLY, "--memory", "4GB"),
    "a baseline": (*BRIEFLY, "--model", "rotate", "--negatives", 5),
}


def last_line(printed):
    line = printed.splitlines()[-1]
    assert line.startswith("repeat: procrustes train ")
    return shlex.split(line.removeprefix("repeat: procrustes "))


def repeats(procrustes, *arguments):
    """Train twice, the second time by the last line of the first; return that line's words."""
    words = last_line(procrustes("train", *arguments))
    folder = Path(words[words.index("--out") + 1]) if "--out" in words else next(Path("runs").iterdir())
    first = load_run(folder)
    folder.rename("first")
    assert last_line(procrustes(*words)) == words
    second = load_run(folder)
    assert same(first.model, second.model)
    assert second.graph.checksum == first.graph.checksum
    assert first.report["repeat"] == second.report["repeat"] == shlex.join(["procrustes", *words])
    for part in ("metrics", "epochs", "recipe"):
        assert second.report[part] == first.report[part]
    return words


@pytest.mark.parametrize("way", WAYS)
def test_a_run_is_repeated_by_the_command_that_it_ends_with(way, procrustes):
    words = repeats(procrustes, "ring.tsv", *WAYS[way])
    assert not {"--time", "--memory"} & {*words}


@pytest.mark.parametrize("name", OWN)
def test_a_run_of_every_recipe_is_repeated(name, procrustes):
    assert "--recipe" in repeats(procrustes, "ring.tsv", "--recipe", name, *TINY)


@pytest.mark.parametrize("name", ["accurate", "fast"])
def test_what_a_clock_cut_short_is_repeated(name, procrustes, monkeypatch):
    monkeypatch.setattr(budget, "measured", lambda *_: Costs())  # a plan that is far too hopeful
    monkeypatch.setattr(train_verb, "elapsed", lambda: 0.0)
    asked = ("--device", "cpu", "--recipe", name, "--epochs", 10**5, "--time", "1.5s")
    words = repeats(procrustes, "ring.tsv", *asked)
    assert "--time" not in words


def test_a_plan_that_made_vectors_shorter_is_repeated(procrustes, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(budget, "measured", lambda graph, settings, patience: Costs(pilot=1e-3 * settings.dim))
        words = last_line(procrustes("train", "ring.tsv", "--device", "cpu", "--epochs", 60, "--time", "20s"))
    first = load_run("runs/ring")
    assert first.settings.dim < 400
    procrustes(*words)
    assert same(load_run("runs/ring").model, first.model)


def test_what_was_said_of_the_file_is_repeated(procrustes):
    rows = ["w;from;link;to", *(f"1;{row}".replace("\t", ";") for row in RING.splitlines())]
    Path("my ring.csv").write_text("\n".join(rows))
    Path("names.json").write_text(json.dumps({"e0": "zero"}))
    said = ("--separator", ";", "--header", "--columns", "from,link,to", "--labels", "names.json")
    words = repeats(procrustes, "my ring.csv", *said, *BRIEFLY)
    assert load_run("runs/my ring").graph.checksum == read_graph("ring.tsv").checksum
    assert {*said} < {*words}


def test_a_folder_with_splits_of_its_own_is_repeated(procrustes):
    write_folder("mine", train=["a r b", "b r c", "c r a"], valid=["a r c"], test=["b r a"])
    repeats(procrustes, "mine", *BRIEFLY)
