"""Settings of the baselines, by recipe: for graphs like WN18RR, and for those like FB15k-237 with many relations.

They start from what the models' authors and later comparisons used, with larger batches for today's GPUs. Recipes that
end in `-paper` train as the paper does, where that differs: with fewer negatives, which all weigh alike. Both weigh
triples as the models' authors do.
"""

from __future__ import annotations

from typing import Any

from procrustes_kge.training.supervised_settings import TrainSettings, baseline_settings

Values = dict[str, Any]

# fmt: off
_ALL = Values(regulariser="n3", regularisation=0.1, learning_rate=0.1, epochs=40)
_KVSALL = Values(negatives="kvsall", loss="sigmoid", label_smoothing=0.1, optimiser="adam", learning_rate=0.003,
    learning_rate_decay=0.99, batch=512, epochs=100)
_DRAWN = Values(negatives=1024, shared_negatives=True, loss="sigmoid", adversarial_temperature=1.0, optimiser="adam",
    learning_rate=0.003, learning_rate_decay=0.97, epochs=60, patience=4)
# fmt: on


def _against_all(settings: Values, learning_rate: float) -> Values:
    """Return settings of a network that learns faster from each answer against all entities."""
    return Values(
        settings,
        negatives="all",
        loss="softmax",
        batch=1024,
        learning_rate=learning_rate,
        learning_rate_decay=0.95,
        epochs=60,
    )


def _alike(settings: Values, rate_decay: float, epochs: int) -> Values:
    """Return settings of the paper's protocol: fewer negatives, which all weigh alike."""
    return Values(settings, negatives=256, adversarial_temperature=0.0, learning_rate_decay=rate_decay, epochs=epochs)


# fmt: off
_TRANSE = Values(_DRAWN, loss="softmax", adversarial_temperature=0.0, learning_rate_decay=1.0)
_DISTMULT = Values(_ALL, dim=512, query_dropout=0.4, learning_rate=0.2, epochs=30)
_COMPLEX = Values(_ALL, dim=2000)
_RGCN = Values(dim=500, inverses=False, edge_dropout=0.4, optimiser="adam", learning_rate=0.01)
_CONVE = Values(_KVSALL, input_dropout=0.2, feature_dropout=0.2, query_dropout=0.3)
_A2N = Values(_ALL, dim=512, query_dropout=0.4)  # as many neighbours as most questions have: `max_neighbours`
_SACN = Values(_against_all(_KVSALL, 0.002), kernel=5, filters=200, feature_dropout=0.25, query_dropout=0.25,
    graph_dropout=0.25)
_TUCKER = Values(_KVSALL)
_QUATE = Values(_ALL, dim=2000, patience=4)
_INTERACTE = Values(_KVSALL, filters=96, input_dropout=0.2)
_ROTH = Values(_DRAWN, dim=500, learning_rate=0.002)
_ROTATE = Values(_DRAWN, subsampling=True, inverses=False)
_ROTATES = (
    Values(_ROTATE, dim=1000, margin=6.0, learning_rate=0.0003),
    Values(_ROTATE, dim=2000, margin=9.0, learning_rate=0.0002, negatives=512),
)
_OTE = Values(_DRAWN, dim=400, subsampling=True)
_OTES = (
    Values(_OTE, group=4, margin=5.0, learning_rate=0.001),
    Values(_OTE, group=20, margin=15.0, learning_rate=0.002, negatives=512),
)

_PUBLISHED: dict[str, tuple[Values, Values]] = {
    "transe": (
        Values(_TRANSE, dim=256, negatives=2048, batch=2048, norm=2, optimiser="adagrad", learning_rate=0.25, epochs=80,
            input_dropout=0.25),
        Values(_TRANSE, dim=128, learning_rate=0.001, learning_rate_decay=0.9, epochs=20),
    ),
    "distmult": (
        Values(_DISTMULT, regulariser="dura", regularisation=0.05),
        Values(_DISTMULT, regularisation=0.02),
    ),
    "complex": (
        Values(_COMPLEX, regulariser="dura", batch=256, epochs=30),
        Values(_COMPLEX, regularisation=0.05, epochs=30),
    ),
    "rgcn": (Values(_RGCN, batch=2048, epochs=25), Values(_RGCN, batch=4096, epochs=15)),
    "conve": (
        Values(_CONVE, dim=512, height=16, loss="softmax", label_smoothing=0.0, batch=2048, learning_rate=0.0022,
            learning_rate_decay=0.99, epochs=200, input_dropout=0.1, feature_dropout=0.33, query_dropout=0.15),
        Values(_against_all(_CONVE, 0.0014), dim=288, height=12, label_smoothing=0.5, batch=2048, input_dropout=0.3,
            feature_dropout=0.4, query_dropout=0.5),
    ),
    "a2n": (
        Values(_A2N, max_neighbours=32, regularisation=0.2, batch=256, edge_dropout=0.6),
        Values(_A2N, max_neighbours=64, dim=256, regulariser="none", regularisation=0.0, optimiser="adam",
            learning_rate=0.001, learning_rate_decay=0.93, epochs=35),
    ),
    "sacn": (
        Values(_SACN, batch=2048, epochs=40),
        Values(_SACN, batch=2048, learning_rate_decay=0.97, epochs=80),
    ),
    "tucker": (
        Values(_TUCKER, relation_dim=30, learning_rate=0.005, learning_rate_decay=0.988, epochs=200, input_dropout=0.2,
            relation_dropout=0.2, query_dropout=0.3),
        Values(_TUCKER, batch=256, learning_rate=0.001, epochs=200, patience=8, input_dropout=0.3, relation_dropout=0.4,
            query_dropout=0.5),
    ),
    "quate": (Values(_QUATE, regulariser="dura"), Values(_QUATE, regularisation=0.05, epochs=30)),
    "interacte": (
        Values(_INTERACTE, kernel=11, batch=256, learning_rate=0.001, learning_rate_decay=0.995, epochs=400, patience=0,
            feature_dropout=0.2, query_dropout=0.3),
        Values(_against_all(_INTERACTE, 0.0007), kernel=9, label_smoothing=0.3, learning_rate_decay=0.985,
            weight_average=0.85, epochs=100, feature_dropout=0.5, query_dropout=0.5),
    ),
    "roth": (
        Values(_ROTH, subsampling=True, adversarial_temperature=0.5, negatives=4096, learning_rate=0.003,
            learning_rate_decay=0.95, epochs=70),
        Values(_ROTH, learning_rate_decay=0.94, epochs=30),
    ),
    "rotate": (_ROTATES[0], Values(_ROTATES[1], learning_rate=0.0001, learning_rate_decay=0.98, epochs=100)),
    "rotate-paper": (_alike(_ROTATES[0], 0.97, 40), _alike(_ROTATES[1], 0.978, 85)),
    "ote": (Values(_OTES[0], epochs=80), Values(_OTES[1], adversarial_temperature=0.5, epochs=90)),
    "ote-paper": (_alike(_OTES[0], 0.96, 50), _alike(_OTES[1], 0.94, 30)),
}
# fmt: on


def _made(name: str, values: Values) -> TrainSettings:
    return baseline_settings(name.split("-")[0], **values)


# Settings for graphs like WN18RR, and for graphs like FB15k-237.
PUBLISHED: dict[str, tuple[TrainSettings, TrainSettings]] = {
    name: (_made(name, few), _made(name, many)) for name, (few, many) in _PUBLISHED.items()
}
