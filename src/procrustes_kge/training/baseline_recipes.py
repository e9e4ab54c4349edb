"""Settings of the baselines, by recipe: as published for each of two benchmarks, and one of the two for other graphs.

They start from what the models' authors and later comparisons used, with larger batches for today's GPUs. Recipes that
end in `-paper` train as the paper does, where that differs: with fewer negatives, which all weigh alike. Both weigh
triples as the models' authors do. The values are in `baseline_recipes.toml`.
"""

from __future__ import annotations

import tomllib
from importlib import resources

from procrustes_kge.training.benchmarks import by_kind
from procrustes_kge.training.supervised_settings import TrainSettings, baseline_settings

_VALUES = resources.files("procrustes_kge.training") / "baseline_recipes.toml"
PUBLISHED: dict[str, dict[str, TrainSettings]] = {  # by recipe, then by the kind of graph
    name: {kind: baseline_settings(name.removesuffix("-paper"), **each) for kind, each in by_kind(values).items()}
    for name, values in tomllib.loads(_VALUES.read_text(encoding="utf-8")).items()
}
