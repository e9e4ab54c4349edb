"""One style for all plots: readable in grey and at half size, the same file every time, text that stays text.

matplotlib is imported here alone, when something is drawn: `procrustes-kge[plots]` brings it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from procrustes_kge.system.durable import put_file
from procrustes_kge.system.extras import package, require
from procrustes_kge.system.files import scratch_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Parameters = ParamSpec("Parameters")
Drawn = TypeVar("Drawn")
WIDTH = 8.0  # inches: a page is about 7, so a figure is read at 0.9 of its size or, in a column, at half
INK, QUIET, GRID, PAPER = "#1f2328", "#57606a", "#d8dee4", "#ffffff"
NAME, SMALL, BIG = 11.0, 10.0, 12.5  # points: at half size the smallest text has 5
SUFFIXES = (".svg", ".png")


@dataclass(frozen=True)
class Look:
    """How a series is drawn: any one of colour, marker and line tells it from the others."""

    colour: str
    marker: str
    line: Any = "-"
    hollow: bool = False

    @property
    def face(self) -> str:
        """The colour inside of a marker."""
        return PAPER if self.hollow else self.colour


# Colours that people with any colour vision tell apart, and of different brightness: dark, middle, light in turn.
LOOKS = (
    Look("#c2410c", "o", "-"),
    Look("#0b4f8a", "s", (0, (5, 2))),
    Look("#8f7a00", "^", (0, (1, 1.3))),
    Look("#1f2328", "D", (0, (4, 1.5, 1, 1.5))),
    Look("#3f9c78", "v", (0, (8, 2))),
    Look("#b1508f", "P", (0, (3, 1, 1, 1, 1, 1))),
    Look("#7fa8d1", "X", (0, (2, 2))),
    Look("#6b4a2b", "*", (0, (6, 1, 1, 1))),
)
OURS, OTHER = LOOKS[0], Look("#57606a", "s", (0, (2, 1.5)))
# The same look for the same thing in every figure.
KNOWN = {"accurate": LOOKS[0], "fast": LOOKS[1], "paper": LOOKS[2]}

_STYLE: dict[str, Any] = {
    "font.family": ["DejaVu Sans", "sans-serif"],  # comes with matplotlib; a reader without it has another
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": NAME,
    "axes.titlesize": NAME,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": SMALL,
    "axes.labelcolor": QUIET,
    "axes.edgecolor": QUIET,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.formatter.useoffset": False,
    "axes.unicode_minus": False,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "lines.linewidth": 1.8,
    "lines.markersize": 6.5,
    "lines.markeredgewidth": 1.5,
    "text.color": INK,
    "text.parse_math": False,  # a $ in a name is a $
    "figure.facecolor": PAPER,  # on dark pages too
    "savefig.facecolor": PAPER,
    "svg.fonttype": "none",  # text stays text: it can be searched, read aloud, and is small
    "svg.hashsalt": "procrustes-kge",
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in our style, whatever the user's own is; nothing of the process is changed afterwards."""
    matplotlib = package("matplotlib", "a figure")
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        # A name in a script that the font lacks: it is in the SVG all the same, and the reader's fonts have it.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        yield


def in_our_style(draw: Callable[Parameters, Drawn]) -> Callable[Parameters, Drawn]:
    """Let a function draw in our style."""

    @wraps(draw)
    def drawn(*arguments: Parameters.args, **named: Parameters.kwargs) -> Drawn:
        with styled():
            return draw(*arguments, **named)

    return drawn


def can_draw() -> None:
    """Refuse to draw where matplotlib is not installed, and say how to get it."""
    require("matplotlib", "a figure")


def panels(title: str, columns: int = 1, rows: int = 1, height: float = 3.6) -> tuple[Figure, list[Axes]]:
    """Return a figure with a title, and its panels, row by row; `height` is that of a row, in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(WIDTH, height * rows + 0.4), layout="constrained")
    FigureCanvasAgg(drawn)
    drawn.get_layout_engine().set(w_pad=0.12, h_pad=0.08)  # type: ignore[union-attr, call-arg]
    drawn.suptitle(title, x=0.01, ha="left", fontsize=SMALL, color=QUIET)
    return drawn, list(drawn.subplots(rows, columns, squeeze=False).flat)


def save_figures(figures: Mapping[str, Figure], stem: Path, suffixes: tuple[str, ...] = SUFFIXES) -> list[Path]:
    """Write figures, each as SVG and PNG, to the stem of a path with what is added to its name; whole or not at all."""
    written = []
    for more, drawn in figures.items():
        for suffix in suffixes:
            target = stem.with_name(f"{stem.name}{more}{suffix}")
            with scratch_folder(target) as scratch, styled():
                fresh = scratch / target.name
                # No date, no version: the same findings are the same file.
                nothing = {"Date": None, "Creator": None} if suffix == ".svg" else {"Software": None}
                drawn.savefig(fresh, dpi=160, metadata=nothing)
                target.parent.mkdir(parents=True, exist_ok=True)
                put_file(fresh, target)
            written.append(target)
    return written
