"""Which ops of a trace matter for a pass: the ancestors of its targets, without what is dull.

    choose     a trace and a pass -> a Choice
    in_order   its ops, each after what it uses
    folded     which of them share a node, or a frame

A helper of `scene`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..graph import Op, Pass, Trace, Value
from . import fold, words


@dataclass
class Choice:
    """What is known about the ops while a scene is chosen from them."""

    ops: list[Op]
    pass_: Pass | None
    floors: dict[Op, int]
    producer: dict[int, tuple[Op, int]] = field(default_factory=dict)
    alias: dict[int, Value] = field(default_factory=dict)
    dull: set[Op] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)  # keys of sources
    below: list[Pass] = field(default_factory=list)  # the passes whose own ops are among `ops`

    def value(self, value: Value) -> Value:
        """The value itself, past identities that are not drawn."""
        while value.key in self.alias:
            value = self.alias[value.key]
        return value

    def maker(self, value: Value) -> tuple[Op, int] | None:
        """The op that made a value, past identities."""
        return self.producer.get(self.value(value).key)


def choose(trace: Trace, pass_: Pass | None, full: bool) -> Choice:
    """Choose the ops of a pass; of a second-order pass also those that the first one ran."""
    ops, floors = list(trace.ops), dict.fromkeys(trace.ops, 0)
    below: list[Pass] = []
    if pass_ is not None and not _within(pass_, floors):
        taking_part = {step.op for step in pass_.steps}
        targets = set(pass_.targets)
        for earlier in trace.passes[: pass_.index]:
            if taking_part.isdisjoint(earlier.ops) and targets.isdisjoint(
                v for op in earlier.ops for v in op.outputs
            ):
                continue  # an unrelated pass, such as another call on a persistent tape
            below.append(earlier)
            for op in earlier.ops:
                if op not in floors:
                    floors[op] = earlier.index + 1
                    ops.append(op)
    choice = Choice(ops, pass_, floors, below=below)
    for op in ops:
        for position, value in enumerate(op.outputs):
            choice.producer.setdefault(value.key, (op, position))
    if pass_ is not None:
        choice.asked = {v.key for v in pass_.sources}
    if full:
        return choice
    _fold_dull(choice)
    wanted = _ancestors(choice) if pass_ is not None else set(ops)
    choice.ops = [
        op
        for op in ops
        if op in wanted
        and op not in choice.dull
        and not any(v.key in choice.alias for v in op.outputs)
    ]
    return choice


def _within(pass_: Pass, ops: dict[Op, int]) -> bool:
    """Whether a pass went over forward ops only."""
    made = {v.key for op in ops for v in op.outputs}
    return all(s.op in ops for s in pass_.steps) and all(t.key in made for t in pass_.targets)


def _fold_dull(choice: Choice) -> None:
    """Mark constants and all that comes of constants alone, and look past identities."""
    for op in choice.ops:
        if any(v.key in choice.asked for v in op.outputs) or op.kind in ("input", "variable"):
            continue
        makers = [choice.maker(v) for v in op.inputs]
        if (
            op.kind == "constant"
            or op.type in words.SHAPE_HELPERS
            or (all(m is not None and m[0] in choice.dull for m in makers) and op.kind == "op")
        ):
            choice.dull.add(op)
        elif op.kind == "op" and len(op.inputs) == len(op.outputs) and _passes_on(op):
            for value, result in zip(op.inputs, op.outputs, strict=True):
                choice.alias[result.key] = value


def _passes_on(op: Op) -> bool:
    return op.type in words.IDENTITIES or (op.type == "Cast" and not op.inputs[0].differentiable)


def _ancestors(choice: Choice) -> set[Op]:
    """The ops that the targets were made of, and the sources; also of the passes below."""
    assert choice.pass_ is not None
    ends = [v for each in (choice.pass_, *choice.below) for v in each.targets + each.sources]
    stack = [m[0] for v in ends if (m := choice.maker(v))]
    found = set(stack)
    while stack:
        op = stack.pop()
        for value in op.inputs + op.captured:
            maker = choice.maker(value)
            if maker is not None and maker[0] not in found:
                found.add(maker[0])
                stack.append(maker[0])
    return found


def feeds(choice: Choice, op: Op) -> Iterable[Op]:
    """The ops whose values an op uses, past identities."""
    for value in op.inputs + op.captured:
        maker = choice.maker(value)
        if maker is not None:
            yield maker[0]


def in_order(choice: Choice) -> list[Op]:
    """The chosen ops, each after what it uses, else in execution order.

    A gradient penalty runs forward ops after a backward pass, so the order of the lists is not
    enough.
    """
    place = {op: i for i, op in enumerate(choice.ops)}
    users: dict[Op, list[Op]] = {op: [] for op in place}
    waiting = dict.fromkeys(place, 0)
    for op in place:
        for maker in set(feeds(choice, op)) & place.keys():
            users[maker].append(op)
            waiting[op] += 1
    ready = [place[op] for op in place if not waiting[op]]
    heapq.heapify(ready)
    found = []
    while ready:
        op = choice.ops[heapq.heappop(ready)]
        found.append(op)
        for user in users[op]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, place[user])
    return found


def folded(choice: Choice, ops: Sequence[Op], limit: int) -> tuple[int | fold.Fold, ...]:
    """The folds of these ops, by their places."""
    place = {op: i for i, op in enumerate(ops)}
    used = [sorted({place[m] for m in feeds(choice, op) if m in place}) for op in ops]
    scopes = [op.scope for op in ops]
    users: list[list[int]] = [[] for _ in ops]
    for i, sources in enumerate(used):
        for j in sources:
            users[j].append(i)
    for i, op in enumerate(ops):
        if op.kind == "variable":  # it belongs to the layer that alone uses it
            within = {scopes[j] for j in users[i]}
            scopes[i] = within.pop() if len(within) == 1 else ""
    movable = [op.kind in ("op", "custom") or bool(s) for op, s in zip(ops, scopes, strict=True)]
    return fold.tree(scopes, used, movable, limit, [choice.floors[op] for op in ops])
