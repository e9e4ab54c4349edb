"""The content of a file: its format by its name, its unpacked bytes, its text."""

import codecs
import os
import re
import stat
import sys
import zlib
from pathlib import Path
from typing import Any

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.limits import CHUNK, Allowance, available_memory, check_size
from procrustes_kge.system.extras import package

TEXT_SUFFIXES = (".tsv", ".txt", ".csv", ".tab", ".del")
RDF_SYNTAXES = {".nt": "N_TRIPLES", ".ttl": "TURTLE", ".trig": "TRIG", ".nq": "N_QUADS"}
RDF_SYNTAXES |= {".rdf": "RDF_XML", ".owl": "RDF_XML", ".xml": "RDF_XML"}
PACKINGS = (".gz", ".zst")
GZIP = 16 + zlib.MAX_WBITS  # asks zlib for the head and the checksum of gzip
SUFFIXES = (*TEXT_SUFFIXES, ".parquet", *RDF_SYNTAXES, *PACKINGS)


def suffixes(path: Path) -> tuple[str, str]:
    """Return the suffix of the format and the suffix of the packing, lower-cased: ('.tsv', '.gz')."""
    packing = path.suffix.lower() if path.suffix.lower() in PACKINGS else ""
    return Path(path.name[: len(path.name) - len(packing)]).suffix.lower(), packing


def file_bytes(path: Path, expected: str = "a file of triples") -> bytes:
    """Return the bytes of a file, as they are on the disk; nothing but a plain file is read, or waited for."""
    try:
        before = path.stat()
        if path.is_dir():
            raise InputError(f"{path}: is a folder, expected {expected}; name a file in it")
        if not stat.S_ISREG(before.st_mode):
            kind = "a pipe" if path.is_fifo() else "a socket" if path.is_socket() else "a device"
            raise InputError(f"{path}: is {kind}, expected {expected}; write it to a file, or pipe it in as `-`")
        check_size(before.st_size, str(path), available_memory())
        with os.fdopen(
            os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)), "rb"
        ) as file:
            data = file.read(before.st_size + 1)
            after = path.stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check its name and folder") from None
    if data and not (before.st_size or after.st_size):
        raise InputError(f"{path}: is made up as it is read, expected {expected}; copy it to a file that has a size")
    if len(data) != before.st_size or _state(before) != _state(after):
        raise InputError(f"{path}: was changed or replaced while it was read; wait until it is complete, and try again")
    return data


def _state(place: os.stat_result) -> tuple[int, ...]:
    """Return what changes when a file is written to, or another is put in its place."""
    return place.st_dev, place.st_ino, place.st_size, place.st_mtime_ns


def stream_bytes(stream: Any) -> tuple[Path, bytes]:
    """Return the name and the bytes of an open file; standard input, `<stdin>`, is called stdin."""
    name, memory = str(getattr(stream, "name", "stream")).strip("<>"), available_memory()
    parts, size = list[bytes](), 0
    while part := _encoded(stream.read(CHUNK), name, size):
        parts.append(part)
        size += len(part)
        check_size(size, name, memory, "has more than")
    return Path(name), b"".join(parts)


def _encoded(part: Any, name: str, before: int) -> bytes:
    """Return the bytes of a part of an open file; `before` it came so many."""
    if not isinstance(part, str | bytes | bytearray | memoryview):
        raise InputError(f"{name}: read() returned {part!r:.60}, expected bytes or text; open the file to be read")
    try:
        return part.encode("utf-8", "surrogateescape") if isinstance(part, str) else bytes(part)
    except UnicodeEncodeError as error:
        place = before + len(error.object[: error.start].encode("utf-8", "surrogateescape"))
        seen = f"byte {place + 1:,} is half of a surrogate pair"
        raise InputError(f"{name}: {seen}, expected text; open the file with encoding='utf-8'") from None


def unpacked(data: bytes, where: str, packing: str, most: int | None = None) -> bytes:
    """Return the content of what was packed as `.gz` or `.zst`, or plain bytes as they are.

    Packed bytes may grow to `most` bytes, or as much as `limits` says.
    """
    if not packing:
        return data
    allowance = Allowance(where, len(data), most)
    faults: tuple[type[Exception], ...] = (zlib.error, EOFError)
    if packing == ".zst":
        name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
        zstd = package(name, f"{where}: reading .zst")
        faults = (zstd.ZstdError, EOFError)
    try:
        if packing == ".zst":
            return allowance.unpack(data, zstd.ZstdDecompressor)
        return allowance.unpack(data, lambda: zlib.decompressobj(GZIP), padding=b"\0")
    except faults as error:
        raise InputError(f"{where}: broken or truncated ({error}); download it or compress it again") from None


def decode(data: bytes, where: str) -> str:
    """Return UTF-8 text without byte order marks: where files were joined, each part begins with its own."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{where}: is UTF-16 text, expected UTF-8; convert it with iconv -f utf-16 -t utf-8")
    data = data.removeprefix(codecs.BOM_UTF8)
    formats = " ".join(SUFFIXES)
    binary = InputError(
        f"{where}: looks binary, expected text; if it has another format, give it that suffix: {formats}"
    )
    if b"\0" in data:
        raise binary
    try:
        text = data.decode().replace("\ufeff", "")
        return text if "\n" in text else text.replace("\r", "\n")  # as spreadsheets of old end their lines
    except UnicodeDecodeError as error:
        if re.search(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]", data[:4096]):
            raise binary from None
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise InputError(
            f"{where}, line {line}: byte {column} of the line (0x{data[error.start]:02x}) is not UTF-8; "
            "if the file is Latin-1, convert it with iconv -f latin1 -t utf-8"
        ) from None
