"""What `fit` does, and how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from procrustes_kge.training.schedule import Schedule
from procrustes_kge.validation import check_choices, check_segments, check_whole


@dataclass(frozen=True, kw_only=True)
class FitSettings(Schedule):
    """What `fit` does, and how long. The defaults are the recipe `fast`."""

    epochs: Annotated[int, "most epochs to train; validation may choose fewer"] = 60
    learning_rate: Annotated[float, "size of a step; radians for turn"] = 0.06
    patience: Annotated[int, "validations without a better MRR before stopping; 0: train all epochs"] = 3
    validate_every: Annotated[int, "epochs between validations; 0: never validate"] = 3
    dim: Annotated[int, "numbers in an entity's vector"] = 2000  # 500 lose about .01 MRR
    segment: Annotated[int, "numbers in a segment, each rotated by a matrix of its own"] = 20  # as in the paper
    # Turn: no moments, a tenth of Adam's epochs, and better where many answers are right.
    optimiser: Annotated[Literal["turn", "adam"], "turn: every entity by the same angle; adam: by Adam"] = "turn"
    loss: Annotated[Literal["squared", "norm"], "squared: triples count equally; norm: relations do"] = "squared"
    translate: Annotated[bool, "let each relation translate as well as rotate: h Q + b"] = True  # lifts both benchmarks
    pilot: Annotated[int, "numbers of a vector that choose the epochs, by validation"] = 500
    workers: Annotated[int, "segments trained at once on the CPU; 0: one per core"] = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be trained, before anything is read or written."""
        super().__post_init__()
        check_choices(self)
        check_whole(self, ("dim", "segment", "pilot"), least=1)
        check_whole(self, ("workers",), least=0)
        check_segments(self.dim, self.segment)

    @property
    def segments(self) -> int:
        """How many segments a vector has."""
        return self.dim // self.segment
