"""word2vec, as text and binary: what gensim, fastText and GloVe write and read.

Text has a line for each word: the word and its numbers, with blanks between them; in binary the numbers are float32.
The first line says how many words and numbers there are; GloVe leaves it out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.contents import decode
from procrustes_kge.runs.exchange.content import Content, cell
from procrustes_kge.words import counted

HEADER = re.compile(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,9})[ \t]*\r?\n")
LONGEST_HEADER, LONGEST_WORD, LONGEST_NUMBER = 64, 10_000, 64  # bytes
MOST_NUMBERS = 2**20  # of a vector
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|nan|inf|infinity)", re.IGNORECASE)


def write_text(scratch: Path, name: str, content: Content) -> list[Path]:
    """Write a line for each name; a blank within a name becomes _."""
    table = content.vectors("word2vec")
    with (scratch / name).open("w", encoding="utf-8", errors="surrogatepass", newline="") as file:
        file.write(f"{table.shape[0]} {table.shape[1]}\n")
        for word, vector in zip(words_of(content.names), table, strict=True):
            file.write(word + " " + " ".join(map(cell, vector.tolist())) + "\n")
    return [scratch / name]


def write_binary(scratch: Path, name: str, content: Content) -> list[Path]:
    """Write float32 behind each name; a blank within a name becomes _."""
    table = content.vectors("word2vec").astype("<f4")
    with (scratch / name).open("wb") as file:
        file.write(f"{table.shape[0]} {table.shape[1]}\n".encode())
        for word, vector in zip(words_of(content.names), table, strict=True):
            file.write(word.encode("utf-8", "surrogatepass") + b" " + vector.tobytes() + b"\n")
    return [scratch / name]


def words_of(names: Sequence[str]) -> list[str]:
    """Return names as words of the format, which ends a word at the first blank."""
    words: dict[str, str] = {}
    for name in names:
        word = word_of(name)
        if word in words:
            raise InputError(
                f"the names {words[word]!r} and {name!r} both become {word!r} in word2vec, which allows no spaces; "
                "use --format parquet or npy"
            )
        words[word] = name
    return list(words)


def word_of(name: str) -> str:
    """Return a name without blanks.

    >>> word_of("new york")
    'new_york'
    """
    return re.sub(r"\s", "_", name) or "_"


def is_binary(data: bytes) -> bool:
    """Say whether a file is of the binary kind: behind its header are bytes that no text has."""
    header = HEADER.match(data[:LONGEST_HEADER])
    return header is not None and bool(CONTROL.search(data, header.end(), header.end() + LONGEST_WORD))


def read_binary(data: bytes, where: str) -> tuple[list[str], np.ndarray]:
    """Return names and vectors; what the header claims is compared with the file before memory is taken for it."""
    header = HEADER.match(data[:LONGEST_HEADER])
    if header is None:
        raise InputError(f"{where}: does not begin with how many words and numbers there are; is it word2vec?")
    (rows, dim), at = map(int, header.groups()), header.end()
    _check_header(rows, dim, (len(data) - at) // (4 * max(dim, 1) + 2), where)
    names, table = list[str](), np.empty((rows, dim), dtype=np.float32)
    for row in range(rows):
        while data[at : at + 1] == b"\n":
            at += 1
        end = data.find(b" ", at, at + LONGEST_WORD)
        if end < 0 or end + 1 + 4 * dim > len(data):
            seen = f"word {row + 1:,} of {rows:,} is cut off, or longer than {LONGEST_WORD:,} bytes"
            raise InputError(f"{where}: {seen}; download or write it again")
        names.append(_decoded(data[at:end], where, row))
        table[row] = np.frombuffer(data, "<f4", dim, end + 1)
        at = end + 1 + 4 * dim
    if rest := data[at:].strip(b"\n"):
        raise InputError(
            f"{where}: {counted(len(rest), 'byte')} behind the last of {counted(rows, 'word')}; is it whole?"
        )
    return names, table


def _decoded(word: bytes, where: str, row: int) -> str:
    try:
        return word.decode()
    except UnicodeDecodeError:
        raise InputError(f"{where}: word {row + 1:,} is not UTF-8; write it again as UTF-8") from None


def _check_header(rows: int, dim: int, most: int, where: str) -> None:
    if not rows or not dim:
        raise InputError(f"{where}: says that it has {rows:,} words of {dim:,} numbers; expected some of both")
    if dim > MOST_NUMBERS or rows > most:
        seen = f"says that it has {rows:,} words of {dim:,} numbers, and is too short for that"
        raise InputError(f"{where}: {seen}; download or write it again")


def read_text(data: bytes, where: str) -> tuple[list[str], np.ndarray]:
    """Return names and vectors, whether there is a header or not."""
    text = decode(data, where)
    lines = [line for line in text.replace("\r\n", "\n").split("\n") if line.strip()]
    header = HEADER.match(data.removeprefix(b"\xef\xbb\xbf")[:LONGEST_HEADER])
    if header is not None:
        rows, dim = map(int, header.groups())
        lines = lines[1:]
        _check_header(rows, dim, max(len(data) // 2, 1), where)
        if len(lines) != rows:
            seen = f"its first line says {counted(rows, 'word')}, but {counted(len(lines), 'line')} follow"
            raise InputError(f"{where}: {seen}; download or write it again")
    elif not lines:
        raise InputError(f"{where}: is empty, expected a word and its numbers in each line")
    else:
        dim = len(lines[0].split()) - 1
        if dim < 1:
            raise InputError(f"{where}, line 1: {lines[0][:40]!r}, expected a word and its numbers")
    if dim > MOST_NUMBERS or len(lines) * dim > len(data):  # each number has a character and a blank
        raise InputError(f"{where}: says that a word has {dim:,} numbers, and is too short for that; is it whole?")
    first = 1 if header is None else 2
    return _parsed(lines, dim, lambda row: f"{where}, line {row + first}")


def _parsed(lines: Sequence[str], dim: int, place: Callable[[int], str]) -> tuple[list[str], np.ndarray]:
    """Return names and vectors; a word may have blanks in it, the last `dim` fields of a line are numbers."""
    names, table = list[str](), np.empty((len(lines), dim), dtype=np.float32)
    for row, line in enumerate(lines):
        name, *fields = line.rstrip().rsplit(None, dim)
        if len(fields) != dim:
            seen = f"{counted(len(fields), 'number')} behind {name[:30]!r}, expected {dim:,}"
            raise InputError(f"{place(row)}: {seen}; is the line whole?")
        if len(line) > LONGEST_WORD + LONGEST_NUMBER * dim:
            raise InputError(f"{place(row)}: {len(line):,} characters for {dim:,} numbers; is it one line?")
        try:
            table[row] = [float(field) for field in fields]  # as text, NumPy would give each the room of the longest
        except ValueError:
            strange = next((each for each in fields if not NUMBER.fullmatch(each)), fields[0])
            raise InputError(f"{place(row)}: {strange[:30]!r} is no number, expected {dim:,} of them") from None
        names.append(name.strip())
    return names, table
