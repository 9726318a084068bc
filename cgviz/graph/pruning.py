"""Which ops of a trace matter for a pass: the ancestors of its targets, without constants.

prune      a trace and a pass -> a Pruned
in_order   its ops, each after what it uses
folded     which of them share a node, or a frame
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from . import folding, names
from .model import Op, Pass, Value
from .trace import Trace


@dataclass
class Pruned:
    """The ops of a pass that matter, their levels of differentiation, and what made each value."""

    ops: list[Op]
    pass_: Pass | None
    levels: dict[Op, int]  # 0: forward pass; n: an op that backward pass n-1 ran
    producer: dict[int, tuple[Op, int]] = field(default_factory=dict)
    alias: dict[int, Value] = field(default_factory=dict)
    hidden: set[Op] = field(default_factory=set)
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


def prune(trace: Trace, pass_: Pass | None, full: bool) -> Pruned:
    """Choose the ops of a pass; of a second-order pass also those that the first one ran."""
    ops, levels = list(trace.ops), dict.fromkeys(trace.ops, 0)
    below: list[Pass] = []
    if pass_ is not None and not _within(pass_, levels):
        taking_part = {step.op for step in pass_.steps}
        targets = set(pass_.targets)
        for earlier in trace.passes[: pass_.index]:
            if taking_part.isdisjoint(earlier.ops) and targets.isdisjoint(
                v for op in earlier.ops for v in op.outputs
            ):
                continue  # an unrelated pass, such as another call on a persistent tape
            below.append(earlier)
            for op in earlier.ops:
                if op not in levels:
                    levels[op] = earlier.index + 1
                    ops.append(op)
    pruned = Pruned(ops, pass_, levels, below=below)
    for op in ops:
        for position, value in enumerate(op.outputs):
            pruned.producer.setdefault(value.key, (op, position))
    if pass_ is not None:
        pruned.asked = {v.key for v in pass_.sources}
    if full:
        return pruned
    _hide_constants(pruned)
    wanted = _ancestors(pruned) if pass_ is not None else set(ops)
    pruned.ops = [
        op
        for op in ops
        if op in wanted
        and op not in pruned.hidden
        and not any(v.key in pruned.alias for v in op.outputs)
    ]
    return pruned


def _within(pass_: Pass, ops: dict[Op, int]) -> bool:
    """Whether a pass went over forward ops only."""
    made = {v.key for op in ops for v in op.outputs}
    return all(s.op in ops for s in pass_.steps) and all(t.key in made for t in pass_.targets)


def _hide_constants(pruned: Pruned) -> None:
    """Mark constants and all that comes of constants alone, and look past identities."""
    for op in pruned.ops:
        if any(v.key in pruned.asked for v in op.outputs) or op.kind in ("input", "variable"):
            continue
        makers = [pruned.maker(v) for v in op.inputs]
        if (
            op.kind == "constant"
            or op.type in names.SHAPE_HELPERS
            or (all(m is not None and m[0] in pruned.hidden for m in makers) and op.kind == "op")
        ):
            pruned.hidden.add(op)
        elif op.kind == "op" and len(op.inputs) == len(op.outputs) and _passes_on(op):
            for value, result in zip(op.inputs, op.outputs, strict=True):
                pruned.alias[result.key] = value


def _passes_on(op: Op) -> bool:
    return op.type in names.IDENTITIES or (op.type == "Cast" and not op.inputs[0].differentiable)


def _ancestors(pruned: Pruned) -> set[Op]:
    """The ops that the targets were made of, and the sources; also of the passes below."""
    assert pruned.pass_ is not None
    ends = [v for each in (pruned.pass_, *pruned.below) for v in each.targets + each.sources]
    stack = [m[0] for v in ends if (m := pruned.maker(v))]
    found = set(stack)
    while stack:
        op = stack.pop()
        for value in op.inputs + op.captured:
            maker = pruned.maker(value)
            if maker is not None and maker[0] not in found:
                found.add(maker[0])
                stack.append(maker[0])
    return found


def feeds(pruned: Pruned, op: Op) -> Iterable[Op]:
    """The ops whose values an op uses, past identities."""
    for value in op.inputs + op.captured:
        maker = pruned.maker(value)
        if maker is not None:
            yield maker[0]


def in_order(pruned: Pruned) -> list[Op]:
    """The chosen ops, each after what it uses, else in execution order.

    A gradient penalty runs forward ops after a backward pass, so the order of the lists is not
    enough.
    """
    return [pruned.ops[i] for i in folding.in_order(_feeds(pruned, pruned.ops))]


def _feeds(pruned: Pruned, ops: Sequence[Op]) -> list[list[int]]:
    """Per op the positions of the others that feed it."""
    position = {op: i for i, op in enumerate(ops)}
    return [sorted({position[m] for m in feeds(pruned, op) if m in position}) for op in ops]


def folded(
    pruned: Pruned, ops: Sequence[Op], limit: int, at: Mapping[str, int] | None = None
) -> folding.Members:
    """The folds of these ops, by their positions; `at` tells which of repeats are shown."""
    used = _feeds(pruned, ops)
    scopes = [op.scope for op in ops]
    within: list[set[str]] = [set() for _ in ops]  # the scopes of those that use it
    for i, sources in enumerate(used):
        for j in sources:
            within[j].add(ops[i].scope)
    for i, op in enumerate(ops):
        if op.kind == "variable":  # it belongs to the layer that alone uses it
            scopes[i] = within[i].pop() if len(within[i]) == 1 else ""
    runs = [op.kind in ("op", "custom") for op in ops]
    kinds = [
        (pruned.levels[op], op.type, *((v.shape, v.dtype) for v in op.outputs)) if own else None
        for op, own in zip(ops, runs, strict=True)
    ]
    movable = [own or bool(scope) for own, scope in zip(runs, scopes, strict=True)]
    levels = [pruned.levels[op] for op in ops]
    return folding.tree(folding.Ops(scopes, used, movable, levels, kinds), limit, at)
