"""How much a file may ask for: what asks for more is refused before it takes the memory, or overflows a parser."""

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from procrustes_kge.errors import InputError

RATIO = 100  # a file may grow to so many times its size: packing makes names that repeat a twentieth
FREE = 2**22  # bytes, to which every file may grow
CHUNK = 2**20  # bytes that are unpacked at once
PIECE = 2**16  # packed bytes that are unpacked at once: what is left of them is copied where a member ends
# A packed file may have more members than this where they have so many bytes, packed and unpacked, on average: each
# takes some microseconds, even an empty one. What bgzip packs, block by block, has as many, but none so small.
MEMBERS, MEMBER = 10_000, 1000
DEEPEST_TRIPLE = 100  # triples within triples: of some ten thousand, the parser's stack overflows
DEEPEST_ELEMENT, MOST_ATTRIBUTES = 200, 1000  # of XML: with more, its parser takes ever longer for each
MOST_COLUMNS = 10_000  # of a line of text: each takes many times the byte that it may have
# From where a triple within a triple begins: no literal can stand before another begins in it.
QUOTED = re.compile(r"""(?:<<(?:[^<>#"'\\]|\\.|<(?!<)[^>]*+>?|#[^\n]*)*+)++""", re.DOTALL)


def available_memory() -> float:
    """Return how many bytes of memory this machine could still give; infinity where it does not say."""
    with contextlib.suppress(OSError, AttributeError, IndexError):  # only Linux shows this file
        return int(re.findall(r"^MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)[0]) * 1024
    with contextlib.suppress(OSError, AttributeError, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return float("inf")


def check_size(size: int, where: str, memory: float, seen: str = "has") -> None:
    """Refuse more bytes than half of the memory that is available: what is made of them needs the other half."""
    if size > memory / 2:
        shown = f"{seen} {size / 1e6:,.0f} MB, and {memory / 1e6:,.0f} MB of memory are available"
        raise InputError(f"{where}: {shown}, expected twice its size; give a part of it, or free memory")


@contextlib.contextmanager
def explain_memory(where: str) -> Iterator[None]:
    """Refuse in a sentence what memory runs out for."""
    try:
        yield
    except MemoryError:
        seen = "reading needs more memory than there is"
        raise InputError(f"{where}: {seen}; give a part of it, or free memory") from None


class Allowance:
    """What a file of a size may grow to while it is read; `most`, in bytes, is what the user allows instead."""

    def __init__(self, where: str, size: int, most: int | None = None) -> None:
        self.where, self.given = where, most is not None
        self.most = self.left = max(FREE, RATIO * size) if most is None else most

    def spend(self, size: int, what: str) -> None:
        """Count what the file grows by; refuse it where that is too much, `what` being said of it."""
        self.left -= size
        if self.left < 0:
            raise self.exceeded(what)

    def exceeded(self, what: str) -> InputError:
        """Return the error for a file that grows too much."""
        limit = "what --max-unpacked allows" if self.given else f"{RATIO} times its size and no less than 4 MB"
        seen = f"{self.where}: {what} more than {self.most / 1e6:,.0f} MB ({limit})"
        return InputError(f"{seen}; if you trust it, allow more, as by --max-unpacked 4GB (max_unpacked in Python)")

    def unpack(self, data: bytes, member: Callable[[], Any], padding: bytes = b"") -> bytes:
        """Return what all members unpack to, each by a decompressor of its own; between them may be padding."""
        parts, packed, skip = list[bytes](), memoryview(data), re.compile(b"[%b]*+" % padding if padding else b"")
        at, members, memory = 0, 0, available_memory()
        while at < len(data):
            members += 1
            if members > MEMBERS and at + self.most - self.left < members * MEMBER:
                seen = f"{self.where}: is packed in more than {MEMBERS:,} parts of hardly {MEMBER:,} bytes on average"
                raise InputError(f"{seen}; unpack it, and pack it again as a whole")
            for end, part in _member(packed, at, member()):
                self.spend(len(part), "unpacks to")
                check_size(self.most - self.left, self.where, memory, "unpacks to more than")
                parts.append(part)
                at = end
            at = next(skip.finditer(data, at)).end()
        return b"".join(parts)


def _member(packed: memoryview, at: int, member: Any) -> Iterator[tuple[int, bytes]]:
    """Yield what a member that begins here unpacks to, in parts, and where the bytes behind each begin."""
    while not member.eof:
        # That of zstd keeps what it has not unpacked yet, that of gzip gives it back.
        piece = packed[at : at + PIECE] if getattr(member, "needs_input", True) else packed[:0]
        part = member.decompress(piece, CHUNK)
        if not (piece or part or member.eof):
            raise EOFError("it ends in the middle")
        rest = member.unused_data if member.eof else getattr(member, "unconsumed_tail", b"")
        at += len(piece) - len(rest)
        yield at, part


def check_quoted(text: str, where: str) -> None:
    """Refuse triples within triples, in any syntax but XML, that are too many for the parser."""
    if text.count("<<") > DEEPEST_TRIPLE:
        for found in QUOTED.finditer(text):
            if found[0].count("<<") > DEEPEST_TRIPLE:
                line = text.count("\n", 0, found.start()) + 1
                raise InputError(_nested(f"{where}, line {line}", "triples", DEEPEST_TRIPLE))


class Elements:
    """Counts elements of XML within elements; the parser calls it where one begins and where it ends."""

    def __init__(self, where: str, parser: Any) -> None:
        self.where, self.parser, self.depth = where, parser, 0
        parser.StartElementHandler, parser.EndElementHandler = self.begin, self.end

    def begin(self, _: str, attributes: Mapping[str, str]) -> None:
        """Refuse an element that is too deep, or has too many attributes."""
        self.depth += 1
        if self.depth > DEEPEST_ELEMENT:
            raise InputError(_nested(self._place(), "elements", DEEPEST_ELEMENT))
        if len(attributes) > MOST_ATTRIBUTES:
            seen = f"{self._place()}: an element with {len(attributes):,} attributes, expected {MOST_ATTRIBUTES:,}"
            raise InputError(f"{seen} at most; write statements as elements of their own")

    def end(self, _: str) -> None:
        """Count the end of an element."""
        self.depth -= 1

    def _place(self) -> str:
        return f"{self.where}, line {self.parser.CurrentLineNumber}"


def _nested(place: str, what: str, most: int) -> str:
    return f"{place}: {what} within {what}, more than {most} deep; is the file damaged? write it with fewer"
