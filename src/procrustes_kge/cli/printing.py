"""What every verb prints: JSON for programs, notes for people. Nothing here loads PyTorch."""

import json
import sys
from collections.abc import Iterable
from typing import Any


def print_json(content: Any) -> None:
    """Print one JSON document."""
    readable = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    print(json.dumps(content, indent=2, ensure_ascii=not readable))


def print_notes(notes: Iterable[str]) -> None:
    """Print notes for people, apart from what programs read."""
    for note in notes:
        print(f"note: {note}", file=sys.stderr, flush=True)
