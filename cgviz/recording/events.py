"""What a recording notes while code runs: plain events, in execution order.

They hold tensors by reference and nothing of TensorFlow's. `tf_hooks` makes them, `builder` reads
them. Slots and no closures: the garbage collector walks every object that a recording makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any


class Body:
    """The forward body of one call of a custom-gradient function."""

    __slots__ = ("flat", "outer")

    def __init__(self, outer: Any) -> None:
        self.outer = outer
        self.flat = False  # the rule never reached the tape, so the body itself is the gradient


class OpEvent:
    """One op as it ran: what it was, what went in and out, and where in the code."""

    __slots__ = (
        "attrs",
        "code",
        "inputs",
        "lasti",
        "outputs",
        "scope",
        "type",
        "watched",
        "where",
    )

    def __init__(
        self,
        type: str,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        attrs: Any,
        where: Any,
        scope: str | None,
        frame: FrameType | None,
    ) -> None:
        self.type = type
        self.inputs = inputs
        self.outputs = outputs
        self.attrs = attrs
        self.where = where
        self.scope = scope
        if frame is None:
            self.code, self.lasti = None, 0
        else:
            self.code, self.lasti = frame.f_code, frame.f_lasti
        self.watched = 0  # which inputs a tape follows, one bit each; 0: not on any tape

    def follows(self, position: int) -> bool:
        """Whether a tape follows this input."""
        return bool(self.watched >> position & 1)


class CallEvent(OpEvent):
    """A call that TensorFlow records by itself: a custom gradient or a closed `tf.function`."""

    __slots__ = ("body", "grad_fn", "rule", "variables")

    def __init__(self, *args: Any, rule: Callable[..., Any]) -> None:
        super().__init__(*args)
        self.rule = rule
        self.body: Body | None = None
        self.grad_fn: Callable[..., Any] | None = None
        self.variables: Sequence[Any] = ()


class PassEvent:
    """One backward pass: a call of `tape.gradient`."""

    __slots__ = (
        "code",
        "lasti",
        "noted",
        "outer",
        "quiet",
        "result",
        "seeds",
        "sources",
        "targets",
    )

    def __init__(self, outer: Any, targets: Any, seeds: Any, sources: Any, quiet: bool) -> None:
        self.outer = outer
        self.targets = targets
        self.seeds = seeds
        self.sources = sources
        self.quiet = quiet  # no tape sees this pass, so the ops of built-in rules are not noted
        self.result: Any = None
        self.noted: list[Any] = []  # op, upstream, downstream; op, upstream, downstream; ...
        self.code: CodeType | None = None
        self.lasti = 0

    def steps(self) -> Iterator[tuple[OpEvent, Sequence[Any], Sequence[Any]]]:
        """Each op whose rule ran, with its upstream and downstream."""
        return zip(self.noted[::3], self.noted[1::3], self.noted[2::3], strict=True)


class RuleEvent:
    """One run of a custom rule inside a pass: the container of the ops that the rule runs."""

    __slots__ = ("op", "outer")

    def __init__(self, outer: PassEvent, op: CallEvent) -> None:
        self.outer = outer
        self.op = op


class Hub:
    """What one thread records: its log, and the container (`where`) that new events belong to."""

    def __init__(self) -> None:
        self.log: list[OpEvent | PassEvent] = []
        self.where: Any = None
        self.finished: Body | None = None  # a custom body whose record is still to come
        self.variables: dict[int, Any] = {}  # by id of their handle
        self.handles: list[Any] = []  # keeps those ids from being used again
        self.dropped: dict[int, CallEvent] = {}  # calls whose rule has no effect, by their output's
        self.touched: list[tuple[Any, int]] = []  # whose handle was asked for since the last op
        self.snapshots: dict[int, Any] = {}  # by id of the event that read a handle in passing
        self.absorbed: set[int] = set()  # ids of events that another event stands for
        self.open_functions: list[bool] = []
        self.muted = False
        self.callback: Callable[..., None] | None = None

    def know(self, variable: Any, handle: Any) -> None:
        """Remember which variable a handle belongs to."""
        if id(handle) not in self.variables:
            self.handles.append(handle)
            self.variables[id(handle)] = variable
