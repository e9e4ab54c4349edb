"""Names of entities or relations in row order, and the row of a name, however a person writes it.

Nothing here loads PyTorch: neither a shell that completes names nor a question that numpy answers waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.lookup import Spellings
from procrustes_kge.words import counted, shortened, unknown

SPLITS = ("train", "valid", "test")
MOST_SHOWN = 5  # names in a message


class Vocabulary(Sequence[str]):
    """Names in row order, with the row of each name, and readable labels if there are any."""

    def __init__(self, names: Iterable[str], kind: str, labels: Mapping[str, str] | None = None) -> None:
        self.names = tuple(names)
        self.kind = kind
        self.labels = {name: labels[name] for name in self.names if name in labels} if labels else {}

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: Any) -> Any:
        return self.names[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __repr__(self) -> str:
        return f"Vocabulary({counted(len(self), self.kind)})"

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    @cached_property
    def _spellings(self) -> Spellings:
        return Spellings(self.names, self.labels)

    def id(self, name: str) -> int:
        """Return the row of a name; a label, the last part of an IRI or another spelling will do if it is unique."""
        if name in self._ids:
            return self._ids[name]
        what, meant = self._spellings.meant(name)
        if len(meant) == 1:
            return self._ids[meant[0]]
        if meant:
            raise InputError(f"{self.kind} {name!r} is {what} of {len(meant)} names; give one of them: {quoted(meant)}")
        raise UnknownNameError(self, name)

    def near(self, name: str) -> list[str]:
        """Return names and labels that may have been meant."""
        return self._spellings.near(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._ids

    def means(self, name: str) -> bool:
        """Say whether `id` knows the name."""
        return name in self._ids or len(self._spellings.meant(name)[1]) == 1

    def label(self, index: int) -> str:
        """Return the label of a row, or its name if it has none."""
        name = self.names[index]
        return self.labels.get(name, name)

    def shown(self, index: int) -> str:
        """Return the name of a row, followed by its label if that differs."""
        name, label = self.names[index], self.label(index)
        return name if label == name else f"{name} ({label})"

    def labelled(self, labels: Mapping[str, str]) -> Vocabulary:
        """Return the same names with these labels; names without a new label keep the one they have."""
        return Vocabulary(self.names, self.kind, {**self.labels, **labels})


class UnknownNameError(InputError):
    """A name that is not there; which may have been meant is found out when somebody reads the message."""

    def __init__(self, names: Vocabulary, asked: str) -> None:
        super().__init__(f"unknown {names.kind} {asked!r}")
        self.names, self.asked = names, asked

    @property
    def brief(self) -> str:
        """The message without suggestions."""
        return super().__str__()

    @cached_property
    def _whole(self) -> str:
        near = list(map(repr, self.names.near(self.asked)))
        return str(InputError(unknown(self.names.kind, self.asked, map(repr, self.names), near, most=MOST_SHOWN)))

    def __str__(self) -> str:
        return self._whole


def quoted(names: Sequence[str], most: int = MOST_SHOWN) -> str:
    """Return the first of some names in quotation marks, and how many there are."""
    return shortened(list(map(repr, names)), most)
