"""Laws of plots: names are there as text, none covers another, and what is missing is a gap."""

import math
import re

import pytest

pytest.importorskip("matplotlib", reason="pictures need the extra `plots`")

from procrustes_kge.figures.labels import box_of
from procrustes_kge.figures.plots import (
    Dots,
    Point,
    Series,
    dot_rows,
    frontier,
    lines,
    logarithmic,
    named_ends,
    noted,
    points,
    strips,
)
from procrustes_kge.figures.style import LOOKS, OURS, SMALL, panels, save_figures, styled


def texts_of(svg):
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg.read_text(encoding="utf-8"))


def overlaps(texts):
    boxes = [box_of(text) for text in texts]
    return [(i, j) for i, one in enumerate(boxes) for j, other in enumerate(boxes[:i]) if one.overlaps(other)]


@styled()
def ends(values):
    figure, (axis,) = panels("a title", height=3)
    every = [Series(f"line {number}", [1, 2, 3], ys, LOOKS[number % 8]) for number, ys in enumerate(values)]
    lines(axis, every)
    noted(figure, ["a note"])
    texts = named_ends(axis, every)
    figure.draw_without_rendering()
    return figure, texts


@pytest.mark.parametrize("count", [1, 4, 8])
def test_names_of_lines_that_end_together_do_not_overlap(count):
    figure, texts = ends([[0.1, 0.2, 0.3 + index / 1000] for index in range(count)])
    assert len(texts) == count
    assert overlaps(texts) == []
    right = figure.axes[0].get_window_extent().x1
    assert all(box_of(text).x0 > right and box_of(text).x1 <= figure.bbox.x1 for text in texts)


def test_a_missing_value_is_a_gap_and_a_line_without_values_has_no_name():
    figure, texts = ends([[0.1, None, 0.3], [None, None, None], [0.2, 0.3, None]])
    drawn = figure.axes[0].lines
    assert [math.isnan(y) for y in drawn[0].get_ydata()] == [False, True, False]
    assert {text.get_text() for text in texts} == {"line 0", "line 2"}


@styled()
def plane(marks):
    figure, (axis,) = panels("a title", height=4)
    every = [Point(f"point {index}", x, y, OURS, index == 0) for index, (x, y) in enumerate(marks)]
    axis.scatter([x for x, _ in marks], [y for _, y in marks], s=0)
    axis.margins(0.15)
    logarithmic(axis, "x", "s")
    texts = points(axis, every, frontier(axis, marks))
    figure.draw_without_rendering()
    return figure, texts


@pytest.mark.slow
def test_names_of_points_do_not_overlap():
    marks = [(10.0 ** (index % 5) * (1 + index / 20), 0.3 + index / 200) for index in range(20)]
    figure, texts = plane(marks)
    assert overlaps(texts) == []
    assert all(box_of(text).x1 <= figure.bbox.x1 for text in texts)


def test_the_frontier_has_the_points_that_none_is_faster_and_better_than():
    with styled():
        _, (axis,) = panels("")
        assert frontier(axis, [(3, 0.5), (1, 0.2), (2, 0.1), (2, 0.4), (9, 0.5)]) == [(1, 0.2), (2, 0.4), (3, 0.5)]
        assert frontier(axis, []) == []


def test_a_logarithmic_axis_has_plain_numbers():
    figure, _ = plane([(0.01, 1.0), (50000.0, 2.0)])
    shown = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert {"0.1 s", "1,000 s"} <= set(shown) or {"0.01 s", "10,000 s"} <= set(shown)
    assert not any("e" in each or "^" in each for each in shown)


def test_rows_and_strips_show_names_and_values(tmp_path):
    with styled():
        figure, axes = panels("rows", columns=2)
        dot_rows(axes[0], [Dots("first", [(0.5, OURS)], True), Dots("gap", [])], lambda value: f"<{value}>")
        strips(axes[1], [("a", [0.1, 0.2, 0.3], OURS), ("one", [0.4], OURS), ("none", [], OURS)], lambda v: f"{v:.2f}")
    svg, png = save_figures({"": figure}, tmp_path / "rows")
    assert {"first", "gap", "&lt;0.5&gt;", "0.20 ± 0.10", "0.40", "one", "none"} <= set(texts_of(svg))
    assert png.read_bytes().startswith(b"\x89PNG")


def test_the_same_figure_is_the_same_file(tmp_path):
    for place in ("one", "other"):
        save_figures({"": ends([[1, 2, 3], [3, 2, 1]])[0]}, tmp_path / place / "lines")
    for suffix in (".svg", ".png"):
        first, second = ((tmp_path / place / f"lines{suffix}").read_bytes() for place in ("one", "other"))
        assert first == second
    assert b"dc:date" not in first


def test_text_is_large_enough_to_be_read_at_half_size(tmp_path):
    (svg,) = save_figures({"": ends([[1, 2, 3]])[0]}, tmp_path / "a", (".svg",))
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", svg.read_text())] or [0.0]
    assert min(sizes) >= SMALL
    assert SMALL / 2 >= 5


def test_lines_differ_in_grey():
    kinds = [(look.marker, str(look.line)) for look in LOOKS]
    assert len({marker for marker, _ in kinds}) == len({line for _, line in kinds}) == len(LOOKS)


@pytest.mark.parametrize("name", ["a $b$ c_1 ^", "知识图谱", "رسم", "🎉", "<script>alert(1)</script>", "a\tb"])
def test_any_name_may_be_a_title(name, tmp_path):
    with styled():
        figure, _ = panels(name)
    svg, _ = save_figures({"": figure}, tmp_path / "any")
    assert "<script" not in svg.read_text(encoding="utf-8")
    assert texts_of(svg)


@pytest.mark.slow
def test_drawing_leaves_the_process_as_it_was():
    import matplotlib

    before = dict(matplotlib.rcParams)
    ends([[1, 2, 3]])
    assert dict(matplotlib.rcParams) == before
