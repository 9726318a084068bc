"""Gradients over time: a training step run many times, and what its gradients did.

    watch     run a step, record it, keep what a history needs -> a History
    History   norms and shares per op and per variable over the steps, and a few whole traces
    Series    one op, or one variable, over the recorded steps

A picture of one backward pass shows where a gradient is wrong now. A history shows since when, and
where first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .findings import Progress
from .graph import Array, Op, Pass, Trace

if TYPE_CHECKING:
    from .diagnosing.diagnosis import Diagnosis
    from .drawing.figure import SpokenFigure

MOST_TRACES = 8  # whole traces kept: the first, the last, and six where something changed


@dataclass
class Series:
    """One op or one variable over the recorded steps; each list has an entry per recorded step.

    Norms are Euclidean over all entries, as `numpy.linalg.norm` computes them in the tensor's own
    type; a float16 or bfloat16 tensor is widened to float32 first. Shares are between 0 and 1.

    Attributes:
        name: Its name in the traces.
        kind: "op", "custom", "variable" or "input".
        type: TensorFlow's op type.
        dtype: Of its value.
        size: How many numbers its value has.
        source: The line of the learner's code, or "".
        inputs: The names of what it uses.
        value: The norm of its value before the step.
        gradient: The norm of the gradient that reached it (upstream; of a variable: its gradient);
            NaN where that is None.
        local: The norm of downstream over that of upstream; NaN where either is not there or 0.
        update: Of a variable: the norm of how far the step moved it, over that of its value.
        zeros: The share of zeros in the gradient.
        lost: The share of entries that were not 0 in upstream's place and are 0 in downstream.
        state: What the gradient is: "none", "zero", "nan", "inf", "" for an ordinary one, or
            "unasked" for a variable whose gradient the pass did not take.
        value_state: The same of the value.
        returned_state: The same of downstream, over all inputs together.
    """

    name: str
    kind: str
    type: str
    dtype: str
    size: int
    source: str = ""
    inputs: tuple[str, ...] = ()
    value: list[float] = field(default_factory=list)
    gradient: list[float] = field(default_factory=list)
    local: list[float] = field(default_factory=list)
    update: list[float] = field(default_factory=list)
    zeros: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    value_state: list[str] = field(default_factory=list)
    returned_state: list[str] = field(default_factory=list)

    def pad(self, length: int) -> None:
        """Fill the steps in which it did not run."""
        for name in ("value", "gradient", "local", "update", "zeros", "lost"):
            numbers = getattr(self, name)
            numbers.extend([float("nan")] * (length - len(numbers)))
        for states in (self.state, self.value_state, self.returned_state):
            states.extend(["none"] * (length - len(states)))

    @property
    def rms(self) -> Array:
        """The gradient's root mean square per entry, which compares layers of any size."""
        return np.asarray(self.gradient) / max(self.size, 1) ** 0.5


class History:
    """What the gradients of a training did: the result of `cgviz.watch`.

    Attributes:
        steps: The numbers of the recorded steps, from 0.
        target: What was differentiated, at each of them: the sum of its entries.
        series: By name, in forward order: each op and variable that the backward pass came to.
        traces: By step: the whole traces that were kept.
        ancestors: The names of all that the target was computed from, in the first step.
        stopped: Whether it ended before all steps were run.
    """

    def __init__(self, which: int = 0) -> None:
        self.which = which
        self.steps: list[int] = []
        self.target: list[float] = []
        self.series: dict[str, Series] = {}
        self.traces: dict[int, Trace] = {}
        self.ancestors: frozenset[str] = frozenset()
        self.stopped = False
        self._states: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def variables(self) -> dict[str, Series]:
        """The series of the variables, in forward order."""
        return {name: s for name, s in self.series.items() if s.kind == "variable"}

    @property
    def ops(self) -> dict[str, Series]:
        """The series of the ops, in forward order."""
        return {name: s for name, s in self.series.items() if s.kind in ("op", "custom")}

    def trace(self, step: int) -> Trace:
        """The whole trace of a step, if it was kept.

        Args:
            step: The number of the step, from 0.

        Returns:
            The `Trace`.

        Raises:
            ValueError: The trace of this step was not kept.

        Example:
            >>> import cgviz, tensorflow as tf
            >>> w = tf.Variable(2.0, name="w")
            >>> def step():
            ...     with tf.GradientTape() as tape:
            ...         loss = w * w
            ...     w.assign_sub(0.1 * tape.gradient(loss, w))
            >>> cgviz.watch(step, steps=3).trace(0).gradients, float(w) < 2.0
            ((), True)
        """
        if step not in self.traces:
            kept = ", ".join(map(str, sorted(self.traces)))
            raise ValueError(
                f"`step` is {step}, and its trace was not kept: kept are {kept}. "
                f"Name it beforehand: watch(..., keep=[{step}])"
            )
        return self.traces[step]

    def plot(self) -> SpokenFigure:
        """The loss, and below it every gradient over time as a map of its size.

        Returns:
            The figure: above, the target over the steps; below, a row for each variable (of few:
            for each op, too) whose tone is log10 of its gradient's root mean square, with a sign
            where it is None, zero, NaN or infinite; on the right, how far each step moved each
            variable, over the variable's own norm. `figure.alt` says it in words.

        Raises:
            ValueError: Nothing was recorded.

        Example:
            >>> import cgviz, tensorflow as tf
            >>> w = tf.Variable(2.0, name="w")
            >>> def step():
            ...     with tf.GradientTape() as tape:
            ...         loss = w * w
            ...     w.assign_sub(0.1 * tape.gradient(loss, w))
            >>> print(cgviz.watch(step, steps=3).plot().alt.splitlines()[0])
            The target over 3 steps: 4 at step 0, 1.638 at step 2.
        """
        from .drawing import history_figure

        return history_figure.plot(self)

    def diagnose(self) -> Diagnosis:
        """Say since which step, and where first, a gradient vanished, died, exploded or froze.

        Returns:
            A `Diagnosis`: a sequence of findings, the first in time first; `.ok` where there is
            none.

        Raises:
            ValueError: Nothing was recorded.

        Example:
            >>> import cgviz, tensorflow as tf
            >>> w = tf.Variable(-2.0, name="w")
            >>> def step():
            ...     with tf.GradientTape() as tape:
            ...         loss = tf.nn.relu(w) + 1.0
            ...     w.assign_sub(0.1 * tape.gradient(loss, w))
            >>> [found.what for found in cgviz.watch(step, steps=3).diagnose()]
            ['zero']
        """
        from .diagnosing import over_time

        return over_time.diagnose(self)

    def __repr__(self) -> str:
        if not self.steps:
            return "history of 0 steps"
        count = len(self.steps)
        ends = f"steps {self.steps[0]} to {self.steps[-1]}"
        early = ", stopped early" if self.stopped else ""
        first, last = self.target[0], self.target[-1]
        return (
            f"history of {count} recorded step{'s' * (count != 1)}, {ends}{early}: "
            f"target {first:.5g} -> {last:.5g}, {len(self.variables)} variables, "
            f"{len(self.ops)} ops, {len(self.traces)} traces kept"
        )

    # --- while it runs ---------------------------------------------------------------------------

    def add(self, step: int, trace: Trace, after: Mapping[str, Any]) -> bool:
        """Take what a history needs from the trace of one step.

        Args:
            step: The number of the step.
            trace: What it did.
            after: By the name of a variable: its value after the step.

        Returns:
            Whether a gradient became, or ceased to be, None, zero, NaN or infinite.
        """
        pass_ = trace.pass_(self.which) if trace.passes else None
        if pass_ is None:
            raise ValueError(
                f"`step` took no gradient when it ran the {_ordinal(step)} time: it must open "
                "its own `tf.GradientTape` and call `tape.gradient`"
            )
        count = len(self.steps)
        self.steps.append(step)
        self.target.append(sum(float(np.sum(np.asarray(t.reference))) for t in pass_.targets))
        if not count:
            self.ancestors = _ancestors(trace, pass_)
        norms = _Norms()
        keys = (value.key for value in pass_.sources)
        gradients = dict(zip(keys, pass_.gradient_references, strict=True))
        for op in trace.ops:
            if op.kind == "variable" or any(v.key in gradients for v in op.outputs):
                self._add_source(op, gradients, after, norms, count)
            elif op in pass_.step_of:
                self._add_op(op, pass_, norms, count, trace)
        for series in self.series.values():
            series.pad(count + 1)
        before, self._states = self._states, {n: s.state[-1] for n, s in self.series.items()}
        return before != self._states

    def _series(self, op: Op, count: int, trace: Trace | None = None) -> Series:
        series = self.series.get(op.name)
        if series is None:
            inputs: tuple[str, ...] = ()
            if trace is not None:
                makers = (trace.producer(v) for v in op.inputs)
                inputs = tuple(made[0].name for made in makers if made is not None)
            value = op.outputs[0]
            series = self.series[op.name] = Series(
                op.name, op.kind, op.type, value.dtype, value.size, str(op.source or ""), inputs
            )
        series.pad(count)
        return series

    def _add_source(
        self,
        op: Op,
        gradients: Mapping[int, Any],
        after: Mapping[str, Any],
        norms: _Norms,
        count: int,
    ) -> None:
        series = self._series(op, count)
        value = op.outputs[0]
        size = norms.norm(value.reference) if value.differentiable else float("nan")
        given = [gradients[v.key] for v in op.outputs if v.key in gradients]
        gradient = next((g for g in given if g is not None), None)
        series.value.append(size)
        series.gradient.append(norms.norm(gradient))
        series.zeros.append(norms.zeros(gradient))
        series.state.append(norms.state(gradient) if given else "unasked")
        series.value_state.append(norms.state(value.reference) if value.differentiable else "")
        if op.kind == "variable" and op.name in after and value.differentiable:
            moved = _array(after[op.name]) - _array(value.reference)
            with np.errstate(all="ignore"):
                series.update.append(float(np.float64(np.linalg.norm(moved)) / np.float64(size)))

    def _add_op(self, op: Op, pass_: Pass, norms: _Norms, count: int, trace: Trace) -> None:
        series = self._series(op, count, trace)
        step = pass_.step_of[op]
        upstream = next((t for t in step.received if t is not None), None)
        returned = [t for t in step.returned if t is not None]
        up = norms.norm(upstream)
        down = float(np.linalg.norm([norms.norm(t) for t in returned])) if returned else np.nan
        series.value.append(norms.norm(op.outputs[0].reference))
        series.gradient.append(up)
        series.local.append(down / up if up else float("nan"))
        series.zeros.append(norms.zeros(upstream))
        series.lost.append(max((norms.zeros(t) for t in returned), default=float("nan")))
        series.state.append(norms.state(upstream))
        states = {norms.state(t) for t in returned}
        series.returned_state.append(next((s for s in ("nan", "inf") if s in states), ""))
        series.value_state.append(norms.state(op.outputs[0].reference))


def _ancestors(trace: Trace, pass_: Pass) -> frozenset[str]:
    waiting = [made[0] for target in pass_.targets if (made := trace.producer(target))]
    found = {op.name for op in waiting}
    while waiting:
        for value in waiting.pop().inputs:
            made = trace.producer(value)
            if made is not None and made[0].name not in found:
                found.add(made[0].name)
                waiting.append(made[0])
    return frozenset(found)


class _Norms:
    """Norms and shares of the tensors of one step, each computed once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, float]] = {}

    def norm(self, tensor: Any) -> float:
        if tensor is None:
            return float("nan")
        if id(tensor) not in self._known:
            with np.errstate(all="ignore"):
                self._known[id(tensor)] = tensor, float(np.linalg.norm(_array(tensor)))
        return self._known[id(tensor)][1]

    def zeros(self, tensor: Any) -> float:
        """The share of entries that are 0."""
        if tensor is None:
            return float("nan")
        array = _array(tensor)
        # Comparing first: counting the zeros of a float array directly takes ten times as long.
        return float(np.count_nonzero(array == 0)) / array.size if array.size else 0.0

    def state(self, tensor: Any) -> str:
        if tensor is None:
            return "none"
        norm = self.norm(tensor)
        if norm == 0:
            return "zero" if self.zeros(tensor) == 1 else ""  # or its squares are too small
        if np.isfinite(norm):
            return ""
        array = _array(tensor)
        if np.isnan(array).any():
            return "nan"
        return "inf" if np.isinf(array).any() else ""


def _array(tensor: Any) -> Array:
    """The numbers of a tensor, without a copy where there can be none; half types widened."""
    array = np.asarray(tensor if hasattr(tensor, "__array__") else tensor.numpy())
    return array.astype(np.float32) if array.dtype.itemsize == 2 else array


def _ordinal(step: int) -> str:
    return {0: "first", 1: "second", 2: "third"}.get(step, f"{step + 1}th")


def watch(
    step: Callable[[], Any],
    steps: int = 50,
    every: int = 1,
    *,
    keep: Iterable[int] = (),
    which: int = 0,
) -> History:
    """Run a training step many times, and keep what its gradients did.

    The step runs as it always does: it opens its own tape and changes the variables itself. What it
    calls runs eagerly, line by line, while it is recorded (see `cgviz.record`). Ctrl-C ends it and
    keeps what was done.

    Args:
        step: A function without arguments: one step of training.
        steps: How many times to run it.
        every: Record each `every`-th run, beginning with the first; the others run as they are.
        keep: The numbers, from 0, of steps whose whole traces are wanted. Besides them the first,
            the last, and up to six at which a gradient became, or ceased to be, None, zero, NaN or
            infinite are kept.
        which: The backward pass to follow, where a step has several, as in `trace.passes`.

    Returns:
        A `History`. Per op and recorded step it keeps about 60 bytes, besides the whole traces.

    Raises:
        TypeError: `step` is not callable, or a number is no integer.
        ValueError: `steps` or `every` is below 1, or the step takes no gradient.

    Example:
        >>> import cgviz, tensorflow as tf
        >>> w = tf.Variable(2.0, name="w")
        >>> def step():
        ...     with tf.GradientTape() as tape:
        ...         loss = w * w
        ...     w.assign_sub(0.1 * tape.gradient(loss, w))
        >>> history = cgviz.watch(step, steps=3)
        >>> [round(x, 3) for x in history.variables["w"].gradient]
        [4.0, 3.2, 2.56]
    """
    from .recording.api import recorded

    if not callable(step):
        raise TypeError(f"`step` must be a function without arguments, not {type(step).__name__}")
    wanted = set(_integers("keep", list(keep), 0))
    _integers("steps", [steps], 1)
    _integers("every", [every], 1)
    history = History(which)
    progress = Progress(f"watch of {getattr(step, '__name__', 'step')}")
    last: tuple[int, Trace] | None = None
    try:
        for i in range(steps):
            progress.doing = f"step {i + 1} of {steps}"
            progress.run()
            if i % every:
                step()
                continue
            with recorded() as (trace, variables):
                step()
            changed = history.add(i, trace, {n: v.value() for n, v in variables().items()})
            last = i, trace
            # One place is the last step's.
            if i in wanted or (changed and len(history.traces.keys() - wanted) < MOST_TRACES - 1):
                history.traces[i] = trace
    except KeyboardInterrupt:
        history.stopped = True
    finally:
        progress.close()
    if last is not None:
        history.traces[last[0]] = last[1]
    return history


def _integers(name: str, given: Sequence[Any], least: int) -> Sequence[Any]:
    for x in given:
        if not isinstance(x, int | np.integer) or isinstance(x, bool):
            raise TypeError(f"`{name}` must be made of integers, not {type(x).__name__}: {x!r}")
        if x < least:
            raise ValueError(f"`{name}` is {x}, and must be {least} or more")
    return given
