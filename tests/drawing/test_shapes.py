"""Each kind of node has an outline of its own, which fills its space and which lines meet."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.path import Path

from cgviz.drawing import shapes
from cgviz.drawing.figure import outline

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
    near = 3.0 if kind == "scope" else 1.0  # the corners of its sheets are round
    for port in np.linspace(-0.38, 0.38, 41) * size[across]:  # where lines may meet a side
        met = first_met(polygons, across, along, port, side)
        inset = shapes.inset(kind, direction, *size, port, side)
        assert size[along] / 2 - inset == pytest.approx(met, abs=near), port


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


def test_a_line_has_no_more_points_than_it_needs():
    assert points(shapes.line([(0, 0), (1, 0), (2, 0), (3, 3), (4, 6)])) == [(0, 0), (2, 0), (4, 6)]
