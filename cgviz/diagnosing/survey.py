"""One backward pass laid out to be walked: which op used what, what arrived, what was handed back.

The edges are those of `selection`, with its reasons; here they are followed both ways. The words
that every finding needs, such as an op with the learner's own line, are here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .. import style
from ..graph import Array, Op, Pass, Source, Step, Trace, Value
from ..graph.jacobian import wide
from ..graph.names import SHAPE_HELPERS, value_name
from ..graph.selection import Edge, Node, Selection, select


class Survey:
    """One pass of a trace, with what is needed to walk it."""

    def __init__(self, trace: Trace, pass_: Pass) -> None:
        self.trace = trace
        self.pass_ = pass_

    @cached_property
    def selection(self) -> Selection:
        """Every op and every edge of the pass."""
        return select(self.trace, self.pass_.index, full=True, limit=None)

    @cached_property
    def _place(self) -> dict[int, int]:
        return {v.key: i for i, node in enumerate(self.selection.nodes) for v in node.outputs}

    @property
    def first_order(self) -> bool:
        """Whether the pass went over forward ops only."""
        forward = set(self.trace.ops)
        return all(step.op in forward for step in self.pass_.steps)

    @property
    def first_order_targets(self) -> bool:
        """Whether the targets were made in the forward pass."""
        forward = {v.key for op in self.trace.ops for v in op.outputs}
        return all(t.key in forward for t in self.pass_.targets)

    @property
    def unknown_target(self) -> bool:
        """Whether no op that the recording saw made any of the targets."""
        places = [self.place(t) for t in self.pass_.targets]
        return all(p is None or self.op(p).kind in ("constant", "input") for p in places)

    def place(self, value: Value) -> int | None:
        """The index of the node that made `value`."""
        return self._place.get(value.key)

    def op(self, node: int) -> Op:
        """The op of a node."""
        return self.selection.nodes[node].ops[0]

    def node(self, index: int) -> Node:
        """A node of the selection."""
        return self.selection.nodes[index]

    def name(self, value: Value) -> str:
        """The learner's name of a value, as code."""
        return f"`{value_name(self.trace, value)}`"

    def contributions(self, value: Value) -> list[tuple[Step, int, Array]]:
        """What each use of a value handed back; for a variable all reads of it."""
        maker = self.trace.producer(value)
        if maker is None or maker[0].kind != "variable":
            return self.pass_.contributions(value)
        return [part for v in maker[0].outputs for part in self.pass_.contributions(v)]

    def seed(self, value: Value) -> Array | None:
        """The upstream that a target started with; None for what is no target."""
        for target, seed in zip(self.pass_.targets, self.pass_.seeds, strict=True):
            if target.key == value.key:
                return seed
        return None

    def path_edges(self, start: int) -> list[Edge]:
        """The edges on the ways from a node to the targets, past ops that tell of shapes only."""
        nodes, outgoing = self.selection.nodes, self.selection.outgoing
        reached, stack = {start}, [start]
        forward: list[Edge] = []
        while stack:
            for edge in outgoing[stack.pop()]:
                if self.op(edge.target).type in SHAPE_HELPERS:
                    continue
                forward.append(edge)
                if edge.target not in reached:
                    reached.add(edge.target)
                    stack.append(edge.target)
        wanted = {i for i in reached if nodes[i].targets}
        for edge in sorted(forward, key=lambda e: -e.source):  # edges lead to later nodes
            if edge.target in wanted:
                wanted.add(edge.source)
        return [edge for edge in forward if edge.target in wanted]

    def followed(self, edge: Edge) -> bool:
        """Whether a tape follows along this edge, from the value into the op."""
        op, i = self.op(edge.target), edge.position
        if i < 0 or not op.recorded or op.rule_missing:
            return False
        return i >= len(op.watched) or op.watched[i]


@dataclass(frozen=True, eq=False)
class Origin:
    """Where something began: at a step's input, at a target's seed, or where ways meet."""

    value: Value
    step: Step | None = None
    position: int = 0
    meets: bool = False


# --- words -------------------------------------------------------------------------------------


def at(op: Op) -> str:
    """An op with the learner's own line: "Round (line 3: `y = tf.round(x)`)"."""
    name = f"`{op.type}`" if op.kind == "custom" else op.type
    if op.kind in ("input", "variable", "constant"):
        return f"`{op.name}`"
    return name + line(op.source or op.rule)


def line(source: Source | None) -> str:
    """The learner's own line in brackets, with a space before; empty where it is not known."""
    if source is None:
        return ""
    text = source.text if len(source.text) <= 70 else source.text[:69] + "…"
    return f" (line {source.line}: `{text}`)" if text else f" (line {source.line})"


def names(given: Iterable[str]) -> str:
    """Some names as a list: "`x`, `y` and 3 more"."""
    unique = list(dict.fromkeys(given))
    if len(unique) > 4:
        unique = [*unique[:3], f"{len(unique) - 3} more"]
    return unique[0] if len(unique) == 1 else f"{', '.join(unique[:-1])} and {unique[-1]}"


def shown(array: Any) -> str:
    """A few numbers in full, many by their range."""
    a = wide(array)
    if a.size <= 4 or a.dtype.kind == "c":
        return style.array(a, most=4)
    return f"{a.size} numbers from {style.number(a.min())} to {style.number(a.max())}"


def is_zero(array: Any) -> bool:
    """Whether there are numbers, all of them zero."""
    a = wide(array)
    return a.size > 0 and not a.any()


def is_bad(array: Any) -> bool:
    """Whether there is a NaN or an infinity."""
    return not bool(np.isfinite(wide(array)).all())


def outputs_with(step: Step, arrays: Sequence[Array | None], test: Any) -> list[Value]:
    """The outputs of a step whose upstream passes a test."""
    pairs = zip(step.op.outputs, arrays, strict=True)
    return [value for value, array in pairs if array is not None and test(array)]
