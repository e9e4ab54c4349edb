"""Laws of `procrustes train`: what it prints, what it saves, and where it starts from."""

import gzip
import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from commands import ENDING, FIGURES, SIDES, TINY, TRIPLES, write_folder
from procrustes_kge import __version__
from procrustes_kge.cli import main
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.models.ranking import evaluate
from procrustes_kge.runs.store import load, load_run
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.recipes import DEFAULT, OWN, recipe

COST = r"\d+\.\d s   peak [\d,]+ MB   \S+ Wh   \S+ g CO2 \((estimated|measured), world average\)"
TAKES = r"about [\d,]+ s in all and \d+\.\d GB"
CLOSING = rf"""accurate: 40 numbers in segments of 10, 3 epochs, batch 148, all negatives: {TAKES}
fitted 3 epochs in {COST}
saved  runs/ring
no probabilities: ring has 4 validation triples, expected at least 20 to tell probabilities from; set more aside
valid  {FIGURES}   {SIDES}   4 triples
test   {FIGURES}   {SIDES}   4 triples
{ENDING}"""


def test_training_on_a_file_answers_in_a_few_lines(procrustes):
    printed = procrustes("train", "ring.tsv", *TINY)
    first, *odd = printed.splitlines()[:-8]
    assert first == "ring   40 entities · 3 relations · 82 triples"
    assert odd == [
        "  1 duplicate triple dropped",
        "  1 triple from an entity to itself",
        "  1 relation with a single training triple: 'once'",
    ]
    assert re.fullmatch(CLOSING, "".join(printed.splitlines(keepends=True)[-8:]))
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


@pytest.mark.parametrize("name", OWN)
def test_recipes_are_where_settings_start(name, procrustes):
    procrustes("train", "ring.tsv", "--recipe", name, *TINY)
    run = load_run("runs/ring")
    tiny = {"dim": 40, "segment": 10, "epochs": 3, "device": "cpu"}
    if isinstance(run.settings, ContrastSettings):
        assert run.settings.workers > 0  # as many as were faster
        tiny["workers"] = run.settings.workers
    assert run.settings == replace(recipe(name, run.graph, "cpu"), **tiny)
    assert run.report["recipe"] == name
    assert run.report["method"] == {FitSettings: "fit", ContrastSettings: "contrast"}[type(run.settings)]
    printed = json.loads(procrustes("evaluate", "runs/ring", "--device", "cpu", "--json"))
    assert printed["metrics"]["test"] == run.report["metrics"]["test"]
    assert procrustes("predict", "runs/ring", "-H", "e0", "-r", "next", "-k", "1").startswith("  1  ")


PLANS = {
    "fast": "40 numbers in segments of 10, up to 3 epochs",
    "paper": "40 numbers in segments of 10, up to 3 epochs",
    "paper+ns": "40 numbers in segments of 10, 3 epochs, full batch, 39 negatives",
    "paper+tb": "40 numbers in segments of 10, 3 epochs, batch 148, no negatives",
    "paper+ns+tb": "40 numbers in segments of 10, 3 epochs, batch 148, 39 negatives",
    "accurate": "40 numbers in segments of 10, 3 epochs, batch 148, all negatives",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_the_plan_is_printed_before_training(name, procrustes):
    lines = procrustes("train", "ring.tsv", "--recipe", name, *TINY).splitlines()
    assert re.fullmatch(re.escape(f"{name}: {PLANS[name]}: ") + TAKES, lines[-8])
    assert lines[-7].startswith("fitted 3 epochs in ")


def test_a_few_steps_in_all_are_planned_and_trained(procrustes):
    write_folder("mine", train=["a r b", "b r c", "c r a"], test=["b r a"])
    for epochs in (1, 5):
        printed = json.loads(
            procrustes("train", "mine", "--json", "--dim", "20", "--epochs", epochs, "--device", "cpu")
        )
        assert (printed["epochs"], printed["settings"]["epochs"], printed["settings"]["dim"]) == (epochs, epochs, 20)


# Runs that repeat.


def test_a_seed_repeats_and_an_old_run_is_replaced(procrustes, trained):
    whole = load(trained[0])
    for seed, equal, note in ((1, False, ""), (0, True, "   (in place of an earlier run)")):
        printed = procrustes("train", "ring.tsv", *TINY, "--seed", seed)
        assert f"\nsaved  runs/ring{note}\n" in printed
        assert load("runs/ring").vectors.equal(whole.vectors) == equal


@pytest.mark.slow
def test_a_file_is_split_the_same_whatever_the_seed_of_training(procrustes, trained):
    for options, seed in ((("--seed", 1), 0), (("--split-seed", -7), -7)):
        procrustes("train", "ring.tsv", *TINY, *options)
        assert load_run("runs/ring").graph.checksum == read_graph("ring.tsv", seed=seed).checksum


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fast", "accurate"])
def test_entities_alone_take_less_space_and_answer_alike(name, procrustes):
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
    printed = json.loads(procrustes("train", "mine", "--json", *TINY))
    assert printed["dataset"] == "mine"
    assert printed["triples"] == {"train": 3, "valid": 1, "test": 1}
    assert printed["metrics"]["test"]["seen_only"]["count"] == 0
    assert Path("runs/mine/settings.json").exists()


@pytest.mark.slow
def test_the_embedded_dataset_is_trained_when_no_graph_is_named(procrustes):
    printed = procrustes("train", "--dim", "10", "--segment", "10", "--epochs", "1", "--device", "cpu")
    assert printed.startswith("wordnet-mini   11,996 entities · 17 relations · 38,552 triples\n")
    assert "\nsaved  runs/wordnet-mini\n" in printed
    assert load_run("runs/wordnet-mini").graph.checksum == read_graph("wordnet-mini").checksum


@pytest.mark.slow
def test_separators_headers_and_packing(procrustes):
    rows = ["subject|predicate|object", *(row.replace("\t", "|") for row in TRIPLES)]
    Path("ring.csv.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    printed = procrustes("train", "ring.csv.gz", "--separator", "|", *TINY)
    assert printed.startswith("ring   40 entities · 2 relations · 80 triples\n  1 header line skipped")
    printed = procrustes("train", "ring.csv.gz", "--separator", "|", "--no-header", *TINY)
    assert printed.startswith(
        "ring   42 entities · 3 relations · 81 triples\n  1 relation with a single training triple"
    )


def test_shares_set_triples_aside(procrustes):
    printed = json.loads(procrustes("train", "ring.tsv", "--valid", "0", "--test", "0.25", "--json", *TINY))
    assert printed["triples"]["valid"] == 0
    assert printed["triples"]["test"] == round(0.25 * 82)
    assert printed["metrics"].keys() == {"test"}


@pytest.mark.parametrize(("grid", "name"), [("FRA", "FRA"), ("fr", "FRA"), ("50", "given"), ("world", "world average")])
def test_the_grid_is_printed_and_counted(grid, name, procrustes):
    printed = procrustes("train", "ring.tsv", "--grid", grid, *TINY)
    shown = "50 g/kWh" if name == "given" else name
    assert re.search(rf"g CO2 \((estimated|measured), {shown}\)\n", printed)
    footprint = load_run("runs/ring").report["footprint"]
    assert footprint["grid"] == name
    assert footprint["g_co2"] == pytest.approx(footprint["kwh"] * footprint["grid_g_per_kwh"])


ODDITIES = {
    "a graph with one relation": (["a r b", "b r c", "c r a"], [], "only 1 relation"),
    "a relation that occurs once": (["a r b", "b r c", "c s a"], [], "1 relation with a single training triple: 's'"),
    "self-loops": (["a r b", "b r b", "c s c"], [], "2 triples from an entity to itself"),
    "entities only in test": (
        ["a r b", "b s c"],
        ["y r a", "z s a"],
        "2 entities in valid or test but not in train, so not learned",
    ),
    "duplicates": (["a r b", "a r b", "b s c", "a r b"], [], "2 duplicate triples dropped"),
    "duplicates across splits": (["a r b", "b s c"], ["a r b", "c r a"], "test: 1 duplicate triple dropped"),
}


@pytest.mark.parametrize("kind", ODDITIES)
def test_oddities_are_trained_counted_and_reported(kind, procrustes):
    train, test, remark = ODDITIES[kind]
    write_folder("odd", train=train, **({"test": test} if test else {}))
    printed = procrustes("train", "odd", *TINY)
    assert f"\n  {remark}\n" in printed
    assert "\nsaved  runs/odd\n" in printed
    assert remark in load_run("runs/odd").report["notes"]


def test_a_graph_too_small_to_set_anything_aside_is_trained(procrustes, failed):
    Path("two.txt").write_text("a r b\nb s c\n")
    printed = json.loads(procrustes("train", "two.txt", "--valid", "0.4", "--json", *TINY))
    assert printed["metrics"] == {}
    assert printed["triples"] == {"train": 2, "valid": 0, "test": 0}
    assert any("0 triples set aside for valid and test instead of 1" in note for note in printed["notes"])
    assert "two has no test triples" in failed("evaluate", "runs/two")
    assert procrustes("predict", "runs/two", "-H", "a", "-r", "r", "-k", "1", "--known").startswith("  1  ")


def test_a_file_without_a_name_of_its_own_gets_a_folder_of_its_own(procrustes):
    Path(".tsv").write_text("\n".join(TRIPLES))
    assert "\nsaved  runs/graph\n" in procrustes("train", ".tsv", *TINY)


@pytest.mark.parametrize(
    ("flags", "figures"),
    [
        (("--recipe", "fast"), r"   valid MRR \.\d{3}"),
        (("--recipe", "accurate"), r"   valid MRR \.\d{3}"),
        (("--recipe", "accurate", "--validate-every", "0"), ""),
    ],
    ids=" ".join,
)
def test_a_terminal_sees_a_bar_and_standard_output_does_not(flags, figures, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes this for a terminal
    with pytest.raises(SystemExit) as ended:
        main(["train", "ring.tsv", *flags, "--json", *TINY])
    output = capsys.readouterr()
    assert ended.value.code == 0
    json.loads(output.out)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.err)
    assert re.search(rf"fitting.*epoch 3 of 3   loss [\d.]+{figures}", shown)
    assert ("valid MRR" in shown) == bool(figures)
    assert "ranking test" in shown


@pytest.mark.slow
def test_a_reader_who_has_seen_enough_does_not_stop_a_training(here):
    train = f"{sys.executable} -m procrustes_kge train ring.tsv {' '.join(TINY)} --out run | head -n 1"
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(["bash", "-o", "pipefail", "-c", train], env=paths, check=True, capture_output=True)
    assert load("run").dim == 40
