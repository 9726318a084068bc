"""Which ops share a node."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgviz.graph import folding


@st.composite
def programs(draw):
    count = draw(st.integers(1, 40))
    scopes = [draw(st.sampled_from(["", "a", "a/b", "a/c", "d"])) for _ in range(count)]
    feeds = [
        sorted({draw(st.integers(0, i - 1)) for _ in range(draw(st.integers(0, 2)))} if i else [])
        for i in range(count)
    ]
    return scopes, feeds, draw(st.integers(1, 12))


def visible(found, shut=()):
    """The groups that are seen, each as the set of its ops, with all folds open but these."""
    for each in found:
        if isinstance(each, folding.Fold) and each.name not in shut:
            yield from visible(each.members, shut)
        else:
            yield frozenset(folding.leaves(each))


def names(found):
    for each in found:
        if isinstance(each, folding.Fold):
            yield each.name
            yield from names(each.members)


@settings(max_examples=200, deadline=None)
@given(programs(), st.randoms())
def test_no_group_feeds_itself_through_others_whatever_is_open(program, random):
    scopes, feeds, limit = program
    found = folding.tree(scopes, feeds, [True] * len(scopes), limit)
    shut = [name for name in names(found) if random.random() < 0.5]
    groups = set(visible(found, shut))
    assert sorted(i for group in groups for i in group) == list(range(len(scopes)))
    of = {i: group for group in groups for i in group}
    links = {(of[j], of[i]) for i, js in enumerate(feeds) for j in js if of[j] != of[i]}
    left = set(groups)
    while left:
        free = {g for g in left if not any(b == g and a in left for a, b in links)}
        assert free
        left -= free


@given(programs())
def test_every_fold_has_a_name_of_its_own(program):
    scopes, feeds, limit = program
    found = list(names(folding.tree(scopes, feeds, [True] * len(scopes), limit)))
    assert len(found) == len(set(found))


@pytest.mark.parametrize("limit", [2, 9])
def test_a_scope_that_is_split_twice_stays_split(limit):
    # Its parts met again under one number, and folding never ended: one program in 300,000.
    scopes = ["c", "", "c", "", "", "c", "", "c", ""]
    feeds = [[], [], [1], [0, 2], [], [1], [], [3, 4], []]
    found = folding.tree(scopes, feeds, [True] * 9, limit)
    assert sorted(i for each in found for i in folding.leaves(each)) == list(range(9))


def chained(scopes, limit=60, **how):
    feeds = [[i - 1] if i else [] for i in range(len(scopes))]
    return folding.tree(scopes, feeds, [True] * len(scopes), limit, **how)


def test_scopes_open_level_by_level():
    (net,) = found = chained(["net/a"] * 3 + ["net/b"] * 3)
    assert [each.label for each in net.members] == ["a", "b"]
    assert folding.opened(found, 1) == set()
    assert folding.opened(found, 3) == {"scope:net:0"}
    assert len(folding.opened(found, 6)) == 3


def test_a_scope_with_nothing_but_a_scope_in_it_is_one_fold():
    (found,) = chained(["net/a"] * 3)
    assert found.label == "net/a"
    assert found.members == (0, 1, 2)


def test_what_may_not_move_stays_alone():
    feeds = [[], [0], [1], [2]]
    found = folding.tree(["a"] * 4, feeds, [False, True, True, True], 60)
    assert found == (0, folding.Fold("scope:a:0", "a", (1, 2, 3)))


def test_loose_ops_fold_into_stretches_where_they_are_too_many():
    found = chained([""] * 20, limit=5)
    assert [list(folding.leaves(each)) for each in found] == [
        list(range(i, i + 4)) for i in range(0, 20, 4)
    ]
    assert folding.opened(found, 60) == set()


def test_ops_of_two_levels_never_share_a_fold():
    found = chained(["a"] * 4, levels=[0, 0, 1, 1])
    assert [each.members for each in found] == [(0, 1), (2, 3)]
