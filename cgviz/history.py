"""Gradients over time: a training step run many times, and what its gradients did.

    watch     run a step many times, record it, keep what a history needs -> a History
    History   norms and shares per op and per variable over the steps, and a few whole traces
    Series    one op, or one variable, over the recorded steps

A picture of one backward pass shows where a gradient is wrong now. A history shows since when, and
where first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .findings import Progress
from .graph import Array, Op, Trace, Value, differentiates, norm, ratio, readable, wide
from .graph.trace import walk

if TYPE_CHECKING:
    from .diagnosing.diagnosis import Diagnosis
    from .drawing.figure import SpokenFigure
    from .live.view import View

MOST_TRACES = 20  # whole traces kept: as many as the places on a slider that can be told apart
CHANGES = 6  # of these traces, for steps at which something changed; the others are spread evenly
MOST_BYTES = 100_000_000  # of the tensors in these traces: what a small machine has to spare


class Moment(NamedTuple):
    """What a history keeps of an op or a variable at one step; the defaults if it did not run."""

    value: float = np.nan
    gradient: float = np.nan
    local: float = np.nan
    update: float = np.nan
    state: str = "unasked"


@dataclass
class Series:
    """One op or one variable over the recorded steps.

    The attributes from `value` on are lists with an entry per recorded step. Norms are Euclidean
    over all entries, as `numpy.linalg.norm` computes them in the tensor's own type, or in float64
    where its squares overflow or underflow; a float16 or bfloat16 tensor is widened to float32
    first.

    Attributes:
        name: Its name in the traces.
        kind: "op", "custom", "variable" or "input".
        type: TensorFlow's op type.
        dtype: The dtype of its value.
        size: How many numbers its value has.
        source: The line of the learner's code, or "".
        value: The norm of its value before the step.
        gradient: The norm of its gradient (for an op, upstream); NaN where the gradient is None.
        local: The norm of downstream over that of upstream; NaN where either is missing, or
            upstream is 0.
        update: For a variable, the norm of its change in the step, over the norm of its value.
        state: What the gradient is: "none", "zero", "nan", "inf", "" for an ordinary one, or
            "unasked" where the pass did not take it, or it was not part of the step.
    """

    name: str
    kind: str
    type: str
    dtype: str
    size: int
    source: str = ""
    moments: list[Moment] = field(default_factory=list)

    def __getattr__(self, name: str) -> list[Any]:
        if name not in Moment._fields:
            raise AttributeError(f"a Series has no attribute {name!r}")
        return [getattr(moment, name) for moment in self.moments]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *Moment._fields]

    @property
    def rms(self) -> Array:
        """The root mean square of the gradient's entries, which compares layers of any size."""
        return np.asarray(self.gradient) / max(self.size, 1) ** 0.5


class History:
    """What the gradients of a training did: the result of `cgviz.watch`.

    Attributes:
        title: The name of the function that was watched.
        steps: The numbers of the recorded steps, from 0.
        target: The target at each recorded step: the sum of its entries.
        series: Name -> `Series`, in forward order: for each op that the backward pass reached, each
            source whose gradient it took, and each variable that a tape followed.
        traces: Step -> its whole trace, if it was kept.
        ancestors: The names of everything that the target was computed from, in the first step.
        fine: Whether the target and the gradients of each recorded step are without NaN and
            infinity.
        broken: The first recorded step that is not fine, or None.
        last: The trace of the last recorded step.
        stopped: Whether Ctrl-C or an error ended the training before all steps were run.

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

    def __init__(self, title: str = "step", which: int | None = None) -> None:
        self.title = title
        self.which = which
        self.steps: list[int] = []
        self.target: list[float] = []
        self.series: dict[str, Series] = {}
        self.traces: dict[int, Trace] = {}
        self.ancestors: frozenset[str] = frozenset()
        self.fine: list[bool] = []
        self.broken: int | None = None
        self.last: Trace | None = None
        self.stopped = False

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

    def plot(
        self, against: History | None = None, rows: Sequence[str] | None = None
    ) -> SpokenFigure:
        """The target, and below it a map of the gradients' sizes over time.

        Args:
            against: Another history: its target is drawn over this one's, its map below this one's,
                and the title says at which step they part and, if both kept its trace, at which op.
            rows: The names of the ops and variables that the map shows, from top to bottom.

        Returns:
            The figure: above, the target over the steps; below, a row for each variable (and for
            each op, if there are few) whose tone is log10 of its gradient's root mean square, with
            a sign where the gradient is None, zero, NaN or infinite; on the right, how far a step
            moved each variable, over its own norm: the median over the steps that moved it.
            `figure.alt` describes it in words.

        Raises:
            TypeError: `against` is no history.
            ValueError: Nothing was recorded, a name of `rows` was not recorded, or there is no step
                whose trace both histories kept.
        """
        from .drawing import history_figure

        return history_figure.plot(self, against, self._parted(against), rows)

    def view(self, against: History | None = None) -> View:
        """The live picture, with a slider over the steps whose whole traces were kept.

        Beside it are the target over time and a map of the gradients, as in `plot`. A click on a
        cell of the map opens the nearest step that was kept, at that op or variable; a click or
        Enter on the name of a row goes to that op or variable at the step shown.

        Args:
            against: Another history, whose pictures are shown beside those of this one; the view
                says at which step they part and, if both kept its trace, at which op.

        Returns:
            The widget; its `save` writes a page that needs no kernel.

        Raises:
            TypeError: `against` is no history.
            ValueError: Nothing was recorded, or there is no step whose trace both histories kept.
        """
        from .live import training

        return training.view(self, against, self._parted(against))

    def diagnose(self) -> Diagnosis:
        """Say since which step a gradient vanished, died or exploded, or a variable stopped moving.

        Of what goes wrong in a backward pass, it says where first.

        Returns:
            A `Diagnosis`: a sequence of findings, the earliest first; `.ok` where none is an error.

        Raises:
            ValueError: Nothing was recorded.
        """
        from .diagnosing import diagnosis

        return diagnosis.over_time(self)

    def _parted(self, against: History | None) -> str:
        """Check both histories, and say where they part; "" where there is only this one."""
        if not self.steps:
            raise ValueError("nothing was recorded: the history has 0 steps")
        if against is None:
            return ""
        if not isinstance(against, History):
            raise TypeError(f"`against` must be a history, not {type(against).__name__}")
        if not self.traces.keys() & against.traces.keys():
            raise ValueError("there is no step whose trace both histories kept")
        from .diagnosing import diagnosis

        return diagnosis.parted(self, against)

    def __repr__(self) -> str:
        if not self.steps:
            return "history of 0 steps"
        count, early = len(self.steps), ", stopped early" if self.stopped else ""
        several = f"\n{self.note}" if self.note else ""
        return (
            f"history of {count} recorded step{'s' * (count != 1)}, {self.steps[0]} to "
            f"{self.steps[-1]}{early}: target {self.target[0]:.5g} -> {self.target[-1]:.5g}, "
            f"{len(self.variables)} variables, {len(self.ops)} ops, {len(self.traces)} traces kept"
            f"{several}"
        )

    @property
    def note(self) -> str:
        """Which backward pass the history follows, if a step has several; else ""."""
        if self.last is None or len(self.last.passes) == 1:
            return ""
        return (
            f"A step has {len(self.last.passes)} backward passes, and this follows pass "
            f"{self.last.main}: `watch(..., which={int(self.last.main == 0)})` follows another."
        )

    # --- while it runs ---------------------------------------------------------------------------

    def add(self, step: int, trace: Trace) -> tuple[bool, int]:
        """Take what a history needs from the trace of one step.

        Args:
            step: The number of the step.
            trace: The trace of this step.

        Returns:
            Whether a gradient became, or ceased to be, None, zero, NaN or infinite; and how many
            bytes the measured tensors of the trace hold.
        """
        if not trace.passes:
            raise ValueError(
                f"`step` took no gradient at step {step}: it must open its own tape and "
                "call `tape.gradient`. A Keras model needs `compile(..., run_eagerly=True)`"
            )
        trace.main = _followed(trace) if self.which is None else trace.pass_(self.which).index
        trace.title = self.title
        pass_ = trace.pass_(None)
        target = sum(float(np.sum(wide(readable(t.reference)))) for t in pass_.targets)
        known: dict[Any, Measured] = {}  # what is used twice is measured once
        keys = (value.key for value in pass_.sources)
        gradients = dict(zip(keys, pass_.gradient_references, strict=True))
        uses = (use for op in trace.ops for use in zip(op.inputs, op.watched, strict=False))
        on_tape = {value.key for value, watched in uses if watched}
        series = dict(self.series)
        moments: dict[str, Moment] = {}
        for op in trace.ops:
            received = [gradients[v.key] for v in op.outputs if v.key in gradients]
            # This excludes an optimizer's variables: its rate and its moments are on no tape.
            learned = op.kind == "variable" and any(v.key in on_tape for v in op.outputs)
            source = learned or bool(received)
            taken = None if source else pass_.step_of.get(op)
            if not op.outputs or not (source or taken):
                continue
            value = op.outputs[0]
            tensor = after = None
            if value.differentiable:
                tensor, after = value.reference, trace.after.get(op.name)
            upstream, returned = (taken.received, taken.returned) if taken else (received, ())
            size = _measured(known, tensor).norm
            gradient = _measured(known, next((t for t in upstream if t is not None), None))
            down = [_measured(known, t) for t in returned if t is not None]
            whole = float(np.linalg.norm([each.norm for each in down])) if down else np.nan
            moments[op.name] = Moment(
                value=size,
                gradient=gradient.norm,
                local=ratio(whole, gradient.norm) if gradient.norm else np.nan,
                update=ratio(_measured(known, after, tensor).norm, size),
                state=gradient.state if upstream else "unasked",
            )
            if op.name not in series:
                about = op.kind, op.type, value.dtype, value.size, str(op.source or "")
                series[op.name] = Series(op.name, *about, [Moment()] * len(self.steps))
        for name, each in series.items():
            each.moments.append(moments.get(name, Moment()))
        states = {moment.state for moment in moments.values()}
        fine = bool(np.isfinite(target)) and states.isdisjoint(("nan", "inf"))
        found = walk(makers(trace, pass_.targets), lambda op: makers(trace, op.inputs))
        ancestors = self.ancestors or frozenset(op.name for op in found)
        # Last, and together: an interrupt before this point leaves the step out of the history.
        self.steps, self.target = [*self.steps, step], [*self.target, target]
        self.fine = [*self.fine, fine]
        self.series, self.ancestors, self.last = series, ancestors, trace
        self.broken = step if self.broken is None and not fine else self.broken
        changed = any(len({m.state for m in s.moments[-2:]}) > 1 for s in series.values())
        return changed, sum(each.bytes for each in known.values())


def _followed(trace: Trace) -> int:
    """The first pass with respect to variables that no later such pass differentiates."""
    kinds = ({op.kind for op in makers(trace, each.sources)} for each in trace.passes)
    learns = [each for each, found in zip(trace.passes, kinds, strict=True) if "variable" in found]
    inner = {p.index for p in learns for later in learns if differentiates(later, p)}
    return next((each.index for each in learns if each.index not in inner), 0)


def makers(trace: Trace, values: Iterable[Value]) -> list[Op]:
    """The ops that made some values."""
    return [op for value in values if (op := trace.maker(value))]


class Measured(NamedTuple):
    """The measures of an array; the defaults are those of None."""

    norm: float = np.nan
    state: str = "none"
    bytes: int = 0


def _measured(known: dict[Any, Measured], tensor: Any, minus: Any = None) -> Measured:
    """The measures of a tensor.

    Args:
        known: The measures taken so far, to which these are added.
        tensor: By reference, or None.
        minus: A tensor to be subtracted before the norm is taken, or None.
    """
    if tensor is None:
        return Measured()
    key = id(tensor), id(minus)
    if key not in known:
        array = readable(tensor)
        with np.errstate(all="ignore"):  # ∞ − ∞
            size = norm(array if minus is None else array - readable(minus))
        if np.isfinite(size):  # then all entries are, too
            state = "zero" if size == 0 and array.size else ""
        else:
            infinite = "inf" if np.isinf(array).any() else ""
            state = "nan" if np.isnan(array).any() else infinite
        known[key] = Measured(size, state, array.nbytes)
    return known[key]


def watch(
    step: Callable[[], Any],
    steps: int = 50,
    every: int = 1,
    *,
    keep: Iterable[int] = (),
    which: int | None = None,
) -> History:
    """Run a training step many times, and keep what its gradients did.

    The step runs as it always does: it opens its own tape and changes the variables itself. What it
    calls runs eagerly, line by line, while it is recorded (see `cgviz.record`). Ctrl-C ends the
    training and keeps the steps recorded so far. So does an error of the step: it is raised as it
    is, and its attribute `history` is the `History` of the steps before it, if there are any.

    Args:
        step: A function without arguments: one step of training.
        steps: How many times to run it.
        every: Record each `every`-th run, beginning with the first; the others run as they are.
        keep: The numbers, from 0, of steps whose whole traces are wanted. Besides these, up to 20
            traces are kept, or fewer if 20 would hold more than 100 MB: of evenly spread steps, and
            of up to six at which a gradient became, or ceased to be, None, zero, NaN or infinite.
            The first recorded step, the last, and the first with NaN or infinity are among these.
        which: The backward pass to follow, if a step has several: its index in `trace.passes`. None
            is the first pass with respect to variables that no later such pass differentiates: for
            a gradient penalty, the outer one.

    Returns:
        A `History`. Besides the whole traces it takes about 240 bytes per op and recorded step.

    Raises:
        TypeError: `step` is not callable, or `keep` is not iterable.
        ValueError: `steps` or `every` is no integer of at least 1, `keep` names a step that is not
            recorded, or the step takes no gradient.

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
    from . import record  # the package says what to install if there is no TensorFlow

    if not callable(step):
        raise TypeError(f"`step` must be a function without arguments, not {type(step).__name__}")
    for argument, x in (("steps", steps), ("every", every)):
        if not isinstance(x, Integral) or x < 1:
            raise ValueError(f"`{argument}` is {x!r}, and must be an integer of at least 1")
    if not isinstance(keep, Iterable):
        raise TypeError(f"`keep` is {keep!r}, and must be a list of integers, as in `keep=[3]`")
    wanted = set()
    for x in keep:
        if x not in range(0, steps, every):
            raise ValueError(
                f"an entry of `keep` is {x!r}, and no such step is recorded: {steps} steps run "
                f"from 0 on, and every={every} records one in {every}"
            )
        wanted.add(x)
    history = History(getattr(step, "__name__", "step"), which)
    progress = Progress(f"watch of {history.title}")
    changes = 0  # how many more traces may be kept of steps at which something changed
    recorded = None
    try:
        for i in range(steps):
            progress.doing = f"step {i + 1} of {steps}"
            progress.run()
            with nullcontext() if i % every else record() as recorded:
                step()
            if recorded is None:
                continue
            changed, size = history.add(i, recorded)
            if len(history) == 1:
                spread, changes = _places(steps, every, size)
                wanted |= spread
            if i in wanted or i == history.broken or (changed and changes):
                history.traces[i] = recorded
                changes -= i not in wanted and i != history.broken
    except KeyboardInterrupt:
        history.stopped = True
    except Exception as error:  # such as None from the tape, times the rate
        with suppress(Exception):  # the learner's own error is what matters
            if recorded is not None and recorded.passes and (found := recorded.diagnose()):
                error.add_note(str(found))
        with suppress(Exception):
            # An attribute of this name may be the error's own, and is not overwritten.
            if len(history) and isinstance(getattr(error, "history", history), History):
                history.stopped = True
                error.history = history  # type: ignore[attr-defined]
                kept = "`import sys; history = sys.last_value.history` in a notebook"
                error.add_note(f"This was step {i}. What was recorded before it is kept: {kept}.")
        raise
    finally:
        progress.close()
        for series in history.series.values():  # drop what was measured of an unfinished step
            del series.moments[len(history) :]
        if history.last is not None:
            history.traces[history.steps[-1]] = history.last
    return history


def _places(steps: int, every: int, size: int) -> tuple[set[int], int]:
    """The steps whose traces of `size` bytes are kept, and how many more there is space for."""
    count = 1 + (steps - 1) // every
    space = max(2, min(MOST_TRACES, MOST_BYTES // max(size, 1)))
    spread = count if count <= space else max(2, space - CHANGES)
    found = {every * round(place) for place in np.linspace(0, count - 1, spread)}
    return found, space - len(found)
