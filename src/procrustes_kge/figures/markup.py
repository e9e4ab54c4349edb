"""HTML and SVG put together from parts, so that no name of a graph can become a part of the page.

Text is escaped where it is put in; only what `element` made is taken as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

VOID = {"meta", "br", "hr", "link"}
UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]"
)  # characters that no page may have


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Content = str | int | Iterable[Any] | None  # nested to any depth


def element(tag: str, *content: Content, **attributes: str | float | bool | None) -> Markup:
    """Return an element; text in it is escaped. `class_` is class, other underscores are hyphens.

    >>> element("td", "<script>", class_="name", aria_label='a "b"')
    '<td class="name" aria-label="a &quot;b&quot;">&lt;script&gt;</td>'
    """
    opened = " ".join([tag, *(f'{_name(name)}="{_text(value)}"' for name, value in _given(attributes).items())])
    return Markup(f"<{opened}>" if tag in VOID else f"<{opened}>{joined(content)}</{tag}>")


def joined(content: Iterable[Content]) -> Markup:
    """Return parts one after another."""
    return Markup("".join(map(_part, content)))


def _part(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, Markup):
        return content
    return _text(content) if isinstance(content, str | int) else joined(content)


def _given(attributes: Mapping[str, str | float | bool | None]) -> dict[str, str | float]:
    there = {name: value for name, value in attributes.items() if value is not None and value is not False}
    return {name: "" if value is True else value for name, value in there.items()}


def _name(attribute: str) -> str:
    return attribute.rstrip("_").replace("_", "-") if attribute != "viewBox" else attribute


def _text(value: str | float) -> str:
    shown = f"{value:.5g}" if isinstance(value, float) else str(value)
    return escape(UNSEEN.sub("\N{REPLACEMENT CHARACTER}", shown), quote=True)


def name(text: str, **attributes: str) -> Markup:
    """Return a name of the user's, whose direction of writing stays its own."""
    return element("bdi", text, **attributes)


def table(
    caption: str, headings: Sequence[Content], rows: Iterable[Sequence[Content]], numbers_from: int = 1
) -> Markup:
    """Return a table; the first cell heads its row, and columns from a number on are numbers."""

    def cells(row: Sequence[Content]) -> list[Markup]:
        first, *others = row
        return [
            element("th", first, scope="row"),
            *(
                element("td", each, class_="number" if place >= numbers_from else None)
                for place, each in enumerate(others, start=1)
            ),
        ]

    head = [
        element("th", each, scope="col", class_="number" if place >= numbers_from else None)
        for place, each in enumerate(headings)
    ]
    body = [element("tr", cells(row)) for row in rows]
    inner = element("table", element("caption", caption), element("thead", element("tr", head)), element("tbody", body))
    # A table wider than a phone is moved sideways in its own room, by keys too.
    return element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def folded(summary: str, *content: Content) -> Markup:
    """Return something that is opened by a click or a key."""
    return element("details", element("summary", summary), *content)
