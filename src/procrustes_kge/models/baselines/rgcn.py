"""R-GCN: an entity's vector is computed from its neighbours, with a matrix for each direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.queries import Queries, group_by_query
from procrustes_kge.linalg import bag_sum, starts, tiled
from procrustes_kge.models.baselines.embedded import Encoded, ModelOptions, rows
from procrustes_kge.models.baselines.layers import Dropout, RandomSource
from procrustes_kge.models.baselines.neighbours import GraphNetwork, weighted_sum

WIDEST_BLOCK = 24  # numbers in a joined block, at most: 20 for the usual 5
QUERIES_IN_TILE = 64  # tall enough for a good product, short enough that directions of few triples waste little


class RGCN(GraphNetwork):
    """x_i ← ReLU(W_self x_i + Σ_r 1/deg Σ_j W_r x_j) in layers, then DistMult (Schlichtkrull et al., 2018).

    As W_r is linear, the senders of a query (receiver, direction) are added up first and mapped once. Queries are
    sorted by direction and cut into tiles, so that one batched product maps them all.
    """

    @dataclass(frozen=True)
    class Options(ModelOptions):
        layers: Annotated[int, "how many edges away a neighbour may be"] = 2  # the paper's
        blocks: Annotated[int, "equal parts of a vector that a relation maps each on its own"] = 100  # the paper's
        edge_dropout: Annotated[float, "share of the edges left out in training"] = 0.0  # differs by graph
        query_dropout: Annotated[float, "share of a query's numbers left out in training"] = 0.0  # differs by graph
        inverses: Annotated[bool, "a relation has vectors of its own for each direction"] = True  # as ConvE and later
        parts, cut_into = "blocks", "{} blocks"

    senders: Int[Tensor, " arrivals"]  # query after query
    offsets: Int[Tensor, " rows_and_one"]  # where the senders of each query start
    tiles: Int[Tensor, " tiles"]  # the direction of each
    arriving: Int[Tensor, " queries"]  # their rows, receiver after receiver
    arrived: Int[Tensor, " entities_and_one"]  # where the rows of each receiver start

    def __init__(self, graph: Graph, options: Options, random: RandomSource) -> None:
        super().__init__(graph, options, random, inverses=options.inverses)
        dim, directions, generator = options.dim, 2 * len(graph.relations), random.on("cpu")
        width = dim // options.blocks
        own = torch.empty(options.layers, dim, dim)
        maps = torch.empty(options.layers, directions, options.blocks, width, width)
        self.own = nn.Parameter(own.normal_(std=dim**-0.5, generator=generator))
        self.maps = nn.Parameter(maps.normal_(std=width**-0.5, generator=generator))
        self.edge_drop, self.query_drop = Dropout(options.edge_dropout, random), Dropout(options.query_dropout, random)
        self.draw_tables()
        sizes = len(graph.entities), len(graph.relations)
        self._arrange(group_by_query(graph.train, *sizes, distinct=False), graph)

    def _arrange(self, queries: Queries, graph: Graph) -> None:
        """Keep the queries, each in a row of a tile whose queries have one direction."""
        entities, directions = len(graph.entities), 2 * len(graph.relations)
        rows, tiles = tiled(torch.bincount(queries.directions, minlength=directions), QUERIES_IN_TILE)
        counts = queries.counts
        self.keep(
            senders=queries.answers,
            offsets=starts(counts.new_zeros(len(tiles) * QUERIES_IN_TILE).index_copy_(0, rows, counts)),
            tiles=tiles,
            arriving=rows[queries.entities.argsort(stable=True)],
            arrived=starts(torch.bincount(queries.entities, minlength=entities)),
        )

    def backwards(self, relations: Float[Tensor, "relations k"]) -> Float[Tensor, "relations k"]:
        """Return the same vectors: DistMult cannot tell head from tail."""
        return relations

    def encode(self, graph: Graph | None = None) -> Encoded:
        """Return the entities after all layers; there is no ReLU after the last."""
        tables = super().encode()
        points = tables.entities
        for layer, (own, maps) in enumerate(zip(self.own, self.maps, strict=True)):
            points = points.relu() if layer else points
            points = points @ own + self.received(points, maps)
        return tables._replace(entities=points)

    def received(
        self, points: Float[Tensor, "n d"], maps: Float[Tensor, "directions blocks width width"]
    ) -> Float[Tensor, "n d"]:
        """Return Σ_r 1/deg Σ_j W_r x_j; in training some edges are dropped, and the others scaled up."""
        sizes = self.offsets.diff()
        shares = sizes.repeat_interleave(sizes, output_size=len(self.senders)).to(points.dtype).reciprocal()
        sums = weighted_sum(points, self.senders, self.offsets, self.edge_drop(shares))
        maps = joined(maps)
        maps_of_tiles = rows(maps.flatten(1), self.tiles).unflatten(1, maps.shape[1:]).unbind(dim=1)
        # Block after block: as one batch, all rows would be copied into its order and back.
        parts = sums.view(-1, QUERIES_IN_TILE, sums.shape[1]).split(maps.shape[-1], dim=-1)
        mapped = torch.cat([part @ each for part, each in zip(parts, maps_of_tiles, strict=True)], dim=-1)
        return bag_sum(mapped.view(sums.shape), self.arriving, self.arrived)

    def query(self, encoded: Encoded, heads: Int[Tensor, " b"], relations: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
        """Return h ∘ r."""
        return self.query_drop(rows(encoded.entities, heads) * rows(encoded.relations, relations))


def joined(maps: Float[Tensor, "directions blocks width width"]) -> Float[Tensor, "directions fewer wider wider"]:
    """Return the same maps in fewer blocks, zero but for the old ones: small blocks are slower than more numbers."""
    blocks, width = maps.shape[1:3]
    fewer = (each for each in range(1, blocks + 1) if blocks % each == 0)
    many = max(each for each in fewer if each == 1 or each * width <= WIDEST_BLOCK)
    places = torch.eye(many, dtype=maps.dtype, device=maps.device)
    return torch.einsum("dbgio,gh->dbgiho", maps.unflatten(1, (-1, many)), places).flatten(4).flatten(2, 3)
