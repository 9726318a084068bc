"""Each kind of node has an outline of its own, which lines meet; texts are where they should be."""

import itertools
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.path import Path

from cgviz.drawing import shapes
from cgviz.drawing.shapes import extent, outline, outlined

KINDS = ["op", "input", "variable", "constant", "custom", "scope"]
SIZES = [(60.0, 30.0), (40.0, 26.0), (300.0, 40.0), (62.0, 220.0)]


def corners(kind, width, height):
    """The outlines around (0, 0) as polygons, their curves in small steps."""
    paths = map(outline, shapes.outlines(kind, 0.0, 0.0, width, height))
    found = [p.interpolated(1).to_polygons(closed_only=False) for p in paths]
    return [np.asarray(polygon) for polygons in found for polygon in polygons]


def first_met(polygons, across, along, at, side):
    """How far out, on one side, a line along an axis first meets one of the outlines."""
    met = []
    for polygon in polygons:
        for p, q in pairwise(polygon):
            low, high = sorted((p[across], q[across]))
            if low <= at <= high:
                part = (at - p[across]) / (q[across] - p[across]) if high > low else 0.0
                met.append(p[along] + part * (q[along] - p[along]))
    return max(side * m for m in met)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_an_outline_fills_its_space_and_no_more(kind, size):
    paths = map(outline, shapes.outlines(kind, 7.0, -3.0, *size))
    box = Path.make_compound_path(*paths).get_extents()
    x0, y0, x1, y1 = box.extents
    assert ((x0 + x1) / 2, (y0 + y1) / 2) == pytest.approx((7.0, -3.0), abs=0.1)
    assert (x1 - x0, y1 - y0) == pytest.approx(size, abs=0.1)


EVERY = [(kind, size) for kind in KINDS for size in SIZES]
EVERY += [("target", (shapes.TARGET,) * 2), ("port", (shapes.PORT,) * 2), ("open", (200.0, 150.0))]


@pytest.mark.parametrize(("kind", "size"), EVERY)
@pytest.mark.parametrize("direction", ["down", "right"])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_line_ends_where_it_meets_the_outline(kind, size, direction, side):
    across, along = (0, 1) if direction == "down" else (1, 0)
    polygons = corners(kind, *size)
    outlines = shapes.outlines(kind, 0.0, 0.0, *size)
    for port in np.linspace(-0.35, 0.35, 41) * size[across]:  # where lines may meet a side
        met = first_met(polygons, across, along, port, side)
        assert side * shapes.meets(outlines, across, port, side) == pytest.approx(met, abs=0.2)


def test_no_two_kinds_have_the_same_outline():
    drawn = {tuple(shapes.outlines(kind, 0, 0, 90, 40)) for kind in KINDS}
    assert len(drawn) == len(KINDS)


def points(d):
    return [tuple(map(float, pair)) for pair in outline(d).vertices]


def test_an_arrow_has_its_tip_at_the_last_point_and_its_line_ends_within_the_head():
    line, head = shapes.arrow([(0.0, 0.0), (50.0, 0.0), (50.0, 40.0)])
    tip, *_ = points(head)
    assert tip == (50.0, 40.0)
    assert points(line)[0] == (0.0, 0.0)
    x, y = points(line)[-1]
    assert x == 50.0
    assert 40 - shapes.HEAD <= y < 40


# --- letters -------------------------------------------------------------------------------------


def test_space_grows_with_the_size_the_letters_and_the_lines():
    width, height = extent("0.25", 10)
    assert extent("0.25", 20)[0] > 1.8 * width
    assert extent("0.2500", 10)[0] > width
    assert extent("0.25\n0.25", 10) == (width, 2 * height)


@pytest.mark.parametrize(
    "text", ["7", "−0.0008", "[[1, 0.5],\n [0.25, 1]]", "⊘ stop_gradient", "⚠ NaN"]
)
def test_letters_stay_within_their_box_and_their_space(text):
    path, (left, top, right, bottom) = outlined(text, 100, 50, 12)
    drawn = path.get_extents()
    assert left - 0.5 <= drawn.xmin <= drawn.xmax <= right + 0.5
    assert top - 0.5 <= drawn.ymin <= drawn.ymax <= bottom + 0.5
    width, height = extent(text, 12)
    assert right - left <= width
    assert bottom - top <= height


@pytest.mark.parametrize(
    ("anchor", "side"),
    list(itertools.product(("start", "middle", "end"), ("above", "around", "below"))),
)
def test_the_point_is_the_one_that_was_asked_for(anchor, side):
    _, (left, top, right, bottom) = outlined("two\nlines", 10, 20, 12, anchor, side)
    assert {"start": left, "middle": (left + right) / 2, "end": right}[anchor] == pytest.approx(10)
    assert {"below": top, "around": (top + bottom) / 2, "above": bottom}[side] == pytest.approx(20)


def test_y_grows_downwards_as_lines_do():
    one, two = (outlined(text, 0, 0, 12, side="below")[0].get_extents() for text in ("o", "o\no"))
    assert two.ymax > one.ymax
    assert two.ymin == pytest.approx(one.ymin)


def test_the_rows_of_a_matrix_start_below_each_other():
    path, box = outlined("[[1, 0.25],\n [2, 3]]", 0, 0, 12, "end")
    alone, _ = outlined("[[1, 0.25],", box[0], 0, 12, "start")
    assert path.get_extents().xmin == pytest.approx(alone.get_extents().xmin)


def test_bold_is_wider():
    plain, bold = (outlined("3", 0, 0, 12, bold=b)[1] for b in (False, True))
    assert bold[2] - bold[0] > plain[2] - plain[0]


def test_a_dollar_is_a_dollar():
    assert len(outlined(r"$\frac{$", 0, 0, 12)[0].vertices) > 8 * 4


@pytest.mark.filterwarnings("error")
def test_a_letter_that_the_font_has_not_is_measured_and_drawn_without_a_warning():
    assert extent("重み🚀", 12)[0] > extent("重", 12)[0]
    assert outlined("重み🚀", 0, 0, 12)[0].vertices.size
