"""Why a gradient is None: where the paths from its source to the targets are cut.

Each path is followed as far as a tape followed it. `CAUSES` are the records of what can cut a path.
The learner's source code shows whether a tape was stopped or missing, and where NumPy is called.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache

from ..findings import Finding, line
from ..graph import Op, Pass, Source, Value
from ..graph.selection import Edge
from ..graph.trace import walk, with_bodies
from ..lessons import DEBUGGING, INPUTS, KINKS, NESTED, VARIABLES
from .pass_graph import MOST_ORIGINS, Cause, PassGraph, around, at, calls, holds, listed


def find(graph: PassGraph) -> list[Finding]:
    """Explain every None among the gradients of a pass.

    Args:
        graph: The pass.

    Returns:
        One finding per place where gradients stop, with all the sources affected.
    """
    groups: dict[object, Cut] = {}
    for value, gradient in graph.gradients:
        # An argument of `trace` may be an integer; to ask for the gradient of one is a mistake.
        if gradient is None and (graph.trace.asked or value.differentiable):
            for cut in cuts(graph, value):
                key = cut.op or value.key, cut.cause
                groups.setdefault(key, cut).sources.append(value)
    cut_ops = {cut.op for cut in groups.values()}
    for step in graph.pass_.steps:  # a gradient that may be incomplete, though it is not None
        if step.op.captured and step.op not in cut_ops:
            groups[step.op] = Cut(graph, "closes over", step.op, sources=[*step.op.captured])
    return [cut.finding() for cut in groups.values()]


def dropped(graph: PassGraph) -> list[Finding]:
    """Custom rules that TensorFlow did not use: one finding per rule and calling line."""
    ops = [op for op in with_bodies(graph.trace.ops) if op.rule_dropped]
    first = {line(op.source) + line(op.rule): op for op in reversed(ops)}
    found = [Cut(graph, "rule dropped", op).finding() for op in reversed(first.values())]
    return [replace(each, which=None) for each in found]


def beside(graph: PassGraph) -> list[Finding]:
    """Note where one of several paths is cut: at an op without a gradient, or at a cast."""
    found: list[Finding] = []
    ends = {edge.source for edge in graph.selection.targets}

    @cache
    def onward(node: int) -> list[int]:  # tf.stop_gradient leaves a path out on purpose
        after = (edge.target for edge in graph.onward(node))
        return [each for each in after if graph.op(each).type != "StopGradient"]

    @cache
    def reached(node: int) -> set[int]:
        return {*walk([node], onward)}

    given = [v for v, g in graph.gradients if g is not None and v.key in graph.nodes]
    for edge in graph.selection.edges if graph.first_order else ():
        op, why = graph.op(edge.target), edge.reason
        cut = why.startswith("no gradient for") or (op.type, why) == ("Cast", "integer")
        cut = cut and edge.target in onward(edge.source)
        if cut and len(found) < MOST_ORIGINS and ends & reached(edge.target):
            sources = [v for v in given if edge.source in reached(graph.nodes[v.key])]
            found += [Cut(graph, "one path", op, sources=sources).finding()] if sources else []
    return found


# --- where a path is cut -----------------------------------------------------------------------


def cuts(graph: PassGraph, value: Value) -> list[Cut]:
    """Where the paths from a source to the targets are cut: the first three places."""
    start = graph.nodes.get(value.key)
    if not value.differentiable or start is None or not graph.onward(start):
        return [_without_path(graph, start, value)]
    found: dict[object, Cut] = {}

    def onward(node: int) -> Iterator[int]:
        for edge in graph.onward(node):
            cut = _at_edge(graph, edge)
            if cut is None:
                yield edge.target
            else:
                found.setdefault((cut.op, cut.cause), cut)

    for _ in walk([start], onward):
        pass
    return list(found.values())[:MOST_ORIGINS]


def _at_edge(graph: PassGraph, edge: Edge) -> Cut | None:
    """The cut where an op uses a value, if the gradient stops there."""
    op, value = graph.op(edge.target), edge.value
    if not value.differentiable:
        return Cut(graph, "integers", graph.op(edge.source), value)
    if op.outputs and not any(v.differentiable for v in op.outputs):  # such as a comparison
        return Cut(graph, "integers", op, op.outputs[0])
    if followed(graph, edge) and op not in graph.pass_.step_of:
        node, starts = graph.selection.nodes[edge.target], graph.selection.starts(edge.target)
        arrived = starts or any(u is not None for u in node.upstream)
        return Cut(graph, "another tape", op, value) if arrived else None
    # If no reason is given, nothing would flow here even if something arrived.
    cause = edge.reason or "not watched"
    if cause in ("not watched", "nothing arrives", "tape not recording"):
        cause = _unwatched(graph, op, value, cause)
    elif cause not in CAUSES:
        cause = "no rule" if cause.startswith("no gradient for") else "another tape"
    return Cut(graph, cause, op, value)


def _unwatched(graph: PassGraph, op: Op, value: Value, reason: str) -> str:
    """Why no tape followed a value into an op."""
    if reason != "tape not recording":
        uses = (u for each in graph.trace.ops for u in zip(each.inputs, each.watched, strict=False))
        if any(used is value and watched for used, watched in uses):
            return "another tape"
    # The block may be that of a function that called this one: then a tape followed other inputs.
    outside = inside_tape(op.source) in ("stopped", "outside") and not any(op.watched)
    if outside or reason == "tape not recording":
        return "tape not recording"
    kind = graph.kind(value)
    return kind if kind in CAUSES else "tensor"


def followed(graph: PassGraph, edge: Edge) -> bool:
    """Whether a tape follows along an edge, from the value into the op."""
    op, i = graph.op(edge.target), edge.position
    return i >= 0 and not op.rule_missing and op.follows(i)


def _without_path(graph: PassGraph, start: int | None, value: Value) -> Cut:
    """Why no path leads from a source to a target: its uses are followed even where no tape did."""
    if not value.differentiable and value.dtype != "resource":
        return Cut(graph, "no float", None, value)
    if start is None or not value.differentiable:
        return Cut(graph, _unused(graph), None, value)
    leaving = graph.selection.outgoing
    reached = sorted(walk([start], lambda node: [edge.target for edge in leaving[node]]))
    ends = [graph.nodes[t.key] for t in graph.pass_.targets if t.key in graph.nodes]
    last = max(ends, default=len(leaving))  # what ran after the target has no part in it
    ops = [graph.op(node) for node in reached if node <= last]
    if inner := _inner_gradient(graph, ops):
        return inner
    targets = [made for t in graph.pass_.targets if (made := graph.trace.maker(t))]
    for op in reversed(ops):  # the last value whose numbers leave TensorFlow
        for output in op.outputs:
            if taken := numpy_call(op, graph.name(output).strip("`"), targets):
                return Cut(graph, "NumPy", op, output, taken)
    uses = [node for node in reached if start < node <= last] or reached[1:2]
    used = graph.op(uses[-1]) if uses else None
    return Cut(graph, _unused(graph, used), used, value)


def _unused(graph: PassGraph, used: Op | None = None) -> str:
    """Why a source does not lead to the target, though an op may have used it."""
    if used and _inner_gradients(graph):  # the source has no influence on them
        return "independent"
    pass_ = graph.pass_
    if all(graph.kind(t) == "input" and t not in pass_.sources for t in pass_.targets):
        return "target unseen"
    return "dead end" if used else "unused"


def _inner_gradients(graph: PassGraph) -> list[tuple[Value, Pass]]:
    """The gradients of earlier passes that the targets are made of, each with its pass."""
    passes = graph.trace.passes[: graph.pass_.index]
    taken = {id(g): each for each in passes for g in each.gradient_references if g is not None}
    before = walk(graph.pass_.targets, lambda v: op.inputs if (op := graph.trace.maker(v)) else ())
    return [(v, taken[id(v.reference)]) for v in before if id(v.reference) in taken]


def _inner_gradient(graph: PassGraph, reached: list[Op]) -> Cut | None:
    """The cut at a gradient that the targets are made of and that no tape recorded, if any."""
    made = {v.key for op in reached for v in op.outputs}
    for value, inner in _inner_gradients(graph):
        maker = graph.trace.maker(value)
        unseen = maker is None or maker.kind in ("input", "constant")
        if unseen and any(target.key in made for target in inner.targets):
            differentiated = graph.trace.maker(inner.targets[0])
            call = gradient_call(differentiated) if differentiated else None
            return Cut(graph, "inner gradient", differentiated, value, call)
    return None


@dataclass
class Cut:
    """One place where a path is cut."""

    graph: PassGraph
    cause: str  # a name of `CAUSES`
    op: Op | None  # that uses or makes the value; without a path, the last op that uses it
    value: Value | None = None
    line: Source | None = None  # where the path is cut, if not at the op's own line
    sources: list[Value] = field(default_factory=list)  # the sources whose gradient it cuts

    def finding(self) -> Finding:
        """The finding about the sources whose gradient it cuts."""
        graph, op, value, sources = self.graph, self.op, self.value, self.sources
        who = listed(map(graph.name, sources)) if sources else ""
        made = graph.trace.maker(sources[0]) if sources else None
        captured = ([value] if value else op.captured) if op else ()
        source = op.source if op else None
        where, due = _BLOCKS.get(inside_tape(source), _BLOCKS[""])
        known = {
            "who": f"{who} got None",
            "here": at(op, self.cause == "the rule returned None") if op else "",
            "call": line(source),
            "rule": line(op.rule if op else None),
            "taken": line(self.line),
            "name": graph.name(value) if value else "that input",
            "kind": _KINDS.get(value.dtype, f"{value.dtype} numbers") if value else "",
            "source": who.strip("`"),
            "plain": re.sub(r"_\d+$", "", who.strip("`")),  # two named `v` are `v` and `v_1`
            "made": at(made) if made else "",
            "captured": listed(map(graph.name, captured)) if captured else "a tensor",
            "flat": " It is flat between its steps." if op and op.type in _STEPS else "",
            "where": where,
            "due": due,
        }
        cause = CAUSES[self.cause]
        if self.cause == "the rule returned None" and value and graph.kind(value) == "variable":
            cause = replace(cause, lesson=VARIABLES)
        return graph.finding(cause, known, op, sources, what="none", line=self.line)


# --- the learner's own text --------------------------------------------------------------------

# Calls that take numbers out of TensorFlow; a mere `np.pi` or `np.float32` takes nothing out.
NUMPY = r"(np|numpy)\..+|float|.+\.(numpy|item|numpy_function)"
GRADIENT = r".+\.(gradient|jacobian|batch_jacobian)"


def inside_tape(source: Source | None) -> str:
    """Where a line is, relative to the tape blocks of its own function.

    Args:
        source: The line.

    Returns:
        "stopped" inside a `stop_recording` block, "inside" a GradientTape block, "outside" if the
        function has such a block elsewhere, or "" if the source code does not tell.
    """
    scopes = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef
    scope = [n for n in around(source) if isinstance(n, scopes)][-1]
    blocks = [n for n in ast.walk(scope) if isinstance(n, ast.With)]
    items = [" ".join(ast.unparse(each.context_expr) for each in n.items) for n in blocks]
    inside = " ".join(i for n, i in zip(blocks, items, strict=True) if holds(n, source))
    if "stop_recording" in inside:
        return "stopped"
    if "GradientTape" in inside:
        return "inside"
    return "outside" if any("GradientTape" in text for text in items) else ""


def numpy_call(op: Op, name: str, targets: list[Op]) -> Source | None:
    """Where the numbers of an op's output are taken out of TensorFlow.

    Args:
        op: The op. If it is a custom op, every call of NumPy in its function counts.
        name: The name of the output.
        targets: The ops that made the targets: the functions that call them are searched too.

    Returns:
        The line that calls `.numpy()`, a NumPy function, `float()`, `.item()` or
        `tf.numpy_function()` on the output, by its name or on what the op's own line makes, and not
        after the target; None without one.
    """
    ends = [each.source for each in targets if each.source]
    for source in filter(None, (op.source, op.rule, *ends)):
        for call, where in calls(source, NUMPY):
            used = {n.id for n in ast.walk(call) if isinstance(n, ast.Name)}
            inner = [n for n in ast.walk(call) if isinstance(n, ast.Call | ast.BinOp)]
            makes = any(  # `h.numpy()` makes no op, and `(2.0 * h).numpy()` does
                isinstance(n, ast.BinOp) or not re.fullmatch(NUMPY, ast.unparse(n.func), re.DOTALL)
                for n in inner
            )
            own = source is op.rule or (source is op.source and holds(call, source) and makes)
            begins = max((n.lineno for n in around(where)[1:]), default=0)  # the whole statement
            late = any(e.file == where.file and source.line <= e.line < begins for e in ends)
            if (own or name in used) and not late:
                return where
    return None


def gradient_call(op: Op) -> Source | None:
    """A line in an op's function that asks a tape for a gradient outside every tape block."""
    found = (where for _, where in calls(op.source, GRADIENT) if inside_tape(where) != "inside")
    return next(found, None)


# --- messages and hints ------------------------------------------------------------------------

_KINDS = {"bool": "True and False", "string": "texts"}
_STEPS = frozenset(("Round", "Rint", "Floor", "Ceil", "FloorDiv", "FloorMod", "Cast", "Bucketize"))
_BLOCKS = {  # where a line ran, and where it should be
    "stopped": ("inside `stop_recording`, so no tape saw it", "out of the `stop_recording` block"),
    "outside": ("outside the `with tf.GradientTape()` block", "into the block"),
    "": ("where no tape followed it", "into the block"),
}
_CAUSES = (
    Cause("no float").says(
        "{who}: it holds {kind}, and TensorFlow gives these no gradient.",
        "Leave it out of the sources, or make it a float first: `2.`, `tf.cast(x, tf.float32)`.",
    ),
    Cause("inner gradient", NESTED).says(
        "{who}: the inner gradient was taken outside the outer tape{taken}, which saw a constant.",
        "Call the inner tape's `gradient` inside the `with` block of the outer tape.",
    ),
    Cause("NumPy").says(
        "{who}: the numbers of {name} left TensorFlow{taken}. No tape follows NumPy.",
        "Use TensorFlow's own functions there, and the tensor itself in place of its numbers.",
    ),
    Cause("independent", NESTED).says(
        "{who}: no tape followed a path from it to the inner gradient. As a derivative that "
        "means 0.",
        "For 0 write `tape.gradient(..., unconnected_gradients='zero')`. If it should depend on "
        "it, the rule uses numbers in place of tensors, or no outer tape saw the first gradient.",
    ),
    Cause("dead end", optional=True).says(
        "{who}: the path goes as far as {here}, and never reaches the target.",
        "Check which result is returned and differentiated. If it is the right one, numbers were "
        "passed on in place of a tensor: by NumPy, `float()`, a new tf.Variable, an assignment or "
        "a Keras metric.",
    ),
    Cause("target unseen").says(
        "{who}: no TensorFlow op that was recorded made the target.",
        "Compute it with TensorFlow's functions, not NumPy's, and record the forward pass.",
    ),
    Cause("unused", optional=True).says(
        "{who}: no TensorFlow op that was recorded reads it.",
        "Use it, or leave it out; `unconnected_gradients='zero'` gives 0. If it was only assigned "
        "to, or to a variable: an assignment passes no gradient on.",
    ),
    Cause("tape not recording").says("{who}: {here} ran {where}.", "Move the line {due}."),
    Cause("variable", VARIABLES).says(
        "{who}: no tape watched this variable when {here} used it. A tape watches by itself only "
        "variables that are trainable, and none with `watch_accessed_variables=False`.",
        "Call `tape.watch({source})` first. If it is not trainable, `trainable=True` also makes an "
        "ordinary tape watch it.",
    ),
    Cause("input").says(
        "{who}: no tape watched it when {here} used it.",
        "Call `tape.watch({source})` at the top of the block, or make it a tf.Variable. If it was "
        "one, `=` has put a tensor in its place: write `assign_sub`.",
    ),
    Cause("tensor", VARIABLES).says(
        "{who}: it is a plain tensor, made by {made}, and no tape watched it when {here} used it.",
        "If it was a variable, `=` has put a tensor in its place: write `{plain}.assign_sub(...)`. "
        "Else call `tape.watch` on it.",
    ),
    Cause("integers", KINKS).says(
        "{who}: {here} makes {kind}, and these have no gradient.",
        "Keep to floating-point numbers, or write a surrogate rule with @tf.custom_gradient.",
    ),
    Cause("stop_gradient", KINKS).says(
        "{who}: {here} lets the value through, but no gradient.",
        "Remove tf.stop_gradient, or write the gradient with @tf.custom_gradient.",
    ),
    Cause("no rule", KINKS).says(
        "{who}: TensorFlow has no gradient for {here}.{flat}",
        "Use a straight-through rule, `x + tf.stop_gradient(q - x)` with q what the op gives, or "
        "a surrogate with @tf.custom_gradient.",
    ),
    Cause("one path", KINKS, level="note").says(
        "the gradient of `{source}` leaves out the path through {here}: none passes it.{flat}",
        "If that path should count, use a straight-through rule, or a surrogate with "
        "@tf.custom_gradient.",
    ),
    Cause("captured by closure", INPUTS).says(
        "{who}: the custom gradient {here} uses {captured}, and not as a positional argument, so "
        "nothing flows back there.",
        "Make {captured} a positional argument, and return a gradient for every argument{rule}.",
    ),
    Cause("closes over", INPUTS, level="warning").says(
        "the custom gradient {here} closes over {captured}. Unless its rule's gradients for the "
        "arguments include the way through {captured}, that gradient is missing.",
        "Make {captured} a positional argument, and return a gradient for every argument{rule}.",
    ),
    Cause("the rule returned None", INPUTS).says(
        "{who}: the rule of {here} returned None for its input {name}.",
        "Return upstream times the derivative for this input too.",
    ),
    Cause("rule dropped", DEBUGGING).says(
        "the call{call} did not use its custom rule{rule}: no positional argument is watched by a "
        "tape, and arguments passed by keyword do not count. TensorFlow differentiates the body.",
        "Pass the arguments by position: `f(x)`, not `f(x=x)`. A tensor that the function closes "
        "over must be an argument too.",
    ),
    Cause("another tape").says(
        "{who}: the tape that was asked recorded no path through {here} to the target. That op "
        "used a value that this tape did not watch (or not yet), after `tape.reset()`, or on "
        "another tape; or an inner gradient behind it was taken outside this tape.",
        "Let the tape that is asked `watch` the tensor before that line; or ask the tape that "
        "recorded it, or move the line into the block of the tape that is asked.",
    ),
)
CAUSES = {cause.name: cause for cause in _CAUSES}
