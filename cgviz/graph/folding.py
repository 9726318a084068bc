"""Which ops share one node when a picture would be too large: layers first, then stretches.

Pure indices: `tree` is given each op's scope and what feeds it, and answers with folds within
folds. A fold never feeds itself through others, so what is drawn of it has no cycle, whichever
folds are open.

    tree     ops -> folds and single ops
    opened   which folds are open when about so many nodes may be shown
    leaves   the ops of a fold
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

Group = tuple[Hashable, ...]


@dataclass(frozen=True)
class Fold:
    """Ops that share a node while it is closed, and a frame while it is open."""

    name: str  # by which it is opened and closed
    label: str  # the scope as it is called within the one around it; "" for a stretch
    members: tuple[int | Fold, ...]


def tree(
    scopes: Sequence[str],
    feeds: Sequence[Sequence[int]],
    movable: Sequence[bool],
    limit: int,
    levels: Sequence[int] = (),
) -> tuple[int | Fold, ...]:
    """Put ops into folds: those of one scope together, and loose ops where they are too many.

    Args:
        scopes: Per op, in an order where everything comes after what it uses: its name scope.
        feeds: Per op: the indices of the ops that it uses.
        movable: Per op: whether it may join a fold at all; inputs and targets stay.
        limit: How many loose ops may be beside each other.
        levels: Per op: what it never shares a fold with another of.

    Returns:
        The folds and the ops that are in none.

    >>> tree(["", "a", "a"], [[], [0], [1]], [False, True, True], 9)
    (0, Fold(name='scope:a:0', label='a', members=(1, 2)))
    """
    paths = [tuple(s.split("/")) if s and m else () for s, m in zip(scopes, movable, strict=True)]
    return _Tree(paths, feeds, movable, limit, levels or [0] * len(paths)).folds(
        range(len(paths)), 0
    )


def opened(found: Sequence[int | Fold], limit: int) -> set[str]:
    """The folds that are open at first: scope by scope inwards, as long as they fit.

    >>> sorted(opened(tree(["a", "a/b", "a/b"], [[], [0], [1]], [True] * 3, 9), 9))
    ['scope:a/b:0', 'scope:a:0']
    """
    names: set[str] = set()
    total = len(found)
    level = [x for x in found if isinstance(x, Fold) and x.label]
    while level:  # all scopes of one depth, or none: layers open together
        total += sum(len(each.members) - 1 for each in level)
        if total > limit:
            break
        names.update(each.name for each in level)
        level = [x for each in level for x in each.members if isinstance(x, Fold) and x.label]
    return names


def leaves(found: int | Fold) -> Iterator[int]:
    """The ops of a fold, or the op itself."""
    if isinstance(found, int):
        yield found
        return
    for member in found.members:
        yield from leaves(member)


@dataclass(frozen=True)
class _Tree:
    paths: Sequence[tuple[str, ...]]
    feeds: Sequence[Sequence[int]]
    movable: Sequence[bool]
    limit: int
    levels: Sequence[int]
    seen: Counter[Group] = field(default_factory=Counter)  # how often a name was given

    def folds(self, own: Sequence[int], depth: int) -> tuple[int | Fold, ...]:
        """The folds among these ops, whose scopes agree up to `depth`."""
        index = {i: n for n, i in enumerate(own)}
        feeds = [[index[j] for j in self.feeds[i] if j in index] for i in own]
        found: list[Group] = []
        for n, i in enumerate(own):
            path = "/".join(self.paths[i][: depth + 1])
            inside = len(self.paths[i]) > depth
            found.append(("scope", path, self.levels[i]) if inside else ("op", n))
        found = _without_cycles(_single(found), feeds)
        if len(set(found)) > self.limit:
            found = _by_stretch(found, [self.movable[i] for i in own], self.limit)
            found = _without_cycles(_single(found), feeds)
        members: dict[Group, list[int]] = {}
        for group, i in zip(found, own, strict=True):
            members.setdefault(group, []).append(i)
        return tuple(
            inside[0] if len(inside) == 1 else self._fold(group, inside, depth)
            for group, inside in members.items()
        )

    def _fold(self, group: Group, own: list[int], depth: int) -> Fold:
        path = "/".join(self.paths[own[0]][: depth + (group[0] == "scope")])
        name = f"{group[0]}:{path}:{self.seen[group[0], path]}"
        self.seen[group[0], path] += 1
        if group[0] == "run":
            return Fold(name, "", tuple(own))
        label = self.paths[own[0]][depth]
        inner = self.folds(own, depth + 1)
        if len(inner) == 1 and isinstance(inner[0], Fold) and inner[0].label:
            return Fold(inner[0].name, f"{label}/{inner[0].label}", inner[0].members)
        return Fold(name, label, inner)


def _by_stretch(found: Sequence[Group], movable: Sequence[bool], limit: int) -> list[Group]:
    """Fold what has no scope into stretches of the execution order."""
    loose = [i for i, g in enumerate(found) if g[0] == "op" and movable[i]]
    spare = max(4, limit - (len(set(found)) - len(loose)))
    length = -(-len(loose) // spare)
    result = list(found)
    for n, i in enumerate(loose):
        result[i] = ("run", n // length)
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
    """Give the members of bad groups a run number that grows when the order leaves the group.

    It is added to the numbers they have. A new number alone could equal that of another part,
    and the two would be joined again, for ever.
    """
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
            result[i] = (*group, run)
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
