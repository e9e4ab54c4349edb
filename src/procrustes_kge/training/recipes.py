"""Recipes: named settings, fitted to a graph and a device; and one function that trains with any settings."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from functools import partial
from importlib import resources
from typing import Any, TypeVar, overload

import torch

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.queries import group_by_query
from procrustes_kge.models.baselines import BASELINES
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.system.devices import choose_device
from procrustes_kge.training.baseline_recipes import PUBLISHED
from procrustes_kge.training.benchmarks import BENCHMARKS, OTHER, by_kind, kind_of_graph
from procrustes_kge.training.checkpoints import Checkpoints
from procrustes_kge.training.contrastive import Contrastive
from procrustes_kge.training.contrastive_settings import ContrastSettings, check_fit
from procrustes_kge.training.full_batch import learn_full_batch
from procrustes_kge.training.full_batch_settings import FitSettings
from procrustes_kge.training.loop import run
from procrustes_kge.training.portfolio import portfolio
from procrustes_kge.training.supervised import Supervised, check_negatives
from procrustes_kge.training.supervised_settings import OF_TRAINING, TrainSettings, baseline_settings, option_names
from procrustes_kge.training.trainer import Learned, Report
from procrustes_kge.validation import check_types, spoken
from procrustes_kge.words import either, unknown

OwnSettings = FitSettings | ContrastSettings  # of our own model
Settings = OwnSettings | TrainSettings
METHODS: dict[str, type[Settings]] = {"fit": FitSettings, "contrast": ContrastSettings, "train": TrainSettings}
SomeSettings = TypeVar("SomeSettings", bound=Settings)
DEFAULT, FASTEST = "accurate", "fast"

_PAPER: dict[str, dict[str, Any]] = tomllib.loads(
    (resources.files("procrustes_kge.training") / "paper_recipes.toml").read_text(encoding="utf-8")
)


def _paper(name: str, graph: Graph | None, device: torch.device) -> OwnSettings:
    """Return the paper's settings for this graph, with no more negatives or queries than there are."""
    values = by_kind(_PAPER[name])[kind_of_graph(graph)]
    if name == "paper":
        return FitSettings(**values)
    sizes = {"batch": _batch, "negatives": _at_most}
    fitting = {each: sizes[each](values[each], graph) for each in sizes if isinstance(values[each], int)}
    return ContrastSettings(**{**_PAPER["variants"], **values, **fitting})


def _at_most(negatives: int, graph: Graph | None) -> int:
    """Return this many negatives, or fewer where the graph has too few entities."""
    return negatives if graph is None else max(1, min(negatives, len(graph.entities) - 1))


def _batch(size: int, graph: Graph | None) -> int:
    """Return batches of this size, or smaller ones where a graph has fewer queries."""
    return size if graph is None else max(1, min(size, 2 * len(graph.train)))


def _accurate(graph: Graph | None, device: torch.device) -> OwnSettings:
    """Return what was best on validation triples of many graphs, in batches that fit this one."""
    gpu = device.type == "cuda"
    settings = ContrastSettings(groups=4) if gpu else ContrastSettings(dim=400, batch=1024)
    best = portfolio()[0]
    if graph is None:
        return replace(settings, **best)
    queries = len(group_by_query(graph.train, len(graph.entities), len(graph.relations)))
    steps = 32 if gpu else 64  # an epoch: enough of them to learn, and batches that keep the device busy
    batch = _batch(2 ** max(8, min(12 if gpu else 11, (queries // steps).bit_length() - 1)), graph)
    if gpu or len(graph.entities) <= 4096:
        return replace(settings, batch=batch, **best)
    # To predict relations takes a CPU longer than it is worth there; without it, and with few epochs, nearly squares
    # of lengths are better than cubes.
    fewer = {"label_smoothing": 0.0, "relation_weight": 0.0, "regulariser_power": 2.25}
    return replace(settings, batch=batch, negatives=2048, **{**best, **fewer})


def _published(name: str, graph: Graph | None) -> TrainSettings:
    """Return the settings of a baseline for this graph, with no more negatives than there are."""
    settings = _for_each_kind(name)[kind_of_graph(graph)]
    if isinstance(settings.negatives, int):
        return replace(settings, negatives=_at_most(settings.negatives, graph))
    return settings


def _for_each_kind(name: str) -> Mapping[str, TrainSettings]:
    """Return the settings of a baseline for each kind of graph; no published ones: the defaults."""
    return PUBLISHED[name] if name in PUBLISHED else dict.fromkeys((OTHER, *BENCHMARKS), baseline_settings(name))


OWN: dict[str, Callable[[Graph | None, torch.device], OwnSettings]] = {
    "accurate": _accurate,
    "fast": lambda graph, device: FitSettings(),
    **{name: partial(_paper, name) for name in ("paper", "paper+ns", "paper+tb", "paper+ns+tb")},
}


def baseline_recipes(model: str | None = None) -> list[str]:
    """Return the recipes of the baselines, or of one model; each model has a recipe of its own name."""
    names = [*PUBLISHED, *(name for name in BASELINES if name not in PUBLISHED)]
    return [name for name in names if model in (None, _for_each_kind(name)[OTHER].model)]


def recipe(name: str, graph: Graph | None = None, device: str = "auto", **changes: Any) -> Settings:
    """Return the settings of a recipe for this graph and device, with these changes.

    There are recipes of our own model (`accurate`, `fast`, `paper` and its variants) and of the baselines.
    """
    _check_known(name, changes)
    place = choose_device(device)
    settings: Settings = OWN[name](graph, place) if name in OWN else _published(name, graph)
    settings = changed(settings, device=device, **changes)
    if isinstance(settings, TrainSettings):
        _check_useful(settings, changes)
        if graph is not None:
            check_negatives(graph, settings)
    return settings


def check_fits(graph: Graph, settings: Settings) -> None:
    """Refuse settings that ask more than a graph has."""
    if isinstance(settings, TrainSettings):
        check_negatives(graph, settings)
    elif isinstance(settings, ContrastSettings):
        check_fit(graph, settings)


def check_recipe(name: str, device: str = "auto", **changes: Any) -> None:
    """Refuse changes of a recipe that cannot work for any graph, before one is read."""
    _check_known(name, changes)
    if name in OWN:
        recipe(name, None, device, **changes)
        return
    problems = []
    for settings in _for_each_kind(name).values():
        try:
            _check_useful(changed(settings, device=device, **changes), changes)
            return
        except InputError as error:
            problems.append(error)
    raise problems[0]


def _check_known(name: str, changes: dict[str, Any]) -> None:
    """Refuse an unknown recipe, or a setting that it does not have, and name the recipes that have it."""
    known = [*OWN, *baseline_recipes()]
    if name not in known:
        raise InputError(unknown("recipe", name, known))
    settings = OWN[name](None, torch.device("cpu")) if name in OWN else _for_each_kind(name)[OTHER]
    model = settings.model if isinstance(settings, TrainSettings) else None
    for change in changes:
        if change != "model" and has_setting(settings, change):
            continue
        what, own = f"the recipe {name}", [field.name for field in fields(settings)]
        if model is not None:
            what, own = model, list(option_names(model))
        if has := recipes_with(change, "a baseline such as complex"):
            models = [each for each in BASELINES if change in option_names(each)]
            if 0 < len(models) < len(BASELINES):
                has[-1:] = models
            raise InputError(f"{what} has no setting {spoken(change)}; try it with {either(has)}")
        raise InputError(unknown(f"setting of {what}", change, own))


def _check_useful(settings: TrainSettings, changes: dict[str, Any]) -> None:
    """Refuse a change that would change nothing."""
    if "margin" in changes and settings.loss == "softmax":
        raise InputError("a margin added to all scores does not change the softmax loss; try --loss sigmoid or margin")
    if "loss_margin" in changes and settings.loss != "margin":
        raise InputError(f"loss margin does nothing with the {settings.loss} loss; it is for --loss margin")
    if changes.get("shared_negatives") and not isinstance(settings.negatives, int):
        raise InputError(
            f"shared negatives do nothing with --negatives {settings.negatives}, which draws none; try --negatives 1024"
        )
    if "regulariser" in changes and settings.regulariser != "none" and not settings.regularisation:
        instead = "add a weight, such as --regularisation 0.05"
        raise InputError(f"regulariser {settings.regulariser} with regularisation 0 does nothing; {instead}")
    if settings.regulariser == "none" and changes.get("regularisation"):
        instead = "add --regulariser n3, for example"
        raise InputError(f"regularisation {settings.regularisation} without a regulariser does nothing; {instead}")


ALL_OPTIONS = frozenset(name for model in BASELINES for name in option_names(model))


def recipes_with(setting: str, baselines: str) -> list[str]:
    """Return the recipes that have a setting: our own by name, and one word for all baselines."""
    own = [name for name, chosen in OWN.items() if has_setting(chosen(None, torch.device("cpu")), setting)]
    return [*own, baselines] if setting in OF_TRAINING | ALL_OPTIONS | {"model"} else own


def has_setting(settings: Settings, name: str) -> bool:
    """Say whether these settings, or the options of their model, have one of this name."""
    names = {field.name for field in fields(settings)}
    if isinstance(settings, TrainSettings):
        names = names - {"options"} | set(option_names(settings.model))
    return name in names


def changed(settings: SomeSettings, **changes: Any) -> SomeSettings:
    """Return settings with these changes; other settings that conflict with a change return to their defaults.

    Vectors of another size have fewer groups rather than smaller ones.
    """
    if isinstance(settings, TrainSettings):
        own = option_names(settings.model)
        options = replace(settings.options, **{name: value for name, value in changes.items() if name in own})
        training = {name: value for name, value in changes.items() if name not in own}
        return replace(settings, options=options, **{**_given_way(settings, changes), **training})
    if not isinstance(settings, ContrastSettings):
        return replace(settings, **changes)
    changes = {**_left_out(settings, changes), **changes}
    if "groups" in changes:
        return replace(settings, **changes)
    single = replace(settings, groups=1, **changes)
    dim, least = single.dim, settings.dim // settings.groups
    fitting = (
        many for many in range(2, settings.groups + 1) if dim % (many * single.segment) == 0 and dim // many >= least
    )
    return replace(single, groups=max(fitting, default=1))


def _left_out(settings: ContrastSettings, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults of settings that the negatives, or the loss, that are asked for exclude."""
    plain = {} if changes.get("negatives", settings.negatives) == "all" else {"label_smoothing": 0.0}
    return plain if changes.get("loss", settings.loss) == "softmax" else {**plain, "relation_weight": 0.0}


def _given_way(settings: TrainSettings, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults of settings that exclude the loss, or the negatives, that are asked for."""
    negatives, loss = changes.get("negatives", settings.negatives), changes.get("loss", settings.loss)
    drawn, plain = negatives not in ("all", "kvsall"), dict[str, Any]()
    if negatives == "all" and "loss" not in changes:
        loss = plain["loss"] = "softmax"
    plain |= {"label_smoothing": 0.0} if drawn else {"shared_negatives": False}
    if not drawn or loss != "sigmoid":
        plain |= {"adversarial_temperature": 0.0, "negative_weight": 1.0}
    if negatives == "kvsall":
        plain |= {"subsampling": False}
    return plain


def values_of(settings: Settings) -> dict[str, Any]:
    """Return all settings by name, including a model's options, as files and reports hold them."""
    values = asdict(settings)
    return values | values.pop("options", {})


def method_name(settings: Settings) -> str:
    """Return the name of the method that settings belong to."""
    return next(name for name, kind in METHODS.items() if type(settings) is kind)


def settings_of(method: str, values: Any) -> Settings:
    """Return the settings of a method that `values_of` returned; refuse any that is not known."""
    if not isinstance(values, dict):
        raise ValueError(f"settings are a {type(values).__name__}, expected names and values")
    known = {field.name for field in fields(METHODS[method])} - {"options"}
    if method == "train":
        known |= set(option_names(values.get("model", "")))
    if unknown := values.keys() - known:
        raise ValueError(f"a setting {min(unknown)!r:.60}, which this version does not know")
    check_types(METHODS[method], values)
    settings = baseline_settings(**values) if method == "train" else METHODS[method](**values)
    if missing := known - values.keys():
        raise ValueError(f"no setting {min(missing)!r}")
    return settings


@overload
def learn(
    graph: Graph, settings: OwnSettings, report: Report | None = None, checkpoints: Checkpoints | None = None
) -> Procrustes: ...


@overload
def learn(
    graph: Graph, settings: TrainSettings, report: Report | None = None, checkpoints: Checkpoints | None = None
) -> TrainedBaseline: ...


def learn(
    graph: Graph, settings: Settings, report: Report | None = None, checkpoints: Checkpoints | None = None
) -> Procrustes | TrainedBaseline:
    """Train with these settings, by the method they belong to, and return the model.

    `report` is called with a `Progress` after every epoch. `checkpoints` keep what is needed to go on after a stop.
    """
    return learned(graph, settings, report, checkpoints).model


def learned(
    graph: Graph,
    settings: Settings,
    report: Report | None = None,
    checkpoints: Checkpoints | None = None,
    start: Any = None,
) -> Learned[Procrustes | TrainedBaseline]:
    """Do the same, and return the epochs and the learning curve with the model.

    With `start`, a model of this graph and of these settings, training goes on from what that has learned.
    """
    if isinstance(settings, TrainSettings):
        return run(partial(Supervised, start=start), graph, settings, report, checkpoints)
    if isinstance(settings, ContrastSettings):
        return run(partial(Contrastive, start=start), graph, settings, report, checkpoints)
    return learn_full_batch(graph, settings, report, checkpoints, start)


def warm(settings: SomeSettings, epochs: int) -> SomeSettings:
    """Return settings for a few more epochs of a training that has ended: as if they had been planned as its last.

    Where the learning rate falls over the epochs, it goes on from the share that is left of it then. What an optimiser
    remembered is gone, so that its first steps would otherwise be as long as those of a training that begins.
    """
    plain: dict[str, Any] = {"epochs": epochs, "patience": 0, "validate_every": 0, "time": 0.0, "replay": ""}
    if isinstance(settings, ContrastSettings):
        plain["warm_start"] = 0
    if not isinstance(settings, FitSettings):
        plain["learning_rate"] = settings.learning_rate * epochs / (settings.epochs + epochs)
    return replace(settings, **plain)
