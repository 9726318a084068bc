"""Why one op hands back zero although its upstream is not zero: one small function per op type.

Each looks at the numbers, and says nothing where they do not bear it out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import style
from ..graph import Array, Step
from ..graph.jacobian import wide
from ..lessons import CHAIN, DEBUGGING, KINKS, STABILITY, UPSTREAM
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
    upstream = shown(next(u for u in step.upstream if u is not None and wide(u).any()))
    if op.kind == "custom":
        return (
            f"Its rule returned 0 for the upstream {upstream}.",
            "Look at what the rule multiplies upstream by.",
            UPSTREAM,
        )
    try:
        return _asked_again(step, j, upstream)
    except RuntimeError:  # as of a trace that was read from a file
        return (
            f"It handed back 0 for the upstream {upstream}.",
            "Trace the function again to learn why: a file keeps numbers and no rules.",
            DEBUGGING,
        )


def _asked_again(step: Step, j: int, upstream: str) -> tuple[str, str, str]:
    """What the rule hands back for other upstreams tells whether its derivative is 0."""
    largest = max(float(np.abs(wide(u)).max()) for u in step.upstream if u is not None and u.size)
    if 0 < largest < 1 and _hands_back(step, j, lambda u: u / largest):
        dtype, smallest = _limits(step, j)
        return (
            f"Upstream is {style.number(largest)}, and the product is below "
            f"{style.number(smallest)}, the smallest normal {dtype}.",
            "Scale the loss up, or compute in float64 or with logarithms.",
            STABILITY,
        )
    if _hands_back(step, j, lambda u: _unlike(u) * (u != 0)):
        return (
            f"Its derivative is not 0, but what it gives with the upstream {upstream} adds up to "
            "0.",
            "The function does not change in this direction. Look at the contributions in "
            "`trace.table()`.",
            CHAIN,
        )
    if _hands_back(step, j, _unlike):
        return (
            f"The upstream {upstream} is 0 wherever its derivative is not.",
            "Look what made part of upstream 0 further on.",
            UPSTREAM,
        )
    return (
        f"Its derivative is 0 at the input {shown(step.op.inputs[j].numpy())}.",
        "Try another input: here the function is flat.",
        DEBUGGING,
    )


def _hands_back(step: Step, j: int, change: Callable[[Array], Array]) -> bool:
    """Whether the rule hands back something to input j for a changed upstream."""
    changed = [None if u is None else change(wide(u)).astype(u.dtype) for u in step.upstream]
    again = step.vjp(changed)[j]
    return again is not None and not is_zero(again)


def _unlike(u: Array) -> Array:
    """Numbers of which no two are alike, and that have no simple sums."""
    return np.sqrt(np.arange(2.0, u.size + 2)).reshape(u.shape)


def _limits(step: Step, j: int) -> tuple[str, float]:
    """The dtype of an input and the smallest normal number of it."""
    known = limits(step.op.inputs[j].dtype)
    return step.op.inputs[j].dtype, known.smallest if known else 0.0


Explained = tuple[str, str, str] | None
_DEAD = "Nothing flows back there. Try another start, a smaller step, or a leaky ReLU."
_BOUNDS = (
    "A value outside the bounds gets no gradient back. Use wider bounds, or a straight-through "
    "rule."
)


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


def _abs(step: Step, j: int) -> Explained:
    if _x(step, j).any():
        return None
    return (
        "Its input is 0, where the slope jumps from −1 to 1. TensorFlow takes 0 there.",
        "Start beside the kink.",
        KINKS,
    )


def _sign(step: Step, j: int) -> Explained:
    return (
        "The derivative of the sign is 0 everywhere.",
        "Use a straight-through rule or a surrogate with @tf.custom_gradient.",
        KINKS,
    )


def _branch(step: Step, j: int) -> Explained:
    """Maximum and minimum, which clipping is made of."""
    x, other = _x(step, j), _x(step, 1 - j)
    lost = x < other if step.op.type == "Maximum" else x > other
    if not (lost | ((x == other) & (j == 1))).all():  # the first of two equal ones wins
        return None
    clip = step.op.source is not None and "clip" in step.op.source.text
    what = "It is clipped everywhere" if clip else "The other branch wins everywhere"
    return (
        f"{what}: {shown(x)} against {shown(other)}.",
        _BOUNDS if clip else "Only the branch that wins gets the gradient.",
        KINKS,
    )


def _clip(step: Step, j: int) -> Explained:
    x, low, high = (_x(step, i) for i in range(3))
    if j or not ((x < low) | (x > high)).all():
        return None
    return (
        f"Its input {shown(x)} is nowhere between {shown(low)} and {shown(high)}.",
        _BOUNDS,
        KINKS,
    )


def _softmax(step: Step, j: int) -> Explained:
    y = wide(step.op.outputs[0].numpy())
    if ((y == 0) | (y == 1)).all():
        return _flat(step, j)
    upstream = wide(step.upstream[0])
    if (upstream != upstream[..., :1]).any():
        return None
    return (
        "The entries of a softmax add up to 1, so an upstream that is the same for all of them "
        "gives 0.",
        "Use a loss that tells the entries apart, such as the cross-entropy.",
        CHAIN,
    )


def _saturated(step: Step, j: int) -> Explained:
    x, y = _x(step, j), wide(step.op.outputs[0].numpy())
    return _flat(step, j) if x.all() and np.isin(y, (-1.0, 0.0, 1.0, 2.0)).all() else None


def _flat(step: Step, j: int) -> Explained:
    return (
        f"It is saturated: at {shown(_x(step, j))} it gives {shown(step.op.outputs[0].numpy())}, "
        f"flat to the last digit of {step.op.inputs[j].dtype}.",
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


_DERIVATIVES: dict[tuple[str, int], tuple[str, Callable[..., Array]]] = {
    ("Log", 0): ("1/x", lambda x: 1 / x),
    ("Log1p", 0): ("1/(1 + x)", lambda x: 1 / (1 + x)),
    ("Reciprocal", 0): ("−1/x²", lambda x: 1 / x**2),
    ("RealDiv", 0): ("1/b", lambda a, b: 1 / b),
    ("RealDiv", 1): ("−a/b²", lambda a, b: a / b**2),
}


def _tiny(step: Step, j: int) -> Explained:
    """For an op whose derivative itself can be too small for the dtype."""
    formula, derivative = _DERIVATIVES[step.op.type, j]
    dtype, smallest = _limits(step, j)
    inputs = [_x(step, i) for i in range(len(step.op.inputs))]
    with np.errstate(all="ignore"):
        size = np.abs(derivative(*inputs))
    if not (size.size and (size < smallest).all() and size.any()):
        return None
    return (
        f"At {shown(inputs[-1])} its derivative {formula} is {style.number(size.max())}, below "
        f"{style.number(smallest)}, the smallest normal {dtype}.",
        "Rewrite the function so that no huge number is divided by, or write its stable rule.",
        STABILITY,
    )


_BY_TYPE: dict[str, Callable[[Step, int], Explained]] = {
    "Relu": _relu,
    "Relu6": _relu6,
    "Abs": _abs,
    "Sign": _sign,
    "Maximum": _branch,
    "Minimum": _branch,
    "ClipByValue": _clip,
    **dict.fromkeys(("Sigmoid", "Tanh", "Erf", "Erfc"), _saturated),
    "Softmax": _softmax,
    "Exp": _exp,
    **dict.fromkeys(("Mul", "MatMul", "BatchMatMulV2", "BatchMatMulV3"), _product),
    **dict.fromkeys(("SelectV2", "Select"), _where),
    **dict.fromkeys((name for name, _ in _DERIVATIVES), _tiny),
}
