"""The best answers to a question: tails, heads, relations of a pair, what lies along several relations, analogies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from procrustes_kge.errors import InputError
from procrustes_kge.explore import soft
from procrustes_kge.explore.answers import Answers, Prediction
from procrustes_kge.explore.asked import Asked, ask
from procrustes_kge.explore.asking import Name, Triple, query_of, row_of, spelled_path, triple_of, wrong_way_round
from procrustes_kge.explore.questions import Found, Numbered, Questions, asked_in_turn
from procrustes_kge.models.highest import highest
from procrustes_kge.words import counted

MANY = 8  # questions, from which on an index of the graph is worth its time
UNLIKELY = 10  # of the relation between a and b: b has a place behind this one among its answers


def predict(
    source: Any,
    head: Name | None = None,
    relation: Name | Sequence[Name] | None = None,
    tail: Name | None = None,
    *,
    k: int = 10,
    known: bool = False,
    questions: Any = None,
    graph: Any = None,
) -> Answers[Prediction]:
    """Return the k best answers for the one of head, relation and tail that is not given, best first.

    `source` is a run folder, a run, a model, or what `ask` made of one. A relation may be a list: (x, [r, s], ?) asks
    for what s leads to from what r leads to; ^r, or r⁻¹, leads from tail to head. Answers that the graph holds already
    are left out, unless `known`. `questions` are many of these: rows of (head, relation, tail) with None, '' or '?' for
    what is asked for, a frame, or the path of a file of them.
    """
    asked = ask(source, graph)
    check_count(k)
    found = Questions.of(questions, (head, relation, tail), lambda row: triple_of_row(asked, row))
    return found.answered(Prediction, lambda numbered: predictions(asked, numbered, k, known))


def analogy(
    source: Any,
    a: Name | None = None,
    b: Name | None = None,
    c: Name | None = None,
    *,
    k: int = 10,
    known: bool = True,
    questions: Any = None,
    graph: Any = None,
) -> Answers[Prediction]:
    """Return the k best answers to: a is to b as c is to what?

    What leads from a to b is a relation, in either direction: the one that the graph knows, or else those that the
    model finds likely, each by its share. Answers are what they lead to from c; `relation` is the one that speaks most
    for it. `questions` are rows of (a, b, c).
    """
    asked = ask(source, graph)
    check_count(k)
    found = Questions.of(questions, (a, b, c), lambda row: analogy_of_row(asked, row))
    return found.answered(Prediction, lambda numbered: analogies(asked, numbered, k, known))


def check_count(k: Any) -> None:
    """Refuse a number of answers that is none."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"k {k!r:.60}, expected a whole number of at least 1")


def triple_of_row(asked: Asked, row: Sequence[Any]) -> Triple:
    """Return the question that a row of head, relation and tail asks."""
    triple = triple_of(asked, *row)
    if not triple.wanted:
        raise InputError("head, relation and tail are all given, so nothing is asked; `score` judges whole triples")
    return triple


def analogy_of_row(asked: Asked, row: Sequence[Any]) -> tuple[int, int, int]:
    """Return the rows of three entities."""
    if None in row:
        raise InputError("an analogy with a part missing; give three entities: a is to b as c is to what?")
    a, b, c = (row_of(asked.entities, each) for each in row)
    return a, b, c


def predictions(
    asked: Asked, questions: Iterable[Numbered[Triple]], k: int, known: bool
) -> Iterator[Found[Prediction]]:
    """Yield the answers to each question in turn, and remarks on it."""
    for some in asked_in_turn(questions, asked.per_block):
        if len(some) > MANY:
            asked.facts.prepare()
        plain = [each.asks for each in some if each.asks.path is not None and len(each.asks.path) == 1]
        scores = iter(_plain_scores(asked, plain))
        for number, triple in some:
            if triple.path is None:
                yield Found(number, _relations(asked, number, triple, k, known))
                continue
            if len(triple.path) == 1:
                rows = _entities(asked, number, triple, next(scores), k, known)
            else:
                rows = _along(asked, number, triple, k, known)
            remark = wrong_way_round(asked, triple)
            yield Found(number, rows, [remark] if remark else [])


def _plain_scores(asked: Asked, triples: Sequence[Triple]) -> np.ndarray:
    if not triples:
        return np.empty((0, len(asked.entities)))
    queries = [query_of(asked, triple) for triple in triples]
    entities, directions = np.array([entity for entity, _ in queries]), np.array([path[0] for _, path in queries])
    return asked.scorer.scores(entities, directions)


def _entities(asked: Asked, number: int, triple: Triple, scores: np.ndarray, k: int, known: bool) -> list[Prediction]:
    """Return the answers to a question with one relation."""
    entity, (direction,) = query_of(asked, triple)
    held = asked.facts.answers(entity, direction)
    itself = [] if asked.facts.may_answer_itself(entity, direction) else [entity]
    return _listed(asked, number, triple, scores, held, itself, k, known)


def _along(asked: Asked, number: int, triple: Triple, k: int, known: bool) -> list[Prediction]:
    """Return the answers to a question with several relations, each with what it is reached through."""
    entity, path = query_of(asked, triple)
    way = soft.along(asked, entity, path)
    with np.errstate(divide="ignore"):
        scores = np.log(way.shares)
    held = asked.facts.along(entity, path)

    def via(answer: int) -> str:
        between = [str(asked.entities[each]) for each in way.through(answer)]
        return " → ".join(between if triple.tail is None else reversed(between))

    found = _listed(asked, number, triple, scores, held, [], k, known)
    rows = [asked.entities.id(row.answer) for row in found]
    return [replace(row, via=via(place)) for row, place in zip(found, rows, strict=True)]


def _relations(asked: Asked, number: int, triple: Triple, k: int, known: bool) -> list[Prediction]:
    """Return the relations that may lead from a head to a tail."""
    assert triple.head is not None
    assert triple.tail is not None
    scores = soft.pair_shares(asked, triple.head, triple.tail)
    held = asked.facts.relations_of(triple.head, triple.tail)
    return _listed(asked, number, triple, scores, held, [], k, known)


def _listed(
    asked: Asked,
    number: int,
    triple: Triple,
    scores: np.ndarray,
    held: dict[int, str],
    itself: list[int],
    k: int,
    known: bool,
    relation: Callable[[int], str] | None = None,
) -> list[Prediction]:
    """Return the k best answers by their scores; what is held already is marked, or left out."""
    left_out = {*itself, *(() if known else held)} - (held.keys() if known else set())
    best = [each for each in highest(scores, k + len(left_out)).tolist() if each not in left_out][:k]
    names = asked.relations if triple.path is None else asked.entities
    given = {
        "head": "" if triple.head is None else asked.entities[triple.head],
        "relation": "" if triple.path is None else spelled_path(asked, triple.path),
        "tail": "" if triple.tail is None else asked.entities[triple.tail],
    }
    found = []
    for rank, each in enumerate(best, start=1):
        parts = {**given, triple.wanted: names[each]}
        if relation is not None:
            parts["relation"] = relation(each)
        answer = {"answer": names[each], "label": names.label(each)}
        found.append(Prediction(number, **parts, rank=rank, **answer, score=float(scores[each]), known=held.get(each)))
    return found


def analogies(
    asked: Asked, questions: Iterable[Numbered[tuple[int, int, int]]], k: int, known: bool
) -> Iterator[Found[Prediction]]:
    """Yield the answers to each analogy in turn, and remarks on it."""
    for number, (a, b, c) in questions:
        found = soft.analogous(asked, a, b, c)
        first = int(found.directions[0])
        held = {answer: split for each in found.directions.tolist() for answer, split in _answers(asked, c, each)}
        itself = [] if asked.facts.may_answer_itself(c, first) else [c]
        with np.errstate(divide="ignore"):
            scores = np.log(found.shares)

        def relation(answer: int, found: soft.Analogy = found) -> str:
            return asked.spelled(int(found.directions[found.by[answer]]))

        triple = Triple(c, (first,), None)
        rows = _listed(asked, number, triple, scores, held, itself, k, known, relation)
        yield Found(number, rows, _doubts(asked, a, b, found))


def _answers(asked: Asked, entity: int, direction: int) -> Iterable[tuple[int, str]]:
    return asked.facts.answers(entity, direction).items()


def _doubts(asked: Asked, a: int, b: int, found: soft.Analogy) -> list[str]:
    """Say so where no relation leads from a to b: the answers then follow from one that does not fit."""
    if found.known:
        return []
    direction = found.directions[:1]
    scores = asked.scorer.scores(np.array([a]), direction)[0]
    ahead = int((scores > scores[b]).sum())
    if ahead < UNLIKELY:
        return []
    pair = f"{asked.entities[a]!r} to {asked.entities[b]!r}"
    seen = f"the likeliest is {asked.spelled(int(direction[0]))!r}, which has {counted(ahead, 'better answer')}"
    return [f"no relation is known, or likely, to lead from {pair} ({seen}): do not rely on this analogy"]
