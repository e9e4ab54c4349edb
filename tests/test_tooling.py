"""Laws of the checks themselves: what they are there to refuse is refused."""

import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # `make test` installs neither ruff nor mypy
ROOT = Path(__file__).parents[1]
SHAPES = '''"""Shapes of every kind are strings that no check takes for names."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def scaled(
    one: Float[Tensor, " n"], two: Float[Tensor, "n d"], any_size: Float[Tensor, " _"], many: Float[Tensor, "*batch d"]
) -> Float[Tensor, ""]:
    """Return a sum."""
    return one.sum() + two.sum() + any_size.sum() + many.sum()
'''
UNDEFINED = "def first(values: Iterable[float]) -> float:\n    return next(iter(values))\n"


def run(tool, *arguments, text=""):
    """Run a tool of ours under our settings, as if this text stood in the package; return what it says."""
    if not find_spec(tool):
        pytest.skip(f"{tool} is not installed; pip install 'procrustes-kge[check]' brings it")
    command = [sys.executable, "-m", tool, *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT, check=False)


@pytest.mark.parametrize(
    ("text", "found"), [(SHAPES, False), (SHAPES + UNDEFINED, True)], ids=["shapes", "an undefined name"]
)
def test_ruff_sees_undefined_names_and_no_others_in_shapes(text, found):
    name = "src/procrustes_kge/scratch.py"
    said = run("ruff", "check", "--no-cache", "--stdin-filename", name, "--output-format", "concise", "-", text=text)
    assert ("F821 Undefined name `Iterable`" in said.stdout) == found, said
    assert said.stdout.count("F821") == int(found), said
    if not found:
        assert said.returncode == 0, said


@pytest.mark.parametrize(
    ("text", "found"), [(SHAPES, False), (SHAPES + UNDEFINED, True)], ids=["shapes", "an undefined name"]
)
def test_mypy_sees_undefined_names_and_no_others_in_shapes(text, found, tmp_path):
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    switched_off = [f"--disable-error-code={code}" for code in ours.get("disable_error_code", ())]
    (tmp_path / "mypy.ini").write_text("[mypy]\n[mypy-torch.*,numpy.*]\nfollow_imports = skip\n")  # they take long
    (tmp_path / "scratch.py").write_text(text, encoding="utf-8")
    places = ("--config-file", str(tmp_path / "mypy.ini"), "--cache-dir", str(tmp_path / "cache"))
    said = run("mypy", *places, *switched_off, str(tmp_path / "scratch.py"))
    assert ('Name "Iterable" is not defined' in said.stdout) == found, said
    assert said.stdout.count("[name-defined]") == int(found), said


LITTLE = """
import sys, pytest
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("typer", "rich", "polars", "pyoxigraph", "codecarbon", "pandas", "pykeen", "xdist"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
sys.exit(pytest.main(["-m", "gpu", "-p", "no:xdist", "-p", "no:cacheprovider", "--collect-only", "tests"]))
"""


def test_tests_of_a_gpu_are_collected_where_little_is_installed():
    paths = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", LITTLE]
    said = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=paths, check=False)
    assert said.returncode == 0, said
    for name in ("test_contrastive_trainer", "test_cuda_graphs", "test_on_a_gpu", "test_procrustes", "test_supervised"):
        assert f"{name}.py" in said.stdout, said
