"""Laws of what `procrustes train` reads: standard input, chosen columns, labels of one's own, headers."""

import gzip
import io
import json
import sys
from pathlib import Path

import pytest

from commands import RING, TINY
from procrustes_kge.graphs.reading import read_graph
from procrustes_kge.runs.store import load_run

RENAMED = RING.replace("\t", ",")


def type_in(monkeypatch, data):
    stream = io.BytesIO(data)
    stream.name = "<stdin>"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))


def test_standard_input_is_read_as_a_file_is(procrustes, monkeypatch):
    type_in(monkeypatch, RING.encode())
    printed = procrustes("train", "-", *TINY)
    assert printed.startswith("stdin   40 entities · 3 relations · 82 triples\n")
    assert "\nsaved  runs/stdin\n" in printed
    assert load_run("runs/stdin").graph.checksum == read_graph("ring.tsv").checksum


def test_standard_input_without_triples_is_an_empty_file(refused, monkeypatch):
    type_in(monkeypatch, b"")
    refused("train", "-", *TINY, setting="stdin", seen="no triples", remedy="expected a head, a relation and a tail")


def test_standard_input_that_is_closed_is_missed(refused, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    refused("train", "-", *TINY, setting="standard input", seen="closed", remedy="give the path of a file")


def test_standard_input_is_read_in_the_format_that_it_has(procrustes, monkeypatch):
    type_in(monkeypatch, gzip.compress(b"".join(b"<e:%d> <e:next> <e:%d> .\n" % (i, (i + 1) % 30) for i in range(30))))
    printed = procrustes("train", "-", *TINY).splitlines()
    assert printed[0].startswith("stdin   30 entities")
    assert printed[1] == "  read as N-Triples, by its content"


def test_columns_are_chosen_on_the_command_line(procrustes):
    Path("weighed.csv").write_text(
        "w,package,relation,target\n" + "".join(f"1,{row}\n" for row in RENAMED.splitlines())
    )
    lines = procrustes("train", "weighed.csv", "--columns", "package,relation,target", *TINY).splitlines()
    assert lines[2] == "  columns read as head, relation, tail: package, relation, target"
    assert load_run("runs/weighed").graph.checksum == read_graph("ring.tsv").checksum


def test_a_header_that_is_not_known_is_asked_about(procrustes, refused):
    Path("mine.csv").write_text("package,needs,target\n" + RENAMED)
    question = {"setting": "mine.csv, line 1", "seen": "package, needs, target", "remedy": "--header"}
    refused("train", "mine.csv", *TINY, **question)
    assert "header line skipped" in procrustes("train", "mine.csv", "--header", *TINY)


@pytest.mark.parametrize("suffix", ["tsv", "json"])
def test_labels_are_saved_shown_and_understood(procrustes, suffix):
    labels = {"e0": "zero", "e1": "Zoë", "next": "is followed by"}
    text = json.dumps(labels) if suffix == "json" else "".join(f"{name}\t{label}\n" for name, label in labels.items())
    Path(f"names.{suffix}").write_text(text)
    printed = procrustes("train", "ring.tsv", "--labels", f"names.{suffix}", *TINY)
    assert "  labels for 2 of 40 entities and 1 of 3 relations\n" in printed
    assert "next (is followed by)   MRR" in procrustes("evaluate", "runs/ring", "--split", "train", "--relations")
    asked = ("predict", "runs/ring", "-H", "zero", "-r", "is followed by", "-k", 40, "--known")
    assert "   e1   Zoë" in procrustes(*asked)
    answered = json.loads(procrustes(*asked, "--json"))
    assert {key: answered[key] for key in answered if key != "answers"} == {
        "relation": "next",
        "relation_label": "is followed by",
        "head": "e0",
        "head_label": "zero",
        "left_out": [],
        "notes": [],
    }
    assert {answer["name"]: answer["label"] for answer in answered["answers"]}["e1"] == "Zoë"
