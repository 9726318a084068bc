"""What an exercise says at once, and what its hidden tests ask.

feedback   one line to the student: "not yet", "✗ your rule ignores upstream: ...", "✓"
guessed    one line on a prediction
cases      numbers to try: several shapes and dtypes
ask        notes what an answer computes, in `answers`: for a grader, who compares it with what the
           solution computes

`feedback` and `guessed` print and never raise, so that an exercise runs from top to bottom however
far it is done.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import os
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from . import style
from .graph import dtypes
from .recording.api import trace

SHAPES = ((), (3,), (2, 3))
"""A rule that is right for these is rarely wrong for others."""

MOST_NUMBERS = 10_000
"""Numbers of one array that `ask` notes; of a larger one it notes the shape only."""

PREDICTION = "prediction"
LEFT = "a `...` is left in it. Write your code there."

_ANY = object()
"""Gradients of which only one must be there."""

answers: list[dict[str, Any]] = []
"""What `ask` has noted, in order. A grader reads and empties it."""


class NotYetError(Exception):
    """The place of the answer still holds its `...`."""


def feedback(
    f: Any,
    *args: Any,
    value: Any = None,
    gradients: Any = None,
    upstream: Any = None,
    custom: bool = False,
    **options: Any,
) -> None:
    """Say in a line whether f is right here: not yet, what is wrong first, or ✓.

    Args:
        f: The student's function, or whatever is in its place.
        *args: As in `cgviz.check`.
        value: What f should return here; None leaves that to `check`.
        gradients: What should come back for each argument; None leaves that to `check`.
        upstream: The upstream for `gradients`; None means ones.
        custom: Whether f must hold a custom gradient.
        **options: For `cgviz.check`: order, surrogate, where. `check=False` skips it.
    """
    name = _name(f)
    try:
        _demand(f, *args, value=value, gradients=_ANY)
        if options.pop("check", True):
            _sound(f, *args, custom=custom, **options)
        _demand(f, *args, value=value, gradients=gradients, upstream=upstream)
    except Exception as error:  # the student's own, whatever it is
        if _unwritten(f):
            print(f"not yet · {name}: {LEFT}")
        elif isinstance(error, NotYetError):
            print(f"not yet · {name}: {error}")
        elif isinstance(error, AssertionError):
            print(f"✗ {error}")
        else:
            print(f"✗ {name}: {_raised(error)}")
    else:
        print(f"✓ {name}")


def guessed(prediction: Any, truth: Any, name: str = PREDICTION) -> None:
    """Say whether a prediction, or a result called `name`, is right; of a wrong list, how far."""
    try:
        _guess(prediction, truth, name)
    except NotYetError as why:
        print(f"not yet · {name}: {why}")
    except AssertionError as why:
        print(f"✗ {why}")
    else:
        print(f"✓ {name}")


def cases(
    count: int, low: float = -2.0, high: float = 2.0, shapes: Sequence[tuple[int, ...]] = SHAPES
) -> Iterator[tuple[Any, ...]]:
    """Yield `count` arrays of random numbers for each shape, in float32 and in float64.

    >>> [(x.shape, x.dtype.name) for x, u in cases(2, shapes=[(), (3,)])]
    [((), 'float32'), ((), 'float64'), ((3,), 'float32'), ((3,), 'float64')]
    """
    random = np.random.default_rng(2024)
    for shape in shapes:
        for dtype in ("float32", "float64"):
            yield tuple(
                np.asarray(random.uniform(low, high, shape)).astype(dtype) for _ in range(count)
            )


def ask(thing: Any, *args: Any, upstream: Any = None, custom: bool = False) -> None:
    """Note what an answer computes, without a word on whether it is right.

    Args:
        thing: The student's function, or a result such as a prediction (then without `args`).
        *args: One tensor each; arrays keep their dtype, floats become float32.
        upstream: One entry per output. None notes the value only; otherwise the gradients of
            `args` are noted too.
        custom: Whether to note also if thing holds a custom gradient, and what it computes as a
            `tf.function`.

    Raises:
        RuntimeError: nbgrader runs this cell. It would take an answer that is noted for a right
            one; `make grade` compares it.

    >>> ask(lambda x: x * x, 3.0, upstream=2.0)
    >>> note = answers.pop()
    >>> note["value"][0]["data"], note["gradients"][0]["data"]
    ([9.0], [12.0])
    """
    if os.environ.get("NBGRADER_EXECUTION") == "autograde":
        raise RuntimeError("nbgrader cannot grade this cell. Use `make grade`.")
    if thing is ...:
        raise NotYetError(LEFT)
    if not args:
        answers.append({"plain": _plain(thing)})
        return
    name = _name(thing)
    given = [_tensor(arg) for arg in args]
    note: dict[str, Any] = {"at": f"{name}({', '.join(_kind(t) for t in given)})"}
    note |= _computed(thing, given, name, upstream)
    if custom:
        note["custom"] = "custom" in {op.kind for op in trace(thing, *args).ops}
        in_graph = tf.function(lambda *inner: thing(*inner))
        note["graph"] = _computed(in_graph, given, name, upstream)
    answers.append(note)


def _computed(f: Any, given: Sequence[Any], name: str, upstream: Any) -> dict[str, Any]:
    """The value of f, and its gradients where there is an upstream, in a form for JSON."""
    with tf.GradientTape() as tape:
        tape.watch([t for t in given if isinstance(t, tf.Tensor) and t.dtype.is_floating])
        out = _call(f, given, name)
    note: dict[str, Any] = {"value": [_numbers(part) for part in out]}
    if upstream is not None:
        found = _pull(tape, out, given, _seeds(out, upstream), name)
        note["gradients"] = [None if g is None else _numbers(g) for g in found]
    return note


def _numbers(part: Any) -> dict[str, Any]:
    """A tensor in a form for JSON."""
    array = _array(part)
    wide = array.dtype.kind not in "iub"  # bfloat16 is of no kind of NumPy's
    flat = array.ravel()[:MOST_NUMBERS].astype(np.float64 if wide else array.dtype)
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": flat.tolist()}


def _plain(thing: Any) -> Any:
    """Numbers, words, None, and lists of them, in a form for JSON."""
    if thing is None or isinstance(thing, bool | str):
        return thing
    if isinstance(thing, np.bool_):
        return bool(thing)
    if isinstance(thing, list | tuple):
        return [_plain(part) for part in thing]
    return float(thing)


def _kind(tensor: Any) -> str:
    return f"{tensor.dtype.name} of shape {tuple(tensor.shape)}"


def _demand(
    f: Any, *args: Any, value: Any = None, gradients: Any = None, upstream: Any = None
) -> None:
    """Raise unless f has this value and returns these gradients, in the right shape and dtype.

    Args:
        f: The student's function.
        *args: One tensor each; arrays keep their dtype, floats become float32.
        value: What f should return, one entry per output; None does not look.
        gradients: One entry per argument; None in place of one asks for None. None alone does not
            look.
        upstream: One entry per output; None means ones.

    Raises:
        AssertionError: Something is wrong, or not done yet; the text says what.
    """
    name = _name(f)
    if not callable(f):
        raise NotYetError("it has not been written. Replace the `...`.")
    given = [_tensor(arg) for arg in args]
    watched = [t for t in given if isinstance(t, tf.Tensor) and t.dtype.is_floating]
    at = f"{name}({', '.join(_short(t) for t in given)})"
    with tf.GradientTape() as tape:
        tape.watch(watched)
        out = _call(f, given, name)
    if value is not None:
        _same(at, out, value)
    if gradients is None:
        return
    seeds = _seeds(out, upstream)
    found = _pull(tape, out, given, seeds, name)
    behind = "" if upstream is None else f" with upstream {_short(upstream)}"
    each = gradients if isinstance(gradients, list | tuple) else [gradients]
    if all(g is None for g in found) and any(g is not None for g in each):
        raise NotYetError("what comes back is None. Write the rule where the `...` is.")
    if gradients is _ANY:
        return
    for number, (got, wanted) in enumerate(zip(found, each, strict=True)):
        place = f"{at}{behind}: the gradient of input {number}"
        if wanted is None:
            _insist(got is None, f"{place} is {_short(got)}, and should be None.")
        else:
            _insist(got is not None, f"{place} is None, and should be {_short(wanted)}.")
            _same(place, got, wanted, given[number])


def _sound(f: Any, *args: Any, custom: bool = False, **options: Any) -> None:
    """Raise unless `cgviz.check` finds no error.

    Args:
        f: The student's function.
        *args: As in `cgviz.check`.
        custom: Whether f must hold a custom gradient.
        **options: For `cgviz.check`: order, surrogate, where.

    Raises:
        AssertionError: The first thing that is wrong, with its hint.
    """
    from .checking.checker import check

    name = _name(f)
    report = check(f, *args, **options)
    wrong = [finding for finding in report.findings if finding.level == "error"]
    if wrong:
        first = wrong[0]
        if first.rule == "runs" and "NotImplementedError" in first.message:
            raise NotYetError("it raises NotImplementedError.")
        raise AssertionError(f"{name}: {_words(first.rule, first.message)} {first.hint}".rstrip())
    if custom:
        kinds = {op.kind for op in trace(f, *args).ops}
        words = f"{name} holds no custom gradient: keep @tf.custom_gradient."
        _insist("custom" in kinds, words)


def _words(rule: str, message: str) -> str:
    """A finding of `check` as a sentence to its author."""
    if rule != "upstream":
        return f"{rule}: {message}"
    why = message.partition(": ")[2].removeprefix("upstream is ignored: ")
    return f"your rule {'ignores' if 'ignored' in message else 'bends'} upstream: {why}"


def _call(f: Callable[..., Any], given: Sequence[Any], name: str) -> list[Any]:
    with _unfinished(name):
        out = f(*given)
    if out is None or out is ...:
        raise NotYetError("it returns None. Write it where the `...` is.")
    flat = tf.nest.flatten(out)
    if any(part is None or part is ... for part in flat):
        raise NotYetError("a part of what it returns is None.")
    return [tf.convert_to_tensor(part) for part in flat]


def _pull(
    tape: Any, out: Sequence[Any], given: Sequence[Any], seeds: Sequence[Any], name: str
) -> list[Any]:
    with _unfinished(name):
        found = tape.gradient(list(out), list(given), output_gradients=list(seeds))
    if any(gradient is ... for gradient in found):
        raise NotYetError("its rule returns `...`. Write the gradient there.")
    return list(found)


@contextlib.contextmanager
def _unfinished(name: str) -> Iterator[None]:
    """Tell an answer that was not given from one that is wrong."""
    try:
        yield
    except NotImplementedError as error:
        raise NotYetError("it raises NotImplementedError.") from error
    except (AssertionError, NotYetError):
        raise
    except Exception as error:
        if "ellipsis" in str(error).lower():
            raise NotYetError(LEFT) from error
        if "NoneType" in str(error):
            raise NotYetError(f"it, or its rule, returns None. ({_raised(error)})") from error
        raise AssertionError(f"{name}: {_raised(error)}") from error


def _seeds(out: Sequence[Any], upstream: Any) -> list[Any]:
    if upstream is None:
        return [tf.ones_like(part) for part in out]
    each = list(upstream) if isinstance(upstream, list | tuple) else [upstream]
    pairs = zip(out, each, strict=True)
    return [tf.cast(tf.broadcast_to(tf.constant(u), y.shape), y.dtype) for y, u in pairs]


def _same(place: str, got: Any, wanted: Any, like: Any = None) -> None:
    parts = list(got) if isinstance(got, list | tuple) else [got]
    each = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    if len(parts) != len(each):
        raise AssertionError(f"{place} has {len(parts)} parts, and should have {len(each)}.")
    for part, want in zip(parts, each, strict=True):
        array, right = _array(part), np.asarray(want)
        shapes = f"has the shape {array.shape}, and should have {right.shape}."
        _insist(array.shape == right.shape, f"{place} {shapes}")
        dtype = getattr(like, "dtype", part.dtype)
        _insist(part.dtype == dtype, f"{place} is {part.dtype.name}, and should be {dtype.name}.")
        give = (dtypes.limits(str(array.dtype)) or dtypes.FLOAT64).answer
        close = np.isclose(
            array.astype(np.float64), right.astype(np.float64), give, give, equal_nan=True
        )
        _insist(close.all(), f"{place} is {_short(array)}, and should be {_short(right)}.")


def _insist(holds: Any, words: str) -> None:
    """Raise what `assert` would, also where Python skips assertions."""
    if not holds:
        raise AssertionError(words)


def _guess(prediction: Any, truth: Any, name: str) -> None:
    if prediction is None or prediction is ...:
        if name != PREDICTION:
            raise NotYetError("it is None. Write your code where the `...` is.")
        raise NotYetError("write what you expect in place of the `...`, before you run anything.")
    many = isinstance(truth, list | tuple)
    wanted = list(truth) if many else [truth]
    given = list(prediction) if isinstance(prediction, list | tuple) else [prediction]
    if len(given) != len(wanted):
        raise AssertionError(f"{name}: {len(wanted)} entries are asked for, here are {len(given)}.")
    right = sum(_equal(one, other) for one, other in zip(given, wanted, strict=True))
    if right < len(wanted):
        part = f"{right} of {len(wanted)} are right" if many else f"it is not {prediction!r}"
        raise AssertionError(f"{name}: {part}. Look at the picture, then say why.")


def _equal(one: Any, other: Any) -> bool:
    """Words and None by equality; numbers to four digits, but True is no number."""
    if one is None or other is None or isinstance(one, bool | str) or isinstance(other, bool | str):
        return type(one) is type(other) and bool(one == other)
    try:
        return bool(np.isclose(float(one), float(other), 1e-4, 1e-6, equal_nan=True))
    except (TypeError, ValueError):
        return False


def _tensor(arg: Any) -> Any:
    if isinstance(arg, tf.Variable | tf.Tensor):
        return arg
    array = np.asarray(arg)
    if array.dtype == np.float64 and not isinstance(arg, np.ndarray | np.generic):
        array = array.astype(np.float32)
    return tf.constant(array)


def _array(part: Any) -> np.ndarray[Any, Any]:
    return np.asarray(tf.convert_to_tensor(part).numpy())


def _short(thing: Any) -> str:
    """A number as it is written, a small array in full, a large one by its shape."""
    if isinstance(thing, list | tuple):
        return "[" + ", ".join(_short(part) for part in thing) + "]"
    array = np.asarray(thing.numpy() if hasattr(thing, "numpy") else thing)
    if array.dtype.kind not in "fiub":
        return str(array)
    if array.ndim == 0:
        return style.number(float(array))
    if array.size > 6:
        return f"{array.dtype.name}{list(array.shape)}"
    return "[" + ", ".join(_short(part) for part in array) + "]"


def _unwritten(f: Any) -> bool:
    """Whether a line of an answer is still the `...` that it was given out with."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(f))))
    except (TypeError, OSError, SyntaxError, ValueError):
        return False
    lines = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr | ast.Assign)]
    return any(isinstance(line, ast.Constant) and line.value is ... for line in lines)


def _name(f: Any) -> str:
    if isinstance(f, tf.Module) and not isinstance(f, type):
        return type(f).__name__
    found = getattr(f, "__name__", None)
    return str(found) if found and found != "<lambda>" else "your answer"


def _raised(error: BaseException) -> str:
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
