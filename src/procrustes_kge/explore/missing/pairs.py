"""All pairs of a head and a tail of one relation, scored block by block: N² scores, a few megabytes at a time.

Blocks lie on a fixed grid and each is one product on one thread, so a score has the same bits whatever else is done,
left out or done again. Where scores are products, heads and tails are sorted by length: by Cauchy and Schwarz no pair
scores above ‖q‖ ‖t‖ + b, so once that is too little for a block, it is for all that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from procrustes_kge.errors import InputError
from procrustes_kge.explore.scores.products import Products, lengths, products_of
from procrustes_kge.graphs.facts import LOOPS
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.known_answers import KnownAnswers
from procrustes_kge.models.predictor import LinkPredictor

LEAST = torch.finfo(torch.float32).min  # scores that are left out are below it
NOT_FINITE = (
    "the model's scores are not finite, so no triple is best; "
    "the learning rate may have been too high: train again with a lower one"
)


class Grid(NamedTuple):
    """How pairs are cut: heads that are one job, then heads and tails of a block."""

    job: int = 2048
    rows: int = 512  # with as many tails, 8 MB of scores: those of two threads fit into a last-level cache
    columns: int = 4096

    @property
    def numbers(self) -> int:
        """How many scores a block has."""
        return self.rows * self.columns


GRID = Grid()


class Hits(NamedTuple):
    """Pairs with their scores."""

    heads: Int[Tensor, " n"]
    tails: Int[Tensor, " n"]
    scores: Float[Tensor, " n"]


class Block(NamedTuple):
    """Scores of some heads and some tails, by their places among those of the relation."""

    first_row: int
    first_column: int
    scores: Float[Tensor, "rows columns"]


class Pairs:
    """The pairs of a relation that may be missing triples: known ones are left out, and an entity with itself."""

    def __init__(
        self,
        model: LinkPredictor,
        encoded: Any,
        graph: Graph,
        known: KnownAnswers,
        relation: int,
        heads: Int[Tensor, " heads"],
        tails: Int[Tensor, " tails"],
        grid: Grid,
    ) -> None:
        """Take the pairs of these heads and tails; lengths of heads' queries are computed here, once."""
        self.model, self.encoded, self.known, self.relation, self.grid = model, encoded, known, relation, grid
        self.products = products_of(model, encoded)
        self.heads, self.tails = heads, tails
        self.bounds: tuple[Float[Tensor, " heads"], Float[Tensor, " tails"], float] | None = None
        triples = graph.train[graph.train[:, 1] == relation]
        # As in answers to one question: an entity is hardly ever related to itself, but vectors say so.
        self.loops = int((triples[:, 0] == triples[:, 2]).sum()) >= LOOPS * len(triples)
        if self.products is not None and len(heads) and len(tails):
            with torch.no_grad():
                self._sort(self.products)
        self.places = heads.new_full((len(graph.entities),), -1)  # of an entity among the tails
        self.places[self.tails] = torch.arange(len(tails), device=tails.device)

    def _sort(self, products: Products) -> None:
        ours = torch.cat([lengths(self._query(part)) for part in self.heads.split(self.grid.job)])
        theirs = lengths(products.table)[self.tails]
        if not bool(ours.isfinite().all() and theirs.isfinite().all()):
            raise InputError(NOT_FINITE)
        rows, columns = (each.argsort(descending=True, stable=True) for each in (ours, theirs))
        self.heads, self.tails = self.heads[rows], self.tails[columns]
        # What rounding may add to a product of d numbers.
        slack = 1 + 4 * products.table.shape[1] * torch.finfo(products.table.dtype).eps
        bias = 0.0 if products.biases is None else float(products.biases[self.tails].max().clamp_min(0)) * slack
        self.bounds = ours[rows] * slack, theirs[columns], bias

    @property
    def count(self) -> int:
        """How many pairs there are, those that are left out too."""
        return len(self.heads) * len(self.tails)

    @property
    def jobs(self) -> int:
        """How many jobs they are."""
        return -(-len(self.heads) // self.grid.job) if len(self.tails) else 0

    def _query(self, heads: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
        return self.model.query(self.encoded, heads, torch.full_like(heads, self.relation))

    def reach(self, row: int, column: int = 0) -> float:
        """Return what no pair can score above, of those from this head and this tail on."""
        if self.bounds is None:
            return float("inf")
        ours, theirs, bias = self.bounds
        return float(ours[row] * theirs[column]) + bias

    def left(self, job: int, floor: float) -> int:
        """Return how many pairs of a job have to be scored if only those from a score on count."""
        rows = min(self.grid.job, len(self.heads) - job * self.grid.job)
        if self.bounds is None:
            return rows * len(self.tails)
        ours, theirs, bias = self.bounds
        blocks = int((ours[job * self.grid.job] * theirs[:: self.grid.columns] + bias >= floor).sum())
        return rows * min(blocks * self.grid.columns, len(self.tails))

    def probe(self, number: int, k: int) -> tuple[Hits, int]:
        """Return the best k pairs of the most promising block, and how many scores that took."""
        with torch.no_grad():
            heads = self.heads[: self.grid.rows]
            rows, columns = self._left_out(heads)
            for block in self._blocks(0, heads, lambda: LEAST):
                return self._hits_of(block, heads, rows, columns, k, LEAST), block.scores.numel()
        return Hits(heads[:0], heads[:0], torch.empty(0)), 1

    def hits(self, job: int, k: int, floor: Callable[[], float], stopping: Callable[[], bool]) -> Hits:
        """Return pairs of a job, the best k of it among them; those that score below the floor may be left out.

        The floor may rise meanwhile. A job that is asked to stop returns what is worth nothing.
        """
        heads = self.heads[job * self.grid.job : (job + 1) * self.grid.job]
        found, lowest = Hits(heads[:0], heads[:0], torch.empty(0, device=heads.device)), LEAST
        if self.reach(job * self.grid.job) < floor():
            return found

        def needed() -> float:
            return max(lowest, floor())

        with torch.no_grad():
            rows, columns = self._left_out(heads)
            for block in self._blocks(job, heads, needed):
                if stopping():
                    break
                hits = self._hits_of(block, heads, rows, columns, k, needed())
                if len(hits.scores):
                    found = Hits(*(torch.cat(pair) for pair in zip(found, hits, strict=True)))
                if len(found.scores) >= k and (lowest == LEAST or len(found.scores) > 2 * k):
                    lowest = float(found.scores.topk(k, sorted=False).values.min())
                    kept = found.scores >= lowest  # ties with the last too: the order of ids decides among them
                    found = Hits(*(each[kept] for each in found))
        return found

    def _hits_of(
        self,
        block: Block,
        heads: Int[Tensor, " b"],
        rows: Int[Tensor, " n"],
        columns: Int[Tensor, " n"],
        k: int,
        floor: float,
    ) -> Hits:
        """Return the pairs of a block that reach the floor, of more than k the best; some pairs are left out."""
        height, width = block.scores.shape
        rows, columns = rows - block.first_row, columns - block.first_column
        inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        block.scores[rows[inside], columns[inside]] = float("-inf")
        places, others, scores = _highest(block.scores, k, floor)
        return Hits(heads[places + block.first_row], self.tails[others + block.first_column], scores)

    def _left_out(self, heads: Int[Tensor, " b"]) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
        """Return the row and the column of each pair of a job that is known, or of an entity with itself."""
        rows, answers = self.known.look_up(heads, torch.full_like(heads, self.relation))
        columns = self.places[answers]
        if not self.loops:
            themselves = torch.arange(len(heads), device=heads.device)
            rows, columns = torch.cat([rows, themselves]), torch.cat([columns, self.places[heads]])
        there = columns >= 0
        return rows[there], columns[there]

    def _blocks(self, job: int, heads: Int[Tensor, " b"], floor: Callable[[], float]) -> Iterator[Block]:
        """Yield the blocks of a job that reach the floor, the most promising first."""
        queries = self._query(heads)
        if self.products is None:
            height = max(1, min(self.grid.rows, self.grid.numbers // self.known.entities))
            for row in range(0, len(heads), height):
                yield Block(row, 0, self.model.scores(self.encoded, queries[row : row + height])[:, self.tails])
            return
        for column in range(0, len(self.tails), self.grid.columns):
            if self.reach(job * self.grid.job, column) < floor():
                return
            part = self.products.only(self.tails[column : column + self.grid.columns])
            for row in range(0, len(heads), self.grid.rows):
                if self.reach(job * self.grid.job + row, column) >= floor():
                    yield Block(row, column, part.scores(queries[row : row + self.grid.rows]))


def _highest(
    scores: Float[Tensor, "rows columns"], k: int, floor: float
) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"], Float[Tensor, " n"]]:
    """Return row, column and score where the floor is reached; of more than k, where the k-th highest is."""
    tops = scores.amax(dim=1)
    if bool(tops.isnan().any()) or bool((tops == float("inf")).any()):
        raise InputError(NOT_FINITE)
    rows = torch.nonzero(tops >= floor).flatten()
    some = scores[rows] if len(rows) < len(scores) else scores
    reached: Bool[Tensor, "some columns"] = some >= floor
    if k < some.numel() and int(reached.sum()) > k:
        reached = some >= some.flatten().topk(k, sorted=False).values.min()
    places, columns = reached.nonzero(as_tuple=True)
    return rows[places], columns, some[places, columns]
