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
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from procrustes_kge.errors import in_one_line
from procrustes_kge.runs.indexes import index_folder, read_index, write_index
from procrustes_kge.system.extras import package

Vectors = Float[np.ndarray, "n d"]
Queries = Float[np.ndarray, "b d"]
LARGEST_EXACT = 1_000_000  # entities: beyond, questions about a run are answered by its index
BLOCK = 2**16  # vectors that are compared at once
WIDTH, CENTRES = 2, 16  # numbers that one code stands for, and how many codes there are
TRAINED = 2**16  # vectors that the codes are learned from
RECALL, AT = 0.99, 10  # the share of the ten best that has to be found
SAMPLE = 500  # queries that measure it
FACTORS = (2, 4, 8, 16, 32, 64, 128, 256, 512)  # of k: how many are looked at again


class Best(NamedTuple):
    """For each query the ids of the best entities and their scores, best first; equal scores in the order of ids."""

    ids: Int[np.ndarray, "b k"]
    scores: Float[np.ndarray, "b k"]


def exact_best(vectors: Vectors, queries: Queries, k: int) -> Best:
    """Return the k highest products of each query, of all vectors: a block of scores at a time."""
    k = min(k, len(vectors))
    ids, scores = np.empty((len(queries), 0), dtype=np.int64), np.empty((len(queries), 0), dtype=np.float32)
    for first in range(0, len(vectors), BLOCK):
        block = queries @ vectors[first : first + BLOCK].T
        size = min(k, block.shape[1])
        places = np.argpartition(-block, size - 1, axis=1)[:, :size] if size < block.shape[1] else None
        if places is None:
            places = np.broadcast_to(np.arange(block.shape[1]), block.shape)
        ids = np.concatenate([ids, places + first], axis=1)
        scores = np.concatenate([scores, np.take_along_axis(block, places, axis=1)], axis=1)
        ids, scores = _sorted(ids, scores, k)
    return Best(ids, scores)


def _sorted(ids: np.ndarray, scores: np.ndarray, k: int) -> Best:
    order = np.lexsort((ids, -scores), axis=1)[:, :k]
    return Best(np.take_along_axis(ids, order, axis=1), np.take_along_axis(scores, order, axis=1))


class Index:
    """Codes of vectors, and how many of the best by them are looked at again for each of k."""

    def __init__(self, codes: Any, vectors: Vectors, factor: int, recall: float) -> None:
        self.codes, self.vectors, self.factor, self.recall = codes, vectors, factor, recall

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
    codes = faiss.IndexPQFastScan(plain)
    return Index(codes, vectors, *_measured(codes, vectors, queries))


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
                return Index(_codes_of(arrays, vectors), vectors, int(about["factor"]), float(about["recall"]))
            warnings.warn(f"{folder}: of other vectors, and so made again", stacklevel=2)
        except (OSError, ValueError, KeyError, TypeError) as error:
            warnings.warn(f"{folder}: damaged ({in_one_line(error)}), and so made again", stacklevel=2)
    made = make_index(vectors, queries())
    write_index(folder, {**fits, "factor": made.factor, "recall": made.recall}, _arrays_of(made.codes))
    return made


def _sum_of(vectors: Vectors) -> str:
    return hashlib.sha256(np.ascontiguousarray(vectors).data).hexdigest()


def _padded(vectors: Vectors) -> Vectors:
    """Return vectors with a number more, 0, where they are of an odd length."""
    missing = -vectors.shape[1] % (2 * WIDTH)
    plain = np.ascontiguousarray(vectors, dtype=np.float32)
    return np.pad(plain, ((0, 0), (0, missing))) if missing else plain


def _arrays_of(codes: Any) -> dict[str, np.ndarray]:
    """Return the pairs that codes stand for, and the codes of all vectors."""
    faiss = package("faiss", "an index of vectors")
    pairs = faiss.vector_to_array(codes.pq.centroids).reshape(codes.pq.M, CENTRES, WIDTH)
    return {"pairs": pairs, "codes": np.asarray(codes.plain_codes)}


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
