"""Find the name that a person meant, or names that resemble what was typed."""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Literal
from unicodedata import combining, normalize

# Of other prefixes only what follows the colon is looked for, since files differ in what they mean by them.
PREFIXES = {
    "dbo": "http://dbpedia.org/ontology/",
    "dbp": "http://dbpedia.org/property/",
    "dbr": "http://dbpedia.org/resource/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "owl": "http://www.w3.org/2002/07/owl#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "wd": "http://www.wikidata.org/entity/",
    "wdt": "http://www.wikidata.org/prop/direct/",
}

LONGEST = 1000  # characters of a name that may be spelled in another way


def plain(text: str) -> str:
    """Return a name in a standard spelling: Unicode composed, without surrounding white space or <angle brackets>.

    >>> plain(" <http://e.org/Zoe\u0308> ") == "http://e.org/Zo\xeb"
    True
    """
    text = text.strip()
    text = text if text.isascii() else _normal("NFC", text)
    return text[1:-1] if len(text) > 2 and text[0] == "<" and text[-1] == ">" else text


def _normal(form: Literal["NFC", "NFKD"], text: str) -> str:
    """Return text in a normal form of Unicode; long text as it is: accents upon accents take for ever to order."""
    return normalize(form, text) if len(text) <= LONGEST else text


def folded(text: str) -> str:
    """Return a text without accents and capitals.

    >>> folded("Zoë"), folded("STRASSE") == folded("Straße")
    ('zoe', True)
    """
    if text.isascii():
        return text.lower()
    return "".join(mark for mark in _normal("NFKD", text.casefold()) if not combining(mark))


def loose(text: str) -> str:
    """Return a name without capitals, and with one space for any white space or underscores: both are often left out.

    >>> loose(" New_York  City"), loose("new york city")
    ('new york city', 'new york city')
    """
    return re.sub(r"[\s_]+", " ", plain(text).lower()).strip()


def last_part(name: str) -> str:
    """Return what follows the last # or / of an IRI or a path, '' where there is neither.

    >>> last_part("http://e.org/dog"), last_part("/people/person/"), last_part("dog")
    ('dog', 'person', '')
    """
    parts = re.split("[#/]", name.rstrip("#/"))
    return parts[-1] if len(parts) > 1 else ""


class Spellings:
    """Every way to refer to a name; an index is built when a name is first asked for by another spelling."""

    def __init__(self, names: Sequence[str], labels: Mapping[str, str]) -> None:
        self.names = names
        self.labels = labels

    @cached_property
    def _by_spelling(self) -> dict[str, list[str]]:
        return _grouped((plain(name), name) for name in self.names)

    @cached_property
    def _by_label(self) -> dict[str, list[str]]:
        return _grouped((plain(label), name) for name, label in self.labels.items())

    @cached_property
    def _by_last_part(self) -> dict[str, list[str]]:
        return _grouped((plain(last_part(name)), name) for name in self.names)

    @cached_property
    def _by_loose_spelling(self) -> dict[str, list[str]]:
        labels = self.labels.items()
        pairs = [*((loose(name), name) for name in self.names), *((loose(label), name) for name, label in labels)]
        return _grouped(dict.fromkeys(pairs))

    @cached_property
    def _by_loose_last_part(self) -> dict[str, list[str]]:
        return _grouped((loose(last_part(name)), name) for name in self.names)

    def meant(self, asked: str) -> tuple[str, list[str]]:
        """Return how the name was given (by a label, say), and the names that it may mean: ideally one, maybe none."""
        asked = plain(asked)
        prefix, colon, rest = asked.partition(":")
        iri = PREFIXES[prefix] + rest if prefix in PREFIXES else ""
        part = rest if colon and not rest.startswith("//") else asked
        # Labels, unlike names, need not be unique; nor need the ends of IRIs.
        ways: list[tuple[str, Callable[[], dict[str, list[str]]], str]] = [
            ("another spelling", lambda: self._by_spelling, asked),
            ("another spelling", lambda: self._by_spelling, iri),
            ("the label", lambda: self._by_label, asked),
            ("the last part", lambda: self._by_last_part, "" if iri else part),
            ("another spelling", lambda: self._by_loose_spelling, loose(asked)),
            ("the last part", lambda: self._by_loose_last_part, "" if iri else loose(part)),
        ]
        for what, index, key in ways:
            if key and (found := index().get(key)):
                return what, found
        return "", []

    def near(self, asked: str, most: int = 5) -> list[str]:
        """Return names and labels that contain or resemble what was asked, ignoring accents and capitals."""
        wanted = folded(plain(asked))
        known = [(folded(text), text) for text in [*self.names, *dict.fromkeys(self.labels.values())]]
        near = [
            (text != wanted, not text.startswith(wanted), len(text), shown)
            for text, shown in known
            if text == wanted or (len(wanted) > 2 and wanted in text)
        ]
        found = [shown for *_, shown in sorted(near, key=lambda each: each[:3])]
        if len(found) < 3:
            known += [(folded(part), name) for name in self.names if (part := last_part(name))]
            shown_for = _grouped(known)
            for text in difflib.get_close_matches(wanted, shown_for, n=3, cutoff=0.7):
                found += shown_for[text]
        rest = asked.partition(":")[2]
        if not found and rest and not rest.startswith("//"):  # a prefix of the user's own
            return self.near(rest, most)
        return list(dict.fromkeys(found))[:most]


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return all that stand beside each key, in their order."""
    groups: dict[str, list[str]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups
