"""Laws of `procrustes missing`: what it prints and writes, and that it goes on after a stop."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from procrustes_kge.cli import main
from procrustes_kge.explore.missing import missing as search
from procrustes_kge.explore.missing.missing import Search, missing
from procrustes_kge.runs.store import load_run

RELATION = ("--relation", "turn 2")


def names_of(found):
    rows = (each if isinstance(each, dict) else vars(each) for each in found)
    return [(row["head"], row["relation"], row["tail"]) for row in rows]


def ended(*arguments):
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


def test_the_best_are_printed_with_what_was_expected_and_what_it_took(planted, procrustes):
    model, graph = planted
    lines = procrustes("missing", "runs/planted", *RELATION, "-k", "3").splitlines()
    plan = r"rotated   turn 2: [\d,]+ pairs of entities, at most about 1 s, \d+ MB beside the model"
    assert re.fullmatch(plan, lines[0])
    expected = missing(model, "turn 2", graph=graph, k=3)
    assert len(lines) == 5
    for number, (line, triple) in enumerate(zip(lines[1:], expected, strict=False), start=1):
        head, tail = (graph.entities.shown(graph.entities.id(name)) for name in (triple.head, triple.tail))
        assert line == f"{number:>3}  {triple.score:8.3f}   {head}   turn 2   {tail}"
    assert re.fullmatch(r"searched in \d+\.\d s, estimated \d+\.\d s", lines[-1])
    assert [path.name for path in Path("runs").iterdir()] == ["planted"]


def test_json_has_the_same_triples(planted, procrustes):
    model, graph = planted
    said = json.loads(procrustes("missing", "runs/planted", "-k", "7", "--json"))
    expected = missing(model, graph=graph, k=7)
    assert [(row["head"], row["relation"], row["tail"]) for row in said["triples"]] == [
        (each.head, each.relation, each.tail) for each in expected
    ]
    assert {"run", "pairs", "seconds", "estimated_seconds"} < said.keys()


@pytest.mark.parametrize("suffix", ["tsv", "csv", "json", "parquet"])
def test_a_file_has_a_row_for_each_triple(suffix, planted, procrustes):
    model, graph = planted
    out = f"missing.{suffix}"
    said = procrustes("missing", "runs/planted", "-k", "5", "--any", "--out", out)
    assert said.splitlines()[-1].endswith(f"5 triples in {out}")
    if suffix == "parquet":
        rows = pytest.importorskip("polars").read_parquet(out).to_dicts()
    elif suffix == "json":
        rows = json.loads(Path(out).read_text())
    else:
        lines = Path(out).read_text().splitlines()
        rows = list(csv.DictReader(lines, delimiter="\t" if suffix == "tsv" else ","))
    expected = missing(model, graph=graph, k=5, any_kind=True)
    assert [(row["head"], row["relation"], row["tail"]) for row in rows] == [
        (each.head, each.relation, each.tail) for each in expected
    ]
    assert [float(row["score"]) for row in rows] == pytest.approx([each.score for each in expected])
    assert rows[0]["head_label"] == graph.entities.label(graph.entities.id(rows[0]["head"]))
    assert not Path(f"{out}.partial").exists()


def test_more_than_there_is_gives_all_there_is(planted, procrustes):
    model, graph = planted
    lines = procrustes("missing", "runs/planted", *RELATION, "-k", "1000000").splitlines()
    count = len(missing(model, "turn 2", graph=graph, k=10**6))
    assert lines[-1].endswith(f"all {count:,} triples that are not known")
    assert len(lines) == count + 2


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"])
@pytest.mark.parametrize("after", [1, 3, 6])
def test_what_a_signal_stopped_goes_on_to_the_same_file(after, number, code, planted, procrustes, capsys, monkeypatch):
    arguments = ("missing", "runs/planted", "-k", "50", "--any")
    procrustes(*arguments, "--out", "whole.tsv")
    joined, calls = Search._joined, []

    def stopping(*given):
        calls.append(1)
        if len(calls) == after + 8:  # eight relations are probed for the estimate
            signal.raise_signal(number)
        return joined(*given)

    with monkeypatch.context() as patch:
        patch.setattr(search.Search, "_joined", stopping)
        assert ended(*arguments, "--out", "again.tsv") == code
    said = capsys.readouterr().err
    told = "again.tsv.partial holds what was found; the same command with --resume goes on\n"
    assert said == told + ("interrupted\n" if number == signal.SIGINT else "")
    assert not Path("again.tsv").exists()
    procrustes(*arguments, "--out", "again.tsv", "--resume")
    assert Path("again.tsv").read_bytes() == Path("whole.tsv").read_bytes()
    assert not Path("again.tsv.partial").exists()


@pytest.fixture
def stopped(planted, capsys, monkeypatch):
    """A search that was stopped, kept beside the run."""
    joined, calls = Search._joined, []

    def stopping(*given):
        calls.append(1)
        if len(calls) == 10:
            signal.raise_signal(signal.SIGINT)
        return joined(*given)

    with monkeypatch.context() as patch:
        patch.setattr(search.Search, "_joined", stopping)
        assert ended("missing", "runs/planted", "-k", "5") == 130
    capsys.readouterr()
    return Path("runs/planted.missing.partial")


def test_a_search_that_was_stopped_is_not_begun_again_unasked(stopped, refused):
    said = {"setting": "planted.missing.partial", "seen": "was stopped", "remedy": "add --resume"}
    refused("missing", "runs/planted", "-k", "5", **said)


def test_a_search_does_not_go_on_as_another(stopped, refused):
    said = {"setting": "planted.missing.partial", "seen": "k 5, now 6", "remedy": "delete it"}
    refused("missing", "runs/planted", "-k", "6", "--resume", **said)


@pytest.mark.parametrize("file", ["manifest.json", "state.json", "found.safetensors"])
def test_a_state_that_was_damaged_is_told(file, stopped, refused):
    whole = (stopped / file).read_bytes()
    (stopped / file).write_bytes(whole[: len(whole) // 2])
    said = {"setting": "planted.missing.partial", "seen": "damaged", "remedy": "delete it to begin again"}
    refused("missing", "runs/planted", "-k", "5", "--resume", **said)


def test_resuming_what_was_never_stopped_begins(planted, procrustes):
    first = procrustes("missing", "runs/planted", "-k", "5").splitlines()[1:-1]
    assert procrustes("missing", "runs/planted", "-k", "5", "--resume").splitlines()[1:-1] == first


MISTAKES = {
    "no k": (["-k", "0"], "-k", "0", "expected a whole number of at least 1"),
    "negative k": (["-k", "-3"], "-k", "-3", "expected a whole number of at least 1"),
    "relation unknown": (["-r", "trun 2"], "unknown relation", "'trun 2'", "Did you mean 'turn 2'?"),
    "format unknown": (["--out", "x.xlsx"], "x.xlsx", "suffix", "end it with .csv, .tsv, .json or .parquet"),
    "out nowhere": (["--out", "gone/x.tsv"], "gone", "no such folder", "to write x.tsv into"),
    "device unknown": (["--device", "gpu"], "device", "'gpu'", "expected cpu, cuda, cuda:N or auto"),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_mistakes_are_explained(kind, planted, refused):
    arguments, setting, seen, remedy = MISTAKES[kind]
    refused("missing", "runs/planted", *arguments, setting=setting, seen=seen, remedy=remedy)


def test_a_file_of_the_users_own_is_not_replaced(planted, failed):
    Path("mine.tsv").write_text("precious")
    said = failed("missing", "runs/planted", "--out", "mine.tsv")
    assert "mine.tsv: is there already" in said


def test_a_run_without_triples_says_so(planted, refused):
    from procrustes_kge.runs.store import save

    save(planted[0], "runs/planted")
    said = {"setting": "run", "seen": "without its triples", "remedy": "save it with graph=…"}
    refused("missing", "runs/planted", **said)


@pytest.mark.slow
def test_a_search_that_was_killed_goes_on_from_what_it_kept(planted, procrustes):
    """With a place kept at every step, SIGKILL at any moment leaves a place to go on from, or none."""
    script = (
        "import os, signal, threading, time\n"
        "from procrustes_kge.explore.missing.missing import missing\n"
        "from procrustes_kge.cli import main\n"
        "missing.KEEP_EVERY = 0\n"
        "threading.Timer({}, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()\n"
        "main(['missing', 'runs/planted', '-k', '50', '--any', '--out', 'again.tsv', '--resume'])\n"
    )
    procrustes("missing", "runs/planted", "-k", "50", "--any", "--out", "whole.tsv")
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for seconds in (2.0, 2.2, 2.4, 2.6, 60):
        subprocess.run([sys.executable, "-c", script.format(seconds)], env=paths, capture_output=True, check=False)
        if Path("again.tsv").exists():
            break
    assert Path("again.tsv").read_bytes() == Path("whole.tsv").read_bytes()
    assert load_run("runs/planted").graph is not None


def test_predict_and_neighbours_take_an_index(planted, procrustes):
    pytest.importorskip("faiss", reason="the extra `index` is not installed")
    for question in (
        ["predict", "runs/planted", "-H", "turn 4", "-r", "turn 2"],
        ["neighbours", "runs/planted", "turn 4"],
    ):
        exact, quick = (procrustes(*question, "-k", "3", flag) for flag in ("--exact", "--index"))
        assert [line.split()[:2] for line in quick.splitlines()] == [line.split()[:2] for line in exact.splitlines()]
    assert Path("runs/planted.index/products/codes.safetensors").is_file()


@pytest.mark.filterwarnings("default")
def test_an_index_that_was_damaged_is_told_on_the_command_line(planted, procrustes, capsys):
    pytest.importorskip("faiss", reason="the extra `index` is not installed")
    question = ["predict", "runs/planted", "-H", "turn 4", "-r", "turn 2", "--index"]
    procrustes(*question)
    Path("runs/planted.index/products/codes.safetensors").write_bytes(b"nothing")
    assert ended(*question) == 0
    assert "planted.index/products: damaged (codes.safetensors has 7 bytes" in capsys.readouterr().err
    procrustes(*question)
