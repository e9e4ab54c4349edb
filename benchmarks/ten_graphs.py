"""Ten graphs that settings are learned from: small and large, dense and sparse, of 11 to 351 relations."""

from __future__ import annotations

import os
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from procrustes_kge import ContrastSettings, Graph, read_graph, recipe
from procrustes_kge.graphs.queries import group_by_query
from procrustes_kge.training.recipes import changed
from procrustes_kge.training.spaces import SPACES

REGISTERED = ("wn18rr", "fb15k-237", "umls", "kinship", "nations", "wordnet-mini")
TUNING = ("WN18", "NELL-995", "DBpedia50")  # archives in the folder `tuning` of PROCRUSTES_DATA
DEBIAN = "debian"  # that `debian_graph.py` writes, in PROCRUSTES_DATA or where --debian says
FORMER = {
    "epochs": 30,
    "learning_rate": 0.2,
    "dropout": 0.2,
    "label_smoothing": 0.0,
    "segment": 20,
    "relations": "step",
}
FORMER_PAIR = ({"crowd": 0.5, "regularisation": 0.1}, {"crowd": 1.0, "regularisation": 0.05})
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


def rule(graph: Graph) -> int:
    """Return which of two settings `accurate` took: one for few answers per query, one for many."""
    queries = len(group_by_query(graph.train, len(graph.entities), len(graph.relations)))
    return 0 if len(graph.train) < queries else 1  # fewer than two answers to a query


def usual(changes: dict[str, Any]) -> dict[str, Any]:
    """Return a trial's settings in full: what it does not say is as it was in `accurate` before there was a record."""
    defaults = {name: getattr(ContrastSettings(), name) for name in SPACES[ContrastSettings] if name != "batch"}
    return {**defaults, **FORMER, **changes}


def former(graph: Graph, device: str = "auto", **more: Any) -> ContrastSettings:
    """Return the settings of `accurate` before there was a record: by a rule on the number of answers per query."""
    settings = recipe("accurate", graph, device)
    if not isinstance(settings, ContrastSettings):
        raise TypeError(settings)
    return changed(settings, **{**usual(FORMER_PAIR[rule(graph)]), **more})
