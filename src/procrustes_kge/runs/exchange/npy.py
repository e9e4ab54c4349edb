"""Arrays of NumPy's .npy and .npz, read without numpy.load: nothing is unpickled, and no header is believed.

What a header says of an array is compared with the bytes that follow it before memory is taken.
"""

from __future__ import annotations

import math
import re

import numpy as np

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.archives import Archive

MAGIC = b"\x93NUMPY"
LONGEST_HEADER = 10_000  # bytes, as for NumPy itself
# A dictionary as NumPy writes it, and the type of a plain column: no nested ones, whose reading could be made to hurt.
HEADER = re.compile(
    r"\{\s*'descr':\s*'([<>|=]?)([a-zA-Z])(\d{0,9})',\s*'fortran_order':\s*(True|False),\s*"
    r"'shape':\s*\(([\d, L]*)\),?\s*\}\s*"
)
NUMBERS, TEXTS = "fiuc", "US"
SIZES = {"f": (2, 4, 8, 16), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "c": (8, 16)}


def parse_npy(data: bytes, where: str) -> np.ndarray:
    """Return the array of a .npy file: numbers or text."""
    if not data.startswith(MAGIC) or len(data) < 12:
        raise InputError(f"{where}: does not begin as a file of NumPy does; download or write it again")
    width = 2 if data[6] == 1 else 4
    start = 8 + width
    length = int.from_bytes(data[8:start], "little")
    if data[6] not in (1, 2, 3) or length > min(LONGEST_HEADER, len(data) - start):
        raise InputError(f"{where}: its header is damaged, or of a version that is not known; write it again")
    described = HEADER.fullmatch(data[start : start + length].decode("latin1"))
    if described is None:
        raise InputError(f"{where}: {_refused(data[start : start + length])}")
    order, kind, size, fortran, shape = described.groups()
    if kind == "O":
        raise InputError(f"{where}: {_refused(b'|O')}")
    dtype, axes = _dtype(where, order, kind, size), tuple(int(each) for each in re.findall(r"\d+", shape))
    body = memoryview(data)[start + length :]
    if len(axes) > 8 or math.prod(axes) * dtype.itemsize != len(body):
        seen = f"says that it has {' × '.join(f'{axis:,}' for axis in axes) or 'one'} of {dtype.itemsize:,} bytes"
        raise InputError(f"{where}: {seen}, but {len(body):,} bytes follow; is it whole?")
    return np.frombuffer(body, dtype).reshape(axes, order="F" if fortran == "True" else "C")


def _refused(header: bytes) -> str:
    """Return why a header is not read."""
    if b"O" in header:
        return "holds Python objects, which are never unpickled; save numbers and text, as by names.astype(str)"
    return "is no plain array of numbers or text; save it as one, as by numpy.save"


def _dtype(where: str, order: str, kind: str, size: str) -> np.dtype:
    count = int(size or 0)
    if (kind in TEXTS and 0 < count <= 2**20) or count in SIZES.get(kind, ()):
        return np.dtype(f"{order}{kind}{count}")
    raise InputError(f"{where}: has the type {kind}{size}, expected numbers or text")


def parse_npz(data: bytes, where: str, most: int | None = None) -> dict[str, np.ndarray]:
    """Return the arrays of a .npz file by name."""
    archive = Archive(data, where, most)
    files = [path for path, _ in archive.members if path.suffix == ".npy"]
    if any(path.suffix == ".pkl" for path, _ in archive.members):
        seen = "is a file of PyTorch's, which only unpickling would read"
        raise InputError(f"{where}: {seen}; save its tensors as safetensors, or with numpy.savez")
    if not files:
        raise InputError(f"{where}: holds no arrays, expected vectors and names; write it with numpy.savez")
    return {path.stem: parse_npy(archive.read(path), f"{where}/{path.name}") for path in files}


def texts(array: np.ndarray, where: str) -> list[str]:
    """Return the names that an array of text holds."""
    if array.ndim != 1:
        raise InputError(f"{where}: names of shape {array.shape}, expected one name for each row")
    try:
        return [each.decode() if isinstance(each, bytes) else str(each) for each in array.tolist()]
    except UnicodeDecodeError:
        raise InputError(f"{where}: a name is not UTF-8; save names as text, as by names.astype(str)") from None
