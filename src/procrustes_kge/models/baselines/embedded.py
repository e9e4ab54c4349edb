"""What the baselines share: tables of vectors, and ways to compare a query with entities.

A model turns a question (entity, direction) into a query, and compares the query with entities. Direction r asks for
the tails of relation r, r + R for its heads.
"""

from __future__ import annotations

import inspect
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding, linear, pad

ALIGNED = 8


class Encoded(NamedTuple):
    """The tables that questions are asked of: made once per step or evaluation."""

    entities: Float[Tensor, "n d"]
    relations: Float[Tensor, "directions k"]
    biases: Float[Tensor, " n"] | None = None

    def only(self, some: Int[Tensor, " k"]) -> Encoded:
        """Return the tables with these entities alone, to compare queries with."""
        biases = None if self.biases is None else rows(self.biases, some)
        return self._replace(entities=rows(self.entities, some), biases=biases)


class Embedded(nn.Module):
    """A model whose tables are learned as they are; the others compute theirs from such tables.

    With `inverses` a relation has vectors of its own for each direction; without, `backwards` makes those that ask for
    heads from those that ask for tails.
    """

    def __init__(self, entities: int, relations: int, dim: int, relation_dim: int, inverses: bool) -> None:
        super().__init__()
        self.entities = nn.Parameter(torch.empty(entities, dim))
        self.relations = nn.Parameter(torch.empty(relations * (2 if inverses else 1), relation_dim))
        self.inverses = inverses

    def encode(self, graph: object = None) -> Encoded:
        """Return the tables."""
        relations = self.relations
        return Encoded(self.entities, relations if self.inverses else torch.cat([relations, self.backwards(relations)]))

    def backwards(self, relations: Float[Tensor, "relations k"]) -> Float[Tensor, "relations k"]:
        """Return the vectors that ask for heads."""
        raise NotImplementedError

    def scores(
        self, encoded: Encoded, queries: Float[Tensor, "b d"], candidates: Int[Tensor, "b k"] | None = None
    ) -> Float[Tensor, "b n"]:
        """Return q · t, plus the bias of t where there is one; models that measure distances say so."""
        return dot(queries, encoded, candidates)

    def factors(
        self, encoded: Encoded, heads: Int[Tensor, " b"], relations: Int[Tensor, " b"], tails: Int[Tensor, " b"]
    ) -> list[Float[Tensor, "b _"]]:
        """Return the numbers of a triple that a regulariser keeps small."""
        return [rows(encoded.entities, heads), rows(encoded.relations, relations), rows(encoded.entities, tails)]


def sees_answers(kind: type[nn.Module]) -> bool:
    """Say whether a model looks at neighbours, among which the answer to a question must be hidden in training."""
    return "answers" in inspect.signature(kind.query).parameters  # type: ignore[attr-defined]


class ChannelNorm(nn.BatchNorm1d):
    """Batch normalisation of [b, channels, *size], which it reads and leaves with the channels of a place side by side.

    Read channel by channel, as libraries do, few channels leave most of a GPU idle.
    """

    def forward(self, maps: Float[Tensor, "b channels *size"]) -> Float[Tensor, "b channels *size"]:
        """Return all maps, each with mean 0 and spread 1 over the batch, scaled and shifted."""
        places = maps.movedim(1, -1)
        # Flat before and after: one channel alone would keep a stride that hides from PyTorch how it lies.
        found = super().forward(places.flatten().view(-1, self.num_features)).flatten()
        return found.view(places.shape).movedim(-1, 1)


class Filters(nn.Conv2d):
    """A convolution; a GPU does it by a product, for which it need not bring maps into another order afterwards."""

    def __init__(
        self,
        channels: int,
        maps: int,
        kernel: tuple[int, int],
        padding: tuple[int, int] = (0, 0),
        bias: bool = True,
    ) -> None:
        super().__init__(channels, maps, kernel, padding=padding, bias=bias)
        self.down, self.across = padding

    def forward(self, image: Float[Tensor, "b channels height width"]) -> Float[Tensor, "b maps rows columns"]:
        """Return the feature maps."""
        return self.by_product(image) if image.is_cuda else super().forward(image)

    def by_product(self, image: Float[Tensor, "b channels height width"]) -> Float[Tensor, "b maps rows columns"]:
        """Do the same by one product with all windows, which leaves the maps of a place side by side."""
        windows = pad(image, (self.across, self.across, self.down, self.down))
        for axis, side in enumerate(self.kernel_size, start=2):
            windows = windows.unfold(axis, side, 1)
        return linear(windows.movedim(1, 3).flatten(3), self.weight.flatten(1), self.bias).movedim(-1, 1)


def rows(table: Float[Tensor, "n ..."], ids: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape_and_d"]:
    """Return rows of a table; their gradients add up in a fixed order, which those of plain indexing do not."""
    ids = ids.to(table.device)
    return embedding(ids, table) if table.ndim > 1 else embedding(ids, table[:, None]).squeeze(-1)


def dot(
    queries: Float[Tensor, "b d"], encoded: Encoded, candidates: Int[Tensor, "b k"] | None = None
) -> Float[Tensor, "b _"]:
    """Return q · t, plus the bias of t where there is one."""
    if candidates is None:
        products, biases = (queries @ aligned(encoded.entities).T)[:, : len(encoded.entities)], encoded.biases
    else:
        products = (rows(encoded.entities, candidates) @ queries[..., None]).squeeze(-1)
        biases = None if encoded.biases is None else rows(encoded.biases, candidates)
    return products if biases is None else products + biases


def aligned(table: Float[Tensor, "n d"]) -> Float[Tensor, "n_padded d"]:
    """Return a table with rows of zeros up to a multiple of eight on a GPU, which multiplies others far slower."""
    return pad(table, (0, 0, 0, -len(table) % ALIGNED)) if table.is_cuda else table
