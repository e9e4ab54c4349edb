"""How likely is this triple? Its score, and its place among all answers to both its queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from procrustes_kge.errors import InputError
from procrustes_kge.explore.questions import soft
from procrustes_kge.explore.questions.answers import Answers, Judgement
from procrustes_kge.explore.questions.asking import Name, Triple, spelled, spelled_path, triple_of
from procrustes_kge.explore.questions.questions import Found, Numbered, Questions, asked_in_turn
from procrustes_kge.explore.scores.asked import Asked, ask
from procrustes_kge.models.highest import NOT_NUMBERS


def score(
    source: Any,
    head: Name | None = None,
    relation: Name | Sequence[Name] | None = None,
    tail: Name | None = None,
    *,
    questions: Any = None,
    graph: Any = None,
) -> Answers[Judgement]:
    """Return the score of a triple, or of each of many, and its ranks among the answers to (h, r, ?) and (?, r, t).

    Ranks are those that `evaluate` counts: other known answers are left out, and ties count half. `questions` are rows
    of (head, relation, tail), a frame, or the path of a file of them.
    """
    asked = ask(source, graph)
    found = Questions.of(questions, (head, relation, tail), lambda row: whole_triple_of_row(asked, row))
    return found.answered(Judgement, lambda numbered: judgements(asked, numbered))


def whole_triple_of_row(asked: Asked, row: Sequence[Any]) -> Triple:
    """Return the triple that a row of head, relation and tail gives."""
    if missing := [role for role, part in zip(("head", "relation", "tail"), row, strict=True) if part is None]:
        raise InputError(f"a triple without its {missing[0]}; give all three, or ask for it with `predict`")
    return triple_of(asked, *row)


class Place(NamedTuple):
    """Where an answer stands among the candidates of its query."""

    score: float
    rank: float  # ties count half: a model that gives everything the same score must not rank first
    candidates: int
    known: str | None


def judgements(asked: Asked, triples: Iterable[Numbered]) -> Iterator[Found]:
    """Yield the judgement of each triple in turn."""
    for some in asked_in_turn(triples, max(1, asked.per_block // 2)):
        if len(some) > 1:
            asked.facts.prepare()
        for (number, triple), (tails, heads) in zip(some, _places(asked, [each.asks for each in some]), strict=True):
            assert triple.head is not None
            assert triple.path is not None
            assert triple.tail is not None
            row = Judgement(
                number,
                head=asked.entities[triple.head],
                relation=spelled_path(asked, triple.path),
                tail=asked.entities[triple.tail],
                score=tails.score,
                tail_rank=tails.rank,
                tails=tails.candidates,
                head_rank=heads.rank,
                heads=heads.candidates,
                probability=_probability(asked, triple, tails.score),
                known=tails.known,
            )
            yield Found(number, spelled(asked, triple), [row])


def _probability(asked: Asked, triple: Triple, score: float) -> float | None:
    """Return the probability of a triple, where it is one: several relations make none."""
    (first, *more) = triple.path or (0,)
    return None if more else asked.probabilities(np.array([score]), [first])[0]


def _places(asked: Asked, triples: Sequence[Triple]) -> Iterator[tuple[Place, Place]]:
    """Yield the places of each triple's tail, and of its head."""
    plain = [triple for triple in triples if len(triple.path or ()) == 1]
    queries = [query for triple in plain for query in _both(asked, triple)]
    scores = iter(())
    if queries:
        entities, directions = np.array([(entity, path[0]) for entity, path, _ in queries]).T
        scores = iter(asked.scorer.scores(entities, directions))
    for triple in triples:
        ways = []
        for entity, path, answer in _both(asked, triple):
            if len(path) == 1:
                ways.append(_place(next(scores), answer, asked.facts.answers(entity, path[0])))
            else:
                scored = soft.logs(soft.along(asked, entity, path).shares)
                ways.append(_place(scored, answer, asked.facts.along(entity, path)))
        yield ways[0], ways[1]


def _both(asked: Asked, triple: Triple) -> list[tuple[int, tuple[int, ...], int]]:
    """Return what a triple answers from its head, and from its tail: entity, path, answer."""
    assert triple.head is not None
    assert triple.path is not None
    assert triple.tail is not None
    back = tuple(asked.inverse(direction) for direction in reversed(triple.path))
    return [(triple.head, triple.path, triple.tail), (triple.tail, back, triple.head)]


def _place(scores: np.ndarray, answer: int, held: dict[int, str]) -> Place:
    """Return the place of an answer among all entities that are not other known answers."""
    if np.isnan(scores).any():
        raise InputError(NOT_NUMBERS)
    own, others = scores[answer], [each for each in held if each != answer]
    higher = int((scores > own).sum()) - int((scores[others] > own).sum())
    equal = int((scores == own).sum()) - int((scores[others] == own).sum())
    return Place(float(own), higher + (equal + 1) / 2, len(scores) - len(others), held.get(answer))
