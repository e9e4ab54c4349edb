"""The entities whose vectors lie nearest to that of another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from procrustes_kge.errors import InputError
from procrustes_kge.explore.questions.answers import Answers, Neighbour
from procrustes_kge.explore.questions.asking import Name, row_of
from procrustes_kge.explore.questions.predicting import check_count
from procrustes_kge.explore.questions.questions import Found, Numbered, Questions, asked_in_turn
from procrustes_kge.explore.scores.asked import Asked, ask
from procrustes_kge.models.highest import highest


def neighbours(
    source: Any, entity: Name | None = None, *, k: int = 10, questions: Any = None, graph: Any = None
) -> Answers[Neighbour]:
    """Return the k entities that are most similar to an entity: cos(x, y) = x · y / (‖x‖ ‖y‖).

    Entities are alike where the model gives them alike places in triples. `questions` are many entities: a list, a
    frame with a column `entity`, or the path of a file with one on each line.
    """
    asked = ask(source, graph)
    check_count(k)
    found = Questions.of(questions, (entity,), lambda row: entity_of_row(asked, row), ("entity",))
    return found.answered(Neighbour, lambda numbered: nearest(asked, numbered, k))


def entity_of_row(asked: Asked, row: Sequence[Any]) -> int:
    """Return the row of the entity whose neighbours are asked for."""
    if row[0] is None:
        raise InputError("no entity is given; name the one whose neighbours are asked for")
    return row_of(asked.entities, row[0])


def nearest(asked: Asked, entities: Iterable[Numbered], k: int) -> Iterator[Found]:
    """Yield the neighbours of each entity in turn."""
    for some in asked_in_turn(entities, asked.per_block):
        rows = np.array([each.asks for each in some])
        for (number, entity), found in zip(some, _similar(asked, rows, k), strict=True):
            first = highest(found, k + 1) if isinstance(found, np.ndarray) else found.highest(k + 1)
            best = [each for each in first.tolist() if each != entity][:k]
            ranked = enumerate(best, start=1)
            yield Found(
                number,
                asked.entities[entity],
                [_row(asked, number, entity, rank, each, found[each]) for rank, each in ranked],
            )


def _similar(asked: Asked, rows: np.ndarray, k: int) -> Iterable[Any]:
    """Return the similarities of all entities to each of some, or of those that an index finds."""
    if asked.searcher is not None:
        return asked.searcher.nearest(rows, k + 1)
    vectors, inverse = asked.scorer.vectors(), asked.inverse_lengths
    # Not by products of vectors made unit: that would copy the table.
    similar = (vectors[rows] * inverse[rows, None]) @ vectors.T
    similar *= inverse
    return similar


def _row(asked: Asked, number: int, entity: int, rank: int, answer: int, similarity: Any) -> Neighbour:
    names = asked.entities
    return Neighbour(number, names[entity], rank, names[answer], names.label(answer), float(similarity))
