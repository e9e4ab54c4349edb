"""The flags that say how a graph is read, for each verb that reads one to train on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from procrustes_kge.cli.terminal import read_with_bar
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.training.budget import parse_size

Source = Annotated[
    str,
    typer.Argument(
        help="A dataset's name, a file of triples, - for standard input, or a folder with train, valid and test files."
    ),
]
_SHARE = 0.05


@dataclass(frozen=True)
class Reading:
    """How a graph is read: each field is a flag."""

    separator: Annotated[str | None, typer.Option(help="What separates columns: tab, comma, space, ';' or '|'.")] = None
    header: Annotated[bool | None, typer.Option(help="Whether the file's first line names the columns.")] = None
    columns: Annotated[
        str | None, typer.Option(help="Columns of head, relation and tail, by name or number, such as 2,3,4.")
    ] = None
    labels: Annotated[
        Path | None, typer.Option(help="File of names and readable labels to show with them (.tsv, .csv, .json, RDF).")
    ] = None
    max_unpacked: Annotated[
        str | None,
        typer.Option(help="Most that a file may unpack to, such as 4GB.", show_default="100 times its size, or 4MB"),
    ] = None
    valid: Annotated[float, typer.Option(help="Share of a single file set aside for validation.")] = _SHARE
    test: Annotated[float, typer.Option(help="Share of a single file set aside for testing.")] = _SHARE
    split_seed: Annotated[int, typer.Option(help="Random seed of that split, independent of --seed.")] = 0

    def check(self) -> int | None:
        """Refuse what cannot be, before anything is read; return the bytes that a file may unpack to."""
        return int(parse_size(self.max_unpacked, "max-unpacked")) if self.max_unpacked is not None else None

    def read(self, source: str) -> Graph:
        """Read a graph, with a progress bar during downloads."""
        said = {name: getattr(self, name) for name in ("separator", "header", "columns", "labels", "valid", "test")}
        return read_with_bar(source, **said, max_unpacked=self.check(), seed=self.split_seed)

    def options(self) -> dict[str, Any]:
        """Return the flags that were given, for the command that repeats a run."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) != field.default}


def with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command these flags in the place of its parameter `reading`, and that what they say."""
    hints = get_type_hints(Reading, include_extras=True)
    own = dict(inspect.signature(command, eval_str=True).parameters)
    flags = [
        inspect.Parameter(field.name, own["reading"].kind, default=field.default, annotation=hints[field.name])
        for field in fields(Reading)
    ]
    shown = [each for name, one in own.items() for each in (flags if name == "reading" else [one])]

    @wraps(command)
    def wrapped(**values: Any) -> None:
        command(reading=Reading(**{flag.name: values.pop(flag.name) for flag in flags}), **values)

    wrapped.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return wrapped
