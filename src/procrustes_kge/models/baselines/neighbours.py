"""Models whose vectors of entities are computed from those of their neighbours: R-GCN and SACN.

An edge brings an entity the answer to one of its queries: of a triple (h, r, t), t arrives at h by direction r, and h
arrives at t by direction r + R.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.queries import both_queries, group_by_query
from procrustes_kge.linalg import bag_sum, cut, run_sum, starts, tiled
from procrustes_kge.models.baselines.embedded import Baseline, Encoded, ModelOptions, rows
from procrustes_kge.models.baselines.layers import ChannelNorm, Dropout, Filters, Linear, RandomSource
from procrustes_kge.models.predictor import Ids
from procrustes_kge.validation import check_odd

WIDEST_BLOCK = 24  # numbers in a joined block, at most: 20 for the usual 5
QUERIES_IN_TILE = 64  # tall enough for a good product, short enough that directions of few triples waste little
NEIGHBOURS_IN_SUM = 64  # that are added up at once: few entities have more, and one of FB15k-237 has 7,614


class GraphNetwork(Baseline):
    """A model that keeps its edges as tables of indices, so that what is saved answers without the graph."""

    def keep(self, **tables: Int[Tensor, " _"]) -> None:
        """Keep tables of indices, which move and are saved with the model."""
        for name, table in tables.items():
            self.register_buffer(name, table)
        self.register_load_state_dict_pre_hook(_make_room)


def _make_room(module: nn.Module, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Let a model of other edges, or of none, load those that were saved; a table of their size is kept."""
    for name, table in list(module.named_buffers(recurse=False)):
        if prefix + name in state and table.shape != state[prefix + name].shape:
            setattr(module, name, table.new_empty(state[prefix + name].shape))


class RGCN(GraphNetwork):
    """x_i ← ReLU(W_self x_i + Σ_r 1/deg Σ_j W_r x_j) in layers, then DistMult (Schlichtkrull et al., 2018).

    As W_r is linear, the senders of a query (receiver, direction) are added up first and mapped once. Queries are
    sorted by direction and cut into tiles, so that one batched product maps them all.
    """

    @dataclass(frozen=True)
    class Options(ModelOptions):
        layers: Annotated[int, "number of graph layers"] = 2  # the paper's
        blocks: Annotated[int, "number of diagonal blocks in a relation's matrix"] = 100  # the paper's
        edge_dropout: Annotated[float, "dropout of edges"] = 0.0  # differs by graph
        query_dropout: Annotated[float, "dropout of the query vector"] = 0.0  # differs by graph
        inverses: Annotated[bool, "learn separate parameters for inverse relations"] = True  # as ConvE and later
        parts, cut_into = "blocks", "{} blocks"

    senders: Int[Tensor, " arrivals"]  # query after query
    offsets: Int[Tensor, " rows_and_one"]  # where the senders of each query start
    tiles: Int[Tensor, " tiles"]  # the direction of each
    arriving: Int[Tensor, " queries"]  # their rows, receiver after receiver
    arrived: Int[Tensor, " entities_and_one"]  # where the rows of each receiver start

    def __init__(self, graph: Graph, options: Options, random: RandomSource) -> None:
        super().__init__(graph, options, random)
        dim, directions, generator = options.dim, 2 * len(graph.relations), random.on("cpu")
        width = dim // options.blocks
        own = torch.empty(options.layers, dim, dim)
        maps = torch.empty(options.layers, directions, options.blocks, width, width)
        self.own = nn.Parameter(own.normal_(std=dim**-0.5, generator=generator))
        self.maps = nn.Parameter(maps.normal_(std=width**-0.5, generator=generator))
        self.edge_drop, self.query_drop = Dropout(options.edge_dropout, random), Dropout(options.query_dropout, random)
        self.draw_tables()
        # Each query is a row of a tile whose queries have one direction.
        queries = group_by_query(graph.train, len(graph.entities), len(graph.relations), distinct=False)
        rows, tiles = tiled(torch.bincount(queries.directions, minlength=directions), QUERIES_IN_TILE)
        counts = queries.counts
        self.keep(
            senders=queries.answers,
            offsets=starts(counts.new_zeros(len(tiles) * QUERIES_IN_TILE).index_copy_(0, rows, counts)),
            tiles=tiles,
            arriving=rows[queries.entities.argsort(stable=True)],
            arrived=starts(torch.bincount(queries.entities, minlength=len(graph.entities))),
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

    def received(self, points: Float[Tensor, "n d"], maps: Float[Tensor, "ways blocks w w"]) -> Float[Tensor, "n d"]:
        """Return Σ_r 1/deg Σ_j W_r x_j; in training some edges are dropped, and the others scaled up."""
        sizes = self.offsets.diff()
        shares = sizes.repeat_interleave(sizes, output_size=len(self.senders)).to(points.dtype).reciprocal()
        sums = bag_sum(points, self.senders, self.offsets, self.edge_drop(shares))
        maps = joined(maps)
        maps_of_tiles = rows(maps.flatten(1), self.tiles).unflatten(1, maps.shape[1:]).unbind(dim=1)
        # Block after block: as one batch, all rows would be copied into its order and back.
        parts = sums.view(-1, QUERIES_IN_TILE, sums.shape[1]).split(maps.shape[-1], dim=-1)
        mapped = torch.cat([part @ each for part, each in zip(parts, maps_of_tiles, strict=True)], dim=-1)
        return bag_sum(mapped.view(sums.shape), self.arriving, self.arrived)

    def query(self, encoded: Encoded, heads: Ids, relations: Ids) -> Float[Tensor, "b d"]:
        return self.query_drop(rows(encoded.entities, heads) * rows(encoded.relations, relations))


def joined(maps: Float[Tensor, "directions blocks width width"]) -> Float[Tensor, "directions fewer wider wider"]:
    """Return the same maps in fewer blocks, zero but for the old ones: small blocks are slower than more numbers."""
    blocks, width = maps.shape[1:3]
    fewer = (each for each in range(1, blocks + 1) if blocks % each == 0)
    many = max(each for each in fewer if each == 1 or each * width <= WIDEST_BLOCK)
    places = torch.eye(many, dtype=maps.dtype, device=maps.device)
    return torch.einsum("dbgio,gh->dbgiho", maps.unflatten(1, (-1, many)), places).flatten(4).flatten(2, 3)


class SACN(GraphNetwork):
    """X ← drop(tanh(BN(Â X W))) twice, Â = I + Σ_r α_r A_r, then Conv-TransE (Shang et al., 2019)."""

    @dataclass(frozen=True)
    class Options(ModelOptions):
        input_dim: Annotated[int, "dimension of the entity vectors before the graph layers"] = 100  # the paper's
        kernel: Annotated[int, "width of a filter"] = 3  # as ConvE
        filters: Annotated[int, "number of filters"] = 32  # as ConvE
        input_dropout: Annotated[float, "dropout of the model's input"] = 0.0  # as published
        feature_dropout: Annotated[float, "dropout of feature maps"] = 0.0  # by graph
        query_dropout: Annotated[float, "dropout of the query vector"] = 0.0  # differs by graph
        graph_dropout: Annotated[float, "dropout after each graph layer"] = 0.0  # differs by graph
        edge_dropout: Annotated[float, "dropout of edges"] = 0.0  # as published

        def __post_init__(self) -> None:
            super().__post_init__()
            check_odd(kernel=self.kernel)

    senders: Int[Tensor, " arrivals"]  # receiver after receiver
    directions: Int[Tensor, " arrivals"]  # by which each arrives
    pieces: Int[Tensor, " pieces_and_one"]  # where those start that are added up at once
    offsets: Int[Tensor, " entities_and_one"]  # where the pieces of each receiver start

    def __init__(self, graph: Graph, options: Options, random: RandomSource) -> None:
        super().__init__(graph, options, random, dim=options.input_dim, relation_dim=options.dim)
        dim, filters = options.dim, options.filters
        self.strengths = nn.Parameter(torch.ones(2, 2 * len(graph.relations)))  # at first as strong as a self-loop
        # BN takes away what all rows share: a bias before it would do nothing, and its own shift stands for b.
        self.weights = nn.ModuleList(Linear(size, dim, random, bias=False) for size in (options.input_dim, dim))
        self.norms = nn.ModuleList(nn.BatchNorm1d(dim) for _ in range(2))
        self.graph_drop, self.edge_drop = Dropout(options.graph_dropout, random), Dropout(options.edge_dropout, random)
        kernel, padding = (1, options.kernel), (0, options.kernel // 2)
        self.features = nn.Sequential(
            *(ChannelNorm(2), Dropout(options.input_dropout, random)),
            Filters(2, filters, kernel, random, padding=padding, bias=False),
            *(ChannelNorm(filters), nn.ReLU(), Dropout(options.feature_dropout, random)),
        )
        self.projection = nn.Sequential(
            *(nn.Flatten(), Linear(filters * dim, dim, random), Dropout(options.query_dropout, random)),
            *(nn.BatchNorm1d(dim), nn.ReLU()),
        )
        self.draw_tables()
        receivers, directions, senders = both_queries(graph.train.long(), len(graph.relations))
        order = receivers.argsort(stable=True)
        pieces, offsets = cut(torch.bincount(receivers, minlength=len(graph.entities)), NEIGHBOURS_IN_SUM)
        self.keep(senders=senders[order], directions=directions[order], pieces=pieces, offsets=offsets)

    def encode(self, graph: Graph | None = None) -> Encoded:
        tables = super().encode()
        points = tables.entities
        strengths = rows(self.strengths.T.contiguous(), self.directions).T.contiguous()  # of both layers at once
        for strength, weights, norm in zip(strengths, self.weights, self.norms, strict=True):
            # Â X before W, which makes rows wider as a rule.
            sums = bag_sum(points, self.senders, self.pieces, self.edge_drop(strength))
            around = points + run_sum(sums, self.offsets)
            points = self.graph_drop(norm(weights(around)).tanh())
        return tables._replace(entities=points)

    def query(self, encoded: Encoded, heads: Ids, relations: Ids) -> Float[Tensor, "b d"]:
        """Return what the filters see in head and relation, one above the other."""
        pairs = torch.stack([rows(encoded.entities, heads), rows(encoded.relations, relations)], dim=1)
        return self.projection(self.features(pairs[:, :, None]).movedim(1, -1))  # place after place
