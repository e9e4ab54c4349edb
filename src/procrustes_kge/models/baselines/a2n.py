"""A2N: an entity is combined with its neighbours, weighted by how much they matter to a query."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag

from procrustes_kge.errors import InputError
from procrustes_kge.graphs.graph import Graph
from procrustes_kge.graphs.queries import both_queries
from procrustes_kge.linalg import run_sum, starts
from procrustes_kge.models.baselines.embedded import Encoded, ModelOptions, rows
from procrustes_kge.models.baselines.layers import Dropout, Linear, RandomSource
from procrustes_kge.models.baselines.neighbours import GraphNetwork
from procrustes_kge.models.predictor import Ids
from procrustes_kge.words import counted

NOT_SEEN = -1e30  # likeness of padding; not −∞: that less itself, where all is padding, is no number
NEIGHBOURS_IN_TILE = 16  # most entities have fewer, some have hundreds


class Seen(NamedTuple):
    """Neighbours in tiles of equal height, query after query; the last tile of each is padded.

    A query takes as many tiles as its neighbours fill, except where all get the same number.
    """

    places: Int[Tensor, "tiles height"]  # where they stand in a list of neighbours
    present: Bool[Tensor, "tiles height"]  # false for padding, and for what training leaves out
    queries: Int[Tensor, " tiles"]  # whose neighbours they are
    offsets: Int[Tensor, " queries_and_one"]  # where the tiles of each query start


class A2N(GraphNetwork):
    """q = W_h [h; Σ a_i n_i] ∘ r, n_i = W_n [r_i; e_i], a = softmax((h ∘ r) · n_i) (Bansal et al., 2019).

    An edge is one number, (receiver · 2R + direction) · N + sender; sorted, these numbers list the neighbours of one
    entity after the other, and an edge is found by binary search.
    """

    @dataclass(frozen=True)
    class Options(ModelOptions):
        max_neighbours: Annotated[int, "look at this many neighbours of an entity at most"] = 200
        edge_dropout: Annotated[float, "dropout of edges"] = 0.0  # differs by graph
        query_dropout: Annotated[float, "dropout of the query vector"] = 0.0  # differs by graph

    sees_answers: ClassVar[bool] = True
    keys: Int[Tensor, " arrivals"]
    offsets: Int[Tensor, " entities_and_one"]  # where the neighbours of each entity start

    def __init__(self, graph: Graph, options: Options, random: RandomSource) -> None:
        check_edges_countable(len(graph.entities), len(graph.relations))
        super().__init__(graph, options, random)
        dim, self.max_neighbours = options.dim, options.max_neighbours
        self.neighbour, self.joint = (Linear(2 * dim, dim, random, bias=False) for _ in range(2))
        self.edge_drop, self.query_drop = Dropout(options.edge_dropout, random), Dropout(options.query_dropout, random)
        self.draw_tables()
        receivers, directions, senders = both_queries(graph.train.long(), len(graph.relations))
        offsets = starts(torch.bincount(receivers, minlength=len(graph.entities)))
        self.keep(keys=self.key(receivers, directions, senders).sort().values, offsets=offsets)

    def key(
        self, receivers: Int[Tensor, "*edges"], directions: Int[Tensor, "*more edges"], senders: Int[Tensor, "*edges"]
    ) -> Int[Tensor, "..."]:
        """Return the number of each edge."""
        return (receivers * len(self.relations) + directions) * len(self.entities) + senders

    def query(self, encoded: Encoded, heads: Ids, relations: Ids, answers: Ids | None = None) -> Float[Tensor, "b d"]:
        """Return the head seen with its neighbours, times the relation; the edge from a given answer is not seen."""
        head, relation = rows(encoded.entities, heads), rows(encoded.relations, relations)
        # (h ∘ r) · W_n p = (W_nᵀ (h ∘ r)) · p and Σ a_i W_n p_i = W_n Σ a_i p_i: no n_i has to exist.
        asked = (head * relation) @ self.neighbour.weight
        around = self.neighbour(self.attended(encoded, asked, self.neighbours(heads, relations, answers)))
        return self.query_drop(self.joint(torch.cat([head, around], dim=-1)) * relation)

    def attended(self, encoded: Encoded, asked: Float[Tensor, "b pair"], seen: Seen) -> Float[Tensor, "b pair"]:
        """Return Σ a_i [r_i; e_i], a = softmax(asked · [r_i; e_i]), without making any pair.

        Relations are few: their likeness to a query is looked up in a table, and only e_i is gathered.
        """
        edges = self.keys[seen.places]
        sender, direction = edges % len(self.entities), edges // len(self.entities) % len(self.relations)
        of_relations, of_entities = asked.chunk(2, dim=-1)
        vectors, table = rows(encoded.entities, sender), of_relations @ encoded.relations.T
        likeness = (vectors @ rows(of_entities, seen.queries)[..., None]).squeeze(-1)
        likeness = likeness + rows(table.flatten(), seen.queries[:, None] * len(self.relations) + direction)
        likeness = likeness.masked_fill(~seen.present, NOT_SEEN)
        # Whatever is taken off before exp() cancels: the largest may be held fixed.
        largest = likeness.new_zeros(len(asked)).scatter_reduce(
            0, seen.queries, likeness.detach().amax(dim=1), "amax", include_self=False
        )
        weights = (likeness - largest[seen.queries, None]).exp() * seen.present
        sums = [
            embedding_bag(direction, encoded.relations, mode="sum", per_sample_weights=weights),
            (weights[:, None] @ vectors).squeeze(1),
            weights.sum(dim=1, keepdim=True),
        ]
        summed = run_sum(torch.cat(sums, dim=-1), seen.offsets)
        return summed[:, :-1] / summed[:, -1:].clamp_min(1)  # the largest alone weighs 1: less is no neighbour at all

    def neighbours(self, heads: Ids, relations: Ids, answers: Ids | None) -> Seen:
        """Return which of all edges each head sees."""
        counts, hidden = self.offsets.diff()[heads], []
        if answers is not None:
            hidden = list(zip(*self.runs(heads, relations, answers), strict=True))
            counts = counts - sum(size for _, size in hidden)
        places, present, queries, offsets = self.kept(counts)
        for first, size in hidden:  # places behind what is hidden move on
            places = places + size[queries, None] * (places >= first[queries, None])
        places = torch.where(present, self.offsets[heads][queries, None] + places, 0)
        present = self.edge_drop(present.float()).bool()
        return Seen(places, present, queries, offsets)

    def runs(self, heads: Ids, relations: Ids, answers: Ids) -> tuple[Int[Tensor, "two b"], Int[Tensor, "two b"]]:
        """Return where the asked triples stand among the neighbours of their heads, and how often, first places first.

        A triple from an entity to itself arrives there by both directions; the others by the one that asks.
        """
        ways = len(self.relations)
        directions = torch.stack([relations, (relations + ways // 2) % ways]).sort(dim=0).values
        keys = self.key(heads, directions, answers)
        first, behind = (torch.searchsorted(self.keys, keys, right=right) for right in (False, True))
        meant = (directions == relations) | (heads == answers)
        return first - self.offsets[heads], (behind - first) * meant

    def alike(self) -> bool:
        """Say whether all queries get as many tiles: in training a GPU need not wait for the counts then."""
        return self.training and self.keys.is_cuda and len(self.keys) > 0

    def kept(self, counts: Int[Tensor, " b"]) -> Seen:
        """Return the places of the neighbours that are kept, given how many each query has.

        Where there are too many, their list is cut into strips of nearly equal length, and one of each is kept: the
        middle one in evaluation. In training the list starts at a random place, and one of each strip is drawn: all are
        kept equally often, none twice. Either way they are spread over the relations, by which the list is sorted.
        """
        device, most, height, alike = counts.device, self.max_neighbours, NEIGHBOURS_IN_TILE, self.alike()
        tiles = ((torch.full_like(counts, most) if alike else counts.clamp_max(most)) + height - 1) // height
        offsets, order = starts(tiles), torch.arange(len(tiles), device=device)
        queries = order.repeat_interleave(tiles, output_size=len(tiles) * -(-most // height) if alike else None)
        numbers = torch.arange(len(queries), device=device) - offsets[queries]
        slots, many = numbers[:, None] * height + torch.arange(height, device=device), counts[queries, None]
        strips = slots * many // most
        lengths = ((slots + 1) * many // most - strips).clamp_min(1)
        if self.training:
            random: dict[str, Any] = {"device": device, "generator": self.random.on(device)}
            begun, drawn = (torch.randint(2**40, each.shape, **random) for each in (counts, lengths))
            picked = (begun[queries, None] + strips + drawn % lengths) % many.clamp_min(1)
        else:
            picked = strips + lengths // 2
        places, present = torch.where(many > most, picked, slots), slots < many.clamp_max(most)
        return Seen(places, present, queries, offsets)


def check_edges_countable(entities: int, relations: int) -> None:
    """Refuse a graph whose edges (receiver, direction, sender) cannot be numbered with 64 bits."""
    if entities * 2 * relations * entities > 2**63:
        seen = f"{counted(entities, 'entity')} and {counted(relations, 'relation')}"
        expected = "expected entities² times relations of at most 2⁶²; try another model, such as complex"
        raise InputError(f"{seen} are too many for a2n, which numbers edges with 64 bits: {expected}")
