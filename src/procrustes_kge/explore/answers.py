"""Answers as rows of a table: plain dataclasses, which become frames of pandas or polars where those are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from typing import Any, Generic, TypeVar

from procrustes_kge.errors import InputError
from procrustes_kge.system.extras import package
from procrustes_kge.words import counted


@dataclass(frozen=True)
class Prediction:
    """A triple that a model offers, and which part of it is the answer.

    `known` is the split of the graph that holds it, if one does; `rank` is its place among what was not left out. With
    several relations, `via` is the entity, or the entities, that the answer is most likely reached through.
    """

    question: int  # the number of the question, or of its line
    head: str
    relation: str
    tail: str
    rank: int
    answer: str
    label: str
    score: float
    probability: float | None = None
    known: str | None = None
    via: str | None = None


@dataclass(frozen=True)
class Judgement:
    """How a model scores a triple, and where it stands among the answers to both its queries.

    Ranks are among all entities that are no other known answers; ties count half.
    """

    question: int
    head: str
    relation: str
    tail: str
    score: float  # as the answer to (head, relation, ?)
    tail_rank: float
    tails: int  # how many were compared
    head_rank: float
    heads: int
    probability: float | None = None
    known: str | None = None


@dataclass(frozen=True)
class Neighbour:
    """An entity whose vector points nearly where that of another does: the cosine of their angle is the similarity."""

    question: int
    entity: str
    rank: int
    answer: str
    label: str
    similarity: float


@dataclass(frozen=True)
class MissingTriple:
    """A triple that the graph does not hold; its score is that of its tail as an answer to (head, relation, ?)."""

    rank: int
    head: str
    relation: str
    tail: str
    head_label: str
    tail_label: str
    score: float
    probability: float | None = None


@dataclass(frozen=True)
class Refused:
    """A question that could not be answered: its number, or that of its line, and why."""

    question: int
    reason: str


Row = TypeVar("Row", Prediction, Judgement, Neighbour, MissingTriple)


class Answers(Sequence[Row], Generic[Row]):
    """Rows of one kind, the best of each question first, with notes and with the questions that were refused."""

    kind: type[Row]
    rows: tuple[Row, ...]

    def __init__(
        self, kind: type[Row], rows: Iterable[Row], notes: Sequence[str] = (), refused: Sequence[Refused] = ()
    ) -> None:
        self.kind, self.rows, self.notes, self.refused = kind, tuple(rows), tuple(notes), tuple(refused)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answers) and self.rows == other.rows

    __hash__ = None  # type: ignore[assignment]

    @property
    def columns(self) -> list[str]:
        """The names of the columns, which are the fields of a row."""
        return columns_of(self.kind)

    def records(self) -> list[dict[str, Any]]:
        """Return each row as a mapping from columns to values."""
        return [{name: getattr(row, name) for name in self.columns} for row in self.rows]

    def _by_column(self) -> dict[str, list[Any]]:
        return {name: [getattr(row, name) for row in self.rows] for name in self.columns}

    def to_pandas(self) -> Any:
        """Return a frame of pandas."""
        try:
            import pandas
        except ImportError:
            raise InputError("a frame of pandas needs pandas: pip install pandas") from None
        return pandas.DataFrame(self._by_column(), columns=self.columns)

    def to_polars(self) -> Any:
        """Return a frame of polars, with the same types of columns whatever the rows hold."""
        return polars_frame(self.kind, self._by_column())

    def __repr__(self) -> str:
        lines: list[str] = ["   ".join(cells).rstrip() for cells in _aligned(self._cells())]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes), *self._left()])

    def _repr_html_(self) -> str:
        head, *body = self._cells()
        rows = ["".join(f"<th>{escape(cell)}</th>" for cell in head)]
        rows += ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in body]
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"

    def _cells(self) -> list[list[str]]:
        """Return the cells of a table for people: without what is the same in all rows, or says nothing."""
        shown: list[str] = [name for name in self.columns if self._says_something(name)]
        return [shown, *([_text(getattr(row, name)) for name in shown] for row in self.rows)]

    def _says_something(self, name: str) -> bool:
        values = [getattr(row, name) for row in self.rows]
        if name == "label":
            return values != [getattr(row, "answer", None) for row in self.rows]
        return len(set(values)) > 1 if name == "question" else any(value is not None for value in values)

    def _left(self) -> list[str]:
        return [f"{counted(len(self.refused), 'question')} refused"] if self.refused else []


def polars_frame(kind: type, columns: Mapping[str, list[Any]], work: str = "a frame of polars") -> Any:
    """Return the columns of a table of such rows as a frame of polars."""
    polars = package("polars", work)
    kinds = {"int": polars.Int64, "float": polars.Float64, "str": polars.String}
    return polars.DataFrame(
        columns, schema={field.name: kinds[str(field.type).partition(" |")[0]] for field in fields(kind)}
    )


def columns_of(kind: type) -> list[str]:
    """Return the names of the columns of a table of such rows."""
    return [field.name for field in fields(kind)]


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _aligned(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
