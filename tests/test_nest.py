"""Frames within frames: what is inside is inside, and lines go all the way."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgviz.drawing import layout, nest
from cgviz.drawing.layout import Link


@st.composite
def programs(draw):
    """Boxes in a row of stretches, each a frame with another in it, so that no frame is a cycle."""
    count = draw(st.integers(3, 14))
    first = draw(st.integers(0, count - 2))
    last = draw(st.integers(first + 1, count - 1))
    middle = draw(st.integers(first, last))
    homes = [-1 if not first <= i <= last else 1 if i <= middle else 0 for i in range(count)]
    links = []
    for _ in range(draw(st.integers(1, 2 * count))):
        b = draw(st.integers(1, count - 1))
        links.append(
            Link(draw(st.integers(0, b - 1)), b, *draw(st.sampled_from([(0, 0, 0), (20, 30, 14)])))
        )
    return [(40.0, 20.0)] * count, links, homes


FRAMES = [nest.Frame(-1, (50.0, 20.0)), nest.Frame(0, (30.0, 20.0))]


def within(point, box, room=0.0):
    left, top, width, height = box
    return (
        left + room - 1e-6 <= point[0] <= left + width - room + 1e-6
        and top + room - 1e-6 <= point[1] <= top + height - room + 1e-6
    )


@settings(max_examples=150, deadline=None)
@given(programs(), st.sampled_from(["down", "right"]))
def test_boxes_stand_in_their_frames_and_nowhere_else(program, direction):
    sizes, links, homes = program
    placed = nest.Nest(sizes, links, direction, homes, FRAMES).placed()
    outer, inner = placed.frames
    for home, centre in zip(homes, placed.centres, strict=True):
        assert within(centre, outer, 5) == (home >= 0)
        assert within(centre, inner, 5) == (home == 1)
    assert within(inner[:2], outer)
    assert within((inner[0] + inner[2], inner[1] + inner[3]), outer)


@settings(max_examples=150, deadline=None)
@given(programs(), st.sampled_from(["down", "right"]))
def test_a_link_goes_from_its_source_to_its_target_without_a_gap(program, direction):
    sizes, links, homes = program
    placed = nest.Nest(sizes, links, direction, homes, FRAMES).placed()
    along = 1 if direction == "down" else 0
    for link, route in zip(links, placed.routes, strict=True):
        half = sizes[0][along] / 2
        assert route[0][along] == pytest.approx(placed.centres[link.source][along] + half, abs=0.01)
        assert route[-1][along] == pytest.approx(
            placed.centres[link.target][along] - half, abs=0.01
        )
        places = [point[along] for point in route]
        assert all(b >= a - 0.01 for a, b in pairwise(places))


@settings(max_examples=30, deadline=None)
@given(programs(), st.sampled_from(["down", "right"]))
def test_without_frames_it_is_the_plain_layout(program, direction):
    sizes, links, _ = program
    gaps = {"gap": 5.0, "rank_gap": 31.0, "storey": 7.0}
    floors = [i % 2 for i in range(len(sizes))]
    homes = [-1] * len(sizes)
    placed = nest.Nest(sizes, links, direction, homes, floors=floors, gaps=gaps).placed()
    assert placed == layout.place(sizes, links, direction, floors=floors, **gaps)


def test_lines_meet_where_they_cross_a_frame():
    links = [Link(0, 2), Link(1, 2), Link(1, 3)]
    placed = nest.Nest([(40.0, 20.0)] * 4, links, "down", [-1, -1, 0, 0], FRAMES[:1]).placed()
    top = placed.frames[0][1]
    for route in placed.routes:
        across = {round(x, 1) for x, y in route if abs(y - top) < 0.01}
        assert len(across) == 1


def test_no_line_crosses_the_title_of_a_frame():
    wide = [nest.Frame(-1, (300.0, 20.0))]
    placed = nest.Nest([(40.0, 20.0)] * 2, [Link(0, 1)], "down", [-1, 0], wide).placed()
    left, top, _, _ = placed.frames[0]
    assert all(x > left + 300 for x, y in placed.routes[0] if abs(y - top) < 15)


def test_a_box_that_is_a_frame_has_its_links_end_there():
    frames = [nest.Frame(-1, (30.0, 20.0), box=1)]
    doors = {(0, 1): 2, (1, 0): 4}  # boxes 2 and 4 are the ports, 3 is inside
    sizes = [(40.0, 20.0), (0.0, 0.0), (6.0, 6.0), (40.0, 20.0), (6.0, 6.0), (40.0, 20.0)]
    links = [Link(0, 1), Link(1, 5), Link(2, 3), Link(3, 4)]
    homes = [-1, -1, 0, 0, 0, -1]
    placed = nest.Nest(sizes, links, "down", homes, frames, doors, {2: -1, 4: 1}).placed()
    left, top, width, height = placed.frames[0]
    assert placed.centres[1] == pytest.approx((left + width / 2, top + height / 2))
    assert placed.routes[0][-1] == pytest.approx((placed.centres[2][0], top), abs=0.01)
    assert placed.routes[1][0] == pytest.approx((placed.centres[4][0], top + height), abs=0.01)


def test_a_line_without_a_door_ends_somewhere_on_the_side_of_its_frame():
    frames = [nest.Frame(-1, (30.0, 20.0), box=1)]
    links = [Link(0, 1)]
    placed = nest.Nest([(40.0, 20.0)] * 3, links, "down", [-1, -1, 0], frames).placed()
    left, top, width, _ = placed.frames[0]
    x, y = placed.routes[0][-1]
    assert left < x < left + width
    assert y == pytest.approx(top, abs=0.01)


def test_a_frame_stands_on_its_floor_with_all_that_is_in_it():
    frames = [nest.Frame(-1, (30.0, 20.0), floor=1)]
    links = [Link(0, 1), Link(1, 2)]
    floors = [0, 1, 1]
    placed = nest.Nest(
        [(40.0, 20.0)] * 3, links, "right", [-1, 0, 0], frames, floors=floors
    ).placed()
    _, top, _, height = placed.frames[0]
    (first, end), (low, high) = placed.storeys
    assert first < placed.centres[0][1] < end < low
    assert low - 0.01 <= top < top + height <= high + 0.01
    assert all(top < placed.centres[v][1] < top + height for v in (1, 2))
