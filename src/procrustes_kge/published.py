"""Settings that take each baseline near its published figure on one GPU.

Two for each: for graphs like WN18RR, and for graphs like FB15k-237 with its many relations. They are where searching
starts, from what the models' authors and later comparisons used; batches are larger than theirs, for today's GPUs.
"""

from __future__ import annotations

from dataclasses import replace

from procrustes_kge.train import TrainSettings

_LABELS = TrainSettings(
    against="labels", loss="logistic", smoothing=0.1, step="adam", learning_rate=0.003, batch=512, epochs=200
)
_DRAWN = TrainSettings(against=256, loss="logistic", step="adam", learning_rate=0.0005, batch=1024, epochs=200)
_ALL = TrainSettings(against="all", penalty="n3", decay=0.1, learning_rate=0.1, batch=1024, epochs=40)

PUBLISHED: dict[str, tuple[TrainSettings, TrainSettings]] = {
    "transe": (
        replace(_DRAWN, model="transe", dim=512, loss="softmax", against=200, step="adagrad", learning_rate=0.25),
        replace(_DRAWN, model="transe", dim=128, loss="softmax", against=200, learning_rate=0.001),
    ),
    "distmult": (
        replace(_ALL, model="distmult", dim=512, query_dropout=0.4, decay=0.05, learning_rate=0.2, epochs=30),
        replace(_ALL, model="distmult", dim=512, query_dropout=0.4, decay=0.02, learning_rate=0.2, epochs=30),
    ),
    "complex": (
        replace(_ALL, model="complex", dim=2000),
        replace(_ALL, model="complex", dim=2000, decay=0.05, epochs=30),
    ),
    "rgcn": (
        replace(_ALL, model="rgcn", dim=500, inverses=False, penalty="none", edge_dropout=0.4, step="adam",
                learning_rate=0.01, batch=2048, epochs=25),
        replace(_ALL, model="rgcn", dim=500, inverses=False, penalty="none", edge_dropout=0.4, step="adam",
                learning_rate=0.01, batch=4096, epochs=15),
    ),
    "conve": (
        replace(_LABELS, model="conve", input_dropout=0.2, feature_dropout=0.2, query_dropout=0.3),
        replace(_LABELS, model="conve", input_dropout=0.2, feature_dropout=0.2, query_dropout=0.3),
    ),
    "a2n": (
        replace(_ALL, model="a2n", dim=512, penalty="none", step="adam", learning_rate=0.001, query_dropout=0.3),
        replace(_ALL, model="a2n", dim=512, penalty="none", step="adam", learning_rate=0.001, query_dropout=0.3),
    ),
    "sacn": (
        replace(_LABELS, model="sacn", kernel=5, filters=200, learning_rate=0.002, feature_dropout=0.25,
                query_dropout=0.25, graph_dropout=0.25),
        replace(_LABELS, model="sacn", kernel=5, filters=200, learning_rate=0.002, feature_dropout=0.25,
                query_dropout=0.25, graph_dropout=0.25),
    ),
    "tucker": (
        replace(_LABELS, model="tucker", relation_dim=30, input_dropout=0.2, relation_dropout=0.2, query_dropout=0.3),
        replace(_LABELS, model="tucker", learning_rate=0.0005, input_dropout=0.3, relation_dropout=0.4,
                query_dropout=0.5),
    ),
    "quate": (
        replace(_ALL, model="quate", dim=2000),
        replace(_ALL, model="quate", dim=2000, decay=0.05, epochs=30),
    ),
    "interacte": (
        replace(_LABELS, model="interacte", permutations=4, kernel=11, filters=96, learning_rate=0.001,
                input_dropout=0.2, feature_dropout=0.2, query_dropout=0.3),
        replace(_LABELS, model="interacte", permutations=1, kernel=9, filters=96, learning_rate=0.0003,
                input_dropout=0.2, feature_dropout=0.5, query_dropout=0.5),
    ),
    "roth": (
        replace(_ALL, model="roth", dim=500, penalty="none", step="adam", learning_rate=0.001),
        replace(_ALL, model="roth", dim=500, penalty="none", step="adam", learning_rate=0.001),
    ),
    "rotate": (
        replace(_DRAWN, model="rotate", dim=1000, margin=6.0, inverses=False),
        replace(_DRAWN, model="rotate", dim=2000, margin=9.0, inverses=False),
    ),
    "ote": (
        replace(_DRAWN, model="ote", dim=400, group=4, margin=5.0),
        replace(_DRAWN, model="ote", dim=400, group=20, margin=15.0),
    ),
}  # fmt: skip
