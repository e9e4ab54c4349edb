"""Settings of `fit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from procrustes_kge.training.schedule import Schedule
from procrustes_kge.validation import check_choices, check_segments, check_whole


@dataclass(frozen=True, kw_only=True)
class FitSettings(Schedule):
    """Settings of `fit`, full batch without negatives. The defaults are the recipe `fast`."""

    epochs: Annotated[int, "number of epochs; validation may stop earlier"] = 60
    learning_rate: Annotated[float, "learning rate; for --optimiser turn, an angle in radians"] = 0.06
    patience: Annotated[int, "stop after this many validations without a better MRR; 0: train all epochs"] = 3
    validate_every: Annotated[int, "validate every so many epochs; 0: never"] = 3
    dim: Annotated[int, "dimension of the entity vectors"] = 2000  # 500 lose about .01 MRR
    # As in the paper.
    segment: Annotated[int, "dimension of a segment, the part that one orthogonal matrix rotates"] = 20
    # Turn: no moments, a tenth of Adam's epochs, and better where many answers are right.
    optimiser: Annotated[
        Literal["turn", "adam"], "optimiser of the vectors; turn moves every entity by the same angle"
    ] = "turn"
    loss: Annotated[
        Literal["squared", "norm"],
        "squared: squared distances (no negatives); norm: unsquared, so every relation weighs the same",
    ] = "squared"
    translate: Annotated[bool, "relations translate as well as rotate: h Q + b"] = True  # lifts both benchmarks
    pilot: Annotated[int, "dimensions trained first, to choose the number of epochs by validation"] = 500

    def __post_init__(self) -> None:
        """Refuse what cannot be trained, before anything is read or written."""
        super().__post_init__()
        check_choices(self)
        check_whole(self, ("dim", "segment", "pilot"), least=1)
        check_segments(self.dim, self.segment)

    @property
    def segments(self) -> int:
        """How many segments a vector has."""
        return self.dim // self.segment
