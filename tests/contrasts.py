"""Ways to train with negatives and mini-batches, and what a model of any of them must be."""

from dataclasses import replace

import pytest
import torch

from laws import is_orthogonal
from procrustes_kge.training.contrastive import Contrastive
from procrustes_kge.training.contrastive_settings import ContrastSettings

CPU = torch.device("cpu")
UNIT = {"lengths": "unit", "relations": "positives"}
BY_DISTANCE = {"optimiser": "adam", "learning_rate": 0.05, "dropout": 0.0, "regularisation": 0.0}
# What an answer is contrasted with, and how entities and relations move.
WAYS = {
    "all": {},
    "all, adam": {"optimiser": "adam", "learning_rate": 0.05},
    "all, rotated alone": {"scale": False, "translate": False},
    "all, unit": UNIT,
    "all, smoothed": {"label_smoothing": 0.1},
    "all, relations too": {"relation_weight": 1.0},
    "all, with inverses": {"inverses": True},
    "all, cubes": {"regulariser_power": 3.0, "scale_regularisation": 0.05},
    "some": {"negatives": 20},
    "some, unit": {"negatives": 20, **UNIT},
    "some, sigmoid": {"negatives": 20, "loss": "sigmoid", **UNIT, **BY_DISTANCE},
    "none": {"negatives": "none", "loss": "squared", **UNIT, **BY_DISTANCE},
}
every_way = pytest.mark.parametrize("way", WAYS)
main_ways = pytest.mark.parametrize("way", ["all", "all, unit", "some", "some, sigmoid", "none"])


def small(way="all", **changes):
    """Return settings that train a toy in a moment."""
    settings = ContrastSettings(dim=40, segment=8, epochs=30, batch=128, validate_every=0, device="cpu", workers=1)
    return replace(settings, **(WAYS[way] | changes))


def trainer_of(graph, settings, part=0):
    """Return an untrained trainer of a group."""
    return Contrastive(graph, settings, CPU).trainer(part)


def is_sound(model):
    """Say whether everything is finite and rotations are orthogonal."""
    finite = all(bool(table.isfinite().all()) for table in model.tables().values())
    return finite and is_orthogonal(model.rotations)


def assert_close(one, other, tolerance=1e-3):
    """Tell where two models differ by more than rounding: training makes differences of the last digit grow."""
    for name, table in one.tables().items():
        torch.testing.assert_close(table, other.tables()[name], rtol=tolerance, atol=tolerance, msg=name)


def chance(graph):
    """Return the MRR of a scorer that knows nothing, of so many candidates at most."""
    return sum(1 / rank for rank in range(1, len(graph.entities) + 1)) / len(graph.entities)
