"""Tensors in a file of the format safetensors: nothing in it is run, and what it says of itself is checked first."""

import math
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from procrustes_kge.runs.headers import read_header
from procrustes_kge.system.sealed import Checked, DamagedError, Sealed

DTYPES = {
    **{"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16},
    **{"I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8},
    "BOOL": torch.bool,
}


class Spec(NamedTuple):
    """What a file says of a tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')} of shape {self.shape}"


Specs = Mapping[str, Spec]


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors, readable for whoever may read other files; a failure is an OSError, as for any other file."""
    alone, seen = dict[str, Tensor](), set[int]()
    for name, given in tensors.items():
        tensor = given.detach().cpu().contiguous()
        place = tensor.untyped_storage().data_ptr()
        alone[name] = tensor.clone() if place in seen else tensor  # no two may share memory
        seen.add(place)
    path.touch()
    mode = path.stat().st_mode
    try:
        safetensors.torch.save_file(alone, path)
    except safetensors.SafetensorError as error:
        raise OSError(str(error)) from error
    path.chmod(mode)  # it was written readable by its owner alone


def read_tensors(folder: Sealed, name: str, check: Callable[[Specs], None] = lambda _: None) -> dict[str, Tensor]:
    """Return the tensors of a file of a sealed folder.

    `check` is called with what the file says of them, and raises where that is not expected, before memory is taken.
    """
    with folder.open(name) as file:
        specs = {each: Spec(DTYPES[about.dtype], about.shape) for each, about in read_header(file).items()}
        check(specs)
        return {each: _read(file, spec) for each, spec in specs.items()}


def tensors_in(data: bytes, name: str) -> dict[str, Tensor]:
    """Return the tensors of a file of any origin; a ValueError says what is damaged."""
    file = Checked(BytesIO(data), name, verify=False, size=len(data))
    return {each: _read(file, Spec(DTYPES[about.dtype], about.shape)) for each, about in read_header(file).items()}


def check_finite(tensors: Mapping[str, Tensor], where: str) -> None:
    """Refuse tensors with numbers that are infinite, or none."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.numel() and not all(map(math.isfinite, tensor.aminmax())):
            raise DamagedError(f"{where}: {name} has numbers that are not finite")


def _read(file: Checked, spec: Spec) -> Tensor:
    # Memory of its own: the file aligns tensors as no allocator does, and a product may round by its alignment.
    tensor = torch.empty(spec.shape, dtype=spec.dtype)
    octets = tensor.flatten().view(torch.uint8)
    file.fill(octets.numpy().data)
    if spec.dtype is torch.bool and octets.numel() and octets.max() > 1:
        raise DamagedError(f"{file.name} has truth values that are neither true nor false")
    return tensor
