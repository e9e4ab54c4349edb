"""Words that messages share: counts in singular and plural, lists, and the name that was probably meant."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the singular for one.

    >>> counted(1, "epoch"), counted(2, "training triple"), counted(1200, "entity"), counted(0, "batch")
    ('1 epoch', '2 training triples', '1,200 entities', '0 batches')
    """
    return f"{count:,} {noun if count == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Return the plural of a regular noun.

    >>> plural("key"), plural("query"), plural("loss"), plural("epoch")
    ('keys', 'queries', 'losses', 'epochs')
    """
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "tch", "sh")) else f"{noun}s"


def either(words: Iterable[object]) -> str:
    """Return words as alternatives.

    >>> either(["npy"]), either(["train", "valid", "test"])
    ('npy', 'train, valid or test')
    """
    return _joined(words, "or")


def listed(words: Iterable[object]) -> str:
    """Return words as a list.

    >>> listed(["fast", "paper"]), listed(["head", "relation", "tail"])
    ('fast and paper', 'head, relation and tail')
    """
    return _joined(words, "and")


def _joined(words: Iterable[object], last: str) -> str:
    *first, end = map(str, words)
    return f"{', '.join(first)} {last} {end}" if first else end


def shortened(words: Sequence[str], most: int) -> str:
    """Return the first of many words, and how many there are.

    >>> shortened(["a", "b", "c"], 2), shortened(["a", "b"], 2)
    ('a, b, … (3 in all)', 'a, b')
    """
    return ", ".join(words[:most]) + (f", … ({len(words):,} in all)" if len(words) > most else "")


def unknown(kind: str, asked: object, known: Iterable[str], near: Sequence[str] | None = None, most: int = 40) -> str:
    """Return what to say of a name that is not among those known, with the one that was probably meant.

    `near` are names that may have been meant; without them, the closest spelling is.

    >>> unknown("recipe", "acurate", ["accurate", "fast"])
    "unknown recipe 'acurate'. Did you mean accurate? Known: accurate, fast"
    >>> unknown("recipe", "slow", ["accurate", "fast"])
    "unknown recipe 'slow'. Known: accurate, fast"
    """
    names = list(known)
    if near is None:
        by_spelling = {name.lower(): name for name in names}
        near = [by_spelling[each] for each in get_close_matches(str(asked).lower(), by_spelling, n=1)]
    meant = f" Did you mean {either(near)}?" if near else ""
    return f"unknown {kind} {asked!r}.{meant} Known: {shortened(names, most)}"
