"""A run folder to read, to damage and to write over."""

import shutil
from pathlib import Path

import pytest

from folders import FIT, REPORT, learned
from procrustes_kge.runs.store import save


@pytest.fixture(scope="session")
def master(tmp_path_factory):
    """A run folder to copy."""
    folder, (model, graph, settings) = tmp_path_factory.mktemp("master") / "run", learned(FIT)
    save(model, folder, graph, settings, REPORT)
    return folder


@pytest.fixture
def folder(master, tmp_path):
    """A run folder, alone in its parent."""
    return Path(shutil.copytree(master, tmp_path / "runs" / "one"))
