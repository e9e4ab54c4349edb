"""Scores of simple models by numpy alone, from tables that are mapped from the disk: PyTorch need not be loaded.

Each form agrees with its plain twin in `models/` to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from procrustes_kge.explore.scores.asked import Asked
from procrustes_kge.graphs.facts import Facts
from procrustes_kge.runs.mapped import Mapped, mapped_run

Rows = Float[np.ndarray, "b d"]
Table = Float[np.ndarray, "n d"]
OTHERS = {"translations": "translate", "scales": "scale"}  # tables that a model may have, and what says so
DIFFERENCES = 2**22  # numbers of a table of differences, 16 MB


def mapped_asked(folder: str | Path) -> Asked | None:
    """Return a run that answers questions without PyTorch, or None where its model is not one of the simple ones."""
    run = mapped_run(Path(folder))
    scorer = None if run is None else _scorer(run)
    if run is None or scorer is None:
        return None
    facts = Facts(run.splits, len(run.entities), len(run.relations))
    kind = KINDS[run.about["model"]]
    return Asked(run.entities, run.relations, facts, scorer, kind, calibration=run.calibration, source=Path(folder))


def _scorer(run: Mapped) -> Any:
    """Return what scores the queries of a run, if its tables are as they should be."""
    make = SCORERS.get(str(run.about.get("model")))
    if make is None or any(table.dtype != np.float32 for table in run.tables.values()):
        return None
    try:
        return make(run)
    except (KeyError, TypeError, ValueError):  # settings that `load_run` will refuse in words
        return None


class Turned:
    """Our model: x ↦ c ∘ (x Q) + b, compared by products."""

    def __init__(self, tables: Mapping[str, np.ndarray]) -> None:
        self.tables, self.table = tables, tables["vectors"].reshape(len(tables["vectors"]), -1)

    @classmethod
    def of(cls, run: Mapped) -> Turned | None:
        """Return the model of a run that has its rotations."""
        about, tables = run.about, run.tables
        wanted = {"vectors", "rotations"} | {name for name, has in OTHERS.items() if about[has]}
        vectors = tables.get("vectors")
        if tables.keys() != wanted or vectors is None or vectors.ndim != 3 or len(vectors) != len(run.entities):
            return None
        directions, (_, segments, width) = 2 * len(run.relations), vectors.shape
        count = directions if about["inverses"] else len(run.relations)
        fits = tables["rotations"].shape == (count, segments, width, width)
        others = (tables[name].shape == (directions, segments, width) for name in wanted - {"vectors", "rotations"})
        return cls(tables) if fits and all(others) else None

    def query(self, entities: Int[np.ndarray, " b"], directions: Int[np.ndarray, " b"]) -> Rows:
        """Return c ∘ (x Q) + b, with Qᵀ for heads where they have no Q of their own."""
        rotations, asked = self.tables["rotations"], self.tables["vectors"][entities]
        wanted = np.empty_like(asked)
        for direction in np.unique(directions):  # a rotation is read once, however many queries it turns
            some, matrices = directions == direction, rotations[direction % len(rotations)]
            matrices = matrices if direction < len(rotations) else matrices.swapaxes(-1, -2)
            wanted[some] = (asked[some].swapaxes(0, 1) @ matrices).swapaxes(0, 1)
        if "scales" in self.tables:
            wanted *= self.tables["scales"][directions]
        if "translations" in self.tables:
            wanted += self.tables["translations"][directions]
        return wanted.reshape(len(wanted), -1)

    def scores(self, entities: Int[np.ndarray, " b"], directions: Int[np.ndarray, " b"]) -> Float[np.ndarray, "b n"]:
        """Return q · t for every entity t."""
        scores: np.ndarray = self.query(entities, directions) @ self.table.T
        return scores

    def vectors(self) -> Table:
        """Return the vectors of all entities."""
        return self.table


class Moved:
    """A baseline with a vector for each direction: what a query is made by, and what it is compared by."""

    def __init__(
        self,
        entities: Table,
        relations: Float[np.ndarray, "directions k"],
        query: Callable[[Rows, Float[np.ndarray, "b k"]], Rows],
        compare: Callable[[Rows, Table], Float[np.ndarray, "b n"]],
    ) -> None:
        self.entities, self.relations, self._query, self._compare = entities, relations, query, compare
        self.table = entities if compare is _products else None  # what scores are products with

    def query(self, entities: Int[np.ndarray, " b"], directions: Int[np.ndarray, " b"]) -> Rows:
        """Return what entities are compared with."""
        return self._query(self.entities[entities], self.relations[directions])

    def scores(self, entities: Int[np.ndarray, " b"], directions: Int[np.ndarray, " b"]) -> Float[np.ndarray, "b n"]:
        """Return how well each entity answers each query."""
        return self._compare(self.query(entities, directions), self.entities)

    def vectors(self) -> Table:
        """Return the vectors of all entities."""
        return self.entities


def _moved(run: Mapped, parts: int, query: Any, compare: Any, backwards: Any, planes: bool = False) -> Moved | None:
    """Return a baseline whose tables fit its names; without inverse relations, those are made of the others."""
    tables, options = run.tables, run.about["options"]
    if tables.keys() != {"entities", "relations"}:
        return None
    entities, relations, dim = tables["entities"], tables["relations"], options["dim"]
    count = len(run.relations) * (2 if options["inverses"] else 1)
    shapes = (len(run.entities), dim), (count, dim // 2 if planes else dim)
    if (entities.shape, relations.shape) != shapes or dim % parts:
        return None
    both = relations if options["inverses"] else np.concatenate([relations, backwards(relations)])
    return Moved(entities, both, query, compare)


def _products(queries: Rows, table: Table) -> Float[np.ndarray, "b n"]:
    scores: np.ndarray = queries @ table.T
    return scores


def _conjugated(parts: int) -> Callable[[Table], Table]:
    def conjugated(relations: Table) -> Table:
        first, *others = np.split(relations, parts, axis=-1)
        return np.concatenate([first, *(-other for other in others)], axis=-1)

    return conjugated


def _distmult(run: Mapped) -> Moved | None:
    return _moved(run, 1, np.multiply, _products, _conjugated(1))


def _complex(run: Mapped) -> Moved | None:
    def product(heads: Rows, relations: Rows) -> Rows:
        (a, b), (c, d) = np.split(heads, 2, axis=-1), np.split(relations, 2, axis=-1)
        return np.concatenate([a * c - b * d, a * d + b * c], axis=-1)

    return _moved(run, 2, product, _products, _conjugated(2))


def _quate(run: Mapped) -> Moved | None:
    def product(heads: Rows, relations: Rows) -> Rows:
        a, b, c, d = np.split(heads, 4, axis=-1)
        numbers = np.stack(np.split(relations, 4, axis=-1))
        p, u, v, w = numbers / np.maximum(np.linalg.norm(numbers, axis=0, keepdims=True), 1e-12)
        rows = (
            a * p - b * u - c * v - d * w,
            a * u + b * p + c * w - d * v,
            a * v - b * w + c * p + d * u,
            a * w + b * v - c * u + d * p,
        )
        return np.concatenate(rows, axis=-1)

    return _moved(run, 4, product, _products, _conjugated(4))


def _apart(margin: float, group: int) -> Callable[[Rows, Table], Float[np.ndarray, "b n"]]:
    """Return γ − Σ ‖q_g − t_g‖ over groups of numbers."""

    def compare(queries: Rows, table: Table) -> Float[np.ndarray, "b n"]:
        scores = np.empty((len(queries), len(table)), dtype=np.float32)
        size = max(1, DIFFERENCES // table.shape[1])
        for first in range(0, len(table), size):
            some = table[first : first + size]
            for row, query in enumerate(queries):
                differences = query - some
                if group == 1:
                    distances = np.abs(differences, out=differences).sum(axis=1)
                else:
                    grouped = np.square(differences, out=differences).reshape(len(some), -1, group)
                    distances = np.sqrt(grouped.sum(axis=2)).sum(axis=1)
                scores[row, first : first + len(some)] = margin - distances
        return scores

    return compare


def _transe(run: Mapped) -> Moved | None:
    options = run.about["options"]
    group = 1 if options["norm"] == 1 else options["dim"]
    return _moved(run, 1, np.add, _apart(options["margin"], group), np.negative)


def _rotate(run: Mapped) -> Moved | None:
    options = run.about["options"]
    half_circle = (options["margin"] + 2) / (options["dim"] // 2)

    def turned(heads: Rows, relations: Float[np.ndarray, "b planes"]) -> Rows:
        angles = relations * np.float32(math.pi / half_circle)
        first, second = heads[:, ::2], heads[:, 1::2]
        cosine, sine = np.cos(angles), np.sin(angles)
        moved = np.stack([first * cosine - second * sine, first * sine + second * cosine], axis=-1)
        return moved.reshape(heads.shape)

    return _moved(run, 2, turned, _apart(options["margin"], 2), np.negative, planes=True)


SCORERS: dict[str, Callable[[Mapped], Any]] = {
    "procrustes": Turned.of,
    "distmult": _distmult,
    "complex": _complex,
    "quate": _quate,
    "transe": _transe,
    "rotate": _rotate,
}
KINDS = {
    **{"procrustes": "Procrustes", "distmult": "DistMult", "complex": "ComplEx", "quate": "QuatE"},
    **{"transe": "TransE", "rotate": "RotatE"},
}
