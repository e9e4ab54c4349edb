"""What a model is, in one line for a terminal and as a small table for a notebook."""

from collections.abc import Mapping
from html import escape

SINGULAR = {"entities": "entity", "relations": "relation", "dimensions": "dimension"}


def as_line(title: str, counts: Mapping[str, int]) -> str:
    """Return a title and what is counted.

    >>> as_line("Procrustes", {"entities": 10412, "relations": 1})
    'Procrustes   10,412 entities · 1 relation'
    """
    parts = (f"{count:,} {SINGULAR[name] if count == 1 else name}" for name, count in counts.items())
    return f"{title}   {' · '.join(parts)}"


def as_table(title: str, facts: Mapping[str, int | str]) -> str:
    """Return an HTML table of facts; names may hold what HTML means otherwise.

    >>> as_table("R&D", {"entities": 10412})
    '<table><caption>R&amp;D</caption><tr><th>entities</th><td>10,412</td></tr></table>'
    """
    shown = {name: f"{fact:,}" if isinstance(fact, int) else fact for name, fact in facts.items()}
    rows = (f"<tr><th>{escape(name)}</th><td>{escape(fact)}</td></tr>" for name, fact in shown.items())
    return f"<table><caption>{escape(title)}</caption>{''.join(rows)}</table>"
