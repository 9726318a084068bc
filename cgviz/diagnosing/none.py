"""Why a gradient is None: where the paths from its source to the targets are cut.

The paths are followed as far as a tape followed them. `CAUSES` are the records of what can cut
them; the learner's own text tells a stopped tape from a missing one, and where NumPy is called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ..findings import Finding
from ..graph import Op, Source, Value
from ..graph.selection import Edge
from ..lessons import INPUTS, KINKS, NESTED, VARIABLES
from .code import ASSIGNS, at, calls, gradient_call, inside_tape, line, numpy_call
from .pass_graph import MOST_ORIGINS, Cause, PassGraph, listed, walk


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
                key = cut.op or value.key, cut.reason
                groups.setdefault(key, cut).sources.append(value)
    cut_ops = {cut.op for cut in groups.values()}
    for step in graph.pass_.steps:  # a gradient that is incomplete, though not None
        if step.op.captured and step.op not in cut_ops:
            groups[step.op] = Cut("captured by closure", step.op, sources=list(step.op.captured))
    return [_finding(graph, cut) for cut in groups.values()]


def dropped(graph: PassGraph) -> list[Finding]:
    """Custom rules that TensorFlow did not use: one finding per call."""
    found, before = [], False
    for op in graph.trace.ops:
        is_op = op.kind in ("op", "custom")
        if op.rule_dropped and not before and is_op:
            found.append(replace(_finding(graph, Cut("rule dropped", op)), which=None))
        before = op.rule_dropped or (before and not is_op)
    return found


# --- where a path is cut -----------------------------------------------------------------------


@dataclass
class Cut:
    """One place where a path is cut."""

    reason: str  # the name of one of the `CAUSES`
    op: Op | None = None
    value: Value | None = None  # what the op takes or makes, or what has no path
    line: Source | None = None  # if it is no line of the op
    sources: list[Value] = field(default_factory=list)  # whose gradient it cuts


def cuts(graph: PassGraph, value: Value) -> list[Cut]:
    """Where the paths from a source to the targets are cut: the first three places."""
    if value.dtype == "resource":  # a variable that was written to and not read
        return [Cut("not read", value=value)]
    if not value.differentiable:
        return [Cut("no float", value=value)]
    start = graph.node(value)
    if start is None:
        bodies = ((op, inner) for op in graph.trace.ops for inner in op.body)
        around = next((op for op, inner in bodies if value in inner.outputs), None)
        return [Cut("unused", value=value) if around is None else Cut("in a body", around, value)]
    if not graph.onward(start):
        return [_without_path(graph, start, value)]
    found: dict[object, Cut] = {}

    def onward(node: int) -> Iterator[int]:
        for edge in graph.onward(node):
            cut = _cut(graph, edge)
            if cut is None:
                yield edge.target
            else:
                found.setdefault((cut.op, cut.reason), cut)

    for _ in walk([start], onward):
        pass
    return list(found.values())[:MOST_ORIGINS]


def _cut(graph: PassGraph, edge: Edge) -> Cut | None:
    """The cut on an edge, if the gradient stops there."""
    op, value = graph.op(edge.target), edge.value
    if not value.differentiable:
        return Cut("integers", graph.op(edge.source), value)
    if op.outputs and not any(v.differentiable for v in op.outputs):  # as a comparison
        return Cut("integers", op, op.outputs[0])
    if op not in graph.pass_.step_of and followed(graph, edge):
        node = graph.selection.nodes[edge.target]
        arrived = node.targets or any(u is not None for u in node.upstream)
        return Cut("another tape", op, value) if arrived else None
    idle = edge.reason in ("", "nothing arrives")  # nothing would flow on if something arrived
    reason = "not watched" if idle else edge.reason
    if reason == "not watched":
        maker = graph.maker(value)
        kind = maker.kind if maker else "input"
        reason = f"{kind if kind in ('input', 'variable') else 'tensor'} not watched"
        uses = (zip(each.inputs, each.watched, strict=False) for each in graph.trace.ops)
        if any(each is value and watched for use in uses for each, watched in use):
            reason = "watched elsewhere"
    if reason == "tape not recording" or reason.endswith("not watched"):
        written = {"stopped": "tape stopped", "outside": "outside the tape"}
        reason = written.get(inside_tape(op.source), reason)
    return Cut("no rule" if reason.startswith("no gradient for") else reason, op, value)


def followed(graph: PassGraph, edge: Edge) -> bool:
    """Whether a tape follows along an edge, from the value into the op."""
    op, i = graph.op(edge.target), edge.position
    if i < 0 or not op.recorded or op.rule_missing:
        return False
    return i >= len(op.watched) or op.watched[i]


def _without_path(graph: PassGraph, start: int, value: Value) -> Cut:
    """Why no path leads from a source to a target."""
    leaving = graph.selection.outgoing
    reached = sorted(walk([start], lambda node: [edge.target for edge in leaving[node]]))
    inner = _inner_gradient(graph, [graph.op(node) for node in reached])
    if inner is not None:
        return inner
    targets = [made for t in graph.pass_.targets if (made := graph.maker(t))]
    for node in reversed(reached):  # the last value whose numbers leave
        for output in graph.op(node).outputs:
            found = numpy_call(graph.op(node), graph.name(output).strip("`"), targets)
            if found:
                return Cut("NumPy", graph.op(node), output, found)
    forward = {v.key for op in graph.trace.ops for v in op.outputs}
    if graph.pass_.index and any(t.key not in forward for t in graph.pass_.targets):
        return Cut("independent", value=value)
    if leaving[start]:
        return Cut("dead end", graph.op(max(edge.target for edge in leaving[start])), value)
    if graph.op(start).kind == "variable":
        return Cut("not read", value=value)
    seen = any(op.kind not in ("constant", "input") for op in targets)
    return Cut("unused" if seen else "target not recorded", value=value)


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
            return Cut("inner gradient", differentiated, value, call)
    return None


# --- what is said of it ------------------------------------------------------------------------

_NO_NUMBERS = {"bool": "True and False", "string": "texts"}
_ASSIGNED = " No gradient flows through the assignment there."
_STEPS = frozenset(("Round", "Rint", "Floor", "Ceil", "FloorDiv", "FloorMod", "Cast", "Bucketize"))


def _finding(graph: PassGraph, cut: Cut) -> Finding:
    op, value, sources = cut.op, cut.value, cut.sources
    who = listed(map(graph.name, sources)) if sources else ""
    made = graph.maker(sources[0]) if sources else None
    captured = ([value] if value else op.captured) if op else ()
    is_none = not sources or sources[0] in graph.pass_.sources
    dtype = value.dtype if value else ""
    source = op.source if op else None
    known = {
        "who": f"{who} got None" if is_none else f"the gradient of {who} is incomplete",
        "here": at(op) if op else "",
        "call": line(source),
        "rule": line(op.rule if op else None),
        "taken": line(cut.line),
        "name": graph.name(value) if value else "that input",
        "kind": _NO_NUMBERS.get(dtype, f"{dtype} numbers"),
        "source": who.strip("`"),
        "plain": re.sub(r"_\d+$", "", who.strip("`")),  # two of one name are `v` and `v_1`
        "made": at(made) if made else "",
        "captured": listed(map(graph.name, captured)) if captured else "a tensor",
        "flat": " It is flat between its steps." if op and op.type in _STEPS else "",
        "assigned": _ASSIGNED if calls(source, ASSIGNS) else "",
    }
    words = next(each for each in CAUSES if each.name == cut.reason).words(known)
    return replace(graph.finding("none", words, op, sources), line=cut.line)


CAUSES = (
    Cause("no float").says(
        "{who}: it holds {kind}, and TensorFlow gives these no gradient.",
        "Leave it out of the sources, or make it a float first: `2.`, `tf.cast(x, tf.float32)`.",
    ),
    Cause("not read", VARIABLES).says(
        "{who}: no op that ran reads this variable. An assignment is no reading: no gradient flows "
        "through it.",
        "Use it in what is differentiated, or leave it out of the sources.",
    ),
    Cause("independent", NESTED).says(
        "{who}: no tape followed a path from it to the gradient that is differentiated here. As a "
        "derivative that means 0.",
        "For 0 write `tape.gradient(..., unconnected_gradients='zero')`. If it should depend on "
        "it, the rule uses numbers in place of tensors, or no outer tape saw the first gradient.",
    ),
    Cause("inner gradient", NESTED).says(
        "{who}: the inner gradient was taken outside the outer tape{taken}, which therefore saw a "
        "constant.",
        "Call the inner tape's `gradient` inside the `with` block of the outer tape.",
    ),
    Cause("target not recorded").says(
        "{who}: the recording did not see how the target was made.",
        "Put the forward pass and its tape inside `with cgviz.record()`.",
    ),
    Cause("unused").says(
        "{who}: no TensorFlow op that ran uses it.",
        "Use it, or leave it out. For 0 write `tape.gradient(..., unconnected_gradients='zero')`.",
    ),
    Cause("tape stopped").says(
        "{who}: {here} ran inside `stop_recording`, so no tape saw it.",
        "Move the line out of the `stop_recording` block.",
    ),
    Cause("outside the tape").says(
        "{who}: {here} ran outside the `with tf.GradientTape()` block.",
        "Move the line into the block.",
    ),
    Cause("tape not recording").says(
        "{who}: no tape followed it when {here} ran.",
        "Run the line inside the `with tf.GradientTape()` block. After `tape.reset()` watch again.",
    ),
    Cause("variable not watched", VARIABLES).says(
        "{who}: no tape watched this variable when {here} used it. A tape watches by itself only "
        "variables that are trainable.",
        "Make it with `trainable=True`, or call `tape.watch({source})` first.",
    ),
    Cause("tensor not watched", VARIABLES).says(
        "{who}: it is a plain tensor, made by {made}, and no tape watched it when {here} used it.",
        "If it was a variable, `=` has put a tensor in its place: write `{plain}.assign_sub(...)`. "
        "Else call `tape.watch` on it.",
    ),
    Cause("input not watched").says(
        "{who}: no tape watched it when {here} used it.",
        "Call `tape.watch({source})` at the top of the block, or make it a tf.Variable.",
    ),
    Cause("watched elsewhere").says(
        "{who}: {here} used it before a tape watched it, or on another tape.",
        "Move the line into the block of the tape that is asked, below its `watch`.",
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
    Cause("no rule", KINKS).says(
        "{who}: TensorFlow has no gradient for {here}.{flat}",
        "Use a straight-through rule, `x + tf.stop_gradient(q - x)` with q what the op gives, or "
        "a surrogate with @tf.custom_gradient.",
    ),
    Cause("captured by closure", INPUTS).says(
        "{who}: the custom gradient {here} closes over {captured}, so nothing flows back there.",
        "Make {captured} an argument, and return a gradient for every argument{rule}.",
    ),
    Cause("in a body", INPUTS).says(
        "{who}: it was made inside the custom gradient {here}, whose rule replaces its body.",
        "Differentiate by the arguments of the custom gradient.",
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
    Cause("NumPy").says(
        "{who}: the numbers of {name} left TensorFlow{taken}. No tape follows NumPy.",
        "Use TensorFlow's own functions there, and the tensor itself in place of its numbers.",
    ),
    Cause("dead end").says(
        "{who}: {here} uses it, and what comes of it never reaches the target.{assigned}",
        "Check which result is returned and differentiated.",
    ),
    Cause("another tape").says(
        "{who}: {here} is not on the tape that was asked.",
        "Ask the tape that recorded this line, or open one tape around all of it.",
    ),
)
