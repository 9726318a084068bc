"""The first rule that made NaN or infinity in a backward pass.

From a gradient that is not finite towards the target, to the rule whose upstream was finite.
"""

from __future__ import annotations

import numpy as np

from .. import style
from ..findings import Finding
from ..graph import Op, Step, Value
from ..graph.jacobian import wide
from ..lessons import STABILITY
from .entries import by_entry, entry, first_bad, has_nan, inputs_at, number_at, numbers
from .survey import Origin, Survey, at, is_bad, names, outputs_with

_TWICE = (
    "Make the input safe first: `safe = tf.where(ok, x, 1.)`, compute with `safe`, then choose "
    "with tf.where."
)
_SMALLER = "Scale the loss down, or compute in a wider type."


def find(survey: Survey) -> list[Finding]:
    """Explain gradients that are not finite.

    Args:
        survey: The pass.

    Returns:
        One finding per rule that made NaN or infinity of a finite upstream.
    """
    groups: dict[object, tuple[Origin, list[Value]]] = {}
    for value, gradient in zip(survey.pass_.sources, survey.pass_.gradients, strict=True):
        if gradient is not None and is_bad(gradient):
            for origin in _origins(survey, value)[:3]:
                key = origin.value.key if origin.step is None else origin.step.op
                values = groups.setdefault(key, (origin, []))[1]
                if value not in values:  # an op can use it twice
                    values.append(value)
    return [_finding(survey, *each) for each in groups.values()]


def _origins(survey: Survey, value: Value) -> list[Origin]:
    """Where it began."""
    found: list[Origin] = []
    seen, stack = {value.key}, [value]
    while stack:
        here = stack.pop()
        seed = survey.seed(here)
        parts = [part for part in survey.contributions(here) if is_bad(part[2])]
        if seed is not None and is_bad(seed):
            found.append(Origin(here))
        elif not parts:
            found.append(Origin(here, meets=True))
        for step, j, _ in parts:
            bad = outputs_with(step, step.upstream, is_bad)
            if not bad:
                found.append(Origin(here, step, j))
            for output in bad:
                if output.key not in seen:
                    seen.add(output.key)
                    stack.append(output)
    return found


def _finding(survey: Survey, origin: Origin, values: list[Value]) -> Finding:
    who = names(survey.name(v) for v in values)
    sources = tuple(survey.name(v).strip("`") for v in values)
    which = survey.pass_.index
    head = f"the gradient of {who} is not finite"
    if origin.step is None:
        gradients = dict(zip(survey.pass_.sources, survey.pass_.gradients, strict=True))
        what = "nan" if any(has_nan(wide(gradients[v])) for v in values) else "inf"
        because, hint = "the upstream it started with is not.", "Start with a finite upstream."
        if origin.meets:
            where = f"the ways through {survey.name(origin.value)}"
            because = f"the sum of what {where} hand back is too large for {origin.value.dtype}."
            hint = _SMALLER
        return Finding(what, f"{head}: {because}", hint, STABILITY, None, sources, which)
    step, j = origin.step, origin.position
    downstream = step.downstream[j]
    assert downstream is not None
    g = wide(downstream)
    index = first_bad(g)
    what = "nan" if has_nan(g) else "inf"
    sign = "NaN" if what == "nan" else style.number(g[index])
    upstream = _upstream(step, j, index)
    given = inputs_at(step.op, index, survey.name, step.op.inputs[j])
    arrived = "" if upstream is None else f" and upstream {style.number(upstream)}"
    because, hint = _backward_reason(survey, step, j, index, upstream)
    message = (
        f"{head}: the first {sign} of the backward pass is made at {at(step.op)}"
        f"{entry(index)}{given}{arrived}. {because}"
    )
    return Finding(what, message.strip(), hint, STABILITY, step.op, sources, which)


def _backward_reason(
    survey: Survey, step: Step, j: int, index: tuple[int, ...], upstream: complex | None
) -> tuple[str, str]:
    if upstream == 0:
        if _not_taken(survey, step):
            return (
                "tf.where did not take this branch and handed back 0, but 0 × ∞ is NaN, and it "
                "reaches the input all the same.",
                _TWICE,
            )
        return "The derivative is infinite there, and 0 × ∞ is NaN.", "Write the stable rule."
    if step.op.kind == "custom":
        return "The rule itself made it.", "Rewrite the rule so that it stays finite here."
    if any(is_bad(numbers(v)) for v in step.op.inputs + step.op.outputs):
        return "The forward value is not finite there either.", "Mend the forward pass first."
    away = (
        "Keep the input away from that point, or write a rule of its own with @tf.custom_gradient."
    )
    point = _singular(step.op, index, step.op.inputs[j])
    if point:
        return f"Its derivative {point}.", away
    if np.isnan(wide(step.downstream[j])[index]):
        return "Its derivative is not defined there.", away
    return f"Upstream times its derivative is too large for {step.op.inputs[j].dtype}.", _SMALLER


_INFINITE = {  # by op type: which input, at which numbers, in words
    "Sqrt": (0, (0,), "1/(2√x) is infinite at 0"),
    "Rsqrt": (0, (0,), "is infinite at 0"),
    "Log": (0, (0,), "1/x is infinite at 0"),
    "Log1p": (0, (-1,), "1/(1 + x) is infinite at −1"),
    "RealDiv": (1, (0,), "is infinite where it divides by 0"),
    "Reciprocal": (0, (0,), "is infinite at 0"),
    "Pow": (0, (0,), "is infinite at 0 for an exponent below 1"),
    "Acos": (0, (-1, 1), "is infinite at −1 and 1"),
    "Asin": (0, (-1, 1), "is infinite at −1 and 1"),
    "Acosh": (0, (1,), "is infinite at 1"),
    "Atanh": (0, (-1, 1), "is infinite at −1 and 1"),
}


def _singular(op: Op, index: tuple[int, ...], like: Value) -> str:
    """The words for a derivative that is infinite at just this input, or ""."""
    place, points, text = _INFINITE.get(op.type, (0, (), ""))
    return text if text and number_at(op, op.inputs[place], index, like) in points else ""


def _not_taken(survey: Survey, step: Step) -> bool:
    """Whether the zero that reached a step was handed back by a tf.where further on."""
    seen: set[int] = set()
    stack = list(step.op.outputs)
    while stack:
        value = stack.pop()
        for later, j, gradient in survey.contributions(value):
            if later.op.type in ("SelectV2", "Select"):
                chosen = np.asarray(later.op.inputs[0].numpy(), bool)
                if j > 0 and not (chosen if j == 1 else ~chosen).all():
                    return True
            if not wide(gradient).all():  # some zero came this way
                for output in later.op.outputs:
                    if output.key not in seen:
                        seen.add(output.key)
                        stack.append(output)
    return False


def _upstream(step: Step, j: int, index: tuple[int, ...]) -> complex | None:
    """The upstream at an entry of input j, if there is just one."""
    shape, apart = step.op.inputs[j].shape, by_entry(step.op)
    for u in step.upstream:
        if u is not None and u.shape == shape and apart:
            return wide(u)[index].item()
        if u is not None and u.size == 1:
            return wide(u).reshape(-1)[0].item()
    return None
