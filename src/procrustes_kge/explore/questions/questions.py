"""One question or many: rows, a frame, or a file of which the broken lines are told and the others answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from procrustes_kge.errors import InputError
from procrustes_kge.explore.questions.answers import Answers, Refused, Row
from procrustes_kge.explore.questions.question_files import TRIPLE, read_rows
from procrustes_kge.graphs.vocabulary import UnknownNameError
from procrustes_kge.words import counted

SUGGESTED = 20  # unknown names, for which those that may have been meant are looked for


class Numbered(NamedTuple):
    """A question with its number, or that of its line."""

    number: int
    asks: Any


class Found(NamedTuple):
    """The answers to a question, in words as it was understood, with known answers that were left out, and remarks."""

    number: int
    asked: str
    rows: Sequence[Any]
    left_out: Sequence[str] = ()
    remarks: Sequence[str] = ()


Answer = Callable[[Iterable[Numbered]], Iterable[Found]]


@dataclass
class Questions:
    """Questions in their order; those that cannot be understood are remembered, with the reason."""

    rows: Iterable[tuple[int, Sequence[Any] | InputError]]
    understood: Callable[[Sequence[Any]], Any]
    where: str = ""  # the file or the list that they come from; '' for a single question, whose mistake is an error
    refused: list[Refused] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    good: int = 0

    @classmethod
    def of(
        cls,
        many: Any,
        single: Sequence[Any],
        understood: Callable[[Sequence[Any]], Any],
        roles: Sequence[str] = TRIPLE,
    ) -> Questions:
        """Return many questions, or else the single one."""
        if many is None:
            return cls([(1, single)], understood)
        if any(part is not None for part in single):
            raise InputError("both a question and a list of questions are given; give one of the two")
        where, rows = read_rows(many, roles)
        return cls(rows, understood, where)

    def __iter__(self) -> Iterator[Numbered]:
        """Yield the questions that can be understood."""
        for number, row in self.rows:
            try:
                if isinstance(row, InputError):
                    raise row
                asks = self.understood(row)
            except InputError as error:
                if not self.where:
                    raise
                shown = error.brief if isinstance(error, UnknownNameError) and self._enough else str(error)
                self.refused.append(Refused(number, shown))
                continue
            self.good += 1
            yield Numbered(number, asks)
        if self.where and not self.good:
            raise self._none()

    @property
    def _enough(self) -> bool:
        """Whether so many are refused that nobody waits for suggestions to all of them."""
        return len(self.refused) >= SUGGESTED

    def _none(self) -> InputError:
        if not self.refused:
            return InputError(f"{self.where}: holds no questions; expected one on each line")
        first, bad = self.refused[0], counted(len(self.refused), "question")
        return InputError(f"{self.where}: {bad}, and none can be answered; line {first.question}: {first.reason}")

    def answered(self, kind: type[Row], answer: Answer) -> Answers[Row]:
        """Return the answers to all questions."""
        rows = [row for found in self.stream(answer) for row in found.rows]
        return Answers(kind, rows, self.notes, self.refused)

    def stream(self, answer: Answer) -> Iterator[Found]:
        """Yield the answers to each question in turn, and remember what is remarked on them."""
        for found in answer(self):
            self.notes += [f"line {found.number}: {each}" if self.where else each for each in found.remarks]
            yield found


def asked_in_turn(questions: Iterable[Numbered], size: int) -> Iterator[list[Numbered]]:
    """Yield questions in groups of a size."""
    source = iter(questions)
    while some := list(islice(source, size)):
        yield some
