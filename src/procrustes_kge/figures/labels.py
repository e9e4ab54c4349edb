"""Where names go so that they cover neither each other nor what is drawn. Boxes are (left, bottom, right, top)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

Box = tuple[float, float, float, float]
GAP = 9.0  # pixels between a point and its name


def box_of(text: Text) -> Bbox:
    """Return the room that words take in a figure, in pixels, without a line that leads to them."""
    from matplotlib.text import Text

    return Text.get_window_extent(text)


def covered(one: Box, other: Box) -> float:
    """Return the area that two boxes share.

    >>> covered((0, 0, 2, 2), (1, 1, 3, 3)), covered((0, 0, 1, 1), (2, 2, 3, 3))
    (1, 0)
    """
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return max(wide, 0) * max(high, 0)


def outside(box: Box, room: Box) -> float:
    """Return by how much a box sticks out of a room.

    >>> outside((-1, 0, 1, 1), (0, 0, 5, 5))
    1
    """
    return sum(max(side, 0) for side in (room[0] - box[0], room[1] - box[1], box[2] - room[2], box[3] - room[3]))


def least_covering(
    point: Sequence[float], width: float, height: float, others: Sequence[Box], room: Box
) -> tuple[Box, tuple[float, float]]:
    """Return where a name of this size covers least around a point, as a box, and as steps from the point.

    Nearer places, and those to the right, are better than others that cover as little.
    """
    (x, y), places = point, []
    for far in (0.0, 0.6, 1.2, 1.9):
        for up in (0.0,) if far == 0 else (far, -far):
            for left in (GAP, -GAP - width, *((-width / 2,) if far >= 1.2 else ())):
                places.append((left, up * height - height / 2))
    best, cost = None, float("inf")
    for order, (right, up) in enumerate(places):
        box = (x + right, y + up, x + right + width, y + up + height)
        found = sum(covered(box, other) for other in others) + 1000 * outside(box, room) + 0.5 * order
        if found < cost:
            best, cost = (box, (right, up)), found
    assert best is not None
    return best


def spread(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Return places in order, as near as possible to those wanted, so that things of these heights do not overlap.

    Those that touch move together: a group lies where its members want to be on average, between `low` and `high` if
    there is room.

    >>> spread([10, 11, 50], [4, 4, 4], 0, 100), spread([1, 2], [4, 4], 0, 100)
    ([8.5, 12.5, 50.0], [2.0, 6.0])
    """
    groups: list[list[int]] = []
    for index in range(len(wanted)):
        groups.append([index])
        while len(groups) > 1 and _top(groups[-2], wanted, heights, low, high) > _bottom(
            groups[-1], wanted, heights, low, high
        ):
            groups[-2:] = [groups[-2] + groups[-1]]
    places = [0.0] * len(wanted)
    for group in groups:
        bottom = _bottom(group, wanted, heights, low, high)
        for index in group:
            places[index] = bottom + heights[index] / 2
            bottom += heights[index]
    return places


def _bottom(group: list[int], wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> float:
    whole, below, starts = sum(heights[index] for index in group), 0.0, list[float]()
    for index in group:
        starts.append(wanted[index] - heights[index] / 2 - below)
        below += heights[index]
    return max(low, min(sum(starts) / len(starts), high - whole))


def _top(group: list[int], wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> float:
    return _bottom(group, wanted, heights, low, high) + sum(heights[index] for index in group)
