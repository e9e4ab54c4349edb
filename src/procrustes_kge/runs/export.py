"""What a model learned of entities or relations, with their names, in formats that other programs read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.with_paths import WithPaths
from procrustes_kge.runs.contents import FILES
from procrustes_kge.runs.exchange.arrays import write_npy, write_npz, write_parquet, write_safetensors
from procrustes_kge.runs.exchange.content import Content, Predicted, Writer
from procrustes_kge.runs.exchange.neo4j import write_neo4j
from procrustes_kge.runs.exchange.postgres import write_pgvector, write_plain
from procrustes_kge.runs.exchange.projector import write_projector
from procrustes_kge.runs.exchange.rdf import write_ntriples, write_turtle
from procrustes_kge.runs.exchange.word2vec import write_binary, write_text
from procrustes_kge.runs.experiment import Model
from procrustes_kge.system.extras import require
from procrustes_kge.system.files import explain_write_errors, scratch_folder
from procrustes_kge.system.written import put_in_place
from procrustes_kge.words import either, unknown

WHAT = ("entities", "relations")


def export(
    model: Model,
    path: str | Path,
    kind: str | None = None,
    what: str = "entities",
    force: bool = False,
    graph: Graph | None = None,
    predictions: Sequence[Predicted] = (),
) -> list[Path]:
    """Write the tables of entities or relations with their names, and return the files, that of `path` first.

    If `kind` is not given, the suffix of the path decides (`SUFFIXES`). Some formats take more than one file: the names
    of .npy and .safetensors go into a .txt file beside it, for example. Neo4j takes the triples of `graph` too; it and
    RDF take `predictions`. A file that exists is replaced only if an export to the same path wrote it and it has not
    changed since; `force` replaces any file.
    """
    target, kind = Path(path), check_export(path, kind)
    content = Content(what, exported_tables(model, what), getattr(model, what), model.relations, graph, predictions)
    with scratch_folder(target) as scratch:
        written = EXPORTS[kind](scratch, target.name, content)
        places = [target.parent / file.name for file in written]
        _leave_runs_whole(places)
        remedy = "choose another name, or add --force (in Python, force=True) to replace it"
        put_in_place(dict(zip(places, written, strict=True)), scratch, remedy, force)
    return places


def check_export(path: str | Path, kind: str | None = None) -> str:
    """Return the format of an export; refuse a place or a format that cannot be, before any work is done."""
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
    return kind


def _leave_runs_whole(places: Sequence[Path]) -> None:
    """Refuse to write over the files of a run, even with force: without them the training would be lost."""
    folder = places[0].parent
    if all((folder / name).is_file() for name in ("settings.json", "model.safetensors")):
        for place in places:
            if place.name in FILES:
                raise InputError(f"{place}: belongs to the run {folder}, which is lost without it; choose another name")


def to_pykeen(model: Model) -> Any:
    """Return a PyKEEN model, in memory, that gives the same scores.

    Relations are doubled, as PyKEEN does for inverse triples: heads are sought by the inverse relation. Rows of
    entities and relations are those of the model; give them to a triples factory as entity_to_id and relation_to_id.
    """
    require("pykeen", "a PyKEEN model")
    from procrustes_kge.runs.exchange.pykeen import pykeen_model

    return pykeen_model(model)


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


EXPORTS: dict[str, Writer] = {
    **{"npy": write_npy, "npz": write_npz, "parquet": write_parquet, "safetensors": write_safetensors},
    **{"word2vec": write_text, "word2vec-binary": write_binary, "projector": write_projector},
    **{"pgvector": write_pgvector, "postgresql": write_plain, "neo4j": write_neo4j},
    **{"turtle": write_turtle, "ntriples": write_ntriples},
}
SUFFIXES = {
    **{".npy": "npy", ".npz": "npz", ".parquet": "parquet", ".safetensors": "safetensors"},
    **{".vec": "word2vec", ".txt": "word2vec", ".sql": "pgvector", ".ttl": "turtle", ".nt": "ntriples"},
}
PREDICTIONS = ("neo4j", "turtle", "ntriples")  # formats that hold predicted triples
