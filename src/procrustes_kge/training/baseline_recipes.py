"""Settings of the baselines, by recipe: for graphs like WN18RR, and for those like FB15k-237 with many relations.

They start from what the models' authors and later comparisons used, with larger batches for today's GPUs. Recipes that
end in `-paper` train as the paper compares, where that differs: with fewer negatives, which all weigh alike.
Triples are weighed as their authors do in either.
"""

from __future__ import annotations

from dataclasses import replace

from procrustes_kge.training.supervised_settings import TrainSettings

_ALL = TrainSettings(penalty="n3", decay=0.1, learning_rate=0.1, epochs=40)
_LABELS = TrainSettings(
    against="labels",
    loss="logistic",
    smoothing=0.1,
    step="adam",
    learning_rate=0.003,
    rate_decay=0.99,
    batch=512,
    epochs=100,
)
_DRAWN = TrainSettings(
    against=1024,
    shared=True,
    loss="logistic",
    focus=1.0,
    step="adam",
    learning_rate=0.003,
    rate_decay=0.97,
    epochs=60,
    patience=4,
)


def _against_all(settings: TrainSettings, learning_rate: float) -> TrainSettings:
    """Return settings of a network that learns faster from each answer against all entities."""
    return replace(
        settings,
        against="all",
        loss="softmax",
        batch=1024,
        learning_rate=learning_rate,
        rate_decay=0.95,
        epochs=60,
    )


def _alike(settings: TrainSettings, rate_decay: float, epochs: int) -> TrainSettings:
    """Return settings of the paper's protocol: fewer negatives, which all weigh alike."""
    return replace(settings, against=256, focus=0.0, rate_decay=rate_decay, epochs=epochs)


_TRANSE = replace(_DRAWN, model="transe", loss="softmax", focus=0.0, rate_decay=1.0)
_DISTMULT = replace(_ALL, model="distmult", dim=512, query_dropout=0.4, learning_rate=0.2, epochs=30)
_COMPLEX = replace(_ALL, model="complex", dim=2000)
_RGCN = TrainSettings(model="rgcn", dim=500, inverses=False, edge_dropout=0.4, step="adam", learning_rate=0.01)
_CONVE = replace(_LABELS, model="conve", input_dropout=0.2, feature_dropout=0.2, query_dropout=0.3)
_A2N = replace(_ALL, model="a2n", dim=512, query_dropout=0.4)  # as many neighbours as most questions have: `most`
_SACN = replace(
    _against_all(_LABELS, 0.002),
    model="sacn",
    kernel=5,
    filters=200,
    feature_dropout=0.25,
    query_dropout=0.25,
    graph_dropout=0.25,
)
_TUCKER = replace(_LABELS, model="tucker")
_QUATE = replace(_ALL, model="quate", dim=2000, patience=4)
_INTERACTE = replace(_LABELS, model="interacte", filters=96, input_dropout=0.2)
_ROTH = replace(_DRAWN, model="roth", dim=500, learning_rate=0.002)
_ROTATE = replace(_DRAWN, model="rotate", even=True, inverses=False)
_ROTATES = (
    replace(_ROTATE, dim=1000, margin=6.0, learning_rate=0.0003),
    replace(_ROTATE, dim=2000, margin=9.0, learning_rate=0.0002, against=512),
)
_OTE = replace(_DRAWN, model="ote", dim=400, even=True)
_OTES = (
    replace(_OTE, group=4, margin=5.0, learning_rate=0.001),
    replace(_OTE, group=20, margin=15.0, learning_rate=0.002, against=512),
)

PUBLISHED: dict[str, tuple[TrainSettings, TrainSettings]] = {
    "transe": (
        replace(
            _TRANSE,
            dim=256,
            against=2048,
            batch=2048,
            norm=2,
            step="adagrad",
            learning_rate=0.25,
            epochs=80,
            input_dropout=0.25,
        ),
        replace(_TRANSE, dim=128, learning_rate=0.001, rate_decay=0.9, epochs=20),
    ),
    "distmult": (replace(_DISTMULT, penalty="dura", decay=0.05), replace(_DISTMULT, decay=0.02)),
    "complex": (replace(_COMPLEX, penalty="dura", batch=256, epochs=30), replace(_COMPLEX, decay=0.05, epochs=30)),
    "rgcn": (replace(_RGCN, batch=2048, epochs=25), replace(_RGCN, batch=4096, epochs=15)),
    "conve": (
        replace(
            _CONVE,
            dim=512,
            height=16,
            loss="softmax",
            smoothing=0.0,
            batch=2048,
            learning_rate=0.0022,
            rate_decay=0.99,
            epochs=200,
            input_dropout=0.1,
            feature_dropout=0.33,
            query_dropout=0.15,
        ),
        replace(
            _against_all(_CONVE, 0.0014),
            dim=288,
            height=12,
            smoothing=0.5,
            batch=2048,
            input_dropout=0.3,
            feature_dropout=0.4,
            query_dropout=0.5,
        ),
    ),
    "a2n": (
        replace(_A2N, most=32, decay=0.2, batch=256, edge_dropout=0.6),
        replace(
            _A2N,
            most=64,
            dim=256,
            penalty="none",
            decay=0.0,
            step="adam",
            learning_rate=0.001,
            rate_decay=0.93,
            epochs=35,
        ),
    ),
    "sacn": (replace(_SACN, batch=2048, epochs=40), replace(_SACN, batch=2048, rate_decay=0.97, epochs=80)),
    "tucker": (
        replace(
            _TUCKER,
            relation_dim=30,
            learning_rate=0.005,
            rate_decay=0.988,
            epochs=200,
            input_dropout=0.2,
            relation_dropout=0.2,
            query_dropout=0.3,
        ),
        replace(
            _TUCKER,
            batch=256,
            learning_rate=0.001,
            epochs=200,
            patience=8,
            input_dropout=0.3,
            relation_dropout=0.4,
            query_dropout=0.5,
        ),
    ),
    "quate": (replace(_QUATE, penalty="dura"), replace(_QUATE, decay=0.05, epochs=30)),
    "interacte": (
        replace(
            _INTERACTE,
            kernel=11,
            batch=256,
            learning_rate=0.001,
            rate_decay=0.995,
            epochs=400,
            patience=0,
            feature_dropout=0.2,
            query_dropout=0.3,
        ),
        replace(
            _against_all(_INTERACTE, 0.0007),
            kernel=9,
            smoothing=0.3,
            rate_decay=0.985,
            average=0.85,
            epochs=100,
            feature_dropout=0.5,
            query_dropout=0.5,
        ),
    ),
    "roth": (
        replace(_ROTH, even=True, focus=0.5, against=4096, learning_rate=0.003, rate_decay=0.95, epochs=70),
        replace(_ROTH, rate_decay=0.94, epochs=30),
    ),
    "rotate": (_ROTATES[0], replace(_ROTATES[1], learning_rate=0.0001, rate_decay=0.98, epochs=100)),
    "rotate-paper": (_alike(_ROTATES[0], 0.97, 40), _alike(_ROTATES[1], 0.978, 85)),
    "ote": (replace(_OTES[0], epochs=80), replace(_OTES[1], focus=0.5, epochs=90)),
    "ote-paper": (_alike(_OTES[0], 0.96, 50), _alike(_OTES[1], 0.94, 30)),
}
