"""Recipes: settings by name, for the graph and the machine at hand; and one function that trains any of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeVar, overload

import torch

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph, Vocabulary
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.system.devices import choose_device
from procrustes_kge.training.baseline_recipes import PUBLISHED
from procrustes_kge.training.contrastive import ContrastSettings, contrast
from procrustes_kge.training.full_batch import FitSettings, Report, fit
from procrustes_kge.training.supervised import Trained, built, check_negatives, train
from procrustes_kge.training.supervised_settings import TrainSettings
from procrustes_kge.validation import spoken

OwnSettings = FitSettings | ContrastSettings  # of our own model
Settings = OwnSettings | TrainSettings
METHODS: dict[str, type[Settings]] = {"fit": FitSettings, "contrast": ContrastSettings, "train": TrainSettings}
SomeSettings = TypeVar("SomeSettings", bound=Settings)
DEFAULT = "accurate"
OF_MODELS = frozenset(name for model in BASELINES.values() for name in inspect.signature(model).parameters)
# What training looks at, whatever it trains; a margin too, but for the loss of that name alone.
OF_TRAINING = frozenset(field.name for field in fields(TrainSettings)) - OF_MODELS

PAPER = FitSettings(
    dim=2000,
    segment=20,
    step="adam",
    loss="norm",
    translate=False,
    learning_rate=0.001,
    epochs=1000,
    validate_every=25,
    patience=6,
)
# Negatives or mini-batches as the paper adds them: unit segments, Adam, and Eq. 3. The shift of a relation stands for
# the paper's centring of each relation's heads and tails.
PAPER_VARIANT = ContrastSettings(
    dim=2000,
    segment=20,
    lengths="unit",
    relations="positives",
    step="adam",
    scale=False,
    translate=True,
    decay=0.0,
    dropout=0.0,
)


def _fast(graph: Graph | None, device: torch.device) -> OwnSettings:
    return FitSettings()


def _paper(graph: Graph | None, device: torch.device) -> OwnSettings:
    return replace(PAPER, learning_rate=0.05, epochs=200, validate_every=4) if _many_relations(graph) else PAPER


def _paper_ns(graph: Graph | None, device: torch.device) -> OwnSettings:
    full = replace(PAPER_VARIANT, batch="full", negatives=_at_most(128, graph), loss="sigmoid", epochs=300)
    if _many_relations(graph):
        return replace(full, learning_rate=0.05)
    return replace(full, learning_rate=0.06, margin=0.6)


def _paper_tb(graph: Graph | None, device: torch.device) -> OwnSettings:
    batches = replace(PAPER_VARIANT, batch=_batch(1024, graph), negatives="none", loss="squared")
    return replace(batches, learning_rate=0.01, epochs=6 if _many_relations(graph) else 15)


def _paper_ns_tb(graph: Graph | None, device: torch.device) -> OwnSettings:
    both = replace(PAPER_VARIANT, batch=_batch(1024, graph), negatives=_at_most(128, graph), loss="sigmoid")
    if _many_relations(graph):
        return replace(both, epochs=40, learning_rate=0.01, negatives=_at_most(512, graph))
    return replace(both, epochs=20, learning_rate=0.05, margin=0.6, crowd=0.5)


def _at_most(negatives: int, graph: Graph | None) -> int:
    """Return so many negatives, or fewer where a graph has hardly more entities."""
    return negatives if graph is None else max(1, min(negatives, len(graph.entities) - 1))


def _batch(size: int, graph: Graph | None) -> int:
    """Return batches of this size, or smaller ones where a graph has fewer questions."""
    return size if graph is None else max(1, min(size, 2 * len(graph.train)))


def _many_relations(graph: Graph | None) -> bool:
    """Say whether a graph is like FB15k-237 rather than WN18RR, the two that the paper tunes for."""
    return graph is not None and len(graph.relations) > 100


def _accurate(graph: Graph | None, device: torch.device) -> OwnSettings:
    """Return what served best on validation triples, for graphs whose questions have one answer or many."""
    gpu = device.type == "cuda"
    settings = ContrastSettings(
        dim=2000 if gpu else 400, groups=4 if gpu else 1, epochs=30, batch=2048 if gpu else 1024
    )
    if graph is None:
        return settings
    ends = graph.train[:, [0, 2]]
    sides = [(graph.train[:, 1] * len(graph.entities) + ends[:, side]).unique().numel() for side in (0, 1)]
    questions, triples = sum(sides), len(graph.train)
    if triples < questions:  # fewer than two answers to a question
        settings = replace(settings, crowd=0.5, decay=0.1)
    steps = 32 if gpu else 64  # an epoch: enough of them to learn, and batches that keep the device busy
    batch = 2 ** max(8, min(12 if gpu else 11, (questions // steps).bit_length() - 1))
    few = len(graph.entities) <= 4096
    return replace(settings, batch=_batch(batch, graph), negatives="all" if gpu or few else 2048)


def _published(name: str, graph: Graph | None) -> TrainSettings:
    """Return the settings of a baseline for graphs of this kind, with no more negatives than there are."""
    settings = _for_each_kind(name)[_many_relations(graph)]
    if isinstance(settings.against, int):
        return replace(settings, against=_at_most(settings.against, graph))
    return settings


def _for_each_kind(name: str) -> tuple[TrainSettings, TrainSettings]:
    """Return the settings of a baseline for graphs of few relations and of many; no published ones: the defaults."""
    return PUBLISHED[name] if name in PUBLISHED else (TrainSettings(model=name),) * 2


OWN: dict[str, Callable[[Graph | None, torch.device], OwnSettings]] = {
    "accurate": _accurate,
    "fast": _fast,
    "paper": _paper,
    "paper+ns": _paper_ns,
    "paper+tb": _paper_tb,
    "paper+ns+tb": _paper_ns_tb,
}


def baseline_recipes(model: str | None = None) -> list[str]:
    """Return the recipes of the baselines, or of one: a model without published settings has one of its name too."""
    names = [*PUBLISHED, *(name for name in BASELINES if name not in PUBLISHED)]
    return [name for name in names if model in (None, _for_each_kind(name)[0].model)]


def recipe(name: str, graph: Graph | None = None, device: str = "auto", **changes: Any) -> Settings:
    """Return the settings of a named recipe for this graph and device, with some of them changed."""
    known = [*OWN, *baseline_recipes()]
    if name not in known:
        raise InputError(f"unknown recipe {name!r}, expected {' or '.join(known)}")
    place = choose_device(device)
    settings: Settings = OWN[name](graph, place) if name in OWN else _published(name, graph)
    for change in changes:
        if not has_setting(settings, change):
            has = " or ".join(recipes_with(change, "a baseline such as transe"))
            hint = f"but try it with {has}" if has else "nor of any other"
            raise InputError(f"{spoken(change)} is no setting of the recipe {name}, {hint}")
    settings = changed(settings, device=device, **changes)
    if isinstance(settings, TrainSettings):
        _check_used(settings, changes)
        if graph is not None:
            check_negatives(graph, settings)
    return settings


def _check_used(settings: TrainSettings, changes: dict[str, Any]) -> None:
    """Refuse a change that would change nothing, as neither training nor this model looks at it."""
    own = [name for name in inspect.signature(BASELINES[settings.model]).parameters if has_setting(settings, name)]
    used = OF_TRAINING | {*own, *(["margin"] if settings.loss == "margin" else [])}
    for change in changes:
        if change not in used:
            hint = "; a margin is for --loss margin" if change == "margin" else ""
            has = ", ".join(map(spoken, own))
            raise InputError(f"{spoken(change)} is no setting of {settings.model}, which has of its own: {has}{hint}")
    if "margin" in changes and settings.loss == "softmax":
        raise InputError("a margin of all scores does nothing to a softmax; try --loss logistic or margin")
    if changes.get("shared") and not isinstance(settings.against, int):
        raise InputError(f"shared against {settings.against}, where no negatives are drawn; try --against 1024")
    if "penalty" in changes and settings.penalty != "none" and not settings.decay:
        raise InputError(f"penalty {settings.penalty} with decay 0 does nothing; give a --decay such as 0.05")
    if settings.penalty == "none" and changes.get("decay"):
        raise InputError(f"decay {settings.decay} without a penalty does nothing; give a --penalty such as n3")


_ONE = torch.tensor([[0, 0, 1]])
_SMALLEST = Graph("", Vocabulary("ab", "entity"), Vocabulary("r", "relation"), _ONE, _ONE[:0], _ONE[:0])


def check_buildable(name: str, **changes: Any) -> None:
    """Refuse what a baseline can be built with for no kind of graph: before one is read, and without memory."""
    problems = []
    for settings in _for_each_kind(name):
        try:
            with torch.random.fork_rng([]), torch.device("meta"):
                built(_SMALLEST, changed(settings, **changes))
            return
        except InputError as error:
            problems.append(error)
        except Exception:  # tensors without memory cannot do everything; a model of the graph will be built anyway
            return
    raise problems[0]


def recipes_with(setting: str, baselines: str) -> list[str]:
    """Return the recipes that have a setting: our own by name, and a word for the baselines, which are alike in it."""
    cpu = torch.device("cpu")
    own = [name for name in OWN if has_setting(OWN[name](None, cpu), setting)]
    return [*own, baselines] if has_setting(TrainSettings, setting) else own


def has_setting(settings: Settings | type[Settings], name: str) -> bool:
    """Say whether these settings have one of this name."""
    return name in {field.name for field in fields(settings)}


def changed(settings: SomeSettings, **changes: Any) -> SomeSettings:
    """Return settings with some of them changed; those that do not go with a change, and were not asked for, give way.

    Vectors of another size have fewer groups rather than smaller ones.
    """
    if isinstance(settings, TrainSettings):
        return replace(settings, **{**_given_way(settings, changes), **changes})
    if not isinstance(settings, ContrastSettings) or "groups" in changes:
        return replace(settings, **changes)
    single = replace(settings, groups=1, **changes)
    dim, least = single.dim, settings.dim // settings.groups
    fitting = (
        many for many in range(2, settings.groups + 1) if dim % (many * single.segment) == 0 and dim // many >= least
    )
    return replace(single, groups=max(fitting, default=1))


def _given_way(settings: TrainSettings, changes: dict[str, Any]) -> dict[str, Any]:
    """Return what a recipe has no more use for where another loss, or something else to compare with, is asked for."""
    against, loss = changes.get("against", settings.against), changes.get("loss", settings.loss)
    drawn, plain = against not in ("all", "labels"), dict[str, Any]()
    if against == "all" and "loss" not in changes:
        loss = plain["loss"] = "softmax"
    plain |= {"smoothing": 0.0} if drawn else {"shared": False}
    if not drawn or loss != "logistic":
        plain |= {"focus": 0.0, "outweigh": 1.0}
    if against == "labels":
        plain |= {"even": False}
    return plain


@overload
def learn(graph: Graph, settings: OwnSettings, report: Report | None = None) -> Procrustes: ...


@overload
def learn(graph: Graph, settings: TrainSettings, report: Report | None = None) -> Trained: ...


def learn(graph: Graph, settings: Settings, report: Report | None = None) -> Procrustes | Trained:
    """Return the model that these settings give, by the method that they belong to."""
    if isinstance(settings, TrainSettings):
        return train(graph, settings, report)
    return contrast(graph, settings, report) if isinstance(settings, ContrastSettings) else fit(graph, settings, report)
