"""Zip archives that hold triples: one table, or files named train, valid and test, in any folder of the archive.

Nothing is unpacked to the disk, so a name in an archive leads nowhere. What all files unpack to is limited together.
"""

import io
import re
import zipfile
import zlib
from pathlib import PurePosixPath

from procrustes_kge.errors import InputError, printable
from procrustes_kge.graphs.limits import CHUNK, Allowance, available_memory, check_size
from procrustes_kge.graphs.recognising import packing_of
from procrustes_kge.words import counted, shortened

SUFFIX = ".zip"
STARTS = (b"PK\x03\x04", b"PK\x05\x06")  # of the first file, of an archive without any
MOST_MEMBERS = 10_000
MEMBER = b"PK\x01\x02"  # begins what the directory of the archive says of a file
ENCRYPTED, METHODS = 0x1, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
SPREADSHEET = "[Content_Types].xml"
FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    OSError,
    OverflowError,
)
# What lies beside data and is none: notes, and what macOS adds.
BESIDE = re.compile(
    r"(readme|licen[cs]e|copying|notice|changelog|citation)([._-].*)?|\.(?!\.?$).*|__macosx", re.IGNORECASE
)


class Archive:
    """A zip archive in memory."""

    def __init__(self, data: bytes, where: str, most: int | None = None) -> None:
        self.where = where
        self.allowance, self.memory = Allowance(where, len(data), most), available_memory()
        # The directory is read as a whole when the archive is opened.
        if (members := data.count(MEMBER)) > MOST_MEMBERS:
            raise InputError(f"{where}: more than {MOST_MEMBERS:,} files; unpack it, and name the folder")
        try:
            self.archive = zipfile.ZipFile(io.BytesIO(data))
        except FAULTS as error:
            raise self._broken(error) from None
        infos = self.archive.infolist()
        if any(info.filename == SPREADSHEET for info in infos):
            raise InputError(f"{where}: is a spreadsheet; save the sheet as CSV")
        if len(infos) > members:
            raise self._broken("its directory is damaged")
        self.members = [(PurePosixPath(info.filename), info) for info in infos if not info.is_dir()]

    def files(self) -> list[PurePosixPath]:
        """Return the files that may hold triples."""
        found = [path for path, _ in self.members if not any(map(BESIDE.fullmatch, path.parts))]
        if not found:
            seen = shortened([printable(str(path)[:60]) for path, _ in self.members], 5) or "nothing"
            raise InputError(
                f"{self.where}: no triples in it, found {seen}; expected a table, or train, valid and test"
            )
        return found

    def read(self, path: PurePosixPath) -> bytes:
        """Return the content of a file."""
        info = next(info for each, info in self.members if each == path)
        where = f"{self.where}/{printable(str(path)[:100])}"
        if info.flag_bits & ENCRYPTED:
            raise InputError(f"{where}: is encrypted; unpack it with its password, and name the file")
        if info.compress_type not in METHODS:
            raise InputError(
                f"{where}: is packed in a way that is not read; unpack it, or zip it again without options"
            )
        try:
            parts = list[bytes]()
            with self.archive.open(info) as file:
                while part := file.read(CHUNK):
                    self.allowance.spend(len(part), "unpacks to")
                    check_size(self.allowance.most - self.allowance.left, where, self.memory, "unpacks to more than")
                    parts.append(part)
        except InputError:
            raise
        except FAULTS as error:
            raise self._broken(error) from None
        data = b"".join(parts)
        if packing_of(data) or data.startswith(STARTS):
            raise InputError(f"{where}: is packed once more; unpack the archive, and name the file or the folder")
        return data

    def one(self, files: list[PurePosixPath]) -> PurePosixPath:
        """Return the only file; more than one is refused."""
        if len(files) > 1:
            names = shortened([printable(str(path)[:60]) for path in files], 5)
            seen = f"{counted(len(files), 'file')} in it ({names})"
            raise InputError(
                f"{self.where}: {seen}, expected one table, or train, valid and test; unpack it and name one"
            )
        return files[0]

    def _broken(self, error: object) -> InputError:
        return InputError(
            f"{self.where}: broken or truncated ({printable(str(error))[:200]}); download or zip it again"
        )
