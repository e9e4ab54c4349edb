"""Knowledge-graph embeddings in seconds, by closed-form Orthogonal Procrustes Analysis.

Each public name is loaded when it is first used: importing the package changes nothing and does not load PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from procrustes_kge.version import __version__

if TYPE_CHECKING:
    from procrustes_kge.errors import DivergedError, InputError
    from procrustes_kge.graphs.graph import Graph, split_graph
    from procrustes_kge.graphs.reading import read_graph, write_graph
    from procrustes_kge.models.answers import Answer
    from procrustes_kge.models.predictor import LinkPredictor
    from procrustes_kge.models.procrustes import Procrustes
    from procrustes_kge.models.ranking import Evaluation, Metrics, evaluate
    from procrustes_kge.runs.export import export
    from procrustes_kge.runs.store import load, save
    from procrustes_kge.training.contrastive import contrast
    from procrustes_kge.training.contrastive_settings import ContrastSettings
    from procrustes_kge.training.full_batch import fit
    from procrustes_kge.training.full_batch_settings import FitSettings
    from procrustes_kge.training.recipes import learn, recipe
    from procrustes_kge.training.restoring import restore_relations
    from procrustes_kge.training.supervised import train
    from procrustes_kge.training.supervised_settings import TrainSettings

_HOMES = {
    "errors": ["DivergedError", "InputError"],
    "graphs.graph": ["Graph", "split_graph"],
    "graphs.reading": ["read_graph", "write_graph"],
    "models.answers": ["Answer"],
    "models.predictor": ["LinkPredictor"],
    "models.procrustes": ["Procrustes"],
    "models.ranking": ["Evaluation", "Metrics", "evaluate"],
    "runs.export": ["export"],
    "runs.store": ["load", "save"],
    "training.contrastive": ["contrast"],
    "training.contrastive_settings": ["ContrastSettings"],
    "training.full_batch": ["fit"],
    "training.full_batch_settings": ["FitSettings"],
    "training.recipes": ["learn", "recipe"],
    "training.restoring": ["restore_relations"],
    "training.supervised": ["train"],
    "training.supervised_settings": ["TrainSettings"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

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
    "read_graph",
    "recipe",
    "restore_relations",
    "save",
    "split_graph",
    "train",
    "write_graph",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
