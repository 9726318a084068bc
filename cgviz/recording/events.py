"""What a recording notes while code runs: plain events, in execution order.

They hold tensors by reference, and this module needs no TensorFlow. `tf_hooks` makes them, `build`
reads them. Each is one object with slots, because the garbage collector visits every object that a
recording makes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any

from .source import NOWHERE, Place

# Called with each exception that leaves `trace` or `record`; `cgviz` adds its hints here.
on_error: list[Callable[[Exception], object]] = []


@dataclass(slots=True, eq=False)
class Body:
    """The forward body of one call of a custom-gradient function."""

    outer: Any
    has_rule: bool = False  # False if the body raised, or if TensorFlow dropped the rule: then
    # the body itself is differentiated


@dataclass(slots=True, eq=False)
class OpEvent:
    """One op as it ran: what it was, what went in and out, and where in the code."""

    type: str
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    attrs: Any = ()
    where: Any = None  # the container it ran in: a Body, a PassEvent, a RuleEvent, or None
    scope: str | None = ""
    watched: tuple[bool, ...] = ()  # whether a tape follows each input; () if none is recording
    place: Place = NOWHERE


@dataclass(slots=True, eq=False, kw_only=True)
class CallEvent(OpEvent):
    """A call that TensorFlow records as a whole: a custom gradient or a closed `tf.function`."""

    rule: Callable[..., Any]
    body: Body | None = None
    grad_fn: Callable[..., Any] | None = None  # the rule as its author wrote it
    variables: Sequence[Any] = ()  # variables given to the rule, in TensorFlow's order


@dataclass(slots=True, eq=False)
class PassEvent:
    """One backward pass: a call of `tape.gradient`."""

    outer: Any
    targets: Sequence[Any]
    seeds: Sequence[Any] | None
    sources: Sequence[Any]
    result: Sequence[Any] | None = None  # None when the pass raised
    # Three entries per rule that ran: what ran, its upstream, its downstream. What ran is a
    # CallEvent or, for a built-in op, the arguments that TensorFlow gave to the op's rule.
    noted: list[Any] = field(default_factory=list)
    place: Place = NOWHERE

    def steps(self) -> Iterator[tuple[Any, Sequence[Any], Sequence[Any]]]:
        """The entries of `noted`: what ran, its upstream and its downstream, rule by rule."""
        for ran, upstream, given in zip(*[iter(self.noted)] * 3, strict=True):
            yield ran, upstream, given if isinstance(given, list | tuple) else [given]


@dataclass(slots=True, eq=False)
class RuleEvent:
    """One run of a custom rule inside a pass: the container of the ops that the rule runs."""

    outer: PassEvent
    op: CallEvent


@dataclass(slots=True, eq=False)
class NoteEvent:
    """A difference between the recorded run and a plain run, or something not recorded."""

    what: str  # "opened", "closed" (both name a `tf.function`) or "jacobian"
    name: str = ""


def current_task() -> Any:
    """The asyncio task that is running; None outside of any task."""
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop runs
        return None


class ThreadRecorder:
    """What is recorded on one thread: its events, and the container (`where`) of the next event."""

    def __init__(self) -> None:
        self.thread = get_ident()
        self.task = current_task()
        self.recordings: list[Recording] = []  # nested, sharing this recorder; empty: closed
        self.events: list[OpEvent | PassEvent | NoteEvent] = []
        self.where: Any = None
        self.finished: Body | None = None  # a custom body that ended, its CallEvent still to come
        self.variables: dict[int, Any] = {}  # by the id of their handle
        self.handles: list[Any] = []  # kept alive, so that their ids are not used again
        # If asked for: each variable, by its id, with its value before it was first touched.
        self.before: dict[int, tuple[Any, Any]] | None = None
        self.graph_only: set[Any] = set()  # the `tf.function`s that cannot run opened
        self.left_to_python = False  # whether C++ asked for a handle and was given None

    def beside(self) -> ThreadRecorder:
        """A recorder of the same recordings for another thread; the two threads run in turns."""
        other = copy(self)
        other.finished = None
        return other

    def know(self, variable: Any, handle: Any) -> None:
        """Remember which variable a handle belongs to."""
        if id(handle) not in self.variables:
            self.handles.append(handle)
            self.variables[id(handle)] = variable


@dataclass(slots=True, eq=False)
class Recording:
    """One recording: where it begins among its recorder's events, and its outermost container."""

    recorder: ThreadRecorder
    start: int
    root: Any
    open_functions: bool

    def events(self) -> list[OpEvent | PassEvent | NoteEvent]:
        """The events since the recording began."""
        return self.recorder.events[self.start :]
