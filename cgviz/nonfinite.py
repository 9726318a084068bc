"""The first op that made NaN or infinity, forward or backward.

Forward: from a target that is not finite back to the op whose inputs were. Backward: from a
gradient that is not finite towards the target, to the rule whose upstream was finite. Values on
the way that are infinite and do no harm, as in a mask, are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from . import style
from .findings import Finding
from .graph import Array, Op, Step, Value
from .ranges import exp_limit, limits
from .survey import Survey, at, is_bad, names, outputs_with, wide

STABILITY = "06_numerical_stability"
_TWICE = (
    "Make the input safe first: `safe = tf.where(ok, x, 1.)`, compute with `safe`, then choose "
    "with tf.where."
)


# --- forward -----------------------------------------------------------------------------------


def forward(
    ops: Iterable[Op], ends: Iterable[Value], names_of: Callable[[Value], str]
) -> list[Finding]:
    """Explain values that are not finite.

    Args:
        ops: The forward ops.
        ends: The values that should be finite, such as the targets.
        names_of: The learner's name of a value.

    Returns:
        One finding per op where NaN or infinity began.
    """
    makers = {v.key: op for op in ops for v in op.outputs}
    found: dict[Op, Finding] = {}
    for value in ends:
        for test in (_has_nan, _has_inf):
            if test(_numbers(value)):
                for op in _roots(value, makers, test):
                    op = _inside(op)
                    if op not in found:
                        found[op] = _forward_finding(op, names_of)
    return list(found.values())


def _numbers(value: Value) -> Array:
    return wide(value.numpy()) if value.differentiable else np.zeros(0)


def _has_nan(a: Array) -> bool:
    return bool(np.isnan(a).any())


def _has_inf(a: Array) -> bool:
    return bool(np.isinf(a).any())


def _roots(value: Value, makers: dict[int, Op], test: Callable[[Array], bool]) -> list[Op]:
    """The ops where what the test looks for began."""
    found, seen, stack = [], {value.key}, [value]
    while stack:
        op = makers.get(stack.pop().key)
        if op is None:
            continue
        before = [v for v in op.inputs + op.captured if test(_numbers(v))]
        if not before:
            found.append(op)
            infinite = [v for v in op.inputs if _has_inf(_numbers(v))]
            if infinite and test is _has_nan:  # who made the infinity that became NaN
                found += [r for v in infinite for r in _roots(v, makers, _has_inf)]
        for v in before:
            if v.key not in seen:
                seen.add(v.key)
                stack.append(v)
    return list(dict.fromkeys(found))


def _inside(op: Op) -> Op:
    """The op of a custom gradient's body where it began, else the op itself."""
    for inner in op.body:
        bad = any(is_bad(_numbers(v)) for v in inner.outputs)
        if bad and not any(is_bad(_numbers(v)) for v in inner.inputs):
            return _inside(inner)
    return op


def _forward_finding(op: Op, names_of: Callable[[Value], str]) -> Finding:
    output = next(v for v in op.outputs if is_bad(_numbers(v)))
    y = _numbers(output)
    index = _first(y)
    what = "nan" if _has_nan(y) else "inf"
    sign = "NaN" if what == "nan" else style.number(y[index])
    if op.kind in ("input", "variable", "constant"):
        message = f"`{op.name}` itself holds {sign}{_entry(index)}."
        return Finding(what, message, "Look where its numbers come from.", STABILITY, op)
    because, hint = _forward_reason(op, index, output)
    given = _inputs(op, index, names_of)
    message = f"the first {sign} of the forward pass is made at {at(op)}{_entry(index)}{given}."
    return Finding(what, f"{message} {because}".strip(), hint, STABILITY, op)


_PARTIAL = frozenset(
    ("Sqrt", "Rsqrt", "Acos", "Asin", "Acosh", "Atanh", "Pow", "Lgamma", "Digamma")
)


def _forward_reason(op: Op, index: tuple[int, ...], output: Value) -> tuple[str, str]:
    """Why, and what to do."""
    x = [_at(_numbers(v), index, output) for v in op.inputs]
    limit = exp_limit(op.type, op.inputs[0].dtype) if op.inputs else None
    known = limits(output.dtype)
    if limit is not None and x[0] is not None and x[0].real > limit:
        return (
            f"Above {style.number(round(limit, 2), 5)} it overflows in {output.dtype}.",
            "Rewrite it so that it needs no large exponent, for example with tf.nn.softplus, "
            "tf.nn.log_softmax or by subtracting the maximum.",
        )
    if op.type in ("Log", "Log1p") and x[0] is not None:
        where = "0" if op.type == "Log" else "−1"
        return (
            f"The logarithm needs an argument above {where}.",
            "Keep it away from there, or use tf.math.xlogy or tf.math.log_sigmoid.",
        )
    if op.type in ("RealDiv", "Div", "Reciprocal", "Inv") and x[-1] == 0:
        return "It divides by 0.", "Make the divisor safe first, or use tf.math.divide_no_nan."
    if op.type in _PARTIAL and (_has_nan(_numbers(output)) or x[0] == 0):
        return "It is not defined there.", "Keep its input where it is defined."
    if any(v is not None and not np.isfinite(v) for v in x):
        return "∞ − ∞, 0 × ∞ and ∞ / ∞ are NaN.", "Look at the infinity that came in."
    if known is not None and not np.isnan(_numbers(output)[index]):
        return (
            f"The result is above {style.number(known.largest)}, the largest {output.dtype}.",
            "Scale the numbers, or compute in a wider type.",
        )
    return "", "Keep its input where it is defined."


# --- backward ----------------------------------------------------------------------------------


def backward(survey: Survey) -> list[Finding]:
    """Explain gradients that are not finite.

    Args:
        survey: The pass.

    Returns:
        One finding per rule that made NaN or infinity of a finite upstream.
    """
    groups: dict[object, tuple[Step | None, int, list[Value]]] = {}
    for value, gradient in zip(survey.pass_.sources, survey.pass_.gradients, strict=True):
        if gradient is not None and is_bad(gradient):
            for step, j in _first_steps(survey, value)[:3]:
                key = step.op if step is not None else None
                groups.setdefault(key, (step, j, []))[2].append(value)
    return [_backward_finding(survey, *each) for each in groups.values()]


def _first_steps(survey: Survey, value: Value) -> list[tuple[Step | None, int]]:
    """The steps where it began; None for a target's own upstream."""
    found: list[tuple[Step | None, int]] = []
    seen, stack = {value.key}, [value]
    while stack:
        here = stack.pop()
        seed = survey.seed(here)
        if seed is not None and is_bad(seed):
            found.append((None, 0))
        for step, j, gradient in survey.contributions(here):
            if not is_bad(gradient):
                continue
            bad = outputs_with(step, step.upstream, is_bad)
            if not bad:
                found.append((step, j))
            for output in bad:
                if output.key not in seen:
                    seen.add(output.key)
                    stack.append(output)
    return found


def _backward_finding(survey: Survey, step: Step | None, j: int, values: list[Value]) -> Finding:
    who = names(survey.name(v) for v in values)
    sources = tuple(survey.name(v).strip("`") for v in values)
    which = survey.pass_.index
    if step is None:
        gradients = dict(zip(survey.pass_.sources, survey.pass_.gradients, strict=True))
        message = f"the gradient of {who} is not finite: the upstream it started with is not."
        what = "nan" if any(_has_nan(wide(gradients[v])) for v in values) else "inf"
        return Finding(
            what, message, "Start with a finite upstream.", STABILITY, None, sources, which
        )
    downstream = step.downstream[j]
    assert downstream is not None
    g = wide(downstream)
    index = _first(g)
    what = "nan" if _has_nan(g) else "inf"
    sign = "NaN" if what == "nan" else style.number(g[index])
    upstream = _upstream(step, j, index)
    given = _inputs(step.op, index, survey.name, step.op.inputs[j])
    arrived = "" if upstream is None else f" and upstream {style.number(upstream)}"
    because, hint = _backward_reason(survey, step, j, index, upstream)
    message = (
        f"the gradient of {who} is not finite: the first {sign} of the backward pass is made at "
        f"{at(step.op)}{_entry(index)}{given}{arrived}. {because}"
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
    if any(is_bad(_numbers(v)) for v in step.op.inputs + step.op.outputs):
        return "The forward value is not finite there either.", "Mend the forward pass first."
    point = _singular(step.op, index, step.op.inputs[j])
    return (
        f"Its derivative {point}." if point else "The derivative is too large for the type there.",
        "Keep the input away from that point, or write a rule of its own with @tf.custom_gradient.",
    )


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
    x = _at(_numbers(op.inputs[place]), index, like) if op.inputs else None
    return text if x in points else ""


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
    """The upstream at an entry, where the op works entry by entry."""
    shape = step.op.inputs[j].shape
    for u in step.upstream:
        if u is not None and u.shape == shape:
            return wide(u)[index].item()
        if u is not None and u.size == 1:
            return wide(u).reshape(-1)[0].item()
    return None


# --- entries -----------------------------------------------------------------------------------


def _first(a: Array) -> tuple[int, ...]:
    """The place of the first NaN, or else of the first infinity."""
    bad = np.isnan(a) if np.isnan(a).any() else np.isinf(a)
    return tuple(int(i) for i in np.argwhere(bad)[0])


def _entry(index: tuple[int, ...]) -> str:
    return f" at entry [{', '.join(map(str, index))}]" if index else ""


def _at(a: Array, index: tuple[int, ...], like: Value) -> complex | None:
    """The number of an input that belongs to an entry of `like`, if there is just one."""
    if a.size == 1:
        return a.reshape(-1)[0].item()
    if a.shape == like.shape:
        return a[index].item()
    return None


def _inputs(
    op: Op, index: tuple[int, ...], name: Callable[[Value], str], like: Value | None = None
) -> str:
    """The inputs at an entry: " from `x` = 0 and `y` = 2"."""
    like = op.outputs[0] if like is None else like
    texts = []
    for v in op.inputs:
        number = _at(_numbers(v), index, like) if v.differentiable else None
        if number is not None:
            texts.append(f"{name(v)} = {style.number(number)}")
    return f" from {' and '.join(texts)}" if texts else ""
