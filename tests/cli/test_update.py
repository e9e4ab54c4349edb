"""Laws of `procrustes update`: what is new is placed, what was meant is asked, and a change can be taken back."""

import io
import json
import re
from pathlib import Path

import pytest

from commands import TINY
from procrustes_kge.cli import main
from procrustes_kge.runs.store import load, load_run
from toys import same

NEW = "new\tnext\te5\ne4\tnext\tnew\n"


def written(text, name="new.tsv"):
    Path(name).write_text(text)
    return name


@pytest.fixture
def told(capsys):
    """Run a command that must succeed; return what it printed, and what it noted."""

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        assert ended.value.code == 0, output.err
        return output.out.splitlines(), output.err

    return call


def test_adding_in_words(told, run):
    lines, noted = told("update", run, written(NEW), "--device", "cpu")
    assert noted == ""
    assert lines[0] == "ring   41 entities · 3 relations · 84 triples"
    assert lines[1] == "added  2 triples, 1 new entity"
    assert re.fullmatch(r"placed 1 entity in \d+\.\d s", lines[2])
    assert lines[3] == "saved  runs/ring   change 1; `procrustes update runs/ring --undo` takes it back"
    assert lines[4].startswith("stale  the metrics in report.json were of the model before")
    answers, _ = told("predict", run, "--head", "new", "--relation", "next", "-k", "3", "--known")
    assert any("e5" in line and "train" in line for line in answers)


def test_ranked_again_the_metrics_are_of_the_model_as_it_is(told, run):
    told("update", run, written(NEW), "--device", "cpu")
    assert load_run(run).report["metrics"] == {}
    told("evaluate", run, "--device", "cpu")
    assert load_run(run).report["metrics"].keys() == {"test"}


def test_history_and_undo(told, procrustes, run):
    model = load(run)
    assert procrustes("update", run, "--history") == "runs/ring: not changed since its training\n"
    told("update", run, written(NEW), "--device", "cpu")
    told("update", run, "--remove", written("e0\tnext\te1\n", "wrong.tsv"), "--epochs", "1", "--device", "cpu")
    first, second = procrustes("update", run, "--history").splitlines()
    assert re.fullmatch(r" +1  \S+   2 triples added, 1 new entity   from new\.tsv \(sha256 \w{12}…\)", first)
    assert re.fullmatch(
        r" +2  \S+   1 triple removed, 1 epoch of training   from wrong\.tsv \(sha256 \w{12}…\)", second
    )
    told_back = procrustes("update", run, "--undo")
    assert re.fullmatch(r"undone change 2 of \S+: runs/ring is what it was, bit for bit\n", told_back)
    assert json.loads(procrustes("update", run, "--undo", "--json"))["changes"] == []
    assert same(load(run), model)


def test_json_for_programs(told, run):
    lines, _ = told("update", run, written(NEW), "--device", "cpu", "--json")
    found = json.loads("\n".join(lines))
    assert (found["run"], found["changed"], found["change"]["number"]) == (str(run), True, 1)
    assert found["counts"]["added"] == 2
    assert found["change"]["entities"] == ["new"]
    assert found["change"]["sources"][0]["file"] == "new.tsv"
    history, _ = told("update", run, "--history", "--json")
    assert json.loads("\n".join(history))["changes"] == [found["change"]]


def test_another_run_is_written_and_the_first_one_stays(told, run):
    model = load(run)
    lines, _ = told("update", run, written(NEW), "--out", "runs/two", "--device", "cpu")
    assert "saved  runs/two" in "\n".join(lines)
    assert same(load(run), model)
    assert load("runs/two").entities[-1] == "new"


def test_standard_input_and_other_formats(told, run, monkeypatch):
    class Input:
        buffer = io.BytesIO(NEW.encode())

    monkeypatch.setattr("sys.stdin", Input())
    told("update", run, "-", "--device", "cpu")
    told("update", run, written("tail,head,relation\ne7,newer,next\n", "new.csv"), "--device", "cpu")
    assert load(run).entities.names[-2:] == ("new", "newer")


def test_a_baseline_is_updated_too(told, procrustes):
    flags = ("--dim", "20", "--epochs", "3", "--device", "cpu", "--out", "runs/complex")
    procrustes("train", "ring.tsv", "--model", "complex", *flags)
    lines, _ = told("update", "runs/complex", written(NEW), "--device", "cpu")
    assert lines[1] == "added  2 triples, 1 new entity"


# Contradictions: told, and done as far as they can be.


def test_triples_that_are_known_are_counted_and_told(told, run):
    _, noted = told("update", run, written("e0\tnext\te1\n" + NEW), "--device", "cpu")
    assert noted == "note: 1 triple known already, such as (e0, next, e1)\n"


def test_where_nothing_changes_the_run_stays(told, run):
    before = {path: path.read_bytes() for path in Path(run).iterdir()}
    lines, noted = told("update", run, written("e0\tnext\te1\n"), "--remove", written("no\tsuch\ttriple\n", "gone.tsv"))
    assert lines == ["nothing to change; runs/ring is as it was"]
    assert "1 triple known already" in noted
    assert "1 triple to be removed that the graph does not hold" in noted
    assert {path: path.read_bytes() for path in Path(run).iterdir()} == before


@pytest.mark.slow
def test_spelling_relations_and_islands_are_told(told, run):
    text = "E1\tnext\te5\ne3\tNext\te5\na\tnext\tb\n"
    _, noted = told("update", run, written(text), "--device", "cpu")
    for words in (
        "1 new entity that differs from a known one in its spelling alone: 'E1' beside 'e1'",
        "1 new relation that differs from a known one in its spelling alone: 'Next' beside 'next'",
        "1 new relation with a single triple, so hardly known: 'Next'",
        "2 new entities that nothing known leads to, so placed at random: 'a', 'b'",
    ):
        assert words in noted


@pytest.mark.slow
def test_many_new_relations_of_one_triple_each(told, run):
    text = "".join(f"e{i}\trelation {i}\te{i + 3}\n" for i in range(12))
    lines, noted = told("update", run, written(text), "--device", "cpu")
    assert lines[1] == "added  12 triples, 12 new relations"
    assert "12 new relations with a single triple, so hardly known" in noted
    assert len(load(run).relations) == 15


@pytest.mark.slow
def test_an_entity_without_triples_is_gone_and_a_relation_stays(told, run):
    told("update", run, written("new\tonce more\te5\n"), "--device", "cpu")
    _, noted = told("update", run, "--remove", "new.tsv", "--device", "cpu")
    assert "1 entity without any triple now, so no longer there: 'new'" in noted
    assert "1 relation without training triples now, kept as learned: 'once more'" in noted
    assert "new" not in load(run).entities


@pytest.mark.slow
def test_a_first_line_that_has_a_known_name_is_no_header(told, run):
    text = "new\tnext\te0\n" + "".join(f"e{i}\tfar\te{i + 13}\n" for i in range(1, 14))
    lines, _ = told("update", run, written(text), "--device", "cpu")
    assert lines[1] == "added  14 triples, 1 new entity, 1 new relation".replace("1 new entity, ", "1 new entity and ")


# Mistakes: one sentence, and nothing is written.


def test_mistakes_in_files(refused, run):
    refused("update", run, "nowhere.tsv", setting="nowhere.tsv", seen="no such file", remedy="procrustes data")
    refused("update", run, written(""), setting="new.tsv", seen="holds no triples", remedy="expected a head")
    refused("update", run, written("a\tb\n"), setting="new.tsv, line 1", seen="2 columns", remedy="expected 3")
    refused("update", run, written("e0\tnext\t\n"), setting="line 1", seen="the tail is empty", remedy="fill it in")
    refused("update", run, written("e0\tnext\t \tx\n"), setting="line 1", seen="4 columns", remedy="--columns")
    refused(
        *("update", run, written("x\tnext\ty\n")),
        setting="2 entities of the update",
        seen="('x', 'y')",
        remedy="add triples that link them",
    )
    refused(
        *("update", run, written(NEW), "--remove", "new.tsv"),
        setting="to be added and to be removed",
        seen="(new, next, e5)",
        remedy="give each in one file alone",
    )


def test_mistakes_in_flags(refused, run):
    refused("update", run, setting="nothing to do", seen="nothing to do", remedy="give a file of triples")
    refused("update", run, "--undo", setting="runs/ring", seen="nothing to undo", remedy="not changed since")
    refused("update", run, written(NEW), "--undo", setting="--undo", seen="NEW", remedy="give it alone")
    refused("update", run, "--undo", "--history", setting="--undo", seen="--history", remedy="give it alone")
    refused("update", run, "-", "--remove", "-", setting="standard input", seen="both", remedy="give a file for one")
    refused("update", run, "new.tsv", "--epochs", "-1", setting="epochs", seen="-1", remedy="at least 0")
    refused("update", run, "new.tsv", "--out", "ring.tsv", setting="ring.tsv", seen="exists", remedy="another --out")
    refused("update", "runs/rung", "new.tsv", setting="runs/rung", seen="no such run", remedy="did you mean runs/ring")


def test_what_a_model_cannot_is_said_with_what_can(refused, procrustes):
    tiny = ("--dim", "20", "--epochs", "1", "--device", "cpu")
    procrustes("train", "ring.tsv", "--model", "sacn", *tiny, "--out", "runs/sacn")
    refused("update", "runs/sacn", written(NEW), setting="sacn", seen="neighbours", remedy="such as complex")
    procrustes("train", "ring.tsv", "--model", "distmult", *tiny, "--out", "runs/distmult")
    refused(
        *("update", "runs/distmult", written("e0\tnever\te5\n")),
        setting="distmult",
        seen="a new relation",
        remedy="leave its triples out",
    )


def test_the_recipe_accurate_is_updated_with_epochs(told, procrustes):
    procrustes("train", "ring.tsv", *TINY, "--recipe", "accurate", "--out", "runs/accurate")
    lines, _ = told("update", "runs/accurate", written(NEW), "--epochs", "2", "--device", "cpu")
    assert re.fullmatch(r"placed 1 entity in \d+\.\d s, 2 epochs of training included", lines[2])
