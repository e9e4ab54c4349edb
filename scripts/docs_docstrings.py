"""Docstrings as Markdown: examples and columns keep their lines, and angle brackets are no HTML."""

from __future__ import annotations

import re
from typing import Any

import griffe


class AsMarkdown(griffe.Extension):
    """Changes every docstring that the API reference shows."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of a module, class, function or attribute, where it has one."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    """Return a docstring whose examples are fenced, as are paragraphs that are set in columns or indented."""
    return "\n\n".join(map(_paragraph, re.split(r"\n\s*\n", docstring)))


def _paragraph(text: str) -> str:
    lines = text.split("\n")
    if lines[0].startswith(">>> "):
        return f"```pycon\n{text}\n```"
    if all(line.startswith("    ") for line in lines):
        return text
    if sum("   " in line.strip() for line in lines) > 1:
        return f"```text\n{text}\n```"
    # Every other part stands between backticks, as code.
    parts = text.split("`")
    return "`".join(part if place % 2 else part.replace("<", "&lt;") for place, part in enumerate(parts))
