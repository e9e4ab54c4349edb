"""Which vector is whose: by name, or by the same name spelled in another way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Vocabulary
from procrustes_kge.graphs.lookup import plain
from procrustes_kge.runs.exchange.vectors import Vectors
from procrustes_kge.runs.exchange.word2vec import word_of
from procrustes_kge.words import counted, shortened

SHOWN = 3  # names in a note


class Matched(NamedTuple):
    """The row of each entity's vector, −1 where it has none, and what the user should know."""

    rows: Int[Tensor, " entities"]
    notes: list[str]


def matched(entities: Vocabulary, given: Vectors) -> Matched:
    """Find the vector of each entity by its name, or by the same name spelled in another way."""
    places = _unique(given)
    rows = {name: places[name] for name in entities if name in places}
    notes, used = list[str](), set(rows.values())
    # An export to word2vec has no blanks; other tools compose accents, or write <iri>.
    for spelled in (plain, lambda name: word_of(plain(name)), lambda name: plain(name).lower()):
        left = [name for name in entities if name not in rows]
        offered = _by_spelling({name: row for name, row in places.items() if row not in used}, spelled)
        wanted = _by_spelling(dict.fromkeys(left, 0), spelled)
        found = {name: offered[spelled(name)] for name in left if spelled(name) in offered and spelled(name) in wanted}
        rows |= found
        used |= set(found.values())
        if found:
            name = next(iter(found))
            example = f"{given.names[found[name]]!r} for {name!r}"
            notes.append(f"{counted(len(found), 'name')} spelled in another way, such as {example}")
    _refuse_strangers(entities, given, rows)
    others = [name for name, row in places.items() if row not in used]
    if others:
        notes.append(f"{counted(len(others), 'vector')} with other names not used ({shortened(others, SHOWN)})")
    return Matched(torch.tensor([rows.get(name, -1) for name in entities]), notes)


def _unique(given: Vectors) -> dict[str, int]:
    """Return the row of each name; one name with two different vectors is refused."""
    places = dict[str, int]()
    for row, name in enumerate(given.names):
        first = places.setdefault(name, row)
        if first != row and not np.array_equal(given.table[first], given.table[row]):
            seen = f"the name {name[:40]!r} twice, in rows {first + 1:,} and {row + 1:,}, with different vectors"
            raise InputError(f"{seen}; keep one of them")
    return places


def _by_spelling(rows: Mapping[str, int], spelled: Callable[[str], str]) -> dict[str, int]:
    """Return the row of each spelling that only one name has."""
    found, twice = dict[str, int](), set[str]()
    for name, row in rows.items():
        twice |= {spelled(name)} & found.keys()
        found[spelled(name)] = row
    return {each: row for each, row in found.items() if each not in twice}


def _refuse_strangers(entities: Vocabulary, given: Vectors, rows: Mapping[str, int]) -> None:
    if not rows:
        seen = f"none of the {counted(len(given.names), 'name')} of vectors, such as {given.names[0][:40]!r}"
        remedy = "check that they are of the same graph, or give other names, as by --names"
        raise InputError(f"{seen}, is an entity of the graph, such as {entities[0][:40]!r}; {remedy}")
