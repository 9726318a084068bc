"""Which ops of a trace are shown for a pass, in which order, and which of them share one node.

    prune     a trace and a pass -> a Pruned: the ancestors of its targets, without constants
    tree      a Pruned -> its ops, in folds within folds
    opened    folds, and about how many nodes may be shown -> which folds are open
    in_order  which item feeds which -> an order in which each comes after all that it uses

Ops of a scope that run next to each other share a node, then repeats, then stretches of the
execution order. A fold never feeds itself through others, so the drawn graph has no cycle,
whichever folds are open. Of repeats in a row, such as the steps of a recurrent network, one is
shown at a time: all before it share one fold, and all after it another.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import TopologicalSorter
from itertools import chain
from typing import TypeVar

from . import names
from .model import Op, Pass, Value
from .trace import Trace, walk

LEAST = 4  # fewest repeats of which only one is shown: of three, that would hide just two

T = TypeVar("T")


@dataclass
class Pruned:
    """The ops of a pass that matter, and their levels of differentiation."""

    trace: Trace
    ops: list[Op]
    pass_: Pass
    levels: dict[Op, int]  # 0: forward pass; n: an op that backward pass n-1 ran
    below: list[Pass]  # the passes whose own ops are among `ops`
    asked: set[int]  # keys of sources
    alias: dict[int, Value] = field(default_factory=dict)
    hidden: set[Op] = field(default_factory=set)

    def value(self, value: Value) -> Value:
        """The value behind any identities that are not drawn."""
        while value.key in self.alias:
            value = self.alias[value.key]
        return value

    def maker(self, value: Value) -> Op | None:
        """The op that made a value, past identities; None for one of an unrelated pass."""
        made = self.trace.maker(self.value(value))
        return made if made in self.levels else None

    def feeds(self, op: Op) -> list[Op]:
        """The ops whose values an op uses, past identities."""
        return [made for v in op.inputs + op.captured if (made := self.maker(v))]

    def owners(self, groups: Mapping[Op, str]) -> dict[Op, str]:
        """Each op that only one group uses, and that group: a variable belongs to its layer."""
        users: dict[Op, set[str]] = {}
        for op, group in groups.items():
            for source in self.feeds(op):
                users.setdefault(source, set()).add(group)
        return {op: found.pop() for op, found in users.items() if len(found) == 1}

    def feeding(self) -> dict[Op, set[Op]]:
        """Each op of `ops`, and those of `ops` that feed it."""
        own = set(self.ops)
        return {op: own.intersection(self.feeds(op)) for op in self.ops}


NO_PASS = Pass(-1, (), (), (), (), (), (), {})  # of a trace that has forward ops alone


def prune(trace: Trace, which: int | None, full: bool) -> Pruned:
    """Choose the ops of a pass; for a second-order pass, also those that the first one ran.

    Forward ops come first, each pass in execution order, but no op before one that it uses: a
    gradient penalty runs forward ops after a backward pass. With `which=None`, a trace without a
    pass has its forward ops chosen.
    """
    pass_ = trace.pass_(which) if trace.passes or which is not None else NO_PASS
    over = {*pass_.targets, *(v for step in pass_.steps for v in step.op.outputs)}
    below = [  # without unrelated passes, such as another call on a persistent tape
        earlier
        for earlier in trace.passes[: pass_.index]
        if not over.isdisjoint(v for op in earlier.ops for v in op.outputs)
    ]
    levels = dict.fromkeys(trace.ops, 0)
    levels.update((op, each.index + 1) for each in below for op in each.ops)
    pruned = Pruned(trace, list(levels), pass_, levels, below, {v.key for v in pass_.sources})
    if not full:
        _hide_constants(pruned)
        wanted = _ancestors(pruned) - pruned.hidden
        pruned.ops = [
            op
            for op in levels
            if op in wanted and not any(v.key in pruned.alias for v in op.outputs)
        ]
    pruned.ops = in_order(pruned.feeding())
    return pruned


def _hide_constants(pruned: Pruned) -> None:
    """Hide constants and all that is computed from constants alone, and look past identities."""
    for op in pruned.ops:
        if any(v.key in pruned.asked for v in op.outputs) or op.kind in ("input", "variable"):
            continue
        makers = [pruned.maker(v) for v in op.inputs]
        if (
            op.kind == "constant"
            or op.type in names.SHAPE_HELPERS
            or (pruned.hidden.issuperset(makers) and op.kind == "op")
        ):
            pruned.hidden.add(op)
        elif op.kind == "op" and len(op.inputs) == len(op.outputs) and _passes_on(op, makers):
            for value, result in zip(op.inputs, op.outputs, strict=True):
                pruned.alias[result.key] = value


def _passes_on(op: Op, makers: Sequence[Op | None]) -> bool:
    """Whether an op is looked past: an identity, or a cast of integers.

    Where a cast to integers is drawn, the cast back is not looked past: without it the next op
    would seem to use integers.
    """
    if op.type != "Cast" or op.inputs[0].differentiable:
        return op.type in names.IDENTITIES
    return makers[0] is None or makers[0].type != "Cast"


def _ancestors(pruned: Pruned) -> set[Op]:
    """The ops that the targets and sources were computed from, also those of the passes below."""
    if pruned.pass_ is NO_PASS:
        return set(pruned.ops)
    ends = [v for each in (pruned.pass_, *pruned.below) for v in each.targets + each.sources]
    return set(walk([made for v in ends if (made := pruned.maker(v))], pruned.feeds))


def in_order(feeding: Mapping[T, Collection[T]]) -> list[T]:
    """The keys, each after all that feed it, and else in their order.

    >>> in_order({"a": ["c"], "b": [], "c": ["b"]})
    ['b', 'c', 'a']
    """
    items = list(feeding)
    place = {each: i for i, each in enumerate(items)}
    sorter = TopologicalSorter(feeding)
    sorter.prepare()
    ready: list[int] = []
    found: list[T] = []
    while sorter.is_active():
        for each in sorter.get_ready():
            heapq.heappush(ready, place[each])
        found.append(items[heapq.heappop(ready)])
        sorter.done(found[-1])
    return found


# --- folds ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Repeats:
    """Scopes or ops that repeat each other in a row, of which one is shown.

    `select(toggled=[f"{name}@{k}"])` shows number k of them.
    """

    name: str
    labels: tuple[str, ...]  # what each of them is called
    ops: tuple[tuple[Op, ...], ...]  # of each of them
    at: int  # which of them is shown


@dataclass(frozen=True, eq=False)
class Fold:
    """Ops that share a node while the fold is closed, a frame while it is open; or one op alone."""

    name: str = ""  # opens and closes it; begins with "rest" if the fold always stays closed
    label: str = ""  # its scope, named within the one around it; "" for a stretch of ops
    members: tuple[Fold, ...] = ()
    repeats: Repeats | None = None  # the repeats of which this fold is the one shown
    op: Op | None = None  # the op, if the fold is one op alone

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """All ops in it."""
        return (self.op,) if self.op else tuple(op for each in self.members for op in each.ops)


def tree(pruned: Pruned, limit: int, at: Mapping[str, int] | None = None) -> Sequence[Fold]:
    """Put ops into folds: those of one scope together, and loose ops where there are too many.

    Args:
        pruned: The ops.
        limit: How many members may be side by side; up to this many ops in all, every repeat is
            shown.
        at: Which of repeats is shown, from 0, by the name of the fold that shows it; by default the
            last.

    Returns:
        The folds; an op in no other is a fold of its own.
    """
    return _Tree(pruned, limit, at or {}).folds(pruned.ops, ())


def opened(found: Sequence[Fold], limit: int) -> set[str]:
    """The names of the folds that are open at first: depth by depth inwards, while they fit."""
    opened: set[str] = set()
    total, level = len(found), _scopes(found)
    while level:  # all scopes of one depth, or none: layers open together
        total += sum(len(each.members) - 1 for each in level)
        if total > limit:
            break
        opened.update(each.name for each in level)
        level = [x for each in level for x in _scopes(each.members)]
    return opened


def _scopes(found: Sequence[Fold]) -> list[Fold]:
    return [each for each in found if each.name.startswith(("scope", "repeat"))]


class _Tree:
    def __init__(self, pruned: Pruned, limit: int, at: Mapping[str, int]) -> None:
        self.limit, self.at, self.levels = limit, at, pruned.levels
        self.feeding = pruned.feeding()
        self.repeating = len(pruned.ops) > limit
        self.seen: Counter[str] = Counter()  # how often a name was given
        self.scopes = {op: op.scope for op in pruned.ops}
        owners = pruned.owners(self.scopes)
        self.scopes |= {op: owners.get(op, "") for op in pruned.ops if op.kind == "variable"}

    def movable(self, found: Fold) -> bool:
        """Whether it may join a stretch: an input, variable or constant may only inside a scope."""
        op = found.op
        return op is None or op.kind in ("op", "custom") or self.scopes[op] != ""

    def folds(self, own: Sequence[Op], path: tuple[str, ...]) -> Sequence[Fold]:
        """The folds among these ops, whose scopes begin with `path`."""
        runs = self._runs(own, len(path))
        ordered = [self._fold(x, len(path)) if len(x) > 1 else Fold(op=x[0]) for x in runs]
        return self._stretches(self._repeats(ordered, path) if self.repeating else ordered, path)

    def _runs(self, own: Sequence[Op], depth: int) -> list[list[Op]]:
        """Ops of one scope and one level that are next to each other, and single ops.

        What starts from nothing, such as a variable, ends no run: it comes before the run, or is
        part of it. So none feeds itself through others, and each comes after all that it uses.
        """
        runs: list[list[Op]] = []
        current: list[Op] = []
        kind: Hashable = None
        for op in reversed(own):  # backwards, because a variable is read before it is used
            scope = self.scopes[op].split("/")[: depth + 1]
            own_kind = (*scope, self.levels[op]) if scope[depth:] and self.scopes[op] else op
            if own_kind == kind:
                current.append(op)
                continue
            runs.append([op])
            if self.feeding[op]:
                current, kind = runs[-1], own_kind
        return [run[::-1] for run in reversed(runs)]

    def _name(self, kind: str, path: Sequence[str]) -> str:
        name = f"{kind}:{'/'.join(path)}"
        self.seen[name] += 1
        return f"{name}:{self.seen[name] - 1}"

    def _fold(self, own: Sequence[Op], depth: int) -> Fold:
        path = tuple(self.scopes[own[0]].split("/")[: depth + 1])
        name = self._name("scope", path)
        inner = self.folds(own, path)
        if len(inner) == 1:
            return replace(inner[0], label=f"{path[-1]}/{inner[0].label}")
        return Fold(name, path[-1], tuple(inner))

    def _stretches(self, found: Sequence[Fold], path: tuple[str, ...]) -> Sequence[Fold]:
        """Where there are too many members, neighbours in the order share a fold."""
        loose = [x for x in found if self.movable(x)]
        if len(found) <= self.limit or not loose:
            return found
        length = -(-len(loose) // max(4, self.limit - (len(found) - len(loose))))
        result: list[Fold] = []
        part: list[Fold] = []
        for each in found:  # what starts from nothing comes before the stretch that it interrupts
            if not self.movable(each):
                result.append(each)
                continue
            part.append(each)
            if len(part) == length or each is loose[-1]:
                labels = [x.label for x in part if x.members]
                stretch = Fold(self._name("run", path), _span(labels), tuple(part))
                result.append(stretch if len(part) > 1 else each)
                part = []
        return result

    # --- repeats ---

    def _repeats(self, found: Sequence[Fold], path: tuple[str, ...]) -> Sequence[Fold]:
        """Show one of repeats in a row, if each uses the one before, and all an op outside them."""
        starts = [x for x in found if self._kind(x) is None]
        runs = [x for x in found if self._kind(x) is not None]
        first, period, count = _longest_repeat([self._kind(x) for x in runs])
        blocks = [tuple(runs[first + k * period :][:period]) for k in range(count)]
        inside = tuple(tuple(op for each in block for op in each.ops) for block in blocks)
        if count < LEAST or not self._recurrent(inside):
            return found
        name = self._name("repeat", path)
        own = path[-1] if path else "loop"
        labels = tuple(
            next((x.label for x in block if x.members), f"{own}[{k}]")
            for k, block in enumerate(blocks)
        )
        at = min(self.at.get(name, count), count - 1)
        one, *others = blocks[at]
        within = one.members if one.members and not others else blocks[at]
        parts = [
            Fold(f"rest before {name}", _span(labels[:at]), tuple(chain(*blocks[:at]))),
            Fold(name, labels[at], within, Repeats(name, labels, inside, at)),
            Fold(f"rest after {name}", _span(labels[at + 1 :]), tuple(chain(*blocks[at + 1 :]))),
        ]
        before, after = runs[:first], runs[first + count * period :]
        shown = [part for part in parts if part.members]
        return [*starts, *self._repeats(before, path), *shown, *self._repeats(after, path)]

    def _kind(self, found: Fold) -> Hashable:
        """Equal for folds that do the same, whatever numbers their names have.

        None for an input, a variable or a constant.
        """
        kinds = [
            (self.levels[op], op.type, *((v.shape, v.dtype) for v in op.outputs))
            if op.kind in ("op", "custom")
            else None
            for op in found.ops
        ]
        return kinds[0] if found.op else (re.sub(r"\d+", "#", found.label), *kinds)

    def _recurrent(self, inside: Sequence[Sequence[Op]]) -> bool:
        used = [set().union(*(self.feeding[op] for op in own)) for own in inside]
        needs_last = all(
            own.intersection(last) for last, own in zip(inside, used[1:], strict=False)
        )
        return needs_last and bool(set.intersection(*used).difference(*inside))


def _span(labels: Sequence[str]) -> str:
    """One label for neighbours in the order.

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
    """The longest repetition: where it begins, its period, and how often that occurs.

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
