"""How large and how small the numbers are, op by op, against the limits of their type.

Limits      the largest number of a dtype, the smallest normal one
exp_limit   where an op like exp overflows
rows        one dict per op, bodies of custom gradients included
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph import Array, Op, Pass, Trace
from ..graph.jacobian import wide

COLUMNS = (
    *("op", "type", "inside", "source", "dtype", "max", "min", "special"),
    *("gradient_max", "gradient_min", "gradient_special", "input", "limit", "headroom"),
)


@dataclass(frozen=True)
class Limits:
    """The range of a floating-point type."""

    name: str
    largest: float
    smallest: float  # normal number; below it digits are lost, and TensorFlow may flush to 0


FLOAT16 = Limits("float16", 65504.0, 2.0**-14)
BFLOAT16 = Limits("bfloat16", 2.0**127 * (2 - 2.0**-7), 2.0**-126)
FLOAT32 = Limits("float32", float(np.finfo(np.float32).max), 2.0**-126)
FLOAT64 = Limits("float64", float(np.finfo(np.float64).max), 2.0**-1022)
_KNOWN = {each.name: each for each in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64)}
_KNOWN |= {"complex64": FLOAT32, "complex128": FLOAT64}

# Ops that overflow where exp(input) is so many times the largest number of their type.
_EXP_LIKE = {"Exp": 1.0, "Expm1": 1.0, "Sinh": 2.0, "Cosh": 2.0}
BOTH_SIDES = frozenset(("Sinh", "Cosh"))  # these overflow below minus their limit too


def limits(dtype: str) -> Limits | None:
    """The limits of a dtype; None for what is not floating or complex.

    >>> limits("float16").largest, limits("int32")
    (65504.0, None)
    """
    return _KNOWN.get(dtype)


def exp_limit(op_type: str, dtype: str) -> float | None:
    """The largest input for which an op like exp stays finite; None for other ops.

    >>> [round(exp_limit("Exp", d), 2) for d in ("float16", "float32", "float64")]
    [11.09, 88.72, 709.78]
    >>> exp_limit("Mul", "float32") is None
    True
    """
    known = _KNOWN.get(dtype)
    if known is None or op_type not in _EXP_LIKE:
        return None
    return math.log(known.largest) + math.log(_EXP_LIKE[op_type])


def rows(trace: Trace, which: int | None = None) -> list[dict[str, Any]]:
    """The magnitudes of a trace, op by op in the order they ran.

    Args:
        trace: The trace.
        which: The backward pass, as in `trace.passes`; None is the one `trace.steps` shows.

    Returns:
        One dict per op with floating-point outputs, constants left out: `op`, `type`, `inside`
        (the custom gradient it belongs to, or ""), `source`, `dtype`; `max` and `min`, the largest
        and the smallest non-zero magnitude of its outputs, None where there is none; `special`,
        "NaN" or "∞" where it holds one, else ""; the same of the gradient that reached it, as
        `gradient_max`, `gradient_min`, `gradient_special`; for ops like exp `input`, the largest
        input, and `limit`, where it overflows; `headroom`, how many times larger `max` could be.

    Raises:
        ValueError: There is no such pass.

    Example:
        >>> import cgviz, tensorflow as tf
        >>> row = rows(cgviz.trace(tf.exp, 88.0))[-1]
        >>> row["op"], row["input"], round(row["limit"], 2), round(row["headroom"], 2)
        ('Exp', 88.0, 88.72, 2.06)
    """
    pass_ = trace.pass_(which) if trace.passes or which is not None else None
    return [
        _row(op, inside, pass_)
        for op, inside in _walk(trace.ops, "")
        if op.kind != "constant" and any(v.differentiable for v in op.outputs)
    ]


def _walk(ops: tuple[Op, ...], inside: str) -> list[tuple[Op, str]]:
    """Every op, the body of a custom one before it, as it ran."""
    found = []
    for op in ops:
        found += _walk(op.body, op.name)
        found.append((op, inside))
    return found


def _row(op: Op, inside: str, pass_: Pass | None) -> dict[str, Any]:
    values = [v for v in op.outputs if v.differentiable]
    largest, smallest, special = magnitudes([v.numpy() for v in values])
    gradients = [] if pass_ is None or inside else [pass_.upstream(v) for v in values]
    g_largest, g_smallest, g_special = magnitudes([g for g in gradients if g is not None])
    dtype = values[0].dtype
    known = limits(dtype)
    limit = exp_limit(op.type, op.inputs[0].dtype) if op.inputs else None
    return dict(
        zip(
            COLUMNS,
            (
                *(op.name, op.type, inside, None if op.source is None else str(op.source), dtype),
                *(largest, smallest, special, g_largest, g_smallest, g_special),
                None if limit is None else _largest_input(op),
                limit,
                known.largest / largest if known and largest else None,
            ),
            strict=True,
        )
    )


def _largest_input(op: Op) -> float | None:
    x = wide(op.inputs[0].numpy()).real
    x = np.abs(x[~np.isnan(x)]) if op.type in BOTH_SIDES else x[~np.isnan(x)]
    return float(x.max()) if x.size else None


def magnitudes(arrays: list[Array]) -> tuple[float | None, float | None, str]:
    """The largest and the smallest non-zero finite magnitude, and the worst that is not finite.

    >>> magnitudes([np.array([0.0, -8.0, 0.5, np.inf])])
    (8.0, 0.5, '∞')
    """
    if not arrays:
        return None, None, ""
    a = np.concatenate([np.abs(wide(each)).reshape(-1) for each in arrays])
    good = a[np.isfinite(a)]
    nonzero = good[good > 0]
    return (
        float(good.max()) if good.size else None,
        float(nonzero.min()) if nonzero.size else None,
        "NaN" if np.isnan(a).any() else "∞" if good.size < a.size else "",
    )
