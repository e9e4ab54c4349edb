"""SACN: a sum over neighbours, weighted by the strength of their relation; then filters over head and relation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from procrustes_kge.graphs.graph import Graph
from procrustes_kge.linalg import cut, run_sum
from procrustes_kge.models.baselines.embedded import Encoded, ModelOptions, rows
from procrustes_kge.models.baselines.layers import ChannelNorm, Dropout, Filters, Linear, RandomSource
from procrustes_kge.models.baselines.neighbours import GraphNetwork, arrivals, weighted_sum
from procrustes_kge.validation import check_odd

NEIGHBOURS_IN_SUM = 64  # that are added up at once: few entities have more, and one of FB15k-237 has 7,614


class SACN(GraphNetwork):
    """X ← drop(tanh(BN(Â X W))) twice, Â = I + Σ_r α_r A_r, then Conv-TransE (Shang et al., 2019)."""

    @dataclass(frozen=True)
    class Options(ModelOptions):
        input_dim: Annotated[int, "numbers in an entity's vector before its neighbours are added"] = 100  # the paper's
        kernel: Annotated[int, "numbers side by side that a filter looks at"] = 3  # as ConvE
        filters: Annotated[int, "how many filters look over head and relation"] = 32  # as ConvE
        input_dropout: Annotated[float, "share of the filters' input left out in training"] = 0.0  # as published
        feature_dropout: Annotated[float, "share of the filters' output left out in training"] = 0.0  # by graph
        query_dropout: Annotated[float, "share of a query's numbers left out in training"] = 0.0  # differs by graph
        graph_dropout: Annotated[float, "share of a layer's output left out in training"] = 0.0  # differs by graph
        edge_dropout: Annotated[float, "share of the edges left out in training"] = 0.0  # as published

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
        self.strengths = nn.Parameter(
            torch.ones(2, 2 * len(graph.relations))
        )  # an edge starts as strong as a self-loop
        # BN takes away what all rows share: a bias before it would do nothing, and its own shift stands for b.
        self.weights = nn.ModuleList(Linear(size, dim, random, bias=False) for size in (options.input_dim, dim))
        self.norms = nn.ModuleList(nn.BatchNorm1d(dim) for _ in range(2))
        self.graph_drop, self.edge_drop = (
            Dropout(share, random) for share in (options.graph_dropout, options.edge_dropout)
        )
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
        receivers, directions, senders = arrivals(graph.train, len(graph.relations))
        order = receivers.argsort(stable=True)
        pieces, offsets = cut(torch.bincount(receivers, minlength=len(graph.entities)), NEIGHBOURS_IN_SUM)
        self.keep(senders=senders[order], directions=directions[order], pieces=pieces, offsets=offsets)

    def encode(self, graph: Graph | None = None) -> Encoded:
        """Return the entities after both layers."""
        tables = super().encode()
        points = tables.entities
        strengths = rows(self.strengths.T.contiguous(), self.directions).T.contiguous()  # of both layers at once
        for strength, weights, norm in zip(strengths, self.weights, self.norms, strict=True):
            # Â X before W, which makes rows wider as a rule.
            sums = weighted_sum(points, self.senders, self.pieces, self.edge_drop(strength))
            around = points + run_sum(sums, self.offsets)
            points = self.graph_drop(norm(weights(around)).tanh())
        return tables._replace(entities=points)

    def query(self, encoded: Encoded, heads: Int[Tensor, " b"], relations: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
        """Return what the filters see in head and relation, one above the other."""
        pairs = torch.stack([rows(encoded.entities, heads), rows(encoded.relations, relations)], dim=1)
        return self.projection(self.features(pairs[:, :, None]).movedim(1, -1))  # place after place
