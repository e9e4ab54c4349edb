"""Models that look at the neighbours of an entity.

An edge brings an entity the answer to one of its questions: of a triple (h, r, t), t arrives at h by direction r, and h
arrives at t by direction r + R.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from procrustes_kge.layouts.relational import ROWS_PER_TILE
from procrustes_kge.linalg import bag_sum, cut, run_sum, starts, tiled
from procrustes_kge.models.baselines.embedded import ChannelNorm, Embedded, Encoded, Filters, rows
from procrustes_kge.validation import check_divides, check_numbers, check_odd

FAR = -1e30  # not −∞: that less itself, where all is padding, is no number
BLOCK = 24  # numbers in a joined block of R-GCN's, at most: 20 for the usual 5
ADDED_AT_ONCE = 64  # neighbours of SACN's: few entities have more, and one of FB15k-237 has 7,614
SEEN_AT_ONCE = 16  # neighbours in a tile of A2N's: most entities have fewer, some have hundreds


class Connected(Embedded):
    """A model that keeps its edges as tables of indices, so that what is saved answers without the graph."""

    def keep(self, **tables: Int[Tensor, " _"]) -> None:
        """Keep tables of indices, which move and are saved with the model."""
        for name, table in tables.items():
            self.register_buffer(name, table)
        self.register_load_state_dict_pre_hook(_make_room)


def _make_room(module: nn.Module, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Let a model of other edges, or of none, take those that were saved; a table of their size stays where it is."""
    for name, table in list(module.named_buffers(recurse=False)):
        if prefix + name in state and table.shape != state[prefix + name].shape:
            setattr(module, name, table.new_empty(state[prefix + name].shape))


def arrivals(
    edges: Int[Tensor, "n 3"], relations: int
) -> tuple[Int[Tensor, " arrivals"], Int[Tensor, " arrivals"], Int[Tensor, " arrivals"]]:
    """Return where each edge arrives, by which direction, and from where: every triple twice."""
    head, relation, tail = edges.long().unbind(dim=1)
    return torch.cat([head, tail]), torch.cat([relation, relation + relations]), torch.cat([tail, head])


def weighted_sum(
    rows: Float[Tensor, "rows width"],
    members: Int[Tensor, " members"],
    offsets: Int[Tensor, " bags_and_one"],
    weights: Float[Tensor, " members"],
) -> Float[Tensor, "bags width"]:
    """Return Σ w_m rows[m] over the members of every bag, without writing down what a member adds.

    Gradients, of weights too, add up in a fixed order.
    """
    return embedding_bag(members, rows, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True)


def joined(maps: Float[Tensor, "directions blocks width width"]) -> Float[Tensor, "directions fewer wider wider"]:
    """Return the same maps in fewer blocks, zero but for the old ones: small blocks are slower than more numbers."""
    blocks, width = maps.shape[1:3]
    many = max(each for each in range(1, blocks + 1) if blocks % each == 0 and (each == 1 or each * width <= BLOCK))
    places = torch.eye(many, dtype=maps.dtype, device=maps.device)
    return torch.einsum("dbgio,gh->dbgiho", maps.unflatten(1, (-1, many)), places).flatten(4).flatten(2, 3)


class RGCN(Connected):
    """x_i ← ReLU(W_self x_i + Σ_r 1/deg Σ_j W_r x_j) in layers, then DistMult (Schlichtkrull et al., 2018).

    As W_r is linear, the senders of a question (receiver, direction) are added up first and turned once. Questions are
    sorted by direction and cut into tiles, so that one batched product turns them all.
    """

    senders: Int[Tensor, " arrivals"]  # question after question
    offsets: Int[Tensor, " rows_and_one"]  # where the senders of each question start
    tiles: Int[Tensor, " tiles"]  # the direction of each
    arriving: Int[Tensor, " questions"]  # their rows, receiver after receiver
    arrived: Int[Tensor, " entities_and_one"]  # where the rows of each receiver start

    def __init__(
        self,
        entities: int,
        relations: int,
        edges: Int[Tensor, "n 3"],
        dim: int = 500,
        layers: int = 2,
        blocks: int = 100,
        edge_dropout: float = 0.4,
        query_dropout: float = 0.0,
        inverses: bool = False,
    ) -> None:
        super().__init__(entities, relations, dim, dim, inverses)
        check_numbers(1, blocks=blocks)
        check_divides(dim, blocks, f"{blocks} blocks", "blocks")
        width = dim // blocks
        self.own = nn.Parameter(torch.empty(layers, dim, dim).normal_(std=dim**-0.5))
        self.maps = nn.Parameter(torch.empty(layers, 2 * relations, blocks, width, width).normal_(std=width**-0.5))
        self.edge_drop, self.query_drop = nn.Dropout(edge_dropout), nn.Dropout(query_dropout)
        for table in (self.entities, self.relations):
            nn.init.xavier_normal_(table)
        self._arrange(*arrivals(edges, relations), entities, 2 * relations)

    def _arrange(self, receivers: Tensor, directions: Tensor, senders: Tensor, entities: int, ways: int) -> None:
        key = directions * entities + receivers
        order = key.argsort(stable=True)
        questions, sizes = key[order].unique_consecutive(return_counts=True)
        asking = questions % entities
        rows, tiles = tiled(torch.bincount(questions // entities, minlength=ways), ROWS_PER_TILE)
        self.keep(
            senders=senders[order],
            offsets=starts(sizes.new_zeros(len(tiles) * ROWS_PER_TILE).index_copy_(0, rows, sizes)),
            tiles=tiles,
            arriving=rows[asking.argsort(stable=True)],
            arrived=starts(torch.bincount(asking, minlength=entities)),
        )

    def backwards(self, relations: Float[Tensor, "relations k"]) -> Float[Tensor, "relations k"]:
        """Return the same vectors: DistMult cannot tell head from tail."""
        return relations

    def encode(self, graph: object = None) -> Encoded:
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
        """Return Σ_r 1/deg Σ_j W_r x_j; in training some edges bring nothing, and the others more for it."""
        sizes = self.offsets.diff()
        shares = sizes.repeat_interleave(sizes, output_size=len(self.senders)).to(points.dtype).reciprocal()
        sums = weighted_sum(points, self.senders, self.offsets, self.edge_drop(shares))
        maps = joined(maps)
        turns = rows(maps.flatten(1), self.tiles).unflatten(1, maps.shape[1:]).unbind(dim=1)
        # Block after block: to treat them as one batch, all rows would be copied into its order and back.
        parts = sums.view(-1, ROWS_PER_TILE, sums.shape[1]).split(maps.shape[-1], dim=-1)
        turned = torch.cat([part @ turn for part, turn in zip(parts, turns, strict=True)], dim=-1)
        return bag_sum(turned.view(sums.shape), self.arriving, self.arrived)

    def query(self, encoded: Encoded, heads: Int[Tensor, " b"], relations: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
        """Return h ∘ r."""
        return self.query_drop(rows(encoded.entities, heads) * rows(encoded.relations, relations))


class SACN(Connected):
    """X ← drop(tanh(BN(Â X W))) twice, Â = I + Σ_r α_r A_r, then Conv-TransE (Shang et al., 2019)."""

    senders: Int[Tensor, " arrivals"]  # receiver after receiver
    directions: Int[Tensor, " arrivals"]  # by which each arrives
    pieces: Int[Tensor, " pieces_and_one"]  # where those start that are added up at once
    offsets: Int[Tensor, " entities_and_one"]  # where the pieces of each receiver start

    def __init__(
        self,
        entities: int,
        relations: int,
        edges: Int[Tensor, "n 3"],
        dim: int = 200,
        input_dim: int = 100,
        filters: int = 200,
        kernel: int = 5,
        input_dropout: float = 0.0,
        feature_dropout: float = 0.25,
        query_dropout: float = 0.25,
        graph_dropout: float = 0.25,
        edge_dropout: float = 0.0,
    ) -> None:
        super().__init__(entities, relations, input_dim, dim, inverses=True)
        check_numbers(1, kernel=kernel)
        check_odd(kernel=kernel)
        self.strengths = nn.Parameter(torch.ones(2, 2 * relations))  # an edge starts as strong as a self-loop
        # BN takes away what all rows share: a bias before it would do nothing, and its own shift stands for b.
        self.weights = nn.ModuleList(nn.Linear(size, dim, bias=False) for size in (input_dim, dim))
        self.norms = nn.ModuleList(nn.BatchNorm1d(dim) for _ in range(2))
        self.graph_drop, self.edge_drop = nn.Dropout(graph_dropout), nn.Dropout(edge_dropout)
        self.features = nn.Sequential(
            *(ChannelNorm(2), nn.Dropout(input_dropout)),
            Filters(2, filters, (1, kernel), padding=(0, kernel // 2), bias=False),
            *(ChannelNorm(filters), nn.ReLU(), nn.Dropout(feature_dropout)),
        )
        self.projection = nn.Sequential(
            *(nn.Flatten(), nn.Linear(filters * dim, dim), nn.Dropout(query_dropout)),
            *(nn.BatchNorm1d(dim), nn.ReLU()),
        )
        for table in (self.entities, self.relations):
            nn.init.xavier_normal_(table)
        receivers, directions, senders = arrivals(edges, relations)
        order = receivers.argsort(stable=True)
        pieces, offsets = cut(torch.bincount(receivers, minlength=entities), ADDED_AT_ONCE)
        self.keep(senders=senders[order], directions=directions[order], pieces=pieces, offsets=offsets)

    def encode(self, graph: object = None) -> Encoded:
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


class Seen(NamedTuple):
    """Neighbours in tiles of equal height, question after question; the last tile of each is padded.

    A question with few neighbours takes one tile, however many another one has, but where all get as many.
    """

    places: Int[Tensor, "tiles height"]  # where they stand in a list of neighbours
    present: Bool[Tensor, "tiles height"]  # false for padding, and for what training leaves out
    questions: Int[Tensor, " tiles"]  # whose neighbours they are
    offsets: Int[Tensor, " questions_and_one"]  # where the tiles of each question start


class A2N(Connected):
    """q = W_h [h; Σ a_i n_i] ∘ r, n_i = W_n [r_i; e_i], a = softmax((h ∘ r) · n_i) (Bansal et al., 2019).

    An edge is one number, (receiver · 2R + direction) · N + sender; sorted, these numbers list the neighbours of one
    entity after the other, and an edge is found by bisection.
    """

    keys: Int[Tensor, " arrivals"]
    offsets: Int[Tensor, " entities_and_one"]  # where the neighbours of each entity start

    def __init__(
        self,
        entities: int,
        relations: int,
        edges: Int[Tensor, "n 3"],
        dim: int = 512,
        most: int = 200,
        edge_dropout: float = 0.0,
        query_dropout: float = 0.0,
    ) -> None:
        super().__init__(entities, relations, dim, dim, inverses=True)
        check_numbers(1, most=most)
        self.most = most
        self.neighbour, self.joint = (nn.Linear(2 * dim, dim, bias=False) for _ in range(2))
        self.edge_drop, self.query_drop = nn.Dropout(edge_dropout), nn.Dropout(query_dropout)
        for table in (self.entities, self.relations):
            nn.init.xavier_normal_(table)
        receivers, directions, senders = arrivals(edges, relations)
        offsets = starts(torch.bincount(receivers, minlength=entities))
        self.keep(keys=self.key(receivers, directions, senders).sort().values, offsets=offsets)

    def key(
        self, receivers: Int[Tensor, "*edges"], directions: Int[Tensor, "*more edges"], senders: Int[Tensor, "*edges"]
    ) -> Int[Tensor, ...]:
        """Return the number of each edge."""
        return (receivers * len(self.relations) + directions) * len(self.entities) + senders

    def query(
        self,
        encoded: Encoded,
        heads: Int[Tensor, " b"],
        relations: Int[Tensor, " b"],
        answers: Int[Tensor, " b"] | None = None,
    ) -> Float[Tensor, "b d"]:
        """Return the head seen with its neighbours, times the relation; the edge from a given answer is not seen."""
        head, relation = rows(encoded.entities, heads), rows(encoded.relations, relations)
        # (h ∘ r) · W_n p = (W_nᵀ (h ∘ r)) · p and Σ a_i W_n p_i = W_n Σ a_i p_i: no n_i has to exist.
        asked = (head * relation) @ self.neighbour.weight
        around = self.neighbour(self.attended(encoded, asked, self.neighbours(heads, relations, answers)))
        return self.query_drop(self.joint(torch.cat([head, around], dim=-1)) * relation)

    def attended(self, encoded: Encoded, asked: Float[Tensor, "b pair"], seen: Seen) -> Float[Tensor, "b pair"]:
        """Return Σ a_i [r_i; e_i], a = softmax(asked · [r_i; e_i]), without writing down any pair.

        Relations are few: their likeness to a question is looked up in a table, and only e_i is laid out.
        """
        edges = self.keys[seen.places]
        sender, direction = edges % len(self.entities), edges // len(self.entities) % len(self.relations)
        of_relations, of_entities = asked.chunk(2, dim=-1)
        vectors, table = rows(encoded.entities, sender), of_relations @ encoded.relations.T
        likeness = (vectors @ rows(of_entities, seen.questions)[..., None]).squeeze(-1)
        likeness = likeness + rows(table.flatten(), seen.questions[:, None] * len(self.relations) + direction)
        likeness = likeness.masked_fill(~seen.present, FAR)
        # Whatever is taken off before exp() cancels: the largest may be held fixed.
        largest = likeness.new_zeros(len(asked)).scatter_reduce(
            0, seen.questions, likeness.detach().amax(dim=1), "amax", include_self=False
        )
        weights = (likeness - largest[seen.questions, None]).exp() * seen.present
        sums = [
            embedding_bag(direction, encoded.relations, mode="sum", per_sample_weights=weights),
            (weights[:, None] @ vectors).squeeze(1),
            weights.sum(dim=1, keepdim=True),
        ]
        summed = run_sum(torch.cat(sums, dim=-1), seen.offsets)
        return summed[:, :-1] / summed[:, -1:].clamp_min(1)  # the largest alone weighs 1: less is no neighbour at all

    def neighbours(
        self, heads: Int[Tensor, " b"], relations: Int[Tensor, " b"], answers: Int[Tensor, " b"] | None
    ) -> Seen:
        """Return which of all edges each head sees."""
        counts, hidden = self.offsets.diff()[heads], []
        if answers is not None:
            hidden = list(zip(*self.runs(heads, relations, answers), strict=True))
            counts = counts - sum(size for _, size in hidden)
        places, present, questions, offsets = self.kept(counts)
        for first, size in hidden:  # places behind what is hidden move on
            places = places + size[questions, None] * (places >= first[questions, None])
        places = torch.where(present, self.offsets[heads][questions, None] + places, 0)
        present = self.edge_drop(present.float()).bool()
        return Seen(places, present, questions, offsets)

    def runs(
        self, heads: Int[Tensor, " b"], relations: Int[Tensor, " b"], answers: Int[Tensor, " b"]
    ) -> tuple[Int[Tensor, "two b"], Int[Tensor, "two b"]]:
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
        """Return whether all questions get as many tiles: a GPU that trains does not wait to hear how many."""
        return self.training and self.keys.is_cuda and len(self.keys) > 0

    def kept(self, counts: Int[Tensor, " b"]) -> Seen:
        """Return the places of the neighbours that are kept, of so many.

        Where there are too many, their list is cut into strips of nearly equal length, and one of each is kept: the
        middle one in evaluation. In training the list is begun anywhere, and any one of a strip is drawn: all are kept
        as often, none twice. Either way what is kept is spread out over the relations, by which the list is sorted.
        """
        device, height = counts.device, SEEN_AT_ONCE
        alike = self.alike()
        tiles = ((torch.full_like(counts, self.most) if alike else counts.clamp_max(self.most)) + height - 1) // height
        offsets, order = starts(tiles), torch.arange(len(tiles), device=device)
        questions = order.repeat_interleave(tiles, output_size=len(tiles) * -(-self.most // height) if alike else None)
        numbers = torch.arange(len(questions), device=device) - offsets[questions]
        slots, many = numbers[:, None] * height + torch.arange(height, device=device), counts[questions, None]
        strips = slots * many // self.most
        lengths = ((slots + 1) * many // self.most - strips).clamp_min(1)
        if self.training:
            begun, drawn = (torch.randint(2**40, like.shape, device=device) for like in (counts, lengths))
            picked = (begun[questions, None] + strips + drawn % lengths) % many.clamp_min(1)
        else:
            picked = strips + lengths // 2
        places, present = torch.where(many > self.most, picked, slots), slots < many.clamp_max(self.most)
        return Seen(places, present, questions, offsets)
