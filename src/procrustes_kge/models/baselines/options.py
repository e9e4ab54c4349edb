"""Options of a model say what it is; settings of training say how it learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, get_type_hints

from procrustes_kge.validation import check_choices, check_range, check_whole


@dataclass(frozen=True)
class ModelOptions:
    """Options that every baseline has. A model adds fields of its own, and checks them when options are made."""

    dim: Annotated[int, "numbers in an entity's vector"] = 200  # as ConvE, TuckER, InteractE and SACN have it

    def __post_init__(self) -> None:
        """Refuse words that are unknown, counts below one, and dropouts that leave nothing."""
        check_choices(self)
        for name, hint in get_type_hints(type(self)).items():
            if hint is int:
                check_whole(self, (name,), least=1)
            elif name.endswith("_dropout"):
                check_range(self, name, 0.99)


@dataclass(frozen=True)
class DistanceOptions(ModelOptions):
    """Options of a model whose score is a margin minus a distance."""

    margin: Annotated[float, "distance up to which an entity counts as an answer"] = 6.0  # RotatE's on WN18RR

    def __post_init__(self) -> None:
        """Refuse a margin that is negative or far too large."""
        super().__post_init__()
        check_range(self, "margin", 1000)
