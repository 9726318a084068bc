"""What is shown of a trace: the nodes and edges of one backward pass, ready to be placed.

No TensorFlow and no Matplotlib: the figure and the live picture both stand on this.

    make    a trace and a pass -> a Scene
    Scene   its nodes, its edges
    Node    one op, or several folded into one, with its numbers in this pass
    Edge    one use of a value: an output of one node read by one input of another

By default a scene holds what matters for the pass: what its targets were made of. Constants,
shape helpers, casts of integers and identities are folded away; a custom op is one node; a large
scene is folded by name scope. `full=True` holds everything.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..graph import Array, Op, Step, Trace, Value
from . import fold, words
from .choice import Choice, choose, feeds, grouped, in_order


@dataclass(frozen=True, eq=False)
class Node:
    """One op of the picture, or several folded into one.

    For one op `step` and `order` tell its part in the pass; `steps` and `orders` do so for
    folded nodes too. A reader who lists steps asks each node for `node.step`.
    """

    key: str  # unique in its scene
    label: str  # the learner's name, or "" where there is none
    symbol: str  # what it does: `×`, `sin`, `x³`
    kind: str  # of its op, or "scope" for a folded one
    ops: tuple[Op, ...]  # the op, or the folded ones
    outputs: tuple[Value, ...]  # its values that something else uses, or all of one op's
    upstream: tuple[Array | None, ...]  # what arrived at each output in this pass
    steps: tuple[Step, ...] = ()
    orders: tuple[int, ...] = ()  # the numbers of these steps in the pass, from 1
    targets: tuple[int, ...] = ()  # outputs that were differentiated
    seeds: tuple[Array | None, ...] = ()  # the upstream each of these started with
    source: bool = False  # the pass was asked for its gradient
    group: str = ""  # of a folded node: its name, for `make(opened=...)`
    floor: int = 0  # 0 the forward pass, 1 an op that the first backward pass ran, ...

    @property
    def step(self) -> Step | None:
        """The op's step in this pass; None for folded nodes and where the pass did not come."""
        return self.steps[0] if len(self.steps) == 1 and len(self.ops) == 1 else None

    @property
    def order(self) -> int | None:
        """The number of this step in the pass, from 1."""
        return self.orders[0] if self.step is not None else None


@dataclass(frozen=True, eq=False)
class Edge:
    """One use of a value, from an output of one node to an input of another."""

    source: int  # index in `scene.nodes`
    output: int  # which of the source's outputs
    target: int
    position: int  # which of the target's inputs; -1: captured by closure
    value: Value
    contribution: Array | None = None  # what this use handed back in this pass
    reason: str = ""  # why nothing flows back although the source could take a gradient
    order: int = 0  # the number of the step that hands it back, from 1; 0: none
    uses: int = 1  # how many uses this edge stands for


@dataclass(frozen=True, eq=False)
class Scene:
    """The nodes and edges of one pass; every edge leads to a later node."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    steps: int = 0  # how many steps the pass has
    which: int | None = None  # the index of the pass

    @cached_property
    def outgoing(self) -> tuple[tuple[Edge, ...], ...]:
        """Per node the edges that leave it."""
        found: list[list[Edge]] = [[] for _ in self.nodes]
        for edge in self.edges:
            found[edge.source].append(edge)
        return tuple(map(tuple, found))

    @cached_property
    def depth(self) -> int:
        """How many nodes the longest path has."""
        length = [1] * len(self.nodes)
        for i in range(len(self.nodes)):
            for edge in self.outgoing[i]:
                length[edge.target] = max(length[edge.target], length[i] + 1)
        return max(length, default=0)


def make(
    trace: Trace,
    which: int | None = None,
    full: bool = False,
    limit: int | None = 60,
    opened: Collection[str] = (),
) -> Scene:
    """Choose what is shown of one backward pass.

    Args:
        trace: The trace.
        which: The pass, as in `trace.passes`; None is the one that `trace.steps` shows. A trace
            without a backward pass shows its forward ops.
        full: Show everything: constants, shape helpers, dead ends, no folding.
        limit: Fold by name scope above this many nodes; None never folds.
        opened: The groups to unfold one level, by `node.group`.

    Returns:
        The scene. Its nodes come after all that they use; node by node, `node.step` is the step
        to list, or None.

    Raises:
        ValueError: If the trace has no pass number `which`.
    """
    pass_ = trace.pass_(which) if trace.passes or which is not None else None
    choice = choose(trace, pass_, full)
    ops = in_order(choice)
    if full or limit is None or len(ops) <= limit:
        groups: list[fold.Group] = [("op", i) for i in range(len(ops))]
    else:
        groups = grouped(choice, ops, limit, opened)
    return _Drawing(choice, ops, groups).scene()


class _Drawing:
    """Makes the nodes and edges, once it is known which ops belong together."""

    def __init__(self, choice: Choice, ops: Sequence[Op], groups: Sequence[fold.Group]) -> None:
        self.choice = choice
        self.pass_ = choice.pass_
        self.members: dict[fold.Group, list[Op]] = {}
        for op, group in zip(ops, groups, strict=True):
            self.members.setdefault(group, []).append(op)
        self.step_of: dict[Op, tuple[int, Step]] = {}
        if self.pass_ is not None:
            self.step_of = {s.op: (i, s) for i, s in enumerate(self.pass_.steps, 1)}
        self.live = {  # what a tape follows; a rule may hand back more, which the tape drops
            v.key for op in choice.floors for i, v in enumerate(op.inputs) if _followed(op, i)
        }
        self.where = {op: g for g, members in self.members.items() for op in members}
        self.outputs = {g: self._outputs(g) for g in self.members}

    def scene(self) -> Scene:
        """All of it, the groups in an order where everything comes after what it uses."""
        order = self._order()
        index = {g: i for i, g in enumerate(order)}
        edges = tuple(e for g in order for e in self._edges(g, index))
        nodes = tuple(self._node(g, i) for i, g in enumerate(order))
        which = None if self.pass_ is None else self.pass_.index
        return Scene(nodes, edges, len(self.pass_.steps) if self.pass_ else 0, which)

    def _order(self) -> list[fold.Group]:
        done: dict[fold.Group, None] = {}
        for start in self.members:
            stack = [(start, False)]
            while stack:
                group, ready = stack.pop()
                if group in done:
                    continue
                if ready:
                    done[group] = None
                    continue
                stack.append((group, True))
                before = {
                    self.where[m]: None
                    for op in self.members[group]
                    for m in feeds(self.choice, op)
                    if m in self.where and self.where[m] != group
                }
                stack += [(g, False) for g in reversed(before)]
        return list(done)

    def _outputs(self, group: fold.Group) -> tuple[Value, ...]:
        members = self.members[group]
        if len(members) == 1:
            return members[0].outputs
        inside = set(members)
        used = {
            self.choice.value(v).key
            for op in self.where
            if op not in inside
            for v in op.inputs + op.captured
        }
        if self.pass_ is not None:
            used |= {self.choice.value(t).key for t in self.pass_.targets}
        return tuple(v for op in members for v in op.outputs if v.key in used)

    def _node(self, group: fold.Group, number: int) -> Node:
        members, outputs = self.members[group], self.outputs[group]
        steps = sorted(self.step_of[op] for op in members if op in self.step_of)
        targets, seeds, asked = [], [], False
        if self.pass_ is not None:
            place = {v.key: i for i, v in enumerate(outputs)}
            for target, seed in zip(self.pass_.targets, self.pass_.seeds, strict=True):
                key = self.choice.value(target).key
                if key in place and place[key] not in targets:
                    targets.append(place[key])
                    seeds.append(seed)
            asked = any(v.key in self.choice.asked for v in outputs)
        label, symbol, kind = self._words(group)
        return Node(
            f"{number}:{label or symbol}",
            label,
            symbol,
            kind,
            tuple(members),
            outputs,
            tuple(self._upstream(v) for v in outputs),
            tuple(s for _, s in steps),
            tuple(i for i, _ in steps),
            tuple(targets),
            tuple(seeds),
            asked,
            fold.name(group) if len(members) > 1 else "",
            min(self.choice.floors[op] for op in members),
        )

    def _upstream(self, value: Value) -> Array | None:
        if self.pass_ is None:
            return None
        for source, gradient in zip(self.pass_.sources, self.pass_.gradients, strict=True):
            if source.key == value.key:
                return gradient
        ends = {t.key for t in self.pass_.targets}
        return self.pass_.upstream(value) if value.key in self.live | ends else None

    def _words(self, group: fold.Group) -> tuple[str, str, str]:
        members = self.members[group]
        op = members[0]
        if len(members) > 1:
            label = str(group[1]).rsplit("/", 1)[-1] if group[0] == "scope" else ""
            ops = sum(o.kind != "variable" for o in members)
            variables = len(members) - ops
            symbol = f"{ops} op{'s' * (ops != 1)}"
            if variables:
                symbol += f", {variables} variable{'s' * (variables != 1)}"
            return label, symbol, "scope"
        if op.kind in ("input", "variable", "constant"):
            return op.name, "", op.kind
        if op.kind == "custom":
            return op.name if words.own_name(op) else "", op.type, "custom"
        constants = {
            i: words.operand(v, m[0].name)
            for i, v in enumerate(op.inputs)
            if (m := self.choice.maker(v)) and m[0] in self.choice.dull
        }
        return op.name if words.own_name(op) else "", words.symbol(op, constants), op.kind

    def _edges(self, group: fold.Group, index: dict[fold.Group, int]) -> list[Edge]:
        folded = len(self.members[group]) > 1
        found: dict[object, Edge] = {}
        for op in self.members[group]:
            order, step = self.step_of.get(op, (0, None))
            downstream = () if step is None else step.downstream
            for position, value in enumerate(op.inputs + op.captured):
                maker = self.choice.maker(value)
                source = None if maker is None else self.where.get(maker[0])
                if maker is None or source is None or source == group:
                    continue
                shown = self.choice.value(value)
                captured = position >= len(op.inputs)
                flows = step is not None and not captured and _followed(op, position)
                given = downstream[position] if flows else None
                edge = Edge(
                    index[source],
                    next(i for i, v in enumerate(self.outputs[source]) if v.key == shown.key),
                    index[group],
                    -1 if captured else position,
                    value,
                    given,
                    self._reason(op, position, maker[0]),
                    order if given is not None else 0,
                )
                name: object = (source, shown.key) if folded else (position,)
                found[name] = _merged(found[name], edge) if name in found else edge
        return list(found.values())

    def _reason(self, op: Op, position: int, maker: Op) -> str:
        if self.pass_ is None or (maker.kind == "constant" or maker in self.choice.dull):
            return ""
        if position >= len(op.inputs):
            return "captured by closure"
        step = self.step_of.get(op, (0, None))[1]
        arrives = any(self._upstream(v) is not None for v in op.outputs)
        value = op.inputs[position]
        live = value.key in self.live or maker.recorded
        found = words.reason(op, position, step, arrives, live)
        shown = self.choice.value(value)
        if not shown.differentiable:
            found = words.dtype(shown.dtype)
        if maker.kind in ("op", "custom") and (found == "not watched" or not shown.differentiable):
            return ""  # said once, where the path breaks, and not at all that comes of it
        return found


def _followed(op: Op, position: int) -> bool:
    """Whether a tape follows an input here; where nobody noted it, what an op has on tape."""
    return op.watched[position] if op.watched else op.recorded


def _merged(one: Edge, other: Edge) -> Edge:
    """Two uses of the same value by ops of one folded node: their contributions add up."""
    given = [e.contribution for e in (one, other) if e.contribution is not None]
    total = np.add(*given) if len(given) == 2 else given[0] if given else None
    reason = "" if given else one.reason or other.reason
    return Edge(
        one.source,
        one.output,
        one.target,
        min(one.position, other.position),
        one.value,
        total,
        reason,
        max(one.order, other.order),
        one.uses + other.uses,
    )
