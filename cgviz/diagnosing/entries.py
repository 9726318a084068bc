"""Single entries of tensors: where the first NaN is, and which inputs belong to it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import style
from ..graph import Array, Op, Value
from .survey import wide


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


def number_at(a: Array, index: tuple[int, ...], like: Value) -> complex | None:
    """The number of an input that belongs to an entry of `like`, if there is just one."""
    if a.size == 1:
        return a.reshape(-1)[0].item()
    if a.shape == like.shape:
        return a[index].item()
    return None


def inputs_at(
    op: Op, index: tuple[int, ...], name: Callable[[Value], str], like: Value | None = None
) -> str:
    """The inputs at an entry: " from `x` = 0 and `y` = 2"."""
    like = op.outputs[0] if like is None else like
    texts = []
    for v in op.inputs:
        number = number_at(numbers(v), index, like) if v.differentiable else None
        if number is not None:
            texts.append(f"{name(v)} = {style.number(number)}")
    return f" from {' and '.join(texts)}" if texts else ""
