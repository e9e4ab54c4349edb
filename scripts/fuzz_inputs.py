"""Inputs of `scripts/fuzz.py`: whole files, the same with a few things changed, and soup of words."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

NUMBERS = (b"0", b"-1", b"2147483648", b"18446744073709551616", b"1e999", b"9" * 50)
WHOLE = (0, 1, 2**7, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
LARGEST = 1_000_000  # bytes of what is repeated
Word = TypeVar("Word", str, bytes)
Files = Mapping[str, bytes]


class Input(NamedTuple):
    """A file to try."""

    name: str
    data: bytes


@dataclass(frozen=True)
class Target:
    """Something that reads files: each input is one of the `seeds`, changed, or soup of `words`."""

    seeds: Callable[[Path], Files]  # written with the help of a folder; by name
    check: Callable[[Path], bool]  # of a file, in a folder that has the other seeds too
    words: Sequence[str] = ()
    share: int = 10  # of the inputs, beside the other targets
    within: Callable[[str, bytes, Callable[[bytes], bytes]], bytes] | None = None  # changes what is packed in a file
    together: bool = False  # whether the seeds are the files of one folder, one of them changed at a time


def drawn(target: Target, seeds: Files, name: str, seed: int, number: int) -> Input:
    """Return an input; the same for the same seed and number."""
    if number < len(seeds):
        return Input(*sorted(seeds.items())[number])
    draw = random.Random(f"{seed} {name} {number}")
    file = draw.choice(sorted(seeds))
    if target.words and draw.random() < 0.4:
        return Input(file, soup(draw, target.words).encode("utf-8", "surrogatepass"))
    data, change = seeds[file], partial(changed, draw, words=target.words, others=list(seeds.values()))
    if target.within and draw.random() < 0.7:
        data = target.within(file, data, change)
    else:
        for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
            data = change(data)
    return Input(file, data)


def soup(draw: random.Random, words: Sequence[str]) -> str:
    """Return some words, many of them several times and one perhaps very often."""
    few = draw.sample(words, draw.randint(1, min(len(words), 8)))
    text = "".join(draw.choice(few) for _ in range(draw.randint(1, 120)))
    if draw.random() < 0.15:
        often = many("".join(draw.choice(words) for _ in range(draw.randint(1, 4))), draw.choice((200, 5000, 20_000)))
        place = draw.randint(0, len(text))
        text = text[:place] + often + text[place:]
    return text


def many(word: Word, count: int) -> Word:
    """Return a word so many times, or as often as makes a file of some size."""
    return word * min(count, LARGEST // max(len(word), 1))


def changed(draw: random.Random, data: bytes, words: Sequence[str], others: Sequence[bytes]) -> bytes:
    """Return data with one thing changed in it."""
    if not data:
        return draw.randbytes(draw.randint(1, 20))
    start = draw.randrange(len(data)) if draw.random() < 0.7 else len(data) - 1 - draw.randrange(min(len(data), 600))
    end = min(len(data), start + draw.choice((1, 1, 2, 4, 8, 50, 1000)))
    part, other = data[start:end], draw.choice(others)
    word = draw.choice(words).encode("utf-8", "surrogatepass") if words else draw.randbytes(4)
    width, number = draw.choice((2, 4, 8)), draw.choice(WHOLE)
    change = draw.randrange(13)
    if change > 10 and len(data) < 100_000:  # between two words
        place = 1 + max(data.rfind(mark, 0, start) for mark in (b" ", b"\n", b">", b"\t", b","))
        return data[:place] + many(word, draw.choice((1, 2, 300, 12_000))) + data[place:]
    fresh = {
        0: bytes([part[0] ^ 1 << draw.randrange(8), *part[1:]]),
        1: draw.randbytes(len(part)),
        2: b"",
        3: part * draw.choice((2, 3, 10, 100_000 // len(part))),
        4: part + word,
        5: word,
        6: (number % 2 ** (8 * width)).to_bytes(width, draw.choice(("little", "big"))),
        7: draw.choice(NUMBERS),
        8: other[start : start + draw.randint(1, 100)],
        9: word * draw.choice((20, 300)) if len(data) < 100_000 else word,
    }
    return data[:start] if change >= 10 else data[:start] + fresh[change] + data[end:]
