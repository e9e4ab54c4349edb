"""What each relation does to a vector, as maps that can be compared with each other and carried out in turn.

A direction δ (relation r asked for tails, r + R for heads) sends segment x of an entity to x B + b. Written with one
number more, that is (x, 1) M with M = [B; b]: one product, translations included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from procrustes_kge.errors import InputError
from procrustes_kge.models.baselines.embedded import Encoded
from procrustes_kge.models.baselines.trained import TrainedBaseline
from procrustes_kge.models.predictor import Answering
from procrustes_kge.models.procrustes import Procrustes
from procrustes_kge.models.with_paths import WithPaths
from procrustes_kge.training.rotations import of_directions

PROBED_AT_ONCE = 256  # queries: TuckER makes a matrix for each
EXACT = 1e-3  # of a map's size: how far a model may be from the map that was read off it

Matrices = Float[Tensor, "*maps segments rows width"]  # one row more than columns: B, and b below it


@dataclass(frozen=True)
class RelationMaps:
    """The map of every direction, and how long the entities' segments are that they act on."""

    matrices: Float[Tensor, "directions segments rows width"]
    lengths: Float[Tensor, "segments rows"]  # root mean square of each number of (x, 1), alike within a segment

    @property
    def relations(self) -> int:
        """How many relations there are, each with two directions."""
        return len(self.matrices) // 2

    @cached_property
    def moves_only(self) -> bool:
        """Whether all that relations differ in are their translations, as in TransE."""
        linear = self.matrices[..., :-1, :]
        return len(linear) > 1 and bool((linear - linear[:1]).abs().max() <= 1e-6 * linear.abs().max())

    @cached_property
    def rotates_only(self) -> bool:
        """Whether every map keeps the length of every vector: then none leads to another level."""
        linear = self.matrices[..., :-1, :]
        eye = torch.eye(linear.shape[-1]).to(linear)
        return not self.matrices[..., -1, :].any() and bool(((linear @ linear.mT) - eye).abs().max() < EXACT)

    def units(self, matrices: Matrices) -> Float[Tensor, "*maps numbers"]:
        """Return maps as unit vectors, whose products are the cosines of maps.

        ⟨f, g⟩ = Σ_s E[f(x) · g(x)] for x without a preferred direction, as long as the entities' segments are. Where
        relations do nothing but translate, what all do to x is left out.
        """
        weighed = matrices * self.lengths[:, :, None]
        return normalize((weighed[..., -1:, :] if self.moves_only else weighed).flatten(-3), dim=-1)

    def alike(self) -> Float[Tensor, "directions directions"]:
        """Return the cosine of every two directions."""
        units = self.units(self.matrices)
        return units @ units.T

    def identity(self) -> Float[Tensor, " directions"]:
        """Return the cosine of every direction and the map that leaves everything where it is."""
        eye = torch.eye(*self.matrices.shape[-2:]).to(self.matrices).expand_as(self.matrices[:1])
        weighed = (each * self.lengths[:, :, None] for each in (self.matrices, eye))
        ours, theirs = (normalize(each.flatten(1), dim=1) for each in weighed)
        return (ours @ theirs.T).squeeze(1)

    def composed(self, first: Tensor, then: Tensor) -> Tensor:
        """Return the maps that do one thing, then the other: x ↦ (x B + b) B' + b', one or many on each side."""
        joined = first @ then[..., :-1, :]
        joined[..., -1, :] += then[..., -1, :]
        return joined

    def levels(self) -> Float[Tensor, " relations"]:
        """Return how far apart the answers for tails and for heads lie: 0 where both fill the same room, at most 1.

        Of the answers to all queries of a direction, the centre is a and the spread s, s² = E‖f(x) − a‖². What two
        such clouds are apart, ‖a − a'‖² + (s − s')², is a share of their size, ‖a‖² + s² + ‖a'‖² + s'².
        """
        weighed = self.matrices * self.lengths[:, :, None]
        spread = torch.linalg.vector_norm(weighed[..., :-1, :].flatten(1), dim=1)
        centre = weighed[..., -1, :].flatten(1)
        (spread, backwards), (centre, behind) = spread.chunk(2), centre.chunk(2)
        apart = (centre - behind).square().sum(dim=1) + (spread - backwards).square()
        size = centre.square().sum(dim=1) + behind.square().sum(dim=1) + spread.square() + backwards.square()
        return apart / size.clamp_min(torch.finfo(size.dtype).tiny)

    def only(self, relations: Int[Tensor, " some"]) -> RelationMaps:
        """Return the maps of these relations, in both directions."""
        return replace(self, matrices=self.matrices[torch.cat([relations, relations + self.relations])])


def relation_maps(model: Answering) -> RelationMaps:
    """Return the maps of a model's relations; refuse a model in which a relation is no map of this kind."""
    if isinstance(model, WithPaths):
        return relation_maps(model.embedding)
    if isinstance(model, Procrustes):
        return of_procrustes(model)
    if isinstance(model, TrainedBaseline):
        with torch.no_grad():
            return _of_baseline(model)
    raise InputError(f"{model!r} has no relations that can be read, expected a model that this package trained")


def of_procrustes(model: Procrustes) -> RelationMaps:
    """Return x ↦ c ∘ (x Q) + b of every direction."""
    matrices = of_directions(model.rotations, 2 * len(model.relations))
    if model.scales is not None:
        matrices = matrices * model.scales[..., None, :]
    moved = matrices.new_zeros(*matrices.shape[:2], 1, matrices.shape[-1])
    if model.translations is not None:
        moved = model.translations[..., None, :]
    return RelationMaps(torch.cat([matrices, moved], dim=-2).float(), _lengths(model.vectors))


def _lengths(vectors: Float[Tensor, "entities segments width"]) -> Float[Tensor, "segments rows"]:
    """Return √(E‖x_s‖² / width) for the numbers of a segment, and 1 for the one that translations are multiplied by."""
    _, segments, width = vectors.shape
    mean = vectors.float().square().mean(dim=(0, 2)).sqrt()
    return torch.cat([mean[:, None].expand(segments, width), mean.new_ones(segments, 1)], dim=1)


def _of_baseline(model: TrainedBaseline) -> RelationMaps:
    """Return the maps by which a baseline's own queries go, in the smallest blocks that they leave separate.

    They are read by asking: the query about a unit vector is a row of B, that about zero is b. What is read has to
    answer as the model does, for vectors that were not asked about.
    """
    encoded, dim = model.encode(), model.dim
    if isinstance(encoded, Encoded) and encoded.entities.shape[1] == dim:
        widths = chain((1, 2, 4), [getattr(model.options, "group", 0)], [dim])
        for width in dict.fromkeys(each for each in widths if each and dim % each == 0):
            for places in _layouts(dim, width):
                matrices = _probed(model, encoded, places)
                if matrices is not None and _answers_alike(model, encoded, places, matrices):
                    vectors = encoded.entities[:, places.flatten()].view(-1, *places.shape)
                    return RelationMaps(matrices, _lengths(vectors))
    raise InputError(
        f"{model.name}: what its relations do to a vector is no linear map, so none of their properties can be read "
        "off; expected Procrustes, or a model such as rotate, complex, distmult, transe or ote"
    )


def _layouts(dim: int, width: int) -> list[Int[Tensor, "blocks width"]]:
    """Return the places of the numbers of each block: neighbours, or one from each of as many parts of a vector."""
    places = torch.arange(dim)
    return [places.view(-1, width), places.view(width, -1).T] if 1 < width < dim else [places.view(-1, width)]


def _asked(
    model: TrainedBaseline, encoded: Encoded, vectors: Float[Tensor, "n d"]
) -> Float[Tensor, "directions n d"] | None:
    """Return the queries of every direction about vectors; None where those are no points beside the vectors."""
    directions, count = 2 * len(model.relations), len(vectors)
    asked = encoded._replace(entities=vectors.to(encoded.entities), biases=None)
    ids = torch.arange(directions * count)
    parts = [model.query(asked, some % count, some // count) for some in ids.split(PROBED_AT_ONCE)]
    points = torch.cat(parts)
    return points.view(directions, count, -1).float() if points.shape[1] == vectors.shape[1] else None


def _probed(
    model: TrainedBaseline, encoded: Encoded, places: Int[Tensor, "blocks width"]
) -> Float[Tensor, "directions blocks rows width"] | None:
    """Return the maps, block by block: a query about the first number of all blocks at once, the second …, and zero."""
    blocks, width = places.shape
    vectors = torch.zeros(width + 1, blocks * width)
    for number in range(width):
        vectors[number, places[:, number]] = 1
    points = _asked(model, encoded, vectors)
    if points is None:
        return None
    rows = torch.cat([points[:, :-1] - points[:, -1:], points[:, -1:]], dim=1)
    return rows[..., places.flatten()].unflatten(-1, (blocks, width)).transpose(1, 2).contiguous()


def _answers_alike(
    model: TrainedBaseline,
    encoded: Encoded,
    places: Int[Tensor, "blocks width"],
    matrices: Float[Tensor, "directions blocks rows width"],
) -> bool:
    """Say whether maps give the queries of the model about vectors that lie as entities do, and further out."""
    rows = encoded.entities[:: max(1, len(encoded.entities) // 4)][:4]
    vectors = torch.cat([rows, 3 * rows.flip(1)])
    points = _asked(model, encoded, vectors)
    if points is None:
        return False
    blocks = vectors[:, places.flatten()].view(-1, *places.shape).float()
    read = torch.einsum("nbw,dbwv->dnbv", blocks, matrices[..., :-1, :]) + matrices[:, None, :, -1]
    seen = points[..., places.flatten()].view_as(read)
    near: Bool[Tensor, ""] = (read - seen).abs().max() <= EXACT * seen.abs().max()
    return bool(near)
