"""A baseline as it was saved: built again from its options, within what its tables allow, then given its weights."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.baselines import baseline, build
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.training.supervised_settings import option_names
from procrustes_kge.validation import check_types
from procrustes_kge.words import listed

FACTORIES = (torch.empty, torch.zeros, torch.ones, torch.full, torch.arange, torch.randperm)


class Bounded(TorchFunctionMode):
    """While it is entered, PyTorch makes no table of more than `most` numbers."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Refuse sizes whose product is too much, and call the function."""
        named = kwargs or {}
        if function in FACTORIES and (size := math.prod(_numbers((args, named.get("size", ()))))) > self.most:
            raise ValueError(f"options that ask for a table of {size:,} numbers, but the file has {self.most:,} in all")
        return function(*args, **named)


def rebuilt(about: Mapping[str, Any], graph: Graph, tensors: Mapping[str, Tensor]) -> TrainedBaseline:
    """Return a trained baseline from its options and its tables; a ValueError says what does not fit.

    Options may ask for more than any machine has. So no vector is longer than those that were saved, and no table has
    more numbers than all that were saved, before the shapes are compared one by one.
    """
    name, values = about["model"], about["options"]
    check_options(about, tensors)
    options = baseline(name).Options(**values)
    with Bounded(sum(table.numel() for table in tensors.values())):
        module = build(name, graph, options)
    for each, table in module.state_dict().items():
        if each in tensors and tensors[each].dtype != table.dtype:
            seen, expected = (str(one.dtype).removeprefix("torch.") for one in (tensors[each], table))
            raise ValueError(f"{each} are {seen}, expected {expected}")
    try:
        module.load_state_dict(dict(tensors))
    except RuntimeError as error:  # PyTorch's word for tables that are missing or do not fit
        raise ValueError(str(error)) from None
    return TrainedBaseline(name, options, graph.entities, graph.relations, module.eval())


def check_options(about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Refuse options that are not those of the settings, or vectors of another length than the tables have."""
    values, settings = about["options"], about["settings"]
    if strange := values.keys() ^ set(option_names(about["model"])):
        raise ValueError(f"option {min(strange)!r} is {'unknown' if min(strange) in values else 'missing'}")
    check_types(baseline(about["model"]).Options, values)
    if settings is not None:
        same = {**values, "model": about["model"]}
        if other := next((each for each in same if settings.get(each) != same[each]), None):
            raise ValueError(f"{other} {same[other]} of the model, but {settings.get(other)} in its settings")
    widths = sorted({tensors[each].shape[-1] for each in ("entities", "relations") if tensors[each].ndim == 2})
    if values["dim"] not in widths:
        raise ValueError(f"dim {values['dim']}, but tables of {listed(widths)} columns")


def _numbers(arguments: Any) -> Iterator[int]:
    for each in arguments:
        if isinstance(each, tuple | list):
            yield from _numbers(each)
        elif type(each) is int:
            yield each
