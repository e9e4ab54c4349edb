"""Every way to train, small enough to be tried in a moment."""

from procrustes_kge.training.contrastive import Contrastive
from procrustes_kge.training.contrastive_settings import ContrastSettings
from procrustes_kge.training.full_batch import FullBatch
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.supervised import Supervised
from procrustes_kge.training.supervised_settings import baseline_settings
from toys import random_graph

NOISY = random_graph(entities=40, relations=2, triples=500, seed=2)
CPU = {"device": "cpu", "seed": 1}
LABELS = {"negatives": "kvsall", "loss": "sigmoid"}
CONTRAST = {"dim": 24, "segment": 4, "batch": 128, **CPU}
METHODS = {
    "full batch": (FullBatch, FitSettings(dim=40, segment=8, pilot=16, **CPU)),
    "full batch, adam": (FullBatch, FitSettings(dim=24, segment=8, pilot=500, optimiser="adam", loss="norm", **CPU)),
    "contrastive": (Contrastive, ContrastSettings(**CONTRAST)),
    "contrastive, drawn, in groups": (Contrastive, ContrastSettings(groups=2, negatives=16, **CONTRAST)),
    "contrastive, with inverses, relations too": (
        Contrastive,
        ContrastSettings(inverses=True, relation_weight=2.0, init_scale=1e-3, scale_regularisation=0.1, **CONTRAST),
    ),
    "contrastive, positives": (
        Contrastive,
        ContrastSettings(relations="positives", lengths="unit", loss="squared", negatives="none", **CONTRAST),
    ),
    "rotate": (Supervised, baseline_settings("rotate", dim=16, negatives=8, loss="sigmoid", optimiser="adam", **CPU)),
    "conve": (
        Supervised,
        baseline_settings("conve", dim=40, height=4, query_dropout=0.2, weight_average=0.5, **LABELS, **CPU),
    ),
}
