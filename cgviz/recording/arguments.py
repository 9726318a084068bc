"""Turns arguments into named tensors, and mistakes into clear errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf


def convert(
    f: Any, args: Sequence[Any], caller: str = "cgviz.trace"
) -> tuple[tuple[Any, ...], list[tuple[Any, str]]]:
    """The arguments as tensors and variables, and the name of each tensor among them.

    `caller` is the name of the called function, for the error messages.
    """
    if not callable(f):
        raise TypeError(
            f"{caller}: `f` must be a function, and it is {_kind(f)}. "
            f"Write {caller}(f, x), not {caller}(f(x))."
        )
    if not tf.executing_eagerly():
        raise RuntimeError(f"{caller} runs f eagerly, and this code is building a graph")
    if not args:
        raise ValueError(
            f"{caller}: `f` needs at least one argument to differentiate with respect to. For "
            "code without arguments, open your own tape inside `with cgviz.record() as trace:`."
        )
    names = parameter_names(f, len(args))
    seen: set[int] = set()
    named: list[tuple[Any, str]] = []

    def leaf(given: Any, name: str) -> Any:
        tensor = _tensor(given, name, caller)
        if isinstance(tensor, tf.Tensor):
            if id(tensor) in seen:  # f(x, x): each argument has a gradient of its own
                tensor = tf.identity(tensor)
            named.append((tensor, name))
        seen.add(id(tensor))
        return tensor

    given = tuple(_map(leaf, arg, name) for arg, name in zip(args, names, strict=True))
    if not any(can_be_watched(as_source(t)) for t in tf.nest.flatten(given)):
        raise ValueError(
            f"{caller}: nothing to differentiate with respect to: "
            f"{', '.join(f'`{n}`' for n in names)} holds no floating-point numbers, "
            "and TensorFlow gives integers no gradient. Write `2.` instead of `2`, or convert with "
            "tf.cast(x, tf.float32)."
        )
    return given, named


def check_order(order: Any) -> None:
    """Raise unless `order` is a whole number of 1 or more."""
    if not isinstance(order, int) or isinstance(order, bool) or order < 1:
        raise ValueError(
            f"`order` must be a whole number of 1 or more, and it is {order!r}: "
            "1 is the gradient, 2 the gradient of the gradient"
        )


def check_value(value: Any, f: Any) -> list[Any]:
    """The tensors in f's value, or an error that says what f returned instead."""
    leaves = tf.nest.flatten(value)
    if value is None or not leaves:
        raise TypeError(f"`{title(f)}` returned {value}, no tensor. Does it end in `return`?")
    for each in leaves:
        if isinstance(each, tf.RaggedTensor | tf.SparseTensor | tf.IndexedSlices):
            numbers = "flat_values" if isinstance(each, tf.RaggedTensor) else "values"
            raise TypeError(
                f"Return its `.{numbers}`: `{title(f)}` must return a tensor, and it returned "
                f"{_kind(each)}."
            )
        if not isinstance(each, tf.Tensor | tf.Variable):
            raise TypeError(
                f"`{title(f)}` must return a tensor, and it returned {_kind(each)}. NumPy and "
                "Python numbers inside f cut the path of the gradient: keep to tf functions."
            )
    return [tf.convert_to_tensor(each) for each in leaves]


def seeds(upstream: Any, targets: Sequence[Any]) -> list[Any] | None:
    """One upstream tensor per target, of the target's shape and dtype; None means ones.

    `explore`, which knows no shapes before f has run, gives a function of the targets.
    """
    if callable(upstream):
        return upstream(targets)
    if upstream is None:
        return None
    leaves = _entries(upstream, len(targets))
    if len(leaves) != len(targets):
        raise ValueError(
            f"`upstream` has {len(leaves)} entries, and f's value has {len(targets)} tensors: "
            "give one upstream per tensor, in the same order"
        )
    return [_seed(each, target) for each, target in zip(leaves, targets, strict=True)]


def _entries(upstream: Any, count: int) -> list[Any]:
    """The upstreams of `count` tensors; inside a structure, a list of numbers is one upstream."""
    if count == 1 and not isinstance(upstream, tuple | dict):
        return [upstream]
    outer = tuple(upstream) if isinstance(upstream, list) else upstream
    arrays = _map(
        lambda each, name: None if each is None else _array(each, f"`{name}`"), outer, "upstream"
    )
    return tf.nest.flatten(arrays)


def _seed(given: Any, target: Any) -> Any:
    """One upstream as a tensor of the dtype of `target`, whose shape it must have."""
    if given is None:  # a None among others makes TensorFlow raise, or ends the process
        return tf.ones_like(target) if can_be_watched(target) else None
    array = _array(given, "`upstream`")
    dtype = tf.as_dtype(array.dtype)
    fits = dtype != tf.string and (target.dtype.is_complex or not dtype.is_complex)
    if not fits or tuple(array.shape) != tuple(target.shape):
        raise ValueError(
            f"`upstream` has shape {tuple(array.shape)} and dtype {dtype.name}, and f's value has "
            f"shape {tuple(target.shape)} and dtype {target.dtype.name}: they must agree"
        )
    return tf.convert_to_tensor(array, dtype=target.dtype)


def as_source(leaf: Any) -> Any:
    """What a tape takes as a source: for a Keras variable, the tf.Variable inside it."""
    inner = getattr(leaf, "value", None)
    return inner if isinstance(inner, tf.Variable) else leaf


def can_be_watched(tensor: Any) -> bool:
    """Whether a tape can follow this tensor or variable: its dtype is floating or complex."""
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex)


def title(f: Any) -> str:
    """A short name for a function, a layer or a model."""
    inner = f.func if isinstance(f, partial) else getattr(f, "python_function", None)
    if inner is not None:  # a `tf.function` of a partial has the name "function"
        return title(inner)
    name = getattr(f, "__name__", None) or getattr(f, "name", None)
    if not isinstance(name, str):
        name = type(f).__name__
    return "f" if name == "<lambda>" else name


def parameter_names(f: Any, count: int) -> list[str]:
    """The names of f's first `count` positional parameters."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if count == 1 and not named:
        return ["x"]
    return (named + [f"x{i}" for i in range(len(named), count)])[:count]


def _map(leaf: Callable[[Any, str], Any], given: Any, name: str) -> Any:
    """Apply `leaf` to every tensor of a nested structure; a list of numbers is one tensor."""
    if isinstance(given, dict):
        return {k: _map(leaf, v, f"{name}.{k}") for k, v in given.items()}
    if isinstance(given, tuple) or (isinstance(given, list) and _holds_tensors(given)):
        parts = [_map(leaf, v, f"{name}[{i}]") for i, v in enumerate(given)]
        if hasattr(given, "_fields"):
            return type(given)(*parts)
        return type(given)(parts)
    return leaf(given, name)


def _holds_tensors(given: list[Any]) -> bool:
    leaves = map(as_source, tf.nest.flatten(given))
    return any(isinstance(leaf, tf.Tensor | tf.Variable | np.ndarray) for leaf in leaves)


def _array(given: Any, what: str) -> Any:
    """A tensor, variable or NumPy array as it is; floats and lists of floats as float32."""
    if isinstance(given, tf.Tensor | tf.Variable | np.ndarray | np.generic):
        return given
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise TypeError(
            f"{what} is a list whose rows differ in length; a tensor needs equal rows, and a "
            "nested structure is written as a tuple"
        ) from error
    with np.errstate(over="ignore"):
        return array.astype(np.float32) if array.dtype == np.float64 else array


def _tensor(given: Any, name: str, caller: str) -> Any:
    if isinstance(as_source(given), tf.Variable) or type(given).__name__ == "EagerTensor":
        return given
    is_numpy = isinstance(given, np.ndarray | np.generic)
    # Without numbers, as in a graph, or ragged or sparse; arrays of other libraries are converted.
    is_other = tf.is_tensor(given) or type(given).__name__ == "KerasTensor"
    array = None if is_other else _array(given, f"{caller}: `{name}`")
    if array is None or (array.dtype.kind not in "fciub" and array.dtype.name != "bfloat16"):
        raise TypeError(
            f"{caller}: `{name}` is {_kind(given)}, and must be made of numbers: a float, an "
            "array, a dense tensor with values (`.flat_values` of a ragged one). Is it a setting? "
            f"Close over it instead: {caller}(lambda x: f(x, setting), x)"
        )
    if array.dtype.kind in "iub" and not is_numpy:
        raise ValueError(
            f"{caller}: `{name}` is {given!r}, made of integers, and TensorFlow gives integers "
            "no gradient. Write them as floats: `2.` for 2, `1.` for True."
        )
    return tf.convert_to_tensor(array)


def _kind(given: Any) -> str:
    if given is None:
        return "None"
    if isinstance(given, str):
        return f"the string {given!r}"
    article = "an" if type(given).__name__[0].lower() in "aeiou" else "a"
    return f"{article} {type(given).__name__}"
