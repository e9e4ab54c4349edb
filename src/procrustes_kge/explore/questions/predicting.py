"""The best answers to a question: tails, heads, relations of a pair, what lies along several relations, analogies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from procrustes_kge.errors import InputError
from procrustes_kge.explore.questions import soft
from procrustes_kge.explore.questions.answers import Answers, Prediction
from procrustes_kge.explore.questions.asking import (
    Name,
    Triple,
    query_of,
    row_of,
    spelled,
    spelled_path,
    triple_of,
    wrong_way_round,
)
from procrustes_kge.explore.questions.questions import Found, Numbered, Questions, asked_in_turn
from procrustes_kge.explore.scores.asked import Asked, ask
from procrustes_kge.models.highest import highest
from procrustes_kge.words import counted

MANY = 8  # questions, from which on an index of the graph is worth its time
ANALOGY = ("a", "b", "c")
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
    found = Questions.of(questions, (a, b, c), lambda row: analogy_of_row(asked, row), ANALOGY)
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


def predictions(asked: Asked, questions: Iterable[Numbered], k: int, known: bool) -> Iterator[Found]:
    """Yield the answers to each question in turn, and remarks on it."""
    for some in asked_in_turn(questions, asked.per_block):
        if len(some) > MANY:
            asked.facts.prepare()
        plain = [each.asks for each in some if each.asks.path is not None and len(each.asks.path) == 1]
        scores = iter(_plain_scores(asked, plain, k))
        for number, triple in some:
            if triple.path is None:
                found, remark = _relations(asked, triple), ""
            else:
                alone = len(triple.path) == 1
                found = _entities(asked, triple, next(scores)) if alone else _along(asked, triple)
                remark = wrong_way_round(asked, triple)
            rows = _listed(asked, number, triple, found, k, known)
            names = asked.relations if triple.path is None else asked.entities
            left_out = [] if known else [str(names[each]) for each in found.held]
            yield Found(number, spelled(asked, triple), rows, left_out, [remark] if remark else [])


def _plain_scores(asked: Asked, triples: Sequence[Triple], k: int) -> Iterable[Any]:
    """Return the scores of all entities for each question, or of the best that an index finds."""
    if not triples:
        return []
    queries = [query_of(asked, triple) for triple in triples]
    entities, directions = np.array([entity for entity, _ in queries]), np.array([path[0] for _, path in queries])
    if asked.searcher is None:
        return asked.scorer.scores(entities, directions)
    held = max(len(asked.facts.answers(entity, path[0])) for entity, path in queries)
    return asked.searcher.answers(entities, directions, k + held + 1)  # the entity itself may be left out too


@dataclass(frozen=True)
class Scored:
    """The scores of all possible answers to a question, and what is known of them."""

    scores: Any  # of all, or of the few that an index found
    held: dict[int, str]  # answers that the graph holds, each with its split
    itself: tuple[int, ...] = ()  # what is left out though nothing holds it: the entity that is asked about
    probabilities: Callable[[list[int]], list[float | None]] = lambda answers: [None] * len(answers)
    relation: Callable[[int], str] | None = None  # that speaks for an answer, where none is given
    via: Callable[[int], str | None] = lambda answer: None


def _entities(asked: Asked, triple: Triple, scores: Any) -> Scored:
    """Return the answers to a question with one relation."""
    entity, (direction,) = query_of(asked, triple)
    itself = () if asked.facts.may_answer_itself(entity, direction) else (entity,)

    def probabilities(answers: list[int]) -> list[float | None]:
        return asked.probabilities(scores[answers], direction)

    return Scored(scores, asked.facts.answers(entity, direction), itself, probabilities)


def _along(asked: Asked, triple: Triple) -> Scored:
    """Return the answers to a question with several relations, each with what it is reached through."""
    entity, path = query_of(asked, triple)
    way = soft.along(asked, entity, path)

    def via(answer: int) -> str:
        between = [str(asked.entities[each]) for each in way.through(answer)]
        return " → ".join(between if triple.tail is None else reversed(between))

    return Scored(soft.logs(way.shares), asked.facts.along(entity, path), via=via)


def _relations(asked: Asked, triple: Triple) -> Scored:
    """Return the relations that may lead from a head to a tail."""
    assert triple.head is not None
    assert triple.tail is not None
    pair = soft.pair_shares(asked, triple.head, triple.tail)

    def probabilities(answers: list[int]) -> list[float | None]:
        return asked.probabilities(pair.scores[answers], answers)

    return Scored(pair.logs, asked.facts.relations_of(triple.head, triple.tail), probabilities=probabilities)


def _listed(asked: Asked, number: int, triple: Triple, found: Scored, k: int, known: bool) -> list[Prediction]:
    """Return the k best answers by their scores; what is held already is marked, or left out."""
    left_out = set(found.itself) - found.held.keys() if known else {*found.itself, *found.held}
    count, few = k + len(left_out), not isinstance(found.scores, np.ndarray)
    first = found.scores.highest(count) if few else highest(found.scores, count)
    best = [each for each in first.tolist() if each not in left_out][:k]
    names = asked.relations if triple.path is None else asked.entities
    given = {
        "head": "" if triple.head is None else asked.entities[triple.head],
        "relation": "" if triple.path is None else spelled_path(asked, triple.path),
        "tail": "" if triple.tail is None else asked.entities[triple.tail],
    }
    rows = []
    for rank, (each, probability) in enumerate(zip(best, found.probabilities(best), strict=True), start=1):
        parts = given | {triple.wanted: names[each]} | ({"relation": found.relation(each)} if found.relation else {})
        row = Prediction(
            number,
            **parts,
            rank=rank,
            answer=names[each],
            label=names.label(each),
            score=float(found.scores[each]),
            probability=probability,
            known=found.held.get(each),
            via=found.via(each),
        )
        rows.append(row)
    return rows


def analogies(asked: Asked, questions: Iterable[Numbered], k: int, known: bool) -> Iterator[Found]:
    """Yield the answers to each analogy in turn, and remarks on it."""
    for number, (a, b, c) in questions:
        found = soft.analogous(asked, a, b, c)
        directions = found.directions[found.by]
        held = {answer: split for each in found.directions.tolist() for answer, split in _answers(asked, c, each)}
        itself = () if asked.facts.may_answer_itself(c, int(found.directions[0])) else (c,)

        def probabilities(answers: list[int], of: np.ndarray = directions, c: int = c) -> list[float | None]:
            used, place = np.unique(of[answers], return_inverse=True)
            return asked.probabilities(asked.scorer.scores(np.full(len(used), c), used)[place, answers], of[answers])

        def relation(answer: int, of: np.ndarray = directions) -> str:
            return asked.spelled(int(of[answer]))

        scored = Scored(soft.logs(found.shares), held, itself, probabilities, relation)
        rows = _listed(asked, number, Triple(c, (int(found.directions[0]),), None), scored, k, known)
        left_out = [] if known else [str(asked.entities[each]) for each in held]
        names = (str(asked.entities[each]) for each in (a, b, c))
        yield Found(number, "{} is to {} as {} is to ?".format(*names), rows, left_out, _doubts(asked, a, b, found))


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
