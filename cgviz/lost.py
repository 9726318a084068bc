"""Where a gradient became None, and why.

From each source that got None the ways to the target are followed as far as a tape followed them.
Where it stopped, `words.reason` knows why; here the reason becomes a sentence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import lexical
from .findings import Finding
from .graph import Op, Value
from .scene import Edge
from .survey import Survey, at, line, names

INPUTS, VARIABLES, NESTED = "03_multiple_inputs", "04_variables", "05_nested_gradients"
KINKS, DEBUGGING = "07_non_differentiable", "09_debugging"
STEPS = frozenset(("Round", "Rint", "Floor", "Ceil", "FloorDiv", "FloorMod", "Cast", "Bucketize"))


@dataclass(frozen=True)
class Cut:
    """One place where nothing flows back: the op to blame, and a reason in a few words."""

    reason: str
    op: Op | None = None
    value: Value | None = None  # what stood before the cut
    also: str = ""


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
    if not value.differentiable:
        return [Cut("integers", value=value)]
    start = survey.place(value)
    if start is None:
        return [Cut("unused", value=value)]
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


def _cut(survey: Survey, edge: Edge) -> Cut | None:
    """The cut on an edge, if the gradient stops there."""
    op = survey.op(edge.target)
    step = survey.pass_.step_of.get(op)
    if not edge.value.differentiable:
        return Cut("no numbers with a gradient", survey.op(edge.source), edge.value)
    if survey.followed(edge):
        arrived = survey.node(edge.target).targets or any(
            u is not None for u in survey.node(edge.target).upstream
        )
        if step is None:
            return Cut("not on this tape", op, edge.value) if arrived else None
        if step.flows[edge.position]:
            return None
    if op.rule_missing and op.outputs and not any(v.differentiable for v in op.outputs):
        return Cut("no numbers with a gradient", op, op.outputs[0])  # a comparison
    return Cut(edge.reason or "not watched", op, edge.value)


def _no_path(survey: Survey, start: int, value: Value) -> Cut:
    """Why no way leads from a source to the target."""
    uses = survey.scene.outgoing[start]
    back = _same_numbers(survey, start)
    if back is not None:
        return back
    if survey.pass_.index and not survey.first_order_targets:
        return Cut("independent", value=value)
    if not uses:
        return Cut("unused", value=value)
    return Cut("dead end", survey.op(max(e.target for e in uses)), value)


def _same_numbers(survey: Survey, start: int) -> Cut | None:
    """The op by which numbers that came of the source enter again as a constant, if NumPy did it.

    Equal numbers alone prove little: the function must call NumPy too.
    """
    reached, stack = {start}, [start]
    while stack:
        for edge in survey.scene.outgoing[stack.pop()]:
            if edge.target not in reached:
                reached.add(edge.target)
                stack.append(edge.target)
    numbers = {
        (v.dtype, v.shape, v.numpy().tobytes()): v
        for i in reached
        for v in survey.node(i).outputs
        if v.differentiable and v.size
    }
    for i, node in enumerate(survey.scene.nodes):
        if node.kind != "constant" or i in reached:
            continue
        value = node.outputs[0]
        twin = value.differentiable and numbers.get(
            (value.dtype, value.shape, value.numpy().tobytes())
        )
        for edge in survey.scene.outgoing[i] if twin else ():
            user = survey.op(edge.target)
            if lexical.uses_numpy(user.source):
                return Cut("NumPy", user, twin or None)
    return None


# --- the words ---------------------------------------------------------------------------------


def _finding(survey: Survey, cut: Cut, values: list[Value]) -> Finding:
    who = names(survey.name(v) for v in values)
    message, hint, lesson = _say(survey, cut, values[0], who)
    return Finding(
        "none",
        message,
        hint,
        lesson,
        cut.op,
        tuple(survey.name(v).strip("`") for v in values),
        survey.pass_.index,
    )


def _say(survey: Survey, cut: Cut, value: Value, who: str) -> tuple[str, str, str]:
    """Message, hint and lesson of a cut that leaves `who` without a gradient."""
    op = cut.op
    if op is None:
        return _say_unused(survey, cut, value, who)
    here = at(op)
    stands = lexical.where(op.source)
    if cut.reason in ("not watched", "tape not recording"):
        return _say_not_taped(survey, cut, value, who, here, stands)
    if cut.reason == "no numbers with a gradient":
        assert cut.value is not None
        kind = "True and False" if cut.value.dtype == "bool" else f"{cut.value.dtype} numbers"
        return (
            f"{who} got None: {here} makes {kind}, and these have no gradient.",
            "Keep to floating-point numbers, or give this part a gradient of your own: a "
            "straight-through or a surrogate rule with @tf.custom_gradient.",
            KINKS,
        )
    if cut.reason == "stop_gradient":
        return (
            f"{who} got None: {here} lets the value through and no gradient.",
            "Take tf.stop_gradient away. If another gradient should flow there, write it with "
            "@tf.custom_gradient.",
            KINKS,
        )
    if cut.reason.startswith("no gradient for"):
        flat = " It is flat between its steps." if op.type in STEPS else ""
        return (
            f"{who} got None: TensorFlow has no gradient for {here}.{flat}",
            "Use a straight-through rule, `x + tf.stop_gradient(q - x)` with q what the op gives, "
            "or a surrogate with @tf.custom_gradient.",
            KINKS,
        )
    if cut.reason == "captured by closure":
        return _say_captured(who, op, [survey.name(cut.value)] if cut.value else [])
    if cut.reason == "the rule returned None":
        name = survey.name(cut.value) if cut.value else "that input"
        return (
            f"{who} got None: the rule of {here} returned None for its input {name}.",
            "Return upstream times the derivative for this input too.",
            INPUTS,
        )
    if cut.reason == "rule dropped":
        message = f"{who} got None at {here}: the custom rule there was not used. {_DROPPED}"
        return message, _BY_POSITION, INPUTS
    if cut.reason == "NumPy":
        name = survey.name(cut.value) if cut.value else "what came of it"
        return (
            f"{who} got None: the numbers of {name} left TensorFlow and came back as a constant "
            f"in {here}. No tape follows NumPy.",
            "Use TensorFlow's own functions there, and the tensor itself in place of its numbers.",
            NESTED if survey.pass_.index else DEBUGGING,
        )
    if cut.reason == "dead end":
        return (
            f"{who} got None: {here} uses it, and what comes of it never reaches the target."
            f"{_numpy_note(survey)}",
            "Check which result is returned and differentiated.",
            DEBUGGING,
        )
    return (
        f"{who} got None: {here} is not on the tape that was asked.",
        "Ask the tape that recorded this line, or open one tape around all of it.",
        DEBUGGING,
    )


def _say_unused(survey: Survey, cut: Cut, value: Value, who: str) -> tuple[str, str, str]:
    if cut.reason == "integers":
        return (
            f"{who} got None: it is {value.dtype}, and TensorFlow gives integers no gradient.",
            "Write `2.` instead of `2`, or make it with `tf.cast(x, tf.float32)` before the tape "
            "watches it.",
            DEBUGGING,
        )
    if cut.reason == "independent":
        return (
            f"{who} got None: the gradient that is differentiated here does not depend on {who} "
            "by any way that a tape followed. As a derivative that means 0.",
            "Write `tape.gradient(..., unconnected_gradients='zero')` for 0. If it should depend "
            "on it, the rule uses numbers in place of tensors, or the first gradient was taken "
            "outside the outer tape.",
            NESTED,
        )
    if survey.unknown_target:
        return (
            f"{who} got None: the recording did not see how the target was made.",
            "Put the forward pass and its tape inside `with cgviz.record()`, and differentiate "
            "what TensorFlow ops made.",
            DEBUGGING,
        )
    return (
        f"{who} got None: no TensorFlow op that ran uses it.{_numpy_note(survey)}",
        "Use it in the function, or leave it out. For 0 in place of None write "
        "`tape.gradient(..., unconnected_gradients='zero')`.",
        DEBUGGING,
    )


def _numpy_note(survey: Survey) -> str:
    """A remark where the function that made the target calls NumPy."""
    makers = [survey.trace.producer(t) for t in survey.pass_.targets]
    if any(m is not None and lexical.uses_numpy(m[0].source) for m in makers):
        return " NumPy is called there, and no tape follows numbers through NumPy."
    return ""


def _say_not_taped(
    survey: Survey, cut: Cut, value: Value, who: str, here: str, stands: str
) -> tuple[str, str, str]:
    """No tape recorded the op: the tape was stopped, closed or not watching."""
    if stands == "stopped":
        return (
            f"{who} got None: {here} ran inside `stop_recording`, so no tape saw it.",
            "Move the line out of the `stop_recording` block.",
            DEBUGGING,
        )
    if stands == "outside":
        return (
            f"{who} got None: {here} ran outside the `with tf.GradientTape()` block.",
            "Move the line into the block.",
            DEBUGGING,
        )
    if cut.reason == "tape not recording":
        return (
            f"{who} got None: no tape was recording when {here} ran.",
            "Run the line inside the `with tf.GradientTape()` block, not before it, not after it "
            "and not inside `stop_recording`.",
            DEBUGGING,
        )
    maker = survey.trace.producer(value)
    kind, name = ("input", who) if maker is None else (maker[0].kind, survey.name(value))
    if kind == "variable":
        return (
            f"{who} got None: no tape watched this variable when {here} used it. A tape watches "
            "by itself only variables that are trainable.",
            f"Make it with `trainable=True`, or call `tape.watch({name.strip('`')})` first.",
            VARIABLES,
        )
    if kind in ("op", "custom") and maker is not None:
        plain = re.sub(r"_\d+$", "", name.strip("`"))  # two of one name are `v` and `v_1`
        return (
            f"{who} got None: it is a plain tensor, made by {at(maker[0])}, and no tape watched "
            f"it when {here} used it.",
            "If it was a variable, `=` has put a tensor in its place: write "
            f"`{plain}.assign_sub(...)`. Else call `tape.watch` on it.",
            VARIABLES,
        )
    return (
        f"{who} got None: no tape watched it when {here} used it.",
        f"Call `tape.watch({name.strip('`')})` at the top of the block, or make it a tf.Variable.",
        DEBUGGING,
    )


_DROPPED = (
    "TensorFlow uses it only if a positional argument is watched by a tape. Arguments passed by "
    "keyword do not count; it differentiates the body instead."
)
_BY_POSITION = (
    "Pass the arguments by position: `f(x)`, not `f(x=x)`. A tensor that the function closes over "
    "must be an argument too."
)


def _say_captured(who: str, op: Op, captured: list[str]) -> tuple[str, str, str]:
    inside = names(captured) if captured else "a tensor"
    lacks = f"{who} got None: " if who else ""
    return (
        f"{lacks}{inside} is used inside the custom gradient {at(op)} without being one of its "
        "arguments, so nothing flows back to it there.",
        f"Pass it as an argument, and return a gradient for it too{line(op.rule)}.",
        INPUTS,
    )


def _captured(survey: Survey, told: set[Op | None]) -> list[Finding]:
    """Tensors captured by closure whose gradient is silently incomplete, not None."""
    found = []
    for step in survey.pass_.steps:
        op = step.op
        if op.captured and op not in told:
            inside = [survey.name(v) for v in op.captured]
            message, hint, lesson = _say_captured("", op, inside)
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
            message = f"{call} did not use its custom rule{line(op.rule)}. {_DROPPED}"
            found.append(Finding("none", message, _BY_POSITION, INPUTS, op))
        before = op.rule_dropped or (before and op.kind not in ("op", "custom"))
    return found
