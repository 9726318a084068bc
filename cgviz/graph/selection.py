"""What is shown of a trace: the nodes and edges of one backward pass, before they are laid out.

    select     a trace and a pass -> a Selection
    Selection  its nodes, edges and frames
    Node       one op, or several folded into one, with its numbers in this pass
    Edge       one use of a value: an output of one node read by one input of another
    Frame      the border around the nodes of an open scope, or of an open custom op

By default a selection holds what matters for the pass: what its targets were computed from.
Constants, shape helpers, casts of integers and identities are folded away; a custom op is one node;
a large selection is folded by name scope. `full=True` keeps everything. `framed=True` adds a frame
for each open scope, and any scope or custom op can then be opened or closed by its name.

Of repeats in a row, such as the steps of a recurrent network, one is shown, between a fold of all
before it and a fold of all after it. A variable or an input that is used often has a node at each
of its uses, and one node without arrows, which has the gradient of all uses together.

An open custom op holds the ops of its body. Values enter and leave the body through ports. The
edges of the custom op itself end at these ports: backward, TensorFlow runs the custom rule and not
the rules of the ops inside.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any

from . import folding, names
from .folding import NO_PASS, Fold, Pruned
from .model import Array, Op, Step, Value, stacked, total
from .trace import Trace

MOST_BESIDE = 4  # values drawn apart between two nodes: the two states of an LSTM's step, and more
LONGEST_NAME = 8  # letters of a name within a symbol, as in x²: a node has space for some more
OFTEN = 6  # uses of a value: more arrows than this from one node cannot be followed
MOST_NODES = 60  # shown unfolded, and ops of a body that can be opened: legible on one screen


@dataclass(frozen=True, eq=False)
class Node:
    """One op of the picture, or several folded into one.

    `step` is the step of a node of one op, and `order` that step's number in the pass; `steps` and
    `orders` have those of folded nodes, too. Code that lists steps asks each node for `node.step`.
    """

    key: str  # unique in its selection
    label: str  # the learner's name, or "" where there is none
    symbol: str  # what it does: `×`, `sin`, `x³`
    # That of its op; or "scope" for a folded node, "port" where a value enters or leaves a frame,
    # "use" for a variable or an input at one of the ops that use it.
    kind: str
    ops: tuple[Op, ...]  # the op, or the folded ops
    outputs: tuple[Value, ...]  # all of one op; of folded ops, those used outside or as targets
    upstream: tuple[Array | None, ...]  # what arrived at each output in this pass
    steps: tuple[Step, ...] = ()
    orders: tuple[int, ...] = ()  # the numbers of these steps in the pass, from 1
    asked: tuple[int, ...] = ()  # the outputs whose gradient the pass was asked for
    group: str = ""  # its name in `select(toggled=...)`, if it can be opened
    level: int = 0  # 0 the forward pass, 1 an op that the first backward pass ran, ...
    frame: int = -1  # the innermost frame around it, by index in `selection.frames`
    owner: int = -1  # the node of the open custom op that it is inside of; -1: none
    uses: int = 0  # how many, of a "use" and of a node whose uses have nodes of their own
    ruled: bool = False  # a custom rule ran its ops, in a pass that this one differentiates

    @property
    def step(self) -> Step | None:
        """The op's step in this pass; None for folded nodes and where its rule did not run."""
        return self.steps[0] if len(self.steps) == 1 and len(self.ops) == 1 else None

    @property
    def order(self) -> int | None:
        """The number of this step in the pass, from 1."""
        return self.orders[0] if self.step is not None else None


@dataclass(frozen=True, eq=False)
class Edge:
    """One use of a value, from an output of one node to an input of another, or as a target."""

    source: int  # index in `selection.nodes`
    output: int  # which of the source's outputs
    target: int  # -1: the value is a target of the pass, and `contribution` its upstream
    position: int  # which of the target's inputs; -1: captured by closure, or a target
    value: Value
    contribution: Array | None = None  # what this use returned in this pass
    reason: str = ""  # why nothing flows back although the source could take a gradient
    order: int = 0  # the number of the step that returns it, from 1; 0: none
    uses: int = 1  # how many uses this edge represents
    values: int = 1  # how many values it represents: more than one are stacked


@dataclass(frozen=True)
class Frame:
    """The border around the nodes of an open scope, or of an open custom op."""

    name: str  # for `select(toggled=...)`
    label: str
    parent: int  # the frame around it, by index in `selection.frames`; -1: none
    node: int = -1  # the custom op that it shows the inside of; -1: a scope
    level: int = 0


@dataclass(frozen=True, eq=False)
class Selection:
    """The nodes and edges of one pass: every edge leads to a later node."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    targets: tuple[Edge, ...] = ()  # of the pass, in the order of their nodes
    steps: int = 0  # how many steps the pass has
    which: int | None = None  # the index of the pass
    frames: tuple[Frame, ...] = ()  # each after the one around it
    repeats: tuple[folding.Repeats, ...] = ()
    # In a picture with sliders: each input that a slider moves, and the widest number it can get.
    moved: Mapping[str, str] | None = None
    local: bool = False  # whether upstream · local, or ≠, is written before each gradient

    @cached_property
    def outgoing(self) -> tuple[tuple[Edge, ...], ...]:
        """Per node, the edges that leave it."""
        found: list[list[Edge]] = [[] for _ in self.nodes]
        for edge in self.edges:
            found[edge.source].append(edge)
        return tuple(map(tuple, found))

    def starts(self, node: int) -> list[Edge]:
        """The targets of the pass that a node made."""
        return [edge for edge in self.targets if edge.source == node]

    def summands(self, node: int, outputs: Collection[int]) -> list[Edge]:
        """The edges whose contributions add up to the gradients of outputs: uses, then targets."""
        edges = [*self.outgoing[node], *self.starts(node)]
        return [e for e in edges if e.output in outputs and e.contribution is not None]

    def moves(self, node: Node) -> bool:
        """Whether a slider moves it."""
        return node.kind == "input" and node.label in (self.moved or ())

    @cached_property
    def depth(self) -> int:
        """How many nodes the longest path has."""
        length = [1] * len(self.nodes)
        for i in range(len(self.nodes)):
            for edge in self.outgoing[i]:
                length[edge.target] = max(length[edge.target], length[i] + 1)
        return max(length, default=0)


def select(
    trace: Trace,
    which: int | None = None,
    full: bool = False,
    limit: int | None = MOST_NODES,
    framed: bool = False,
    toggled: Collection[str] = (),
    known: dict[Any, Any] | None = None,
) -> Selection:
    """Choose what is shown of one backward pass.

    Args:
        trace: The trace.
        which: The pass, by its index in `trace.passes`; None is the one that `trace.steps` shows. A
            trace without a backward pass shows its forward ops.
        full: Show everything: constants, shape helpers, dead ends, no folding.
        limit: Fold by name scope above this many nodes; None never folds.
        framed: Add a frame for each open scope, and let small selections be folded too.
        toggled: The scopes and custom ops to open or close against the default, by `node.group` or
            `frame.name`; and which of repeats to show, as `f"{repeats.name}@{k}"`.
        known: A cache, from one selection to the next, of the ops and folds, which are the same
            whatever is open.

    Returns:
        The selection. Its nodes come after all that they use.

    Raises:
        ValueError: If the trace has no pass number `which`.
    """
    known = {} if known is None else known
    one = trace, which, full
    if one not in known:
        known[one] = folding.prune(*one)
    pruned: Pruned = known[one]
    found: Sequence[Fold] = [Fold(op=op) for op in pruned.ops]
    opened: Collection[str] = ()
    if limit is not None and (framed or (not full and len(found) > limit)):
        chosen = [name.rpartition("@") for name in toggled if "@" in name]
        at = {name: int(k) for name, _, k in chosen if k.isdecimal()}
        most = max(limit, len(pruned.ops)) if full else limit
        folds = *one, most, tuple(sorted(at.items()))
        if folds not in known:
            known[folds] = folding.tree(pruned, most, at)
        found = known[folds]
        opened = folding.opened(found, most) ^ set(toggled)
    shown = _Builder(pruned, found, opened, framed).selection()
    if limit is not None and not full:
        shown = _with_uses(shown)
    return _with_bodies(shown, toggled) if framed else shown


class _Builder:
    """Makes the nodes and edges, once it is known which ops belong together."""

    def __init__(
        self, pruned: Pruned, found: Sequence[Fold], opened: Collection[str], framed: bool
    ) -> None:
        self.pruned, self.opened, self.framed = pruned, opened, framed
        self.pass_ = pruned.pass_
        self.around: dict[Fold, int] = {}  # each fold that is a node, and the index of its frame
        self.frames: list[Frame] = []
        self.repeats: list[folding.Repeats] = []
        self._unfold(found, -1)
        self.where = {op: fold for fold in self.around for op in fold.ops}
        self.folds = list(self.around)
        self.index = {fold: i for i, fold in enumerate(self.folds)}
        self.outputs = self._outputs()
        self.step_of = {s.op: (i, s) for i, s in enumerate(self.pass_.steps, 1)}
        below = (step for each in pruned.below for step in each.steps if step.op.kind == "custom")
        self.ruled = {op for step in below for op in step.ops}
        self.live = {  # values that a tape follows: what a rule returns for others, the tape drops
            v.key for op in pruned.levels for i, v in enumerate(op.inputs) if op.follows(i)
        }
        # By key: values whose upstream is shown, and gradients: the first of a source given twice.
        self.reached = self.live | {target.key for target in self.pass_.targets}
        pairs = zip(self.pass_.sources, self.pass_.gradients, strict=True)
        self.gradients = {source.key: gradient for source, gradient in reversed([*pairs])}

    def _unfold(self, found: Sequence[Fold], frame: int) -> None:
        """One node for each closed fold, and a frame for each open one."""
        for each in found:
            label, repeats = each.label, each.repeats
            if repeats:
                self.repeats.append(repeats)
                label = f"{repeats.at + 1} of {len(repeats.labels)}: {label}"
            if each.op or each.name not in self.opened:
                self.around[each] = frame
                continue
            inner = frame
            if self.framed or repeats:
                inner = len(self.frames)
                level = self.pruned.levels[each.ops[0]]
                self.frames.append(Frame(each.name, label, frame, level=level))
            self._unfold(each.members, inner)

    def _outputs(self) -> dict[Fold, tuple[Value, ...]]:
        """Per node, all outputs of one op; of folded ops, those used outside or as targets.

        Of a variable that was assigned to, the values that the pass used or was asked for.
        """
        used = {self.pruned.value(target).key for target in self.pass_.targets}
        for op, fold in self.where.items():
            for value in op.inputs + op.captured:
                maker = self.pruned.maker(value)
                if maker and self.where.get(maker) is not fold:
                    used.add(self.pruned.value(value).key)
        found, kept = {}, used | self.pruned.asked
        for fold in self.folds:
            op, *others = fold.ops
            keys = used if others else kept
            some = tuple(v for each in fold.ops for v in each.outputs if v.key in keys)
            whole = not others and (op.kind != "variable" or not some)
            found[fold] = op.outputs if whole else some
        return found

    def selection(self) -> Selection:
        """The selection: all nodes, edges, targets, frames and repeats."""
        return Selection(
            tuple(map(self._node, self.folds)),
            tuple(edge for fold in self.folds for edge in self._edges(fold)),
            self._targets(),
            len(self.pass_.steps),
            None if self.pass_ is NO_PASS else self.pass_.index,
            tuple(self.frames),
            repeats=tuple(self.repeats),
        )

    def _node(self, fold: Fold) -> Node:
        outputs = self.outputs[fold]
        steps = sorted(self.step_of[op] for op in fold.ops if op in self.step_of)
        label, symbol, kind = self._words(fold)
        stays = len(fold.ops) == 1 or fold.name.startswith("rest")
        return Node(
            f"{self.index[fold]}:{label or symbol}",
            label,
            symbol,
            kind,
            fold.ops,
            outputs,
            tuple(self._upstream(v) for v in outputs),
            tuple(s for _, s in steps),
            tuple(i for i, _ in steps),
            tuple(k for k, v in enumerate(outputs) if v.key in self.pruned.asked),
            "" if stays else fold.name,
            min(self.pruned.levels[op] for op in fold.ops),
            self.around[fold],
            ruled=self.ruled.issuperset(fold.ops),
        )

    def _targets(self) -> tuple[Edge, ...]:
        """One edge for each target; the upstreams of a target that is given twice add up."""
        places = {v.key: (fold, k) for fold in self.folds for k, v in enumerate(self.outputs[fold])}
        found: dict[int, list[Edge]] = {}
        for target, seed in zip(self.pass_.targets, self.pass_.seeds, strict=True):
            key = self.pruned.value(target).key
            if key in places:
                fold, k = places[key]
                edge = Edge(self.index[fold], k, -1, -1, self.outputs[fold][k], seed)
                found.setdefault(key, []).append(edge)
        edges = [_joined(same, total) for same in found.values()]
        return tuple(sorted(edges, key=lambda edge: edge.source))

    def _upstream(self, value: Value) -> Array | None:
        if value.key in self.gradients:
            return self.gradients[value.key]
        return self.pass_.upstream(value) if value.key in self.reached else None

    def _words(self, fold: Fold) -> tuple[str, str, str]:
        """A node's label, symbol and kind."""
        op = fold.ops[0]
        if len(fold.ops) > 1:
            ops = sum(o.kind != "variable" for o in fold.ops)
            variables = len(fold.ops) - ops
            symbol = f"{ops} op{'s' * (ops != 1)}"
            if variables:
                symbol += f", {variables} variable{'s' * (variables != 1)}"
            return fold.label.rsplit("/", 1)[-1], symbol, "scope"
        if op.kind in ("input", "variable", "constant", "port"):
            return op.name, "", op.kind
        label = op.name if names.own_name(op) else ""
        if op.kind == "custom":
            return label, op.type, "custom"
        makers = [self.pruned.maker(v) for v in op.inputs]
        constants = {
            i: names.operand(op.inputs[i], made)
            for i, made in enumerate(makers)
            if made in self.pruned.hidden
        }
        drawn = next((made for i, made in enumerate(makers) if made and i not in constants), None)
        return label, names.symbol(op, constants, _short(drawn)), op.kind

    def _edges(self, fold: Fold) -> list[Edge]:
        """The edges to a node.

        A folded node has one edge for all its uses of a value. Many values of one shape between two
        nodes, one of them folded, are one edge, too.
        """
        found: dict[object, list[Edge]] = {}
        for op in fold.ops:
            order, step = self.step_of.get(op, (0, None))
            downstream = () if step is None else step.downstream
            for position, value in enumerate(op.inputs + op.captured):
                maker = self.pruned.maker(value)
                source = self.where.get(maker) if maker else None
                if maker is None or source is None or source is fold:
                    continue
                key = self.pruned.value(value).key
                captured = position >= len(op.inputs)
                flows = step is not None and not captured and op.follows(position)
                given = downstream[position] if flows else None
                edge = Edge(
                    self.index[source],
                    next(i for i, v in enumerate(self.outputs[source]) if v.key == key),
                    self.index[fold],
                    -1 if captured else position,
                    value,
                    given,
                    self._reason(op, position, maker),
                    order if given is not None else 0,
                )
                many = len(fold.ops) > 1
                found.setdefault((source, key) if many else position, []).append(edge)
        beside: dict[object, list[Edge]] = {}  # edges between two nodes one of which is folded
        for name, uses in found.items():
            edge = _joined(uses, total, position=min(e.position for e in uses))
            folded = len(fold.ops) > 1 or len(self.folds[edge.source].ops) > 1
            beside.setdefault((edge.source, edge.value.shape) if folded else name, []).append(edge)
        edges = []
        for alike in beside.values():
            edges += [_bundled(alike)] if len(alike) > MOST_BESIDE else alike
        return edges

    def _reason(self, op: Op, position: int, maker: Op) -> str:
        if self.pass_ is NO_PASS or maker.kind == "constant" or maker in self.pruned.hidden:
            return ""
        if position >= len(op.inputs):
            return "captured by closure"
        step = self.step_of.get(op, (0, None))[1]
        arrives = step is None and any(self._upstream(v) is not None for v in op.outputs)
        value = op.inputs[position]
        live = value.key in self.live or value.key in self.pruned.asked or any(maker.watched)
        shown = self.pruned.value(value)
        known = op, position, step, arrives, live
        found = names.reason(*known) if shown.differentiable else names.dtype(shown.dtype)
        if maker.kind in ("op", "custom") and (found == "not watched" or not shown.differentiable):
            return ""  # said once, where the path breaks, and not again at each op behind it
        return found


def _short(maker: Op | None) -> str:
    """The learner's name for what an op made, if it is short enough to be the x in x²."""
    name = maker.name if maker and names.own_name(maker) else ""
    return name if name.isidentifier() and len(name) <= LONGEST_NAME else ""


def _joined(edges: Sequence[Edge], join: Callable[[Sequence[Any]], Any], **how: Any) -> Edge:
    """Several uses as one edge; `join` makes its contribution from theirs."""
    if len(edges) == 1:
        return edges[0]
    given = [e.contribution for e in edges if e.contribution is not None]
    return replace(
        edges[0],
        contribution=join(given) if given else None,
        reason="" if given else next((e.reason for e in edges if e.reason), ""),
        order=max(e.order for e in edges),
        uses=sum(e.uses for e in edges),
        **how,
    )


def _bundled(edges: Sequence[Edge]) -> Edge:
    """Uses of many values by one node as one edge: values and contributions are stacked."""
    values = [e.value for e in edges]
    shape = (len(values), *values[0].shape)
    value = replace(values[0], shape=shape, reference=stacked([v.numpy() for v in values]))
    return _joined(edges, stacked, value=value, values=len(values))


# --- uses ----------------------------------------------------------------------------------------


def _with_uses(shown: Selection) -> Selection:
    """Give variables and inputs that are used often a node at each of their uses."""
    uses = {
        i: sum(e.uses for e in shown.outgoing[i])
        for i, node in enumerate(shown.nodes)
        if node.kind in ("variable", "input") and not shown.starts(i)
    }
    often = {i for i, count in uses.items() if count > OFTEN}
    if not often:
        return shown
    nodes: list[Node] = []
    place: dict[int, int] = {}
    edges = []
    arriving = {i: list(own) for i, own in groupby(shown.edges, attrgetter("target"))}
    for i, node in enumerate(shown.nodes):
        own = []
        for edge in arriving.get(i, ()):
            own.append(replace(edge, source=place[edge.source]))
            if edge.source in often:
                own[-1] = replace(edge, source=len(nodes))
                nodes.append(_use(shown.nodes[edge.source], edge, node))
        place[i] = len(nodes)
        nodes.append(replace(node, uses=uses[i]) if i in often else node)
        edges += [replace(edge, target=place[i]) for edge in own]
    targets = [replace(edge, source=place[edge.source]) for edge in shown.targets]
    return replace(shown, nodes=tuple(nodes), edges=tuple(edges), targets=tuple(targets))


def _use(node: Node, edge: Edge, user: Node) -> Node:
    key, label = f"{user.key}:{edge.position}:{node.key}", node.label.rsplit("/", 1)[-1]
    use = replace(node, key=key, label=label, kind="use", asked=(), uses=edge.uses)
    return replace(use, level=user.level, frame=user.frame)


# --- opened custom ops ---------------------------------------------------------------------------


def _with_bodies(shown: Selection, names: Collection[str]) -> Selection:
    """Open the custom ops in `names`; each that can be opened gets a `group`.

    The nodes of their bodies come after all other nodes.
    """
    nodes, edges, frames = list(shown.nodes), list(shown.edges), list(shown.frames)
    for i, node in enumerate(nodes):  # the list grows: a body may have custom ops of its own
        if node.kind != "custom" or not 0 < len(node.ops[0].body) <= MOST_NODES:
            continue
        around = f"{nodes[node.owner].group}/" if node.owner >= 0 else ""
        nodes[i] = named = replace(node, group=f"{around}custom:{node.ops[0].name}")
        if named.group in names:
            within, uses = _body(named, len(nodes))
            nodes += [
                replace(each, frame=len(frames), owner=i, level=node.level) for each in within
            ]
            edges += uses
            label = node.label or node.symbol
            frames.append(Frame(named.group, label, node.frame, i, node.level))
    return replace(shown, nodes=tuple(nodes), edges=tuple(edges), frames=tuple(frames))


def _body(node: Node, first: int) -> tuple[list[Node], list[Edge]]:
    """The nodes in a custom op and the edges between them; `first` is the first node's index."""
    (op,) = node.ops
    given = {v.key: v for v in (*op.captured, *op.inputs)}
    ports = [Op("", "port", "Port", (), (v,)) for v in given.values()]
    pairs = zip(op.returned, op.outputs, strict=True)
    ends = [Op("", "port", "Port", (made,), (value,)) for made, value in pairs]
    body = select(Trace("", None, (), {}, (*ports, *op.body, *ends), ()), limit=None)
    nodes = [replace(each, key=f"{first}:{each.key}") for each in body.nodes]
    edges = [replace(e, source=e.source + first, target=e.target + first) for e in body.edges]
    return nodes, edges
