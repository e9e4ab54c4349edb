"""The figures of the paper's Table 2, and its names of the models."""

import tomllib
from importlib import resources
from typing import NamedTuple


class Printed(NamedTuple):
    """The paper's MRR of a model on a dataset, and its minutes and grams of CO2 on a GTX 1080 Ti."""

    mrr: float
    minutes: int
    g_co2: int


DATASETS = {"wn18rr": "WN18RR", "fb15k-237": "FB15k-237"}
_MODELS = tomllib.loads((resources.files("procrustes_kge.bench") / "paper.toml").read_text(encoding="utf-8"))
NAMES: dict[str, str] = {model: about["name"] for model, about in _MODELS.items()}
PAPER = {  # of each model, or recipe of our own, on the two datasets
    model: tuple(Printed(*about[dataset]) for dataset in DATASETS)
    for model, about in _MODELS.items()
    if about.keys() >= DATASETS.keys()
}
