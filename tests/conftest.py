"""Every test runs with shapes and types checked, on drawn examples that are the same in every run."""

import os
import signal
import sys
from pathlib import Path
from pkgutil import iter_modules

import pytest
from hypothesis import settings
from jaxtyping import config, install_import_hook

# Before PyTorch is loaded: threads that wait sleep, and where a process tests on each core, it has one thread.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Begun in the background of a shell, tests would ignore Ctrl-C, and so would the commands that they interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A whole number serves where a float is expected, as type checkers have it.
CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
SOURCES = Path(__file__).parents[1] / "src" / "procrustes_kge"

# Before anything imports the package: what is imported earlier stays unchecked. Triton compiles kernels as they stand.
ROOMS = [room.name for room in iter_modules([str(SOURCES)]) if room.name != "kernels"]
install_import_hook([f"procrustes_kge.{room}" for room in ROOMS], CHECKER)
sys.path.insert(0, str(Path(__file__).parent))

# `--hypothesis-profile search` looks at more, and at others each time.
settings.register_profile("laws", deadline=None, max_examples=30, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=300)
settings.load_profile("laws")


def pytest_ignore_collect(collection_path, config):
    """With `-m gpu`, import no file without such tests: others need more than a machine with a GPU may have."""
    if config.option.markexpr != "gpu":
        return None
    files = collection_path.rglob("test_*.py") if collection_path.is_dir() else [collection_path]
    return None if any("mark.gpu" in file.read_text(encoding="utf-8") for file in files) else True


@pytest.fixture
def unchecked():
    """Let anything reach the package that its users may give it, where the tests' type checker would speak first."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def pytest_runtest_setup(item):
    """Skip tests that need a GPU where there is none."""
    import torch

    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("there is no GPU here")
