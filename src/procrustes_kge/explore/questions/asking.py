"""Questions as people write them → questions of ids: names, labels or rows, inverse relations, several relations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from procrustes_kge.errors import InputError
from procrustes_kge.explore.scores.asked import Asked
from procrustes_kge.graphs.columns import ROLES
from procrustes_kge.graphs.vocabulary import Vocabulary
from procrustes_kge.words import counted

Name = str | int | np.integer  # a number is a row
ASKED_FOR = ("", "?")  # what stands in a line of questions where the answer belongs
ROW = re.compile(r"#(\d{1,15})")
ABOUT = "give two of head, relation and tail: the third is what is asked for"


@dataclass(frozen=True)
class Triple:
    """What is given of a triple, by rows: None is what is asked for. A relation is a path of one direction or more."""

    head: int | None
    path: tuple[int, ...] | None
    tail: int | None

    @property
    def wanted(self) -> str:
        """Which of the three is asked for; '' where all are given."""
        return next((role for role, given in zip(ROLES, self.given, strict=True) if given is None), "")

    @property
    def given(self) -> tuple[int | None, tuple[int, ...] | None, int | None]:
        """Head, path and tail."""
        return self.head, self.path, self.tail


def row_of(names: Vocabulary, asked: Name) -> int:
    """Return the row of a name, a label or another spelling; of a row as a number, or as text such as #17, itself."""
    if isinstance(asked, str):
        asked = asked.strip()
        row = ROW.fullmatch(asked)
        if row is None or names.means(asked):
            return names.id(asked)
        asked = int(row[1])
    if isinstance(asked, bool) or not isinstance(asked, int | np.integer):
        raise InputError(f"{names.kind} {asked!r:.60}, expected a name, or the number of a row")
    if not 0 <= asked < len(names):
        raise InputError(f"{names.kind} {asked}, expected a row from 0 to {len(names) - 1:,}, or a name")
    return int(asked)


def direction_of(asked: Asked, relation: Name) -> int:
    """Return the direction that is meant: ^name or name⁻¹ is a relation from tail to head."""
    if isinstance(relation, str) and not asked.relations.means(relation):
        text = relation.strip()
        for plain in {text.removeprefix("^"), text.removesuffix("⁻¹"), text.removesuffix("^-1")} - {text}:
            return asked.inverse(direction_of(asked, plain))
    return row_of(asked.relations, relation)


def path_of(asked: Asked, relation: Name | Sequence[Name]) -> tuple[int, ...]:
    """Return the directions of a relation, or of several that are followed one after another.

    Several are given as a list, or in one text with commas between them, where no relation is called so.
    """
    if not isinstance(relation, str | int | np.integer):
        steps = tuple(direction_of(asked, each) for each in relation)
        if not steps:
            raise InputError("a path of 0 relations, expected 1 or more")
        return steps
    if isinstance(relation, str) and "," in relation and not asked.relations.means(relation):
        return tuple(direction_of(asked, part) for part in relation.split(","))
    return (direction_of(asked, relation),)


def triple_of(
    asked: Asked, head: Name | None = None, relation: Name | Sequence[Name] | None = None, tail: Name | None = None
) -> Triple:
    """Return a triple of which one may be None, or all are given."""
    if (missing := [head, relation, tail].count(None)) > 1:
        given = next((role for role, each in zip(ROLES, (head, relation, tail), strict=True) if each is not None), None)
        seen = f"a question with the {given} alone" if missing == 2 else "a question about nothing"
        raise InputError(f"{seen}; {ABOUT}")
    return Triple(
        None if head is None else row_of(asked.entities, head),
        None if relation is None else path_of(asked, relation),
        None if tail is None else row_of(asked.entities, tail),
    )


def spelled_path(asked: Asked, path: Sequence[int]) -> str:
    """Return a path by the names of its relations."""
    return ", ".join(map(asked.spelled, path))


def spelled(asked: Asked, triple: Triple) -> str:
    """Return a triple by its names, with ? for what is asked for."""
    head, path, tail = triple.given
    names = ("?" if row is None else str(asked.entities[row]) for row in (head, tail))
    return f"   {'?' if path is None else spelled_path(asked, path)}   ".join(names)


def query_of(asked: Asked, triple: Triple) -> tuple[int, tuple[int, ...]]:
    """Return the entity that is asked about, and the directions that lead from it to the answer."""
    assert triple.path is not None
    if triple.tail is None:
        assert triple.head is not None
        return triple.head, triple.path
    return triple.tail, tuple(asked.inverse(direction) for direction in reversed(triple.path))


def wrong_way_round(asked: Asked, triple: Triple) -> str:
    """Return a remark on a question whose entity is known at the other end of the relation, and there alone; or ''."""
    entity, path = query_of(asked, triple)
    here, there = (len(asked.facts.answers(entity, direction)) for direction in (path[0], asked.inverse(path[0])))
    if here or not there:
        return ""
    given, other = ("head", "tail") if triple.tail is None else ("tail", "head")
    step = path[0] if given == "head" else asked.inverse(path[0])
    known = f"{counted(there, 'triple')} {'has' if there == 1 else 'have'} it as {other}"
    name, relation = asked.entities[entity], asked.spelled(step)
    return f"no triple has {name!r} as {given} of {relation!r}, {known}; did you mean --{other} {name!r}?"
