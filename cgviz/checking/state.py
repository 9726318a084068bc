"""What f could change by running: found before it runs, and put back after."""

from __future__ import annotations

import functools
import logging
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from io import StringIO
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import tensorflow as tf

from ..recording import tf_hooks

DEEPEST = 4  # functions inside functions that are looked into: wrappers of wrappers are rare
LARGEST = 1000  # entries of a container that are looked at, and numbers of an array (times ten)

Kept = dict[int, tuple[Any, Any]]
"""Variables by their id, each with a copy of its value."""

# The streams of random numbers and sys.stdout belong to the process: one check at a time.
_ALONE = threading.RLock()


@contextmanager
def kept(f: Any, args: Any) -> Iterator[tuple[Kept, StringIO]]:
    """Leave variables, random streams and the terminal as they were, on every way out.

    Yields:
        The variables in reach (more may be added), and what f printed.
    """
    with _ALONE:
        variables = {id(v): (v, tf.identity(v)) for v in _variables(f, args)}
        numpy_state, python_state = np.random.get_state(), random.getstate()
        logger = tf.get_logger()
        level = logger.level
        try:
            with ExitStack() as stack:
                stack.enter_context(tf_hooks.unrecorded())
                stack.enter_context(tf_hooks.seeds_kept())
                stack.enter_context(np.errstate(all="ignore"))
                printed = stack.enter_context(_printed())
                logger.setLevel(logging.ERROR)  # a function made anew for each check "retraces"
                yield variables, printed
        finally:
            logger.setLevel(level)
            np.random.set_state(numpy_state)
            random.setstate(python_state)
            restore(variables)


class _OneThread(StringIO):
    """Takes what one thread prints; what others print goes where it would have gone."""

    def __init__(self, passed_on: Any) -> None:
        super().__init__()
        self._passed_on = passed_on
        self._thread = threading.get_ident()

    def write(self, text: str) -> int:
        if threading.get_ident() == self._thread:
            return super().write(text)
        return int(self._passed_on.write(text))


@contextmanager
def _printed() -> Iterator[StringIO]:
    """Take what this thread prints."""
    before, printed = sys.stdout, _OneThread(sys.stdout)
    sys.stdout = printed
    try:
        yield printed
    finally:
        sys.stdout = before


def restore(variables: Kept) -> list[Any]:
    """Put back every variable that changed; returns those."""
    changed = []
    with tf.init_scope():  # while a graph is traced, too
        for variable, value in list(variables.values()):
            if not same(variable, value):
                variable.assign(value)
                changed.append(variable)
    return changed


def same(one: Any, other: Any) -> bool:
    """Whether two tensors hold the same bits."""
    a, b = np.asarray(tf.convert_to_tensor(one)), np.asarray(other)
    return a.shape == b.shape and a.tobytes() == b.tobytes()


def _variables(f: Any, args: Any) -> list[Any]:
    found: dict[int, Any] = {}
    for _, value in [*reach(f), *(("", leaf) for leaf in tf.nest.flatten(list(args)))]:
        for each in _variables_of(value):
            found.setdefault(id(each), each)
    return list(found.values())


def _variables_of(value: Any) -> list[Any]:
    inner = getattr(value, "value", None)
    if isinstance(value, tf.Variable):
        return [value]
    if isinstance(inner, tf.Variable):  # a Keras variable
        return [inner]
    if isinstance(value, list | tuple) and len(value) < LARGEST:
        return [v for each in value for v in _variables_of(each)]
    if isinstance(value, dict) and len(value) < LARGEST:
        return [v for each in value.values() for v in _variables_of(each)]
    if isinstance(value, tf.Module | tf.random.Generator) or hasattr(value, "trainable_variables"):
        try:
            own = [value.state] if isinstance(value, tf.random.Generator) else value.variables
            return [v for each in own for v in _variables_of(each)]
        except (AttributeError, TypeError, ValueError):  # a Keras model that is not built yet
            return []
    return []


def reach(f: Any, depth: int = DEEPEST) -> Iterator[tuple[str, Any]]:
    """What f's code can get at by a name: closures, globals, defaults, its object's attributes."""
    if depth == 0:
        return
    yield "", f
    if isinstance(f, functools.partial):
        yield from (("", value) for value in [*f.args, *f.keywords.values()])
        yield from reach(f.func, depth - 1)
    elif isinstance(f, MethodType):
        yield from vars(f.__self__).items() if hasattr(f.__self__, "__dict__") else ()
        yield "self", f.__self__
        yield from reach(f.__func__, depth - 1)
    elif isinstance(f, FunctionType):
        for name, value in _names(f):
            yield name, value
            if isinstance(value, FunctionType | MethodType | functools.partial):
                yield from reach(value, depth - 1)
    elif hasattr(f, "python_function"):
        yield from reach(f.python_function, depth)
    elif hasattr(f, "__dict__") and not isinstance(f, type):
        yield from vars(f).items()
    if hasattr(f, "__wrapped__"):  # what a decorator such as tf.custom_gradient holds
        yield from reach(f.__wrapped__, depth)


def _names(f: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not bound yet
            continue
    for name in _global_names(f.__code__):
        if name in f.__globals__:
            yield name, f.__globals__[name]
    yield from (("", value) for value in f.__defaults__ or ())


def _global_names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for each in code.co_consts:
        if isinstance(each, CodeType):
            names |= _global_names(each)
    return names


def fingerprint(f: Callable[..., Any]) -> dict[str, Any]:
    """The Python state in f's reach, by name: numbers, text, arrays, and lengths of containers."""
    found: dict[str, Any] = {}
    for name, value in reach(f):
        if name and (mark := _mark(value)) is not None:
            found.setdefault(name, mark)
    return found


def _mark(value: Any) -> Any:
    if isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, list | dict | set | bytearray):
        return len(value)
    if isinstance(value, np.ndarray) and value.size <= 10 * LARGEST and value.dtype != object:
        return value.tobytes()
    return None
