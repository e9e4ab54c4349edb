"""Settings that every method shares: how long to train, when to validate, on which device, from which seed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from procrustes_kge.training.timekeeping import parse_changes
from procrustes_kge.validation import check_range, check_whole
from procrustes_kge.words import counted

_NEGATIVES = {"all": "all negatives", "none": "no negatives", "kvsall": "KvsAll"}


def spoken_sizes(batch: int | str, negatives: int | str) -> str:
    """Return in words how large batches are, and how many negatives an answer has.

    >>> spoken_sizes(512, 2048), spoken_sizes("full", 1)
    ('batch 512, 2,048 negatives', 'full batch, 1 negative')
    """
    queries = "full batch" if batch == "full" else f"batch {batch:,}"
    return f"{queries}, {_NEGATIVES.get(str(negatives)) or counted(int(negatives), 'negative')}"


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Settings that the training loop reads; each method adds its own."""

    smaller: ClassVar[str] = "a smaller --dim"  # what to try where memory runs out
    epochs: Annotated[int, "number of epochs; validation may stop earlier"] = 100
    learning_rate: Annotated[float, "learning rate"] = 0.1
    patience: Annotated[int, "stop after this many validations without a better MRR; 0: train all epochs"] = 5
    validate_every: Annotated[int, "validate every so many epochs; 0: never"] = 5
    validation_triples: Annotated[int, "rank at most this many validation triples, always the same ones"] = 1000
    seed: Annotated[int, "random seed; results repeat on the same machine (on a GPU, with --deterministic)"] = 0
    device: Annotated[str, "cpu, cuda, cuda:1, or auto: a GPU if there is one"] = "auto"
    workers: Annotated[int, "threads on the CPU; 0: chosen automatically"] = 0
    deterministic: Annotated[bool, "make a GPU repeat a seed to the last bit"] = False
    time: float = 0.0  # seconds that training may take: late, it trains fewer epochs or parts; 0: as long as it takes
    replay: Annotated[str, "repeat what a run with --time changed on the way, as printed by that run"] = ""

    def __post_init__(self) -> None:
        """Refuse what cannot be trained, before anything is read or written."""
        check_whole(self, ("epochs", "validation_triples"), least=1)
        check_whole(self, ("patience", "validate_every", "workers"), least=0)
        check_range(self, "learning_rate", 1000, above=True)
        check_range(self, "time", math.inf)
        parse_changes(self.replay)
