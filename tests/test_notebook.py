"""The notebook runs from its first cell to its last, as a reader runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

NOTEBOOK = Path(__file__).parents[1] / "docs" / "tutorial.ipynb"
TRAINING, SHORT = "dim=100, epochs=30", 'device="cpu", dim=40, epochs=2'
RUN = """
import sys
cells, names = sys.argv[1:], {"__name__": "__main__"}
for number, cell in enumerate(cells, start=1):
    exec(compile(cell, f"cell {number}", "exec"), names)
assert len(names["answers"].refused) == 1
"""


def cells(kind):
    return ["".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == kind]


@pytest.mark.parametrize("training", [SHORT, pytest.param(TRAINING, marks=pytest.mark.slow)])
def test_the_cells_run_in_their_order(training, tmp_path):
    code = cells("code")
    assert sum(TRAINING in cell for cell in code) == 1
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", RUN, *(cell.replace(TRAINING, training) for cell in code)]
    ended = subprocess.run(command, cwd=tmp_path, env=paths, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "minnesota.n.01" in ended.stdout
    assert (tmp_path / "runs" / "notebook" / "calibration.json").is_file()


def test_the_notebook_is_one():
    notebook = json.loads(NOTEBOOK.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    assert all(
        cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code" and "print" in cell["source"]
    )
    assert len(cells("markdown")) > 3
