"""Ranks and an order in which few links cross; the x of boxes; routes, bent between ranks."""

from dataclasses import replace
from itertools import combinations, pairwise, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layered import BOX, graphs, grid, recurrent

from cgviz.drawing import layers
from cgviz.drawing.layers import Box, Link, beside
from cgviz.drawing.layout import place


def crossings(made, order=None):
    """How many links cross, from rank to rank, counted pair by pair."""
    place = {item: i for layer in order or made.layers for i, item in enumerate(layer)}
    step = 2 if order else 1  # an order of the even ranks, or of all
    pieces = [piece for line in made.lines for piece in pairwise(line.items[::step])]
    return sum(
        a.rank == c.rank and (place[a] - place[c]) * (place[b] - place[d]) < 0
        for (a, b), (c, d) in combinations(pieces, 2)
    )


def ranks_of(made):
    return [box.rank for box in made.boxes]


def orders_of(made):
    """Which boxes are on each of their ranks, from left to right."""
    return [[made.boxes.index(x) for x in layer if x.is_box] for layer in made.layers[::2]]


# --- ranks ---------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(graphs())
def test_a_link_points_down_and_has_one_item_on_each_rank_that_it_passes(graph):
    made = grid(*graph)
    for link, line in zip(graph[1], made.lines, strict=True):
        upper, *between, lower = line.items
        assert (upper, lower) == (made.boxes[link.source], made.boxes[link.target])
        assert all(b.rank == a.rank + 1 for a, b in pairwise(line.items))
        assert not any(item.is_box for item in between)


@settings(max_examples=100)
@given(graphs())
def test_every_item_is_once_on_its_rank(graph):
    made = grid(*graph)
    found = [item for layer in made.layers for item in layer]
    every = {item for line in made.lines for item in line.items} | set(made.boxes)
    assert len(found) == len(every) == len(every.intersection(found))
    for r, layer in enumerate(made.layers):
        assert [(item.rank, item.at) for item in layer] == [(r, i) for i in range(len(layer))]


@pytest.mark.parametrize("direction", ["down", "right"])
def test_a_box_that_is_pinned_and_has_no_link_is_beyond_the_others(direction):
    """As an argument that the body of a custom op does not use."""
    placed = place([replace(BOX, pin=-1), BOX], [], direction)
    along = 1 if direction == "down" else 0
    first, other = (centre[along] for centre in placed.centres)
    assert other - first > (BOX.height if direction == "down" else BOX.width)


@settings(max_examples=100)
@given(graphs())
def test_there_are_as_many_ranks_as_the_longest_way_has_boxes(graph):
    boxes, links = graph
    made = grid(boxes, links)
    ways, longest = np.eye(len(boxes), dtype=bool), 0
    steps = np.zeros((len(boxes), len(boxes)), dtype=bool)
    for link in links:
        steps[link.source, link.target] = True
    while ways.any():  # in a graph without cycles, so many steps lead nowhere
        ways, longest = ways @ steps, longest + 1
    assert len(set(ranks_of(made))) == longest
    assert len(made.layers) == 2 * longest - 1


def test_what_runs_back_is_above_what_it_comes_from():
    made = grid(2, [Link(0, 1, back=True)])
    assert ranks_of(made) == [2, 0]


def test_a_weight_that_is_used_late_is_just_above_its_user():
    made = grid(5, [Link(0, 1), Link(1, 2), Link(2, 3), Link(4, 3)])
    assert made.boxes[4].rank == 4


def test_a_result_that_nobody_uses_is_just_below_its_maker():
    made = grid(5, [Link(0, 1), Link(1, 2), Link(2, 3), Link(0, 4)])
    assert made.boxes[4].rank == 2


def test_what_is_pinned_is_before_or_behind_all_others():
    boxes = [replace(BOX, pin=-1), BOX, BOX, replace(BOX, pin=1)]
    made = grid(boxes, [Link(0, 1), Link(1, 2), Link(0, 3)])
    assert ranks_of(made) == [0, 2, 4, 6]


def test_a_label_has_a_rank_of_its_own_beside_the_target_of_its_link():
    links = [Link(0, 1), Link(1, 2), Link(0, 2, before=30.0, after=50.0, along=14.0)]
    made = grid(3, links)
    assert ranks_of(made) == [0, 2, 4]
    label = made.lines[2].label
    assert label.rank == 3
    assert (label.left, label.right, label.height) == (30.0, 50.0, 14.0)
    assert sum(item.height for item in made.lines[2].items[1:-1]) == 14.0


def test_a_label_is_at_the_target_of_its_link_also_where_that_is_above():
    made = grid(4, [Link(0, 1), Link(1, 2), Link(2, 3), Link(0, 3), Link(3, 0, back=True)])
    assert made.boxes[3].rank == 6
    assert [line.label.rank for line in made.lines[3:]] == [5, 1]


def test_where_a_link_is_held_stays_with_its_box_when_it_runs_back():
    made = grid(2, [Link(0, 1, back=True, held=(-5.0, 7.0))])
    assert made.lines[0].link.held == (7.0, -5.0)


def test_the_longest_links_of_a_huge_picture_have_no_waypoints():
    boxes, links = recurrent(300)
    made = grid(boxes, links)
    assert sum(map(len, made.layers)) - len(boxes) - len(links) <= 3 * layers.MOST
    straight = [line.items for line in made.lines if line.items[1].rank > line.items[0].rank + 1]
    assert {items[0] for items in straight if len(items) == 3} == set(made.boxes[:4])


def test_what_runs_between_levels_is_between_them():
    boxes = [BOX, BOX, replace(BOX, level=1), replace(BOX, level=1)]
    made = grid(boxes, [Link(0, 1), Link(1, 2), Link(2, 3), Link(0, 3)])
    assert {item.level for item in made.lines[3].items[1:-1]} == {1}
    for layer in made.layers:
        levels = [item.level for item in layer]
        assert levels == sorted(levels)


def test_no_box_is_no_rank():
    made = grid(0, [])
    assert (made.boxes, made.layers, made.lines) == ([], [], [])


# --- order ---------------------------------------------------------------------------------------


def test_of_two_ranks_of_three_boxes_the_best_order_is_found_whatever_is_linked():
    pairs = list(product(range(3), range(3, 6)))
    for chosen in product([False, True], repeat=len(pairs)):
        made = grid(6, [Link(*pair) for pair, taken in zip(pairs, chosen, strict=True) if taken])
        orders = product(*(list(permutations(layer)) for layer in made.layers[::2]))
        assert crossings(made) == min(crossings(made, order) for order in orders)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30))
def test_the_links_of_a_tree_do_not_cross(parents):
    links = [Link(parent % child, child) for child, parent in enumerate(parents, 1)]
    assert crossings(grid(len(parents) + 1, links)) == 0


def test_where_all_are_linked_with_all_the_crossings_are_those_that_must_be():
    links = [Link(a, 4 + b) for a in range(4) for b in range(5)]
    assert crossings(grid(9, links)) == 6 * 10  # each two above with each two below


def test_inputs_keep_their_order_where_nothing_speaks_against_it():
    assert orders_of(grid(3, [Link(0, 2), Link(1, 2)])) == [[0, 1], [2]]


def test_lines_held_at_a_wide_box_come_in_that_order():
    links = [Link(i, 3, held=(None, at)) for i, at in enumerate((80.0, -80.0, 0.0))]
    made = grid([BOX] * 3 + [Box(200.0, 20.0)], links)
    assert orders_of(made)[0] == [1, 2, 0]


def test_levels_stay_apart_whatever_crosses():
    upper = replace(BOX, level=1)
    made = grid([BOX, BOX, upper, upper], [Link(0, 3), Link(2, 1), Link(0, 1)])
    assert orders_of(made) == [[0, 2], [1, 3]]
    assert crossings(made) == 1


@pytest.mark.parametrize("count", [0, 1, 3])
def test_boxes_without_links_stay_in_their_order(count):
    assert orders_of(grid(count, [])) == ([list(range(count))] if count else [])


def x_of(placed):
    return [x for x, _ in placed.centres]


def bends(route):
    return sum(abs(x0 - x1) > 0.5 for (x0, _), (x1, _) in pairwise(route))


# --- beside each other ---------------------------------------------------------------------------


@settings(max_examples=60)
@given(graphs())
def test_lines_at_one_side_of_a_box_are_apart_and_do_not_cross_there(graph):
    boxes, links = graph
    placed = place(boxes, links)
    sides = {}
    for link, route in zip(links, placed.routes, strict=True):
        sides.setdefault((link.source, "lower"), []).append(route)
        sides.setdefault((link.target, "upper"), []).append(route[::-1])
    for (box, _), routes in sides.items():
        ports = sorted(route[0][0] for route in routes)
        # 18 apart, or as far as the box is wide enough for
        least = min(18.0, 0.76 * boxes[box].width / max(len(ports) - 1, 1))
        assert all(b - a >= least - 0.01 for a, b in pairwise(ports))


def test_two_lines_between_the_same_boxes_are_apart():
    for label in (0.0, 10.0):
        routes = place([BOX] * 2, [Link(0, 1, 5, 5, label), Link(0, 1, 5, 5, label)]).routes
        for (one, _), (other, _) in zip(*routes, strict=False):
            assert abs(one - other) >= 8


def test_a_line_on_the_trunk_keeps_the_middle_and_another_comes_in_beside_it():
    links = [Link(a, b, along=9.0) for a, b in ((0, 1), (1, 3), (2, 3), (3, 4))]
    placed = place([BOX] * 5, links)
    assert placed.routes[1][-1][0] == pytest.approx(placed.centres[3][0], abs=3)
    assert placed.routes[2][-1][0] > placed.centres[3][0] + 8


def test_boxes_with_one_neighbour_are_as_near_to_it_as_they_can():
    boxes = [Box(30.0, 20.0), Box(50.0, 20.0), Box(70.0, 20.0), BOX]
    first, second, third, below = x_of(place(boxes, [Link(i, 3) for i in range(3)]))
    assert (second - first, third - second) == pytest.approx((40 + 14, 60 + 14))
    # Of three that want to be at one place, the sum of squares is least about their mean.
    assert np.mean([first, second, third]) == pytest.approx(below, abs=0.01)


def test_a_weight_beside_the_trunk_does_not_bend_it():
    # 0 -> 2 -> 4 -> 5 is the trunk; 1 and 3 lead to it
    links = [Link(0, 2), Link(1, 2), Link(2, 4), Link(3, 4), Link(4, 5)]
    boxes = [Box(width, 20) for width in (50, 90, 50, 90, 50, 50)]
    x = x_of(place(boxes, links))
    assert np.ptp([x[v] for v in (2, 4, 5)]) < 15


def test_a_line_beside_many_boxes_is_straight():
    links = [Link(i, i + 1) for i in range(9)] + [Link(0, 9)]
    assert bends(place([Box(60.0, 20.0)] * 10, links).routes[-1]) <= 2


def test_a_chain_of_boxes_is_upright_and_its_lines_are_too():
    placed = place([Box(20.0, 9.0), Box(90.0, 9.0), BOX], [Link(0, 1), Link(1, 2)])
    assert {x for route in placed.routes for x, _ in route} == set(x_of(placed)) == {45.0}


# --- from ranks to points ------------------------------------------------------------------------


@settings(max_examples=40)
@given(graphs())
def test_a_line_is_upright_at_both_ends_for_at_least_its_stem(graph):
    for corners in place(*graph).routes:
        for (x0, y0), (x1, y1) in (corners[:2], corners[-2:]):
            assert x0 == x1
            assert y1 - y0 >= 8.0 - 0.01


def test_lines_that_go_far_to_the_side_get_more_space_to_do_so():
    heights = [
        place([Box(width, 20.0)] * 2 + [BOX], [Link(0, 2), Link(1, 2)]).height
        for width in (10.0, 200.0, 300.0, 2000.0, 4000.0)
    ]
    assert heights[0] < heights[1] < heights[2] < heights[3] == heights[4]


def test_a_rank_is_as_high_as_its_highest_box_and_all_are_in_its_middle():
    placed = place([BOX, Box(40.0, 90.0), BOX], [Link(0, 2), Link(1, 2)])
    assert placed.centres[0][1] == placed.centres[1][1] == 45.0
    assert placed.routes[0][0][1] == 55.0  # it leaves its own box, not the rank
    assert placed.routes[1][0][1] == 90.0


def test_a_line_that_runs_back_still_goes_from_its_source_to_its_target():
    placed = place([BOX] * 2, [Link(0, 1, back=True)])
    (corners,) = placed.routes
    assert corners[0][1] == placed.centres[0][1] - 10
    assert corners[-1][1] == placed.centres[1][1] + 10


def test_a_label_is_on_its_line_in_its_space():
    placed = place([BOX] * 2, [Link(0, 1, 30.0, 50.0, 14.0)])
    x, y = placed.labels[0]
    assert placed.routes[0][0][0] == x == 30.0
    assert placed.width == 80.0
    assert placed.centres[0][1] + 10 + 7 < y < placed.centres[1][1] - 10 - 7


def test_without_space_for_a_label_it_is_the_middle_of_the_line():
    placed = place([BOX] * 2, [Link(0, 1)])
    (x0, y0), (x1, y1) = placed.centres
    assert placed.labels == (((x0 + x1) / 2, (y0 + y1) / 2),)


def test_a_route_has_no_corner_at_which_it_goes_straight_on():
    (route,) = place([BOX] * 2, [Link(0, 1, 5, 5, 9)]).routes
    assert len(route) == 2


def test_nothing_is_no_picture():
    placed = place([], [])
    assert (placed.centres, placed.routes, placed.width, placed.height) == ((), (), 0, 0)


# --- the curve ---------------------------------------------------------------------------------


ways = st.lists(st.floats(-300, 300), min_size=1, max_size=5)


def corners(ways):
    """A route as the layout makes them: upright pieces, and bends between them."""
    x, y = 0.0, 0.0
    found = [(x, y), (x, y := y + 8)]
    for way in ways:
        bend = min(max(12.0, 0.2 * abs(way)), 40.0)  # the least room that the layout leaves
        found += [(x := x + way, y := y + bend), (x, y := y + 16)]
    return found


@settings(max_examples=200)
@given(ways)
def test_a_curve_goes_through_its_ends_and_never_turns_back(ways):
    line = beside(corners(ways), "down")
    assert line[0] == pytest.approx(corners(ways)[0])
    assert line[-1] == pytest.approx(corners(ways)[-1])
    assert (np.diff(line[:, 1]) >= -1e-9).all()


@settings(max_examples=200)
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


@pytest.mark.parametrize("overlap", [10.0, 25.0, 100.0])
def test_two_links_that_cross_between_bands_do_not_bend_at_the_same_height(overlap):
    """Else nobody could tell which line goes on as which: the one is straight where they meet."""
    ways = [(0.0, 50.0), (300.0, 50.0 - overlap)]
    first, second = layers.held_back(ways, layers.CROSSING)
    assert first != second
