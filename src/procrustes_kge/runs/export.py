"""What a model learned of entities or relations, with their names, in formats that other programs read."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Vocabulary
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.with_paths import WithPaths
from procrustes_kge.runs.contents import FILES
from procrustes_kge.runs.experiment import Model
from procrustes_kge.system.extras import package
from procrustes_kge.system.files import explain_write_errors, scratch_folder, write_names
from procrustes_kge.system.written import put_in_place
from procrustes_kge.words import either, unknown

Tables = Mapping[str, np.ndarray]  # by name, the main one first; a row for each entity or relation
WHAT = ("entities", "relations")


def export(
    model: Model, path: str | Path, kind: str | None = None, what: str = "entities", force: bool = False
) -> list[Path]:
    """Write the tables of entities or relations with their names, and return the files, that of `path` first.

    A .npy file holds one table; its names go into a .txt file beside it, and further tables of relations into files of
    their own. If `kind` is not given, the suffix of the path decides: .npy, .parquet, and .vec or .txt for word2vec. A
    file that exists is replaced only if an export to the same path wrote it and it has not changed since; `force`
    replaces any file.
    """
    target = Path(path)
    with explain_write_errors(target):
        if not target.parent.is_dir():
            raise InputError(f"{target.parent}: no such folder to write {target.name} into")
        if target.is_dir():
            raise InputError(f"{target}: is a folder, expected the name of a file; try {target / 'vectors'}.npy")
        if target.name == "-":
            raise InputError("-: an export is a file, not standard output; name one, such as vectors.npy")
    kind = kind or SUFFIXES.get(target.suffix.lower())
    if kind is None:
        raise InputError(f"{target}: its suffix does not say which format; add --format {either(EXPORTS)}")
    if kind not in EXPORTS:
        raise InputError(unknown("format", kind, EXPORTS))
    tables = exported_tables(model, what)
    with scratch_folder(target) as scratch:
        written = EXPORTS[kind](scratch, target.name, tables, getattr(model, what))
        places = [target.parent / file.name for file in written]
        _leave_runs_whole(places)
        remedy = "choose another name, or add --force (in Python, force=True) to replace it"
        put_in_place(dict(zip(places, written, strict=True)), scratch, remedy, force)
    return places


def _leave_runs_whole(places: Sequence[Path]) -> None:
    """Refuse to write over the files of a run, even with force: without them the training would be lost."""
    folder = places[0].parent
    if all((folder / name).is_file() for name in ("settings.json", "model.safetensors")):
        for place in places:
            if place.name in FILES:
                raise InputError(f"{place}: belongs to the run {folder}, which is lost without it; choose another name")


def exported_tables(model: Model, what: str) -> dict[str, np.ndarray]:
    """Return the tables that are written, by name, with a row for each entity or relation.

    Of our own relations: rotation Q in segments, and where there are any, scale c and translation b. A tail is sought
    at c ∘ (h Q) + b; a head at c ∘ (t Qᵀ) + b with the inverse c and b, and with the inverse Q in place of Qᵀ where
    there is one. A baseline has vectors for each of the two.
    """
    if what not in WHAT:
        raise InputError(unknown("kind of export", what, WHAT))
    if isinstance(model, WithPaths):
        model = model.embedding
    if what == "entities":
        return {"vector": model.table.cpu().numpy()}
    if isinstance(model, TrainedBaseline):
        rotations, both_ways = {}, {"vector": model.encode().relations.detach()}
    else:
        others = {"scale": model.scales, "translation": model.translations}
        both_ways = {name: table for name, table in others.items() if table is not None}
        rotations = {"rotation": model.rotations}
        if model.inverses:
            rotations, both_ways = {}, rotations | both_ways
    count = len(model.relations)
    tails = {name: table[:count] for name, table in both_ways.items()}
    heads = {f"inverse_{name}": table[count:] for name, table in both_ways.items()}
    return {name: table.cpu().numpy() for name, table in (rotations | tails | heads).items()}


def _export_npy(scratch: Path, name: str, tables: Tables, names: Vocabulary) -> list[Path]:
    stem = Path(name).stem
    vectors, lines = scratch / name, scratch / f"{stem}.txt"
    if vectors == lines:
        raise InputError(
            f"{name}: the names go into a .txt file beside the vectors; give the vectors a name that ends in .npy"
        )
    main, *more = tables
    files = {main: vectors} | {other: scratch / f"{stem}-{other.replace('_', '-')}.npy" for other in more}
    for table, path in files.items():
        with path.open("wb") as file:
            np.save(file, tables[table])
    write_names(lines, names)
    return [vectors, lines, *(files[other] for other in more)]


def _export_parquet(scratch: Path, name: str, tables: Tables, names: Vocabulary) -> list[Path]:
    polars = package("polars", f"{name}: writing Parquet")
    columns = {"name": list(names)}
    if names.labels:
        columns["label"] = [names.label(row) for row in range(len(names))]
    arrays = {
        column: polars.Series(table, dtype=polars.Array(polars.Float32, table.shape[1:]))
        for column, table in tables.items()
    }
    polars.DataFrame(columns).with_columns(**arrays).write_parquet(scratch / name)
    return [scratch / name]


def _export_word2vec(scratch: Path, name: str, tables: Tables, names: Vocabulary) -> list[Path]:
    (main, table), *more = tables.items()
    if more or table.ndim != 2:
        seen = ", ".join([main, *(other.replace("_", " ") for other, _ in more)])
        raise InputError(f"word2vec holds one vector per name, but a relation has more ({seen}); use parquet or npy")
    words: dict[str, str] = {}
    for entity in names:
        word = re.sub(r"\s", "_", entity) or "_"  # the format ends a word at the first blank
        if word in words:
            raise InputError(
                f"the names {words[word]!r} and {entity!r} both become {word!r} in word2vec, which allows no spaces; "
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
