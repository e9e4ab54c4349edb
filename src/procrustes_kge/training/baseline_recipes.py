"""Settings of the baselines, by recipe: for graphs like WN18RR, and for those like FB15k-237 with many relations.

They start from what the models' authors and later comparisons used, with larger batches for today's GPUs. Recipes that
end in `-paper` train as the paper does, where that differs: with fewer negatives, which all weigh alike. Both weigh
triples as the models' authors do. The values are in `baseline_recipes.toml`.
"""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

from procrustes_kge.training.supervised_settings import TrainSettings, baseline_settings


def _both(name: str, values: dict[str, Any]) -> tuple[TrainSettings, TrainSettings]:
    few, many = values.pop("few"), values.pop("many")
    model = name.removesuffix("-paper")
    return baseline_settings(model, **values, **few), baseline_settings(model, **values, **many)


_VALUES = resources.files("procrustes_kge.training") / "baseline_recipes.toml"
# Settings for graphs like WN18RR, and for graphs like FB15k-237.
PUBLISHED: dict[str, tuple[TrainSettings, TrainSettings]] = {
    name: _both(name, values) for name, values in tomllib.loads(_VALUES.read_text(encoding="utf-8")).items()
}
