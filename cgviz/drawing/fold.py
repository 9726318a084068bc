"""Which ops share one node when a picture would be too large: layers first, then stretches.

Pure indices: `groups` is given each op's scope and what feeds it, and answers with one group per
op. A group never feeds itself through others, so what is drawn of it has no cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Sequence

Group = tuple[Hashable, ...]


def groups(
    scopes: Sequence[str], feeds: Sequence[Sequence[int]], movable: Sequence[bool], limit: int
) -> list[Group]:
    """Assign ops to groups so that about `limit` nodes are left.

    Args:
        scopes: Per op, in an order where everything comes after what it uses: its name scope.
        feeds: Per op: the indices of the ops that it uses.
        movable: Per op: whether it may join a group at all; inputs and targets stay.
        limit: How many nodes a picture may have.

    Returns:
        Per op its group: `("op", i)` alone, `("scope", path, run)`, or `("run", number)` for a
        stretch of ops without a scope.

    >>> groups(["", "a", "a/b", "a/b"], [[], [0], [1], [2]], [False, True, True, True], 3)
    [('op', 0), ('op', 1), ('scope', 'a/b', 0), ('scope', 'a/b', 0)]
    """
    paths = [tuple(s.split("/")) if s and m else () for s, m in zip(scopes, movable, strict=True)]
    opened = _opened(paths, limit)
    found: list[Group] = []
    for i, path in enumerate(paths):
        depth = 1
        while path[:depth] in opened and depth <= len(path):
            depth += 1
        found.append(("scope", "/".join(path[:depth]), 0) if depth <= len(path) else ("op", i))
    if len(set(found)) > limit:
        found = _by_stretch(found, movable, limit)
    return _without_cycles(_single(found), feeds)


def name(group: Group) -> str:
    """The name of a group, by which it can be opened.

    >>> name(("scope", "encoder/layer", 0))
    'scope:encoder/layer:0'
    """
    return ":".join(map(str, group))


def unfolded(
    found: Sequence[Group],
    scopes: Sequence[str],
    feeds: Sequence[Sequence[int]],
    opened: Collection[str],
) -> list[Group]:
    """The groups with some of them opened: a scope to the scopes in it, anything else to its ops.

    >>> unfolded([("scope", "a", 0)] * 2, ["a/b", "a"], [[], [0]], ["scope:a:0"])
    [('op', 0), ('op', 1)]
    """
    result = list(found)
    for _ in opened:  # an opened scope may hold another one
        if not any(g[0] != "op" and name(g) in opened for g in result):
            break
        for i, group in enumerate(result):
            if group[0] == "op" or name(group) not in opened:
                continue
            path = scopes[i].split("/")
            depth = str(group[1]).count("/") + 2
            inside = group[0] == "scope" and len(path) >= depth
            result[i] = ("scope", "/".join(path[:depth]), group[2]) if inside else ("op", i)
        result = _single(result)
    return _without_cycles(result, feeds) if opened else result


def _opened(paths: Sequence[tuple[str, ...]], limit: int) -> set[tuple[str, ...]]:
    """The scopes whose parts are shown: level by level, as long as they fit."""
    children: dict[tuple[str, ...], set[Hashable]] = {(): set()}
    for i, path in enumerate(paths):
        for depth in range(len(path)):
            children.setdefault(path[:depth], set()).add(path[: depth + 1])
        children.setdefault(path, set()).add(i)
    total = len(children[()])
    opened: set[tuple[str, ...]] = set()
    level = [p for p in children[()] if isinstance(p, tuple)]
    while level:  # all scopes of one depth, or none: layers open together
        total += sum(len(children[path]) - 1 for path in level)
        if total > limit:
            break
        opened.update(level)
        level = [p for path in level for p in children[path] if isinstance(p, tuple)]
    return opened


def _by_stretch(found: Sequence[Group], movable: Sequence[bool], limit: int) -> list[Group]:
    """Fold what has no scope into stretches of the execution order."""
    loose = [i for i, g in enumerate(found) if g[0] == "op" and movable[i]]
    room = max(4, limit - (len(set(found)) - len(loose)))
    length = -(-len(loose) // room)
    result = list(found)
    for place, i in enumerate(loose):
        result[i] = ("run", place // length)
    return result


def _single(found: Sequence[Group]) -> list[Group]:
    """A group of one is an op."""
    size = Counter(found)
    return [g if size[g] > 1 else ("op", i) for i, g in enumerate(found)]


def _without_cycles(found: Sequence[Group], feeds: Sequence[Sequence[int]]) -> list[Group]:
    """Split groups that feed themselves through others, where the execution order leaves them."""
    result = list(found)
    while True:
        bad = _in_cycles(result, feeds)
        if not bad:
            return _single(result)
        result = _split(result, bad, feeds)


def _split(found: Sequence[Group], bad: set[Group], feeds: Sequence[Sequence[int]]) -> list[Group]:
    """Give the members of bad groups a run number that grows when the order leaves the group."""
    result = list(found)
    run = 0
    previous: Group | None = None
    for i, group in enumerate(found):
        if not feeds[i] and group not in bad:
            continue  # inputs and variables are in nobody's way
        if group != previous:
            run += 1
            previous = group
        if group in bad:
            result[i] = (*group[:2], run) if group[0] == "scope" else ("run", group[1], run)
    return result


def _in_cycles(found: Sequence[Group], feeds: Sequence[Sequence[int]]) -> set[Group]:
    """The groups of several ops that lie on a cycle, or between two."""
    links = {(found[j], found[i]) for i, sources in enumerate(feeds) for j in sources}
    links = {(a, b) for a, b in links if a != b}
    left = _peeled(_peeled(set(found), links), {(b, a) for a, b in links})
    return {g for g in left if g[0] != "op"}


def _peeled(nodes: set[Group], links: set[tuple[Group, Group]]) -> set[Group]:
    """What is left when, again and again, all that nothing leads to is taken away."""
    successors: dict[Group, list[Group]] = {g: [] for g in nodes}
    waiting: Counter[Group] = Counter()
    for a, b in links:
        if a in nodes and b in nodes:
            successors[a].append(b)
            waiting[b] += 1
    ready = [g for g in nodes if not waiting[g]]
    left = set(nodes)
    while ready:
        group = ready.pop()
        left.discard(group)
        for target in successors[group]:
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return left
