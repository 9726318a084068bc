"""The lines from box to box: upright beside boxes, bent between ranks, and beside each other."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layered import graphs, recurrent, spaced

from cgviz.drawing.layers import Link
from cgviz.drawing.routes import beside, drawn


def route(sizes, links, direction="down", rank_gap=18.0, stem=8.0):
    made, ports = spaced(sizes, links)
    return drawn(made, ports, links, direction, rank_gap, stem)


# --- from ranks to points ----------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_right_is_down_with_its_axes_swapped(graph):
    sizes, links = graph
    down, right = route(sizes, links), route(sizes, links, "right")
    assert [point[::-1] for point in right.centres] == list(down.centres)
    assert [point[::-1] for point in right.labels] == list(down.labels)
    for there, here in zip(right.routes, down.routes, strict=True):
        assert [point[::-1] for point in there] == list(here)
    assert (right.height, right.width) == (down.width, down.height)


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_a_line_is_upright_at_both_ends_for_at_least_its_stem(graph):
    for corners in route(*graph).routes:
        for (x0, y0), (x1, y1) in (corners[:2], corners[-2:]):
            assert x0 == x1
            assert y1 - y0 >= 8.0 - 0.01


@given(st.floats(0, 60), st.floats(0, 60))
def test_ranks_are_as_far_apart_as_asked_or_as_two_stems_need(rank_gap, stem):
    placed = route(2, [Link(0, 1)], rank_gap=rank_gap, stem=stem)
    assert placed.centres[1][1] - placed.centres[0][1] == pytest.approx(
        20 + max(rank_gap, 2 * stem), abs=0.01
    )


def test_lines_that_go_far_to_the_side_get_more_room_to_do_so():
    heights = [
        route([(width, 20.0)] * 2 + [(40.0, 20.0)], [Link(0, 2), Link(1, 2)]).height
        for width in (10.0, 200.0, 300.0, 2000.0, 4000.0)
    ]
    assert heights[0] < heights[1] < heights[2] < heights[3] == heights[4]


def test_a_rank_is_as_high_as_its_highest_box_and_all_stand_in_its_middle():
    placed = route([(40.0, 20.0), (40.0, 90.0), (40.0, 20.0)], [Link(0, 2), Link(1, 2)])
    assert placed.centres[0][1] == placed.centres[1][1] == 45.0
    assert placed.routes[0][0][1] == 55.0  # it leaves its own box, not the rank
    assert placed.routes[1][0][1] == 90.0


def test_a_line_that_runs_back_still_goes_from_its_source_to_its_target():
    placed = route(2, [Link(0, 1, back=True)])
    (corners,) = placed.routes
    assert corners[0][1] == placed.centres[0][1] - 10
    assert corners[-1][1] == placed.centres[1][1] + 10


def test_a_label_stands_on_its_line_in_its_room():
    placed = route(2, [Link(0, 1, 30.0, 50.0, 14.0)])
    x, y = placed.labels[0]
    assert placed.routes[0][0][0] == x == 30.0
    assert placed.width == 80.0
    assert placed.centres[0][1] + 10 + 7 < y < placed.centres[1][1] - 10 - 7


def test_without_room_for_a_label_it_is_the_middle_of_the_line():
    placed = route(2, [Link(0, 1)])
    (x0, y0), (x1, y1) = placed.centres
    assert placed.labels == (((x0 + x1) / 2, (y0 + y1) / 2),)


def test_a_line_from_a_box_to_itself_is_left_out():
    placed = route(2, [Link(0, 0), Link(0, 1)])
    assert placed.routes[0] == ()
    assert len(placed.routes) == len(placed.labels) == 2


def test_lanes_run_outside_all_boxes_and_no_two_lines_share_a_stretch():
    count, links = recurrent(100)
    made, ports = spaced(count, links)
    placed = drawn(made, ports, links, "down", 18.0, 8.0)
    across = [x for x, _ in placed.centres]
    lanes = {}
    for i in made.lanes:
        (x, top), (same, bottom) = placed.routes[i][2:4]
        assert x == same
        assert not min(across) - 20 <= x <= max(across) + 20
        assert 0 <= x <= placed.width
        lanes.setdefault(x, []).append((top, bottom))
    assert len(lanes) > 1
    for stretches in lanes.values():
        assert all(end < start for (_, end), (start, _) in pairwise(sorted(stretches)))


def test_nothing_is_no_picture():
    placed = route(0, [])
    assert (placed.centres, placed.routes, placed.width, placed.height) == ((), (), 0, 0)


# --- the curve ---------------------------------------------------------------------------------


ways = st.lists(st.floats(-300, 300), min_size=1, max_size=5)


def corners(ways):
    """A route as `drawn` makes them: upright pieces, and bends between them."""
    x, y = 0.0, 0.0
    found = [(x, y), (x, y := y + 8)]
    for way in ways:
        bend = min(max(12.0, 0.2 * abs(way)), 40.0)  # the least room that `drawn` leaves
        found += [(x := x + way, y := y + bend), (x, y := y + 16)]
    return found


@settings(max_examples=200, deadline=None)
@given(ways)
def test_a_curve_goes_through_its_ends_and_never_turns_back(ways):
    line = beside(corners(ways), "down")
    assert line[0] == pytest.approx(corners(ways)[0])
    assert line[-1] == pytest.approx(corners(ways)[-1])
    assert (np.diff(line[:, 1]) >= -1e-9).all()


@settings(max_examples=200, deadline=None)
@given(ways, st.sampled_from([-3.4, 3.4]))
def test_a_curve_beside_another_keeps_its_distance_all_the_way(ways, distance):
    middle, line = (beside(corners(ways), "down", d) for d in (0.0, distance))
    a, b = middle[:-1], middle[1:]
    for point in line:
        part = ((point - a) * (b - a)).sum(1) / ((b - a) ** 2).sum(1)
        near = a + np.clip(part, 0, 1)[:, None] * (b - a)
        assert np.hypot(*(point - near).T).min() == pytest.approx(abs(distance), abs=0.15)


@given(ways)
def test_a_mirrored_route_has_a_mirrored_curve(ways):
    line = beside(corners(ways), "down", 3.0)
    mirrored = beside(corners([-way for way in ways]), "down", -3.0)
    assert np.allclose(mirrored, line * (-1, 1))


@given(ways)
def test_a_curve_to_the_right_is_one_that_runs_down_with_its_axes_swapped(ways):
    swapped = [(y, x) for x, y in corners(ways)]
    assert np.allclose(beside(swapped, "right", 3.0)[:, ::-1], beside(corners(ways), "down", 3.0))


def test_beside_is_to_the_right_of_what_runs_down_and_below_what_runs_right():
    assert np.allclose(beside([(0, 0), (0, 9)], "down", 3.0), [(3, 0), (3, 9)])
    assert np.allclose(beside([(0, 0), (9, 0)], "right", 3.0), [(0, 3), (9, 3)])


def test_a_corner_that_is_there_twice_makes_no_odds():
    once = [(0.0, 0.0), (0.0, 10.0), (60.0, 40.0), (60.0, 50.0)]
    twice = [point for point in once for _ in range(2)]
    assert np.allclose(beside(twice, "down", 3.0), beside(once, "down", 3.0))


def test_a_route_of_one_point_is_that_point():
    assert beside([(4.0, 2.0), (4.0, 2.0)], "down", 3.0).tolist() == [[4.0, 2.0]]


def test_bends_are_round():
    line = beside([(0.0, 0.0), (0.0, 10.0), (60.0, 40.0), (60.0, 50.0)], "down")
    turns = [np.arctan2(b[0], b[1]) for b in np.diff(line, axis=0)]
    assert max(abs(b - a) for a, b in pairwise(turns)) < 0.3
