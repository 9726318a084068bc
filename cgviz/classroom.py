"""What an exercise tells the student at once, and what its hidden tests note for the grader.

feedback   one line to the student: "not yet", "✗ cube: upstream: ...", "✓"
guessed    one line on a prediction
cases      numbers to try: several shapes, one dtype or two
ask        notes in `answers` what an answer computes; a grader compares it with what the solution
           computes

`feedback` and `guessed` print and never raise, so that an exercise runs from top to bottom however
much of it is done.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import os
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import tensorflow as tf

from . import style
from .checking import checker
from .checking.rules import first_line
from .graph import dtypes
from .hinting.hints import explain
from .reading.format import counted
from .recording.api import trace
from .recording.build import variable_name
from .recording.source import lines

SHAPES = ((), (3,), (2, 3))  # a rule that is right for these is rarely wrong for others
MOST_NUMBERS = 10_000  # of an array that `ask` notes; of a larger array, only the first ones
MOST_TEXT = 300  # characters of what stands in place of a number
PREDICTION = "prediction"
KINDS = {bool: "True or False", float: "a number", str: "a word", list: "a list"}
LEFT = "a `...` is left in it. Write your code there."

answers: list[dict[str, Any]] = []
"""The notes of `ask`, in order. A grader reads and empties the list."""


class NotYetError(Exception):
    """The answer is not written yet: it still holds its `...`, or gives None."""


# --- what a student sees -----------------------------------------------------------------------


def feedback(
    f: Any,
    *args: Any,
    value: Any = None,
    gradients: Any = None,
    upstream: Any = None,
    custom: bool = False,
    check: bool = True,
    **options: Any,
) -> None:
    """Print in one line whether f is right here: not yet, the first thing that is wrong, or ✓.

    Args:
        f: The student's function, or whatever is in its place.
        *args: The arguments of f, each one tensor; arrays keep their dtype, floats become float32.
        value: What f should return here, one entry per output; None leaves that to `check`.
        gradients: The right gradient of each argument, None for an argument that gets none; None
            alone leaves that to `check`.
        upstream: The upstream for `gradients`, one entry per output; None means ones.
        custom: Whether f must hold a custom gradient.
        check: Whether to run `cgviz.check`.
        **options: For `cgviz.check`: order, surrogate, where.
    """
    with _told(_name(f)):
        rule = check or gradients is not None
        answer = _Answer(f, args, rule)
        if value is not None:
            _same(answer.at, answer.outputs, value)
        if rule:
            returned = answer.gradients(upstream)
            if custom and all(g is None for g in returned):
                raise NotYetError("what comes back is None. Is there a rule, and does it `return`?")
        if check:
            judged = _sound(f, *args, **options) or gradients is not None
            _insist(judged, f"{_name(f)}: its gradient cannot be judged at this very point.")
        missing = f"{_name(f)} holds no custom gradient: keep @tf.custom_gradient."
        _insist(not custom or _holds_custom(f, args), missing)
        if gradients is not None:
            behind = "" if upstream is None else f" with upstream {style.array(upstream)}"
            each = zip(returned, _list(gradients), answer.given, strict=True)
            for i, pair in enumerate(each):
                _same(f"{answer.at}{behind}: the gradient of input {i}", *pair)


def guessed(prediction: Any, truth: Any, name: str = PREDICTION) -> None:
    """Print whether a prediction, or a result called `name`, is right.

    For a wrong list it prints how many entries are right, and for a result also which are wrong.
    """
    with _told(name):
        if prediction is None or prediction is ...:
            before = "write what you expect in place of the `...`, before you run anything."
            late = "it is None. Write your code where the `...` is."
            raise NotYetError(before if name == PREDICTION else late)
        given, wanted = _list(_plain(prediction)), _list(_plain(truth))
        count = f"{name}: entries asked for: {len(wanted)}, given: {len(given)}."
        hint = " Write a list in [ ]." * isinstance(_plain(prediction), str)
        _insist(len(given) == len(wanted), count + hint)
        kinds = sorted({KINDS[type(each)] for each in wanted if each is not None}) or ["None"]
        for each in given:
            fits = each is None or (KINDS[type(each)] in kinds and each != "None")
            hint = " Write it without quotes." * (each in ("None", "True", "False"))
            _insist(fits, f"{name}: {' or '.join(kinds)} is asked for, here is {each!r}.{hint}")
        pairs = enumerate(zip(given, wanted, strict=True), start=1)
        wrong = [str(n) for n, pair in pairs if not _equal(*pair)]
        part = f"it is not {prediction!r}"
        if len(wanted) > 1:
            part = f"{len(wanted) - len(wrong)} of {len(wanted)} are right"
            part += "" if name == PREDICTION else f"; wrong: {', '.join(wrong)}"
        _insist(not wrong, f"{name}: {part}.")


@contextlib.contextmanager
def _told(name: str) -> Iterator[None]:
    """Print in one line how far an answer is, and let no error out of the block."""
    try:
        yield
    except NotYetError as error:
        print(f"not yet · {name}: {error}")
    except AssertionError as error:
        print(f"✗ {error}")
    except Exception as error:  # from the student's own code, whatever it is
        words = type(error).__name__
        with contextlib.suppress(Exception):  # `str(error)` may raise in turn
            words, hint = first_line(error), explain(error)
            asked = "Does the rule `return`? " * words.endswith("but returned 1 instead.")
            words = f"{words.rstrip('.')}. {asked}{hint.fix}" if hint else words
        print(f"✗ {name}: {words}")
    else:
        print(f"✓ {name}")


def cases(
    count: int, low: float = -2.0, high: float = 2.0, shapes: Any = SHAPES, float64: bool = False
) -> Iterator[tuple[Any, ...]]:
    """Yield `count` arrays of random numbers for each shape, in float32; also in float64 if asked.

    >>> [(x.shape, x.dtype.name) for x, u in cases(2, shapes=[(3,)], float64=True)]
    [((3,), 'float32'), ((3,), 'float64')]
    """
    random = np.random.default_rng(2024)
    for shape, dtype in product(shapes, ("float32", "float64") if float64 else ("float32",)):
        yield tuple(np.asarray(random.uniform(low, high, shape), dtype) for _ in range(count))


# --- what a grader compares --------------------------------------------------------------------


def ask(
    thing: Any, *args: Any, upstream: Any = None, custom: bool = False, without: str = ""
) -> None:
    """Note what an answer computes, without saying whether it is right.

    Args:
        thing: The student's function, or a result such as a prediction (then without `args`).
        *args: The arguments of `thing`, each one tensor; arrays keep their dtype, floats become
            float32.
        upstream: One entry per output. None notes the value only; otherwise the gradients of
            `args` are noted too.
        custom: Whether to note also if `thing` holds a custom gradient, and what `thing` computes
            as a `tf.function`.
        without: What is not noted: the "value", or what comes of the "graph".

    Raises:
        RuntimeError: nbgrader grades this cell. It would pass every answer that can be noted;
            `make grade` compares them.

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
    answer = _Answer(thing, args, rule=custom or upstream is not None)
    kinds = (f"{t.dtype.name} of shape {tuple(t.shape)}" for t in answer.given)
    names = [variable_name(a) if isinstance(a, tf.Variable) else "" for a in args]
    of = [name or f"input {i}" for i, name in enumerate(names)]
    note: dict[str, Any] = {"at": f"{_name(thing)}({', '.join(kinds)})", "of": of}
    note |= _noted(answer, upstream, without)
    if custom:
        note["custom"] = _holds_custom(thing, args)
    if custom and without != "graph":
        in_graph = tf.function(lambda *inner: thing(*inner))
        note["graph"] = _noted(_Answer(in_graph, args), upstream, without)
    answers.append(note)


def _noted(answer: _Answer, upstream: Any, without: str) -> dict[str, Any]:
    """The value of an answer, and its gradients where there is an upstream, in a form for JSON."""
    value = [_numbers(part) for part in answer.outputs]
    note: dict[str, Any] = {} if without == "value" else {"value": value}
    if upstream is not None:
        found = answer.gradients(upstream)
        note["gradients"] = [None if g is None else _numbers(g) for g in found]
    return note


def _numbers(part: Any) -> dict[str, Any]:
    """A tensor in a form for JSON."""
    array = np.asarray(part)
    wide = array.dtype.kind not in "iub"  # not `in "f"`: the kind of bfloat16 is "V"
    flat = array.ravel()[:MOST_NUMBERS].astype(np.float64 if wide else array.dtype)
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": flat.tolist()}


def _plain(thing: Any) -> Any:
    """Numbers, words, None, and lists of them, in a form for JSON.

    An array or a tensor is a list, a list of one entry that entry, and anything else a word.
    """
    if tf.is_tensor(thing) or isinstance(thing, np.ndarray | np.generic):
        thing = np.asarray(thing).tolist()
    if isinstance(thing, list | tuple):
        return _plain(thing[0]) if len(thing) == 1 else [_plain(part) for part in thing]
    if thing is None or isinstance(thing, bool | str):
        return thing
    try:
        return float(thing)
    except (TypeError, ValueError, OverflowError):
        return repr(thing)[:MOST_TEXT]


# --- running an answer -------------------------------------------------------------------------


class _Answer:
    """One run of a student's function: its outputs and, when asked for, its gradients.

    Raises:
        NotYetError: The function is not written, or returns None.
    """

    def __init__(self, f: Any, args: Sequence[Any], rule: bool = True) -> None:
        if not callable(f) or _unwritten(f, rule):
            raise NotYetError(LEFT)
        self.given = [a if isinstance(a, tf.Variable) else tf.convert_to_tensor(a) for a in args]
        self.at = f"{_name(f)}({', '.join(map(style.array, self.given))})"
        with tf.GradientTape() as self.tape:
            self.tape.watch([each for each in self.given if each.dtype.is_floating])
            self.outputs = tf.nest.flatten(f(*self.given))
        if any(part is None or part is ... for part in self.outputs):
            raise NotYetError("it returns None.")
        self.outputs = [tf.convert_to_tensor(part) for part in self.outputs]

    def gradients(self, upstream: Any) -> list[Any]:
        """The gradient of each argument; an upstream of None means ones."""
        each = [1] * len(self.outputs) if upstream is None else _list(upstream)
        count = f"{self.at} has {counted(len(self.outputs), 'part')}, and should have {len(each)}."
        _insist(len(self.outputs) == len(each), count)
        seeds = [
            tf.cast(tf.broadcast_to(tf.constant(u), y.shape), y.dtype)
            for y, u in zip(self.outputs, each, strict=True)
        ]
        found = self.tape.gradient(self.outputs, self.given, output_gradients=seeds)
        return [None if g is None else tf.convert_to_tensor(g) for g in found]


def _unwritten(f: Any, rule: bool) -> bool:
    """Whether a line of an answer, or of its rule, is still the `...` that was handed out."""
    code: Any = getattr(inspect.unwrap(f), "__code__", None)
    try:
        tree = ast.parse("\n".join(lines(code)))
    except (AttributeError, TypeError, OSError, SyntaxError, ValueError):
        return False
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for inner in functions[1:] if not rule else []:
        inner.body = []
    parts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr | ast.Assign)]
    return any(isinstance(part, ast.Constant) and part.value is ... for part in parts)


def _sound(f: Any, *args: Any, **options: Any) -> bool:
    """Raise an AssertionError if `cgviz.check` finds an error; else say whether it judged anything.

    The message is that of the first error, with its hint. An exercise decides itself whether a rule
    may be a surrogate, so that is no advice.
    """
    report = checker.check(f, *args, **options)
    for each in report.findings:  # errors come first
        hint = each.hint.partition("If ")[0] if "surrogate=True" in each.hint else each.hint
        said = f"{_name(f)}: {each.rule}: {each.message.rstrip('.')}. {hint}"
        _insist(each.level != "error", said.rstrip())
    return report.judged


def _holds_custom(f: Any, args: Sequence[Any]) -> bool:
    return any(op.kind == "custom" for op in trace(f, *args).ops)


# --- comparing ---------------------------------------------------------------------------------


def _same(place: str, got: Any, wanted: Any, like: Any = None) -> None:
    """Raise an AssertionError unless shapes, dtypes and numbers agree."""
    parts, each = _list(got), _list(wanted)
    count = f"{place} has {counted(len(parts), 'part')}, and should have {len(each)}."
    _insist(len(parts) == len(each), count)
    for part, want in zip(parts, each, strict=True):
        numbers = f"{place} is {style.array(part)}, and should be {style.array(want)}."
        if part is None or want is None:
            _insist(part is want, numbers)
            continue
        array, right = np.asarray(part), np.asarray(want)
        shapes = f"{place} has the shape {array.shape}, and should have {right.shape}."
        _insist(array.shape == right.shape, shapes)
        dtype = getattr(like, "dtype", part.dtype)
        _insist(part.dtype == dtype, f"{place} is {part.dtype.name}, and should be {dtype.name}.")
        give = (dtypes.limits(str(array.dtype)) or dtypes.FLOAT64).answer
        wide, true = array.astype(np.float64), right.astype(np.float64)
        # Beside a larger number the last digits of a smaller one are rounding.
        largest = np.max(np.abs(true[np.isfinite(true)]), initial=0.0)
        near = give * np.clip(largest, 1e-5, 1.0)
        _insist(np.isclose(wide, true, give, near, equal_nan=True).all(), numbers)


def _insist(holds: Any, words: str) -> None:
    """Raise what `assert` would, also where Python skips assertions."""
    if not holds:
        raise AssertionError(words)


def _equal(one: Any, other: Any) -> bool:
    """Whether words, None or booleans are equal, or numbers to four digits; True is no number."""
    if isinstance(one, float) and isinstance(other, float):
        return bool(np.isclose(one, other, 1e-4, 1e-9, equal_nan=True))
    return type(one) is type(other) and bool(one == other)


def _list(thing: Any) -> list[Any]:
    return list(thing) if isinstance(thing, list | tuple) else [thing]


def _name(f: Any) -> str:
    found = getattr(f, "__name__", None)
    return str(found) if found and found != "<lambda>" else "your answer"
