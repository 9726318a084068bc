"""Which ops share one node when a picture would be too large: scopes, repeats, then stretches.

Pure indices: `tree` is given each op's scope and what feeds it, and answers with folds within
folds. A fold never feeds itself through others, so what is drawn of it has no cycle, whichever
folds are open. Of repeats in a row, as the steps of a recurrent network, one is shown at a time:
all before it are one fold, and all behind it another.

    tree      ops -> folds and single ops
    opened    which folds are open when about so many nodes may be shown
    leaves    the ops of a fold
    in_order  what feeds what -> an order in which everything comes after what it uses
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

Group = tuple[Hashable, ...]

LEAST = 4  # repeats of which one is shown: of three, the two beside it are all


@dataclass(frozen=True)
class Fold:
    """Ops that share a node while it is closed, and a frame while it is open."""

    name: str  # by which it is opened and closed; it begins with "rest" if it stays closed
    label: str  # the scope as it is called within the one around it; "" for a stretch
    members: tuple[int | Fold, ...]
    # Of one that is shown of several: what all of them are called, and the ops of each.
    repeats: tuple[tuple[str, tuple[int, ...]], ...] = ()
    at: int = 0  # which of them it is


Members = tuple[int | Fold, ...]


@dataclass(frozen=True)
class Ops:
    """What `tree` is told of each op, in an order where everything comes after what it uses."""

    scopes: Sequence[str]
    feeds: Sequence[Sequence[int]]  # the indices of the ops that it uses
    movable: Sequence[bool]  # whether it may join a fold at all; inputs and targets stay
    levels: Sequence[int] = ()  # what it never shares a fold with another of
    kinds: Sequence[Hashable] = ()  # equal for ops that do the same; None for what does not run


def tree(ops: Ops, limit: int, at: Mapping[str, int] | None = None) -> Members:
    """Put ops into folds: those of one scope together, and loose ops where they are too many.

    Args:
        ops: The ops.
        limit: How many members may be beside each other; no more ops than this show all repeats.
        at: By the name of a fold that repeats others: which of them is shown, from 0. By default
            it is the last.

    Returns:
        The folds and the ops that are in none.

    >>> tree(Ops(["", "a", "a"], [[], [0], [1]], [False, True, True]), 9)[1].members
    (1, 2)
    """
    return _Tree(ops, limit, at or {}).folds(range(len(ops.scopes)), ())


def opened(found: Members, limit: int) -> set[str]:
    """The folds that are open at first: scope by scope inwards, as long as they fit.

    >>> found = tree(Ops(["a", "a/b", "a/b"], [[], [0], [1]], [True] * 3), 9)
    >>> sorted(opened(found, 9))
    ['scope:a/b:0', 'scope:a:0']
    """
    names: set[str] = set()
    total, level = len(found), _scopes(found)
    while level:  # all scopes of one depth, or none: layers open together
        total += sum(len(each.members) - 1 for each in level)
        if total > limit:
            break
        names.update(each.name for each in level)
        level = [x for each in level for x in _scopes(each.members)]
    return names


def _scopes(found: Members) -> list[Fold]:
    return [x for x in found if isinstance(x, Fold) and x.name.startswith(("scope", "repeat"))]


def leaves(found: int | Fold) -> Iterator[int]:
    """The ops of a fold, or the op itself."""
    for member in [found] if isinstance(found, int) else found.members:
        yield from [member] if isinstance(member, int) else leaves(member)


def in_order(feeds: Sequence[Collection[int]]) -> list[int]:
    """Indices, each after what feeds it, else as they are; without those behind a cycle.

    >>> in_order([[2], [], [1]])
    [1, 2, 0]
    """
    users: list[list[int]] = [[] for _ in feeds]
    waiting = [len(sources) for sources in feeds]
    for i, sources in enumerate(feeds):
        for j in sources:
            users[j].append(i)
    ready = [i for i, count in enumerate(waiting) if not count]  # sorted, so it is a heap
    found = []
    while ready:
        found.append(heapq.heappop(ready))
        for user in users[found[-1]]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, user)
    return found


@dataclass(frozen=True)
class _Tree:
    ops: Ops
    limit: int
    at: Mapping[str, int]
    seen: Counter[str] = field(default_factory=Counter)  # how often a name was given

    def folds(self, own: Sequence[int], path: tuple[str, ...]) -> Members:
        """The folds among these ops, whose scopes begin with `path`."""
        index = {i: n for n, i in enumerate(own)}
        feeds = [[index[j] for j in self.ops.feeds[i] if j in index] for i in own]
        groups: list[Group] = []
        for n, i in enumerate(own):
            inner = self.ops.scopes[i].split("/")[: len(path) + 1] if self.ops.movable[i] else []
            level = self.ops.levels[i] if self.ops.levels else 0
            inside = len(inner) > len(path) and inner != [""]
            groups.append(("/".join(inner), level) if inside else (n,))
        groups = _without_cycles(groups, feeds)
        members: dict[Group, list[int]] = {}
        for group, i in zip(groups, own, strict=True):
            members.setdefault(group, []).append(i)
        _, between = _between(groups, feeds)
        found: list[int | Fold] = [
            inside[0] if len(inside) == 1 else self._fold(inside, len(path))
            for inside in members.values()
        ]
        ordered = [found[i] for i in in_order(between)]
        if self.ops.kinds and len(self.ops.scopes) > self.limit:
            ordered = self._repeats(ordered, path)
        return self._stretches(ordered, path)

    def _name(self, kind: str, path: Iterable[str]) -> str:
        name = f"{kind}:{'/'.join(path)}"
        self.seen[name] += 1
        return f"{name}:{self.seen[name] - 1}"

    def _fold(self, own: list[int], depth: int) -> Fold:
        path = tuple(self.ops.scopes[own[0]].split("/")[: depth + 1])
        name = self._name("scope", path)
        inner = self.folds(own, path)
        if len(inner) == 1 and isinstance(inner[0], Fold):
            return replace(inner[0], label=f"{path[-1]}/{inner[0].label}")
        return Fold(name, path[-1], inner)

    def _stretches(self, found: Sequence[int | Fold], path: tuple[str, ...]) -> Members:
        """Where there are too many members, neighbours in the order share a fold."""
        loose = [n for n, x in enumerate(found) if self.ops.movable[next(leaves(x))]]
        if len(found) <= self.limit:
            return tuple(found)
        length = -(-len(loose) // max(4, self.limit - (len(found) - len(loose))))
        parts = {loose[i]: loose[i : i + length] for i in range(0, len(loose), length)}
        fixed = set(range(len(found))) - set(loose)
        result: list[int | Fold] = []
        for n in sorted(fixed | parts.keys()):
            part = tuple(found[k] for k in parts.get(n, [n]))
            labels = [x.label for x in part if isinstance(x, Fold)]
            one = len(part) == 1
            result.append(part[0] if one else Fold(self._name("run", path), _span(labels), part))
        return tuple(result)

    # --- repeats ---

    def _repeats(self, found: list[int | Fold], path: tuple[str, ...]) -> list[int | Fold]:
        """Show one of repeats in a row, where each needs the one before and all need something."""
        starts = [x for x in found if self._kind(x) is None]
        runs = [x for x in found if self._kind(x) is not None]
        first, period, count = _longest_repeat([self._kind(x) for x in runs])
        blocks = [tuple(runs[first + k * period :][:period]) for k in range(count)]
        inside = [tuple(i for x in block for i in leaves(x)) for block in blocks]
        if count < LEAST or not self._recurrent(inside):
            return found
        name = self._name("repeat", path)
        own = path[-1] if path else "loop"
        labels = [
            next((x.label for x in block if isinstance(x, Fold)), f"{own}[{k}]")
            for k, block in enumerate(blocks)
        ]
        at = min(self.at.get(name, count), count - 1)
        one, *others = blocks[at]
        within = blocks[at] if others or isinstance(one, int) else one.members
        parts = [
            Fold(f"rest before {name}", _span(labels[:at]), tuple(chain(*blocks[:at]))),
            Fold(name, labels[at], within, tuple(zip(labels, inside, strict=True)), at),
            Fold(f"rest after {name}", _span(labels[at + 1 :]), tuple(chain(*blocks[at + 1 :]))),
        ]
        before, after = runs[:first], runs[first + count * period :]
        shown = [part for part in parts if part.members]
        return [*starts, *self._repeats(before, path), *shown, *self._repeats(after, path)]

    def _kind(self, found: int | Fold) -> Hashable:
        """Equal for members of equal structure: their names may differ in their numbers."""
        if isinstance(found, int):
            return self.ops.kinds[found]
        return re.sub(r"\d+", "#", found.label), *(self.ops.kinds[i] for i in leaves(found))

    def _recurrent(self, inside: Sequence[tuple[int, ...]]) -> bool:
        used = [{j for i in own for j in self.ops.feeds[i]} for own in inside]
        needs_last = all(
            own.intersection(last) for last, own in zip(inside, used[1:], strict=False)
        )
        return needs_last and bool(set.intersection(*used).difference(*inside))


def _span(labels: Sequence[str]) -> str:
    """What neighbours are called together.

    >>> _span(["step_0", "step_1", "step_2"]), _span(["stem", "head"]), _span([])
    ('step_0…2', 'stem … head', '')
    """
    if len(set(labels)) < 2:
        return "".join(labels[:1])
    first, last = labels[0], labels[-1]
    one, other = (re.fullmatch(r"(.*?)(\d+)(\D*)", each) for each in (first, last))
    if one and other and one[1] == other[1] and one[3] == other[3]:
        return f"{one[1]}{one[2]}…{other[2]}{one[3]}"
    return f"{first} … {last}"


def _longest_repeat(kinds: Sequence[Hashable]) -> tuple[int, int, int]:
    """Where the longest repetition begins, of how many members, and how often they are there.

    >>> _longest_repeat("xabababab")
    (1, 2, 4)
    """
    best = 0, 1, 1
    for period in range(1, len(kinds) // LEAST + 1):
        same = [a == b for a, b in zip(kinds, kinds[period:], strict=False)]
        start = 0
        for i, equal in enumerate([*same, False]):
            if not equal:
                count = (i - start) // period + 1
                if count >= LEAST and count * period > best[1] * best[2]:
                    best = start, period, count
                start = i + 1
    return best


# --- cycles --------------------------------------------------------------------------------------


def _between(
    found: Sequence[Group], feeds: Sequence[Sequence[int]]
) -> tuple[list[Group], list[set[int]]]:
    """The groups, and for each of them the indices of those that feed it."""
    index = {group: n for n, group in enumerate(dict.fromkeys(found))}
    between: list[set[int]] = [set() for _ in index]
    for group, sources in zip(found, feeds, strict=True):
        between[index[group]].update(index[found[j]] for j in sources if found[j] != group)
    return list(index), between


def _without_cycles(found: Sequence[Group], feeds: Sequence[Sequence[int]]) -> list[Group]:
    """Split groups that feed themselves through others, where the execution order leaves them."""
    result = list(found)
    while True:
        size = Counter(result)
        result = [group if size[group] > 1 else (i,) for i, group in enumerate(result)]
        groups, feeding = _between(result, feeds)
        fed: list[set[int]] = [set() for _ in groups]
        for i, sources in enumerate(feeding):
            for j in sources:
                fed[j].add(i)
        # On a cycle, or between two: there is no order from either end.
        bad = set(range(len(groups))) - set(in_order(feeding)) - set(in_order(fed))
        if not bad:
            return result
        result = _split(result, {groups[i] for i in bad if len(groups[i]) > 1}, feeds)


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
