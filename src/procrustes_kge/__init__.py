"""Knowledge-graph embeddings in seconds, by closed-form Orthogonal Procrustes Analysis.

Each public name is loaded when it is first used: importing the package changes nothing and does not load PyTorch.
"""

from procrustes_kge.version import __version__ as __version__

TYPE_CHECKING = False  # typing's word, which type checkers know; loading it would take longer than all the rest
if TYPE_CHECKING:
    from procrustes_kge.errors import DivergedError as DivergedError, InputError as InputError
    from procrustes_kge.explore.calibration import (
        calibrate as calibrate,
        expected_calibration_error as expected_calibration_error,
        reliability as reliability,
    )
    from procrustes_kge.explore.evidence.evidence import Explanation as Explanation, explain as explain
    from procrustes_kge.explore.importing.importing import from_vectors as from_vectors
    from procrustes_kge.explore.missing.missing import missing as missing
    from procrustes_kge.explore.questions.answers import Answers as Answers
    from procrustes_kge.explore.questions.judging import score as score
    from procrustes_kge.explore.questions.nearest import neighbours as neighbours
    from procrustes_kge.explore.questions.predicting import analogy as analogy, predict as predict
    from procrustes_kge.explore.relations.leakage import leakage as leakage
    from procrustes_kge.explore.relations.relations import relation_properties as relation_properties
    from procrustes_kge.explore.scores.asked import ask as ask
    from procrustes_kge.explore.space.clusters import find_clusters as find_clusters
    from procrustes_kge.explore.space.projection import project as project
    from procrustes_kge.explore.space.space import Space as Space, space_of as space_of
    from procrustes_kge.explore.updates.updates import update as update
    from procrustes_kge.explore.updates.updating import add as add, remove as remove
    from procrustes_kge.figures.map import write_map as write_map
    from procrustes_kge.figures.report import report as report
    from procrustes_kge.graphs.graph import Graph as Graph, split_graph as split_graph
    from procrustes_kge.graphs.reading import read_graph as read_graph, write_graph as write_graph
    from procrustes_kge.models.calibration import Calibration as Calibration
    from procrustes_kge.models.predictor import Answer as Answer, LinkPredictor as LinkPredictor
    from procrustes_kge.models.procrustes import Procrustes as Procrustes
    from procrustes_kge.models.ranking import Evaluation as Evaluation, Metrics as Metrics, evaluate as evaluate
    from procrustes_kge.runs.checkpoints import FolderCheckpoints as FolderCheckpoints
    from procrustes_kge.runs.export import export as export, to_pykeen as to_pykeen
    from procrustes_kge.runs.history import undo as undo
    from procrustes_kge.runs.store import load as load, load_run as load_run, save as save
    from procrustes_kge.training.contrastive import contrast as contrast
    from procrustes_kge.training.contrastive_settings import ContrastSettings as ContrastSettings
    from procrustes_kge.training.full_batch import fit as fit
    from procrustes_kge.training.full_batch_settings import FitSettings as FitSettings
    from procrustes_kge.training.paths import with_paths as with_paths
    from procrustes_kge.training.recipes import learn as learn, recipe as recipe
    from procrustes_kge.training.restoring import restore_relations as restore_relations
    from procrustes_kge.training.supervised import train as train
    from procrustes_kge.training.supervised_settings import TrainSettings as TrainSettings
    from procrustes_kge.training.tuned import Tuned as Tuned
    from procrustes_kge.training.tuning import tune as tune

_PUBLIC = {
    "errors": "DivergedError InputError",
    "explore.importing.importing": "from_vectors",
    "explore.questions.answers": "Answers",
    "explore.scores.asked": "ask",
    "explore.calibration": "calibrate expected_calibration_error reliability",
    "explore.questions.judging": "score",
    "explore.questions.nearest": "neighbours",
    "explore.questions.predicting": "analogy predict",
    "explore.evidence.evidence": "Explanation explain",
    "explore.space.clusters": "find_clusters",
    "explore.space.projection": "project",
    "explore.space.space": "Space space_of",
    "figures.map": "write_map",
    "explore.relations.leakage": "leakage",
    "explore.relations.relations": "relation_properties",
    "explore.updates.updates": "update",
    "explore.updates.updating": "add remove",
    "figures.report": "report",
    "explore.missing.missing": "missing",
    "graphs.graph": "Graph split_graph",
    "graphs.reading": "read_graph write_graph",
    "models.calibration": "Calibration",
    "models.predictor": "Answer LinkPredictor",
    "models.procrustes": "Procrustes",
    "models.ranking": "Evaluation Metrics evaluate",
    "runs.checkpoints": "FolderCheckpoints",
    "runs.export": "export to_pykeen",
    "runs.history": "undo",
    "runs.store": "load load_run save",
    "training.contrastive": "contrast",
    "training.contrastive_settings": "ContrastSettings",
    "training.full_batch": "fit",
    "training.full_batch_settings": "FitSettings",
    "training.paths": "with_paths",
    "training.recipes": "learn recipe",
    "training.restoring": "restore_relations",
    "training.supervised": "train",
    "training.supervised_settings": "TrainSettings",
    "training.tuned": "Tuned",
    "training.tuning": "tune",
}
_HOMES = {name: home for home, names in _PUBLIC.items() for name in names.split()}
__all__ = ["__version__", *_HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
