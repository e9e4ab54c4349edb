"""What a file of the format safetensors says of its tensors, checked before anything is made of it; without PyTorch.

Eight bytes, the length of the header; the header, JSON with dtype, shape and place of each tensor; then their bytes.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from procrustes_kge.system.files import parsed_json
from procrustes_kge.system.sealed import DamagedError

LARGEST_HEADER = 2**22  # bytes: names and shapes of some ten thousand tensors
LARGEST_SIZE, MOST_AXES = 2**62, 16  # numbers of a tensor, zeros in its shape left out
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


@runtime_checkable
class Readable(Protocol):
    """A file that is read from its start on."""

    @property
    def name(self) -> str:
        """What errors call it."""

    @property
    def left(self) -> int:
        """How many bytes come next."""

    def take(self, count: int) -> bytes:
        """Return as many bytes, those that come next."""


class About(NamedTuple):
    """What a file says of a tensor; `start` counts from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int


def read_header(file: Readable) -> dict[str, About]:
    """Return what a file says of its tensors, in their order, and read on to the first; they fill it without gaps."""
    size = int.from_bytes(file.take(8), "little") if file.left >= 8 else 0
    if not 0 < size <= min(file.left, LARGEST_HEADER):
        raise DamagedError(f"{file.name} does not begin as a file of tensors does")
    header = parsed_json(file.take(size), file.name)
    header.pop("__metadata__", None)
    try:
        found = sorted(((*about["data_offsets"], name, _about(about)) for name, about in header.items()))
        ends = [end for _, end, *_ in found]
        fits = all(
            end - start == math.prod(about.shape) * BYTES[about.dtype] and start == before
            for (start, end, _, about), before in zip(found, [0, *ends[:-1]], strict=False)
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(f"{file.name}: what it says of its tensors cannot be understood") from error
    if not fits or (ends or [0])[-1] != file.left:
        raise DamagedError(f"{file.name}: its tensors do not fill it")
    return {name: about for _, _, name, about in found}


def _about(about: Mapping[str, Any]) -> About:
    shape = tuple(about["shape"])
    known = len(shape) <= MOST_AXES and all(type(size) is int and size >= 0 for size in shape)
    if not known or math.prod(filter(None, shape)) > LARGEST_SIZE or about["dtype"] not in BYTES:
        raise ValueError
    return About(about["dtype"], shape, about["data_offsets"][0])
