"""Why a gradient is None: where the paths from its source to the targets are cut.

The paths are followed as far as a tape followed them. `CAUSES` are the records of what can cut
them: the first that holds is told. The learner's own text tells a stopped tape from a missing one,
and where NumPy is called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from ..findings import Finding
from ..graph import Op, Source, Value
from ..graph.selection import Edge
from ..lessons import INPUTS, KINKS, NESTED, VARIABLES
from .pass_graph import (
    ASSIGNS,
    MOST_ORIGINS,
    Case,
    Cause,
    PassGraph,
    at,
    calls,
    gradient_call,
    inside_tape,
    line,
    listed,
    numpy_call,
    walk,
)


def find(graph: PassGraph) -> list[Finding]:
    """Explain every None among the gradients of a pass.

    Args:
        graph: The pass.

    Returns:
        One finding per place where gradients stop, with all the sources behind it.
    """
    groups: dict[object, Cut] = {}
    for value, gradient in graph.gradients:
        # An argument of `trace` may be an integer; one that was asked for is a mistake.
        if gradient is None and (graph.trace.asked or value.differentiable):
            for cut in cuts(graph, value):
                key = cut.op or value.key, cut.cause.name
                groups.setdefault(key, cut).sources.append(value)
    cut_ops = {cut.op for cut in groups.values()}
    for step in graph.pass_.steps:  # a gradient that is incomplete, though not None
        if step.op.captured and step.op not in cut_ops:
            cut = groups[step.op] = Cut(graph, "captured by closure", step.op)
            cut.sources += step.op.captured
    return [cut.finding() for cut in groups.values()]


def dropped(graph: PassGraph) -> list[Finding]:
    """Custom rules that TensorFlow did not use: one finding per line that calls one."""
    ops = [op for op in graph.trace.ops if op.rule_dropped and op.kind in ("op", "custom")]
    first = {line(op.source) + line(op.rule): op for op in reversed(ops)}
    found = [Cut(graph, "rule dropped", op).finding() for op in reversed(first.values())]
    return [replace(each, which=None) for each in found]


# --- where a path is cut -----------------------------------------------------------------------


def cuts(graph: PassGraph, value: Value) -> list[Cut]:
    """Where the paths from a source to the targets are cut: the first three places."""
    start = graph.node(value)
    if not value.differentiable or start is None or not graph.onward(start):
        return [_without_path(graph, start, value)]
    found: dict[object, Cut] = {}

    def onward(node: int) -> Iterator[int]:
        for edge in graph.onward(node):
            cut = _at_edge(graph, edge)
            if cut is None:
                yield edge.target
            else:
                found.setdefault((cut.op, cut.cause.name), cut)

    for _ in walk([start], onward):
        pass
    return list(found.values())[:MOST_ORIGINS]


def _at_edge(graph: PassGraph, edge: Edge) -> Cut | None:
    """The cut where an op uses a value, if the gradient stops there."""
    op, value = graph.op(edge.target), edge.value
    if not value.differentiable:
        return Cut(graph, "integers", graph.op(edge.source), value)
    if op.outputs and not any(v.differentiable for v in op.outputs):  # as a comparison
        return Cut(graph, "integers", op, op.outputs[0])
    if followed(graph, edge) and op not in graph.pass_.step_of:
        node = graph.selection.nodes[edge.target]
        arrived = node.targets or any(u is not None for u in node.upstream)
        return Cut(graph, "another tape", op, value) if arrived else None
    # Without a reason: nothing would flow on if something arrived.
    return Cut(graph, edge.reason or "not watched", op, value)


def followed(graph: PassGraph, edge: Edge) -> bool:
    """Whether a tape follows along an edge, from the value into the op."""
    op, i = graph.op(edge.target), edge.position
    if i < 0 or not op.recorded or op.rule_missing:
        return False
    return i >= len(op.watched) or op.watched[i]


def _without_path(graph: PassGraph, start: int | None, value: Value) -> Cut:
    """Why no path leads from a source to a target: it is followed further than a tape did."""
    if start is None or not value.differentiable:
        return Cut(graph, "no path", None, value)
    leaving = graph.selection.outgoing
    reached = sorted(walk([start], lambda node: [edge.target for edge in leaving[node]]))
    ops = [graph.op(node) for node in reached]
    if inner := _inner_gradient(graph, ops):
        return inner
    targets = [made for t in graph.pass_.targets if (made := graph.maker(t))]
    for op in reversed(ops):  # the last value whose numbers leave
        for output in op.outputs:
            if taken := numpy_call(op, graph.name(output).strip("`"), targets):
                return Cut(graph, "NumPy", op, output, taken)
    used = [edge.target for edge in leaving[start]]
    return Cut(graph, "no path", graph.op(max(used)) if used else None, value)


def _inner_gradient(graph: PassGraph, reached: list[Op]) -> Cut | None:
    """The gradient of an earlier pass that the targets are made of, and that no tape recorded."""
    passes = graph.trace.passes[: graph.pass_.index]
    taken = {id(g): each for each in passes for g in each.gradient_references if g is not None}
    made = {v.key for op in reached for v in op.outputs}
    before = walk(graph.pass_.targets, lambda v: op.inputs if (op := graph.maker(v)) else ())
    for value in before:
        inner, maker = taken.get(id(value.reference)), graph.maker(value)
        unseen = maker is None or maker.kind in ("input", "constant")
        if inner and unseen and any(target.key in made for target in inner.targets):
            differentiated = graph.maker(inner.targets[0])
            call = gradient_call(differentiated) if differentiated else None
            return Cut(graph, "inner gradient", differentiated, value, call)
    return None


class Cut(Case):
    """One place where a path is cut, with what its causes look at and its words name.

    `op` uses the value, or makes it; without a path it is the last that uses it, if there is one.
    `line` is where the path is cut, if that is no line of the op.
    """

    def __init__(
        self,
        graph: PassGraph,
        reason: str,  # the name of a cause, or what an edge says: "not watched", "no path", ...
        op: Op | None,
        value: Value | None = None,
        line: Source | None = None,
    ) -> None:
        self.graph, self.reason, self.op, self.value, self.line = graph, reason, op, value, line
        self.sources: list[Value] = []  # whose gradient it cuts
        self.source = op.source if op else None
        maker = graph.maker(value) if value else None
        self.kind = maker.kind if maker else "input"
        if value and value.dtype == "resource":  # a variable that was written to and not read
            self.kind = "variable"
        self.no_path = reason == "no path"
        self.no_float = value and not value.differentiable and value.dtype != "resource"
        self.unwatched = reason in ("not watched", "nothing arrives") and self.kind
        unseen = self.unwatched or reason == "tape not recording"
        self.block = inside_tape(self.source).replace("inside", "") if unseen else ""

    @cached_property
    def cause(self) -> Cause:
        """The record that the reason names, or the first that holds."""
        return next(c for c in CAUSES if c.name == self.reason or (c.when and c.when(self)))

    @property
    def watched_elsewhere(self) -> bool:
        """Whether a tape watched the value when another op used it."""
        ops = self.graph.trace.ops if self.unwatched else ()
        uses = (use for op in ops for use in zip(op.inputs, op.watched, strict=False))
        return any(each is self.value and watched for each, watched in uses)

    @property
    def independent(self) -> bool:
        """Whether the target is a gradient, on which the source has no influence."""
        forward = {v.key for op in self.graph.trace.ops for v in op.outputs}
        pass_ = self.graph.pass_
        return pass_.index > 0 and any(t.key not in forward for t in pass_.targets)

    def finding(self) -> Finding:
        """What is said of the sources behind it."""
        graph, op, value, sources = self.graph, self.op, self.value, self.sources
        who = listed(map(graph.name, sources)) if sources else ""
        made = graph.maker(sources[0]) if sources else None
        captured = ([value] if value else op.captured) if op else ()
        is_none = not sources or sources[0] in graph.pass_.sources
        where, due = _BLOCKS[self.block]
        known = {
            "who": f"{who} got None" if is_none else f"the gradient of {who} is incomplete",
            "here": at(op) if op else "",
            "call": line(self.source),
            "rule": line(op.rule if op else None),
            "taken": line(self.line),
            "name": graph.name(value) if value else "that input",
            "kind": _KINDS.get(value.dtype, f"{value.dtype} numbers") if value else "",
            "source": who.strip("`"),
            "plain": re.sub(r"_\d+$", "", who.strip("`")),  # two of one name are `v` and `v_1`
            "made": at(made) if made else "",
            "captured": listed(map(graph.name, captured)) if captured else "a tensor",
            "flat": " It is flat between its steps." if op and op.type in _STEPS else "",
            "where": where,
            "due": due,
            "assigned": _ASSIGNED if calls(self.source, ASSIGNS) else "",
        }
        words = self.cause.words(known)
        return replace(graph.finding("none", words, op, sources), line=self.line)


# --- what is said of it ------------------------------------------------------------------------

_KINDS = {"bool": "True and False", "string": "texts"}
_ASSIGNED = " No gradient flows through the assignment there."
_STEPS = frozenset(("Round", "Rint", "Floor", "Ceil", "FloorDiv", "FloorMod", "Cast", "Bucketize"))
_BLOCKS = {  # where a line ran, and where it should be
    "stopped": ("inside `stop_recording`, so no tape saw it", "out of the `stop_recording` block"),
    "outside": ("outside the `with tf.GradientTape()` block", "into the block"),
    "": ("where no tape followed it", "into the block"),
}
CAUSES = (
    Cause("no float", when=lambda cut: cut.no_path and cut.no_float).says(
        "{who}: it holds {kind}, and TensorFlow gives these no gradient.",
        "Leave it out of the sources, or make it a float first: `2.`, `tf.cast(x, tf.float32)`.",
    ),
    Cause("inner gradient", NESTED).says(
        "{who}: the inner gradient was taken outside the outer tape{taken}, which therefore saw a "
        "constant.",
        "Call the inner tape's `gradient` inside the `with` block of the outer tape.",
    ),
    Cause("NumPy").says(
        "{who}: the numbers of {name} left TensorFlow{taken}. No tape follows NumPy.",
        "Use TensorFlow's own functions there, and the tensor itself in place of its numbers.",
    ),
    Cause("independent", NESTED, when=lambda cut: cut.no_path and cut.independent).says(
        "{who}: no tape followed a path from it to the gradient that is differentiated here. As a "
        "derivative that means 0.",
        "For 0 write `tape.gradient(..., unconnected_gradients='zero')`. If it should depend on "
        "it, the rule uses numbers in place of tensors, or no outer tape saw the first gradient.",
    ),
    Cause("dead end", when=lambda cut: cut.no_path and cut.op).says(
        "{who}: {here} uses it, and what comes of it never reaches the target.{assigned}",
        "Check which result is returned and differentiated.",
    ),
    Cause("not read", VARIABLES, when=lambda cut: cut.no_path and cut.kind == "variable").says(
        "{who}: no op that ran reads this variable. An assignment is no reading: no gradient flows "
        "through it.",
        "Use it in what is differentiated, or leave it out of the sources.",
    ),
    Cause("unused", when=lambda cut: cut.no_path).says(
        "{who}: no TensorFlow op that was recorded uses it.",
        "Use it, or leave it out, and record the forward pass too. For 0 write "
        "`tape.gradient(..., unconnected_gradients='zero')`.",
    ),
    Cause("watched elsewhere", when=lambda cut: cut.watched_elsewhere).says(
        "{who}: {here} used it before a tape watched it, or on another tape.",
        "Move the line into the block of the tape that is asked, below its `watch`.",
    ),
    Cause("tape not recording", when=lambda cut: cut.block).says(
        "{who}: {here} ran {where}.",
        "Move the line {due}.",
    ),
    Cause("variable", VARIABLES, when=lambda cut: cut.unwatched == "variable").says(
        "{who}: no tape watched this variable when {here} used it. A tape watches by itself only "
        "variables that are trainable.",
        "Make it with `trainable=True`, or call `tape.watch({source})` first.",
    ),
    Cause("input", when=lambda cut: cut.unwatched == "input").says(
        "{who}: no tape watched it when {here} used it.",
        "Call `tape.watch({source})` at the top of the block, or make it a tf.Variable.",
    ),
    Cause("tensor", VARIABLES, when=lambda cut: cut.unwatched).says(
        "{who}: it is a plain tensor, made by {made}, and no tape watched it when {here} used it.",
        "If it was a variable, `=` has put a tensor in its place: write `{plain}.assign_sub(...)`. "
        "Else call `tape.watch` on it.",
    ),
    Cause("integers", KINKS).says(
        "{who}: {here} makes {kind}, and these have no gradient.",
        "Keep to floating-point numbers, or write a straight-through or a surrogate rule with "
        "@tf.custom_gradient.",
    ),
    Cause("stop_gradient", KINKS).says(
        "{who}: {here} lets the value through and no gradient.",
        "Take tf.stop_gradient away, or write the gradient with @tf.custom_gradient.",
    ),
    Cause("no rule", KINKS, when=lambda cut: cut.reason.startswith("no gradient for")).says(
        "{who}: TensorFlow has no gradient for {here}.{flat}",
        "Use a straight-through rule, `x + tf.stop_gradient(q - x)` with q what the op gives, or "
        "a surrogate with @tf.custom_gradient.",
    ),
    Cause("captured by closure", INPUTS).says(
        "{who}: the custom gradient {here} closes over {captured}, so nothing flows back there.",
        "Make {captured} an argument, and return a gradient for every argument{rule}.",
    ),
    Cause("the rule returned None", INPUTS).says(
        "{who}: the rule of {here} returned None for its input {name}.",
        "Return upstream times the derivative for this input too.",
    ),
    Cause("rule dropped", INPUTS).says(
        "the call{call} did not use its custom rule{rule}: no positional argument is watched by a "
        "tape, and arguments passed by keyword do not count. TensorFlow differentiates the body.",
        "Pass the arguments by position: `f(x)`, not `f(x=x)`. A tensor that the function closes "
        "over must be an argument too.",
    ),
    Cause("another tape", when=lambda cut: True).says(
        "{who}: {here} is not on the tape that was asked.",
        "Ask the tape that recorded this line, or open one tape around all of it.",
    ),
)
