"""One question or many: rows, a frame, or a file of which the broken lines are told and the others answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from procrustes_kge.errors import InputError
from procrustes_kge.explore.answers import Answers, Refused, Row
from procrustes_kge.explore.question_files import TRIPLE, read_rows
from procrustes_kge.graphs.vocabulary import UnknownNameError
from procrustes_kge.words import counted

SUGGESTED = 20  # unknown names, for which those that may have been meant are looked for
Asks = TypeVar("Asks")


class Numbered(NamedTuple, Generic[Asks]):
    """A question with its number, or that of its line."""

    number: int
    asks: Asks


class Found(NamedTuple, Generic[Row]):
    """The answers to a question, and remarks on it."""

    number: int
    rows: Sequence[Row]
    remarks: Sequence[str] = ()


Answer = Callable[[Iterable[Numbered[Asks]]], Iterable[Found[Row]]]


@dataclass
class Questions(Generic[Asks]):
    """Questions in their order; those that cannot be understood are remembered, with the reason."""

    rows: Iterable[tuple[int, Sequence[Any] | InputError]]
    understood: Callable[[Sequence[Any]], Asks]
    where: str = ""  # the file or the list that they come from; '' for a single question, whose mistake is an error
    refused: list[Refused] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    good: int = 0

    @classmethod
    def of(
        cls,
        many: Any,
        single: Sequence[Any],
        understood: Callable[[Sequence[Any]], Asks],
        roles: Sequence[str] = TRIPLE,
    ) -> Questions[Asks]:
        """Return many questions, or else the single one."""
        if many is None:
            return cls([(1, single)], understood)
        if any(part is not None for part in single):
            raise InputError("both a question and a list of questions are given; give one of the two")
        where, rows = read_rows(many, roles)
        return cls(rows, understood, where)

    def __iter__(self) -> Iterator[Numbered[Asks]]:
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

    def answered(self, kind: type[Row], answer: Answer[Asks, Row]) -> Answers[Row]:
        """Return the answers to all questions."""
        rows = [row for found in self.stream(answer) for row in found]
        return Answers(kind, rows, self.notes, self.refused)

    def stream(self, answer: Answer[Asks, Row]) -> Iterator[Sequence[Row]]:
        """Yield the answers to each question in turn, and remember what is remarked on them."""
        for number, rows, remarks in answer(self):
            self.notes += [f"line {number}: {remark}" if self.where else remark for remark in remarks]
            yield rows


def asked_in_turn(questions: Iterable[Numbered[Asks]], size: int) -> Iterator[list[Numbered[Asks]]]:
    """Yield questions in groups of a size."""
    source = iter(questions)
    while some := list(islice(source, size)):
        yield some
