"""Three columns of names, from any format: which columns they are, and what counts as a name.

Every format ends in `named`, so that the rules hold alike for all: white space around a name is no part of it, what
is inside stays, and no name is empty.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from procrustes_kge.errors import InputError, printable
from procrustes_kge.words import counted, unknown

ROLES = ("head", "relation", "tail")
# The plainest word first: of `relation` and `label`, the first is meant.
ROLE_WORDS = (
    ("head", "subject", "subj", "source", "src", "from", "start", "node1", "entity1", "s", "h"),
    ("relation", "relationship", "rel", "predicate", "property", "edge", "link", "p", "r", "type", "label"),
    ("tail", "object", "obj", "target", "dst", "to", "end", "node2", "entity2", "o", "t"),
)
SAY_WHICH = "say which with --columns, by name or number, such as --columns 1,2,3 (in Python, columns=(1, 2, 3))"


@dataclass(frozen=True)
class Columns:
    """The names of all triples, row by row, with notes for the user on what was left out or assumed."""

    heads: list[str]
    relations: list[str]
    tails: list[str]
    notes: tuple[str, ...] = ()
    doubtful: str = ""  # the place of a first line that may be a header: it has no words that are known in one
    labels: Mapping[str, str] = field(default_factory=dict)  # readable names that the file gives


def named(
    where: str,
    columns: Iterable[Iterable[str]],
    notes: Sequence[str] = (),
    place: Callable[[int], str] | None = None,
    doubtful: str = "",
    labels: Mapping[str, str] | None = None,
) -> Columns:
    """Return columns of names without surrounding white space; refuse empty names and empty columns.

    `place` says in words where a row is, by its number from 0.
    """
    # 'Paris' and 'Paris ' are one entity to whoever reads the file.
    heads, relations, tails = stripped = [list(map(str.strip, column)) for column in columns]
    for role, column in zip(ROLES, stripped, strict=True):
        if "" in column:
            row = column.index("")
            seen = place(row) if place else f"{where}, row {row + 1}"
            raise InputError(f"{seen}: the {role} is empty, expected a name; fill it in or leave the triple out")
    for role, column in zip(ROLES, stripped, strict=True):
        check_characters(where, role, column, place)
    if not heads:
        seen = f" ({'; '.join(notes)})" if notes else ""
        raise InputError(f"{where}: holds no triples{seen}; expected a head, a relation and a tail in each row")
    readable = {name.strip(): label.strip() for name, label in (labels or {}).items() if label.strip()}
    return Columns(heads, relations, tails, tuple(notes), doubtful, readable)


def check_characters(
    where: str, role: str, names: Sequence[str], place: Callable[[int], str] | None = None, before: int = 0
) -> None:
    """Refuse names that no file of text can hold: with a NUL, or half of a character."""
    together = "".join(names)
    if "\0" in together or not _is_text(together):
        row, name = next((row, name) for row, name in enumerate(names) if "\0" in name or not _is_text(name))
        seen = place(row) if place else f"{where}, row {before + row + 1}"
        what = "a NUL character" if "\0" in name else "half of a surrogate pair"
        raise InputError(f"{seen}: the {role} {name[:30]!a} has {what} in it, expected text; rename it")


def _is_text(text: str) -> bool:
    """Say whether text has UTF-8."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def wanted_columns(columns: str | Sequence[str | int] | None) -> list[str] | None:
    """Return the columns of head, relation and tail that a user asks for: 'a,b,c', or three names or numbers."""
    if columns is None:
        return None
    wanted = [str(each).strip() for each in (columns.split(",") if isinstance(columns, str) else columns)]
    if len(wanted) != 3 or len(set(wanted)) != 3 or "" in wanted:
        raise InputError(
            f"columns {columns!r}, expected three different columns, for head, relation and tail; "
            "try head,relation,tail or, by number, 1,2,3"
        )
    return wanted


def numbered(width: int) -> list[str]:
    """Return what columns without names are called: '1', '2', and so on."""
    return [str(number) for number in range(1, width + 1)]


def choose(names: Sequence[str], wanted: Sequence[str] | None, where: str) -> tuple[list[int], list[str]]:
    """Return the places of head, relation and tail among columns of these names, and notes for the user.

    They are those that are wanted, or have names that are known, or are the only three.
    """
    names = [name.strip() for name in names]
    if len(names) < 3:
        raise InputError(f"{where}: {counted(len(names), 'column')}, expected 3 (head, relation, tail)")
    places = [_place(names, each, where) for each in wanted] if wanted else recognised(names)
    if places is None:
        seen = f"{counted(len(names), 'column')} ({shortened(names)})"
        if len(names) > 3:
            raise InputError(f"{where}: {seen}, expected 3 (head, relation, tail); {SAY_WHICH}")
        if strays := _elsewhere(names):
            raise InputError(f"{where}: {seen}, read in this order {strays[0]}; {SAY_WHICH}")
        places = [0, 1, 2]
    taken = [names[place] for place in places]
    notes = []
    if taken != numbered(3) and [name.lower() for name in taken] != list(ROLES):
        notes.append(f"columns read as head, relation, tail: {', '.join(taken)}")
    if others := [name for place, name in enumerate(names) if place not in places]:
        notes.append(f"columns left out: {shortened(others)}")
    return places, notes


def recognised(names: Sequence[str]) -> list[int] | None:
    """Return the places of head, relation and tail among the names, or None unless all three are recognised.

    >>> recognised(["label", "Source", "target", "relation"])
    [1, 3, 2]
    """
    lowered = [name.strip().lower() for name in names]
    known = [[lowered.index(word) for word in words if word in lowered] for words in ROLE_WORDS]
    return [places[0] for places in known] if all(known) else None


def _elsewhere(names: Sequence[str]) -> list[str]:
    """Return, in words, which of three columns would be read as one thing though their names say another."""
    lowered, strays = [name.lower() for name in names], []
    for own, (role, words) in enumerate(zip(ROLES, ROLE_WORDS, strict=True)):
        places = [place for place, name in enumerate(lowered) if name in words]
        if places and own not in places:
            strays.append(f"{names[places[0]]!r}, which sounds like the {role}, would be the {ROLES[places[0]]}")
    return strays


def _place(names: Sequence[str], wanted: str, where: str) -> int:
    """Return which column is called so, or has this number."""
    if names.count(wanted) > 1:
        raise InputError(
            f"{where}: {names.count(wanted)} columns are called {wanted!r}; give the number of one, counted from 1"
        )
    if wanted in names:
        return names.index(wanted)
    if wanted.isdecimal() and 1 <= int(wanted) <= len(names):
        return int(wanted) - 1
    raise InputError(f"{where}: {unknown('column', wanted, names, most=8)}. Give names, or numbers counted from 1")


def shortened(names: Sequence[str], most: int = 8) -> str:
    """Return names as a list that fits a line."""
    shown = [printable(name if len(name) <= 30 else f"{name[:29]}…") or "''" for name in names[:most]]
    return ", ".join(shown) + (", …" if len(names) > most else "")
