"""Laws of the light core: it works without any extra, and names the extra that a piece of work needs."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from commands import RING, TINY
from procrustes_kge.system.extras import EXTRAS, how_to_get

ROOT = Path(__file__).parents[2]
NAMED = {"faiss": "faiss-cpu"}  # packages that are installed by another name than they are imported by
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# What is not in the core is not there: neither the packages of extras, nor what comes with them, nor what tests use.
CORE_ALONE = f"""
import sys
for name in {[*EXTRAS, "backports", "pandas", "pyarrow", "scipy", "pykeen", "requests", "triton"]!r}:
    sys.modules[name] = None
from procrustes_kge.cli import main
main()
"""


def names_of(requirements):
    return {re.split(r"[^\w.-]", requirement)[0] for requirement in requirements}


def test_the_core_needs_little():
    assert names_of(PROJECT["dependencies"]) == {"torch", "numpy", "jaxtyping", "safetensors", "typer", "rich"}


def test_every_package_is_in_the_extra_that_is_named_for_it_and_all_has_all_but_tune():
    extras = PROJECT["optional-dependencies"]
    for package, extra in EXTRAS.items():
        if package not in sys.stdlib_module_names and not package.startswith("compression."):
            assert NAMED.get(package, package) in names_of(extras[extra]), package
    (whole,) = extras["all"]
    assert set(re.findall(r"\w+", whole.partition("[")[2])) == set(EXTRAS.values()) - {"tune"}


def test_what_runs_and_what_tests_the_package_installs_every_extra():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "--editable '.[all]'" in makefile
    assert "procrustes-kge[all,tune]" in PROJECT["optional-dependencies"]["test"]


@pytest.mark.slow
def test_the_core_alone_trains_answers_and_exports(tmp_path):
    paths = {name: value for name, value in os.environ.items() if not name.startswith("PROCRUSTES_")}
    paths["PYTHONPATH"] = str(ROOT / "src")

    def core_alone(*arguments):
        command = [sys.executable, "-c", CORE_ALONE, *arguments]
        said = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=paths, check=False)
        return said.returncode, said.stdout, said.stderr

    (tmp_path / "ring.tsv").write_text(RING)
    code, said, errors = core_alone("train", "ring.tsv", "--out", "run", *TINY)
    assert (code, errors) == (0, "")
    assert "g CO2" in said
    code, said, errors = core_alone("predict", "run", "--head", "e0", "--relation", "next", "-k", "1", "--known")
    assert (code, len(said.splitlines()), errors) == (0, 1, "")
    assert core_alone("export", "run", "vectors.npy")[::2] == (0, "")
    code, said, errors = core_alone("export", "run", "vectors.parquet")
    assert (code, said) == (2, "")
    assert errors == f"error: vectors.parquet: writing Parquet needs polars: {how_to_get('polars')}\n"
