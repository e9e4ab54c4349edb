"""What the paper's Table 2 prints, and what it calls the models."""

from __future__ import annotations

from typing import NamedTuple


class Printed(NamedTuple):
    """What the paper prints of a model on a dataset, its minutes and grams on a GTX 1080 Ti."""

    mrr: float
    minutes: int
    g_co2: int


DATASETS = {"wn18rr": "WN18RR", "fb15k-237": "FB15k-237"}
# Of each model, or recipe of our own, on the two datasets.
PAPER: dict[str, tuple[Printed, Printed]] = {
    "transe": (Printed(0.226, 85, 367), Printed(0.294, 96, 370)),
    "distmult": (Printed(0.430, 79, 309), Printed(0.241, 91, 350)),
    "complex": (Printed(0.440, 130, 493), Printed(0.247, 121, 534)),
    "rgcn": (Printed(0.417, 138, 572), Printed(0.248, 152, 598)),
    "conve": (Printed(0.430, 840, 3702), Printed(0.325, 1007, 4053)),
    "a2n": (Printed(0.450, 203, 758), Printed(0.317, 229, 751)),
    "sacn": (Printed(0.470, 1539, 5342), Printed(0.352, 1128, 4589)),
    "tucker": (Printed(0.470, 173, 686), Printed(0.358, 184, 704)),
    "quate": (Printed(0.488, 176, 880), Printed(0.348, 180, 945)),
    "interacte": (Printed(0.463, 254, 1152), Printed(0.354, 267, 1173)),
    "roth": (Printed(0.496, 192, 903), Printed(0.344, 207, 1120)),
    "rotate": (Printed(0.439, 255, 823), Printed(0.297, 343, 1006)),
    "ote": (Printed(0.448, 304, 1008), Printed(0.309, 320, 1144)),
    "paper": (Printed(0.453, 14, 37), Printed(0.295, 9, 42)),
    "paper+ns": (Printed(0.457, 44, 124), Printed(0.302, 37, 159)),
    "paper+tb": (Printed(0.468, 92, 268), Printed(0.326, 56, 243)),
    "paper+ns+tb": (Printed(0.474, 131, 346), Printed(0.345, 85, 285)),
}
NAMES = {
    "transe": "TransE",
    "distmult": "DistMult",
    "complex": "ComplEx",
    "rgcn": "R-GCN",
    "conve": "ConvE",
    "a2n": "A2N",
    "sacn": "SACN",
    "tucker": "TuckER",
    "quate": "QuatE",
    "interacte": "InteractE",
    "roth": "RotH",
    "rotate": "RotatE",
    "ote": "OTE",
    "paper": "PROCRUSTES",
    "paper+ns": "PROCRUSTES+NS",
    "paper+tb": "PROCRUSTES+TB",
    "paper+ns+tb": "PROCRUSTES+NS+TB",
    "fast": "PROCRUSTES, fast",
    "accurate": "PROCRUSTES, accurate",
}
