"""Studies: what the paper claims beyond its table, measured on any graph and drawn. A module for each, named here.

A module of a study has `STUDY`, a `study.Study`: which rows it measures on a graph, and how they are drawn.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from procrustes_kge.errors import InputError
from procrustes_kge.words import unknown

if TYPE_CHECKING:
    from procrustes_kge.bench.studies.study import Study

# Each with what it answers; the command shows these lines without loading the modules.
STUDIES = {
    "efficiency": "How much accuracy a second and a gram of CO2 give, for all models (Fig. 2 of the paper).",
    "bandwidth": "How many triples a second training processes, ours and the strongest baselines.",
    "dims": "What the dimension and the size of segments do to accuracy and time (Fig. 3 of the paper).",
    "ablation": "What batches, negatives, losses, centring, length normalisation and the closed form are worth.",
    "schedule": "How long strong baselines need to be as accurate as ours: learning curves against seconds.",
    "seeds": "How far ten seeds of our recipes lie apart, so that a reader knows what a difference means.",
    "restored": "Whether entities store the relations: models with relations computed again, beside those trained.",
}


def find_study(name: str) -> "Study":
    """Return a study by its name."""
    if name not in STUDIES:
        raise InputError(unknown("study", name, STUDIES))
    found: Study = import_module(f"{__name__}.{name}").STUDY
    return found
