"""What a recording becomes: Trace, Op, Step, Pass and Value, frozen records of NumPy numbers.

No TensorFlow and no drawing here. A record holds a tensor by reference and turns it into NumPy
when it is read, so a recording costs no copy and whoever draws needs no framework.

    Value   one tensor: its shape and dtype, and its numbers when asked
    Op      one op of the forward pass (or an input, a variable, a constant)
    Step    one op's backward rule as it ran: upstream in, downstream out
    Pass    one backward pass: its steps in execution order
    Trace   all of it, with the doors to the other rooms: table, chain rule, picture, file
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .diagnosing.findings import Diagnosis
    from .reading.chain import ChainRule
    from .reading.table import Table
    from .screen.view import View

Array = np.ndarray[Any, Any]


def as_numpy(reference: Any) -> Array | None:
    """The numbers behind a reference: an array, or anything with `.numpy()`; None stays None."""
    if reference is None or isinstance(reference, np.ndarray):
        return reference
    return np.asarray(reference.numpy() if hasattr(reference, "numpy") else reference)


@dataclass(frozen=True, eq=False)
class Source:
    """Where in the learner's own code something happened."""

    file: str
    line: int
    text: str  # the line, without its indentation

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.text else f"line {self.line}"


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
        array = as_numpy(self.reference)
        assert array is not None
        return array


@dataclass(frozen=True, eq=False)
class Op:
    """One op as it ran forward, or one of the things that ops start from.

    kind is "op", "custom" (a `tf.custom_gradient` call: one node, its `.body` kept), "variable",
    "input" (an argument, or what a tape watched) or "constant".
    """

    name: str  # unique in the trace: the learner's own where it can be found
    kind: str
    type: str  # TensorFlow's op type, or the custom function's name
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    source: Source | None = None
    scope: str = ""
    body: tuple[Op, ...] = ()
    rule: Source | None = None  # where a custom op's backward rule is written
    rule_variables: tuple[str, ...] = ()  # variables handed to the rule, in TensorFlow's order
    captured: tuple[Value, ...] = ()  # used in the body, made outside: silently no gradient
    watched: tuple[bool, ...] = ()  # per input: did a tape follow it here
    recorded: bool = False  # is this op on a tape at all
    rule_missing: bool = False  # TensorFlow has no gradient for this op type
    rule_dropped: bool = False  # a custom rule that TensorFlow dropped: called by keyword

    def __repr__(self) -> str:
        return f"<Op {self.name}: {self.kind} {self.type}>"


class Step:
    """One op's backward rule as it ran: `downstream = upstream x local`.

    `upstream[i]` is the gradient that reached output i, `downstream[j]` what was handed back to
    input j, `local[i][j]` the Jacobian d output i / d input j that the rule claims; each a NumPy
    array or None where nothing flows. A step is one use of its inputs: a tensor used twice has
    two `downstream` values, and their sum is its upstream.
    """

    def __init__(
        self,
        op: Op,
        upstream: Sequence[Any],
        downstream: Sequence[Any],
        pull: Callable[[Sequence[Array | None]], Sequence[Any]] | None = None,
        local: Any = None,
    ) -> None:
        self.op = op
        self._upstream = tuple(upstream)
        self._downstream = tuple(downstream)
        self._pull = pull
        self._local = local

    def __repr__(self) -> str:
        return f"<Step {self.op.name}>"

    @property
    def upstream(self) -> tuple[Array | None, ...]:
        """The gradient that reached each output."""
        return tuple(as_numpy(t) for t in self._upstream)

    @property
    def downstream(self) -> tuple[Array | None, ...]:
        """What the rule handed back to each input."""
        return tuple(as_numpy(t) for t in self._downstream)

    @property
    def received(self) -> tuple[Any, ...]:
        """`upstream` by reference, as it was recorded."""
        return self._upstream

    @property
    def flows(self) -> tuple[bool, ...]:
        """Per input: whether anything was handed back. Costs nothing, unlike `downstream`."""
        return tuple(t is not None for t in self._downstream)

    @property
    def local(self) -> tuple[tuple[Any, ...], ...]:
        """`local[i][j]`: the Jacobian of output i by input j, as the backward rule claims it.

        Found by running the rule again, once per entry of the output, with a unit vector as
        upstream. For a large tensor it is a `jacobian.LargeJacobian` that says so.
        """
        if self._local is None:
            from .reading import jacobian

            self._local = jacobian.local_jacobians(self)
        return self._local

    def vjp(self, upstream: Sequence[Array | None]) -> tuple[Array | None, ...]:
        """Run the backward rule once more with another upstream, one entry per output."""
        if self._pull is None:
            raise RuntimeError(
                f"the backward rule of `{self.op.name}` cannot run again: this trace was read "
                "from a file, which keeps numbers and no rules. Trace the function again."
            )
        try:
            return tuple(as_numpy(t) for t in self._pull(upstream))
        except Exception as error:
            raise RuntimeError(
                f"`.local` runs the backward rule of `{self.op.name}` again, and it failed this "
                f"time: {error} A rule that uses a tape of its own can run once only, unless that "
                "tape is persistent."
            ) from error


class Pass:
    """One backward pass: a call of `tape.gradient`, its steps in execution order."""

    def __init__(
        self,
        index: int,
        targets: tuple[Value, ...],
        seeds: Sequence[Any],
        sources: tuple[Value, ...],
        gradients: Sequence[Any],
        steps: tuple[Step, ...],
        ops: Callable[[], tuple[Op, ...]],
        arrived: Mapping[int, Any],
        note: str = "",
    ) -> None:
        self.index = index
        self.targets = targets
        self.sources = sources
        self.steps = steps
        self.note = note
        self._seeds = tuple(seeds)
        self._gradients = tuple(gradients)
        self._ops = ops
        self._arrived = arrived

    def __repr__(self) -> str:
        return f"<Pass {self.index}: {len(self.steps)} steps>"

    @property
    def target(self) -> tuple[Value, ...]:
        """What was differentiated."""
        return self.targets

    @property
    def seeds(self) -> tuple[Array | None, ...]:
        """The upstream each target started with: `output_gradients`, or ones."""
        return tuple(
            np.ones(t.shape, t.dtype) if s is None else as_numpy(s)
            for t, s in zip(self.targets, self._seeds, strict=True)
        )

    @property
    def gradients(self) -> tuple[Array | None, ...]:
        """One gradient per source, as `tape.gradient` returned it."""
        return tuple(as_numpy(t) for t in self._gradients)

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """The ops that this backward pass itself ran, in execution order."""
        return self._ops()

    def upstream(self, value: Value) -> Array | None:
        """All that reached `value` in this pass: the sum over the paths; None if nothing did."""
        if value.key in self._arrived:
            return as_numpy(self._arrived[value.key])
        total = None
        for _, _, contribution in self.contributions(value):
            total = contribution if total is None else total + contribution
        return total

    def contributions(self, value: Value) -> list[tuple[Step, int, Array]]:
        """What each use of `value` handed back to it: (step, input position, gradient)."""
        found = []
        for step, position in self._uses.get(value.key, ()):
            if step.flows[position]:
                found.append((step, position, step.downstream[position]))
        return found  # type: ignore[return-value]

    @cached_property
    def _uses(self) -> dict[int, list[tuple[Step, int]]]:
        uses: dict[int, list[tuple[Step, int]]] = {}
        for step in self.steps:
            for position, value in enumerate(step.op.inputs):
                uses.setdefault(value.key, []).append((step, position))
        return uses

    @cached_property
    def step_of(self) -> dict[Op, Step]:
        """The step of each op that took part in this pass."""
        return {step.op: step for step in self.steps}


def _with_bodies(ops: Sequence[Op]) -> Iterator[Op]:
    """Ops, each followed by those of its body."""
    stack = list(reversed(ops))
    while stack:
        op = stack.pop()
        yield op
        stack.extend(reversed(op.body))


def _by_output(ops: Iterable[Op]) -> dict[int, tuple[Op, int]]:
    found: dict[int, tuple[Op, int]] = {}
    for op in ops:
        for position, value in enumerate(op.outputs):
            found.setdefault(value.key, (op, position))
    return found


@dataclass(frozen=True, eq=False)
class Content:
    """All that a trace holds, once it is read."""

    title: str
    value: Any
    gradients: tuple[Any, ...]
    variables: dict[str, Array | None]
    ops: tuple[Op, ...]
    passes: tuple[Pass, ...]
    main: int = 0  # which pass `trace.steps` shows
    asked: bool = False  # the code's own tape chose what to differentiate, as in `record()`


class Trace:
    """What TensorFlow did, forward and backward: the result of `cgviz.trace` and `cgviz.record`."""

    def __init__(self, content: Callable[[], Content] | Content) -> None:
        self._make = content

    @cached_property
    def _content(self) -> Content:
        made = self._make() if callable(self._make) else self._make
        del self._make
        return made

    @property
    def title(self) -> str:
        """What was traced: the function's name."""
        return self._content.title

    @property
    def asked(self) -> bool:
        """Whether the recorded code chose what to differentiate; `trace` takes all arguments."""
        return self._content.asked

    @property
    def value(self) -> Any:
        """f's value, as NumPy; for `record()` the target of the first backward pass."""
        return self._content.value

    @property
    def gradients(self) -> tuple[Any, ...]:
        """One gradient or None per positional argument; for `record()` per source."""
        return self._content.gradients

    @property
    def variables(self) -> dict[str, Array | None]:
        """The gradient of each trainable variable, by its name."""
        return self._content.variables

    @property
    def ops(self) -> tuple[Op, ...]:
        """The forward ops in execution order, with the inputs, variables and constants."""
        return self._content.ops

    @property
    def passes(self) -> tuple[Pass, ...]:
        """Every backward pass, in the order they ran."""
        return self._content.passes

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the first backward pass, in execution order."""
        return self.pass_(None).steps if self.passes else ()

    def pass_(self, which: int | None) -> Pass:
        """The backward pass number `which`; None is the one that `steps` shows."""
        passes = self.passes
        if not passes:
            raise ValueError(
                "this trace has no backward pass: call `tape.gradient` inside the recording"
            )
        index = self._content.main if which is None else which
        if not -len(passes) <= index < len(passes):
            raise ValueError(
                f"`which` is {which}, but this trace has {len(passes)} backward "
                f"pass{'es' if len(passes) > 1 else ''}: 0 to {len(passes) - 1}"
            )
        return passes[index]

    @cached_property
    def _producers(self) -> dict[int, tuple[Op, int]]:
        return _by_output(_with_bodies(self.ops))

    @cached_property
    def _pass_producers(self) -> dict[int, tuple[Op, int]]:
        return _by_output(op for each in self.passes for op in _with_bodies(each.ops))

    def producer(self, value: Value) -> tuple[Op, int] | None:
        """The op that made `value` and which of its outputs it is."""
        # What only a pass may have made is looked up last: its ops can cost a second run.
        return self._producers.get(value.key) or self._pass_producers.get(value.key)

    def walk(self) -> Iterator[Op]:
        """Every op: forward, inside the bodies of custom ops, and of the backward passes."""
        yield from _with_bodies(self.ops)
        for each in self.passes:
            yield from _with_bodies(each.ops)

    # The doors: each imports its room when it is first used.

    def table(self, which: int | None = None, *, full: bool = False) -> Table:
        """The backward table: one row per step, with upstream, local and downstream."""
        from .reading import table

        return table.table(self, which, full=full)

    def chain_rule(self, which: int | None = None) -> ChainRule:
        """The chain rule with this trace's numbers, as LaTeX: products along paths, their sum."""
        from .reading import chain

        return chain.chain_rule(self, which)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        step: int | None = None,
        which: int | None = None,
        full: bool = False,
        kind: Literal["flow", "range"] = "flow",
    ) -> Axes:
        """Draw the flow of the gradient; with `kind="range"` the magnitudes and their limits."""
        if kind == "range":
            from .diagnosing import range_figure

            if step is not None or full:
                raise ValueError('`step` and `full` belong to kind="flow"')
            return range_figure.plot(self, ax, which=which)
        if kind != "flow":
            raise ValueError(f'`kind` must be "flow" or "range", not {kind!r}')
        from .drawing import figure

        return figure.plot(self, ax, step=step, which=which, full=full)

    def diagnose(self, which: int | None = None) -> Diagnosis:
        """Where a gradient became None, zero, NaN, infinite, tiny or huge, and why, in words."""
        from .diagnosing import doctor

        return doctor.diagnose(self, which)

    def view(
        self, *, which: int | None = None, full: bool = False, against: Trace | None = None
    ) -> View:
        """The live picture: step through the passes, open cards; `against` shows another beside."""
        from .screen import view

        return view.view(self, which=which, full=full, against=against)

    def save(self, path: Any) -> None:
        """Write the trace: `.html` live, `.svg .png .pdf` the picture, `.json` all of it."""
        from .files import export

        export.save(self, path)

    def __repr__(self) -> str:
        from .reading import sheet

        return sheet.text(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        from .screen import view

        return view.bundle(self)

    def _display_(self) -> View:
        """What marimo shows, which has no IPython kernel."""
        return self.view()
