"""README and docs keep their word: the Python runs, and the tables are those that the result files give."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from procrustes_kge.models.ranking import figure
from procrustes_kge.runs.store import load

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_five_lines_of_python_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (lines,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(compile(lines, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "canine.n.02" in printed
    assert (tmp_path / "runs" / "dogs" / "model.safetensors").is_file()


def test_the_five_lines_run_with_a_baseline_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (lines,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    lines = lines.replace('"accurate", graph, dim=100, epochs=10', '"distmult", graph, "cpu", dim=20, epochs=1')
    assert "distmult" in lines
    exec(compile(lines, "README.md", "exec"), {})
    assert "MRR" in capsys.readouterr().out
    assert load(tmp_path / "runs" / "dogs").name == "distmult"


STUDIES = ("accurate", "small", "paper+tb", "paper+ns", "paper+ns+tb")


TABLES = {
    "../README.md": ["results", "table"],
    "baselines.md": ["best", "tried"],
    "negatives.md": ["default", "restoring", *(f"search {study}" for study in STUDIES)],
    "speed.md": [
        *("speed cuda wn18rr", "speed cuda fb15k-237", "speed cpu wn18rr"),
        *("growth cpu", "growth-runs cpu", "growth cuda", "memory cpu wn18rr"),
    ],
}


@pytest.mark.parametrize(("page", "table"), [(page, table) for page, tables in TABLES.items() for table in tables])
def test_tables_come_from_their_result_files(page, table):
    command = [sys.executable, ROOT / "benchmarks" / "tables.py", *table.split()]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    name = re.escape(table)
    (shown,) = re.findall(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", text, flags=re.DOTALL)
    assert shown == printed


ABOVE_TWO = pytest.mark.xfail(reason="2.009 ± .006 of the processor's seconds; 1.998 ± .004 by the clock", strict=True)


@pytest.mark.parametrize(
    ("device", "clock", "name"),
    [
        *(("cpu", "doublings", name) for name in ("dim", "triples", "relations")),
        *(("cpu", "processor_doublings", name) for name in ("triples", "relations")),
        pytest.param("cpu", "processor_doublings", "dim", marks=ABOVE_TWO),
        *(("cuda", "doublings", name) for name in ("dim", "triples", "relations")),
    ],
)
def test_doubling_a_size_at_most_doubled_the_epoch(device, clock, name):
    found = json.loads((ROOT / "benchmarks" / "results" / f"growth-{device}.json").read_text(encoding="utf-8"))
    assert max(each["ratio"] for each in found[clock][name]) <= 2


def test_the_table_of_steps_comes_from_its_result_file():
    rows = json.loads((ROOT / "benchmarks" / "results" / "steps.json").read_text(encoding="utf-8"))["rows"]
    text = (ROOT / "docs" / "maths.md").read_text(encoding="utf-8")
    for step in ("adam", "turn"):
        (line,) = re.findall(rf"^\| `{step}` \| (.+)$", text, flags=re.MULTILINE)
        shown = re.findall(r"(\.\d{3}) after (\d+)", line)
        assert shown == [(figure(row["valid_mrr"]), str(row["epochs"])) for row in rows if row["step"] == step]
