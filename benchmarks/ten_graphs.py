"""Ten graphs that settings are learned from: small and large, dense and sparse, of 11 to 351 relations."""

from __future__ import annotations

import os
import tarfile
import tempfile
from pathlib import Path

from procrustes_kge import Graph, read_graph

REGISTERED = ("wn18rr", "fb15k-237", "umls", "kinship", "nations", "wordnet-mini")
TUNING = ("WN18", "NELL-995", "DBpedia50")  # archives in the folder `tuning` of PROCRUSTES_DATA
DEBIAN = "debian"  # that `debian_graph.py` writes, in PROCRUSTES_DATA or where --debian says
TEN = (*REGISTERED, *TUNING, DEBIAN)


def read(name: str, debian: Path | None = None) -> Graph:
    """Read one of the ten."""
    data = Path(os.environ.get("PROCRUSTES_DATA", "."))
    if name in TUNING:
        with tempfile.TemporaryDirectory() as folder, tarfile.open(data / "tuning" / f"{name}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
            return read_graph(Path(folder, name))
    if name == DEBIAN:
        return read_graph(debian or data / "debian.tsv.gz")
    return read_graph(name)
