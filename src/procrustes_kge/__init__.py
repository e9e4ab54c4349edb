"""Knowledge-graph embeddings in seconds, by closed-form Orthogonal Procrustes Analysis."""

from procrustes_kge import openmp  # isort: skip  # before anything loads PyTorch

from procrustes_kge.contrast import ContrastSettings, contrast
from procrustes_kge.errors import DivergedError, InputError
from procrustes_kge.export import export
from procrustes_kge.fit import FitSettings, fit
from procrustes_kge.graph import Graph, split_graph
from procrustes_kge.model import Answer, Procrustes
from procrustes_kge.ranking import Evaluation, LinkPredictor, Metrics, evaluate
from procrustes_kge.reading import read_graph, write_graph
from procrustes_kge.recipes import learn, recipe
from procrustes_kge.restoring import restore_relations
from procrustes_kge.store import load, save
from procrustes_kge.train import train
from procrustes_kge.train_settings import TrainSettings
from procrustes_kge.version import __version__

__all__ = [
    "Answer",
    "ContrastSettings",
    "DivergedError",
    "Evaluation",
    "FitSettings",
    "Graph",
    "InputError",
    "LinkPredictor",
    "Metrics",
    "Procrustes",
    "TrainSettings",
    "__version__",
    "contrast",
    "evaluate",
    "export",
    "fit",
    "learn",
    "load",
    "openmp",
    "read_graph",
    "recipe",
    "restore_relations",
    "save",
    "split_graph",
    "train",
    "write_graph",
]
