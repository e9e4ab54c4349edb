"""What an export writes, and the rules that formats share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph, Vocabulary


class Predicted(NamedTuple):
    """A triple that a model predicts, by row numbers; the probability is there where the run is calibrated."""

    head: int
    relation: int
    tail: int
    score: float
    probability: float | None = None


@dataclass(frozen=True)
class Content:
    """What is written: tables by name, the main one first, with a row for each of the names; or what is predicted."""

    what: str
    tables: Mapping[str, np.ndarray]
    names: Vocabulary
    relations: Vocabulary
    graph: Graph | None = None
    predictions: Sequence[Predicted] = ()

    def vectors(self, kind: str) -> np.ndarray:
        """Return the one table of a format that has room for one vector per name."""
        (main, table), *more = self.tables.items()
        if more or table.ndim != 2:
            seen = ", ".join([main, *(other.replace("_", " ") for other, _ in more)])
            raise InputError(
                f"{kind} holds one vector per name, but a relation has more ({seen}); use parquet, npy, npz or "
                "safetensors"
            )
        return table


Writer = Callable[
    [Path, str, Content], list[Path]
]  # into a folder, under a name; returns files, that of the name first


def cell(number: float) -> str:
    """Return a number in as few digits as tell it from any other float32."""
    return f"{number:.9g}"


def text_of(name: str, kind: str) -> str:
    """Return a name that the format can hold: UTF-8 has no bytes for half of a surrogate pair."""
    try:
        name.encode()
    except UnicodeEncodeError:
        seen = f"the name {name[:40]!a} has half of a surrogate pair in it"
        raise InputError(f"{seen}, which {kind} cannot hold; use npy or word2vec") from None
    return name
