"""What the baselines share: tables of vectors, and ways to compare a query vector with entities.

A model makes a vector of a query (entity, direction), and compares it with the vectors of entities. Direction r asks
for the tails of relation r, r + R for its heads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding, pad

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.models.baselines.layers import RandomSource
from procrustes_kge.models.predictor import Candidates, Ids, Scores
from procrustes_kge.validation import check_choices, check_divides, check_range, check_whole, types_of

ALIGNED = 8


@dataclass(frozen=True)
class ModelOptions:
    """Settings of the model itself, apart from those of training; each model adds its own."""

    dim: Annotated[int, "dimension of the entity vectors"] = 200  # as ConvE, TuckER, InteractE and SACN have it

    parts: ClassVar[int | str] = 1  # into how many a vector is cut, or the option that says so
    cut_into: ClassVar[str] = ""  # what they are called

    def __post_init__(self) -> None:
        """Refuse unknown words, counts below one, numbers out of range, and vectors that do not divide into parts."""
        check_choices(self)
        hints = types_of(type(self))
        check_whole(self, [name for name, hint in hints.items() if hint is int], least=1)
        for name in (name for name, hint in hints.items() if hint is float):
            check_range(self, name, 0.99 if name.endswith("_dropout") else 1000, above=name == "init_std")
        option = self.parts if isinstance(self.parts, str) else None
        parts = getattr(self, option or "parts")
        check_divides(self.dim, parts, self.cut_into.format(parts), option)


class Encoded(NamedTuple):
    """The tables that queries and scores are computed from: made once per step or evaluation."""

    entities: Float[Tensor, "n d"]
    relations: Float[Tensor, "directions k"]
    biases: Float[Tensor, " n"] | None = None

    def only(self, some: Int[Tensor, " k"]) -> Encoded:
        """Return the tables with these entities alone, to compare queries with."""
        biases = None if self.biases is None else rows(self.biases, some)
        return self._replace(entities=rows(self.entities, some), biases=biases)


class Baseline(nn.Module):
    """A model whose tables are learned as they are; graph networks compute theirs from such tables.

    A relation has vectors of its own for each direction; where the options have `inverses` and it is false, `backwards`
    makes those that ask for heads from those that ask for tails. All that is random comes from `random`.
    """

    Options: ClassVar[type[ModelOptions]] = ModelOptions
    sees_answers: ClassVar[bool] = False  # looks at neighbours, among which training must hide a query's answer

    def __init__(
        self, graph: Graph, options: ModelOptions, random: RandomSource, dim: int = 0, relation_dim: int = 0
    ) -> None:
        """Make empty tables of the vectors of a graph; without sizes, all are as long as the options say."""
        super().__init__()
        self.random, self.inverses = random, getattr(options, "inverses", True)
        directions = len(graph.relations) * (2 if self.inverses else 1)
        self.entities = nn.Parameter(torch.empty(len(graph.entities), dim or options.dim))
        self.relations = nn.Parameter(torch.empty(directions, relation_dim or options.dim))
        self.biases: nn.Parameter | None = None  # of entities, where a model has them

    def draw_tables(self, draw: Callable[..., Tensor] = nn.init.xavier_normal_, **how: Any) -> None:
        """Draw the vectors of entities, then of relations, by a function of `torch.nn.init`."""
        for table in (self.entities, self.relations):
            draw(table, **how, generator=self.random.on("cpu"))

    def encode(self, graph: Graph | None = None) -> Encoded:
        """Return the tables, and the bias of each entity where there is one."""
        relations = self.relations
        both = relations if self.inverses else torch.cat([relations, self.backwards(relations)])
        return Encoded(self.entities, both, self.biases)

    def backwards(self, relations: Float[Tensor, "relations k"]) -> Float[Tensor, "relations k"]:
        """Return the vectors that ask for heads."""
        raise NotImplementedError

    def query(self, encoded: Encoded, heads: Ids, relations: Ids) -> Float[Tensor, "b d"]:
        """Return the vector of each query."""
        raise NotImplementedError

    def scores(self, encoded: Encoded, queries: Float[Tensor, "b d"], candidates: Candidates = None) -> Scores:
        """Return q · t, plus the bias of t where there is one; models that measure distances override it."""
        if candidates is None:
            products, biases = (queries @ aligned(encoded.entities).T)[:, : len(encoded.entities)], encoded.biases
        else:
            products = (rows(encoded.entities, candidates) @ queries[..., None]).squeeze(-1)
            biases = None if encoded.biases is None else rows(encoded.biases, candidates)
        return products if biases is None else products + biases

    def factors(self, encoded: Encoded, heads: Ids, relations: Ids, tails: Ids) -> list[Float[Tensor, "b _"]]:
        """Return the numbers of a triple that a regulariser keeps small."""
        return [rows(encoded.entities, heads), rows(encoded.relations, relations), rows(encoded.entities, tails)]


def rows(table: Float[Tensor, "n ..."], ids: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape_and_d"]:
    """Return rows of a table; their gradients add up in a fixed order, which those of plain indexing do not."""
    ids = ids.to(table.device)
    return embedding(ids, table) if table.ndim > 1 else embedding(ids, table[:, None]).squeeze(-1)


def aligned(table: Float[Tensor, "n d"]) -> Float[Tensor, "n_padded d"]:
    """Return a table with rows of zeros up to a multiple of eight on a GPU: other sizes are multiplied far slower."""
    return pad(table, (0, 0, 0, -len(table) % ALIGNED)) if table.is_cuda else table
