"""What is shown of a trace: the nodes and edges of one backward pass, ready to be placed.

No TensorFlow and no Matplotlib: the figure and the live picture both stand on this.

    make    a trace and a pass -> a Scene
    Scene   its nodes, its edges
    Node    one op, or several folded into one, with its numbers in this pass
    Edge    one use of a value: an output of one node read by one input of another
    Frame   what is around the nodes of an open scope, or of an open custom op

By default a scene holds what matters for the pass: what its targets were made of. Constants,
shape helpers, casts of integers and identities are folded away; a custom op is one node; a large
scene is folded by name scope. `full=True` holds everything, `framed=True` tells the scopes that
are open and lets any of them be closed; `inside` opens custom ops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..graph import Array, Op, Step, Trace, Value, total
from . import fold, words
from .choice import Choice, choose, feeds, folded, in_order


@dataclass(frozen=True, eq=False)
class Node:
    """One op of the picture, or several folded into one.

    For one op `step` and `order` tell its part in the pass; `steps` and `orders` do so for
    folded nodes too. A reader who lists steps asks each node for `node.step`.
    """

    key: str  # unique in its scene
    label: str  # the learner's name, or "" where there is none
    symbol: str  # what it does: `×`, `sin`, `x³`
    kind: str  # of its op, "scope" for a folded one, "port" where a value enters or leaves a frame
    ops: tuple[Op, ...]  # the op, or the folded ones
    outputs: tuple[Value, ...]  # its values that something else uses, or all of one op's
    upstream: tuple[Array | None, ...]  # what arrived at each output in this pass
    steps: tuple[Step, ...] = ()
    orders: tuple[int, ...] = ()  # the numbers of these steps in the pass, from 1
    targets: tuple[int, ...] = ()  # outputs that were differentiated
    seeds: tuple[Array | None, ...] = ()  # the upstream each of these started with
    source: bool = False  # the pass was asked for its gradient
    group: str = ""  # of what can be opened: its name, for `make(toggled=...)`
    floor: int = 0  # 0 the forward pass, 1 an op that the first backward pass ran, ...
    frame: int = -1  # the innermost frame around it, by index in `scene.frames`
    owner: int = -1  # of what is inside an open custom op: the node of that op

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


@dataclass(frozen=True)
class Frame:
    """What is around the nodes of an open scope, or of an open custom op."""

    name: str  # for `make(toggled=...)`
    label: str
    parent: int  # the frame around it, by index in `scene.frames`; -1: none
    node: int = -1  # the custom op that it shows the inside of; -1: a scope
    floor: int = 0


@dataclass(frozen=True, eq=False)
class Scene:
    """The nodes and edges of one pass.

    Every edge leads to a later node, but for those that begin at an open custom op's port.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    steps: int = 0  # how many steps the pass has
    which: int | None = None  # the index of the pass
    frames: tuple[Frame, ...] = ()  # each after the one around it
    doors: tuple[
        tuple[int, int, int], ...
    ] = ()  # (open custom op, its value's key or ~output, port)

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
    framed: bool = False,
    toggled: Collection[str] = (),
) -> Scene:
    """Choose what is shown of one backward pass.

    Args:
        trace: The trace.
        which: The pass, as in `trace.passes`; None is the one that `trace.steps` shows. A trace
            without a backward pass shows its forward ops.
        full: Show everything: constants, shape helpers, dead ends, no folding.
        limit: Fold by name scope above this many nodes; None never folds.
        framed: Tell the open scopes, as frames, and let small scenes be folded too.
        toggled: The scopes that are open and would not be, or the other way round, by
            `node.group` or `frame.name`.

    Returns:
        The scene. Its nodes come after all that they use; node by node, `node.step` is the step
        to list, or None.

    Raises:
        ValueError: If the trace has no pass number `which`.
    """
    pass_ = trace.pass_(which) if trace.passes or which is not None else None
    choice = choose(trace, pass_, full)
    ops = in_order(choice)
    if limit is None or (not framed and (full or len(ops) <= limit)):
        return _Drawing(choice, ops, range(len(ops))).scene()
    found = folded(choice, ops, max(limit, len(ops)) if full else limit)
    shown = fold.opened(found, len(ops) if full else limit) ^ set(toggled)
    return _Drawing(choice, ops, found, shown, framed).scene()


class _Drawing:
    """Makes the nodes and edges, once it is known which ops belong together."""

    def __init__(
        self,
        choice: Choice,
        ops: Sequence[Op],
        found: Sequence[int | fold.Fold],
        opened: Collection[str] = (),
        framed: bool = False,
    ) -> None:
        self.choice = choice
        self.framed = framed
        self.pass_ = choice.pass_
        self.ops = ops
        self.opened = opened
        self.members: dict[str, list[Op]] = {}  # by the name of a fold, or the place of an op
        self.frames: list[Frame] = []
        self.frame_of: dict[str, int] = {}
        self.labels: dict[str, str] = {}  # of closed folds
        self._unfold(found, -1)
        self.step_of: dict[Op, tuple[int, Step]] = {}
        if self.pass_ is not None:
            self.step_of = {s.op: (i, s) for i, s in enumerate(self.pass_.steps, 1)}
        self.live = {  # what a tape follows; a rule may hand back more, which the tape drops
            v.key for op in choice.floors for i, v in enumerate(op.inputs) if _followed(op, i)
        }
        self.where = {op: g for g, members in self.members.items() for op in members}
        self.readers = self._readers()
        self.outputs = {g: self._outputs(g) for g in self.members}

    def _unfold(self, found: Iterable[int | fold.Fold], frame: int) -> None:
        """One group for each op and each closed fold, and a frame for each open one."""
        for each in found:
            if isinstance(each, fold.Fold) and each.name in self.opened:
                inner = frame
                if self.framed:
                    floor = self.choice.floors[self.ops[next(fold.leaves(each))]]
                    inner = len(self.frames)
                    self.frames.append(Frame(each.name, each.label, frame, floor=floor))
                self._unfold(each.members, inner)
                continue
            group = each.name if isinstance(each, fold.Fold) else str(each)
            self.members[group] = [self.ops[i] for i in fold.leaves(each)]
            self.frame_of[group] = frame
            if isinstance(each, fold.Fold):
                self.labels[group] = each.label

    def scene(self) -> Scene:
        """All of it, the groups in an order where everything comes after what it uses."""
        order = self._order()
        index = {g: i for i, g in enumerate(order)}
        edges = tuple(e for g in order for e in self._edges(g, index))
        nodes = tuple(self._node(g, i) for i, g in enumerate(order))
        which = None if self.pass_ is None else self.pass_.index
        steps = len(self.pass_.steps) if self.pass_ else 0
        return Scene(nodes, edges, steps, which, tuple(self.frames))

    def _order(self) -> list[str]:
        done: dict[str, None] = {}
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

    def _outputs(self, group: str) -> tuple[Value, ...]:
        members = self.members[group]
        if len(members) == 1:
            return members[0].outputs
        return tuple(
            v for op in members for v in op.outputs if self.readers.get(v.key, set()) - {group}
        )

    def _readers(self) -> dict[int, set[str]]:
        """By the key of a value: the groups that use it, and "" for a target."""
        found: dict[int, set[str]] = {}
        for op, group in self.where.items():
            for value in op.inputs + op.captured:
                found.setdefault(self.choice.value(value).key, set()).add(group)
        for target in self.pass_.targets if self.pass_ is not None else ():
            found.setdefault(self.choice.value(target).key, set()).add("")
        return found

    def _node(self, group: str, number: int) -> Node:
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
            group if len(members) > 1 else "",
            min(self.choice.floors[op] for op in members),
            self.frame_of[group],
        )

    def _upstream(self, value: Value) -> Array | None:
        if self.pass_ is None:
            return None
        for source, gradient in zip(self.pass_.sources, self.pass_.gradients, strict=True):
            if source.key == value.key:
                return gradient
        ends = {t.key for t in self.pass_.targets}
        return self.pass_.upstream(value) if value.key in self.live | ends else None

    def _words(self, group: str) -> tuple[str, str, str]:
        members = self.members[group]
        op = members[0]
        if len(members) > 1:
            label = self.labels[group].rsplit("/", 1)[-1]
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

    def _edges(self, group: str, index: dict[str, int]) -> list[Edge]:
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
    reason = "" if given else one.reason or other.reason
    return Edge(
        one.source,
        one.output,
        one.target,
        min(one.position, other.position),
        one.value,
        total(given) if given else None,
        reason,
        max(one.order, other.order),
        one.uses + other.uses,
    )
