"""What the settings of every method share: how long to train, when to validate, where, and from which seed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from procrustes_kge.training.timekeeping import parse_changes
from procrustes_kge.validation import check_range, check_whole

_NEGATIVES = {"all": "all negatives", "none": "no negatives", "kvsall": "all answers at once (kvsall)"}


def spoken_sizes(batch: int | str, negatives: int | str) -> str:
    """Return in words how large batches are, and how many negatives an answer has."""
    queries = "all" if batch == "full" else f"{batch:,}"
    return f"batch {queries}, {_NEGATIVES.get(str(negatives)) or f'{negatives:,} negatives'}"


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The part of the settings that the training loop reads; each method's settings add what that method knows."""

    smaller: ClassVar[str] = "a smaller --dim"  # what to try where memory runs out
    epochs: Annotated[int, "most epochs to train; validation may choose fewer"] = 100
    learning_rate: Annotated[float, "size of a step"] = 0.1
    patience: Annotated[int, "validations without a better MRR before stopping; 0: train all epochs"] = 5
    validate_every: Annotated[int, "epochs between validations; 0: never validate"] = 5
    validation_triples: Annotated[int, "most triples that a validation ranks, the same ones each time"] = 1000
    seed: Annotated[int, "where random draws start; it repeats on the same machine (on a GPU see deterministic)"] = 0
    device: Annotated[str, "cpu, cuda, cuda:1, or auto: the GPU where there is one"] = "auto"
    deterministic: Annotated[bool, "add in a fixed order on a GPU, so that a seed repeats to the last bit"] = False
    time: float = 0.0  # seconds that training may take: late, it trains fewer epochs or parts; 0: as long as it takes
    replay: Annotated[str, "what a run changed to end in time, as it printed it: repeats that run"] = ""

    def __post_init__(self) -> None:
        """Refuse what cannot be trained, before anything is read or written."""
        check_whole(self, ("epochs", "validation_triples"), least=1)
        check_whole(self, ("patience", "validate_every"), least=0)
        check_range(self, "learning_rate", 1000, above=True)
        check_range(self, "time", math.inf)
        parse_changes(self.replay)
