"""Laws of the verbs that ask: many questions are answered as each alone, and every mistake is told in a line."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import polars
import pytest

from commands import contents
from procrustes_kge.cli import main
from procrustes_kge.explore.calibration import calibrate
from procrustes_kge.runs.store import keep_calibration, save
from toys import planted_model

RUN = "runs/planted"


@pytest.fixture
def told(capsys, planted):
    """Run a command of which some questions cannot be answered; return what it printed, and what it told of those."""

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        assert ended.value.code == 1
        return output.out, output.err

    return call


def written(name, *lines):
    Path(name).write_text("".join(f"{line}\n" for line in lines))
    return name


QUESTIONS = ("turn 4\tturn 2\t?", "?\tturn 2\tturn 6", "turn 4\t?\tturn 6", "Element 4\tturn 2, turn 5\t")


def test_questions_of_a_file_are_answered_as_each_alone(procrustes, planted):
    written("asked.tsv", *QUESTIONS)
    ask = ("predict", RUN, "-k", "3", "--known")
    alone = [
        procrustes(*ask, "-H", "turn 4", "-r", "turn 2"),
        procrustes(*ask, "-r", "turn 2", "-T", "turn 6"),
        procrustes(*ask, "-H", "turn 4", "-T", "turn 6"),
        procrustes(*ask, "-H", "turn 4", "-r", "turn 2", "-r", "turn 5"),
    ]
    printed = procrustes(*ask, "--questions", "asked.tsv")
    assert printed.count("\n") == 4 * 4
    headings = ("turn 4   turn 2   ?", "?   turn 2   turn 6", "turn 4   ?   turn 6", "turn 4   turn 2, turn 5   ?")
    for number, (heading, lines) in enumerate(zip(headings, alone, strict=True), start=1):
        assert f"{number}: {heading}\n{lines.splitlines()[0]}" in printed


def test_good_lines_are_answered_and_bad_ones_told(told):
    lines = [QUESTIONS[0], "trun 4\tturn 2\t?", "alone", QUESTIONS[1], "turn 4\tturn 2\tturn 6", "a\tb\tc\td"]
    written("asked.tsv", *lines)
    printed, errors = told("predict", RUN, "--questions", "asked.tsv", "-k", "1", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert [row["question"] for row in rows] == ["1", "4"]
    seen = [line.partition(": ") for line in errors.splitlines()]
    assert [place for place, *_ in seen] == [f"asked.tsv, line {number}" for number in (2, 3, 5, 6)]
    unknown, narrow, whole, wide = (reason for *_, reason in seen)
    assert unknown.startswith("unknown entity 'trun 4'. Did you mean 'turn 4'")
    assert narrow == "1 column, expected 3 (head, relation and tail)"
    assert "nothing is asked" in whole
    assert wide == "4 columns, expected 3 (head, relation and tail)"
    printed, _ = told("predict", RUN, "--questions", "asked.tsv", "-k", "1", "--json")
    assert [each["question"] for each in json.loads(printed)["refused"]] == [2, 3, 5, 6]
    assert [each["question"] for each in json.loads(printed)["answers"]] == [1, 4]


def test_answers_are_written_in_every_format_with_the_bad_lines_told(told):
    written("asked.tsv", QUESTIONS[0], "nobody\tturn 2\t?", QUESTIONS[2])
    for name in ("found.csv", "found.tsv", "found.json", "found.parquet"):
        printed, errors = told("predict", RUN, "--questions", "asked.tsv", "-k", "2", "--out", name)
        assert printed == f"wrote  {name}   2 questions, 4 answers\n"
        assert errors.startswith("asked.tsv, line 2: ")
    names = [row["answer"] for row in csv.DictReader(io.StringIO(Path("found.csv").read_text()))]
    assert names == polars.read_parquet("found.parquet")["answer"].to_list()
    assert names == [row["answer"] for row in json.loads(Path("found.json").read_text())]
    assert names == [line.split("\t")[5] for line in Path("found.tsv").read_text().splitlines()[1:]]


def test_questions_come_from_standard_input_too(procrustes, planted, monkeypatch):
    for text in ("turn 4\tturn 2\t?\n", "head,relation,tail\nturn 4,turn 2,\n"):
        stream = io.TextIOWrapper(io.BytesIO(text.encode()))
        stream.buffer.name = "<stdin>"
        monkeypatch.setattr("sys.stdin", stream)
        printed = procrustes("predict", RUN, "--questions", "-", "--known", "-k", "1")
        assert "turn 6" in printed.splitlines()[1]


def test_parquet_of_questions(procrustes, planted):
    frame = polars.DataFrame({"head": ["turn 4", None], "relation": ["turn 2"] * 2, "tail": [None, "turn 6"]})
    frame.write_parquet("asked.parquet")
    printed = procrustes("predict", RUN, "--questions", "asked.parquet", "--known", "-k", "1", "--format", "tsv")
    assert [line.split("\t")[5] for line in printed.splitlines()] == ["answer", "turn 6", "turn 4"]


def test_score_says_how_likely_a_triple_is(procrustes, planted, told):
    model, graph = planted
    keep_calibration(RUN, calibrate(model, graph))
    lines = procrustes("score", RUN, "turn 4", "turn 2", "turn 6").splitlines()
    assert lines[0].startswith("turn 4   turn 2   turn 6   (")
    assert [line.split()[0] for line in lines[1:]] == ["score", "probability", "tail", "head"]
    assert lines[1].split()[1] == "5.000"
    assert lines[3:] == ["tail rank     1 of 60", "head rank     1 of 60"]
    found = json.loads(procrustes("score", RUN, "turn 4", "turn 2", "turn 6", "--json"))
    assert 0.5 < found["probability"] <= 1
    offered = json.loads(procrustes("predict", RUN, "-H", "turn 4", "-r", "turn 2", "--known", "-k1", "--json"))
    assert offered["answers"][0]["probability"] == pytest.approx(found["probability"])
    assert "%" in procrustes("predict", RUN, "-H", "turn 4", "-r", "turn 2", "-k1").splitlines()[0]
    written("triples.tsv", "turn 4\tturn 2\tturn 6", "turn 4\tturn 2", "turn 5\tturn 2\tturn 6")
    printed, errors = told("score", RUN, "--questions", "triples.tsv")
    assert errors.startswith("triples.tsv, line 2: a triple without its tail")
    assert [line[0] for line in printed.splitlines()] == ["1", "3"]
    assert "tail 1 of 60   head 1 of 60   turn 4   turn 2   turn 6" in printed


def test_neighbours_and_analogies(procrustes, planted):
    lines = procrustes("neighbours", RUN, "turn 4", "-k", "3").splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "3"]
    found = json.loads(procrustes("neighbours", RUN, "element 4", "-k", "2", "--json"))
    assert (found["entity"], len(found["answers"])) == ("turn 4", 2)
    assert set(found["answers"][0]) == {"name", "label", "rank", "similarity"}
    written("names.txt", "turn 4", "turn 5")
    assert len(procrustes("neighbours", RUN, "--questions", "names.txt", "-k", "2").splitlines()) == 6
    line = procrustes("analogy", RUN, "turn 4", "turn 6", "turn 9", "-k", "1")
    assert line.split("   ")[1:4] == [" turn 11", "element 11", "turn 2"] or "turn 11   element 11   turn 2" in line
    found = json.loads(procrustes("analogy", RUN, "turn 4", "turn 6", "turn 9", "-k", "1", "--json"))
    assert (found["analogy"], found["answers"][0]["relation"]) == ("turn 4 is to turn 6 as turn 9 is to ?", "turn 2")
    left = procrustes("analogy", RUN, "turn 4", "turn 6", "turn 9", "--new", "-k", "1")
    assert "left out: 1 known answer, turn 11 (--known shows it)" in left
    written("three.tsv", "a\tb\tc", "turn 4\tturn 6\tturn 9")
    assert "turn 11" in procrustes("analogy", RUN, "--questions", "three.tsv", "-k", "1")


@pytest.mark.slow
def test_a_question_the_wrong_way_round_is_answered_and_told(capsys, run):
    with pytest.raises(SystemExit) as ended:
        main(["predict", str(run), "-H", "e7", "-r", "once", "-k", "1"])
    output = capsys.readouterr()
    assert ended.value.code == 0
    assert output.out.startswith("  1  ")
    assert output.err == (
        "note: no triple has 'e7' as head of 'once', 1 triple has it as tail; did you mean --tail 'e7'?\n"
    )


def test_known_answers_are_left_out_and_named_or_marked(procrustes, run):
    printed = procrustes("predict", run, "-H", "e0", "-r", "next", "-k", "2")
    assert printed.splitlines()[-1] == "left out: 2 known answers, e1, e0 (--known shows them)"
    assert "(train)" not in printed
    assert procrustes("predict", run, "-H", "e0", "-r", "next", "-k", "99", "--known").count("   (") == 2


ASK = ("-H", "turn 4", "-r", "turn 2")
MISTAKES = {  # what is run on a good run: what it names, the value seen, and a remedy
    "relation of a path": (("predict", "-H", "turn 4", "-r", "turn 2", "-r", "trun"), "relation", "'trun'", "Known"),
    "k of nothing": (("neighbours", "turn 4", "-k", "0"), "-k", "0", "at least 1"),
    "k of an analogy": (("analogy", "turn 4", "turn 6", "turn 9", "-k", "-3"), "-k", "-3", "at least 1"),
    "no entity": (("neighbours",), "no entity", "", "--questions FILE"),
    "two of an analogy": (("analogy", "turn 4", "turn 6"), "an analogy", "three entities", "--questions FILE"),
    "no tail to score": (("score", "turn 4", "turn 2"), "a triple", "a tail", "--questions FILE"),
    "two questions": (("predict", *ASK, "--questions", "ring.tsv"), "a question", "both", "one of the two"),
    "no such file": (("predict", "--questions", "gone.tsv"), "gone.tsv", "cannot be read", "check its name"),
    "a device": (("predict", "--questions", "/dev/null"), "/dev/null", "is a device", "pipe it in as `-`"),
    "an empty file": (("predict", "--questions", "empty.tsv"), "empty.tsv", "no questions", "one on each line"),
    "nothing but bad lines": (
        ("predict", "--questions", "ring.tsv", "--out", "found.csv"),
        *("ring.tsv", "83 questions, and none", "line 1: unknown entity 'e0'"),
    ),
    "Parquet that is none": (("predict", "--questions", "no.parquet"), "no.parquet", "cut off", "write or download"),
    "Parquet of names": (("neighbours", "--questions", "no.parquet"), "no.parquet", "three columns", "names as text"),
    "a format that is none": (("predict", *ASK, "--out", "found.xls"), "found.xls", "suffix", ".csv, .tsv"),
    "another format": (("predict", *ASK, "--format", "xml"), "--format", "'xml'", "Known: table, json"),
    "no such folder": (("predict", *ASK, "--out", "no/found.csv"), "no", "no such folder", "found.csv into"),
    "a file of the user's": (("score", "--out", "ring.tsv", "--questions", "ring.tsv"), "ring.tsv", "", "--force"),
    "a row too far": (("predict", "-H", "#60", "-r", "turn 2"), "entity", "60", "from 0 to 59"),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_is_told_in_a_line_and_nothing_is_written(kind, refused, here):
    model, graph = planted_model()
    save(model, RUN, graph)
    Path("empty.tsv").write_text("\n")
    Path("no.parquet").write_bytes(b"PAR1 nothing")
    (verb, *flags), setting, seen, remedy = MISTAKES[kind]
    refused(verb, RUN, *flags, setting=setting, seen=seen, remedy=remedy)


def test_an_ambiguous_name_is_told_with_its_candidates(refused, here):
    model, graph = planted_model()
    names = graph.entities.labelled({"turn 1": "Twin", "turn 2": "twin"})
    save(replace(model, entities=names), RUN, graph)
    said = {"setting": "entity 'TWIN'", "seen": "of 2 names", "remedy": "give one of them: 'turn 1', 'turn 2'"}
    refused("predict", RUN, "-H", "TWIN", "-r", "turn 2", **said)


def test_a_file_is_left_as_it_was_where_not_one_line_is_good(failed, planted):
    before = contents()
    failed("predict", RUN, "--questions", "ring.tsv", "--out", "found.parquet")
    assert contents() == before
