"""Settings that a search tries first: learned from random trials on several graphs, and kept in `portfolio.toml`."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any


def portfolio() -> list[dict[str, Any]]:
    """Return settings that complement one another; the first is the best single default."""
    file = resources.files("procrustes_kge.training") / "portfolio.toml"
    entries: list[dict[str, Any]] = tomllib.loads(file.read_text(encoding="utf-8"))["settings"]
    return entries
