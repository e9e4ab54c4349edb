"""The thirteen models that PROCRUSTES is compared with; each answers `encode`, `query` and `scores`."""

from __future__ import annotations

from torch import nn

from procrustes_kge.models.baselines.bilinear import ComplEx, DistMult, QuatE, TuckER
from procrustes_kge.models.baselines.convolution import ConvE, InteractE
from procrustes_kge.models.baselines.graphnet import A2N, RGCN, SACN
from procrustes_kge.models.baselines.rotation import OTE, RotatE, RotH
from procrustes_kge.models.baselines.translation import TransE

BASELINES: dict[str, type[nn.Module]] = {
    "transe": TransE,
    "distmult": DistMult,
    "complex": ComplEx,
    "rgcn": RGCN,
    "conve": ConvE,
    "a2n": A2N,
    "sacn": SACN,
    "tucker": TuckER,
    "quate": QuatE,
    "interacte": InteractE,
    "roth": RotH,
    "rotate": RotatE,
    "ote": OTE,
}
