"""Gradients over time: a training step run many times, and what its gradients did.

    watch     run a step, record it, keep what a history needs -> a History
    History   norms and shares per op and per variable over the steps, and a few whole traces
    Series    one op, or one variable, over the recorded steps

A picture of one backward pass shows where a gradient is wrong now. A history shows since when, and
where first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np

from .findings import Progress
from .graph import Array, Op, Trace, Value, norm, ratio, readable

if TYPE_CHECKING:
    from .diagnosing.diagnosis import Diagnosis
    from .drawing.figure import SpokenFigure
    from .live.training import TrainingView

MOST_TRACES = 20  # whole traces kept: as many places on a slider can be told apart at once
CHANGES = 6  # of them for steps at which something changed; the others are spread evenly
WORTH_A_THREAD = 4_000_000  # bytes: a millisecond of measuring, where a thread costs a tenth
MOST_BYTES = 100_000_000  # of the tensors in them: what a small machine has to spare


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

    def add(
        self,
        value: _Measured,
        gradient: _Measured,
        returned: Sequence[_Measured],
        moved: _Measured | None,
        asked: bool,
    ) -> None:
        """Take the measures of one step."""
        self.value.append(value.norm)
        self.value_state.append("" if value.array is None else value.state)
        self.gradient.append(gradient.norm)
        self.zeros.append(gradient.zeros)
        self.state.append(gradient.state if asked else "unasked")
        down = float(np.linalg.norm([each.norm for each in returned])) if returned else np.nan
        self.local.append(ratio(down, gradient.norm) if gradient.norm else np.nan)
        self.lost.append(max((each.zeros for each in returned), default=np.nan))
        states = {each.state for each in returned}
        self.returned_state.append(next((s for s in ("nan", "inf") if s in states), ""))
        if moved is not None:
            self.update.append(ratio(moved.norm, value.norm))

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
        title: The name of the function that was watched.
        steps: The numbers of the recorded steps, from 0.
        target: What was differentiated, at each of them: the sum of its entries.
        series: By name, in forward order: each op and variable that the backward pass came to.
        traces: By step: the whole traces that were kept.
        ancestors: The names of all that the target was computed from, in the first step.
        stopped: Whether it ended before all steps were run.

    Example:
        >>> import cgviz, tensorflow as tf
        >>> w = tf.Variable(-2.0, name="w")
        >>> def step():
        ...     with tf.GradientTape() as tape:
        ...         loss = tf.nn.relu(w) + 1.0
        ...     w.assign_sub(0.1 * tape.gradient(loss, w))
        >>> history = cgviz.watch(step, steps=3)
        >>> [found.what for found in history.diagnose()]
        ['zero']
        >>> print(history.plot().alt.splitlines()[0])
        The target over 3 steps: 1 at step 0, 1 at step 2.
        >>> history.trace(2).diagnose()[0].op.type
        'Relu'
        >>> history.view().save("training.html")  # doctest: +SKIP
    """

    def __init__(self, title: str = "step", which: int = 0) -> None:
        self.title = title
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
        """
        if step not in self.traces:
            kept = ", ".join(map(str, sorted(self.traces)))
            raise ValueError(
                f"`step` is {step}, and its trace was not kept: kept are {kept}. "
                f"Name it beforehand: watch(..., keep=[{step}])"
            )
        return self.traces[step]

    def plot(self, against: History | None = None) -> SpokenFigure:
        """The loss, and below it every gradient over time as a map of its size.

        Args:
            against: Another history, drawn over and below this one; the title says at which step
                and op they part.

        Returns:
            The figure: above, the target over the steps; below, a row for each variable (of few:
            for each op, too) whose tone is log10 of its gradient's root mean square, with a sign
            where it is None, zero, NaN or infinite; on the right, how far each step moved each
            variable, over the variable's own norm. `figure.alt` says it in words.

        Raises:
            TypeError: `against` is no history.
            ValueError: Nothing was recorded, or the two have no step in common.
        """
        from .drawing import history_figure

        return history_figure.plot(self, against, self._parted(against))

    def view(self, against: History | None = None) -> TrainingView:
        """The live picture, with a slider over the steps whose whole traces were kept.

        Beside it are the target over time and a map of all gradients, as in `plot`. A click on a
        cell of the map, or Enter, opens the step that was kept next to it, at that op or variable.

        Args:
            against: Another history, whose pictures are shown beside those of this one. It is said
                at which step and op they part.

        Returns:
            The widget; its `save` writes a page that needs no kernel.

        Raises:
            TypeError: `against` is no history.
            ValueError: Nothing was recorded, or the two have no step in common.
        """
        from .live import training

        return training.view(self, against, self._parted(against))

    def diagnose(self) -> Diagnosis:
        """Say since which step, and where first, a gradient vanished, died, exploded or froze.

        Returns:
            A `Diagnosis`: a sequence of findings, the first in time first; `.ok` where none is an
            error.

        Raises:
            ValueError: Nothing was recorded.
        """
        from .diagnosing import diagnosis

        return diagnosis.over_time(self)

    def _parted(self, against: History | None) -> str:
        """Where another history parts from this one, once both are known to be histories."""
        if not self.steps:
            raise ValueError("nothing was recorded: the history has 0 steps")
        if against is None:
            return ""
        if not isinstance(against, History):
            raise TypeError(f"`against` must be a history, not {type(against).__name__}")
        if not self.traces.keys() & against.traces.keys():
            raise ValueError("`against` has no step in common with this history")
        from .diagnosing import diagnosis

        return diagnosis.parted(self, against)

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

    def add(self, step: int, trace: Trace) -> tuple[bool, int]:
        """Take what a history needs from the trace of one step.

        Args:
            step: The number of the step.
            trace: What it did.

        Returns:
            Whether a gradient became, or ceased to be, None, zero, NaN or infinite; and how many
            bytes the trace holds.
        """
        if not trace.passes:
            times = {0: "first", 1: "second", 2: "third"}.get(step, f"{step + 1}th")
            raise ValueError(
                f"`step` took no gradient when it ran the {times} time: it must open its own "
                "`tf.GradientTape` and call `tape.gradient`"
            )
        pass_ = trace.pass_(self.which)
        if not self.steps:
            found = ancestors(_makers(trace, pass_.targets), lambda op: _makers(trace, op.inputs))
            self.ancestors = frozenset(op.name for op in found)
        self.steps.append(step)
        self.target.append(sum(float(np.sum(np.asarray(t.reference))) for t in pass_.targets))
        measures = _Measures()
        keys = (value.key for value in pass_.sources)
        gradients = dict(zip(keys, pass_.gradient_references, strict=True))
        rows = []
        for op in trace.ops:
            value, taken = op.outputs[0] if op.outputs else None, pass_.step_of.get(op)
            given = [gradients[v.key] for v in op.outputs if v.key in gradients]
            source = op.kind == "variable" or bool(given)
            if value is None or not (source or taken):
                continue
            received = given if source or taken is None else taken.received
            returned = () if source or taken is None else taken.returned
            tensor = value.reference if value.differentiable else None
            after = trace.after.get(op.name) if value.differentiable else None
            row = (
                measures.of(tensor),
                measures.of(next((t for t in received if t is not None), None), zeros=True),
                [measures.of(t, zeros=True) for t in returned if t is not None],
                None if after is None else measures.of(after, minus=tensor),
            )
            rows.append((self._series(op, trace), row, bool(received)))
        measures.run()
        for series, row, asked in rows:
            series.add(*row, asked=asked)
        for series in self.series.values():
            series.pad(len(self.steps))
        before, self._states = self._states, {n: s.state[-1] for n, s in self.series.items()}
        return before != self._states, measures.bytes

    def _series(self, op: Op, trace: Trace) -> Series:
        if op.name not in self.series:
            inputs = tuple(maker.name for maker in _makers(trace, op.inputs))
            value, source = op.outputs[0], str(op.source or "")
            self.series[op.name] = Series(
                op.name, op.kind, op.type, value.dtype, value.size, source, inputs
            )
            self.series[op.name].pad(len(self.steps) - 1)
        return self.series[op.name]


def _makers(trace: Trace, values: Iterable[Value]) -> list[Op]:
    return [made[0] for value in values if (made := trace.producer(value))]


def ancestors(starts: Iterable[Any], before: Callable[[Any], Iterable[Any]]) -> set[Any]:
    """What some things come from, themselves included; `before` tells what one comes from."""
    found = set(starts)
    waiting = [*found]
    while waiting:
        new = set(before(waiting.pop())) - found
        found |= new
        waiting += new
    return found


class _Measures:
    """What is measured of the tensors of one step, of each once."""

    def __init__(self) -> None:
        self.bytes = 0
        self._known: dict[tuple[int, int], _Measured] = {}

    def of(self, tensor: Any, minus: Any = None, zeros: bool = False) -> _Measured:
        """The measures of a tensor, or of how far it is from another, once `run` has run."""
        key = id(tensor), id(minus)
        if key not in self._known:
            array, other = (t if t is None else readable(t) for t in (tensor, minus))
            self._known[key] = _Measured(array, other)
            self.bytes += 0 if array is None else array.nbytes
        self._known[key].counted |= zeros
        return self._known[key]

    def run(self) -> None:
        """Measure all; much of it on two threads, as TensorFlow's kernels wait meanwhile."""
        every = [each for each in self._known.values() if each.array is not None]
        if self.bytes < WORTH_A_THREAD:
            return _run(every)
        other = Thread(target=_run, args=(every[::2],))
        other.start()
        _run(every[1::2])
        other.join()


def _run(every: Iterable[_Measured]) -> None:
    for each in every:
        each.run()


class _Measured:
    """Size and zeros of one array, or of its distance from another; of None there is neither."""

    norm = zeros = float("nan")  # zeros: the share of entries that are 0
    state = "none"

    def __init__(self, array: Any, minus: Any) -> None:
        self.array, self.minus = array, minus
        self.counted = False  # whether its zeros are asked for

    def run(self) -> None:
        """Measure it: most arrays are read only once."""
        array = self.array
        self.norm = norm(array if self.minus is None else array - self.minus)
        if self.counted or self.norm == 0:
            # Comparing first: counting the zeros of floats directly takes five times as long.
            self.zeros = float(np.count_nonzero(array == 0)) / max(array.size, 1)
        if np.isfinite(self.norm):  # then so are all entries; small ones have squares of 0
            self.state = "zero" if self.norm == 0 and self.zeros == 1 else ""
        else:
            infinite = "inf" if np.isinf(array).any() else ""
            self.state = "nan" if np.isnan(array).any() else infinite


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
        keep: The numbers, from 0, of steps whose whole traces are wanted. Besides them up to 20
            are kept, fewer where those together hold more than 100 MB, and at least the first and
            the last: evenly spread ones, and up to six at which a gradient became, or ceased to
            be, None, zero, NaN or infinite.
        which: The backward pass to follow, where a step has several, as in `trace.passes`.

    Returns:
        A `History`. Per op and recorded step it keeps about 220 bytes, besides the whole traces.

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
    from .recording.api import record

    if not callable(step):
        raise TypeError(f"`step` must be a function without arguments, not {type(step).__name__}")
    wanted = {*_integers("keep", list(keep), 0)}
    _integers("steps", [steps], 1)
    _integers("every", [every], 1)
    name = getattr(step, "__name__", "step")
    history = History(name, which)
    progress = Progress(f"watch of {name}")
    last: tuple[int, Trace] | None = None
    spread: set[int] = set()
    changes = 0  # how many more traces there is space for
    try:
        for i in range(steps):
            progress.doing = f"step {i + 1} of {steps}"
            progress.run()
            if i % every:
                step()
                continue
            with record() as trace:
                step()
            changed, size = history.add(i, trace)
            trace.title = name
            if last is None:
                spread, changes = _places(steps, every, size)
            last = i, trace
            if i in wanted | spread:
                history.traces[i] = trace
            elif changed and changes:
                history.traces[i] = trace
                changes -= 1
    except KeyboardInterrupt:
        history.stopped = True
    finally:
        progress.close()
    if last is not None:
        history.traces[last[0]] = last[1]
    return history


def _places(steps: int, every: int, size: int) -> tuple[set[int], int]:
    """The steps whose traces of `size` bytes are kept, and how many more there is space for."""
    count = 1 + (steps - 1) // every
    space = max(2, min(MOST_TRACES, MOST_BYTES // max(size, 1)))
    spread = count if count <= space else max(2, space - CHANGES)
    found = {every * round(place) for place in np.linspace(0, count - 1, spread)}
    return found, space - len(found)


def _integers(name: str, given: Sequence[Any], least: int) -> Sequence[Any]:
    for x in given:
        if not isinstance(x, int | np.integer) or isinstance(x, bool):
            raise TypeError(f"`{name}` must be made of integers, not {type(x).__name__}: {x!r}")
        if x < least:
            raise ValueError(f"`{name}` is {x}, and must be {least} or more")
    return given
