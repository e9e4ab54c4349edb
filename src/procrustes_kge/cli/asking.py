"""What the verbs that ask have in common: flags, questions from a file, and answers as a table, JSON, CSV or a file."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from procrustes_kge.cli.printing import print_json, print_notes, warnings_as_notes
from procrustes_kge.errors import InputError, printable
from procrustes_kge.explore.questions.questions import Answer, Found, Questions
from procrustes_kge.explore.questions.writing import TEXT, format_of, write_answers
from procrustes_kge.graphs.vocabulary import Vocabulary
from procrustes_kge.words import counted

SOME_REFUSED = 1  # exit code
LEFT_OUT = 3  # known answers that a line names

Count = Annotated[int, typer.Option("-k", "--count", help="How many answers to show.")]
Many = Annotated[
    str | None,
    typer.Option(
        "--questions", metavar="FILE", help="Questions, one on each line: a .tsv, .csv or .parquet file, or -."
    ),
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Write answers to a .tsv, .csv, .json or .parquet file.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that was not written so.")]
Format = Annotated[
    Literal["table", "json", "csv", "tsv"], typer.Option("--format", metavar="FORMAT", help="table, json, csv or tsv.")
]

Approximate = Annotated[
    bool | None,
    typer.Option("--index/--exact", help="Find the best by an index, or compare all.", show_default="by size"),
]


@dataclass(frozen=True)
class Output:
    """Where answers go, and how they look."""

    format: str = "table"
    out: Path | None = None
    force: bool = False

    @classmethod
    def of(cls, format: str, as_json: bool, out: Path | None, force: bool) -> "Output":
        """Return what the flags say; a file that could not be written is refused before any work is done."""
        if out is not None:
            format_of(out)
            if not out.parent.is_dir():
                raise InputError(f"{out.parent}: no such folder to write {out.name} into")
        return cls("json" if as_json else format, out, force)

    def show(
        self,
        kind: type,
        questions: Questions,
        answer: Answer,
        lines: Callable[[Found, bool], Iterable[str]],
        as_object: Callable[[Found], dict[str, Any]],
    ) -> None:
        """Answer questions, and print or write the answers; what could not be answered is told, and the exit code 1."""
        with warnings_as_notes():
            self._show(kind, questions, questions.stream(answer), lines, as_object)
        self._told(questions)

    def _show(
        self,
        kind: type,
        questions: Questions,
        found: Iterator[Found],
        lines: Callable[[Found, bool], Iterable[str]],
        as_object: Callable[[Found], dict[str, Any]],
    ) -> None:
        many = bool(questions.where)
        if self.out is not None:
            rows = Counted(row for each in found for row in each.rows)
            write_answers(self.out, kind, rows, self.force)
            print(f"wrote  {self.out}   {counted(questions.good, 'question')}, {counted(rows.seen, 'answer')}")
        elif self.format == "json" and not many:
            print_json(as_object(next(iter(found))) | {"notes": questions.notes})
        elif self.format == "json":
            rows_of = [asdict(row) for each in found for row in each.rows]
            print_json({"answers": rows_of, "refused": [asdict(each) for each in questions.refused]})
        elif self.format in TEXT:
            TEXT[self.format](kind, (row for each in found for row in each.rows), sys.stdout)
        else:
            for each in found:
                print("\n".join(lines(each, many)))

    def _told(self, questions: Questions) -> None:
        if self.format != "json" or self.out is not None or questions.where:
            print_notes(questions.notes)
        for each in questions.refused:
            print(f"{questions.where}, line {each.question}: {each.reason}", file=sys.stderr)
        if questions.refused:
            raise typer.Exit(SOME_REFUSED)


class Counted:
    """Rows that are counted as they pass."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self.rows, self.seen = rows, 0

    def __iter__(self) -> Iterator[Any]:
        for row in self.rows:
            self.seen += 1
            yield row


def prediction_lines(shows_relation: bool = False) -> Callable[[Found, bool], Iterable[str]]:
    """Return what prints the answers to a question, one on each line."""

    def lines(found: Found, many: bool) -> Iterator[str]:
        if many:
            yield f"{found.number}: {found.asked}"
        for row in found.rows:
            parts = [f"{row.score:8.3f}", *_probability(row.probability), *_name(row.answer, row.label)]
            parts += [row.relation] if shows_relation else []
            parts += [f"via {printable(row.via)}"] if row.via else []
            parts += [f"({row.known})"] if row.known else []
            yield f"{row.rank:>3}  {'   '.join(parts)}"
        if found.left_out:
            names = list(map(printable, found.left_out[:LEFT_OUT])) + ["…"] * (len(found.left_out) > LEFT_OUT)
            known, them = counted(len(found.left_out), "known answer"), "it" if len(found.left_out) == 1 else "them"
            yield f"left out: {known}, {', '.join(names)} (--known shows {them})"
        elif not found.rows:
            yield "there are no answers"

    return lines


def judgement_lines(found: Found, many: bool) -> Iterator[str]:
    """Yield how a triple is judged: on one line of many, or on several."""
    (row,) = found.rows
    triple = "   ".join(map(printable, (row.head, row.relation, row.tail)))
    known = f"   ({row.known})" if row.known else ""
    tail, head = (f"{rank:,g} of {of:,}" for rank, of in ((row.tail_rank, row.tails), (row.head_rank, row.heads)))
    if many:
        parts = [f"{row.score:8.3f}", *_probability(row.probability), f"tail {tail}", f"head {head}"]
        yield f"{found.number}: {'   '.join(parts)}   {triple}{known}"
        return
    yield f"{triple}{known}"
    yield f"score         {row.score:.3f}"
    if row.probability is not None:
        yield f"probability   {row.probability:.1%}"
    yield f"tail rank     {tail}"
    yield f"head rank     {head}"


def neighbour_lines(found: Found, many: bool) -> Iterator[str]:
    """Yield the neighbours of an entity, one on each line."""
    if many:
        yield f"{found.number}: {found.asked}"
    for row in found.rows:
        yield f"{row.rank:>3}  {row.similarity:8.3f}   {'   '.join(_name(row.answer, row.label))}"


def _probability(share: float | None) -> list[str]:
    return [] if share is None else [f"{share:6.1%}"]


def _name(name: str, label: str) -> list[str]:
    return [printable(name)] if label == name else [printable(name), printable(label)]


def as_objects(rows: Sequence[Any], *left: str) -> list[dict[str, Any]]:
    """Return rows as objects without what all rows of a question share."""
    shared = {"question", "head", "relation", "tail", "entity", "answer", *left}
    kept = ({key: each for key, each in asdict(row).items() if key not in shared} for row in rows)
    return [{"name": row.answer, **about} for row, about in zip(rows, kept, strict=True)]


def named(role: str, names: Vocabulary, row: int) -> dict[str, str]:
    """Return the name in a role, with its label where it has one."""
    label = {f"{role}_label": names.label(row)} if names[row] in names.labels else {}
    return {role: names[row], **label}
