"""Where names go so that they cover neither each other nor what is drawn. Boxes are (left, bottom, right, top)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

Box = tuple[float, float, float, float]
ROUNDS = 5  # of placing names beside all others
GAP = 9.0  # pixels between a point and its name
AIR = 3.0  # pixels beside a name that stay free
WEIGHT, LIGHT = 2.0, 0.3  # how bad a covered pixel is, of a mark or name and of a line, beside a further place
FAR = 1.2  # heights of a name: one that is so far above or below its point needs a line to it


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


def placed(
    marks: Sequence[Sequence[float]],
    sizes: Sequence[tuple[float, float]],
    order: Sequence[int],
    half: float,
    lines: Sequence[Box],
    room: Box,
) -> list[tuple[float, float]]:
    """Return where names of these sizes go, as steps from their marks to their lower left corners.

    They are placed in an order, the important ones first, then each again beside all others, until nothing moves.
    """
    drawn = [(x - half, y - half, x + half, y + half) for x, y in marks]
    boxes, steps = dict[int, Box](), dict[int, tuple[float, float]]()
    for _ in range(ROUNDS):
        before = dict(steps)
        for index in order:
            others = [box for other, box in (*enumerate(drawn), *boxes.items()) if other != index]
            boxes[index], steps[index] = least_covering(marks[index], sizes[index], others, lines, room)
        if steps == before:
            break
    return [steps[index] for index in range(len(marks))]


def least_covering(
    mark: Sequence[float], size: tuple[float, float], others: Sequence[Box], lines: Sequence[Box], room: Box
) -> tuple[Box, tuple[float, float]]:
    """Return where a name of this size covers least around a mark, as a box, and as steps from the mark.

    Nearer places, and those to the right, are better than others that cover as little.
    """
    (x, y), (width, height), places = mark, size, []
    for far in (0.0, 0.6, 1.2, 1.9, 2.6, 3.4, 4.2):
        for up in (0.0,) if far == 0 else (far, -far):
            aside = (GAP, -GAP - width) if far < FAR else (GAP, -GAP - width, -width / 2, 3 * GAP, -3 * GAP - width)
            places += [(right, up * height - height / 2) for right in aside]
    costs = []
    for number, (right, up) in enumerate(places):
        box = x + right, y + up, x + right + width, y + up + height
        wider = box[0] - AIR, box[1], box[2] + AIR, box[3]
        cost = WEIGHT * sum(covered(wider, other) for other in others) + 1000 * outside(box, room) + number
        cost += LIGHT * sum(covered(box, line) for line in lines)
        costs.append((cost, number, box))
    _, number, box = min(costs)
    return box, places[number]


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
