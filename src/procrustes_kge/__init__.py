"""Knowledge-graph embeddings in seconds, by closed-form Orthogonal Procrustes Analysis."""

from procrustes_kge.errors import InputError
from procrustes_kge.export import export
from procrustes_kge.fit import FitSettings, fit, recipe
from procrustes_kge.graph import Graph, split_graph
from procrustes_kge.model import Answer, Procrustes, restore_relations
from procrustes_kge.ranking import Evaluation, LinkPredictor, Metrics, evaluate
from procrustes_kge.reading import read_graph, write_graph
from procrustes_kge.store import load, save
from procrustes_kge.version import __version__

__all__ = [
    "Answer",
    "Evaluation",
    "FitSettings",
    "Graph",
    "InputError",
    "LinkPredictor",
    "Metrics",
    "Procrustes",
    "__version__",
    "evaluate",
    "export",
    "fit",
    "load",
    "read_graph",
    "recipe",
    "restore_relations",
    "save",
    "split_graph",
    "write_graph",
]
