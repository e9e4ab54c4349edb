"""Entity vectors from elsewhere, made into a run: they stay as they are, relations are solved for them by Eq. 3."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.explore.importing.completing import completed
from procrustes_kge.explore.importing.matching import matched
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.linalg import spherise
from procrustes_kge.models.ranking import PROTOCOL
from procrustes_kge.runs.exchange.vectors import Vectors, vectors_held
from procrustes_kge.runs.experiment import Run, described, versions
from procrustes_kge.words import counted, either, unknown

SEGMENT = 20  # numbers, as in training
LENGTHS, MISSING = ("unit", "free"), ("fold", "leave-out")
UNIT = 1e-3  # by how much the length of a unit segment may differ from one
WIDEST = 256  # of a segment that nobody asked for: each relation has the square of it


def from_vectors(
    graph: Graph,
    vectors: Any,
    names: Sequence[str] | Mapping[str, int] | None = None,
    *,
    segment: int | None = None,
    lengths: str = "unit",
    translate: bool = True,
    missing: str = "fold",
) -> Run:
    """Return a run whose model has these entity vectors, and relations solved in closed form (Eq. 3).

    `vectors` are rows, with their `names` in order or as a mapping to rows; a mapping from name to vector; gensim's
    KeyedVectors; or a PyKEEN model in memory, with `names=factory.entity_to_id`. Names that are not in the graph are
    not used. An entity without a vector is folded in from its neighbours, as `add` places new ones, or left out with
    `missing="leave-out"`, and so are its triples. `segment` is how many numbers one rotation turns; by default near
    20, so that it divides them.

    With `lengths="unit"` vectors are centred and each segment is scaled to length one, unless it has that length;
    with "free" they stay as they are. The run's graph has the entities of the model, and its report tells what was
    done.
    """
    given = vectors if isinstance(vectors, Vectors) else vectors_held(vectors, names)
    for word, choices, asked in (("lengths", LENGTHS, lengths), ("way with missing entities", MISSING, missing)):
        if asked not in choices:
            raise InputError(unknown(word, asked, choices))
    width = _segment(given, segment)
    rows, told = matched(graph.entities, given)
    table, known = _placed(graph, given, rows, width, lengths)
    model, kept, more = completed(graph, table, known, translate, missing == "fold")
    about = {"vectors": int(known.sum()), "segment": width, "lengths": lengths, "notes": [*told, *more]}
    facts = {"model": "procrustes", "recipe": None, "method": None, "settings": None, "imported": about, "metrics": {}}
    return Run(model, kept, None, {**described(kept), **facts, "protocol": PROTOCOL, "versions": versions()})


def _segment(given: Vectors, wanted: int | None) -> int:
    """Return the width of a segment: the one that is wanted, or that the vectors have, or a divisor near 20."""
    dim = given.table.shape[1]
    divisors = [width for width in range(1, dim + 1) if dim % width == 0 and (width > 1 or dim == 1)]
    if wanted is not None:
        if type(wanted) is not int or wanted < 1:
            raise InputError(f"segment {wanted!r}, expected a whole number of at least 1")
        if dim % wanted:
            near = sorted(sorted(divisors, key=lambda width: abs(math.log(width / wanted)))[:2])
            raise InputError(
                f"vectors of {dim:,} numbers do not divide into segments of {wanted:,}; try {either(near)}"
            )
        return wanted
    if given.segment is not None:
        return given.segment
    nearest = min(divisors, key=lambda width: abs(math.log(width / SEGMENT)))
    if nearest > WIDEST:
        tries = f"cut them to {dim - dim % SEGMENT:,} numbers, or say --segment {nearest}"
        raise InputError(
            f"vectors of {dim:,} numbers divide into segments of {nearest:,} alone, a large matrix each; {tries}"
        )
    return nearest


def _placed(
    graph: Graph, given: Vectors, rows: Int[Tensor, " entities"], width: int, lengths: str
) -> tuple[Float[Tensor, "entities segments width"], Bool[Tensor, " entities"]]:
    """Return the vectors in the order of the entities, in segments, zero where there is none; and where there is."""
    has = rows >= 0
    chosen = torch.from_numpy(given.table[rows[has].numpy()])
    _check_finite(chosen, [graph.entities[row] for row in torch.nonzero(has).flatten().tolist()])
    known = has.clone()
    known[has] = chosen.any(dim=1)  # a vector of zeros says nothing
    chosen = chosen[chosen.any(dim=1)]
    if not len(chosen):
        raise InputError("all vectors of the graph's entities are zero; expected numbers that were learned")
    segments = chosen.view(len(chosen), -1, width)
    if lengths == "unit" and not torch.allclose(segments.norm(dim=-1), torch.ones(()), atol=UNIT):
        segments = spherise(segments.transpose(0, 1).double()).transpose(0, 1).float()
    table = torch.zeros(len(rows), *segments.shape[1:])
    table[known] = segments
    return table, known


def _check_finite(vectors: Float[Tensor, "n d"], names: Sequence[str]) -> None:
    strange = ~vectors.isfinite().all(dim=1)
    if strange.any():
        row = int(strange.int().argmax())
        number = vectors[row][~vectors[row].isfinite()][0].item()
        count = counted(int(strange.sum()), "vector")
        seen = f"{count} with numbers that are not finite, first {number} of {names[row][:40]!r}"
        raise InputError(f"{seen}; leave these vectors out, or train them again")
