"""What is collected, and how many processes test: one for each core that this one may use."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

KERNELS = sorted(Path(__file__).parent.glob("src/procrustes_kge/kernels/[!_]*.py"))  # these import Triton
collect_ignore = [] if find_spec("triton") else [str(kernel) for kernel in KERNELS]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many processes `-n auto` starts; one alone tests by itself."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if cores > 1 else 0
