"""Which ops share a node."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cgviz.drawing import fold


@st.composite
def programs(draw):
    count = draw(st.integers(1, 40))
    scopes = [draw(st.sampled_from(["", "a", "a/b", "a/c", "d"])) for _ in range(count)]
    feeds = [
        sorted({draw(st.integers(0, i - 1)) for _ in range(draw(st.integers(0, 2)))} if i else [])
        for i in range(count)
    ]
    return scopes, feeds, draw(st.integers(1, 12))


@settings(max_examples=200, deadline=None)
@given(programs())
def test_no_group_feeds_itself_through_others(program):
    scopes, feeds, limit = program
    found = fold.groups(scopes, feeds, [True] * len(scopes), limit)
    links = {(found[j], found[i]) for i, js in enumerate(feeds) for j in js if found[j] != found[i]}
    left = set(found)
    while left:
        free = {g for g in left if not any(b == g and a in left for a, b in links)}
        assert free
        left -= free


def test_scopes_open_level_by_level():
    scopes = ["net/a"] * 3 + ["net/b"] * 3
    feeds = [[], [0], [1], [2], [3], [4]]
    assert set(fold.groups(scopes, feeds, [True] * 6, 1)) == {("scope", "net", 0)}
    assert set(fold.groups(scopes, feeds, [True] * 6, 3)) == {
        ("scope", "net/a", 0),
        ("scope", "net/b", 0),
    }
    assert len(set(fold.groups(scopes, feeds, [True] * 6, 6))) == 6


def test_what_may_not_move_stays_alone():
    found = fold.groups(["a"] * 4, [[], [0], [1], [2]], [False, True, True, True], 2)
    assert found[0] == ("op", 0)
    assert found[1] == found[2] == found[3]


def test_an_opened_scope_shows_the_scopes_in_it():
    scopes = ["a/b", "a/b", "a/c", "a/c", "d", "d"]
    feeds = [[], [0], [1], [2], [3], [4]]
    folded = [("scope", "a", 0)] * 4 + [("scope", "d", 0)] * 2
    once = fold.unfolded(folded, scopes, feeds, ["scope:a:0"])
    assert once == [("scope", "a/b", 0)] * 2 + [("scope", "a/c", 0)] * 2 + [("scope", "d", 0)] * 2
    twice = fold.unfolded(folded, scopes, feeds, ["scope:a:0", "scope:a/b:0"])
    assert twice[:2] == [("op", 0), ("op", 1)]
    assert fold.unfolded(folded, scopes, feeds, []) == folded


def test_an_opened_stretch_shows_its_ops():
    folded = [("op", 0), ("run", 0), ("run", 0)]
    opened = fold.unfolded(folded, ["", "", ""], [[], [0], [1]], ["run:0"])
    assert opened == [("op", 0), ("op", 1), ("op", 2)]
