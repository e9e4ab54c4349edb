"""An index of vectors, kept beside the run: a sealed folder, of arrays and of what they were made from.

RUN.index/products/about.json           of which vectors it is, and how well it finds
RUN.index/products/codes.safetensors    what the vectors are written with, and their codes
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from procrustes_kge.runs.mapped import MappedFile
from procrustes_kge.system.durable import put_folder
from procrustes_kge.system.files import explain_write_errors, parsed_json, scratch_folder, write_json
from procrustes_kge.system.sealed import DamagedError, Sealed, seal

KIND, FORMAT, ABOUT, CODES = "index", 1, "about.json", "codes.safetensors"


def index_folder(run: Path, space: str) -> Path:
    """Return where the index of a run is kept, of products or of angles."""
    run = run.resolve()
    return run.with_name(f"{run.name}.index") / space


def read_index(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return what an index says of itself, and its arrays; what is damaged is an OSError or a ValueError."""
    sealed = Sealed(folder)
    if (sealed.manifest.kind, sealed.manifest.format) != (KIND, FORMAT):
        raise DamagedError(f"a {sealed.manifest.kind} of format {sealed.manifest.format}")
    file = MappedFile(sealed, CODES)
    about, arrays = parsed_json(sealed.read(ABOUT), ABOUT), file.arrays()
    file.check()
    return about, arrays


def write_index(folder: Path, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Put an index in its place, whole or not at all."""
    with explain_write_errors(folder), scratch_folder(folder) as scratch:
        fresh = scratch / "fresh"
        fresh.mkdir()
        write_json(fresh / ABOUT, about)
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, fresh / CODES)
        seal(fresh, KIND, FORMAT)
        folder.parent.mkdir(parents=True, exist_ok=True)
        put_folder(fresh, folder)
