"""Arms of a cloud of entities, and the clusters along them, named by their most typical entities.

Most entities lie in a round core. An arm is a direction in which far more entities lie far out than in others; on a
cloud without arms, such as noise, none is found. Along an arm, neighbours gather around places that are denser than
what surrounds them: its clusters.
"""

from __future__ import annotations

import math
import string
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

ROUNDS = 5  # of finding arms and then the core without them; two or three settle it
FAR = 3.37  # widths of the core: of a normal cloud one point in a hundred lies farther out
NARROW = math.cos(math.radians(20))  # of a direction, where it is compared with chance
WIDE = math.cos(math.radians(35))  # of an arm, which no other arm shares
TIMES = 3.0  # as many far entities as chance gives, for a direction to be an arm
CHANCE = 1e-3  # that noise gives an arm, anywhere
DIRECTIONS = 2000  # that are tried: the grid is finer than an arm is wide
MOST_ARMS = 12
MOST_CLUSTERS = 6  # of an arm
FEWEST = 5  # entities of a cluster
NEIGHBOURS = 15
CONTRAST = 1.5  # between two groups, against the less dense of them
TYPICAL = 8  # entities that a cluster is named by
ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Cluster:
    """Entities that lie together on an arm, by row; the most typical first in `typical`."""

    name: str  # A1: the largest cluster of the arm that reaches farthest
    arm: str
    rows: Int[Tensor, " m"]
    typical: tuple[int, ...]


def find_clusters(
    vectors: Float[Tensor, "n d"], points: Float[Tensor, "n 3"], degrees: Int[Tensor, " n"]
) -> tuple[Cluster, ...]:
    """Return the clusters along the arms of `points`, which are projections of `vectors`."""
    clusters = []
    for letter, arm in zip(_letters(), find_arms(points), strict=False):
        groups = modes(vectors[arm])
        kept = [arm[group] for group in groups[:MOST_CLUSTERS] if len(group) >= FEWEST]
        for place, rows in enumerate(kept, start=1):
            name = f"{letter}{place}" if len(kept) > 1 else letter
            clusters.append(Cluster(name, letter, rows, _typical(vectors[rows], degrees[rows], rows)))
    return tuple(clusters)


def _letters() -> list[str]:
    return list(string.ascii_uppercase[:MOST_ARMS])


def find_arms(points: Float[Tensor, "n 3"]) -> list[Int[Tensor, " _"]]:
    """Return the rows of each arm, that with most far entities first.

    Points are measured in widths of the core, along each component: of a cloud without arms, of whatever three widths,
    far points then lie in all directions alike. A cone of angle α holds the share (1 − cos α)/2 of them, and chance
    says how many more it may hold. The cone that holds most is an arm if it has three times its share and more than
    chance gives in any of the cones; it is taken away, and the next one looked for.
    """
    arms: list[Tensor] = []
    for _ in range(ROUNDS):
        core = torch.ones(len(points), dtype=torch.bool)
        for arm in arms:  # without them the core is seen as it is
            core[arm] = False
        before, arms = arms, _arms_around(points.double(), core)
        if list(map(len, arms)) == list(map(len, before)):
            break
    return sorted(arms, key=lambda arm: -len(arm))


def _arms_around(points: Float[Tensor, "n 3"], core: Bool[Tensor, " n"]) -> list[Int[Tensor, " _"]]:
    """Return the rows of the arms around a core."""
    scaled = _in_core_widths(points, core)
    radius = scaled.norm(dim=1)
    outer = torch.nonzero(radius > FAR).flatten()
    ways = scaled[outer] / radius[outer, None]
    grid = _sphere(DIRECTIONS)
    arms: list[Tensor] = []
    while len(outer) and len(arms) < MOST_ARMS:
        held = torch.stack([(part @ ways.T >= NARROW).sum(dim=1) for part in grid.split(100)]).flatten()
        axis = grid[held.argmax()]
        for _ in range(3):  # to the middle of what it holds
            axis = torch.nn.functional.normalize(ways[ways @ axis >= NARROW].sum(dim=0), dim=0)
        count, expected = int((ways @ axis >= NARROW).sum()), len(outer) * (1 - NARROW) / 2
        if count < TIMES * expected or _poisson_tail(count, expected) > CHANCE / DIRECTIONS:
            break
        taken = ways @ axis >= WIDE
        arms.append(outer[taken])
        outer, ways = outer[~taken], ways[~taken]
    return arms


def _in_core_widths(points: Float[Tensor, "n 3"], core: Bool[Tensor, " n"]) -> Float[Tensor, "n 3"]:
    """Return points from the middle of the core, in units of its width, w = 1.48 · median |x − median| by component.

    Medians do not move as long as most of what they are taken from is core.
    """
    middle = points[core].median(dim=0).values
    width = 1.4826 * (points[core] - middle).abs().median(dim=0).values
    standard = points[core].std(dim=0, correction=0)
    width = torch.where(width > 0, width, standard)  # half the points may lie in one place
    return (points - middle) / torch.where(width > 0, width, 1)


def _sphere(count: int) -> Float[Tensor, "count 3"]:
    """Return directions that are spread evenly: a spiral from pole to pole, in steps of the golden angle."""
    place = torch.arange(count, dtype=torch.float64) + 0.5
    height, angle = 1 - 2 * place / count, math.pi * (1 + math.sqrt(5)) * place
    width = (1 - height.square()).sqrt()
    return torch.stack([angle.cos() * width, angle.sin() * width, height], dim=1)


def _poisson_tail(count: int, expected: float) -> float:
    """Return how likely at least so many are, where so many are expected."""
    one = torch.tensor([float(count), expected], dtype=torch.float64)
    return float(torch.special.gammainc(one[0], one[1])) if count else 1.0


def modes(
    vectors: Float[Tensor, "n d"], neighbours: int = NEIGHBOURS, contrast: float = CONTRAST
) -> list[Int[Tensor, " _"]]:
    """Return groups of rows, the largest first: places denser than what lies between them.

    Where k neighbours of a row lie within the distance r, the density is the higher the smaller r is. From the densest
    row down, a row joins the group of its densest neighbour, or begins one; where it joins two groups, they become one
    unless r is `contrast` times as large between them as it is at the less dense of their peaks. Distances are between
    directions from the middle.
    """
    count = len(vectors)
    if count < 2:
        return [torch.arange(count)] if count else []
    # A fifth of them at most: else all would be neighbours of all.
    nearest, radii = _neighbourhoods(vectors, min(neighbours, max(3, count // 5), count - 1))
    order = radii.argsort(stable=True)
    rank = torch.empty(count, dtype=torch.int64)
    rank[order] = torch.arange(count)
    ranks, spans, peak = rank.tolist(), radii.tolist(), list(range(count))

    def top(row: int) -> int:
        while peak[row] != row:
            peak[row] = row = peak[peak[row]]
        return row

    for row in order.tolist():
        denser = sorted({top(each) for each in nearest[row] if ranks[each] < ranks[row]}, key=ranks.__getitem__)
        if denser:
            peak[row] = denser[0]
        for other in denser[1:]:
            if spans[row] <= contrast * spans[other]:
                peak[other] = top(row)
    tops = torch.tensor([top(row) for row in range(count)])
    groups = [torch.nonzero(tops == each).flatten() for each in tops.unique().tolist()]
    return sorted(groups, key=lambda group: -len(group))


def _neighbourhoods(vectors: Float[Tensor, "n d"], k: int) -> tuple[list[list[int]], Float[Tensor, " n"]]:
    """Return the k nearest rows of each, and the distance of the farthest of them."""
    units = torch.nn.functional.normalize(vectors - vectors.mean(dim=0), dim=1)
    near: list[list[int]] = []
    radii = []
    for start in range(0, len(units), ROWS_AT_ONCE):
        likeness = units[start : start + ROWS_AT_ONCE] @ units.T
        likeness[torch.arange(len(likeness)), torch.arange(start, start + len(likeness))] = -2  # not itself
        found = likeness.topk(k, dim=1)
        near += found.indices.tolist()
        radii.append((2 - 2 * found.values[:, -1]).clamp_min(1e-9).sqrt())
    return near, torch.cat(radii)


def _typical(vectors: Float[Tensor, "m d"], degrees: Int[Tensor, " m"], rows: Int[Tensor, " m"]) -> tuple[int, ...]:
    """Return the rows that stand for a cluster: of the half that is nearest to its middle, those of highest degree."""
    units = torch.nn.functional.normalize(vectors, dim=1)
    likeness = units @ units.mean(dim=0)
    central = likeness >= likeness.median()
    order = torch.where(central, degrees, -1).argsort(descending=True, stable=True)
    return tuple(rows[order[: min(TYPICAL, int(central.sum()))]].tolist())
