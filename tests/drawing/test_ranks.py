"""Ranks of boxes, and an order within them in which few links cross."""

from dataclasses import replace
from itertools import combinations, pairwise, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layered import BOX, graphs, grid, recurrent

from cgviz.drawing import ranks
from cgviz.drawing.layout import Box, Link

tangles = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(
            st.builds(
                Link, st.integers(0, n - 1), st.integers(0, n - 1), along=st.sampled_from([0, 9])
            )
        ),
    )
)


def ends(made):
    return [(chain[0], chain[-1]) for chain in made.chains]


def crossings(made, layers=None):
    """How many links cross, from rank to rank, counted pair by pair."""
    layers = layers or made.layers
    place = {item: i for layer in layers for i, item in enumerate(layer)}
    pieces = [piece for chain in made.chains for piece in pairwise(chain)]
    return sum(
        made.rank[a] == made.rank[c] and (place[a] - place[c]) * (place[b] - place[d]) < 0
        for (a, b), (c, d) in combinations(pieces, 2)
    )


# --- ranks ---------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(tangles)
def test_every_link_points_down_whatever_cycles_there_are(tangle):
    made = grid(*tangle)
    for link, (upper, lower) in zip(tangle[1], ends(made), strict=True):
        assert {upper, lower} == {link.source, link.target}
        assert made.rank[upper] < made.rank[lower] or upper == lower


@settings(max_examples=100, deadline=None)
@given(tangles)
def test_a_link_has_one_item_on_each_rank_that_it_passes(tangle):
    made = grid(*tangle)
    for chain in made.chains:
        assert all(made.rank[b] == made.rank[a] + 1 for a, b in pairwise(chain))
        assert all(b in made.below[a] and a in made.above[b] for a, b in pairwise(chain))
        assert all(item >= made.boxes for item in chain[1:-1])


@settings(max_examples=100, deadline=None)
@given(tangles)
def test_every_item_is_once_on_its_rank(tangle):
    made = grid(*tangle)
    found = [(item, r) for r, layer in enumerate(made.layers) for item in layer]
    assert sorted(found) == list(enumerate(made.rank))
    assert all(made.place[v] == i for layer in made.layers for i, v in enumerate(layer))


@settings(max_examples=100, deadline=None)
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
    assert len({made.rank[v] for v in range(len(boxes))}) == longest
    assert len(made.layers) == (1 + made.labelled) * (longest - 1) + 1


@given(graphs())
def test_without_a_cycle_no_link_is_turned_round(graph):
    boxes, links = graph
    assert ends(grid(boxes, links)) == [(x.source, x.target) for x in links]


def test_of_a_cycle_one_link_is_turned_round():
    made = grid(3, [Link(0, 1), Link(1, 2), Link(2, 0)])
    assert ends(made) == [(0, 1), (1, 2), (0, 2)]
    assert made.rank[:3] == [0, 1, 2]


def test_what_runs_back_is_above_what_it_comes_from():
    made = grid(2, [Link(0, 1, back=True)])
    assert made.rank == [1, 0]


def test_a_weight_that_is_used_late_is_just_above_its_user():
    made = grid(5, [Link(0, 1), Link(1, 2), Link(2, 3), Link(4, 3)])
    assert made.rank[4] == 2


def test_a_result_that_nobody_uses_is_just_below_its_maker():
    made = grid(5, [Link(0, 1), Link(1, 2), Link(2, 3), Link(0, 4)])
    assert made.rank[4] == 1


def test_what_is_pinned_is_before_or_behind_all_others():
    boxes = [replace(BOX, pin=-1), BOX, BOX, replace(BOX, pin=1)]
    made = grid(boxes, [Link(0, 1), Link(1, 2), Link(0, 3)])
    assert made.rank[:4] == [0, 1, 2, 3]


def test_a_label_has_a_rank_of_its_own_beside_the_target_of_its_link():
    links = [Link(0, 1), Link(1, 2), Link(0, 2, before=30.0, after=50.0, along=14.0)]
    made = grid(3, links)
    assert [made.rank[v] for v in range(3)] == [0, 2, 4]
    label = made.label_item[2]
    assert made.rank[label] == 3
    assert (made.left[label], made.right[label], made.height[label]) == (30.0, 50.0, 14.0)
    assert sum(made.height[made.boxes :]) == 14.0


def test_a_label_is_at_the_target_of_its_link_also_where_that_is_above():
    last = [Link(0, 3, along=14.0), Link(3, 0, along=14.0), Link(3, 0, along=14.0, back=True)]
    made = grid(4, [Link(0, 1), Link(1, 2), Link(2, 3), *last])
    assert made.rank[3] == 6
    assert [made.rank[item] for item in made.label_item[3:]] == [5, 1, 1]


def test_where_a_link_is_held_stays_with_its_box_when_it_is_turned_round():
    made = grid(2, [Link(0, 1), Link(1, 0)], [(-5.0, 7.0), (9.0, None)])
    assert made.held == [(-5.0, 7.0), (None, 9.0)]


def test_the_longest_links_of_a_huge_picture_have_no_waypoints():
    boxes, links = recurrent(300)
    made = grid(boxes, links)
    assert len(made.rank) - len(boxes) <= ranks.MOST
    straight = [chain for chain in made.chains if made.rank[chain[-1]] - made.rank[chain[0]] > 1]
    assert {chain[0] for chain in straight if len(chain) == 2} == {0, 1, 2, 3}


def test_what_runs_between_levels_is_between_them():
    boxes = [BOX, BOX, replace(BOX, level=1), replace(BOX, level=1)]
    made = grid(boxes, [Link(0, 1), Link(1, 2), Link(2, 3), Link(0, 3)])
    assert {made.level[item] for item in made.chains[3][1:-1]} == {1}
    for layer in made.layers:
        levels = [made.level[item] for item in layer]
        assert levels == sorted(levels)


def test_no_box_is_no_rank():
    made = grid(0, [])
    assert (made.rank, made.layers, made.chains) == ([], [], [])


# --- order ---------------------------------------------------------------------------------------


def test_of_two_ranks_of_three_boxes_the_best_order_is_found_whatever_is_linked():
    pairs = list(product(range(3), range(3, 6)))
    for chosen in product([False, True], repeat=len(pairs)):
        made = grid(6, [Link(*pair) for pair, taken in zip(pairs, chosen, strict=True) if taken])
        orders = product(*(list(permutations(layer)) for layer in made.layers))
        assert crossings(made) == min(crossings(made, order) for order in orders)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30))
def test_the_links_of_a_tree_do_not_cross(parents):
    links = [Link(parent % child, child) for child, parent in enumerate(parents, 1)]
    assert crossings(grid(len(parents) + 1, links)) == 0


def test_where_all_are_linked_with_all_the_crossings_are_those_that_must_be():
    links = [Link(a, 4 + b) for a in range(4) for b in range(5)]
    assert crossings(grid(9, links)) == 6 * 10  # each two above with each two below


def test_inputs_keep_their_order_where_nothing_speaks_against_it():
    assert grid(3, [Link(0, 2), Link(1, 2)]).layers == [[0, 1], [2]]


def test_lines_held_at_a_wide_box_come_in_that_order():
    held = [(None, 80.0), (None, -80.0), (None, 0.0)]
    made = grid([BOX] * 3 + [Box(200.0, 20.0)], [Link(0, 3), Link(1, 3), Link(2, 3)], held)
    assert made.layers[0] == [1, 2, 0]


def test_levels_stay_apart_whatever_crosses():
    upper = replace(BOX, level=1)
    made = grid([BOX, BOX, upper, upper], [Link(0, 3), Link(2, 1), Link(0, 1)])
    assert made.layers == [[0, 2], [1, 3]]
    assert crossings(made) == 1


@pytest.mark.parametrize("count", [0, 1, 3])
def test_boxes_without_links_stay_in_their_order(count):
    assert grid(count, []).layers == ([list(range(count))] if count else [])
