"""One check being made: f, what a recorded run showed of it, and the point it is judged at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from ..graph import Array, Op, Trace
from ..recording import api, arguments, source, tf_hooks
from ..recording.build import variable_name
from ..recording.events import CallEvent, OpEvent, PassEvent
from . import state
from .comparison import Map
from .report import Ledger
from .subject import Subject
from .twice import Upstream, pull_twice, slope

_EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_SLACK = {"float64": 1e-4, "float32": 5e-3, "float16": 0.05, "bfloat16": 0.1}


@dataclass(frozen=True, eq=False)
class CustomStep:
    """One custom rule as it ran in the backward pass, to be run again with other upstreams."""

    name: str
    event: CallEvent
    upstream: tuple[Any, ...]
    downstream: tuple[Any, ...]

    @property
    def where(self) -> str:
        """The name, and the line of the rule."""
        found = source.definition(getattr(self.event.grad_fn, "__code__", None))
        return f"the rule of `{self.name}`" + (f" (line {found.line})" if found else "")

    @property
    def code(self) -> Any:
        """What two calls of the same rule have in common."""
        return getattr(self.event.grad_fn, "__code__", self.event.grad_fn)


@dataclass
class Case:
    """One check being made."""

    f: Callable[..., Any]
    subject: Subject  # at the arguments' own dtype
    ledger: Ledger
    order: int = 1
    surrogate: bool = False
    judged: Subject = field(init=False)  # in float64 where f allows it
    trace: Trace | None = None
    steps: Sequence[CustomStep] = ()
    error: BaseException | None = None  # what the first run raised
    targets: Sequence[Any] = ()
    printed: bool = False
    deterministic: bool = True
    written: Sequence[str] = ()  # variables and names that a run changes
    linear: bool = True
    eps: float = _EPS["float32"]

    def __post_init__(self) -> None:
        self.judged = self.subject

    @property
    def title(self) -> str:
        """What is checked."""
        return arguments.title(self.f)

    @property
    def custom(self) -> list[Op]:
        """The custom ops at any depth."""
        if self.trace is None:
            return []
        return [op for op in _walk(self.trace.ops) if op.kind == "custom" or op.rule_dropped]

    @property
    def slack(self) -> float:
        """The relative error that a right claim may have."""
        return next(s for name, s in _SLACK.items() if _EPS[name] >= self.eps * 0.9)

    def places(self) -> tuple[Callable[[int], str], Callable[[int], str]]:
        """How to name an entry of the outputs, and one of the inputs."""
        judged, targets = self.judged, self.targets
        return lambda i: judged.out_place(i, targets), judged.in_place

    def first_order(self) -> Map:
        """f itself as a map, with the gradient that its rules claim."""
        judged = self.judged
        return Map(
            judged.x,
            judged.scale,
            judged.forward,
            lambda u: judged.pull(lambda targets: judged.split(u, targets)).vector,
            self.eps,
            self.slack,
            None if self.eps < 1e-10 else lambda u: wobble(judged, u, self.eps),
        )

    def second_order(self, upstream: Upstream) -> Map:
        """Upstream · df/dx as a map, with the second derivative that the rules claim."""
        judged = self.judged
        return Map(
            judged.x,
            judged.scale,
            slope(judged, upstream),
            lambda w: pull_twice(judged, upstream, w).vector,
            self.eps,
            10 * self.slack,
            None,
        )


def wobble(subject: Subject, upstream: Array, eps: float) -> Array:
    """By how much the claimed gradient moves when the last bits of the inputs do.

    What rounding the inputs alone can do to a gradient is nobody's mistake: near a singular
    matrix it is much.
    """
    random = np.random.default_rng(3)
    seeds = lambda targets: subject.split(upstream, targets)  # noqa: E731
    here = subject.pull(seeds).vector
    moved = np.zeros(here.size)
    for signs in random.choice([-1.0, 1.0], size=(2, here.size)):
        there = subject.pull(seeds, subject.x * (1 + 2 * eps * signs)).vector
        moved = np.fmax(moved, np.abs(there - here))
    return moved


def upstream(case: Case) -> Array:
    """The one upstream that f is given in every place."""
    size = case.subject.y.size
    return np.ones(1) if size == 1 else np.random.default_rng(13).uniform(0.5, 1.5, size)


def _walk(ops: Sequence[Op]) -> list[Op]:
    return [each for op in ops for each in (op, *_walk(op.body))]


# --- the first run -----------------------------------------------------------------------------


def first_run(case: Case, variables: dict[int, tuple[Any, Any]]) -> None:
    """Run f once under a recording, and learn what it is made of; note what it raises."""
    subject = case.subject
    given = subject.arguments(subject.x)
    with tf_hooks.recording(True) as recording:
        try:
            recorded = api.trace(case.f, *given)
        except Exception as error:
            case.error = error
        log = recording.events()
    touched = {id(v): v for v in recording.recorder.variables.values()}
    for key, variable in touched.items():
        variables.setdefault(key, (variable, tf.identity(variable)))
    if case.error is None:
        case.trace = recorded
        case.steps = _custom_steps(log)
    own = {id(leaf.source) for leaf in subject.leaves}
    handles = {id(v.handle): v for v in touched.values() if hasattr(v, "handle")}
    assigned = {
        variable_name(handles[id(event.inputs[0])])
        for event in log
        if isinstance(event, OpEvent) and event.type.startswith("Assign")
        if event.inputs and id(event.inputs[0]) in handles
    }
    changed = {variable_name(v) for v in state.restore(variables)}
    case.written = sorted(assigned | changed)
    read = [v for k, v in touched.items() if v.trainable and k not in own]
    read = [v for v in read if arguments.can_be_watched(v)]
    if read:
        case.subject = Subject(case.f, subject.given, subject.names, read)
        case.subject.on_run = subject.on_run
        case.judged = case.subject


def _custom_steps(log: Sequence[Any]) -> list[CustomStep]:
    found = []
    for each in log:
        if isinstance(each, PassEvent):
            for event, upstream, downstream in each.steps():
                if isinstance(event, CallEvent) and event.grad_fn is not None:
                    found.append(CustomStep(event.type, event, tuple(upstream), tuple(downstream)))
    return found


# --- the point it is judged at -----------------------------------------------------------------


def widen(case: Case) -> None:
    """Judge f in float64 if it runs there and means the same."""
    subject = case.subject
    case.eps = max(map(eps_of, [leaf.source.dtype for leaf in subject.leaves]), default=2.0**-52)
    if subject.wide or not subject.leaves:
        case.eps = max(case.eps, _coarsest(case.trace))
        return
    try:
        wide = subject.widened()
        here, there = subject.forward(subject.x), wide.forward(wide.x)
        wide.pull()
        trace = api.trace(case.f, *wide.arguments(wide.x))
    except Exception:
        return
    if here.shape != there.shape:
        return
    finite = np.isfinite(here) & np.isfinite(there)
    size = np.max(np.abs(there[finite]), initial=0.0)
    if np.any(np.abs(here - there)[finite] > 0.05 * size + 1e-30):
        return  # f does something else in float64, so that judges nothing
    case.judged = wide
    case.eps = _coarsest(trace)


def eps_of(dtype: Any) -> float:
    """The relative rounding error of a TensorFlow dtype."""
    name = {"complex64": "float32", "complex128": "float64"}.get(dtype.name, dtype.name)
    return _EPS.get(name, 2.0**-7)


def _coarsest(trace: Trace | None) -> float:
    """The rounding error of the coarsest op of a trace: f may cast to less inside."""
    if trace is None:
        return _EPS["float32"]
    names = {"complex64": "float32", "complex128": "float64"}
    dtypes = {
        names.get(value.dtype, value.dtype)
        for op in _walk(trace.ops)
        if op.kind in ("op", "custom") and op.type != "Cast"
        for value in op.outputs
    }
    # A cast up of a variable rounds nothing; a cast down does.
    dtypes |= {
        names.get(op.outputs[0].dtype, op.outputs[0].dtype)
        for op in _walk(trace.ops)
        if op.type == "Cast" and op.inputs[0].dtype in ("float64", "complex128")
    }
    return max((_EPS[name] for name in dtypes if name in _EPS), default=_EPS["float64"])
