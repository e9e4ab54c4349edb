"""The thirteen models that PROCRUSTES is compared with; each answers `encode`, `query` and `scores`."""

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.baselines.a2n import A2N
from procrustes_kge.models.baselines.bilinear import ComplEx, DistMult, QuatE, TuckER
from procrustes_kge.models.baselines.convolution import ConvE, InteractE
from procrustes_kge.models.baselines.embedded import Baseline, ModelOptions
from procrustes_kge.models.baselines.geometric import OTE, RotatE, RotH, TransE
from procrustes_kge.models.baselines.layers import RandomSource
from procrustes_kge.models.baselines.neighbours import RGCN, SACN
from procrustes_kge.words import unknown

BASELINES: dict[str, type[Baseline]] = {
    model.__name__.lower(): model
    for model in (TransE, DistMult, ComplEx, RGCN, ConvE, A2N, SACN, TuckER, QuatE, InteractE, RotH, RotatE, OTE)
}


def baseline(name: str) -> type[Baseline]:
    """Return the class of a baseline."""
    if name not in BASELINES:
        raise InputError(unknown("model", name, BASELINES))
    return BASELINES[name]


def build(name: str, graph: Graph, options: ModelOptions, seed: int = 0) -> Baseline:
    """Return an untrained model of a graph; graph networks take its training triples as edges."""
    kind = baseline(name)
    if type(options) is not kind.Options:
        given, wanted = (each.__qualname__ for each in (type(options), kind.Options))
        raise InputError(f"{name} with {given}, expected {wanted}; make one with BASELINES[{name!r}].Options()")
    return kind(graph, options, RandomSource(seed))
