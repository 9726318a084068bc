"""The order within ranks: few links cross."""

from itertools import combinations, pairwise, permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layered import graphs, grid

from cgviz.drawing.crossings import fewer_crossings
from cgviz.drawing.layers import Link


def crossings(made, layers=None):
    """How many links cross, from rank to rank, counted pair by pair."""
    layers = layers or made.layers
    place = {item: i for layer in layers for i, item in enumerate(layer)}
    pieces = [piece for chain in made.chains for piece in pairwise(chain)]
    return sum(
        made.rank[a] == made.rank[c] and (place[a] - place[c]) * (place[b] - place[d]) < 0
        for (a, b), (c, d) in combinations(pieces, 2)
    )


def ordered(count, links, **how):
    made = grid(count, links, **how)
    fewer_crossings(made)
    return made


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_no_more_links_cross_than_before_and_nothing_leaves_its_rank(graph):
    made = grid(*graph)
    before, stood = crossings(made), [set(layer) for layer in made.layers]
    fewer_crossings(made)
    assert crossings(made) <= before
    assert [set(layer) for layer in made.layers] == stood
    assert [len(layer) for layer in made.layers] == [len(items) for items in stood]


def test_of_two_ranks_of_three_boxes_the_best_order_is_found_whatever_is_linked():
    pairs = list(product(range(3), range(3, 6)))
    for chosen in product([False, True], repeat=len(pairs)):
        made = ordered(6, [Link(*pair) for pair, taken in zip(pairs, chosen, strict=True) if taken])
        orders = product(*(list(permutations(layer)) for layer in made.layers))
        assert crossings(made) == min(crossings(made, order) for order in orders)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30))
def test_the_links_of_a_tree_do_not_cross(parents):
    links = [Link(parent % child, child) for child, parent in enumerate(parents, 1)]
    assert crossings(ordered(len(parents) + 1, links)) == 0


def test_where_all_are_linked_with_all_the_crossings_are_those_that_must_be():
    links = [Link(a, 4 + b) for a in range(4) for b in range(5)]
    assert crossings(ordered(9, links)) == 6 * 10  # each two above with each two below


def test_inputs_keep_their_order_where_nothing_speaks_against_it():
    assert ordered(3, [Link(0, 2), Link(1, 2)]).layers == [[0, 1], [2]]


def test_lines_held_at_a_wide_box_come_in_that_order():
    sizes = [(40.0, 20.0)] * 3 + [(200.0, 20.0)]
    links = [Link(0, 3, end=80.0), Link(1, 3, end=-80.0), Link(2, 3, end=0.0)]
    assert ordered(sizes, links).layers[0] == [1, 2, 0]


def test_floors_stay_apart_whatever_crosses():
    links = [Link(0, 3), Link(2, 1), Link(0, 1)]
    made = ordered(4, links, floors=[0, 0, 1, 1])
    assert made.layers == [[0, 2], [1, 3]]
    assert crossings(made) == 1


@pytest.mark.parametrize("count", [0, 1, 3])
def test_boxes_without_links_stay_in_their_order(count):
    assert ordered(count, []).layers == ([list(range(count))] if count else [])
