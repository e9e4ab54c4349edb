"""The README keeps its word: its Python runs, and its table is the one that the result files give."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_five_lines_of_python_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (lines,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(compile(lines, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "canine.n.02" in printed
    assert (tmp_path / "runs" / "dogs" / "model.safetensors").is_file()


def test_the_results_table_comes_from_the_result_files():
    printed = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "tables.py"], capture_output=True, text=True, check=True
    ).stdout
    (shown,) = re.findall(r"<!-- results -->\n(.*?)<!-- /results -->", README, flags=re.DOTALL)
    assert shown == printed
