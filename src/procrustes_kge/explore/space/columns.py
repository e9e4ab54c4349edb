"""A column of the user's: a number or a word for entities, by name, to colour a map by."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import isinf, nan
from pathlib import Path

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Vocabulary
from procrustes_kge.graphs.labels import read_labels
from procrustes_kge.graphs.lookup import plain
from procrustes_kge.words import counted

MOST_WORDS = 24  # that are told apart; the rarer ones are one


@dataclass(frozen=True)
class Column:
    """What a file says of each entity: a number (NaN: nothing), or which of the words (−1: nothing)."""

    name: str
    numbers: tuple[float, ...] = ()
    words: tuple[str, ...] = ()
    codes: tuple[int, ...] = ()


def read_column(source: str | Path, entities: Vocabulary) -> Column:
    """Read a file with a name and a value on each line; values that are all numbers are a scale, others are words."""
    values = {plain(name): value for name, value in read_labels(source).items()}
    found = [values.get(plain(name)) for name in entities]
    known = [value for value in found if value is not None]
    if not known:
        example = next(iter(values))
        raise InputError(
            f"{source}: values for {counted(len(values), 'name')}, such as {example!r:.60}, but none is an entity; "
            f"expected a name as in the graph, such as {entities[0]!r:.60}, then its value"
        )
    name = Path(source).name.split(".")[0] or "column"
    if all(_is_number(value) for value in known):
        return Column(name, numbers=tuple(nan if value is None else float(value) for value in found))
    common = [word for word, _ in Counter(known).most_common()]
    words = common if len(common) <= MOST_WORDS else [*common[: MOST_WORDS - 1], "others"]
    places = {word: min(place, len(words) - 1) for place, word in enumerate(common)}
    return Column(name, words=tuple(words), codes=tuple(-1 if value is None else places[value] for value in found))


def _is_number(text: str) -> bool:
    """Say whether a text is a number that has a place on a scale, or NaN, which stands for no value."""
    try:
        return not isinf(float(text))
    except ValueError:
        return False
