"""Laws of `procrustes bench`."""

import json
import re
import signal

import pytest

from procrustes_kge.bench.speed import MachineRates, Timing
from procrustes_kge.bench.studies import find_study, study as studies
from procrustes_kge.bench.table import table_rows
from procrustes_kge.cli import bench as bench_verb, main
from procrustes_kge.errors import InputError
from procrustes_kge.runs.several import Several
from procrustes_kge.system import extras
from procrustes_kge.system.files import write_json_atomically
from rows import Brief, report_like, small_graph, unwanted

pytestmark = pytest.mark.slow


def test_speed_prints_one_table_or_json(procrustes, monkeypatch):
    rates = MachineRates(copy=1e9, products=1e10, half_products=4e10)
    timings = (Timing("work", 1.0, 1e9, 1e9, 0.5), Timing("other work", 2.0))
    monkeypatch.setattr(bench_verb, "measured", lambda graph, device, pykeen: (rates, iter(timings)))
    arguments = ("bench", "speed", "ring.tsv", "--device", "cpu")
    assert [line[:10].strip() for line in procrustes(*arguments).splitlines()[1:-1]] == ["", "work", "other work"]
    printed = json.loads(procrustes(*arguments, "--json"))
    assert printed["rates"]["copy"] == 1e9
    assert [each["seconds"] for each in printed["timings"]] == [1.0, 2.0]
    assert procrustes(*arguments).splitlines()[-1] == printed["verdict"]


@pytest.fixture
def table(monkeypatch, capsys):
    """Run `bench table` on a small graph and with little training; return what it says."""
    monkeypatch.setattr(bench_verb, "read_with_bar", small_graph)
    monkeypatch.setattr(bench_verb, "TerminalWatcher", Brief)

    def call(*arguments, code=0):
        with pytest.raises(SystemExit) as ended:
            main(["bench", "table", *arguments])
        output = capsys.readouterr()
        assert ended.value.code == code
        assert (output.err == "") == (code == 0)
        return output.err if code == 2 else output.out

    return call


def test_the_table_trains_what_is_missing_and_prints_the_table(table, here, monkeypatch):
    only = ("--only", "distmult-wn18rr", "--device", "cpu")
    first = table(*only)
    assert first.startswith("distmult-wn18rr         MRR ")
    assert "\nWN18RR " in first
    assert (here / "results" / "distmult-wn18rr.json").is_file()
    monkeypatch.setattr(bench_verb, "TerminalWatcher", lambda: Brief(unwanted))
    assert first.endswith(table(*only))
    printed = json.loads(table(*only, "--json"))
    (row,) = printed["rows"]
    assert (row["recipe"], row["dataset"], row["title"], row["problem"]) == ("distmult", "wn18rr", "DistMult", None)
    assert row["paper"] == {"mrr": 0.43, "minutes": 79, "g_co2": 309}
    assert row["figures"]["seeds"] == 1


def test_a_table_that_was_stopped_goes_on_where_it_was(table, here, monkeypatch, capsys):
    whole = json.loads(table("--only", "fast-wn18rr", "--device", "cpu", "--json", "--folder", "whole"))
    seeds, put = [], Several.report

    def counted(several, name, train):
        seeds.append(name)
        if len(seeds) == 2:
            signal.raise_signal(signal.SIGINT)
        return put(several, name, train)

    with monkeypatch.context() as patch:
        patch.setattr(Several, "report", counted)
        with pytest.raises(SystemExit) as ended:
            main(["bench", "table", "--only", "fast-wn18rr", "--device", "cpu", "--json"])
    assert ended.value.code == 130
    assert "results.unfinished holds what was learned; `procrustes resume results` goes on\n" in capsys.readouterr().err
    assert [path.name for path in (here / "results.unfinished").glob("*.json")] == ["fast-wn18rr-0.json"]
    trained = []
    monkeypatch.setattr(bench_verb, "TerminalWatcher", lambda: Brief(lambda settings: trained.append(settings.seed)))
    with pytest.raises(SystemExit):
        main(["resume", "results"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert trained == [0, 1, 2]  # an epoch that is not timed, and the seeds that were left
    assert rows[0]["figures"]["mrr"] == whole["rows"][0]["figures"]["mrr"]
    assert {path.name for path in here.iterdir()} >= {"results", "whole"}
    assert not (here / "results.unfinished").exists()


def test_printing_trains_nothing(table, here):
    write_json_atomically(
        here / "mine" / "rotate-fb15k-237.json",
        {"commit": None, "runs": [report_like(0.3, recipe="rotate", dataset="fb15k-237")]},
    )
    printed = table("--print", "--folder", "mine")
    assert len(printed.splitlines()) == len(table_rows()) + 6  # two headings, two empty lines, two notes
    assert re.search(r"RotatE +\.300 +\.100 ", printed)
    assert table("--print", "--folder", "mine", "--markdown").startswith("| WN18RR | MRR |")
    rows = json.loads(table("--print", "--folder", "mine", "--json"))["rows"]
    assert [row["recipe"] for row in rows if row["figures"]] == ["rotate"]
    assert not (here / "results").exists()


def test_what_is_printed_by_default_comes_with_the_package(table, here):
    figures = {row.name: row for row in table_rows()}
    printed = json.loads(table("--print", "--json"))
    assert printed["folder"] is None
    assert all(row["figures"] for row in printed["rows"])
    assert len(printed["rows"]) == len(figures)
    assert re.search(r"RotatE +\.\d{3}", table("--print"))
    assert "--folder" in table("--print").splitlines()[-1]  # how to see one's own
    assert "--folder" not in table("--print", "--markdown")
    assert not (here / "results").exists()
    write_json_atomically(
        here / "results" / "rotate-wn18rr.json",
        {"commit": None, "runs": [report_like(0.123, recipe="rotate", dataset="wn18rr")]},
    )
    assert ".123" not in table("--print")
    assert ".123" in table("--print", "--folder", "results")


def test_a_row_that_fails_ends_in_code_1(table, monkeypatch):
    def failing(settings):
        if settings.model == "transe":
            raise InputError("it is too large")

    monkeypatch.setattr(bench_verb, "TerminalWatcher", lambda: Brief(failing))
    only = ("--only", "transe-wn18rr", "--only", "distmult-wn18rr", "--device", "cpu")
    printed = table(*only, code=1)
    assert "\nTransE    –" in printed
    rows = json.loads(table(*only, "--json", code=1))["rows"]
    assert [row["problem"] for row in rows] == ["it is too large", None]


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--only", "nobody"), {"setting": "row", "seen": "'nobody'", "remedy": "Known: wn18rr, fb15k-237, transe"}),
        (("--json", "--markdown"), {"setting": "--markdown", "seen": "--json", "remedy": "give one of them"}),
        (
            ("--only", "fast", "--device", "banana"),
            {"setting": "device", "seen": "'banana'", "remedy": "expected cpu, cuda, cuda:N or auto"},
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_mistakes_are_refused(flags, named, refused):
    refused("bench", "table", *flags, **named)


# Studies.


@pytest.fixture
def counted_study(monkeypatch, here):
    """Put a study of three rows that are only counted in the place of `seeds`; return what was measured."""
    pytest.importorskip("matplotlib", reason="figures need the extra `plots`")
    measured, asked = [], []

    def row(number):
        def measure(bench):
            measured.append(number)
            if asked[-1:] == [number]:
                signal.raise_signal(signal.SIGINT)
            if number == 1:
                raise InputError("it is too large")
            return {"mrr": number / 10, "seconds": 1.0}

        return studies.Row(f"fast, seed {number}", {"name": "fast", "seed": number}, measure)

    study = studies.Study("seeds", lambda place: [row(number) for number in range(3)], find_study("seeds").draw)
    monkeypatch.setattr(bench_verb, "find_study", lambda name: study)
    monkeypatch.setattr(bench_verb, "read_with_bar", small_graph)
    return measured, asked


def test_a_study_prints_its_rows_and_draws(procrustes, counted_study, here):
    printed = procrustes("bench", "seeds", "wn18rr", "--device", "cpu").splitlines()
    assert printed[0].split() == ["fast,", "seed", "0", "MRR", ".000", "1", "s"]
    assert printed[1].endswith("not measured: it is too large")
    assert printed[3:] == ["drawn  studies/seeds-wn18rr.svg", "drawn  studies/seeds-wn18rr.png"]
    assert {file.name for file in (here / "studies").iterdir()} == {
        f"seeds-wn18rr.{end}" for end in ("json", "svg", "png")
    }
    again = procrustes("bench", "seeds", "wn18rr", "--device", "cpu").splitlines()
    assert again == ["studies/seeds-wn18rr.json has 3 of 3 rows", *printed[3:]]
    found = json.loads(procrustes("bench", "seeds", "wn18rr", "--device", "cpu", "--json"))
    assert [row["problem"] for row in found["rows"]] == [None, "it is too large", None]
    assert found["figures"] == ["studies/seeds-wn18rr.svg", "studies/seeds-wn18rr.png"]
    assert counted_study[0] == [0, 1, 2]


def test_a_study_that_was_interrupted_goes_on_to_the_same_figure(procrustes, counted_study, here, capsys):
    measured, asked = counted_study
    procrustes("bench", "seeds", "wn18rr", "--device", "cpu", "--out", "whole")
    asked.append(2)
    with pytest.raises(SystemExit) as ended:
        main(["bench", "seeds", "wn18rr", "--device", "cpu"])
    assert ended.value.code == 130
    said = capsys.readouterr().err
    assert "studies/seeds-wn18rr.json has 2 of 3 rows; the same command goes on\n" in said
    asked.clear()
    measured.clear()
    assert procrustes("bench", "seeds", "wn18rr", "--device", "cpu").startswith("studies/seeds-wn18rr.json has 2 of 3")
    assert measured == [2]
    for end in ("svg", "png"):
        one, other = ((here / place / f"seeds-wn18rr.{end}").read_bytes() for place in ("whole", "studies"))
        assert one == other


def test_studies_are_drawn_again_without_measuring(procrustes, counted_study, here):
    procrustes("bench", "seeds", "wn18rr", "--device", "cpu")
    drawn = procrustes("bench", "draw", "--out", "pictures").splitlines()
    assert drawn == ["drawn  pictures/seeds-wn18rr.svg", "drawn  pictures/seeds-wn18rr.png"]
    assert procrustes("bench", "draw", "studies/seeds-wn18rr.json").startswith("drawn  studies/seeds-wn18rr.svg\n")


def test_studies_that_cannot_be_read_are_refused(refused, counted_study, here):
    refused("bench", "draw", setting="studies", seen="no such study", remedy="procrustes bench --help")
    (here / "studies").mkdir()
    refused("bench", "draw", setting="studies", seen="has no file of a study", remedy="procrustes bench dims")
    (here / "studies" / "seeds-wn18rr.json").write_text('{"format": 1, "study": "seeds", "ro')
    for command in (("draw",), ("seeds", "wn18rr", "--device", "cpu")):
        refused("bench", *command, setting="seeds-wn18rr.json", seen="damaged", remedy="delete it")
    assert counted_study[0] == []


def test_without_matplotlib_nothing_is_measured(refused, counted_study, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    refused("bench", "seeds", "wn18rr", setting="a figure", seen="matplotlib", remedy="procrustes-kge[plots]")
    assert counted_study[0] == []
