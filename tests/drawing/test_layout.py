"""Where boxes, links, labels, frames and bands go."""

import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layered import BOX, LABELS, graphs, recurrent, with_levels

from cgviz.drawing import layout
from cgviz.drawing.layout import Box, Frame, Link

DIRECTIONS = st.sampled_from(["down", "right"])
FRAMES = [Frame((50.0, 20.0)), Frame((30.0, 20.0), parent=0)]


@st.composite
def framed(draw):
    """Boxes in a row of stretches, each a frame with another in it, so that no frame is a cycle."""
    count = draw(st.integers(3, 14))
    first = draw(st.integers(0, count - 2))
    last = draw(st.integers(first + 1, count - 1))
    middle = draw(st.integers(first, last))
    homes = [-1 if not first <= i <= last else 1 if i <= middle else 0 for i in range(count)]
    links = []
    for _ in range(draw(st.integers(1, 2 * count))):
        b = draw(st.integers(1, count - 1))
        links.append(Link(draw(st.integers(0, b - 1)), b, *draw(LABELS)))
    return [replace(BOX, frame=home) for home in homes], links, FRAMES


def plain(graph):
    return *graph, []


programs = graphs().map(plain) | with_levels().map(plain) | framed()


def edges(placed, boxes):
    """Left, top, right and bottom of each box."""
    return [
        (x - box.width / 2, y - box.height / 2, x + box.width / 2, y + box.height / 2)
        for (x, y), box in zip(placed.centres, boxes, strict=True)
    ]


def label_edges(placed, links, direction):
    found = []
    for (x, y), link in zip(placed.labels, links, strict=True):
        half = link.along / 2
        if link.along and direction == "down":
            found.append((x - link.before, y - half, x + link.after, y + half))
        elif link.along:
            found.append((x - half, y - link.before, x + half, y + link.after))
    return found


def overlap(one, other):
    return (
        min(one[2], other[2]) - max(one[0], other[0]) > 1e-3
        and min(one[3], other[3]) - max(one[1], other[1]) > 1e-3
    )


def enters(line, box):
    """Whether a polyline has a point well inside a box; the line is sampled closely."""
    steps = np.linspace(0, 1, 30)[:, None, None]
    points = (line[:-1] * (1 - steps) + line[1:] * steps).reshape(-1, 2)
    x0, y0, x1, y1 = box
    inside = (points > (x0 + 0.1, y0 + 0.1)) & (points < (x1 - 0.1, y1 - 0.1))
    return bool(inside.all(axis=1).any())


def within(point, frame, space=0.0):
    left, top, width, height = frame
    return (
        left + space - 1e-6 <= point[0] <= left + width - space + 1e-6
        and top + space - 1e-6 <= point[1] <= top + height - space + 1e-6
    )


# --- what must hold in every picture -------------------------------------------------------------


@settings(max_examples=60)
@given(programs, DIRECTIONS)
def test_boxes_and_labels_overlap_nothing_and_are_in_the_picture(program, direction):
    boxes, links, frames = program
    placed = layout.place(boxes, links, direction, frames)
    found = edges(placed, boxes) + label_edges(placed, links, direction)
    for i, one in enumerate(found):
        assert not any(overlap(one, other) for other in found[:i])
        assert one[0] >= -0.01
        assert one[1] >= -0.01
        assert one[2] <= placed.width + 0.01
        assert one[3] <= placed.height + 0.01


@settings(max_examples=60)
@given(programs, DIRECTIONS)
def test_no_link_passes_through_a_box(program, direction):
    boxes, links, frames = program
    placed = layout.place(boxes, links, direction, frames)
    found = edges(placed, boxes)
    for route in placed.routes:
        for distance in (-3.4, 0.0, 3.4):
            line = layout.beside(route, direction, distance)
            assert not any(enters(line, box) for box in found)


@settings(max_examples=60)
@given(programs, DIRECTIONS)
def test_a_link_leaves_on_the_output_side_and_arrives_on_the_input_side(program, direction):
    boxes, links, frames = program
    placed = layout.place(boxes, links, direction, frames)
    found = edges(placed, boxes)
    across, along = (0, 1) if direction == "down" else (1, 0)
    for link, route in zip(links, placed.routes, strict=True):
        upper, lower = (link.target, link.source) if link.back else (link.source, link.target)
        down = route[::-1] if link.back else route
        for box, end, side in ((upper, down[0], along + 2), (lower, down[-1], along)):
            assert end[along] == pytest.approx(found[box][side], abs=0.01)
            assert found[box][across] < end[across] < found[box][across + 2]
        assert all(b >= a - 0.01 for a, b in pairwise(point[along] for point in down))


@settings(max_examples=60)
@given(framed(), DIRECTIONS)
def test_a_frame_contains_its_members_and_nobody_else(program, direction):
    boxes, links, frames = program
    placed = layout.place(boxes, links, direction, frames)
    outer, inner = placed.frames
    for box, centre in zip(boxes, placed.centres, strict=True):
        assert within(centre, outer, 5) == (box.frame >= 0)
        assert within(centre, inner, 5) == (box.frame == 1)
    assert within(inner[:2], outer)
    assert within((inner[0] + inner[2], inner[1] + inner[3]), outer)


@settings(max_examples=60)
@given(with_levels(), DIRECTIONS)
def test_levels_are_apart_with_space_for_a_title(program, direction):
    boxes, links = program
    placed = layout.place(boxes, links, direction)
    levels = sorted({box.level for box in boxes})
    if len(levels) == 1:
        assert placed.bands == ()
        return
    across = 0 if direction == "down" else 1
    end = 0.0
    for level, (low, high) in zip(levels, placed.bands, strict=True):
        assert low >= end + layout.BAND - 0.01
        end = high
        for box, each in zip(boxes, edges(placed, boxes), strict=True):
            inside = low - 0.01 <= each[across] and each[across + 2] <= high + 0.01
            assert inside == (box.level == level)


@settings(max_examples=30)
@given(programs, DIRECTIONS)
def test_equal_arguments_give_an_equal_picture(program, direction):
    boxes, links, frames = program
    assert layout.place(boxes, links, direction, frames) == layout.place(
        list(boxes), list(links), direction, list(frames)
    )


@settings(max_examples=30)
@given(graphs())
def test_right_is_down_with_its_axes_swapped(graph):
    boxes, links = graph
    turned = [Box(box.height, box.width) for box in boxes]
    down, right = layout.place(turned, links), layout.place(boxes, links, "right")
    assert [point[::-1] for point in right.centres] == list(down.centres)
    assert [point[::-1] for point in right.labels] == list(down.labels)
    for there, here in zip(right.routes, down.routes, strict=True):
        assert [point[::-1] for point in there] == list(here)
    assert (right.height, right.width) == (down.width, down.height)


# --- boxes and links -----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 5])
def test_boxes_without_links_are_apart(count):
    placed = layout.place([BOX] * count, [])
    assert len(set(placed.centres)) == count


def test_parts_that_are_not_connected_are_side_by_side():
    placed = layout.place([BOX] * 4, [Link(0, 1), Link(2, 3)])
    assert placed.centres[0][1] == placed.centres[2][1]
    assert placed.centres[0][0] == placed.centres[1][0]
    assert placed.centres[2][0] == placed.centres[3][0] == placed.centres[0][0] + 40 + 14


def test_two_thousand_boxes_take_a_second():
    boxes, links = recurrent(400)

    def took():
        start = time.process_time()
        layout.place(boxes, links)
        return time.process_time() - start

    # 0.4 s where nothing else runs: tests/benchmarks/bench_layout.py
    assert any(took() < 2.0 for _ in range(3))


# --- frames --------------------------------------------------------------------------------------


def test_lines_meet_where_they_cross_a_frame():
    boxes = [BOX, BOX, replace(BOX, frame=0), replace(BOX, frame=0)]
    links = [Link(0, 2), Link(1, 2), Link(1, 3)]
    placed = layout.place(boxes, links, "down", FRAMES[:1])
    top = placed.frames[0][1]
    for route in placed.routes:
        for (x0, y0), (x1, y1) in pairwise(route):
            if y0 < top + 0.01 and y1 > top - 0.01:
                assert x0 == pytest.approx(x1, abs=0.1)


def test_no_line_crosses_the_title_of_a_frame():
    boxes = [BOX, replace(BOX, frame=0)]
    placed = layout.place(boxes, [Link(0, 1)], "down", [Frame((300.0, 20.0))])
    left, top, _, _ = placed.frames[0]
    line = layout.beside(placed.routes[0], "down")
    assert not enters(line, (left, top, left + 300, top + 20))


def test_a_link_from_outside_to_a_port_ends_at_the_side_of_the_frame():
    frames = [Frame((30.0, 20.0), box=1)]
    inside = replace(BOX, frame=0)  # boxes 2 and 4 are the ports, 3 is between them
    ports = [Box(6.0, 6.0, 0, pin) for pin in (-1, 1)]
    boxes = [BOX, Box(0.0, 0.0), ports[0], inside, ports[1], BOX]
    links = [Link(0, 2), Link(4, 5), Link(2, 3), Link(3, 4)]
    placed = layout.place(boxes, links, "down", frames)
    left, top, width, height = placed.frames[0]
    assert placed.centres[1] == pytest.approx((left + width / 2, top + height / 2))
    assert placed.routes[0][-1] == pytest.approx((placed.centres[2][0], top), abs=0.01)
    assert placed.routes[1][0] == pytest.approx((placed.centres[4][0], top + height), abs=0.01)


def test_a_frame_is_in_its_band_with_all_that_is_in_it():
    boxes = [BOX, Box(40, 20, frame=0, level=1), Box(40, 20, frame=0, level=1)]
    frames = [Frame((30.0, 20.0), level=1)]
    placed = layout.place(boxes, [Link(0, 1), Link(1, 2)], "right", frames)
    _, top, _, height = placed.frames[0]
    (first, end), (low, high) = placed.bands
    assert first < placed.centres[0][1] < end < low
    assert low - 0.01 <= top < top + height <= high + 0.01
    assert all(top < placed.centres[v][1] < top + height for v in (1, 2))
