"""Models of PyTorch as numpy sees them: any model that `encode`s, makes `query`s and `scores` them."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from procrustes_kge.errors import InputError
from procrustes_kge.explore.scores.asked import Asked, Ids, Scores
from procrustes_kge.explore.scores.products import products_of
from procrustes_kge.graphs.facts import Facts
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.calibration import Calibration
from procrustes_kge.models.predictor import LinkPredictor, facts_of
from procrustes_kge.system.precision import exact_products


class ModelScorer:
    """The scores of a model; its tables are computed once."""

    def __init__(self, model: LinkPredictor, graph: Graph | None = None) -> None:
        self.model, self.graph = model, graph

    @cached_property
    def _encoded(self) -> Any:
        with torch.no_grad():
            return self.model.encode(self.graph)

    def scores(self, entities: Ids, directions: Ids) -> Scores:
        """Return how well each entity answers each query: higher is better."""
        asked = (torch.from_numpy(np.ascontiguousarray(ids, dtype=np.int64)) for ids in (entities, directions))
        with torch.no_grad(), exact_products():
            points = self.model.query(self._encoded, *asked)
            scores: np.ndarray = self.model.scores(self._encoded, points).float().cpu().numpy()
            return scores

    @cached_property
    def table(self) -> np.ndarray | None:
        """What scores are products with, where they are products."""
        found = products_of(self.model, self._encoded)
        return None if found is None or found.biases is not None else found.table.float().cpu().numpy()

    def query(self, entities: Ids, directions: Ids) -> np.ndarray:
        """Return the points that entities are compared with."""
        asked = (torch.from_numpy(np.ascontiguousarray(ids, dtype=np.int64)) for ids in (entities, directions))
        with torch.no_grad(), exact_products():
            points: np.ndarray = self.model.query(self._encoded, *asked).float().cpu().numpy()
            return points

    def vectors(self) -> Float[np.ndarray, "n d"]:
        """Return the vectors of all entities."""
        table = getattr(self.model, "table", None)
        if table is None:
            name = type(self.model).__name__
            seen = f"{name} has no vectors of entities (a property `table`), so none are nearest to another"
            raise InputError(f"{seen}; Procrustes and the thirteen baselines have them, with and without paths")
        vectors: np.ndarray = table.detach().float().cpu().numpy()
        return vectors


def asked_model(
    model: Any, graph: Graph | None = None, calibration: Calibration | None = None, folder: Path | None = None
) -> Asked:
    """Return a model that is asked; names are its own, or else those of the graph."""
    named = model if hasattr(model, "entities") and hasattr(model, "relations") else graph
    if named is None:
        raise InputError(f"{type(model).__name__} does not know the names of entities; give its graph as graph=…")
    if graph is not None and (graph.entities.names, graph.relations.names) != (
        named.entities.names,
        named.relations.names,
    ):
        raise InputError(f"the graph {graph.name} has other names than the model; give the one it was trained on")
    facts = facts_of(graph) if graph else Facts({}, len(named.entities), len(named.relations))
    kind = getattr(model, "kind", type(model).__name__)
    return Asked(named.entities, named.relations, facts, ModelScorer(model, graph), kind, calibration, folder)
