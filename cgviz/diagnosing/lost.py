"""Where a gradient became None, and why.

From each source that got None the ways to the target are followed as far as a tape followed them.
Where it stopped, the edge of the selection knows why; `lost_words` makes sentences of it.
"""

from __future__ import annotations

from ..findings import Finding
from ..graph import Op, Value
from ..graph.selection import Edge
from ..lessons import INPUTS
from . import lexical
from .lost_words import BY_POSITION, DROPPED, Cut, say, say_captured
from .survey import Survey, line, names


def find(survey: Survey, asked: bool) -> list[Finding]:
    """Explain every None among the gradients of a pass.

    Args:
        survey: The pass.
        asked: Whether the learner chose the sources; then an integer among them is a finding.

    Returns:
        One finding per place where gradients stop, with all the sources behind it.
    """
    groups: dict[tuple[object, str], tuple[Cut, list[Value]]] = {}
    pass_ = survey.pass_
    for value, gradient in zip(pass_.sources, pass_.gradients, strict=True):
        if gradient is None and (asked or value.differentiable):
            for cut in cuts(survey, value):
                key = cut.op if cut.op is not None else value.key
                groups.setdefault((key, cut.reason), (cut, []))[1].append(value)
    found = [_finding(survey, cut, values) for cut, values in groups.values()]
    return found + _captured(survey, {cut.op for cut, _ in groups.values()})


def cuts(survey: Survey, value: Value) -> list[Cut]:
    """Where the ways from a source to the target are cut: the first three places."""
    if value.dtype == "resource":  # a variable that was written to and not read
        return [Cut("unread", value=value)]
    if not value.differentiable:
        return [Cut("integers", value=value)]
    start = survey.place(value)
    if start is None:
        around = _around(survey, value)
        return [Cut("unused" if around is None else "in a body", around, value)]
    path = survey.path_edges(start)
    if not path:
        return [_no_path(survey, start, value)]
    found: dict[object, Cut] = {}
    leaving: dict[int, list[Edge]] = {}
    for edge in path:
        leaving.setdefault(edge.source, []).append(edge)
    seen, stack = {start}, [start]
    while stack:
        for edge in leaving.get(stack.pop(), ()):
            cut = _cut(survey, edge)
            if cut is not None:
                found.setdefault((cut.op, cut.reason), cut)
            elif edge.target not in seen:
                seen.add(edge.target)
                stack.append(edge.target)
    return list(found.values())[:3]


def _around(survey: Survey, value: Value) -> Op | None:
    """The custom gradient in whose body a value was made."""
    bodies = ((op, inner) for op in survey.trace.ops for inner in op.body)
    return next((op for op, inner in bodies if value in inner.outputs), None)


def _cut(survey: Survey, edge: Edge) -> Cut | None:
    """The cut on an edge, if the gradient stops there."""
    op = survey.op(edge.target)
    step = survey.pass_.step_of.get(op)
    if not edge.value.differentiable:
        return Cut("no numbers with a gradient", survey.op(edge.source), edge.value)
    if op.outputs and not any(v.differentiable for v in op.outputs):  # as a comparison
        return Cut("no numbers with a gradient", op, op.outputs[0])
    if step is None and survey.followed(edge):
        node = survey.node(edge.target)
        arrived = node.targets or any(u is not None for u in node.upstream)
        return Cut("not on this tape", op, edge.value) if arrived else None
    idle = edge.reason in ("", "nothing arrives")  # nothing would flow on if something arrived
    return Cut("not watched" if idle else edge.reason, op, edge.value)


def _no_path(survey: Survey, start: int, value: Value) -> Cut:
    """Why no way leads from a source to the target."""
    uses = survey.selection.outgoing[start]
    back = _same_numbers(survey, start)
    if back is not None:
        return back
    if survey.pass_.index and not survey.first_order_targets:
        return Cut("independent", value=value)
    if not uses:
        unread = survey.op(start).kind == "variable"
        return Cut("unread" if unread else "unused", value=value)
    return Cut("dead end", survey.op(max(e.target for e in uses)), value)


def _same_numbers(survey: Survey, start: int) -> Cut | None:
    """The op by which numbers that came of the source enter again as a constant, if NumPy did it.

    Equal numbers alone prove little: the function must call NumPy too.
    """
    reached, stack = {start}, [start]
    while stack:
        for edge in survey.selection.outgoing[stack.pop()]:
            if edge.target not in reached:
                reached.add(edge.target)
                stack.append(edge.target)
    numbers = {
        (v.dtype, v.numpy().tobytes()): v
        for i in reached
        for v in survey.node(i).outputs
        if v.differentiable and v.size
    }
    for i, node in enumerate(survey.selection.nodes):
        if node.kind != "constant" or i in reached:
            continue
        value = node.outputs[0]
        twin = value.differentiable and numbers.get((value.dtype, value.numpy().tobytes()))
        for edge in survey.selection.outgoing[i] if twin else ():
            user = survey.op(edge.target)
            if lexical.uses_numpy(user.source):
                return Cut("NumPy", user, twin or None)
    return None


def _finding(survey: Survey, cut: Cut, values: list[Value]) -> Finding:
    who = names(survey.name(v) for v in values)
    message, hint, lesson = say(survey, cut, values[0], who)
    return Finding(
        "none",
        message,
        hint,
        lesson,
        cut.op,
        tuple(survey.name(v).strip("`") for v in values),
        survey.pass_.index,
    )


def _captured(survey: Survey, told: set[Op | None]) -> list[Finding]:
    """Tensors captured by closure whose gradient is silently incomplete, not None."""
    found = []
    for step in survey.pass_.steps:
        op = step.op
        if op.captured and op not in told:
            inside = [survey.name(v) for v in op.captured]
            message, hint, lesson = say_captured("", op, inside)
            sources = tuple(name.strip("`") for name in inside)
            found.append(Finding("none", message, hint, lesson, op, sources, survey.pass_.index))
    return found


def dropped(survey: Survey) -> list[Finding]:
    """Custom rules that TensorFlow did not use, each once.

    Args:
        survey: Any pass of the trace.

    Returns:
        One finding per call.
    """
    found, before = [], False
    for op in survey.trace.ops:
        if op.rule_dropped and not before and op.kind in ("op", "custom"):
            call = f"the call{line(op.source)}"
            message = f"{call} did not use its custom rule{line(op.rule)}. {DROPPED}"
            found.append(Finding("none", message, BY_POSITION, INPUTS, op))
        before = op.rule_dropped or (before and op.kind not in ("op", "custom"))
    return found
