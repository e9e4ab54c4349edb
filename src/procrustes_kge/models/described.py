"""What a model is, in one line for a terminal and as a small table for a notebook."""

from collections.abc import Mapping
from html import escape

from procrustes_kge.words import counted, plural


def as_line(title: str, counts: Mapping[str, int]) -> str:
    """Return a title and what is counted.

    >>> as_line("Procrustes", {"entity": 10412, "relation": 1})
    'Procrustes   10,412 entities · 1 relation'
    """
    parts = (counted(count, noun) for noun, count in counts.items())
    return f"{title}   {' · '.join(parts)}"


def as_table(title: str, facts: Mapping[str, int | str]) -> str:
    """Return an HTML table of facts; the name of a count is a noun in the singular.

    >>> as_table("R&D", {"entity": 10412})
    '<table><caption>R&amp;D</caption><tr><th>entities</th><td>10,412</td></tr></table>'
    """
    shown = ((plural(name), f"{fact:,}") if isinstance(fact, int) else (name, fact) for name, fact in facts.items())
    rows = (f"<tr><th>{escape(name)}</th><td>{escape(fact)}</td></tr>" for name, fact in shown)
    return f"<table><caption>{escape(title)}</caption>{''.join(rows)}</table>"
