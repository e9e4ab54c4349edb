"""The k entities whose vectors have the highest products with a query: exactly, or by an index of short codes.

Exactly means q · t for all t, block by block. An index writes each two numbers of a vector as one of sixteen pairs,
half a byte, and adds up what a table says of them (product quantisation): a fast pass over a sixteenth of the memory.
The products of the best by that are then computed exactly, so scores are exact, and only an entity that the first pass
ranked far too low is missed. Codes estimate products themselves, so vectors may differ in length; they are learned from
a sample in which long vectors, which most of the highest products are with, are drawn more often, by ‖x‖². How many
have to be looked at again is measured when the index is made.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from procrustes_kge.errors import InputError, in_one_line
from procrustes_kge.runs.indexes import index_folder, read_index, write_index
from procrustes_kge.system.extras import package

Vectors = Float[np.ndarray, "n d"]
Queries = Float[np.ndarray, "b d"]
BLOCK = 2**16  # vectors that are compared at once
WIDTH, CENTRES = 2, 16  # numbers that one code stands for, and how many codes there are
MANY = 8  # times k: with more scores that reach a floor, the k highest are selected first
TRAINED = 2**16  # vectors that the codes are learned from
RECALL, AT = 0.99, 10  # the share of the ten best that has to be found
SAMPLE = 500  # queries that measure it
FACTORS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # of k: how many are looked at again


class Best(NamedTuple):
    """For each query the ids of the best entities and their scores, best first; equal scores in the order of ids."""

    ids: Int[np.ndarray, "b k"]
    scores: Float[np.ndarray, "b k"]


class Few:
    """The scores of the few entities that an index found for a query."""

    def __init__(self, ids: Int[np.ndarray, " k"], scores: Float[np.ndarray, " k"]) -> None:
        self.ids, self.scores = ids, dict(zip(ids.tolist(), scores.tolist(), strict=True))

    def highest(self, k: int) -> Int[np.ndarray, " at_most_k"]:
        """Return the ids of the k highest scores, in the order of (−score, id)."""
        return self.ids[:k]

    def __getitem__(self, ids: int | list[int]) -> Any:
        """Return the score of an entity that was found, or those of several."""
        return np.array([self.scores[each] for each in ids]) if isinstance(ids, list) else self.scores[ids]


def exact_best(vectors: Vectors, queries: Queries, k: int) -> Best:
    """Return the k highest products of each query, of all vectors: a block of scores at a time."""
    k = min(k, len(vectors))
    ids, scores = np.empty((len(queries), 0), dtype=np.int64), np.empty((len(queries), 0), dtype=np.float32)
    for first in range(0, len(vectors), BLOCK):
        block = queries @ vectors[first : first + BLOCK].T
        places, found = _reaching(block, scores[:, -1:], k) if scores.shape[1] == k else _highest(block, k)
        ids = np.concatenate([ids, places + first], axis=1)
        ids, scores = _sorted(ids, np.concatenate([scores, found], axis=1), k)
    return Best(ids, scores)


def _highest(scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the places and values of the k highest scores of each row."""
    places = np.argpartition(-scores, min(k, scores.shape[1]) - 1, axis=1)[:, :k]
    return places, np.take_along_axis(scores, places, axis=1)


def _reaching(scores: np.ndarray, floor: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the places and values of scores that reach the floor of their row; shorter rows are filled up with −∞."""
    rows, places = np.nonzero(scores >= floor)
    counts = np.bincount(rows, minlength=len(scores))
    width = int(counts.max(initial=0))
    if width > MANY * k:
        return _highest(scores, k)
    columns = np.arange(len(rows)) - (counts.cumsum() - counts)[rows]
    found, where = np.full((len(scores), width), -np.inf, dtype=np.float32), np.zeros((len(scores), width), np.int64)
    found[rows, columns], where[rows, columns] = scores[rows, places], places
    return where, found


def _sorted(ids: np.ndarray, scores: np.ndarray, k: int) -> Best:
    order = np.lexsort((ids, -scores), axis=1)[:, :k]
    return Best(np.take_along_axis(ids, order, axis=1), np.take_along_axis(scores, order, axis=1))


class Index:
    """Codes of vectors, and how many of the best by them are looked at again for each of k."""

    def __init__(
        self, codes: Any, vectors: Vectors, factor: int, recall: float, arrays: Mapping[str, np.ndarray]
    ) -> None:
        self.codes, self.vectors, self.factor, self.recall, self.arrays = codes, vectors, factor, recall, arrays

    def best(self, queries: Queries, k: int) -> Best:
        """Return the k highest products of each query, some of them missed; scores are exact."""
        k = min(k, len(self.vectors))
        count = self.factor * max(k, AT)
        if count >= len(self.vectors) // 2:
            return exact_best(self.vectors, queries, k)
        return _refined(self.codes, self.vectors, queries, count, k)


def _refined(codes: Any, vectors: Vectors, queries: Queries, count: int, k: int) -> Best:
    _, ids = codes.search(_padded(queries), count)
    scores = np.stack([vectors[row] @ query for row, query in zip(ids, queries, strict=True)])
    return _sorted(ids.astype(np.int64), np.where(ids >= 0, scores, -np.inf).astype(np.float32), k)


def make_index(vectors: Vectors, queries: Queries) -> Index:
    """Return an index of vectors; a sample of queries measures how many have to be looked at again."""
    faiss = package("faiss", "an index of vectors")
    width = len(_padded(vectors[:1])[0])
    plain = faiss.IndexPQ(width, width // WIDTH, CENTRES.bit_length() - 1, faiss.METRIC_INNER_PRODUCT)
    plain.train(_padded(vectors[_sample(vectors)]))
    for first in range(0, len(vectors), BLOCK):
        plain.add(_padded(vectors[first : first + BLOCK]))
    pairs = faiss.vector_to_array(plain.pq.centroids).reshape(-1, CENTRES, WIDTH)
    arrays = {"pairs": pairs, "codes": faiss.vector_to_array(plain.codes).reshape(len(vectors), -1)}
    codes = _codes_of(arrays, vectors)
    return Index(codes, vectors, *_measured(codes, vectors, queries), arrays)


def _sample(vectors: Vectors) -> Int[np.ndarray, " some"]:
    """Return vectors to learn codes from, drawn in proportion to ‖x‖²."""
    parts = (vectors[first : first + BLOCK] for first in range(0, len(vectors), BLOCK))
    squares = np.concatenate([np.square(part, dtype=np.float64).sum(axis=1) for part in parts])
    shares = squares / squares.sum() if squares.any() else None
    return np.random.default_rng(0).choice(len(vectors), min(TRAINED, 2 * len(vectors)), p=shares)


def _measured(codes: Any, vectors: Vectors, queries: Queries) -> tuple[int, float]:
    """Return the smallest factor by which enough of the best are found, and the share of them."""
    queries = queries[np.linspace(0, len(queries) - 1, min(SAMPLE, len(queries))).astype(np.int64)]
    right, k, share = exact_best(vectors, queries, AT).ids, min(AT, len(vectors)), 0.0
    for factor in FACTORS:
        if factor * AT >= len(vectors) // 2:
            break
        found = _refined(codes, vectors, queries, factor * AT, k).ids
        share = float(np.mean([np.isin(ours, theirs).mean() for ours, theirs in zip(right, found, strict=True)]))
        if share >= RECALL:
            return factor, share
    return len(vectors), 1.0  # too few vectors, or codes that say too little: all are compared


def kept_index(run: Path | None, space: str, vectors: Vectors, queries: Callable[[], Queries]) -> Index:
    """Return the index that is kept beside a run, made again where it is missing, damaged or of other vectors."""
    if run is None:
        return make_index(vectors, queries())
    folder, fits = index_folder(run, space), {"vectors": _sum_of(vectors), "shape": list(vectors.shape)}
    if folder.exists():
        try:
            about, arrays = read_index(folder)
            if {name: about.get(name) for name in fits} == fits:
                codes = _codes_of(arrays, vectors)
                return Index(codes, vectors, int(about["factor"]), float(about["recall"]), arrays)
            warnings.warn(f"{folder}: of other vectors, and so made again", stacklevel=2)
        except (OSError, ValueError, KeyError, TypeError) as error:
            warnings.warn(f"{folder}: damaged ({in_one_line(error)}), and so made again", stacklevel=2)
    made = make_index(vectors, queries())
    write_index(folder, {**fits, "factor": made.factor, "recall": made.recall}, made.arrays)
    return made


class Searcher:
    """The best answers and the nearest entities of a model, by indexes that are kept beside its run."""

    def __init__(self, scorer: Any, directions: int, run: Path | None) -> None:
        self.scorer, self.directions, self.run = scorer, directions, run
        if getattr(scorer, "table", None) is None:
            raise InputError(
                "this model's scores are no products of vectors, so no index finds the highest; leave --index out"
            )

    @cached_property
    def _products(self) -> Index:
        return kept_index(self.run, "products", self.scorer.table, self._some_queries)

    @cached_property
    def _angles(self) -> Index:
        vectors = self.scorer.vectors()
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
        return kept_index(self.run, "angles", unit, lambda: unit)

    def _some_queries(self) -> Queries:
        random = np.random.default_rng(0)
        entities = random.integers(len(self.scorer.table), size=SAMPLE)
        queries: np.ndarray = self.scorer.query(entities, random.integers(self.directions, size=SAMPLE))
        return queries

    def answers(self, entities: Int[np.ndarray, " b"], directions: Int[np.ndarray, " b"], k: int) -> list[Few]:
        """Return the k best answers to each query."""
        return [Few(*row) for row in zip(*self._products.best(self.scorer.query(entities, directions), k), strict=True)]

    def nearest(self, entities: Int[np.ndarray, " b"], k: int) -> list[Few]:
        """Return the k entities with the largest cosine to each, itself among them."""
        return [Few(*row) for row in zip(*self._angles.best(self._angles.vectors[entities], k), strict=True)]


def _sum_of(vectors: Vectors) -> str:
    return hashlib.sha256(np.ascontiguousarray(vectors).data).hexdigest()


def _padded(vectors: Vectors) -> Float[np.ndarray, "n padded"]:
    """Return vectors with a number more, 0, where they are of an odd length."""
    missing = -vectors.shape[1] % (2 * WIDTH)
    plain = np.ascontiguousarray(vectors, dtype=np.float32)
    return np.pad(plain, ((0, 0), (0, missing))) if missing else plain


def _codes_of(arrays: dict[str, np.ndarray], vectors: Vectors) -> Any:
    """Return codes that can be searched; ValueError where the arrays do not fit the vectors."""
    faiss = package("faiss", "an index of vectors")
    width = len(_padded(vectors[:1])[0])
    parts = width // WIDTH
    shapes = {"pairs": (parts, CENTRES, WIDTH), "codes": (len(vectors), parts // 2)}
    if {name: array.shape for name, array in arrays.items()} != shapes or arrays["codes"].dtype != np.uint8:
        raise ValueError("its codes do not fit the vectors")
    plain = faiss.IndexPQ(width, parts, CENTRES.bit_length() - 1, faiss.METRIC_INNER_PRODUCT)
    faiss.copy_array_to_vector(np.ascontiguousarray(arrays["pairs"], dtype=np.float32).ravel(), plain.pq.centroids)
    faiss.copy_array_to_vector(arrays["codes"].ravel(), plain.codes)
    plain.ntotal, plain.is_trained = len(vectors), True
    return faiss.IndexPQFastScan(plain)
