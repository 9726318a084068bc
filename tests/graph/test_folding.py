"""Which ops share a node."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgviz.graph import folding


def tree(scopes, feeds, limit, at=None, **how):
    movable = how.pop("movable", [True] * len(scopes))
    return folding.tree(folding.Ops(scopes, feeds, movable, **how), limit, at)


@st.composite
def programs(draw):
    count = draw(st.integers(1, 40))
    scopes = [draw(st.sampled_from(["", "a", "a/b", "a/c", "d"])) for _ in range(count)]
    feeds = [
        sorted({draw(st.integers(0, i - 1)) for _ in range(draw(st.integers(0, 2)))} if i else [])
        for i in range(count)
    ]
    kinds = [draw(st.sampled_from(["sin", "mul", None])) for _ in range(count)]
    return scopes, feeds, kinds, draw(st.integers(1, 12))


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
    scopes, feeds, kinds, limit = program
    found = tree(scopes, feeds, limit, kinds=kinds)
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
    scopes, feeds, kinds, limit = program
    found = list(names(tree(scopes, feeds, limit, kinds=kinds)))
    assert len(found) == len(set(found))


@pytest.mark.parametrize("limit", [2, 9])
def test_a_scope_that_is_split_twice_stays_split(limit):
    # Its parts met again under one number, and folding never ended: one program in 300,000.
    scopes = ["c", "", "c", "", "", "c", "", "c", ""]
    feeds = [[], [], [1], [0, 2], [], [1], [], [3, 4], []]
    found = tree(scopes, feeds, limit)
    assert sorted(i for each in found for i in folding.leaves(each)) == list(range(9))


def chained(scopes, limit=60, **how):
    feeds = [[i - 1] if i else [] for i in range(len(scopes))]
    return tree(scopes, feeds, limit, **how)


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
    found = tree(["a"] * 4, feeds, 60, movable=[False, True, True, True])
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


# --- repeats -------------------------------------------------------------------------------------


def recurrent(count, scoped=True):
    """A weight, an input, and `count` steps of two ops that need the weight and the last step."""
    scopes, feeds, kinds = ["", ""], [[], []], [None, None]
    last = 0
    for i in range(count):
        scopes += [f"step_{i}" if scoped else ""] * 2
        feeds += [[last, 1], [len(feeds)]]
        kinds += ["mul", "tanh"]
        last = len(feeds) - 1
    return scopes, feeds, {"movable": [k is not None for k in kinds], "kinds": kinds}


def told(found):
    return [each.label if isinstance(each, folding.Fold) else each for each in found]


def test_of_steps_in_a_row_one_is_shown_between_all_before_and_all_behind_it():
    scopes, feeds, how = recurrent(20)
    found = tree(scopes, feeds, 10, **how)
    assert told(found) == [0, 1, "step_0…18", "step_19"]
    assert found[3].members == (40, 41)
    assert (found[3].at, found[3].repeats[1]) == (19, ("step_1", (4, 5)))
    middle = tree(scopes, feeds, 10, {found[3].name: 7}, **how)
    assert told(middle) == [0, 1, "step_0…6", "step_7", "step_8…19"]
    assert list(folding.leaves(middle[4])) == list(range(18, 42))
    assert told(tree(scopes, feeds, 10, {found[3].name: 0}, **how))[2:] == ["step_0", "step_1…19"]
    assert told(tree(scopes, feeds, 10, {found[3].name: 99}, **how)) == told(found)


def test_what_is_shown_of_repeats_opens_and_what_is_around_it_does_not():
    scopes, feeds, how = recurrent(20)
    found = tree(scopes, feeds, 10, {"repeat::0": 3}, **how)
    assert folding.opened(found, 10) == {"repeat::0"}


def test_repeats_without_a_scope_are_counted():
    scopes, feeds, how = recurrent(20, scoped=False)
    assert told(tree(scopes, feeds, 10, **how)) == [0, 1, "loop[0…18]", "loop[19]"]


def test_few_ops_show_all_repeats():
    scopes, feeds, how = recurrent(20)
    assert len(tree(scopes, feeds, 42, **how)) == 22


def test_layers_with_weights_of_their_own_are_not_repeats():
    scopes, feeds, how = recurrent(20)
    feeds = [[j for j in own if j != 1] for own in feeds]
    assert told(tree(scopes, feeds, 30, **how))[2:] == [f"step_{i}" for i in range(20)]


def test_branches_beside_each_other_are_not_repeats():
    scopes, feeds, how = recurrent(20)
    feeds = [[1] if k == "mul" else own for k, own in zip(how["kinds"], feeds, strict=True)]
    assert told(tree(scopes, feeds, 30, **how))[2:] == [f"step_{i}" for i in range(20)]


def test_a_step_of_another_structure_ends_a_row():
    scopes, feeds, how = recurrent(20)
    how["kinds"][12:14] = ["mul", "sin"]
    assert told(tree(scopes, feeds, 10, **how)) == [
        *(0, 1, "step_0…3", "step_4", "step_5", "step_6…18", "step_19"),
    ]
