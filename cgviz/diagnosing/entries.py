"""Single entries of tensors: where the first NaN is, and which inputs belong to it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import style
from ..graph import Array, Op, Value, names
from ..graph.jacobian import wide

# Ops that make each entry of one entry of every input. Of others, such as a matrix product, it
# would be wrong to say which numbers an entry came from, also where the shapes agree.
_BY_ENTRY = frozenset(
    (
        *names.INFIX,
        *("Neg", "Abs", "Square", "Sqrt", "Rsqrt", "Reciprocal", "Inv", "Pow", "SquaredDifference"),
        *("Exp", "Expm1", "Log", "Log1p", "Xlogy", "Xlog1py", "Xdivy", "Lgamma", "Digamma"),
        *("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Atan2", "Erf", "Erfc", "Erfinv", "Ndtri"),
        *("Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh", "Sigmoid", "Softplus", "Softsign"),
        *("Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Cast", "Select", "SelectV2"),
    )
)


def numbers(value: Value) -> Array:
    """A value's numbers in double precision; none for integers."""
    return wide(value.numpy()) if value.differentiable else np.zeros(0)


def has_nan(a: Array) -> bool:
    """Whether there is a NaN."""
    return bool(np.isnan(a).any())


def has_inf(a: Array) -> bool:
    """Whether there is an infinity."""
    return bool(np.isinf(a).any())


def first_bad(a: Array) -> tuple[int, ...]:
    """The place of the first NaN, or else of the first infinity."""
    bad = np.isnan(a) if np.isnan(a).any() else np.isinf(a)
    return tuple(int(i) for i in np.argwhere(bad)[0])


def entry(index: tuple[int, ...]) -> str:
    """Where an entry stands: " at entry [1, 0]", or "" for a scalar."""
    return f" at entry [{', '.join(map(str, index))}]" if index else ""


def by_entry(op: Op) -> bool:
    """Whether each entry comes of one entry of every input; taken for granted of custom ops."""
    return op.kind != "op" or op.type in _BY_ENTRY


def number_at(op: Op, value: Value, index: tuple[int, ...], like: Value) -> complex | None:
    """The number of an op's input that belongs to an entry of `like`, if there is just one."""
    a = numbers(value)
    if a.size == 1:
        return a.reshape(-1)[0].item()
    if not by_entry(op):
        return None
    try:
        return np.broadcast_to(a, like.shape)[index].item()
    except ValueError:
        return None


def inputs_at(
    op: Op, index: tuple[int, ...], name: Callable[[Value], str], like: Value | None = None
) -> str:
    """The inputs at an entry: " from `x` = 0 and `y` = 2"."""
    like = op.outputs[0] if like is None else like
    found = [(name(v), number_at(op, v, index, like)) for v in op.inputs]
    texts = [f"{who} = {style.number(number)}" for who, number in found if number is not None]
    return f" from {' and '.join(texts)}" if texts else ""
