"""Procrustes models of every kind with their graphs, each made once, and what each declares of itself."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import pytest
import torch

from procrustes_kge.models.procrustes import Procrustes, both_ways
from procrustes_kge.training.contrastive import contrast
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch import fit
from procrustes_kge.training.full_batch_settings import FitSettings
from toys import planted_model, random_graph, random_orthogonal, rotated_graph

SETTINGS = FitSettings(dim=40, segment=10, epochs=30, patience=0, validate_every=0, device="cpu")
CONTRAST = ContrastSettings(dim=40, segment=10, epochs=15, batch=64, validate_every=0, device="cpu", workers=1)
UNIT = {
    **{"lengths": "unit", "relations": "positives", "optimiser": "adam", "learning_rate": 0.05},
    **{"regularisation": 0, "dropout": 0},
}


def fitted(**changes):
    graph = rotated_graph()
    return fit(graph, replace(SETTINGS, **changes)), graph


def contrasted(**changes):
    graph = rotated_graph()
    return contrast(graph, replace(CONTRAST, **changes)), graph


def drawn(seed=0, translate=False, scale=False, inverses=False):
    """Return a model that was never trained, and a graph that nobody planted.

    With scales each direction has a map of its own; without them heads are asked by the tails' map read backwards.
    """
    generator = torch.Generator().manual_seed(seed)
    graph, segments, width = random_graph(30, 5, 200, seed), 4, 3
    relations = len(graph.relations)
    shape = (len(graph.entities), segments, width)
    vectors = torch.nn.functional.normalize(torch.randn(shape, generator=generator), dim=-1)
    rotations = random_orthogonal(width, generator, ((1 + inverses) * relations, segments)).float()
    shifts = torch.randn(2 * relations, segments, width, generator=generator) if translate else None
    scales = torch.randn(2 * relations, segments, width, generator=generator) if scale else None
    if shifts is not None and scales is None:
        shifts = both_ways(rotations, shifts[:relations])
    return Procrustes(graph.entities, graph.relations, vectors, rotations, shifts, scales), graph


# A model is added by a line: how to make it with its graph, and what it declares.


class Declared(NamedTuple):
    make: object
    exact: bool = False  # a triple has the same score whether it is asked for its tail or for its head
    backwards: bool = True  # heads are sought by the same map as tails, read backwards
    unit: bool = True  # every segment of an entity has length one
    learned: bool = False  # it was planted, or learned what was


MODELS = {
    "planted": Declared(planted_model, exact=True, learned=True),
    "drawn": Declared(drawn, exact=True),
    "drawn, translated": Declared(lambda: drawn(translate=True)),
    "drawn, scaled": Declared(lambda: drawn(scale=True), backwards=False),
    "drawn, scaled and translated": Declared(lambda: drawn(scale=True, translate=True), backwards=False),
    "drawn, with inverses": Declared(lambda: drawn(inverses=True), backwards=False),
    "fitted": Declared(lambda: fitted(translate=False), exact=True, learned=True),
    "fitted, translated": Declared(lambda: fitted(translate=True), learned=True),
    "contrasted": Declared(lambda: contrasted(scale=False, translate=False), exact=True, unit=False, learned=True),
    "contrasted, scaled and translated": Declared(contrasted, backwards=False, unit=False, learned=True),
    "contrasted, in groups, scaled and translated": Declared(
        lambda: contrasted(groups=2), backwards=False, unit=False, learned=True
    ),
    "contrasted, with inverses": Declared(
        lambda: contrasted(inverses=True, scale=False, translate=False), backwards=False, unit=False, learned=True
    ),
    "contrasted, of unit length, translated": Declared(
        lambda: contrasted(loss="sigmoid", negatives=20, scale=False, **UNIT), backwards=False, learned=True
    ),
}
made = cache(lambda name: MODELS[name].make())
every_model = pytest.mark.parametrize("name", MODELS)


def models_that(**declared):
    """Run a test on the models that declare all this."""
    names = [name for name in MODELS if declared.items() <= MODELS[name]._asdict().items()]
    assert names
    return pytest.mark.parametrize("name", names)


def queries_of(model, graph, seed=0, count=40):
    """Return random queries of both directions."""
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randint(len(graph.entities), (count,), generator=generator),
        torch.randint(2 * len(graph.relations), (count,), generator=generator),
    )


def scores_of(model, graph, entities, relations, candidates=None):
    encoded = model.encode(graph)
    return model.scores(encoded, model.query(encoded, entities, relations), candidates)


def close(left, right, tolerance=1e-5):
    torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)
