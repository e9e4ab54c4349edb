"""The Python in the README runs; its tables are compared with the result files by `scripts/check_results.py`."""

import re
from pathlib import Path

import pytest

from procrustes_kge.runs.store import load

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_five_lines_of_python_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (lines,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(compile(lines, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "canine.n.02" in printed
    assert (tmp_path / "runs" / "dogs" / "model.safetensors").is_file()


@pytest.mark.slow
def test_the_five_lines_run_with_a_baseline_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (lines,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    lines = lines.replace('"accurate", graph, dim=100, epochs=10', '"distmult", graph, "cpu", dim=20, epochs=1')
    assert "distmult" in lines
    exec(compile(lines, "README.md", "exec"), {})
    assert "MRR" in capsys.readouterr().out
    assert load(tmp_path / "runs" / "dogs").name == "distmult"
