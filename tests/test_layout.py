"""Where boxes and links go."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layered import graphs, recurrent

from cgviz.drawing import layout
from cgviz.drawing.layout import Link


def boxes(placed, sizes):
    return [
        (x - w / 2, y - h / 2, x + w / 2, y + h / 2)
        for (x, y), (w, h) in zip(placed.centres, sizes, strict=True)
    ]


def overlap(one, other):
    return (
        min(one[2], other[2]) - max(one[0], other[0]) > 1e-3
        and min(one[3], other[3]) - max(one[1], other[1]) > 1e-3
    )


def label_boxes(placed, links):
    found = []
    for (x, y), link in zip(placed.labels, links, strict=True):
        if link.along:
            if placed.direction == "down":
                half = link.along / 2
                found.append((x - link.before, y - half, x + link.after, y + half))
            else:
                half = link.along / 2
                found.append((x - half, y - link.before, x + half, y + link.after))
    return found


def enters(line, box):
    """Whether a polyline has a point well inside a box; the line is sampled closely."""
    steps = np.linspace(0, 1, 30)[:, None, None]
    points = (line[:-1] * (1 - steps) + line[1:] * steps).reshape(-1, 2)
    x0, y0, x1, y1 = box
    inside = (points > (x0 + 0.1, y0 + 0.1)) & (points < (x1 - 0.1, y1 - 0.1))
    return bool(inside.all(axis=1).any())


@settings(max_examples=40, deadline=None)
@given(graphs(), st.sampled_from(["down", "right"]))
def test_nothing_covers_anything(graph, direction):
    sizes, links = graph
    placed = layout.place(sizes, links, direction)
    stand = boxes(placed, sizes) + label_boxes(placed, links)
    for i, one in enumerate(stand):
        assert not any(overlap(one, other) for other in stand[:i])
        assert one[0] >= -0.01
        assert one[1] >= -0.01
        assert one[2] <= placed.width + 0.01
        assert one[3] <= placed.height + 0.01


@settings(max_examples=40, deadline=None)
@given(graphs(), st.sampled_from(["down", "right"]))
def test_no_link_passes_through_a_box(graph, direction):
    sizes, links = graph
    placed = layout.place(sizes, links, direction)
    stand = boxes(placed, sizes)
    for route in placed.routes:
        for distance in (-3.4, 0.0, 3.4):
            line = layout.beside(route, direction, distance)
            assert not any(enters(line, box) for box in stand)


@settings(max_examples=30, deadline=None)
@given(graphs(), st.sampled_from(["down", "right"]))
def test_each_link_leads_from_its_source_to_its_target(graph, direction):
    sizes, links = graph
    placed = layout.place(sizes, links, direction)
    stand = boxes(placed, sizes)
    along = 1 if direction == "down" else 0
    for link, route in zip(links, placed.routes, strict=True):
        assert route[0][along] == pytest.approx(stand[link.source][along + 2], abs=0.01)
        assert route[-1][along] == pytest.approx(stand[link.target][along], abs=0.01)
        ways = np.diff([p[along] for p in route])
        assert (ways >= -1e-6).all()


@settings(max_examples=20, deadline=None)
@given(graphs())
def test_the_same_call_gives_the_same_picture(graph):
    assert layout.place(*graph) == layout.place(*graph)


def test_a_cycle_and_a_loop_are_drawn_all_the_same():
    placed = layout.place([(40, 20)] * 3, [Link(0, 1), Link(1, 2), Link(2, 0), Link(1, 1)])
    assert len(placed.routes[2]) > 2
    assert placed.routes[3] == ()


@pytest.mark.parametrize("count", [0, 1, 5])
def test_boxes_without_links_stand_apart(count):
    placed = layout.place([(40, 20)] * count, [])
    assert len(set(placed.centres)) == count


def test_parts_that_do_not_hang_together_stand_side_by_side():
    placed = layout.place([(40, 20)] * 4, [Link(0, 1), Link(2, 3)])
    assert placed.centres[0][1] == placed.centres[2][1]
    assert abs(placed.centres[0][0] - placed.centres[2][0]) >= 40


def test_the_direction_must_be_known():
    with pytest.raises(ValueError, match="`direction`"):
        layout.place([(1, 1)], [], "up")


def test_a_link_to_nowhere_is_an_error():
    with pytest.raises(ValueError, match="`links`"):
        layout.place([(1, 1)], [Link(0, 1)])


def test_the_weights_of_a_long_recurrent_network_run_in_lanes():
    count, links = recurrent(100)
    sizes = [(40, 20)] * count
    placed = layout.place(sizes, links)
    stand = np.array(boxes(placed, sizes))
    for route in placed.routes[::17]:
        line = layout.beside(route, "down")
        assert not any(enters(line, box) for box in stand)


def test_two_thousand_boxes_take_no_time():
    count, links = recurrent(400)
    took = []
    for _ in range(3):
        start = time.process_time()
        layout.place([(40, 20)] * count, links)
        took.append(time.process_time() - start)
    assert min(took) < 0.9  # 0.3 s where nothing else runs: tests/benchmarks/bench_layout.py
