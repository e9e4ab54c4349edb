"""What every verb prints: JSON for programs, notes for people. Nothing here loads PyTorch."""

import json
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any


def print_json(content: Any) -> None:
    """Print one JSON document."""
    readable = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    print(json.dumps(content, indent=2, ensure_ascii=not readable))


def print_notes(notes: Iterable[str]) -> None:
    """Print notes for people, apart from what programs read."""
    for note in notes:
        print(f"note: {note}", file=sys.stderr, flush=True)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Show each warning as a line of its own, without file names and line numbers."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"note: {message}", file=sys.stderr, flush=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
