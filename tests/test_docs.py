"""The Python in the README runs; its tables are compared with the result files by `scripts/check_results.py`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from procrustes_kge.runs.store import load

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


(LINES,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def printed_by(lines, folder):
    """Return what lines of Python print, run as a user runs them: here, with every type checked, they take minutes."""
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", lines], cwd=folder, env=paths, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.slow
def test_the_five_lines_of_python_run(tmp_path):
    assert "canine.n.02" in printed_by(LINES, tmp_path)
    assert (tmp_path / "runs" / "dogs" / "model.safetensors").is_file()


@pytest.mark.slow
def test_the_five_lines_run_with_a_baseline_too(tmp_path):
    lines = LINES.replace('"accurate", graph, dim=100, epochs=10', '"distmult", graph, "cpu", dim=20, epochs=1')
    assert "distmult" in lines
    assert "MRR" in printed_by(lines, tmp_path)
    assert load(tmp_path / "runs" / "dogs").name == "distmult"
