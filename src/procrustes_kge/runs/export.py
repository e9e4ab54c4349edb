"""The entity vectors with their names, in formats that other programs read."""

import re
from pathlib import Path

import numpy as np

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Vocabulary
from procrustes_kge.runs.experiment import Model
from procrustes_kge.system.files import explain_write_errors, scratch_folder, write_names


def export(model: Model, path: str | Path, kind: str | None = None) -> list[Path]:
    """Write the entity vectors with their names, and return the files: a .npy has its names in a .txt beside it.

    Without a kind, the path's suffix says it: .npy, .parquet, or .vec and .txt for word2vec.
    """
    target = Path(path)
    with explain_write_errors(target):
        if not target.parent.is_dir():
            raise InputError(f"{target.parent}: no such folder to write {target.name} into")
        if target.is_dir():
            raise InputError(f"{target}: is a folder, expected the name of a file; try {target / 'vectors'}.npy")
    kind = kind or SUFFIXES.get(target.suffix.lower())
    if kind is None:
        raise InputError(f"{target}: its suffix does not tell the format; add --format, one of {', '.join(EXPORTS)}")
    if kind not in EXPORTS:
        raise InputError(f"unknown format {kind!r}, expected {', '.join(EXPORTS)}")
    table = model.table.cpu().numpy()
    with scratch_folder(target) as scratch:
        written = EXPORTS[kind](scratch, target.name, table, model.entities)
        places = [target.parent / file.name for file in written]
        for place in places[1:]:
            if place.exists() and not target.exists():  # a file that the user did not name
                raise InputError(f"{place}: is there already, and the names would go there; choose another name")
        return [file.replace(place) for file, place in zip(written, places, strict=True)]


def _export_npy(scratch: Path, name: str, table: np.ndarray, names: Vocabulary) -> list[Path]:
    vectors, lines = scratch / name, scratch / f"{Path(name).stem}.txt"
    if vectors == lines:
        raise InputError(f"{name}: the names go into a .txt file beside the vectors; end the vectors' file in .npy")
    with vectors.open("wb") as file:
        np.save(file, table)
    write_names(lines, names)
    return [vectors, lines]


def _export_parquet(scratch: Path, name: str, table: np.ndarray, names: Vocabulary) -> list[Path]:
    try:
        import polars
    except ImportError:
        raise InputError("writing Parquet needs the package polars; pip install polars") from None

    columns = {"name": list(names)}
    if names.labels:
        columns["label"] = [names.label(row) for row in range(len(names))]
    vectors = polars.Series(table, dtype=polars.Array(polars.Float32, table.shape[1]))
    polars.DataFrame(columns).with_columns(vector=vectors).write_parquet(scratch / name)
    return [scratch / name]


def _export_word2vec(scratch: Path, name: str, table: np.ndarray, names: Vocabulary) -> list[Path]:
    words: dict[str, str] = {}
    for entity in names:
        word = re.sub(r"\s", "_", entity) or "_"  # the format ends a word at the first blank
        if word in words:
            raise InputError(
                f"the names {words[word]!r} and {entity!r} are both {word!r} in word2vec, which allows no blanks; "
                "use --format parquet or npy"
            )
        words[word] = entity
    with (scratch / name).open("w", encoding="utf-8", errors="surrogatepass", newline="") as file:
        file.write(f"{table.shape[0]} {table.shape[1]}\n")
        for word, vector in zip(words, table, strict=True):
            # Nine digits tell any two float32 apart.
            file.write(word + " " + " ".join(f"{number:.9g}" for number in vector.tolist()) + "\n")
    return [scratch / name]


EXPORTS = {"npy": _export_npy, "parquet": _export_parquet, "word2vec": _export_word2vec}
SUFFIXES = {".npy": "npy", ".parquet": "parquet", ".vec": "word2vec", ".txt": "word2vec"}
