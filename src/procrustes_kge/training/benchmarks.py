"""Which of the two benchmarks a graph is, if one: settings that were published are for these, each with its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from procrustes_kge.graphs.datasets import DATASETS
from procrustes_kge.graphs.graph import SPLITS, Graph

BENCHMARKS = ("wn18rr", "fb15k-237")
OTHER = "other"  # any other graph, or none yet


def kind_of_graph(graph: Graph | None) -> str:
    """Return the benchmark that a graph is, or `other`.

    It is known by five counts: entities, relations, and the triples of each split. Copies share them whatever the order
    of their lines, their spelling of names, and their format, and no graph has all five by chance.
    """
    if graph is None:
        return OTHER
    counts = len(graph.entities), len(graph.relations), *(len(graph.split(split)) for split in SPLITS)
    known = {name: (DATASETS[name].entities, DATASETS[name].relations, *DATASETS[name].triples) for name in BENCHMARKS}
    return next((name for name, expected in known.items() if counts == expected), OTHER)


def by_kind(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the values for other graphs and for each benchmark; what is under no benchmark is for all.

    >>> by_kind({"dim": 2, "other": "wn18rr", "wn18rr": {"epochs": 3}, "fb15k-237": {"epochs": 4}})["other"]
    {'dim': 2, 'epochs': 3}
    """
    shared = {name: value for name, value in values.items() if name not in (OTHER, *BENCHMARKS)}
    found = {name: shared | values[name] for name in BENCHMARKS}
    return {OTHER: found[values[OTHER]], **found}
