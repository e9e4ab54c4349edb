"""What is set for a whole process, before it loads PyTorch."""

from __future__ import annotations


def prepare_process() -> None:
    """Make idle OpenMP threads sleep instead of spinning."""
    from procrustes_kge.system import openmp  # noqa: F401
