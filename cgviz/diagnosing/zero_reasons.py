"""Why one op hands back zero although its upstream is not zero: one small function per op type.

Each looks at the numbers, and says nothing where they do not bear it out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import style
from ..graph import Array, Step
from ..lessons import CHAIN, DEBUGGING, KINKS, STABILITY, UPSTREAM
from ..reading.jacobian import wide
from .ranges import limits
from .survey import is_zero, shown


def reason(step: Step, j: int) -> tuple[str, str, str]:
    """Why a step hands back zero to its input j although upstream is not zero.

    Args:
        step: The step.
        j: The input.

    Returns:
        A sentence with numbers, a hint and a lesson.
    """
    op = step.op
    explain = _BY_TYPE.get(op.type)
    found = explain(step, j) if explain is not None and op.kind == "op" else None
    if found is not None:
        return found
    upstream = next(u for u in step.upstream if u is not None and not is_zero(u))
    if op.kind == "custom":
        return (
            f"Its rule returned 0 for the upstream {shown(upstream)}.",
            "Look at what the rule multiplies upstream by.",
            UPSTREAM,
        )
    tiny = _underflow(step, j)
    if tiny is not None:
        return tiny
    return (
        f"Its derivative is 0 at the input {shown(op.inputs[j].numpy())}.",
        "Try another input: here the function is flat.",
        DEBUGGING,
    )


def _limits(step: Step, j: int) -> tuple[str, float]:
    """The dtype of an input and the smallest normal number of it."""
    known = limits(step.op.inputs[j].dtype)
    return step.op.inputs[j].dtype, known.smallest if known else 0.0


def _underflow(step: Step, j: int) -> tuple[str, str, str] | None:
    """The derivative is not zero, but upstream times it is too small for the dtype."""
    dtype, smallest = _limits(step, j)
    largest = max(float(np.abs(wide(u)).max()) for u in step.upstream if u is not None and u.size)
    if not 0 < largest < 1:
        return None
    try:
        scaled = [None if u is None else (wide(u) / largest).astype(u.dtype) for u in step.upstream]
        again = step.vjp(scaled)[j]
    except RuntimeError:  # a trace that was read from a file has no rules
        return None
    if again is None or is_zero(again):
        return None
    return (
        f"Upstream is {style.number(largest)}, and the product is below "
        f"{style.number(smallest)}, the smallest normal {dtype}.",
        "Scale the loss up, or compute in float64 or with logarithms.",
        STABILITY,
    )


Explained = tuple[str, str, str] | None
_DEAD = "Nothing flows back there. Try another start, a smaller step, or a leaky ReLU."


def _x(step: Step, j: int) -> Array:
    return wide(step.op.inputs[j].numpy())


def _relu(step: Step, j: int) -> Explained:
    x = _x(step, j)
    if not (x <= 0).all():
        return None
    return f"Its input is nowhere above 0: {shown(x)}.", _DEAD, KINKS


def _relu6(step: Step, j: int) -> Explained:
    x = _x(step, j)
    if not ((x <= 0) | (x >= 6)).all():
        return None
    return f"Its input is nowhere between 0 and 6: {shown(x)}.", _DEAD, KINKS


def _sign(step: Step, j: int) -> Explained:
    return (
        "The derivative of the sign is 0 everywhere.",
        "Use a straight-through rule or a surrogate with @tf.custom_gradient.",
        KINKS,
    )


def _branch(step: Step, j: int) -> Explained:
    """Maximum and minimum, which clipping is made of."""
    x, other = _x(step, j), _x(step, 1 - j)
    lost = x <= other if step.op.type == "Maximum" else x >= other
    if not lost.all():
        return None
    clip = step.op.source is not None and "clip" in step.op.source.text
    how = "larger" if step.op.type == "Maximum" else "smaller"
    what = "It is clipped everywhere" if clip else f"The other branch is {how} everywhere"
    return (
        f"{what}: {shown(x)} against {shown(other)}.",
        "A value outside the bounds gets no gradient back. Use wider bounds, or a straight-through "
        "rule."
        if clip
        else "Only the branch that wins gets the gradient.",
        KINKS,
    )


def _clip(step: Step, j: int) -> Explained:
    if j:
        return None
    bounds = f"{shown(_x(step, 1))} and {shown(_x(step, 2))}"
    return (
        f"Its input {shown(_x(step, j))} is nowhere between {bounds}.",
        "A value outside the bounds gets no gradient back. Use wider bounds, or a straight-through "
        "rule.",
        KINKS,
    )


def _softmax(step: Step, j: int) -> Explained:
    y = wide(step.op.outputs[0].numpy())
    if ((y == 0) | (y == 1)).all():
        return _saturated(step, j)
    return (
        "The entries of a softmax add up to 1, so an upstream that is the same for all of them "
        "gives 0.",
        "Use a loss that tells the entries apart, such as the cross-entropy.",
        CHAIN,
    )


def _saturated(step: Step, j: int) -> Explained:
    x, y = _x(step, j), wide(step.op.outputs[0].numpy())
    if not np.isin(y, (-1.0, 0.0, 1.0, 2.0)).all() or not x.all():
        return None
    return (
        f"It is saturated: at {shown(x)} it gives {shown(y)}, flat to the last digit of "
        f"{step.op.inputs[j].dtype}.",
        "Keep its input near 0: scale the input, or start with smaller weights.",
        STABILITY,
    )


def _exp(step: Step, j: int) -> Explained:
    x = _x(step, j)
    if not is_zero(step.op.outputs[0].numpy()):
        return None
    return (
        f"exp of {shown(x)} is too small for {step.op.inputs[j].dtype} and became 0.",
        "Work with the exponent itself, or subtract the maximum first.",
        STABILITY,
    )


def _product(step: Step, j: int) -> Explained:
    other = _x(step, 1 - j)
    if not is_zero(other):
        return None
    return (
        "The other factor is 0.",
        "The derivative of a product is the other factor. Weights that all start at 0 learn "
        "nothing through a product.",
        CHAIN,
    )


def _where(step: Step, j: int) -> Explained:
    condition = np.asarray(step.op.inputs[0].numpy())
    if j == 0 or (condition.any() if j == 1 else not condition.all()):
        return None
    return (
        "The condition chose the other branch everywhere.",
        "Only the branch that is taken gets a gradient.",
        KINKS,
    )


def _tiny(derivative: Callable[[Array], Array], formula: str, of: int = 0) -> object:
    """For an op whose derivative itself can be too small for the dtype."""

    def explain(step: Step, j: int) -> Explained:
        if j != of and step.op.type not in ("Log",):
            return None
        dtype, smallest = _limits(step, j)
        at_input = _x(step, len(step.op.inputs) - 1)
        with np.errstate(all="ignore"):
            size = np.abs(derivative(at_input))
        if not (size.size and (size < smallest).all() and size.any()):
            return None
        return (
            f"At {shown(at_input)} its derivative {formula} is {style.number(size.max())}, below "
            f"{style.number(smallest)}, the smallest normal {dtype}.",
            "Rewrite the function so that no huge number is divided by, or write its stable rule.",
            STABILITY,
        )

    return explain


_BY_TYPE: dict[str, Callable[[Step, int], Explained]] = {
    "Relu": _relu,
    "Relu6": _relu6,
    "Sign": _sign,
    "Maximum": _branch,
    "Minimum": _branch,
    "ClipByValue": _clip,
    **dict.fromkeys(("Sigmoid", "Tanh", "Erf", "Erfc"), _saturated),
    "Softmax": _softmax,
    "Exp": _exp,
    **dict.fromkeys(("Mul", "MatMul", "BatchMatMulV2", "BatchMatMulV3"), _product),
    **dict.fromkeys(("SelectV2", "Select"), _where),
    "Log": _tiny(lambda x: 1 / x, "1/x"),  # type: ignore[dict-item]
    "Log1p": _tiny(lambda x: 1 / (1 + x), "1/(1 + x)"),  # type: ignore[dict-item]
    "RealDiv": _tiny(lambda b: 1 / b, "1/b"),  # type: ignore[dict-item]
    "Reciprocal": _tiny(lambda x: 1 / x**2, "−1/x²"),  # type: ignore[dict-item]
}
