"""Colours that are told apart on light and on dark ground: a hue for each arm, lighter and darker for its clusters."""

from __future__ import annotations

from collections.abc import Sequence

from procrustes_kge.explore.space.clusters import Cluster

Colour = tuple[int, int, int]

HUES: tuple[Colour, ...] = (
    (214, 96, 41),
    (38, 120, 178),
    (44, 150, 84),
    (200, 60, 110),
    (130, 98, 196),
    (160, 120, 30),
    (20, 155, 165),
    (150, 80, 50),
)
SHADES = (0.0, 0.4, -0.3, 0.65, -0.5, 0.2)  # towards white, or where negative towards black


def cluster_colours(clusters: Sequence[Cluster]) -> list[Colour]:
    """Return a colour for each cluster."""
    arms: dict[str, int] = {}
    colours = []
    for cluster in clusters:
        place = arms.get(cluster.arm, 0)
        arm = list(arms).index(cluster.arm) if place else len(arms)
        arms[cluster.arm] = place + 1
        colours.append(shaded(HUES[arm % len(HUES)], SHADES[place % len(SHADES)]))
    return colours


def shaded(colour: Colour, shade: float) -> Colour:
    """Return a colour moved towards white, or towards black where the shade is negative.

    >>> shaded((200, 100, 0), 0.5), shaded((200, 100, 0), -0.5)
    ((228, 178, 128), (100, 50, 0))
    """
    end = 255 if shade > 0 else 0
    red, green, blue = (round(part + (end - part) * abs(shade)) for part in colour)
    return red, green, blue
