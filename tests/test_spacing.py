"""How far to the side each item of a rank stands."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from layered import BOX, graphs, grid, spaced

from cgviz.drawing import spacing
from cgviz.drawing.layers import Link


def straight(sizes, links, **how):
    made, ports = spaced(sizes, links, **how)
    spacing.straighten(made, ports)
    return made, ports


def room(made):
    """Between each item and the next on its rank; beside a box there must be a whole gap."""
    for layer in made.layers:
        for a, b in pairwise(layer):
            slim = a >= made.nodes and b >= made.nodes
            between = (made.x[b] - made.left[b]) - (made.x[a] + made.right[a])
            yield between, made.gap / 2 if slim else made.gap


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_whatever_stands_side_by_side_is_clear_of_the_other(graph):
    for made, _ in (spaced(*graph), straight(*graph)):
        assert all(between >= least - 1e-6 for between, least in room(made))


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_lines_meet_a_side_in_the_order_in_which_they_come(graph):
    made, ports = straight(*graph)
    place = {item: i for layer in made.layers for i, item in enumerate(layer)}
    sides = {}
    for chain, (leaves, meets) in zip(made.chains, ports, strict=True):
        sides.setdefault((chain[0], 0), []).append((place[chain[1]], leaves))
        sides.setdefault((chain[-1], 1), []).append((place[chain[-2]], meets))
    for (box, _), lines in sides.items():
        came = [port for _, port in sorted(lines)]
        assert came == sorted(came)
        assert max(map(abs, came)) <= 0.38 * (made.left[box] + made.right[box]) + 1e-6


def test_two_lines_between_the_same_boxes_are_apart():
    for labelled in (0.0, 10.0):
        links = [Link(0, 1, 5, 5, labelled), Link(0, 1, 5, 5, labelled)]
        (leaves, meets), (others, other) = straight(2, links)[1]
        assert abs(leaves - others) >= 8
        assert abs(meets - other) >= 8


def test_a_line_on_the_trunk_keeps_the_middle_and_another_comes_in_beside_it():
    made = grid(5, [Link(a, b, along=9.0) for a, b in ((0, 1), (1, 3), (2, 3), (3, 4))])
    (_, trunk), (_, beside) = spacing.spread(made)[1:3]
    assert trunk == 0
    assert beside > 0


def test_a_line_between_boxes_that_are_not_quite_above_each_other_is_upright():
    made = grid(2, [Link(0, 1)])
    made.x, ports = [3.0, 13.0], [(0.0, 0.0)]
    spacing.straighten(made, ports)
    ((leaves, meets),) = ports
    assert 3.0 + leaves == 13.0 + meets


def test_a_line_that_is_held_leaves_where_it_is_held():
    made = grid(2, [Link(0, 1, start=-11.0), Link(0, 1, start=11.0)])
    ports = spacing.spread(made)
    assert [leaves for leaves, _ in ports] == [-11.0, 11.0]
    spacing.move_apart(made, ports)
    spacing.straighten(made, ports)
    assert [leaves for leaves, _ in ports] == [-11.0, 11.0]


def test_boxes_with_one_neighbour_stand_as_near_to_it_as_they_can():
    sizes = [(30.0, 20.0), (50.0, 20.0), (70.0, 20.0), BOX]
    made = grid(sizes, [Link(i, 3) for i in range(3)])
    spacing.move_apart(made, [(0.0, 0.0)] * 3)
    first, second, third, below = made.x[:4]
    assert (second - first, third - second) == pytest.approx((40 + 16, 60 + 16))
    # Of three that want to be at one place, the sum of squares is least about their mean.
    assert np.mean([first, second, third]) == pytest.approx(below)


def test_a_weight_beside_the_trunk_does_not_bend_it():
    # 0 -> 2 -> 4 -> 5 is the trunk; 1 and 3 hang beside it
    links = [Link(0, 2), Link(1, 2), Link(2, 4), Link(3, 4), Link(4, 5)]
    sizes = [(50, 20), (90, 20), (50, 20), (90, 20), (50, 20), (50, 20)]
    x = straight(sizes, links)[0].x
    assert np.ptp([x[v] for v in (2, 4, 5)]) < 15


def test_a_line_beside_many_boxes_is_straight():
    links = [Link(i, i + 1) for i in range(9)] + [Link(0, 9)]
    made, _ = straight([(60.0, 20.0)] * 10, links)
    assert np.ptp([made.x[item] for item in made.chains[-1][1:-1]]) < 1


def test_a_chain_of_boxes_is_upright_and_its_lines_are_too():
    made, ports = straight([(20.0, 9.0), (90.0, 9.0), BOX], [Link(0, 1), Link(1, 2)])
    assert np.ptp(made.x) == pytest.approx(0)
    assert np.allclose(ports, 0)


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_line_around_a_box_goes_by_the_side_on_which_it_stands(mirrored):
    made = grid(4, [Link(0, 1), Link(1, 2), Link(0, 2), Link(3, 2)])
    (around,) = made.chains[2][1:-1]
    rank = made.rank[around]
    made.layers[rank] = [around, 1, 3] if mirrored else [3, 1, around]
    ports = spacing.spread(made)
    spacing.move_apart(made, ports)
    spacing.straighten(made, ports)
    assert (made.x[around] < made.x[1]) == mirrored
    assert (ports[2][0] < ports[0][0]) == mirrored


@settings(max_examples=40, deadline=None)
@given(graphs(largest=12))
def test_floors_stand_side_by_side_with_the_room_asked_for(graph):
    sizes, links = graph
    made, _ = straight(sizes, links, floors=[i * 3 // len(sizes) for i in range(len(sizes))])
    found = spacing.stack(made, 40.0)
    floors = sorted({s for s in made.storey if s % 2 == 0})
    assert len(found) == len(floors)
    end = 0.0
    for (low, high), floor in zip(found, floors, strict=True):
        own = [i for i, s in enumerate(made.storey) if s == floor]
        assert low == pytest.approx(min(made.x[i] - made.left[i] for i in own))
        assert high == pytest.approx(max(made.x[i] + made.right[i] for i in own))
        assert low >= end + 40 - 1e-6
        end = high


def test_without_floors_nothing_is_stacked():
    made, _ = straight(2, [Link(0, 1)])
    before = list(made.x)
    assert spacing.stack(made, 40.0) == []
    assert made.x == before
