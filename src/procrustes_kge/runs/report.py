"""report.json: what is worth keeping about a training."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from procrustes_kge.graphs.graph import SPLITS, Graph
from procrustes_kge.models.ranking import PROTOCOL, Evaluation
from procrustes_kge.system.footprint import Footprint
from procrustes_kge.system.machine import processor_name
from procrustes_kge.training.recipes import METHODS, Settings, values_of
from procrustes_kge.training.supervised_settings import TrainSettings
from procrustes_kge.version import __version__


def method_name(settings: Settings) -> str:
    """Return the name of the method that settings belong to."""
    return next(name for name, kind in METHODS.items() if type(settings) is kind)


def build_report(
    graph: Graph,
    settings: Settings,
    epochs: int,
    metrics: Mapping[str, Evaluation],
    footprint: Footprint,
    device: torch.device,
    recipe: str | None = None,
) -> dict[str, Any]:
    """Return what is worth keeping about a training, ready for JSON."""
    return {
        "dataset": graph.name,
        "checksum": graph.checksum,
        "entities": len(graph.entities),
        "relations": len(graph.relations),
        "triples": {split: len(graph.split(split)) for split in SPLITS},
        "notes": [*graph.notes, *graph.remarks()],
        "model": settings.model if isinstance(settings, TrainSettings) else "procrustes",
        "recipe": recipe,
        "method": method_name(settings),
        "settings": values_of(settings),
        "seed": settings.seed,
        "epochs": epochs,
        "metrics": {split: evaluation.as_dict() for split, evaluation in metrics.items()},
        "protocol": PROTOCOL,
        "footprint": footprint.as_dict(),
        "device": device_name(device),
        "versions": {
            "procrustes-kge": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def device_name(device: torch.device) -> str:
    """Return the product name of a device."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else processor_name()
