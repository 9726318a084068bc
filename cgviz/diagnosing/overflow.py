"""The first op that made NaN or infinity in the forward pass.

From a target that is not finite back to the op whose inputs were. Values on the way that are
infinite and do no harm, as in a mask, are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from .. import style
from ..findings import Finding
from ..graph import Array, Op, Value
from ..lessons import STABILITY
from .entries import entry, first_bad, has_inf, has_nan, inputs_at, number_at, numbers
from .ranges import BOTH_SIDES, exp_limit, limits
from .survey import at, is_bad


def find(
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
        for test in (has_nan, has_inf):
            if test(numbers(value)):
                for op in _roots(value, makers, test):
                    op = _inside(op)
                    if op not in found:
                        found[op] = _forward_finding(op, names_of)
    return list(found.values())


def _roots(value: Value, makers: dict[int, Op], test: Callable[[Array], bool]) -> list[Op]:
    """The ops where what the test looks for began."""
    found, seen, stack = [], {value.key}, [value]
    while stack:
        op = makers.get(stack.pop().key)
        if op is None:
            continue
        before = [v for v in op.inputs + op.captured if test(numbers(v))]
        if not before:
            found.append(op)
            infinite = [v for v in op.inputs if has_inf(numbers(v))]
            if infinite and test is has_nan:  # who made the infinity that became NaN
                found += [r for v in infinite for r in _roots(v, makers, has_inf)]
        for v in before:
            if v.key not in seen:
                seen.add(v.key)
                stack.append(v)
    return list(dict.fromkeys(found))


def _inside(op: Op) -> Op:
    """The op of a custom gradient's body where it began, else the op itself."""
    for inner in op.body:
        bad = any(is_bad(numbers(v)) for v in inner.outputs)
        if bad and not any(is_bad(numbers(v)) for v in inner.inputs):
            return _inside(inner)
    return op


def _forward_finding(op: Op, names_of: Callable[[Value], str]) -> Finding:
    output = next(v for v in op.outputs if is_bad(numbers(v)))
    y = numbers(output)
    index = first_bad(y)
    what = "nan" if has_nan(y) else "inf"
    sign = "NaN" if what == "nan" else style.number(y[index])
    if op.kind in ("input", "variable", "constant"):
        message = f"`{op.name}` itself holds {sign}{entry(index)}."
        return Finding(what, message, "Look where its numbers come from.", STABILITY, op)
    because, hint = _forward_reason(op, index, output)
    given = inputs_at(op, index, names_of)
    message = f"the first {sign} of the forward pass is made at {at(op)}{entry(index)}{given}."
    return Finding(what, f"{message} {because}".strip(), hint, STABILITY, op)


_PARTIAL = frozenset(  # defined for some numbers only, and never too large for a type elsewhere
    (
        *("Sqrt", "Rsqrt", "Acos", "Asin", "Acosh", "Atanh", "Erfinv", "Ndtri"),
        *("Lgamma", "Digamma", "Xlogy", "Xlog1py"),
    )
)
_DIVIDES = frozenset(("RealDiv", "Div", "Reciprocal", "Inv", "Xdivy", "FloorDiv", "FloorMod"))


def _forward_reason(op: Op, index: tuple[int, ...], output: Value) -> tuple[str, str]:
    """Why, and what to do."""
    x = [number_at(op, v, index, output) for v in op.inputs]
    limit = exp_limit(op.type, op.inputs[0].dtype) if op.inputs else None
    known = limits(output.dtype)
    if limit is not None and x[0] is not None:
        beyond = "Beyond ±" if op.type in BOTH_SIDES else "Above "
        return (
            f"{beyond}{style.number(round(limit, 2), 5)} it overflows in {output.dtype}.",
            "Rewrite it so that it needs no large exponent, for example with tf.nn.softplus, "
            "tf.nn.log_softmax or by subtracting the maximum.",
        )
    if op.type in ("Log", "Log1p") and x[0] is not None:
        where = "0" if op.type == "Log" else "−1"
        return (
            f"The logarithm needs an argument above {where}.",
            "Keep it away from there, or use tf.math.xlogy or tf.math.log_sigmoid.",
        )
    if op.type in _DIVIDES and x[-1] == 0:
        return "It divides by 0.", "Make the divisor safe first, or use tf.math.divide_no_nan."
    if op.type in _PARTIAL or (op.type == "Pow" and (has_nan(numbers(output)) or x[0] == 0)):
        return "It is not defined there.", "Keep its input where it is defined."
    if op.type == "Mean" and not op.inputs[0].size:
        return "It is the mean of no numbers, 0 ÷ 0.", "Leave empty batches out."
    if any(has_inf(numbers(v)) for v in op.inputs):
        return (
            "It makes NaN of ∞, as ∞ − ∞, 0 × ∞ and ∞ / ∞ do.",
            "Look at the infinity that came in.",
        )
    if known is not None and not np.isnan(numbers(output)[index]):
        return (
            f"The result is beyond ±{style.number(known.largest)}, the largest {known.name}.",
            "Scale the numbers, or compute in a wider type.",
        )
    return "", "Keep its input where it is defined."
