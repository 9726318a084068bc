"""What a recording is made of: Value, Op, Step and Pass, records of NumPy numbers.

No TensorFlow and no drawing here. A record holds a tensor by reference and turns it into NumPy
when it is read, so a recording copies nothing and drawing needs no framework.

    Value   one tensor: its shape and dtype, and its numbers when asked for
    Op      one op of the forward pass (or an input, a variable, a constant)
    Step    one op's backward rule as it ran: upstream in, downstream out
    Pass    one backward pass: its steps in execution order
"""

from __future__ import annotations

import io
import logging
import math
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Statistics(NDArrayOperatorsMixin):
    """The summary that a file keeps of a large array in place of its numbers.

    To compute with it, or to read an entry, is an error that says how to keep the numbers.

    Attributes:
        dtype: The name of the array's dtype.
        shape: The array's shape.
        norm: The L2 norm of all entries; None where it is not known.
        low: The smallest finite entry (for complex numbers, absolute value); None if there is
            none, or if it is not known.
        high: The largest finite entry, in the same way.
        zeros: How many entries are 0.
        nans: How many are NaN.
        infinities: How many are infinite.
    """

    dtype: str
    shape: tuple[int, ...]
    norm: float | None
    low: float | None
    high: float | None
    zeros: int
    nans: int
    infinities: int

    @property
    def size(self) -> int:
        """How many numbers the array has."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """How many axes the array has."""
        return len(self.shape)

    def __array__(self, *args: Any, **kwargs: Any) -> Array:
        raise RuntimeError(
            f"the file has only the statistics of this {self.dtype} array of shape {self.shape}: "
            "save the trace with `full=True` to keep its numbers"
        )

    __getitem__ = __array_ufunc__ = __array__  # an entry, or what is computed, needs the numbers

    def __getattr__(self, name: str) -> Any:  # of an array, such as `max`
        raise AttributeError(f"`{name}` needs all numbers: save the trace with `full=True`")


def statistics(array: Any) -> Statistics:
    """The statistics of an array of numbers, computed in double precision.

    >>> found = statistics(np.array([3.0, -4.0, 0.0, np.nan]))
    >>> found.low, found.high, found.zeros, found.nans
    (-4.0, 3.0, 1, 1)
    """
    if isinstance(array, Statistics):
        return array
    array = np.asarray(array)
    flat = wide(array).reshape(-1)
    flat = np.abs(flat) if flat.dtype.kind == "c" else flat
    good = np.isfinite(flat)
    finite = flat if good.all() else flat[good]  # most arrays need no copy
    nans = 0 if finite is flat else int(np.isnan(flat).sum())
    with np.errstate(all="ignore"):
        # Not `np.linalg.norm`, whose last digits depend on how many threads its library runs.
        norm = float(np.sqrt(np.square(flat).sum()))
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
    zeros, infinities = flat.size - int(np.count_nonzero(flat)), flat.size - finite.size - nans
    return Statistics(array.dtype.name, array.shape, norm, low, high, zeros, nans, infinities)


def wide(array: Any) -> Array:
    """The numbers as float64, or as complex128 where they are complex."""
    array = np.asarray(array)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def readable(reference: Any) -> Array:
    """The numbers behind a reference, without a copy where possible.

    Floats of 16 bits or fewer, some of which are void to NumPy, are widened to float32.
    """
    found = reference.__array__() if hasattr(reference, "__array__") else reference.numpy()
    array = np.asarray(found)  # of a scalar tensor, `found` may be a NumPy scalar
    small = array.dtype.kind in "fV" and array.dtype.itemsize <= 2
    return array.astype(np.float32) if small else array


def norm(array: Array) -> float:
    """The L2 norm in the array's own precision: one read, unless its squares leave that range."""
    with np.errstate(all="ignore"):
        found = float(np.linalg.norm(array))
        return found if 1e-15 < found < math.inf else wide_norm([array])


def wide_norm(arrays: Sequence[Array]) -> float:
    """The L2 norm of all entries, even if their squares overflow or underflow."""
    entries = [np.abs(wide(a)) for a in arrays]
    largest = max((float(a.max(initial=0.0)) for a in entries), default=0.0)
    if not 0.0 < largest < math.inf:
        return largest
    return largest * math.sqrt(sum(float(np.square(a / largest).sum()) for a in entries))


def ratio(one: float, other: float) -> float:
    """`one` divided by `other`; NaN or an infinity where `other` is 0."""
    with np.errstate(all="ignore"):
        return float(np.float64(one) / np.float64(other))


def as_numpy(reference: Any) -> Any:
    """The numbers of an array or of anything with `.numpy()`; None and `Statistics` as they are."""
    if reference is None or isinstance(reference, np.ndarray | Statistics):
        return reference
    return np.asarray(reference.numpy() if hasattr(reference, "numpy") else reference)


def total(arrays: Sequence[Any]) -> Any:
    """The sum of one or more arrays; ∞ - ∞ is NaN, without a warning, as on a tape.

    With `Statistics` among them, only the shape and dtype of the sum are known.

    >>> float(total([np.float32("inf"), np.float32("-inf")]))
    nan
    """
    with np.errstate(all="ignore"):
        return _unknown(arrays, arrays[0].shape) or sum(arrays[1:], arrays[0])


def stacked(arrays: Sequence[Any]) -> Any:
    """Arrays of one shape, stacked along a new first axis.

    With `Statistics` among them, only the shape and dtype of the result are known.
    """
    return _unknown(arrays, (len(arrays), *arrays[0].shape)) or np.stack(arrays)


def _unknown(arrays: Sequence[Any], shape: tuple[int, ...]) -> Statistics | None:
    names = (each.dtype for each in arrays if isinstance(each, Statistics))
    name = next(names, None)
    return None if name is None else Statistics(name, shape, None, None, None, 0, 0, 0)


@dataclass(frozen=True, eq=False)
class Source:
    """Where in the learner's own code something happened."""

    file: str
    line: int
    text: str  # the line, without its indentation

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.text else f"line {self.line}"


@dataclass(frozen=True, eq=False)
class Rule(Source):
    """Where a custom op's backward rule is written, and its code."""

    code: tuple[str, ...]  # its lines, without their common indentation
    parameters: tuple[str, ...]  # names: one per output, or one `*upstream` for all
    closure: dict[str, Any]  # numbers it takes from the body, by name; held by reference


@dataclass(frozen=True, eq=False)
class Value:
    """One tensor of a trace, held by reference.

    `key` is unique within its trace; `trace.producer(value)` tells which op made it.
    """

    key: int
    shape: tuple[int, ...]
    dtype: str
    reference: Any = field(repr=False)

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def differentiable(self) -> bool:
        """Whether TensorFlow gives numbers of this dtype a gradient: floating or complex."""
        return self.dtype.startswith(("float", "bfloat", "complex"))

    def numpy(self) -> Array:
        """The numbers, as a NumPy array of this shape."""
        return as_numpy(self.reference)


@dataclass(frozen=True, eq=False)
class Op:
    """One op as it ran forward, or one of the things that ops start from.

    kind is "op", "custom" (a `tf.custom_gradient` call: one node, its `.body` kept), "variable",
    "input" (an argument, or what a tape watched), "constant", or "port" (in a picture: where a
    value enters or leaves an opened custom op).

    Attributes:
        name: Unique in the trace; your own name where it can be found.
        type: TensorFlow's op type, or the custom function's name.
        inputs: A `Value` for each input.
        outputs: A `Value` for each output.
        source: The line of your code that ran it, or None.
        scope: Its name scopes.
        body: The ops inside a custom op.
        rule: Where a custom op's backward rule is written, or None.
    """

    name: str
    kind: str
    type: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    source: Source | None = None
    scope: str = ""
    body: tuple[Op, ...] = ()
    rule: Rule | None = None
    rule_variables: tuple[str, ...] = ()  # variables that the rule is given, in TensorFlow's order
    captured: tuple[Value, ...] = ()  # used in the body, made outside: they get no gradient
    returned: tuple[Value, ...] = ()  # by the body; `outputs` are TensorFlow's copies of them
    watched: tuple[bool, ...] = ()  # per input: whether a tape follows it; () if none is recording
    rule_missing: bool = False  # TensorFlow has no gradient for this op type
    rule_dropped: bool = False  # TensorFlow dropped its custom rule: called by keyword

    def __repr__(self) -> str:
        return f"<Op {self.name}: {self.kind} {self.type}>"

    def follows(self, position: int) -> bool:
        """Whether a tape follows an input here."""
        return bool(self.watched) and self.watched[position]


_SILENT: list[int] = []  # ids of threads whose prints and logs are dropped, one per open block
_SWITCH = threading.Lock()  # all threads share sys.stdout and the log
_LOG = logging.getLogger("tensorflow")


class _Others(io.StringIO):
    """In place of a stream: drops what silenced threads print, passes on what others print."""

    stream: Any

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() in _SILENT else int(self.stream.write(text))


def _is_heard(record: logging.LogRecord) -> bool:
    return record.thread not in _SILENT


@contextmanager
def silenced() -> Iterator[None]:
    """Drop what this thread prints, and TensorFlow logs, inside the block; others are heard."""
    with _SWITCH:
        _LOG.addFilter(_is_heard)  # once: a filter is not added again
        _SILENT.append(threading.get_ident())
        if not isinstance(now := sys.stdout, _Others):
            sys.stdout = others = _Others()
            others.stream = now
    try:
        yield
    finally:
        with _SWITCH:
            _SILENT.remove(threading.get_ident())
            if not _SILENT:
                _LOG.removeFilter(_is_heard)
                if isinstance(sys.stdout, _Others):
                    sys.stdout = sys.stdout.stream


# What TensorFlow and Keras add to the message of an exception.
_ADDED = r"\AException encountered when calling .*|\{\{function_node .*?\}\}\s*|\x1b\[[0-9;]*m"


def lines_of(error: BaseException) -> list[str]:
    r"""The lines of an exception's message, without blank ones and what TensorFlow and Keras add.

    Example:
        >>> lines_of(ValueError("{{function_node __wrapped__Add}} first\n\n  second"))
        ['first', 'second']
    """
    lines = re.sub(_ADDED, "", str(error)).splitlines()
    return [line.strip() for line in lines if line.strip()]


@dataclass(eq=False, repr=False)
class Step:
    """One op's backward rule as it ran: `downstream = upstream x local`.

    `upstream[i]` is the gradient that reached output i, `downstream[j]` what was returned for
    input j, `local[i][j]` the Jacobian d output i / d input j that the rule claims; each a NumPy
    array or None where nothing flows. Each input is one use of a tensor: a tensor used twice has
    two `downstream` values, and their sum is its upstream.
    """

    op: Op
    received: Sequence[Any]  # `upstream` by reference, as it was recorded
    returned: Sequence[Any]  # `downstream` by reference
    pull: Callable[[Sequence[Array | None]], Sequence[Any]] | None = None
    ops: tuple[Op, ...] = ()  # the ops that a custom rule ran
    skipped: tuple[int, ...] = ()  # inputs that other tapes follow, and not the one of this pass

    def __repr__(self) -> str:
        return f"<Step {self.op.name}>"

    @property
    def upstream(self) -> tuple[Array | None, ...]:
        """The gradient that reached each output."""
        return tuple(as_numpy(t) for t in self.received)

    @property
    def downstream(self) -> tuple[Array | None, ...]:
        """What the rule returned for each input."""
        return tuple(as_numpy(t) for t in self.returned)

    @property
    def flows(self) -> tuple[bool, ...]:
        """Per input: whether anything was returned. Costs nothing, unlike `downstream`."""
        return tuple(t is not None for t in self.returned)

    @cached_property
    def local(self) -> tuple[tuple[Any, ...], ...]:
        """`local[i][j]`: the Jacobian of output i with respect to input j, as the rule claims it.

        Found by running the rule again, once per entry of the output, with a unit vector as
        upstream. A Jacobian that is too large for this is a `jacobian.LargeJacobian`.
        """
        from .jacobian import local_jacobians

        return local_jacobians(self)

    @cached_property
    def products(self) -> tuple[Any, ...]:
        """Per input a `jacobian.Product`: upstream x local, and what was returned instead of it."""
        from .jacobian import products

        try:
            return tuple(products(self, self.local))
        except RuntimeError as error:  # the rule cannot run once more, or returns something else
            return tuple(products(self, missing=str(error)))

    def vjp(self, upstream: Sequence[Array | None]) -> tuple[Array | None, ...]:
        """Run the backward rule once more: `vjp(u)[j]` is the sum over i of `u[i] x local[i][j]`.

        What the rule prints or TensorFlow logs is dropped: it was shown once when the pass ran.

        Args:
            upstream: One array per output, of that output's shape; None where nothing arrives.

        Returns:
            One array per input, of that input's shape, or None.

        Raises:
            RuntimeError: The trace was read from a file, or the rule failed when it ran again.

        Example:
            >>> import cgviz, tensorflow as tf
            >>> cgviz.trace(tf.square, 3.0).steps[0].vjp([10.0])[0].item()
            60.0
        """
        if self.pull is None:
            raise RuntimeError(
                f"the backward rule of `{self.op.name}` cannot run again: this trace was read "
                "from a file, which keeps numbers and no rules. Trace the function again."
            )
        try:
            with silenced():
                return tuple(as_numpy(t) for t in self.pull(upstream))
        except Exception as error:
            said = next(iter(lines_of(error)), "").rstrip(".:")
            raise RuntimeError(
                f"`.local` runs the backward rule of `{self.op.name}` again, and it failed this "
                f"time: {said or type(error).__name__}. A rule that uses a tape of its own can run "
                "once only, unless that tape is persistent."
            ) from error


@dataclass(eq=False, repr=False)
class Pass:
    """One backward pass: a call of `tape.gradient`, its steps in execution order.

    `ops` are the ops that the pass itself ran, in execution order, and only those that can matter:
    the ops of custom rules, and, where a tape saw the pass, those of TensorFlow's own rules.

    Attributes:
        targets: What was differentiated.
        sources: With respect to what.
        steps: Each a `Step`, in execution order.
        note: A remark, or "".
    """

    index: int
    targets: tuple[Value, ...]
    seed_references: Sequence[Any]
    sources: tuple[Value, ...]
    gradient_references: Sequence[Any]  # `gradients` by reference, as they were recorded
    steps: tuple[Step, ...]
    ops: tuple[Op, ...]
    arrived: Mapping[int, Any]  # by a value's key: the sum that reached it, where known
    note: str = ""

    def __repr__(self) -> str:
        return f"<Pass {self.index}: {len(self.steps)} steps>"

    @property
    def seeds(self) -> tuple[Array | None, ...]:
        """The upstream each target started with: `output_gradients`, or ones."""
        return tuple(
            as_numpy(s) if s is not None or t.dtype == "resource" else np.ones(t.shape, t.dtype)
            for t, s in zip(self.targets, self.seed_references, strict=True)
        )

    @property
    def gradients(self) -> tuple[Array | None, ...]:
        """One gradient per source, as `tape.gradient` returned it."""
        return tuple(as_numpy(t) for t in self.gradient_references)

    def upstream(self, value: Value) -> Array | None:
        """The whole gradient that reached a value in this pass: the sum of its `contributions`.

        Args:
            value: An entry of some op's `inputs` or `outputs`.

        Returns:
            An array of the value's shape; None if nothing reached it.

        Example:
            >>> import cgviz
            >>> backward = cgviz.trace(lambda x: x * x, 3.0).passes[0]
            >>> backward.upstream(backward.sources[0]).item()
            6.0
        """
        if value.key in self.arrived:
            return as_numpy(self.arrived[value.key])
        given = [gradient for _, _, gradient in self.contributions(value)]
        return total(given) if given else None

    def contributions(self, value: Value) -> list[tuple[Step, int, Array]]:
        """The gradient that each use of a value returned for it, in execution order.

        Args:
            value: An entry of some op's `inputs` or `outputs`.

        Returns:
            A step, a position and a gradient for each use that returned anything: the value is
            input number `position` of the step's op, and the gradient has the value's shape.

        Example:
            >>> import cgviz
            >>> backward = cgviz.trace(lambda x: x * x, 3.0).passes[0]
            >>> found = backward.contributions(backward.sources[0])
            >>> [(step.op.name, position, gradient.item()) for step, position, gradient in found]
            [('Mul', 0, 3.0), ('Mul', 1, 3.0)]
        """
        found = [(step, j, step.downstream[j]) for step, j in self._uses.get(value.key, ())]
        return found  # type: ignore[return-value]  # a use that returned None is none

    @cached_property
    def _uses(self) -> dict[int, list[tuple[Step, int]]]:
        uses: dict[int, list[tuple[Step, int]]] = {}
        for step in self.steps:
            for position, value in enumerate(step.op.inputs):
                if step.flows[position]:
                    uses.setdefault(value.key, []).append((step, position))
        return uses

    @cached_property
    def path_counts(self) -> Counter[int]:
        """By a value's key, how many paths lead from the targets back to it."""
        counts = Counter(target.key for target in self.targets)
        for step in self.steps:
            pairs = zip(step.op.outputs, step.received, strict=True)
            ways = sum(counts[value.key] for value, given in pairs if given is not None)
            for value, flows in zip(step.op.inputs, step.flows, strict=True):
                counts[value.key] += ways * flows
        return counts

    @cached_property
    def step_of(self) -> dict[Op, Step]:
        """The step of each op that took part in this pass."""
        return {step.op: step for step in self.steps}


def differentiates(one: Pass, other: Pass) -> bool:
    """Whether a pass differentiates what another pass ran."""
    return not one.step_of.keys().isdisjoint(other.ops)
