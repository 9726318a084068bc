"""What is said of a gradient that became None: a reason in a few words becomes sentences."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..graph import Op, Value
from ..lessons import DEBUGGING, INPUTS, KINKS, NESTED, VARIABLES
from . import lexical
from .survey import Survey, at, line, names

STEPS = frozenset(("Round", "Rint", "Floor", "Ceil", "FloorDiv", "FloorMod", "Cast", "Bucketize"))


@dataclass(frozen=True)
class Cut:
    """One place where nothing flows back: the op to blame, and a reason in a few words."""

    reason: str
    op: Op | None = None
    value: Value | None = None  # what stood before the cut


def say(survey: Survey, cut: Cut, value: Value, who: str) -> tuple[str, str, str]:
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
        return (
            f"{who} got None: {here} makes {_kind(cut.value)}, and these have no gradient.",
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
        return say_captured(who, op, [survey.name(cut.value)] if cut.value else [])
    if cut.reason == "in a body":
        return (
            f"{who} got None: it was made inside the custom gradient {here}, whose rule takes the "
            "place of all that its body did.",
            "Differentiate by the arguments of the custom gradient.",
            INPUTS,
        )
    if cut.reason == "the rule returned None":
        name = survey.name(cut.value) if cut.value else "that input"
        return (
            f"{who} got None: the rule of {here} returned None for its input {name}.",
            "Return upstream times the derivative for this input too.",
            INPUTS,
        )
    if cut.reason == "rule dropped":
        message = f"{who} got None at {here}: the custom rule there was not used. {DROPPED}"
        return message, BY_POSITION, INPUTS
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
            f"{_numpy_note(survey)}{_state_note(op)}",
            "Check which result is returned and differentiated.",
            DEBUGGING,
        )
    return (
        f"{who} got None: {here} is not on the tape that was asked.",
        "Ask the tape that recorded this line, or open one tape around all of it.",
        DEBUGGING,
    )


def _say_unused(survey: Survey, cut: Cut, value: Value, who: str) -> tuple[str, str, str]:
    if value.dtype in _NO_NUMBERS:
        return (
            f"{who} got None: it holds {_kind(value)}, and these have no gradient.",
            "Leave it out of the sources.",
            DEBUGGING,
        )
    if cut.reason == "integers":
        return (
            f"{who} got None: it is {value.dtype}, and TensorFlow gives integers no gradient.",
            "Write `2.` instead of `2`, or make it with `tf.cast(x, tf.float32)` before the tape "
            "watches it.",
            DEBUGGING,
        )
    if cut.reason == "unread":
        return (
            f"{who} got None: no op that ran reads this variable. Assigning to it is not reading "
            "it, and a gradient does not flow through an assignment.",
            "Use it in what is differentiated, or leave it out of the sources.",
            VARIABLES,
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


_NO_NUMBERS = {"bool": "True and False", "string": "texts"}


def _kind(value: Value) -> str:
    """What a value without a gradient holds."""
    return _NO_NUMBERS.get(value.dtype, f"{value.dtype} numbers")


def _numpy_note(survey: Survey) -> str:
    """A remark where the function that made the target calls NumPy."""
    makers = [survey.trace.producer(t) for t in survey.pass_.targets]
    if any(m is not None and lexical.uses_numpy(m[0].source) for m in makers):
        return " NumPy is called there, and no tape follows numbers through NumPy."
    return ""


def _state_note(op: Op) -> str:
    """A remark where the function around an op writes to a variable."""
    if lexical.assigns(op.source):
        return " A variable is assigned there, and a gradient does not flow through an assignment."
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
            f"{who} got None: no tape followed it when {here} ran.",
            "Run the line inside the `with tf.GradientTape()` block, not before it, not after it "
            "and not inside `stop_recording`. After `tape.reset()` watch again.",
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


DROPPED = (
    "TensorFlow uses it only if a positional argument is watched by a tape. Arguments passed by "
    "keyword do not count; it differentiates the body instead."
)
BY_POSITION = (
    "Pass the arguments by position: `f(x)`, not `f(x=x)`. A tensor that the function closes over "
    "must be an argument too."
)


def say_captured(who: str, op: Op, captured: list[str]) -> tuple[str, str, str]:
    """The same for tensors that a custom gradient closes over; `who` may be empty."""
    inside = names(captured) if captured else "a tensor"
    lacks = f"{who} got None: " if who else ""
    verb, them = ("are", "them") if len(captured) > 1 else ("is", "it")
    return (
        f"{lacks}{inside} {verb} used inside the custom gradient {at(op)} and not passed as an "
        f"argument, so nothing flows back to {them} there.",
        f"Pass {them} as an argument, and return a gradient for {them} too{line(op.rule)}.",
        INPUTS,
    )
