"""Who stands on which rank."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layered import graphs, grid, recurrent

from cgviz.drawing.layers import Link

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


@settings(max_examples=100, deadline=None)
@given(tangles)
def test_every_link_points_down_whatever_cycles_there_are(tangle):
    made = grid(*tangle)
    for link, (upper, lower) in zip(tangle[1], made.ends, strict=True):
        assert {upper, lower} == {link.source, link.target}
        assert made.rank[upper] < made.rank[lower] or upper == lower


@settings(max_examples=100, deadline=None)
@given(tangles)
def test_a_link_has_one_item_on_each_rank_that_it_passes(tangle):
    made = grid(*tangle)
    for chain, (upper, lower) in zip(made.chains, made.ends, strict=True):
        assert (chain[0], chain[-1]) == (upper, lower)
        assert all(made.rank[b] == made.rank[a] + 1 for a, b in pairwise(chain))
        assert all(b in made.below[a] and a in made.above[b] for a, b in pairwise(chain))
        assert all(item >= made.nodes for item in chain[1:-1])


@settings(max_examples=100, deadline=None)
@given(tangles)
def test_every_item_stands_once_on_its_rank(tangle):
    made = grid(*tangle)
    stand = [(item, r) for r, layer in enumerate(made.layers) for item in layer]
    assert sorted(stand) == list(enumerate(made.rank))


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_there_are_as_many_ranks_as_the_longest_way_has_boxes(graph):
    sizes, links = graph
    made = grid(sizes, links)
    ways, longest = np.eye(len(sizes), dtype=bool), 0
    steps = np.zeros((len(sizes), len(sizes)), dtype=bool)
    for link in links:
        steps[link.source, link.target] = True
    while ways.any():  # in a graph without cycles, so many steps lead nowhere
        ways, longest = ways @ steps, longest + 1
    ranks = {made.rank[v] for v in range(len(sizes))}
    assert len(ranks) == longest
    assert len(made.layers) == made.step * (longest - 1) + 1


@given(graphs())
def test_without_a_cycle_no_link_is_turned_round(graph):
    sizes, links = graph
    assert grid(sizes, links).ends == [(x.source, x.target) for x in links]


def test_of_a_cycle_one_link_is_turned_round():
    made = grid(3, [Link(0, 1), Link(1, 2), Link(2, 0)])
    assert made.ends == [(0, 1), (1, 2), (0, 2)]
    assert made.rank[:3] == [0, 1, 2]


def test_what_runs_back_stands_above_what_it_comes_from():
    made = grid(2, [Link(0, 1, back=True)])
    assert made.rank == [1, 0]


def test_a_weight_that_is_used_late_stands_just_above_its_user():
    made = grid(5, [Link(0, 1), Link(1, 2), Link(2, 3), Link(4, 3)])
    assert made.rank[4] == 2


def test_a_result_that_nobody_uses_stands_just_below_its_maker():
    made = grid(5, [Link(0, 1), Link(1, 2), Link(2, 3), Link(0, 4)])
    assert made.rank[4] == 1


def test_what_is_pinned_stands_before_or_behind_all_others():
    made = grid(4, [Link(0, 1), Link(1, 2), Link(0, 3)], pinned={3: 1, 0: -1})
    assert made.rank[0] == 0
    assert made.rank[3] == 3
    assert made.rank[1] < made.rank[2]


def test_a_label_has_a_rank_of_its_own_beside_the_end_of_its_link():
    links = [Link(0, 1), Link(1, 2), Link(0, 2, before=30.0, after=50.0, along=14.0)]
    made = grid(3, links)
    assert [made.rank[v] for v in range(3)] == [0, 2, 4]
    label = made.label_item[2]
    assert made.rank[label] == 3
    assert (made.left[label], made.right[label], made.height[label]) == (30.0, 50.0, 14.0)
    assert sum(made.height[made.nodes :]) == 14.0


def test_a_label_stands_at_the_target_of_its_link_also_where_that_is_above():
    ends = [Link(0, 3, along=14.0), Link(3, 0, along=14.0), Link(3, 0, along=14.0, back=True)]
    made = grid(4, [Link(0, 1), Link(1, 2), Link(2, 3), *ends])
    assert made.rank[3] == 6
    assert [made.rank[item] for item in made.label_item[3:]] == [5, 1, 1]


def test_where_a_link_is_held_stays_with_its_box_when_it_is_turned_round():
    made = grid(2, [Link(0, 1, start=-5.0, end=7.0), Link(1, 0, start=9.0)])
    assert made.held == [(-5.0, 7.0), (None, 9.0)]


def test_a_picture_that_anybody_reads_has_no_lanes():
    count, links = recurrent(20)
    assert not grid(count, links).lanes


@pytest.mark.parametrize("steps", [100, 300])
def test_the_weights_of_a_long_network_run_in_lanes_so_that_dummies_stay_few(steps):
    count, links = recurrent(steps)
    made = grid(count, links)
    assert made.lanes
    assert {links[i].source for i in made.lanes} <= {0, 1, 2, 3}
    assert len(made.rank) - count <= max(3000, 2 * count)


def test_what_runs_between_floors_stands_between_them():
    links = [Link(0, 1), Link(1, 2), Link(2, 3), Link(0, 3)]  # the last passes two ranks
    made = grid(4, links, floors=[0, 0, 1, 1])
    assert made.storey[:4] == [0, 0, 2, 2]
    assert {made.storey[item] for item in made.chains[3][1:-1]} == {1}
    assert made.by_storey([3, made.chains[3][1], 0]) == [0, made.chains[3][1], 3]


def test_without_floors_an_order_stays_as_it_is():
    assert grid(3, []).by_storey([2, 0, 1]) == [2, 0, 1]


def test_no_box_is_no_rank():
    made = grid(0, [])
    assert (made.rank, made.layers, made.chains) == ([], [], [])
